"""Pictures of pages for the README and the guides: `make screenshots` takes them again.

A picture holds the version of the page that it shows. A test compares it with the page's version now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

import kleene as kl
from benchmarks.chromium import Browser, chromium
from kleene.show.page import page_version

FOLDER = Path(__file__).parent.parent / "docs" / "images"
KEY = "kleene-page"  # the name of the version in a picture
COLOURS = 200


@dataclass(frozen=True)
class Picture:
    """One picture: the kind of its page, what writes the page, and what is done before the picture is taken."""

    kind: str
    write: Callable[[Path], Any]
    acts: tuple[str, ...] = ()
    how: dict[str, Any] = field(default_factory=lambda: {"width": 1280, "height": 760})


def addition(path: Path) -> Any:
    return kl.library.addition.trace("34+58").to_html(path)


def automaton(path: Path) -> Any:
    net = kl.compile(kl.regex("(0|10*1)*", alphabet="01"))
    return kl.explain(net, "0110100").to_html(path, title="An even number of ones")


def machine(path: Path) -> Any:
    net = kl.compile(kl.library.turing_machines.POWERS_OF_TWO)
    return kl.explain(net, "1111").to_html(path, title="Is the length a power of two?")


PHONE = {"width": 390, "height": 844, "phone": True}
PICTURES = {
    "program": Picture("program", addition),
    "wiring": Picture("program", addition, ("view.player.go(2)", "view.openTab('wiring')")),
    "switched_off": Picture("program", addition, ("view.toggle('head 0 2')", "view.player.go(3)")),
    "automaton": Picture("rnn", automaton, ("view.player.go(3)",)),
    "machine": Picture("rnn", machine, ("view.player.go(9)",)),
    "phone": Picture("program", addition, ("view.player.go(2)", "view.choose(view.data.heads.length + 5, 4)"), PHONE),
}


def take(browser: Browser, name: str, folder: Path) -> Path:
    """Take one picture, with few colours and with the version of its page."""
    picture = PICTURES[name]
    page = folder / f"{name}.html"
    picture.write(page)
    browser.open(page, **picture.how)
    browser.wait("document.documentElement.dataset.compared")
    for act in picture.acts:
        browser.do(f"({act}, 0)")
        browser.wait("document.documentElement.dataset.busy === undefined")
    browser.wait("document.getAnimations().length === 0")
    taken = Image.open(BytesIO(browser.screenshot(folder / f"{name}.png").read_bytes()))
    said = PngInfo()
    said.add_text(KEY, page_version(picture.kind))
    path = FOLDER / f"{name}.png"
    taken.convert("RGB").quantize(COLOURS).save(path, pnginfo=said, optimize=True)
    return path


def main() -> None:
    """Take all pictures."""
    import tempfile

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for name in PICTURES:
            path = take(browser, name, Path(folder))
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
