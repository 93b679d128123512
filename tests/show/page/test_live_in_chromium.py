"""The network in the page: it computes, layer by layer, what Kleene's network computes; it runs what a reader types;
parts can be switched off; and the page says so where it differs from what was recorded."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kleene as kl
from kleene.errors import DidNotHalt, KleeneError
from kleene.evidence.program_page import program_page
from kleene.show.page import Page, _asset
from kleene.show.page.weights import weights_data
from lowering.test_rule_machine import Bits, TwoSteps
from screens import SCREENS, needs_chromium
from test_random_programs import Cycled, Guarded, Moved, Source, Worded

pytestmark = needs_chromium
LAYERS = 40  # the most that a run is followed
LIBRARY = [
    kl.library.addition,
    kl.library.addition_decoder(3),
    kl.library.addition_scratchpad(3),
    kl.library.calculator_decoder(2, 20),
    kl.library.copy_decoder(),
    kl.library.dyck_decoder(),
    kl.library.long_addition_decoder(),
    kl.library.multiplication_decoder(),
    kl.library.parity_decoder(),
    kl.library.regex_decoder(),
    kl.library.reverse_decoder(),
    kl.library.riscv(64),
    kl.library.scan_decoder(),
    kl.library.sort_decoder(),
    kl.library.turing_decoder(),
    kl.library.computer(6),
    kl.library.dyck1(6),
    kl.library.dyck2(6),
    kl.library.histogram(5, 4),
    kl.library.most_frequent(5, 3),
    kl.library.parity_absolute(6),
    kl.library.parity_count(6),
    kl.library.parity_relative,
    kl.library.parity_scratchpad(4),
    kl.library.parity_sum(6),
    kl.library.reverse(5, 4),
    kl.library.scan,
    kl.library.sort(5, 4),
    kl.library.sort_unique(5, 6),
    kl.library.subleq(-4, 4, 5),
    kl.library.subleq_words(4, 5),
]


def test_every_program_of_the_library_is_here():
    programs = {made.__name__ for made in map(kl.library.__dict__.get, kl.library.__all__) if callable(made)}
    assert programs == {program.__name__ for program in LIBRARY}


@pytest.fixture
def opened(quiet, tmp_path):
    """Open a page; afterwards nothing was complained about, and nothing asked of the network."""

    def open_page(thing: Any, **how: Any) -> Any:
        path = tmp_path / "page.html"
        page = thing if isinstance(thing, Page) else program_page(thing)
        page.write(path)
        quiet.open(path, **how)
        quiet.wait("document.documentElement.dataset.compared")
        return quiet

    return open_page


# --- the evaluator -----------------------------------------------------------------------------------------

RUN = """(async () => {
  const seen = [], net = new Network(%s);
  const ended = await net.run(%s, { most: %d, each: ({ after }) => seen.push(after.map((row) => [...row])) });
  return { ...ended, seen };
})()"""


def in_the_browser(browser: Any, net: Any, tokens: list[int]) -> Any:
    return browser.do(RUN % (json.dumps(weights_data(net)), json.dumps(tokens), LAYERS))


def in_kleene(net: Any, tokens: list[int]) -> dict[str, Any]:
    """The residual stream after every layer, by torch."""
    seen = [net.embed(torch.tensor([tokens]))[0].double().numpy()]

    def watch(layer: int, rows: Any, x: Any) -> None:
        seen.append(x[0].double().numpy().copy())

    if net.config.max_tokens is not None:  # a decoder: its layers on the tokens as they are
        x, mask = net.embed(torch.tensor([tokens])), torch.ones(1, len(tokens), dtype=torch.bool)
        for layer in range(net.config.layers):
            x = net.block(layer)(x, mask)
            watch(layer, None, x)
        return {"layers": net.config.layers, "halted": True, "outputs": net.read(x)[0].tolist(), "seen": seen}
    try:
        outputs = net.run_batch([tokens], max_layers=LAYERS, evaluator="dense", watch=watch)[0]
    except DidNotHalt:
        return {"layers": LAYERS, "halted": False, "outputs": None, "seen": seen}
    return {"layers": outputs.layers, "halted": True, "outputs": list(outputs), "seen": seen}


def defined(net: Any, tokens: list[int]) -> bool:
    """Whether no undefined head is read on an input."""
    try:
        net.run(tokens, check=True, max_layers=LAYERS)
    except DidNotHalt:
        return True
    except KleeneError:
        return False
    return True


def check_equal(browser: Any, net: Any, tokens: list[int]) -> None:
    """Equal numbers in every dimension, layer by layer. Averages are rounded in float32 here, in float64 there; a head
    that selects several positions where it should select one averages too, and may leave two outputs equally large."""
    theirs, ours = in_the_browser(browser, net, tokens), in_kleene(net, tokens)
    undefined = not defined(net, tokens)
    averages = any(segment.coding == "scalar" for segment in net.layout) or undefined
    assert len(theirs["seen"]) == len(ours["seen"])
    for layer, (there, here) in enumerate(zip(theirs["seen"], ours["seen"])):
        same = np.allclose(there, here, atol=1e-4) if averages else np.array_equal(there, here)
        assert same, f"layer {layer} of {net.config.name} on {tokens}"
    assert (theirs["layers"], theirs["halted"]) == (ours["layers"], ours["halted"])
    assert ours["outputs"] is None or undefined or theirs["outputs"] == ours["outputs"]


@pytest.fixture(scope="module")
def evaluator(browser, tmp_path_factory):
    """An empty page with the evaluator alone."""
    path = tmp_path_factory.mktemp("evaluator") / "empty.html"
    path.write_text("<!doctype html><html data-ready='1'></html>", encoding="utf-8")

    def load() -> Any:
        browser.open(path)
        code = json.dumps(_asset("core.js") + _asset("network.js"))
        browser.do(f"document.body.append(Object.assign(document.createElement('script'), {{ text: {code} }}))")
        return browser

    return load


RUN_QUICKLY = [
    pytest.param(p, marks=pytest.mark.slow) if p.__name__ == "riscv" else p for p in LIBRARY
]  # forty layers of 831 dimensions take 15 seconds


@pytest.mark.parametrize("program", RUN_QUICKLY, ids=lambda program: program.__name__)
def test_the_browser_computes_what_the_network_computes(evaluator, program):
    page, net, chance = evaluator(), kl.compile(program), random.Random(5)
    longest = min(6, net.longest or 6)
    sample = getattr(program, "sample", None)
    inputs = [[chance.randrange(program.spec.tokens) for _ in range(longest)] for _ in range(2)]
    inputs += [sample(chance, longest)[: net.longest] for _ in range(2)] if sample else []
    inputs += [program.spec.encode("jump twice and look left")] if program is kl.library.scan else []
    for tokens in inputs:
        check_equal(page, net, tokens)


@settings(
    max_examples=25, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True
)
@given(data=st.data())
def test_random_programs_run_in_the_browser(evaluator, data):
    source = data.draw(st.sampled_from([Source, Cycled, Moved, Guarded, Worded]))(data.draw).text()
    names: dict[str, Any] = {"kl": kl, "F": Fraction}
    try:
        exec(source, names)
        net = kl.compile(names["Random"])
    except KleeneError:
        return
    tokens = data.draw(st.lists(st.integers(0, net.config.tokens - 1), min_size=1, max_size=5))
    check_equal(evaluator(), net, tokens)


def test_a_wrong_weight_is_seen(evaluator):
    """The comparison can fail: another weight gives another stream."""
    net = kl.compile(kl.library.parity_relative)
    other = kl.compile(kl.library.parity_relative)
    with torch.no_grad():
        other.block(0).bias2[0] += 1
    theirs, ours = in_the_browser(evaluator(), other, [2, 1, 0, 1]), in_kleene(net, [2, 1, 0, 1])
    assert any(not np.array_equal(a, b) for a, b in zip(theirs["seen"], ours["seen"]))


# --- the badge -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", LIBRARY, ids=lambda program: program.__name__)
def test_the_badge_compares_with_the_interpreter(opened, program):
    chance = random.Random(3)
    given = {
        "sort_unique": "[3, 1, 4, 2]",
        "scan": "jump twice",
        "computer": "9 9 3 10 11 6 0 0 -1 5 3 7",
        "subleq": "3 3 -1 2",
        "subleq_words": "3 3 -1 2",
    }
    text = program.spec.text.example if program.spec.text and program.spec.text.example else None
    text = given.get(program.__name__, text)
    sample = getattr(program, "sample", lambda chance, length: chance.choices(range(program.spec.tokens), k=length))
    tokens = sample(chance, 4) if text is None else json.loads(text) if text[0] == "[" else program.encode(text)
    trace = program.trace(tokens)
    page = opened(trace)
    assert page.do("document.documentElement.dataset.compared") == "agree", page.text(".badge")
    assert "and the interpreter agree" in page.text(".badge")
    if text and program.spec.text and program.spec.max_tokens is None and trace.outputs.text is not None:
        assert page.text("#answer") == f"→ {trace.outputs.text}"


@pytest.mark.parametrize("part", ["states", "heads", "layers"])
def test_the_badge_says_where_they_differ(opened, part):
    """A recording that is not this network's, in one value, in one selection, or in its length, is found out."""
    page = program_page(kl.library.addition.trace("34+58"))
    data = json.loads(json.dumps(page.data))
    if part == "states":
        data["changes"][2][1][0] = (data["changes"][2][1][0] + 1) % len(data["values"])
    elif part == "heads":
        data["rows"][data["looks"][1]["token_right"][1]][3] = [0, 0]
    else:
        data["changes"].append([[], []])
        data["looks"].append(data["looks"][-1])
        data["writes"].append(data["writes"][-1])
    found = opened(Page("program", "changed", data))
    assert found.do("document.documentElement.dataset.compared") == "differ"
    said = {
        "states": "layer 3",
        "heads": "layer 1, the head token_right at position 3",
        "layers": "one takes 5 layers, the other 4",
    }
    assert said[part] in found.text(".badge")


