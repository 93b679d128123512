"""The site as files, without a server: search finds words, and nothing is asked of the network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.chromium import chromium, find_chromium

ROOT = Path(__file__).parent.parent
PAGES = ("glossary.md", "scan.md")


class Loose(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags are of no interest here."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: Any) -> Path:
    """A small site of the same settings: two pages, without the notebooks and the reference."""
    folder = tmp_path_factory.mktemp("site")
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loose)
    settings |= {"docs_dir": "docs", "site_dir": "built", "strict": False, "hooks": []}
    settings["plugins"] = [name for name in settings["plugins"] if isinstance(name, str)]
    assert settings["plugins"] == ["search", "offline"]
    settings["nav"] = [{"Home": "index.md"}, *({name: name} for name in PAGES)]
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text("# Home\n", encoding="utf-8")
    for name in (*PAGES, "javascripts/iframe-worker.js", "stylesheets/site.css"):
        (folder / "docs" / name).parent.mkdir(exist_ok=True)
        (folder / "docs" / name).write_text((ROOT / "docs" / name).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    built = subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder / "built"


@pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed; .ci/run installs it")
def test_search_works_from_files(site: Path) -> None:
    page = site / "index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("<html ", "<html data-ready='1' ", 1), encoding="utf-8")
    with chromium() as browser:
        browser.open(page)
        field = "document.querySelector('[data-md-component=search-query]')"
        browser.wait(f"{field} !== null && document.forms.length > 0")
        browser.do(f"({field}.focus(), {field}.value = 'conduit', {field}.dispatchEvent(new Event('input')), 0)")
        browser.do(f"({field}.dispatchEvent(new KeyboardEvent('keyup')), 0)")
        browser.wait("document.querySelector('.md-search-result__link') !== null")
        found = browser.do(
            "[...document.querySelectorAll('.md-search-result__link')].map((a) => a.getAttribute('href'))"
        )
        assert any("glossary.html" in link for link in found)
        assert not any("scan.html" in link for link in found)
        assert all(url.startswith(("file:", "about:", "data:", "blob:")) for url in browser.requests)
        assert browser.complaints == []


def test_no_page_names_another_server(site: Path) -> None:
    """Scripts, styles and pictures are in the folder."""
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text and 'rel="stylesheet" href="http' not in text and "unpkg" not in text
