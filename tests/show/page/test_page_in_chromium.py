"""Pages in a real browser: they load without a complaint, and show what the trace holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks.pages import large_trace

import kleene as kl
from hostile import Hostile
from kleene.show.labels import Labels
from screens import needs_chromium

pytestmark = needs_chromium
SCREENSHOTS = Path("results/pages")
MOST_BYTES, MOST_MS = 5_000_000, 2_000
LONGEST = "jump around right thrice and look around left thrice"

GRID = "Object.fromEntries(view.rows.map((row, r) => [row.name, view.grid.cells[r].map((cell) => cell.textContent)]))"
MARKED = "[...document.querySelectorAll('td.changed')].map((c) => [view.rows[c.dataset.row].name, +c.dataset.column])"
LINES = "[...document.querySelectorAll('path.link')].map((p) => (p.getAttribute('d').match(/M/g) ?? []).length)"
TAPE = "[...document.querySelectorAll('.tape span')].map((c) => c.lastChild?.textContent ?? '').join('')"


@pytest.fixture
def opened(quiet, tmp_path):
    """Write a page and open it; afterwards nothing was complained about, and nothing asked of the network."""

    def open_page(thing, *, name="page", options=None, **how):
        path = tmp_path / f"{name}.html"
        thing.to_html(path, **(options or {}))
        assert quiet.open(path, **how) < MOST_MS
        if quiet.do("view.data.kind") == "program":  # most tests begin at the start, with nothing chosen
            quiet.do("(view.player.go(0), view.letGo())")
        return quiet

    return open_page


def addition():
    return kl.library.addition.trace(kl.library.addition.encode("34+58"))


def expected(trace, layer):
    """The grid of a layer, as the trace has it."""
    rows = {name: ["" for _ in trace.tokens] for name in (*trace.spec.heads, *trace.spec.moves)}
    label = Labels(trace).label
    for name, outputs in (trace.heads[layer - 1] if layer else {}).items():
        rows[name] = ["∅" if at.value is None else label(name, at.value) for at in outputs]
    return rows | {name: [label(name, state[name]) for state in trace.states[layer]] for name in trace.spec.variables}


@pytest.mark.parametrize(
    "program",
    [kl.library.parity_relative, kl.library.addition, kl.library.histogram(5, 4), kl.library.computer(8)],
    ids=lambda program: program.__name__,
)
def test_every_layer_is_shown_as_it_was(opened, program):
    """Forwards by key, then backwards, then jumping: always the whole grid."""
    inputs = {"parity_relative": "1011", "addition": "34+58", "computer": "9 9 3 10 11 6 0 0 -1 5 3 7"}
    given = inputs.get(program.__name__)
    trace = program.trace(program.encode(given) if given else [3, 1, 1, 3])
    page = opened(trace)
    layers = range(trace.layers + 1)
    for layer in layers:
        assert page.do(GRID) == expected(trace, layer)
        changed = {
            (name, place)
            for name in trace.spec.variables
            for place in range(len(trace.tokens))
            if layer and trace.states[layer][place][name] != trace.states[layer - 1][place][name]
        }
        marked = page.do(MARKED)
        assert {tuple(cell) for cell in marked} == changed
        page.press("ArrowRight")
    for layer in reversed(layers):
        assert page.do(GRID) == expected(trace, layer)
        page.press("ArrowLeft")
    for key, layer in (("End", trace.layers), ("Home", 0)):
        page.press(key)
        assert page.do(GRID) == expected(trace, layer)


def test_a_long_input_is_shown_part_by_part(opened):
    trace = kl.library.parity_relative.trace([2, *[1, 0, 1] * 133])
    page = opened(trace, options={"weights": False})
    page.do("view.player.go(200)")
    rows = expected(trace, 200)
    for part in range(3):
        first = 160 * part
        shown = page.do(GRID)
        for name, row in rows.items():
            assert shown[name][: len(row) - first] == row[first : first + 160]
        if part == 1:
            page.press("h")
            assert page.do("+document.querySelector('.strip svg').dataset.links") == 160  # of the positions shown
            assert sum(page.do(LINES)) == 160
            page.click("#c2-40")
            assert "position 200" in page.text(".detail") and "Guarded update" in page.text(".detail")
        if part < 2:
            page.click(".pages button:last-child")


def test_the_last_layer_has_the_programs_output(opened):
    trace = addition()
    page = opened(trace)
    page.press("End")
    assert page.do(f"({GRID})[view.data.output].map(Number)") == list(kl.library.addition.run(trace.tokens))
    assert page.text("#output").split() == [str(value) for value in trace.outputs]
    assert "run by the interpreter" in page.text(".facts")


def test_scan_is_shown_in_its_own_words(opened):
    command = "jump twice and look left"
    page = opened(kl.library.scan.trace(kl.library.scan.encode(command)), options={"text": command})
    actions = kl.library.scan.decode(kl.library.scan.run(kl.library.scan.encode(command)))
    assert page.text("#output").replace("·", "").split() == actions.split()
    assert page.do("view.data.tokens.slice(0, 5).join(' ')") == command


def test_a_head_draws_its_attention(opened):
    trace = addition()
    page = opened(trace)
    assert page.do("document.querySelector('.strip').hidden")
    page.press("ArrowRight")
    for row, name in enumerate(trace.spec.heads):
        page.click(f"th[data-row='{row}'] button")
        links = sum(len(at.selected) for at in trace.heads[0][name])
        assert page.do("+document.querySelector('.strip svg').dataset.links") == links
        assert sum(page.do(LINES)) == links
        assert page.text(".strip b") == name
    page.click(f"#c{row}-3")
    assert page.text(".detail h2") == name
    page.press("Escape")
    assert page.do("document.querySelector('.strip').hidden")


def test_a_line_of_attention_goes_from_who_looks_to_what_is_selected(opened):
    trace = kl.library.parity_relative.trace([2, 1, 0])
    page = opened(trace)
    page.press("ArrowRight")
    page.press("h")
    page.click("#c0-2")
    assert trace.heads[0]["parity_left"][2].selected == (1,)
    ends = page.do(
        "(() => { const d = document.querySelector('.link.mine').getAttribute('d').match(/[\\d.]+/g).map(Number);"
        "const left = document.querySelector('.strip td').getBoundingClientRect().left;"
        "const box = (c) => view.grid.heads[c].getBoundingClientRect();"
        "const middle = (c) => box(c).left + box(c).width / 2 - left;"
        "return [d[0] - middle(2), d[6] - middle(1)]; })()"
    )
    assert [abs(end) < 0.01 for end in ends] == [True, True]


def test_a_cell_names_its_update_and_its_line(opened):
    trace = kl.library.parity_relative.trace([2, 1, 0])
    page = opened(trace)
    page.press("ArrowRight")
    page.click("#c2-1")
    said = page.text(".detail")
    assert "parity := (parity + parity_left) % 2" in said and "if done = 0, done_left = 1" in said
    assert page.text(".source .here").strip().endswith("z.parity = z.parity_left ^ z.parity")
    line = int(page.text(".source .here i"))
    assert f"parity.py, line {line}" in said
    page.press("ArrowRight", shift=True)
    assert "Not written in this layer" in page.text(".detail")
    page.press("Home")
    assert "It begins from the token" in page.text(".detail")


def test_it_plays_and_pauses(opened):
    page = opened(kl.library.scan.trace(kl.library.scan.encode("jump twice and look left")))
    page.do("view.player.speed.value = 150")
    page.press(" ")
    page.wait("view.player.at > 1")
    page.press(" ")
    at = page.do("view.player.at")
    assert page.do("new Promise((done) => setTimeout(() => done(view.player.at), 400))") == at
    page.press(" ")
    page.wait(f"view.player.at > {at}")
    page.press(" ")
    page.do("(view.player.range.value = 2, view.player.range.dispatchEvent(new Event('input')))")
    assert page.do("view.layer") == 2 and "layer 2 of" in page.text(".said")


def test_the_network_says_that_it_was_the_network(opened):
    net = kl.compile(kl.library.computer(8))
    page = opened(kl.explain(net, kl.library.computer(8).encode("9 9 3 10 11 6 0 0 -1 5 3 7")))
    assert "run by the network (dense, float32)" in page.text(".facts")
    page.press("ArrowRight")
    assert "fetch" in page.text(".said")
    row = page.do("view.rows.findIndex((row) => row.name === 'talks')")
    page.press("ArrowRight")
    page.press("ArrowLeft")
    page.click(f"#c{row}-0")
    assert "no source text" in page.text(".detail") and "talks := 0" in page.text(".detail")
    assert page.do("view.rows.findIndex((row) => row.name === 'a')") >= 0
    page.click(f"#c{page.do('view.rows.findIndex((row) => row.name === `a`)')}-0")
    assert "Written by the head fetch_a" in page.text(".detail")


@pytest.mark.parametrize("how", [{}, {"phone": True, "width": 390, "height": 844}], ids=["laptop", "phone"])
def test_weights_by_dimension(opened, how):
    page = opened(kl.library.parity_relative.trace([2, 1, 0]), **how)
    page.click("#tab-weights")
    chosen = "document.querySelector('.filters select')"
    page.do(f"({chosen}.value = 'parity', {chosen}.dispatchEvent(new Event('change')))")
    page.do("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.wait("document.querySelectorAll('.terms > div').length > 5")
    hits = page.do("[...document.querySelectorAll('.terms .hit')].map((c) => c.textContent)")
    assert hits and all(re.fullmatch(r"[+−]\d+ parity=[01]|[01]: [+−]\d+", hit) for hit in hits)
    purpose, why = kl.compile(kl.library.parity_relative).description["units"][1][0]
    rows = page.do("[...document.querySelectorAll('.terms > div')].map((d) => d.textContent)")
    assert any(row.startswith(f"unit 2.0{purpose}: {why}") for row in rows)
    assert "8 dimensions" in page.text(".weights .facts")
    assert page.do("document.documentElement.scrollWidth <= innerWidth")
    page.click("#tab-run")
    assert page.do("!document.querySelector('.run').hidden")


def test_every_weight_can_be_read_off(opened):
    """What the page says that each unit reads is what the matrix holds."""
    page = opened(addition())
    page.click("#tab-weights")
    block = "[...document.querySelectorAll('details')].find((d) => /second half reads/.test(d.textContent))"
    page.do(f"{block}.open = true")
    page.wait(f"{block}.querySelectorAll('.terms > div').length > 5")
    page.do(f"(() => {{ let more; while ((more = {block}.querySelector('.terms > button'))) more.click(); }})()")
    rows = page.do(
        f"[...{block}.querySelectorAll('.terms > div')].map((d) =>"
        "[d.querySelector('b').textContent, [...d.querySelectorAll('code')].map((c) => c.textContent.trim())])"
    )
    net = kl.compile(kl.library.addition)
    block, names = net.block(0), net.layout.names
    assert len(rows) == len(block.bias2)
    for unit, (name, terms) in enumerate(rows):
        said = {}
        for term in terms:
            alone = re.fullmatch(r"([+−]\d+) (\S+)", term)
            variable, _, listed = term.partition(" ")
            if alone:
                said[alone[2]] = int(alone[1].replace("−", "-"))
            else:
                found = re.findall(r"(\S+): ([+−]\d+)", listed)
                said |= {f"{variable}={value}": int(weight.replace("−", "-")) for value, weight in found}
        held = {names[d]: int(block.in2[unit, d]) for d in block.in2[unit].nonzero().flatten().tolist()}
        bias = {"(bias)": int(block.bias2[unit])} if block.bias2[unit] else {}
        assert (name, said) == (f"unit 2.{unit}", held | bias)


def test_hostile_texts_do_no_harm(opened):
    page = opened(Hostile.trace([0, 1]), options={"text": "</script><script>window.hacked=1</script>"})
    page.press("End")
    page.click("#c0-0")
    assert page.do("window.hacked === undefined && document.images.length === 0")
    assert page.do("document.scripts.length") == 2
    assert page.text("thead .token").startswith("</script><img")


def test_two_pages_in_one_notebook(browser, tmp_path):
    traces = kl.library.parity_relative.trace([2, 1, 0]), kl.library.parity_relative.trace([2, 1])
    path = tmp_path / "notebook.html"
    frames = "".join(trace._repr_html_() for trace in traces)
    path.write_text(f"<!doctype html><html data-ready='1'>{frames}</html>", encoding="utf-8")
    browser.open(path)
    found = browser.ask("Page.getFrameTree")["frameTree"]["childFrames"]
    assert len(found) == 2
    for frame, trace in zip(found, traces):
        world = browser.ask("Page.createIsolatedWorld", frameId=frame["frame"]["id"])["executionContextId"]

        def inside(script, world=world):
            return browser.ask("Runtime.evaluate", expression=script, contextId=world)["result"].get("value")

        while inside("document.documentElement.dataset.ready") is None:
            browser.wait("true")
        assert inside("document.querySelectorAll('thead .token').length") == len(trace.tokens)
    assert browser.complaints == []


# --- other pages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["minsky", "image"])
def test_an_rnn_by_time_with_its_state(opened, method):
    dfa = kl.regex("(0|10*1)*", "01")
    trace = kl.explain(kl.compile(dfa, method=method), "0110")
    page = opened(trace)
    assert page.do(f"({GRID}).state") == [dfa.name(state) for state in dfa.path("0110")]
    for unit in range(trace.network.units):
        assert page.do(f"({GRID})['unit {unit}']") == [str(g.get(unit, 0)) for g in trace.hidden]
    assert page.text("#output") == "accepts"
    assert page.do("document.querySelectorAll('td.now')[0].dataset.column") == "0"
    page.press("End")
    assert page.do("document.querySelectorAll('td.now')[0].dataset.column") == "4"
    unit = page.do("view.rows.findIndex((row) => row.part === 'hidden')")
    page.click(f"#c{unit + 1}-2")
    assert "ReLU of the sum of" in page.text(".detail") and page.do("view.player.at") == 2


def test_a_turing_machine_with_its_tape(opened):
    machine = kl.TuringMachine.parse("1RB1LB_1LA1RZ")
    page = opened(kl.explain(kl.compile(machine), ""))
    page.press("End")
    assert page.text(".tape b.where-it-is") == "Z" and page.text("#output") == "accepts"
    assert page.do(TAPE) == "1111"
    page.press("ArrowLeft")
    assert page.text(".tape b.where-it-is") == "B"


def explanation():
    import torch

    from kleene.networks.trained.lstm import LanguageModel, Vocabulary

    torch.manual_seed(0)
    words = ["<unk>", "the", "chimney", "sweep", "has", "sick", "lungs"]
    return kl.explain(LanguageModel(7, 12, 12, vocabulary=Vocabulary(words)), "the chimney sweep has sick lungs")


def test_words_by_words(opened):
    found = explanation()
    page = opened(found)
    assert page.do("document.querySelectorAll('.heat td').length") == 36
    page.click("#h4-2")
    assert page.text("#chosen-value") == f"{float(found.interdependence[4, 2]):.4f}"
    assert "sweep … sick" in page.text(".detail")
    page.press("ArrowDown")
    assert "sweep … lungs" in page.text(".detail")
    assert page.do("document.querySelectorAll('.bars li').length") == 8


def test_it_can_be_used_without_a_mouse(opened):
    """The tabulator reaches every control in turn, what has the focus is outlined, and everything is named."""
    page = opened(addition())
    reached = []
    for _ in range(16):
        page.press("Tab")
        reached.append(
            page.do(
                "(() => { const e = document.activeElement, s = getComputedStyle(e);"
                "const seen = s.outlineStyle !== 'none' && s.outlineWidth !== '0px';"
                "return [e.getAttribute('aria-label') ?? e.textContent, seen]; })()"
            )
        )
    names = [name for name, _ in reached]
    assert {"Run", "Weights", "first", "play", "last", "layer", "speed", "positions by variables"} <= set(names)
    assert next(iter(kl.library.addition.spec.heads)) in names
    assert all(seen for name, seen in reached)
    named = "(e) => Boolean(e.ariaLabel || e.textContent || e.labels?.length)"
    assert page.do(f"[...document.querySelectorAll('button, input, select')].every({named})")
    page.press("ArrowDown", shift=True)
    page.press("ArrowDown", shift=True)
    assert page.do("document.querySelector('.scroller').getAttribute('aria-activedescendant')") == page.do(
        "document.querySelector('td.chosen').id"
    )


# --- sizes, speed and pictures ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["jump twice and look left", LONGEST])
def test_a_scan_page_is_small_and_soon_there(browser, tmp_path, command):
    trace = kl.library.scan.trace(kl.library.scan.encode(command))
    path = tmp_path / "scan.html"
    assert len(trace.to_html(path, text=command).encode()) < MOST_BYTES
    assert browser.open(path) < MOST_MS and browser.complaints == []


PICTURES = {
    "light": {},
    "dark": {"dark": True},
    "phone": {"phone": True, "width": 390, "height": 844},
    "phone-dark": {"phone": True, "dark": True, "width": 390, "height": 844},
}


@pytest.mark.parametrize("how", PICTURES)
def test_pictures(opened, how):
    """Nothing is wider than the screen; pictures are kept in results/pages."""
    scan = kl.library.scan.trace(kl.library.scan.encode(LONGEST))
    page = opened(scan, options={"text": LONGEST}, **PICTURES[how])
    page.do("view.player.go(20)")
    page.press("h")
    row = page.do("view.rows.findIndex((row) => row.name === 'symbol')")
    page.click(f"#c{row}-{json.loads(str(page.do('view.changes[19].cells[0] % view.size')))}")
    others = {
        "rnn": kl.explain(kl.compile(kl.regex("(0|10*1)*", "01"), method="minsky"), "0110100"),
        "tm": kl.explain(kl.compile(kl.TuringMachine.parse("1RB1LB_1LA1RZ")), ""),
        "heat": explanation(),
    }
    for name, thing in {"scan": None, **others}.items():
        if thing is not None:
            page = opened(thing, name=name, **PICTURES[how])
            page.press("ArrowRight")
        assert page.do("document.documentElement.scrollWidth <= innerWidth"), name
        assert page.screenshot(SCREENSHOTS / f"{name}-{how}.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_large_page_can_be_used(browser, tmp_path):
    """100 positions × 50 variables × 400 layers, all changing."""
    trace = large_trace()
    path = tmp_path / "large.html"
    assert len(trace.to_html(path).encode()) < MOST_BYTES
    assert browser.open(path) < MOST_MS
    for layer in (1, 250, 400, 3):
        browser.do(f"view.player.go({layer})")
        assert browser.do(GRID) == expected(trace, layer)
    assert browser.complaints == []