def click_changed(page: Any) -> None:
    """Choose the first cell that changes in the first layer."""
    cell, size, heads = page.do("[view.changes[0].cells[0], view.size, view.data.heads.length]")
    page.click(f"#c{heads + cell // size}-{cell % size}")


@pytest.mark.parametrize("program", [Bits, TwoSteps], ids=lambda program: program.__name__)
def test_bits_of_words_and_layers_with_two_steps(opened, evaluator, program):
    page = opened(program.trace([1, 3, 2]))
    assert page.do("document.documentElement.dataset.compared") == "agree", page.text(".badge")
    page.do("view.player.go(1)")
    click_changed(page)
    assert "Guarded update" in page.text(".detail")
    type_input(page, "[3,3,1,2]")
    assert page.do("view.run.outputs") == list(program.run([3, 3, 1, 2]))
    click_changed(page)
    said = "does not know by which update" if program is TwoSteps else "Guarded update"
    assert said in page.text(".detail")


# --- typing ----------------------------------------------------------------------------------------------------

GRID = "Object.fromEntries(view.rows.map((row, r) => [row.name, view.grid.cells[r].map((cell) => cell.textContent)]))"


def type_input(page: Any, text: str) -> None:
    page.do(f"(document.querySelector('#typed').value = {json.dumps(text)}, 0)")
    page.click(".go")
    page.wait("document.documentElement.dataset.busy === undefined")


