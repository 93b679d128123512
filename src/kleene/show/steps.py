"""A page for teaching: subset construction, minimisation and state elimination, one step at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from kleene.errors import NotSupported
from kleene.files import write_text
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.expressions import Algebra
from kleene.machines.automata.nfa import NFA
from kleene.machines.automata.to_regex import Edges, cheapest, edges_of, take_out
from kleene.show.automata import Graph, graph_of_dfa, graph_of_nfa
from kleene.show.diagram import svg

MAX_STATES = 40
COLOURS = ("#ffe9b3", "#cfe8ff", "#d8f5d0", "#f6d5e8", "#e4dcff", "#ffd9c9", "#d2f2f0", "#eee")


@dataclass(frozen=True)
class Step:
    """One step of a construction: what is done, and the diagram and table after it."""

    title: str
    text: str
    picture: str
    table: list[list[str]]


def _svg(graph: Graph, marked: dict[int, str] | None = None) -> str:
    return svg(graph.names, graph.starts, graph.accepting, graph.edges, marked)


def _set_name(nfa: NFA, members: frozenset[int]) -> str:
    return "{" + ",".join(nfa.name(q) for q in sorted(members)) + "}" if members else "∅"


def subset_steps(nfa: NFA) -> Iterator[Step]:
    """The subset construction: one step for each set of states, in the order that they are found."""
    first = nfa.closure(nfa.start)
    number, queue = {first: 0}, [first]
    rows: list[list[int]] = []
    yield Step(
        "The nondeterministic automaton",
        f"The start set is all that empty moves reach: {_set_name(nfa, first)}.",
        _svg(graph_of_nfa(nfa), dict.fromkeys(first, COLOURS[0])),
        [],
    )
    for members in queue:
        row = []
        for code in range(len(nfa.alphabet)):
            target = nfa.step(members, code)
            if target not in number:
                number[target] = len(number)
                queue.append(target)
            row.append(number[target])
        rows.append(row)
        moves = ", ".join(f"{s} to {_set_name(nfa, queue[r])}" for s, r in zip(nfa.alphabet, row))
        names = [_set_name(nfa, q) for q in queue]
        table = [["set", *nfa.alphabet], *([names[i], *(names[r] for r in found)] for i, found in enumerate(rows))]
        full = [*rows, *([[i] * len(nfa.alphabet) for i in range(len(rows), len(queue))])]
        accepting = [i for i, q in enumerate(queue) if any(nfa.accepting[s] for s in q)]
        graph = graph_of_dfa(DFA(full, accepting, nfa.alphabet))
        known = {pair: label for pair, label in graph.edges.items() if pair[0] < len(rows)}
        shown = Graph([f"{i}" for i in range(len(queue))], (0,), graph.accepting, known)
        marks = {i: COLOURS[0] if i == len(rows) - 1 else "#eee" for i in range(len(rows) - 1, len(queue))}
        yield Step(
            f"Set {len(rows) - 1} = {_set_name(nfa, members)}",
            f"Read each symbol from every state of the set: {moves}. A set accepts where one of its states does.",
            _svg(shown, marks),
            table,
        )


def minimisation_steps(dfa: DFA) -> Iterator[Step]:
    """Moore's refinement: blocks of states are split until no symbol tells two states of a block apart."""
    here = dfa.reachable()
    blocks = here.accepting.astype(int)
    graph = graph_of_dfa(here)
    for stage in range(len(here) + 1):
        listed = [np.flatnonzero(blocks == b).tolist() for b in np.unique(blocks)]
        text = "; ".join("{" + ", ".join(here.name(q) for q in members) + "}" for members in listed)
        table = [["state", "block", *here.alphabet]]
        table += [
            [here.name(q), str(blocks[q]), *(str(blocks[r]) for r in here.table[q].tolist())] for q in range(len(here))
        ]
        marks = {q: COLOURS[int(blocks[q]) % len(COLOURS)] for q in range(len(here))}
        why = "Accepting and rejecting states are apart." if stage == 0 else f"Words of {stage} symbols were used."
        yield Step(f"{len(listed)} blocks", f"{why} Blocks: {text}.", _svg(graph, marks), table)
        keys = [(int(blocks[q]), *(int(blocks[r]) for r in here.table[q].tolist())) for q in range(len(here))]
        number: dict[tuple[int, ...], int] = {}
        after = np.array([number.setdefault(key, len(number)) for key in keys])
        if len(number) == len(listed):
            break
        blocks = after
    small = dfa.minimise()
    yield Step(
        "The minimal automaton",
        f"No symbol tells two states of a block apart, so each block is one state: {len(small)}.",
        _svg(graph_of_dfa(small)),
        [],
    )


def elimination_steps(dfa: DFA) -> Iterator[Step]:
    """State elimination: every way through a state becomes a label, until one label is left."""
    algebra = Algebra()
    edges = edges_of(dfa.minimise(), algebra)
    yield Step(
        "One start and one end",
        "A new start and a new end are joined to the automaton by empty moves.",
        *_elimination(edges, algebra),
    )
    while len(edges) > 2:
        state = cheapest(edges, algebra)
        ways = [(p, r) for p in edges for r in edges[state] if state in edges[p] and state not in (p, r)]
        take_out(edges, state, algebra)
        yield Step(
            f"Without q{state}",
            f"{len(ways)} way{'' if len(ways) == 1 else 's'} led through q{state}; each is a label now.",
            *_elimination(edges, algebra),
        )
    yield Step("The expression", algebra.show(edges[-1].get(-2, algebra.nothing)), "", [])


