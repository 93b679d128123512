"""The recurrent network in the page: it computes exactly what Kleene's network computes, on words that a reader types;
units can be switched off; and the page says so where it differs from what was recorded or from its machine."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

import kleene as kl
from kleene.evidence.rnn_traces import RnnTrace
from kleene.networks.rnn.matrix import Matrix
from kleene.show.page import Page
from kleene.show.page.rnn import rnn_page
from random_machines import random_dfa, random_slu_rnn, random_turing, random_two_tape
from screens import SCREENS, needs_chromium

pytestmark = needs_chromium
EVEN = kl.regex("(0|10*1)*", "01")


@pytest.fixture
def opened(quiet, tmp_path):
    """Open a page; afterwards nothing was complained about, and nothing asked of the network."""

    def open_page(thing: RnnTrace | Page, **how: Any) -> Any:
        path = tmp_path / "page.html"
        (thing if isinstance(thing, Page) else rnn_page(thing)).write(path)
        quiet.open(path, **how)
        quiet.wait("document.documentElement.dataset.compared")
        return quiet

    return open_page


def type_word(page: Any, word: str) -> None:
    page.do(f"(document.querySelector('#typed').value = {json.dumps(word)}, 0)")
    page.click(".go")
    page.wait("document.documentElement.dataset.busy === undefined")


SHOWN = """(() => { const plain = (maps) => maps.map((map) => Object.fromEntries(map)), { run } = view;
  return { symbols: run.symbols, hidden: plain(run.hidden), named: plain(run.named), answer: run.answer,
    states: run.states, tapes: run.tapes }; })()"""


def told(trace: RnnTrace) -> dict[str, Any]:
    """A trace as the page tells it."""

    def texts(vectors: Any) -> list[dict[str, str]]:
        return [{str(place): str(value) for place, value in vector.items()} for vector in vectors]

    tapes = trace.tapes and [[t.state, list(t.left), t.symbol, list(t.right)] for t in trace.tapes]
    return {
        "symbols": list(trace.symbols),
        "hidden": texts(trace.hidden),
        "named": texts(trace.named) if trace.named else [{} for _ in trace.hidden],
        "answer": trace.answer,
        "states": trace.states and list(trace.states),
        "tapes": tapes,
    }


def networks() -> dict[str, tuple[Any, str, list[str]]]:
    """Networks of every construction: the word of the page, and words to type."""
    chance = random.Random(7)
    found: dict[str, tuple[Any, str, list[str]]] = {}
    for method in ("minsky", "image", "scalar", "balanced"):
        found[method] = kl.compile(EVEN, method=method), "0110", ["", "1", "0101101"]
    found["slu automaton"] = kl.compile(EVEN, activation="slu"), "01", ["", "111"]
    dfa = random_dfa(chance, states=7, symbols=3)
    letters = "".join(dfa.alphabet)
    words = ["".join(chance.choices(letters, k=9)) for _ in range(3)]
    found["random automaton"] = kl.compile(dfa), words[0], words[1:]
    found["no machine"] = random_slu_rnn(chance), "aa", ["", "aaaa"]
    for form in ("compact", "literal"):
        found[f"powers, {form}"] = (
            kl.compile(kl.library.turing_machines.POWERS_OF_TWO, form=form),
            "11",
            ["", "111", "1111"],
        )
    found["beaver"] = kl.compile(kl.library.turing_machines.busy_beaver(4)), "", ["1", "11"]
    machine = random_turing(chance)
    found["random machine"] = kl.compile(machine), "", ["".join((machine.input_alphabet or ("",))[:1] * 3)]
    found["two tapes"] = kl.compile(random_two_tape(chance)), "aa", ["a"]
    return found


NETWORKS = networks()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_browser_computes_what_the_network_computes(opened, name):
    """Every hidden value, every tape and every answer, as exact numbers."""
    net, word, words = NETWORKS[name]
    recorded = kl.explain(net, word)
    page = opened(recorded)
    assert page.do("document.documentElement.dataset.compared") == "agree", page.text(".badge")
    for typed in words:
        type_word(page, typed)
        trace = kl.explain(net, typed, **({"max_steps": max(500, len(recorded.symbols))} if recorded.tapes else {}))
        assert page.do(SHOWN) == told(trace)
        assert page.text(".problem") == ""


@pytest.mark.parametrize("part", ["hidden", "states", "tapes", "steps", "automaton", "machine", "weights"])
def test_the_badge_says_where_they_differ(opened, part):
    """A recording, a machine or a weight that is not this network's is found out."""
    machine = kl.compile(kl.library.turing_machines.POWERS_OF_TWO)
    trace = kl.explain(machine, "11") if part in ("tapes", "machine") else kl.explain(kl.compile(EVEN), "0110")
    page = rnn_page(trace)
    data = json.loads(json.dumps(page.data))
    if part == "hidden":
        data["values"].append("1/2")
        data["hidden"][2][1] = len(data["values"]) - 1
    elif part == "states":
        data["states"][3] = "q9"
    elif part == "tapes":
        data["tapes"][6][2] = "x"
    elif part == "steps":
        data["symbols"].append("0")
        for name in ("hidden", "named", "outputs", "states"):
            if data[name]:
                data[name].append(data[name][-1])
    elif part == "automaton":
        data["machine"]["accepting"] = [1]
    elif part == "machine":
        state = data["machine"]["start"]
        data["machine"]["transitions"][state] = {
            symbol: [target, write, -move]
            for symbol, (target, write, move) in data["machine"]["transitions"][state].items()
        }
    else:
        data["network"]["bias"] = [*data["network"]["bias"][:1], 7, *data["network"]["bias"][2:]]
    found = opened(Page("rnn", "changed", data))
    assert found.do("document.documentElement.dataset.compared") == "differ"
    said = {"hidden": "time 2", "states": "q9", "tapes": "the tape", "steps": "one takes 5 steps, the other 4"}
    said |= {"automaton": "automaton", "machine": "another configuration", "weights": "time"}
    assert said[part] in found.text(".badge")