@pytest.mark.parametrize("size", SCREENS)
def test_another_input_is_typed_and_runs(opened, size):
    page = opened(kl.library.addition.trace("34+58"), **SCREENS[size])
    assert page.do("document.querySelector('#typed').value") == "34+58"
    assert page.do("[view.layer, view.data.heads[view.head].name]") == [1, "token_right"]
    type_input(page, "7+995")
    assert page.text("#answer") == "→ 1002" and "run by this page's network" in page.text(".facts")
    trace = kl.library.addition.trace("7+995")
    assert page.do("view.run.tokens.join('')") == "^007+995="
    for layer in range(trace.layers + 1):
        page.do(f"view.player.go({layer})")
        shown = page.do(GRID)
        for name in ("stage", "carry", "value_out", "ptr_a"):
            assert shown[name] == [str(state[name]) for state in trace.states[layer]]
    page.click("[data-row='13']")  # a cell
    assert page.do("document.documentElement.scrollWidth <= innerWidth")
    type_input(page, "7+")
    assert page.text(".problem") == "“7+” is not of the form a+b, such as 34+58."
    type_input(page, "7x")
    assert "not in the alphabet" in page.text(".problem") or "form" in page.text(".problem")
    page.do("view.restore()")
    page.wait("document.querySelector('#answer').textContent === '→ 92'")


