"""The state diagram of a machine as data for a page: laid out by Graphviz where it is installed, else by ourselves."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from typing import Any

from kleene.show.automata import MAX_DRAWN, SPELLED, Graph
from kleene.show.diagram import RADIUS, Point, lay_out

SCALE = 72.0  # pixels for an inch of Graphviz, and for a unit of our layout
PATIENCE = 10  # seconds for Graphviz
MANY_ARROWS = 3  # from as many states on, arrows to a dead state are left out


def diagram_data(graph: Graph, graphviz: bool | None = None) -> dict[str, Any] | None:
    """The places of states and arrows in pixels; None where there are too many states to draw.

    graphviz: whether Graphviz lays the diagram out; by default where it is installed.
    """
    if len(graph.names) > MAX_DRAWN:
        return None
    dead = dead_state(graph)
    if dead is not None:  # drawn by itself: arrows to it would cover the others
        graph = replace(graph, edges={pair: text for pair, text in graph.edges.items() if pair[1] != dead})
    found = _by_graphviz(graph) if graphviz is not False else None
    if found is None and graphviz:
        return None
    made = found or _by_ourselves(graph)
    states = [
        {"name": name, "start": i in graph.starts, "accepting": i in graph.accepting, "at": made["places"][i]}
        for i, name in enumerate(graph.names)
    ]
    return {"width": made["width"], "height": made["height"], "radius": made["radius"], "states": states} | {
        "arrows": [{"from": i, "to": j, **arrow} for (i, j), arrow in zip(graph.edges, made["arrows"])],
        "by": made["by"],
        "dead": None if dead is None else graph.names[dead],
    }


def dead_state(graph: Graph) -> int | None:
    """The state that is never left and does not accept, if at least MANY_ARROWS others lead to it."""
    before: dict[int, set[int]] = {}
    after: dict[int, set[int]] = {}
    for i, j in graph.edges:
        before.setdefault(j, set()).add(i)
        after.setdefault(i, set()).add(j)
    found = (q for q in after if after[q] == {q} and q not in graph.accepting and q not in graph.starts)
    return next((q for q in found if len(before[q]) > MANY_ARROWS), None)


def _by_ourselves(graph: Graph) -> dict[str, Any]:
    layout = lay_out(len(graph.names), graph.starts, graph.edges)
    left, bottom, right, top = layout.bounds()

    def at(point: Point) -> list[float]:
        return [round((point[0] - left) * SCALE, 1), round((top - point[1]) * SCALE, 1)]

    arrows = [
        {
            "path": [at(arrow.begin), at(arrow.bend), at(arrow.end)],
            "label": arrow.label.text,
            "label_at": at((arrow.label.x, arrow.label.y)),
        }
        for arrow in layout.arrows
    ]
    return {
        "width": round((right - left) * SCALE),
        "height": round((top - bottom) * SCALE),
        "radius": RADIUS * SCALE,
        "places": [at(place) for place in layout.places],
        "arrows": arrows,
        "by": "kleene",
    }


def _by_graphviz(graph: Graph) -> dict[str, Any] | None:
    """The layout of `dot`; None where it is not installed, or fails."""
    program = shutil.which("dot")
    if program is None:
        return None
    radius = 0.27
    lines = [
        "digraph { rankdir=LR; nodesep=0.45; ranksep=0.6;",
        f'node [shape=circle, width={2 * radius}, fixedsize=true, label=""]',
    ]
    lines += [f"n{i};" for i in range(len(graph.names))]
    lines += [f"n{i} -> n{j} [label={json.dumps(text)}, fontsize=14];" for (i, j), text in graph.edges.items()]
    try:
        made = subprocess.run(
            [program, "-Tjson0"], input="\n".join([*lines, "}"]), capture_output=True, text=True, timeout=PATIENCE
        )
        content = json.loads(made.stdout)
        left, bottom, right, top = (float(number) for number in content["bb"].split(","))
        margin = 40.0

        def at(text: str) -> list[float]:
            x, y = (float(number) for number in text.split(","))
            return [round(x - left + margin, 1), round(top - y + margin / 2, 1)]

        places = {int(node["name"][1:]): at(node["pos"]) for node in content["objects"]}
        arrows = {}
        for edge in content["edges"]:
            end, *rest = edge["pos"].removeprefix("e,").split()
            pair = int(content["objects"][edge["tail"]]["name"][1:]), int(content["objects"][edge["head"]]["name"][1:])
            arrows[pair] = {"path": [*map(at, rest), at(end)], "label_at": at(edge["lp"])}
        return {
            "width": round(right - left + 2 * margin),
            "height": round(top - bottom + margin),
            "radius": radius * SCALE,
            "places": [places[i] for i in range(len(graph.names))],
            "arrows": [{**arrows[pair], "label": text} for pair, text in graph.edges.items()],
            "by": "Graphviz",
        }
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None


def spelled(symbol: str) -> str:
    """A symbol as the arrows write it."""
    return SPELLED.get(symbol, symbol)