@pytest.mark.parametrize("size", SCREENS)
@pytest.mark.parametrize("kind", ["automaton", "machine"])
def test_another_word_is_typed_and_runs(opened, kind, size):
    """Type, step, and see diagram, tape and table go together."""
    net = kl.compile(EVEN if kind == "automaton" else kl.library.turing_machines.POWERS_OF_TWO)
    page = opened(kl.explain(net, "11"), **SCREENS[size])
    assert page.do("document.querySelector('#typed').value") == "11" and page.text("#answer") == "→ accepts"
    type_word(page, "111")
    assert page.text("#answer") == "→ rejects" and "run by this page's network" in page.text(".facts")
    trace = kl.explain(net, "111")
    states = trace.states or [tape.state for tape in trace.tapes or ()]
    for time, state in enumerate(states):
        page.do(f"view.player.go({time})")
        lit = page.do("[...document.querySelectorAll('.diagram .state.lit text')].map((t) => t.textContent)")
        assert lit == ([state] if state else [])
        if kind == "machine":
            assert page.text(".tape .where-it-is") == (state or "reading")
            assert page.text(".tape .scanned") == (trace.tapes[time].symbol.strip() if state else "")
    assert page.do("document.documentElement.scrollWidth <= innerWidth")
    type_word(page, "1x")
    assert page.text(".problem").startswith("“x” is not in the alphabet")
    type_word(page, "")
    assert page.text(".problem") == "" and page.text(".result").startswith("the empty word")
    page.do("view.restore()")
    page.wait("document.querySelector('#answer').textContent === '→ accepts'")


