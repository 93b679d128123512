"""Automata and Turing machines as DOT text and as pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.errors import NotSupported
from kleene.files import written_atomically

if TYPE_CHECKING:
    from kleene.machines.automata.alternating import AFA, Formula, Threshold
    from kleene.machines.automata.dfa import DFA
    from kleene.machines.automata.nfa import NFA
    from kleene.machines.automata.transducer import Transducer
    from kleene.machines.turing import TuringMachine

MAX_DRAWN = 60
MAX_DOT = 10_000
SPELLED = {" ": "␣", "\n": "\\n", "\t": "\\t"}


@dataclass(frozen=True)
class Graph:
    """What is drawn: nodes with names, which begin and accept, and a label for each pair of nodes."""

    names: list[str]
    starts: tuple[int, ...]
    accepting: set[int]
    edges: dict[tuple[int, int], str]


def graph_of_dfa(dfa: DFA) -> Graph:
    """One edge a pair of states, labelled with its symbols (ranges of characters joined)."""
    symbols: dict[tuple[int, int], list[str]] = {}
    for q, row in enumerate(dfa.table.tolist()):
        for symbol, r in zip(dfa.alphabet, row):
            symbols.setdefault((q, r), []).append(symbol)
    names = [dfa.name(q) for q in range(len(dfa))]
    accepting = {q for q in range(len(dfa)) if dfa.accepting[q]}
    return Graph(names, (dfa.start,), accepting, {pair: ", ".join(ranges(s)) for pair, s in symbols.items()})


def graph_of_turing(machine: TuringMachine) -> Graph:
    """One edge a pair of states, labelled read→written, move."""
    number = {q: i for i, q in enumerate(machine.states)}
    labels: dict[tuple[int, int], list[str]] = {}
    for q, row in machine.transitions.items():
        for a, (target, write, move) in row.items():
            text = f"{SPELLED.get(a, a)}→{SPELLED.get(write, write)},{'LSR'[move + 1]}"
            labels.setdefault((number[q], number[target]), []).append(text)
    edges = {pair: "\n".join(lines) for pair, lines in labels.items()}
    return Graph(list(machine.states), (number[machine.start],), {number[q] for q in machine.accept}, edges)


def ranges(symbols: Iterable[str]) -> list[str]:
    """Symbols for people; runs of four or more characters as first–last.

    >>> ranges("abcdexz")
    ['a–e', 'x', 'z']
    """
    result: list[str] = []
    run: list[str] = []
    for symbol in [*sorted(symbols), ""]:
        if run and len(symbol) == 1 and len(run[-1]) == 1 and ord(symbol) == ord(run[-1]) + 1:
            run.append(symbol)
            continue
        shown = [SPELLED.get(s, s) for s in run]
        result += [f"{shown[0]}–{shown[-1]}"] if len(run) >= 4 else shown
        run = [symbol]
    return result


def to_dot(dfa: DFA) -> str:
    """An automaton in Graphviz's language."""
    return _dot(graph_of_dfa(dfa))


def graph_of_nfa(nfa: NFA) -> Graph:
    """One edge a pair of states, labelled with its symbols; ε for an empty move."""
    symbols: dict[tuple[int, int], list[str]] = {}
    for p, symbol, q in nfa.transitions():
        symbols.setdefault((p, q), []).append(symbol)
    edges = {
        pair: ", ".join([*(["ε"] if "" in listed else []), *ranges(s for s in listed if s)])
        for pair, listed in symbols.items()
    }
    names = [nfa.name(q) for q in range(len(nfa))]
    accepting = {q for q in range(len(nfa)) if nfa.accepting[q]}
    return Graph(names, nfa.start, accepting, edges)


def graph_of_transducer(machine: Transducer) -> Graph:
    """One edge a pair of states, labelled read/written."""
    labels: dict[tuple[int, int], list[str]] = {}
    for q, row in enumerate(machine.table.tolist()):
        for symbol, r, out in zip(machine.alphabet, row, machine.outputs[q]):
            if r >= 0:
                written = "".join(SPELLED.get(s, s) for s in out) or "ε"
                labels.setdefault((q, r), []).append(f"{SPELLED.get(symbol, symbol)}/{written}")
    names = [machine.name(q) for q in range(len(machine))]
    ending = {q for q in range(len(machine)) if machine.last[q] is not None}
    edges = {pair: "\n".join(lines) for pair, lines in labels.items()}
    return Graph(names, (machine.start,), set() if len(ending) == len(machine) else ending, edges)