def test_text_in_the_page_means_what_it_means_in_python(opened):
    cases = {
        kl.library.addition: ["5+99", "^5+99=", "1+1"],
        kl.library.scan: ["walk", "jump twice and look left", "turn left thrice"],
        kl.library.subleq(-4, 4, 5): ["3 3 -1 2", "[1,2,3]"],
        kl.library.parity_relative: ["101", "^11", "1 0 1"],
        kl.library.dyck1(6): ["(())"],
    }
    for program, texts in cases.items():
        page = opened(program.trace(program.spec.text.encode(texts[0], "x")))
        for text in texts:
            wanted = json.loads(text) if text.startswith("[") else program.spec.text.encode(text, "x")
            assert page.do(f"view.alphabet.encode({json.dumps(text)})") == wanted
            outputs = program.run(wanted, max_layers=300) if not text.startswith("[") else [1, 2, 3]
            assert page.do(f"view.alphabet.answer({json.dumps(list(outputs))})") == program.spec.text.decode(outputs)


def test_an_input_on_which_the_program_is_undefined(opened):
    """The page says what the interpreter would say."""
    with pytest.raises(kl.UndefinedRead) as raised:
        kl.library.parity_relative.run([1, 0])
    page = opened(kl.library.parity_relative.trace("101"))
    type_input(page, "[1,0]")
    said = page.text(".problem")
    assert f"in layer {raised.value.layer}, position {raised.value.position} reads {raised.value.variable}" in said


def test_a_decoder_appends_its_tokens(opened):
    program = kl.library.addition_scratchpad(3)
    page = opened(program.trace("37+8"))
    wanted, made = list(program.run("37+8")), []
    for _ in wanted:
        made.append(page.do("view.nextToken()"))
        page.click("#append")
        page.wait("document.documentElement.dataset.busy === undefined")
    alphabet = program.spec.text.alphabet
    assert made == [alphabet[token] for token in wanted]


# --- switching off -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SCREENS)
def test_a_head_is_switched_off_by_a_click(opened, size):
    page = opened(kl.library.addition.trace("34+58"), **SCREENS[size])
    row = page.do("view.data.heads.findIndex((head) => head.name === 'ptr_b_token')")
    page.click(f"th[data-row='{row}'] button")
    page.click(".detail .switch")
    page.wait("document.querySelector('#damage')")
    net = kl.compile(kl.library.addition)
    with torch.no_grad():
        net.block(0).out[net.block(0).heads.index("ptr_b_token")] = 0
    ours = in_kleene(net, kl.library.addition.encode("34+58"))
    shown = page.do("[view.run.changes.length, view.run.halted, view.run.outputs]")
    assert shown == [min(ours["layers"], shown[0]), ours["halted"], ours["outputs"]]
    assert "outputs change" in page.text("#damage") and page.do("document.querySelectorAll('td.wrong').length") >= 0
    page.click(".broken .link")
    page.wait("document.querySelector('#answer').textContent === '→ 92'")
    assert page.do("document.querySelector('.broken').hidden")