def _elimination(edges: Edges, algebra: Algebra) -> tuple[str, list[list[str]]]:
    order = [-1, *sorted(q for q in edges if q >= 0), -2]
    names = {-1: "start", -2: "end"}
    number = {q: i for i, q in enumerate(order)}
    labels = {
        (number[p], number[r]): algebra.show(term)[:18] or "ε" for p, row in edges.items() for r, term in row.items()
    }
    table = [["from", "to", "label"]]
    table += [
        [names.get(p, f"q{p}"), names.get(r, f"q{r}"), algebra.show(term) or "ε"]
        for p, row in edges.items()
        for r, term in row.items()
    ]
    shown = [names.get(q, f"q{q}") for q in order]
    return svg(shown, [0], [len(order) - 1], labels), table


def page(pattern: str, nfa: NFA | None, dfa: DFA) -> str:
    """The page: three constructions, each with its steps."""
    if len(dfa) > MAX_STATES or (nfa is not None and len(nfa) > MAX_STATES):
        raise NotSupported(f"steps: more than {MAX_STATES} states; a page of steps is for small automata")
    whole = nfa.determinise() if nfa is not None else dfa
    parts = []
    if nfa is not None:
        parts.append(("Subset construction", list(subset_steps(nfa))))
    parts.append(("Minimisation", list(minimisation_steps(whole))))
    parts.append(("State elimination", list(elimination_steps(dfa))))
    sections = []
    for k, (title, steps) in enumerate(parts):
        shown = "".join(
            f'<div class="step" data-part="{k}" data-step="{i}"><h3>{i + 1} of {len(steps)}: {escape(step.title)}</h3>'
            f"<p>{escape(step.text)}</p>{step.picture}{_table(step.table)}</div>"
            for i, step in enumerate(steps)
        )
        moves = (("-1", "‹ back"), ("1", "next ›"))
        buttons = "".join(f'<button data-part="{k}" data-move="{move}">{text}</button>' for move, text in moves)
        sections.append(f"<section><h2>{title}</h2><nav>{buttons}</nav>{shown}</section>")
    return TEMPLATE.replace("{title}", escape(pattern)).replace("{sections}", "".join(sections))


def _table(rows: list[list[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f"<table><tr>{head}</tr>{body}</table>"


def save_page(pattern: str, dfa: DFA, path: Path) -> None:
    """Write the page of a pattern, or of an automaton where the pattern has assertions or is a file."""
    write_text(path, page(pattern, small_nfa(pattern, dfa), dfa))


def small_nfa(pattern: str, dfa: DFA) -> NFA | None:
    """Thompson's automaton without its empty moves' detours; None if the pattern has none."""
    from kleene.errors import KleeneError
    from kleene.machines.automata.regex import thompson

    try:
        found = thompson(pattern, dfa.alphabet)
    except KleeneError:
        return None
    plain = found.without_empty_moves()
    reached = sorted({q for members in _reached(plain) for q in members})
    number = {q: i for i, q in enumerate(reached)}
    moves = [(number[p], s, number[q]) for p, s, q in plain.transitions() if p in number and q in number]
    final = [number[q] for q in reached if plain.accepting[q]]
    small = NFA(moves, final, plain.alphabet, [number[q] for q in plain.start], len(reached))
    return small if len(small) <= MAX_STATES and small.determinise() == dfa else None


def _reached(nfa: NFA) -> list[frozenset[int]]:
    seen = [nfa.closure(nfa.start)]
    for members in seen:
        for code in range(len(nfa.alphabet)):
            after = nfa.step(members, code)
            if after not in seen:
                seen.append(after)
    return seen


TEMPLATE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; color: #222; padding: 0 1rem; }
section { border-top: 1px solid #ddd; padding-bottom: 1rem; } .step { display: none; } .step.now { display: block; }
svg.diagram { max-width: 100%; height: auto; } .edge { fill: none; stroke: #333; stroke-width: 1.3; }
.state { stroke: #222; stroke-width: 1.4; } .inner { fill: none; stroke: #222; }
text { text-anchor: middle; dominant-baseline: central; font-family: ui-monospace, monospace; }
.label { font-size: 12px; } table { border-collapse: collapse; margin: 1rem 0; } td, th { border: 1px solid #ccc;
padding: .15rem .6rem; font-family: ui-monospace, monospace; } button { font: inherit; margin-right: .5rem; }
</style></head><body><h1>{title}</h1>{sections}<script>
const at = {};
function show(part, step) {
  const steps = document.querySelectorAll(`.step[data-part="${part}"]`);
  at[part] = Math.max(0, Math.min(steps.length - 1, step));
  steps.forEach((s, i) => s.classList.toggle("now", i === at[part]));
}
document.querySelectorAll("button").forEach(b => {
  b.onclick = () => show(b.dataset.part, at[b.dataset.part] + +b.dataset.move);
});
[...new Set([...document.querySelectorAll(".step")].map(s => s.dataset.part))].forEach(p => show(p, 0));
document.onkeydown = e => {
  const move = {ArrowRight: 1, ArrowLeft: -1}[e.key];
  if (move) for (const part in at) show(part, at[part] + move);
};
</script></body></html>
"""