def graph_of(thing: Any) -> Graph:
    """The graph of any machine that has one."""
    makers: dict[str, Callable[[Any], Graph]] = {
        "DFA": graph_of_dfa,
        "NFA": graph_of_nfa,
        "Transducer": graph_of_transducer,
        "TuringMachine": graph_of_turing,
    }
    for cls in type(thing).__mro__:
        if cls.__name__ in makers:
            return makers[cls.__name__](thing)
    raise NotSupported(f"picture: a {type(thing).__name__} has none; there are pictures of {', '.join(makers)}")


def nfa_to_dot(nfa: NFA) -> str:
    """A nondeterministic automaton in Graphviz's language."""
    return _dot(graph_of_nfa(nfa))


def transducer_to_dot(machine: Transducer) -> str:
    """A machine with output in Graphviz's language."""
    return _dot(graph_of_transducer(machine))


def turing_to_dot(machine: TuringMachine) -> str:
    """A Turing machine in Graphviz's language."""
    return _dot(graph_of_turing(machine))


def _dot(graph: Graph) -> str:
    if len(graph.names) > MAX_DOT:
        raise NotSupported(f"DOT: {len(graph.names):,} states, more than {MAX_DOT:,}")

    lines = ["digraph {", "  rankdir=LR;", "  node [shape=circle];", '  begin [shape=point, label=""];']
    for i, name in enumerate(graph.names):
        shape = ", shape=doublecircle" if i in graph.accepting else ""
        lines.append(f"  n{i} [label={_quote(name)}{shape}];")
    lines += [f"  begin -> n{start};" for start in graph.starts]
    lines += [f"  n{i} -> n{j} [label={_quote(label)}];" for (i, j), label in graph.edges.items()]
    return "\n".join([*lines, "}", ""])


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def afa_to_dot(afa: AFA) -> str:
    """An alternating automaton in Graphviz's language. A transition leads to a state, or to a box: a formula, whose
    edges lead to its parts."""
    boxes: list[str] = []
    edges: list[str] = []

    def node(formula: Formula) -> str:
        if isinstance(formula, int):
            return f"n{formula}"
        name = f"f{len(boxes)}"
        boxes.append(f"  {name} [shape=box, label={_quote(_formula_label(formula))}];")
        for weight, part in formula.parts:
            label = "" if weight == 1 or _formula_label(formula) == "not" else f" [label={_quote(str(weight))}]"
            edges.append(f"  {name} -> {node(part)}{label};")
        return name

    for q, row in enumerate(afa.transitions):
        for symbol, formula in row.items():
            edges.append(f"  n{q} -> {node(formula)} [label={_quote(SPELLED.get(symbol, symbol))}];")
    edges.append(f"  begin -> {node(afa.head)};")
    if len(afa) + len(boxes) > MAX_DOT:
        raise NotSupported(f"DOT: {len(afa) + len(boxes):,} states and formulas, more than {MAX_DOT:,}")
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=circle];", '  begin [shape=point, label=""];']
    for q in range(len(afa)):
        lines.append(f'  n{q} [label="q{q}"{", shape=doublecircle" if q in afa.accepting else ""}];')
    return "\n".join([*lines, *boxes, *edges, "}", ""])


def _formula_label(formula: Threshold) -> str:
    weights = [weight for weight, _ in formula.parts]
    if not weights:
        return "true" if formula.at_least <= 0 else "false"
    if weights == [-1] and formula.at_least == 0:
        return "not"
    if set(weights) == {1} and formula.at_least in (1, len(weights)):
        return "and" if formula.at_least == len(weights) else "or"
    return f"≥ {formula.at_least}"


def draw(thing: Any, path: Path) -> None:
    """A picture (.png, .svg, .pdf) of an automaton or a Turing machine."""
    figure = picture(thing)
    with written_atomically(path) as beside:
        figure.savefig(beside, dpi=150)


def png(thing: Any) -> bytes | None:
    """The picture for notebooks, at most 8 inches wide; nothing where there are too many states."""
    if len(getattr(thing, "states", thing)) > MAX_DRAWN:
        return None
    content, figure = BytesIO(), picture(thing)
    width = figure.get_size_inches()[0]
    figure.savefig(content, format="png", dpi=min(100, 800 / width))
    return content.getvalue()


