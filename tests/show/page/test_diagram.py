"""Diagrams on pages: no arrow passes through a state, no label lies on one, and they keep step with the table."""

from __future__ import annotations

import math
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from benchmarks.chromium import chromium, find_chromium

import kleene as kl
from kleene.library.turing_machines import MACHINES
from kleene.show.automata import MAX_DRAWN, graph_of
from kleene.show.page.diagram import dead_state, diagram_data
from random_machines import random_dfa
from screens import SCREENS

SAMPLES: dict[str, Any] = {
    **{name: made for name, made in MACHINES.items()},
    "even": lambda: kl.regex("(0|10*1)*", "01"),
    "abb": lambda: kl.regex("(a|b)*abb"),
    "times three": lambda: kl.regex("(0|1(01*0)*1)*"),
    **{f"random {seed}": lambda seed=seed: random_dfa(random.Random(seed), 6, 2).reachable() for seed in range(12)},
}
GRAPHVIZ = pytest.param(True, marks=pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed"))


def points(path: list[list[float]]) -> list[tuple[float, float]]:
    """Points along an arrow: a quadratic curve of three points, or cubic ones, then a straight tip."""
    found = []
    if len(path) == 3:
        pieces = [(path[0], path[1], path[1], path[2])]
    else:
        body = path[:-1]
        pieces = [tuple(body[k : k + 4]) for k in range(0, len(body) - 3, 3)]
    for a, b, c, d in pieces:
        for t in (k / 16 for k in range(17)):
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            if len(path) == 3:
                weights = ((1 - t) ** 2, 2 * t * (1 - t), 0, t * t)
            found.append(tuple(sum(w * p[i] for w, p in zip(weights, (a, b, c, d))) for i in (0, 1)))
    return found


@pytest.mark.parametrize("graphviz", [False, GRAPHVIZ], ids=["ours", "graphviz"])
@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_lies_on_a_state(name, graphviz):
    data = diagram_data(graph_of(SAMPLES[name]()), graphviz)
    assert data is not None and data["by"] == ("Graphviz" if graphviz else "kleene")
    radius, states = data["radius"], data["states"]
    for i, state in enumerate(states):
        assert all(math.dist(state["at"], other["at"]) > 2 * radius for other in states[:i])
        assert (
            radius <= state["at"][0] <= data["width"] - radius and radius <= state["at"][1] <= data["height"] - radius
        )
    for arrow in data["arrows"]:
        for k, state in enumerate(states):
            if k not in (arrow["from"], arrow["to"]):
                assert all(math.dist(point, state["at"]) > radius for point in points(arrow["path"])), (arrow, state)
            assert math.dist(arrow["label_at"], state["at"]) > radius
    places = [arrow["label_at"] for arrow in data["arrows"]]
    assert all(math.dist(a, b) > 8 for i, a in enumerate(places) for b in places[:i])


def test_large_machines_have_no_diagram():
    assert diagram_data(graph_of(kl.regex(f"a{{{MAX_DRAWN}}}"))) is None


def test_arrows_to_a_dead_state_are_left_out():
    words = graph_of(kl.regex("if|else|while|return|for|break"))
    dead = dead_state(words)
    assert dead is not None and words.edges[dead, dead] and dead not in words.accepting
    data = diagram_data(words, graphviz=False)
    assert data is not None and data["dead"] == words.names[dead]
    drawn = {(arrow["from"], arrow["to"]) for arrow in data["arrows"]}
    assert drawn == {pair for pair in words.edges if pair[1] != dead}
    few = graph_of(kl.regex("ab"))  # three arrows are no clutter
    assert dead_state(few) is not None and len(few.names) == 4
    assert dead_state(graph_of(kl.regex("a", alphabet="ab"))) is None
    assert dead_state(graph_of(MACHINES["powers_of_two"]())) is None


@pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed")
@pytest.mark.parametrize("size", SCREENS)
def test_the_current_state_is_in_sight(tmp_path: Path, size: str):
    trace = kl.explain(kl.compile(kl.regex("(0|1)*1(0|1){4}", "01")), "110100101011101")
    trace.to_html(tmp_path / "page.html")
    inside = """(() => {
        const box = view.diagram.box.getBoundingClientRect();
        const at = document.querySelector('.diagram .state.lit circle').getBoundingClientRect();
        return box.left <= at.left && at.right <= box.right && box.top <= at.top && at.bottom <= box.bottom;
    })()"""
    with chromium() as browser:
        browser.open(tmp_path / "page.html", **SCREENS[size])
        for time in range(len(trace.states)):
            browser.do(f"view.player.go({time})")
            assert browser.do(inside), time
        assert browser.complaints == []


@pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed")
def test_the_diagram_keeps_step(tmp_path: Path):
    dfa, machine = kl.regex("(0|10*1)*", "01"), MACHINES["powers_of_two"]()
    lit = "[...document.querySelectorAll('.diagram .state.lit text')].map((text) => text.textContent)"
    arrow = "[...document.querySelectorAll('.diagram g.lit:not(.state)')].map((g) => g.textContent)"
    with chromium() as browser:
        trace = kl.explain(kl.compile(dfa), "0110")
        trace.to_html(tmp_path / "page.html")
        browser.open(tmp_path / "page.html")
        for time, state in enumerate(trace.states):
            browser.do(f"view.player.go({time})")
            assert browser.do(lit) == [state]
            assert browser.do(arrow) == ([trace.symbols[time - 1]] if time else [])
        trace = kl.explain(kl.compile(machine), "1111")
        trace.to_html(tmp_path / "page.html")
        browser.open(tmp_path / "page.html")
        place, width = 0, 0
        for time, tape in enumerate(trace.tapes):
            browser.do(f"view.player.go({time})")
            assert browser.do(lit) == ([tape.state] if tape.state else [])
            assert browser.text(".tape .scanned") == ("" if tape.symbol in ("", " ") or not tape.state else tape.symbol)
            step = (
                machine.transitions.get(trace.tapes[time - 1].state, {}).get(trace.tapes[time - 1].symbol)
                if time
                else None
            )
            place += int(browser.do("document.querySelector('.tape').dataset.moved"))
            width += step[2] if step else 0
            assert place == width
        assert browser.complaints == []
