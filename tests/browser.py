"""A headless Chromium, driven by the DevTools protocol: what the tests of pages need of it, and no more."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = Path("results/pages")
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, " ": 32, "Escape": 27}

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium); .ci/run installs it"
)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with an empty profile, closed at the end."""
    assert CHROMIUM is not None
    profile = tempfile.mkdtemp(prefix="kleene-chromium-")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    options += ["--disable-features=IsolateSandboxedIframes"]  # so that tests can look into a notebook's frames
    process = subprocess.Popen(
        [CHROMIUM, *options, "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={profile}"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, "HOME": profile},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        lines = (re.search(r"ws://127.0.0.1:(\d+)/\S*", line) for line in process.stderr)
        found = next(filter(None, lines), None)
        assert found is not None, "Chromium ended before it listened"
        yield Browser(found[0])
    finally:
        process.terminate()
        process.wait(timeout=20)
        shutil.rmtree(profile, ignore_errors=True)


class Browser:
    """One tab. Errors and console messages since the page was opened are in `complaints`."""

    def __init__(self, address: str) -> None:
        import websocket

        self._socket = websocket.create_connection(address, timeout=30)
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its answer; events that come first are looked at."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        method, content = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            detail = content["exceptionDetails"]
            self.complaints.append(detail.get("exception", {}).get("description") or detail["text"])
        elif method == "Runtime.consoleAPICalled" and content["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([argument.get("value") for argument in content["args"]]))
        elif method == "Log.entryAdded" and content["entry"]["level"] in ("error", "warning"):
            self.complaints.append(content["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(content["request"]["url"])

    def do(self, script: str) -> Any:
        """The value of a JavaScript expression on the page; promises are waited for."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(
        self, path: Path, *, width: int = 1280, height: int = 820, dark: bool = False, phone: bool = False
    ) -> float:
        """Open a page, wait until it can be used, and say how many milliseconds that took."""
        self.complaints, self.requests = [], []
        ratio = 2 if phone else 1
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=ratio, mobile=phone
        )
        self.ask("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=path.resolve().as_uri())
        return self.wait("document.documentElement.dataset.ready")

    def wait(self, script: str, seconds: float = 20) -> Any:
        """Wait until an expression is true; its value."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(AssertionError):  # the page may just be changing
                if (value := self.do(script)) not in (None, False, ""):
                    return float(value) if isinstance(value, str) and value.isdigit() else value
            time.sleep(0.02)
        raise AssertionError(f"never true: {script}; complaints: {self.complaints}")

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key, as if it was pressed."""
        text = {"text": key} if len(key) == 1 else {}
        code = KEYS.get(key, ord(key[0].upper()))
        common = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector: str) -> None:
        """A click in the middle of the first element that a selector finds."""
        x, y = self.do(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'nearest', inline: 'nearest'}); const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def text(self, selector: str) -> str:
        """The text of the first element that a selector finds."""
        return str(self.do(f"document.querySelector({json.dumps(selector)}).textContent"))

    def screenshot(self, name: str) -> Path:
        """A picture of what is seen, in the results folder."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
        return path