def test_a_unit_is_switched_off_by_a_click(opened):
    program = kl.library.parity_relative
    page = opened(program.trace("11"))
    page.click(f"#c{page.do('view.rows.findIndex((row) => row.name === `parity`)')}-1")
    parts = page.do("[...document.querySelectorAll('.detail .switch')].map((button) => button.dataset.part)")
    page.do("view.player.go(2)")
    page.click(f"#c{page.do('view.rows.findIndex((row) => row.name === `parity`)')}-2")
    parts = parts + page.do("[...document.querySelectorAll('.detail .switch')].map((button) => button.dataset.part)")
    assert parts and all(part.startswith("unit 0 1 ") for part in parts)
    for part in dict.fromkeys(parts):
        net = kl.compile(program)
        with torch.no_grad():
            net.block(0).out2[:, int(part.split()[3])] = 0
        page.do("(view.off.clear(), 0)")
        page.do(f"view.toggle({json.dumps(part)})")
        ours = in_kleene(net, [2, 1, 1])
        assert page.do("[view.run.halted, view.run.outputs]") == [ours["halted"], ours["outputs"]]
        assert page.do("view.damage()") != "Nothing changes on this input: every value is as before."
        assert page.do("document.querySelectorAll('td.wrong').length") > 0


# --- pictures of the weights ------------------------------------------------------------------------------------------


def test_the_wiring_shows_every_head_and_what_is_lit(opened):
    trace = kl.library.addition.trace("34+58")
    page = opened(trace)
    page.click("#tab-wiring")
    nodes = page.do(
        "[...document.querySelectorAll('.wires .node')].map((n) => [n.classList.contains('lit'), n.textContent])"
    )
    names = [name for _, name in nodes]
    assert all(names.count(name) == 2 for name in ("stage", "value_out")) and set(trace.spec.heads) <= set(names)
    lit = {name.split(" · ")[0] for on, name in nodes if on}
    changed = {n for a, b in zip(trace.states[0], trace.states[1]) for n in a if a[n] != b[n]}
    looking = {name for name, outputs in trace.heads[0].items() if any(at.selected for at in outputs)}
    assert changed | looking <= lit and "value_out" not in lit
    net = kl.compile(kl.library.addition)
    counts = {name.split(" · ")[0]: int(name.split(" · ")[1]) for name in names if " · " in name}
    assert sum(counts.values()) == net.sizes.hidden
    page.do("document.querySelector('.wires .units').dispatchEvent(new Event('click'))")
    assert page.do("document.querySelectorAll('.group-units li').length") > 0
    page.do("document.querySelector('.wires .head[role=button]').dispatchEvent(new Event('click'))")
    page.wait("document.querySelector('.wires .node.off')")


def test_every_matrix_is_a_map_of_named_blocks(opened):
    page = opened(kl.library.parity_relative.trace("101"))
    page.click("#tab-weights")
    page.do("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.wait("document.querySelectorAll('.map').length === view.data.weights.matrices.length")
    drawn = page.do(
        "[...document.querySelectorAll('.map')].map((m) => [...m.querySelectorAll('.above, .below')]"
        ".map((p) => (p.getAttribute('d').match(/M/g) ?? []).length).reduce((a, b) => a + b))"
    )
    assert drawn == page.do("view.data.weights.matrices.map((m) => m.entries.length / 3)")
    assert "parity, done" in page.do("document.querySelector('.map').getAttribute('aria-label')")


def test_the_lines_that_wrote_are_lit(opened):
    trace = kl.library.addition.trace("34+58")
    page = opened(trace)
    lit = "[...document.querySelectorAll('.source .lit')].map((line) => +line.dataset.line)"
    for live in (False, True):
        if live:
            type_input(page, "34+58")
        for layer in range(1, trace.layers + 1):
            page.do(f"view.player.go({layer})")
            wrote = {line for place in trace.lines[layer - 1] for line in place.values() if line is not None}
            assert set(page.do(lit)) <= wrote if live else set(page.do(lit)) == wrote
            assert page.do(lit)
