"""Pages for everybody: axe finds nothing serious, text has a contrast of 4.5:1, controls are named, motion can be off.

axe is not ours and not in this repository: `pip install --no-deps axe-playwright-python` brings the file.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import kleene as kl
from kleene.networks.trained.lstm import LanguageModel, Vocabulary
from screens import SCREENS, needs_chromium

pytestmark = needs_chromium
SIZES = SCREENS | {"laptop-dark": {"width": 1280, "height": 820, "dark": True}}


@pytest.fixture(scope="module")
def things() -> dict[str, Any]:
    torch.manual_seed(0)
    words = ["<unk>", "the", "chimney", "sweep", "has", "sick", "lungs"]
    model = LanguageModel(7, 12, 12, vocabulary=Vocabulary(words))
    return {
        "program": kl.library.addition.trace("34+58"),
        "decoder": kl.library.parity_scratchpad(4).trace("101"),
        "automaton": kl.explain(kl.compile(kl.regex("(0|10*1)*", "01")), "0110"),
        "machine": kl.explain(kl.compile(kl.library.turing_machines.POWERS_OF_TWO), "11"),
        "beaver": kl.explain(kl.compile(kl.TuringMachine.parse("1RB1LB_1LA1RZ")), ""),
        "words": kl.explain(model, "the chimney sweep has sick lungs"),
    }


def states_of_the_page(page: Any, kind: str) -> Any:
    """The page as it opens, then after it was used: each is looked at."""
    yield "as it opens"
    if kind in ("program", "decoder"):
        page.wait("document.documentElement.dataset.compared")
        page.do("view.choose(view.data.heads.length, 1)")
        yield "a cell"
        page.do("view.toggle('head 0 0')")
        yield "a head off"
        page.do("view.openTab('wiring')")
        yield "wiring"
        page.do("view.openTab('weights')")
        page.do("[...document.querySelectorAll('details')].slice(0, 3).forEach((d) => { d.open = true; })")
        yield "weights"
    elif kind in ("automaton", "machine", "beaver"):
        page.wait("document.documentElement.dataset.compared")
        page.do("view.player.go(2)")
        page.do("view.choose(view.rows.findIndex((row) => row.part === 'hidden'), 2)")
        yield "a cell"
        page.do("view.toggle(0)")
        page.wait("document.querySelector('#damage')")
        yield "a unit off"
        page.do("view.openTab('weights')")
        page.do("[...document.querySelectorAll('details')].forEach((d) => { d.open = true; })")
        yield "weights"


# every text that is seen, with the contrast to what is behind it
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true }), known = new Map();
  const rgba = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const part = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const seen = new Map();
  const behind = (e) => {
    if (!e) return [[255, 255, 255, 1], 1];
    if (!seen.has(e)) {
      const [under, opacity] = behind(e.parentElement), style = getComputedStyle(e);
      seen.set(e, [over(rgba(style.backgroundColor), under), opacity * Number(style.opacity)]);
    }
    return seen.get(e);
  };
  const bad = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement, text = node.textContent.trim();
    if (!text || e.closest('script, noscript, option, svg, :disabled') || !e.getClientRects().length) continue;
    const [under, opacity] = behind(e), mine = over(rgba(getComputedStyle(e).color), under);
    const [a, b] = [light(mine), light(under)].sort((p, q) => q - p), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5 || opacity < 1) bad.add(`${text.slice(0, 30)} in ${e.tagName}.${e.className}: ${ratio.toFixed(2)}`);
  }
  return [...bad].slice(0, 12);
})()"""
NAMED = """[...document.querySelectorAll('button, input, select, [role=button], [role=img], svg:not([aria-hidden])')]
  .filter((e) => e.checkVisibility() && !e.closest('[aria-hidden]'))
  .filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length || e.title))
  .map((e) => e.outerHTML.slice(0, 90))"""
SLOW = ("decoder", "machine", "words")  # for axe
KINDS = ("program", "decoder", "automaton", "machine", "words")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_contrast_and_names(browser, things, tmp_path, kind, size):
    path = tmp_path / "page.html"
    things[kind].to_html(path)
    browser.open(path, **SIZES[size])
    for state in states_of_the_page(browser, kind):
        assert browser.do(CONTRAST) == [], state
        assert browser.do(NAMED) == [], state
        assert browser.do("document.documentElement.scrollWidth <= innerWidth"), state
    assert browser.complaints == []


def test_the_measure_of_contrast_can_fail(browser, things, tmp_path):
    things["automaton"].to_html(tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.do("document.body.append(Object.assign(document.createElement('p'), { textContent: 'pale' }))")
    browser.do("(document.body.lastChild.style.color = '#999', 0)")
    assert [said.split(" in ")[0] for said in browser.do(CONTRAST)] == ["pale"]
    browser.do("document.body.append(document.createElement('button'))")
    assert len(browser.do(NAMED)) == 1


def axe() -> str | None:
    found = importlib.util.find_spec("axe_playwright_python")
    path = None if found is None or found.origin is None else Path(found.origin).parent / "axe.min.js"
    return None if path is None or not path.exists() else path.read_text(encoding="utf-8")


@pytest.mark.skipif(axe() is None, reason="axe is not installed: pip install --no-deps axe-playwright-python")
@pytest.mark.parametrize("size", ["laptop", "tablet", "phone"])
@pytest.mark.parametrize(
    "kind", ["program", "automaton", "beaver", *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW)]
)
def test_axe_finds_nothing_serious(browser, things, tmp_path, kind, size):
    path = tmp_path / "page.html"
    things[kind].to_html(path)
    browser.open(path, **SIZES[size])
    for state in states_of_the_page(browser, kind):
        browser.ask("Runtime.evaluate", expression=axe())
        found = browser.do(
            "axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations"
            ".filter((v) => ['serious', 'critical'].includes(v.impact))"
            ".map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 100)).join(' | ')}`))"
        )
        assert found == [], state


def test_motion_can_be_off(browser, things, tmp_path):
    """The tape slides under the head, unless the reader asked for no motion."""
    path = tmp_path / "page.html"
    things["machine"].to_html(path)
    for value, running in (("no-preference", 1), ("reduce", 0)):
        browser.open(path)
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": value}])
        browser.do("view.player.go(5)")
        browser.do("view.player.go(6)")
        assert browser.do("document.querySelector('.tape').dataset.moved") == "1"
        assert browser.do("document.querySelector('.cells').getAnimations().length") == running


def test_on_a_phone_the_chosen_cell_comes_up_as_a_sheet(browser, things, tmp_path):
    path = tmp_path / "page.html"
    things["program"].to_html(path)
    browser.open(path, **SIZES["phone"])
    fixed = "getComputedStyle(document.querySelector('.detail')).position"
    assert browser.do(fixed) == "static"
    browser.click("#c9-3")
    assert browser.do(fixed) == "fixed"
    browser.wait("document.querySelector('.detail').getAnimations().length === 0")
    box = "document.querySelector('.detail').getBoundingClientRect()"
    assert browser.do(f"[innerHeight - {box}.bottom, {box}.left, innerWidth - {box}.right]") == [0, 0, 0]
    browser.click(".detail .close")
    assert browser.do(fixed) == "static"