@pytest.mark.parametrize("size", SCREENS)
def test_a_unit_is_switched_off_by_a_click(opened, size):
    """The page breaks as the network breaks in Python with that unit's weights at zero."""
    net = kl.compile(EVEN, method="minsky")
    page = opened(kl.explain(net, "0110"), **SCREENS[size])
    for unit in range(net.units):
        row = page.do(f"view.rows.findIndex((row) => row.part === 'hidden' && row.index === {unit})")
        page.do(f"view.choose({row}, 1)")
        page.click(".detail .switch")
        page.wait("document.querySelector('#damage')")
        without = cut(net, unit)
        assert page.do(SHOWN)["hidden"] == told(RnnTrace(without, (), (), tuple(without.trace("0110")), None))["hidden"]
        says = "accept" if without.accepts("0110") else "reject"
        assert page.do("view.run.answer") == says
        differs = page.do("document.querySelectorAll('td.wrong').length")
        assert (differs > 0) == (list(without.trace("0110")) != list(net.trace("0110")))
        page.click(".broken .link")
        page.wait("document.querySelector('.broken').hidden")
    assert page.text("#answer") == "→ accepts"
    assert page.do("document.documentElement.scrollWidth <= innerWidth")


def cut(net: Any, unit: int) -> Any:
    """The network without one unit: no weight leads into it."""

    def without(matrix: Matrix) -> Matrix:
        return Matrix(matrix.rows, matrix.columns, {at: v for at, v in matrix.entries.items() if at[0] != unit})

    def less(values: Any) -> Any:
        return {i: v for i, v in values.items() if i != unit}

    readout = net.readout and replace(net.readout, A=without(net.readout.A))
    return replace(net, V=without(net.V), W=without(net.W), b=less(net.b), s=less(net.s), readout=readout)


def test_a_broken_machine_says_so(opened):
    """With a unit off, the numbers need not code a tape: the page says what is left."""
    net = kl.compile(kl.library.turing_machines.POWERS_OF_TWO)
    page = opened(kl.explain(net, "11"))
    broken = 0
    for unit in range(0, net.units, 7):
        page.do(f"view.toggle({unit})")
        page.wait("document.documentElement.dataset.busy === undefined && document.querySelector('#damage')")
        assert page.text("#damage") and page.text("#answer").startswith("→ ")
        broken += "instead of accept" in page.text("#damage")
        page.do(f"view.toggle({unit})")
        page.wait("document.documentElement.dataset.busy === undefined")
    assert broken > 1


@pytest.mark.parametrize("size", SCREENS)
def test_weights_by_name(opened, size):
    page = opened(kl.explain(kl.compile(EVEN, method="minsky"), "01"), **SCREENS[size])
    page.click("#tab-weights")
    page.do("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.wait("document.querySelectorAll('.terms > div').length > 5")
    assert page.do("document.querySelectorAll('.map').length") == page.do("document.querySelectorAll('details').length")
    net = kl.compile(EVEN, method="minsky")
    rows = page.do("[...document.querySelectorAll('.terms > div')].map((d) => d.textContent)")
    assert any(row.startswith("unit 1") and "symbol" in row for row in rows)
    assert f"{net.units} units" in page.text(".weights .facts")
    assert page.do("document.documentElement.scrollWidth <= innerWidth")


def test_on_a_phone_the_chosen_value_comes_up_as_a_sheet(opened):
    page = opened(kl.explain(kl.compile(EVEN), "0110"), **SCREENS["phone"])
    fixed = "getComputedStyle(document.querySelector('.detail')).position"
    assert page.do(fixed) == "static"
    page.click("#c1-2")
    assert page.do(fixed) == "fixed"
    page.click(".detail .close")
    assert page.do(fixed) == "static"


def test_a_network_too_large_for_a_page_says_so(opened, browser, tmp_path, monkeypatch):
    monkeypatch.setattr("kleene.show.page.rnn.MAX_NONZERO", 3)
    path = tmp_path / "page.html"
    kl.explain(kl.compile(EVEN), "0110").to_html(path)
    browser.open(path)
    assert "too large to run" in browser.text(".badge") and browser.text("#answer") == "→ accepts"
    browser.press("End")
    assert browser.text("#output") == "accepts"