def picture(thing: Any) -> Any:
    """The same as a matplotlib figure."""
    from matplotlib.figure import Figure

    graph = graph_of(thing)
    if len(graph.names) > MAX_DRAWN:
        raise NotSupported(f"picture: {len(graph.names)} states, more than {MAX_DRAWN}; save .dot instead")
    places = _places(graph)
    width = 1.9 * (max(x for x, _ in places) + 1) + 0.8
    height = 1.7 * (max(y for _, y in places) - min(y for _, y in places) + 1) + 1.0
    figure = Figure(figsize=(max(width, 3.0), max(height, 2.2)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_aspect("equal")
    axes.axis("off")
    for (i, j), label in graph.edges.items():
        _edge(axes, places, i, j, label, (j, i) in graph.edges)
    for start in graph.starts:
        _start_arrow(axes, places[start])
    for i, (x, y) in enumerate(places):
        for radius in (0.25, 0.20) if i in graph.accepting else (0.25,):
            axes.add_patch(_circle(x, y, radius))
        axes.text(
            x,
            y,
            graph.names[i],
            ha="center",
            va="center",
            fontsize=10 if len(graph.names[i]) < 5 else 7,
            zorder=4,
        )
    xs, ys = zip(*places)
    axes.set_xlim(min(xs) - 0.9, max(xs) + 0.6)
    axes.set_ylim(min(ys) - 0.8, max(ys) + 0.9)
    return figure


def _places(graph: Graph) -> list[tuple[float, float]]:
    """Columns by distance from the start; states of one distance one above another."""
    distance = dict.fromkeys(graph.starts, 0)
    queue = list(graph.starts)
    for i in queue:
        for a, b in graph.edges:
            if a == i and b not in distance:
                distance[b] = distance[i] + 1
                queue.append(b)
    last = max(distance.values()) + 1
    columns: dict[int, list[int]] = {}
    for i in [*queue, *(i for i in range(len(graph.names)) if i not in distance)]:
        columns.setdefault(distance.get(i, last), []).append(i)
    places = [(0.0, 0.0)] * len(graph.names)
    for x, column in columns.items():
        for k, i in enumerate(column):
            places[i] = (1.5 * x, 1.2 * ((len(column) - 1) / 2 - k) + 0.25 * (x % 2))
    return places


def _circle(x: float, y: float, radius: float) -> Any:
    from matplotlib.patches import Circle

    return Circle((x, y), radius, facecolor="white", edgecolor="black", linewidth=1.2, zorder=3)


def _arrow(axes: Any, begin: tuple[float, float], end: tuple[float, float], bend: float, shrink: float) -> None:
    axes.annotate(
        "",
        end,
        begin,
        zorder=2,
        arrowprops={
            "arrowstyle": "-|>",
            "color": "black",
            "shrinkA": shrink,
            "shrinkB": shrink,
            "linewidth": 1.0,
            "connectionstyle": f"arc3,rad={bend}",
        },
    )


def _edge(axes: Any, places: list[tuple[float, float]], i: int, j: int, label: str, returns: bool) -> None:
    (x0, y0), (x1, y1) = places[i], places[j]
    if i == j:
        _arrow(axes, (x0 - 0.13, y0 + 0.21), (x0 + 0.13, y0 + 0.21), -1.9, 0)
        axes.text(x0, y0 + 0.58, label, ha="center", va="bottom", fontsize=8, zorder=5)
        return
    length = math.hypot(x1 - x0, y1 - y0)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    bend = 0.25 if returns or length > 2 else 0.0
    _arrow(axes, (x0 + 0.26 * ux, y0 + 0.26 * uy), (x1 - 0.26 * ux, y1 - 0.26 * uy), bend, 0)
    side = bend * length / 2 + 0.1  # the arc bulges to the right of its direction
    axes.text(
        (x0 + x1) / 2 + uy * side,
        (y0 + y1) / 2 - ux * side,
        label,
        ha="center",
        va="center",
        fontsize=8,
        zorder=5,
        bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
    )


def _start_arrow(axes: Any, place: tuple[float, float]) -> None:
    _arrow(axes, (place[0] - 0.75, place[1]), (place[0] - 0.26, place[1]), 0.0, 0)
