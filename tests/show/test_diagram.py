"""Diagrams: no state on another, no label on a state or on another label; pages of steps."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import kleene as kl
from kleene.machines.automata.regex import thompson
from kleene.show.automata import graph_of
from kleene.show.diagram import RADIUS, lay_out
from kleene.show.steps import elimination_steps, minimisation_steps, page, small_nfa, subset_steps
from random_machines import random_dfa


@pytest.mark.parametrize("seed", range(40))
def test_nothing_overlaps(seed: int) -> None:
    dfa = random_dfa(random.Random(seed), 9, 3).reachable()
    graph = graph_of(dfa)
    layout = lay_out(len(graph.names), graph.starts, graph.edges)
    for i, (x, y) in enumerate(layout.places):
        assert all((x - u) ** 2 + (y - v) ** 2 > (2 * RADIUS) ** 2 for u, v in layout.places[:i])
    labels = [arrow.label for arrow in layout.arrows]
    for i, box in enumerate(labels):
        assert all(box.off(place) for place in layout.places), (seed, box)
        assert all(box.apart(other) for other in labels[:i]), (seed, box)


@pytest.mark.parametrize("pattern", ["(a|b)*abb", "a*(ba?)*", "(0|10*1)*", "ab|cd*"])
def test_the_steps_end_where_the_constructions_end(pattern: str) -> None:
    dfa = kl.regex(pattern)
    nfa = small_nfa(pattern, dfa)
    assert nfa is not None and nfa.determinise() == dfa == thompson(pattern).determinise()
    subsets = list(subset_steps(nfa))
    assert len(subsets) == 1 + len(nfa.determinise()) == len(subsets[-1].table)
    blocks = list(minimisation_steps(nfa.determinise()))
    assert int(blocks[-2].title.split()[0]) == len(dfa)  # as many blocks as states
    eliminated = list(elimination_steps(dfa))
    assert kl.regex(eliminated[-1].text, dfa.alphabet) == dfa
    text = page(pattern, nfa, dfa)
    HTMLParser().feed(text)
    assert text.count('class="step"') == len(subsets) + len(blocks) + len(eliminated)
    assert not re.search(r"(src|href)=", text)  # nothing is loaded from elsewhere


def test_large_automata_have_no_page() -> None:
    with pytest.raises(kl.NotSupported, match="for small automata"):
        page("x", None, kl.regex("a{50}"))


def test_pictures_of_every_machine(tmp_path: Path) -> None:
    nfa = kl.NFA([(0, "a", 0), (0, "", 1), (1, "b", 2)], [2], "ab")
    for i, machine in enumerate((nfa, kl.regex("a|b"))):
        machine.save(tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").read_bytes().startswith(b"\x89PNG")
    assert "ε" in nfa.to_dot() and "a/b" in kl.Transducer.mealy([[0]], ["b"], "a").to_dot()
