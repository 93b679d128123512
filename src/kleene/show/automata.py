"""Automata and Turing machines as DOT text and as pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.errors import NotSupported, a_type
from kleene.files import written_atomically
from kleene.show.diagram import RADIUS, Point, lay_out

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
    raise NotSupported(f"picture: {a_type(thing)} has no picture; give one of: {', '.join(makers)}")


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
    layout = lay_out(len(graph.names), graph.starts, graph.edges)
    left, bottom, right, top = layout.bounds()
    figure = Figure(figsize=(max(right - left, 3.0), max(top - bottom, 2.0)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_aspect("equal")
    axes.axis("off")
    for arrow in layout.arrows:
        _draw_arrow(axes, arrow.begin, arrow.bend, arrow.end)
        axes.text(arrow.label.x, arrow.label.y, arrow.label.text, ha="center", va="center", fontsize=8, zorder=5)
    for start in graph.starts:
        x, y = layout.places[start]
        _draw_arrow(axes, (x - 0.75, y), (x - 0.5, y), (x - RADIUS, y))
    for i, (x, y) in enumerate(layout.places):
        for radius in (RADIUS, RADIUS - 0.05) if i in graph.accepting else (RADIUS,):
            axes.add_patch(_circle(x, y, radius))
        size = 10 if len(graph.names[i]) < 5 else 7
        axes.text(x, y, graph.names[i], ha="center", va="center", fontsize=size, zorder=4)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    return figure


def _draw_arrow(axes: Any, begin: Point, bend: Point, end: Point) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    curve = Curve([begin, bend, end], [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3])
    axes.add_patch(
        FancyArrowPatch(path=curve, arrowstyle="-|>", color="black", mutation_scale=10, linewidth=1.0, zorder=2)
    )


def _circle(x: float, y: float, radius: float) -> Any:
    from matplotlib.patches import Circle

    return Circle((x, y), radius, facecolor="white", edgecolor="black", linewidth=1.2, zorder=3)
