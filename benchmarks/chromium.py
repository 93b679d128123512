"""A headless Chromium, driven over its debugging pipe: what the tests and benchmarks of pages need, and no more."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE = 60  # seconds that an answer may take
KEYS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
    " ": 32,
    "Escape": 27,
    "Tab": 9,
}
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-features=IsolateSandboxedIframes",  # so that a notebook's frames can be looked into
)

# The pipe must be file 3 for what Chromium reads and 4 for what it writes; first out of the way, as they may be either.
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class BrowserError(Exception):
    """What the browser, or a script on a page, complained about."""


def find_chromium() -> str | None:
    """Where Chromium is, if it is installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with an empty profile, closed at the end."""
    program = find_chromium()
    if program is None:
        raise BrowserError("Chromium is not installed (Debian: apt-get install chromium)")
    (its_input, our_output), (our_input, its_output) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="kleene-chromium-", ignore_cleanup_errors=True) as profile:
        ends = (str(its_input), str(its_output))
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *ends, program, *OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=(its_input, its_output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        os.close(its_input)
        os.close(its_output)
        try:
            yield Browser(our_input, our_output)
        finally:
            process.terminate()
            process.wait(timeout=20)
            os.close(our_input)
            os.close(our_output)


class Browser:
    """One tab. Errors and console messages since the page was opened are in `complaints`."""

    def __init__(self, input: int, output: int) -> None:
        self._input, self._output, self._heard = input, output, b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def _say(self, message: dict[str, Any]) -> None:
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self._output, rest) :]

    def _hear(self) -> Any:
        """The next message; messages end with a zero byte."""
        while b"\0" not in self._heard:
            if not select.select([self._input], [], [], PATIENCE)[0]:
                raise BrowserError(f"Chromium said nothing for {PATIENCE} seconds")
            more = os.read(self._input, 1 << 16)
            if not more:
                raise BrowserError("Chromium has ended")
            self._heard += more
        message, _, self._heard = self._heard.partition(b"\0")
        return json.loads(message)

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its answer; events that come first are looked at."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._say(message | ({"sessionId": self._session} if self._session else {}))
        while True:
            answer = self._hear()
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
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
        if "exceptionDetails" in answer:
            detail = answer["exceptionDetails"]
            raise BrowserError(f"{script}: {detail.get('exception', {}).get('description') or detail['text']}")
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
        return float(self.wait("document.documentElement.dataset.ready"))

    def wait(self, script: str, seconds: float = 20) -> Any:
        """Wait until an expression is true; its value."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(BrowserError):  # the page may just be changing
                if (value := self.do(script)) not in (None, False, ""):
                    return float(value) if isinstance(value, str) and value.isdigit() else value
            time.sleep(0.02)
        raise BrowserError(f"never true: {script}; complaints: {self.complaints}")

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key, as if it was pressed."""
        text = {"text": key} if len(key) == 1 else {}
        code = KEYS.get(key, ord(key[0].upper()))
        common = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector: str) -> None:
        """A click in the middle of the first element that a selector finds, when it stands still and is uncovered.

        A page that scrolls moves what is clicked; an element that stays covered is clicked after a second.
        """
        before, until = None, time.monotonic() + 1
        while True:
            now = self.do(
                f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                "e.scrollIntoView({block: 'nearest', inline: 'nearest'}); const b = e.getBoundingClientRect();"
                "const x = b.left + b.width / 2, y = b.top + b.height / 2;"
                "return [x, y, e.contains(document.elementFromPoint(x, y))]; })()"
            )
            if now == before and (now[2] or time.monotonic() > until):
                break
            before = now
            time.sleep(0.02)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=now[0], y=now[1], button="left", clickCount=1)

    def text(self, selector: str) -> str:
        """The text of the first element that a selector finds."""
        return str(self.do(f"document.querySelector({json.dumps(selector)}).textContent"))

    def screenshot(self, path: Path) -> Path:
        """A picture of what is seen."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
        return path
