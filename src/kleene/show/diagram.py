"""Places for the states, arrows and labels of a diagram, without overlaps; and the diagram as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
RADIUS = 0.27
COLUMN, ROW = 1.9, 1.3
LETTER, LINE = 0.105, 0.21  # the room that a label's characters and lines take
MAX_CAREFUL = 30  # larger graphs are laid out without looking for the best place of each label


@dataclass(frozen=True)
class Box:
    """A label: its text, and the middle and size of the room that it takes."""

    text: str
    x: float
    y: float
    width: float
    height: float

    def apart(self, other: Box) -> bool:
        """Whether two labels do not touch."""
        wide = abs(self.x - other.x) * 2 >= self.width + other.width
        return wide or abs(self.y - other.y) * 2 >= self.height + other.height

    def off(self, place: Point) -> bool:
        """Whether a label does not touch a state."""
        dx = max(abs(self.x - place[0]) - self.width / 2, 0)
        dy = max(abs(self.y - place[1]) - self.height / 2, 0)
        return math.hypot(dx, dy) >= RADIUS


@dataclass(frozen=True)
class Arrow:
    """A curve from one state's rim to another's, and its label; `bend` is the curve's middle control point."""

    begin: Point
    bend: Point
    end: Point
    label: Box


@dataclass(frozen=True)
class Layout:
    """A diagram: the states' places, and the arrows in the order of the edges."""

    places: list[Point]
    arrows: list[Arrow]

    def bounds(self) -> tuple[float, float, float, float]:
        """left, bottom, right, top, with some room."""
        boxes = [arrow.label for arrow in self.arrows]
        bends = [arrow.bend for arrow in self.arrows]
        xs = [x for x, _ in (*self.places, *bends)] + [b.x + s * b.width / 2 for b in boxes for s in (-1, 1)]
        ys = [y for _, y in (*self.places, *bends)] + [b.y + s * b.height / 2 for b in boxes for s in (-1, 1)]
        return min(xs) - 0.9, min(ys) - 0.45, max(xs) + 0.45, max(ys) + 0.45


def place_states(count: int, starts: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[Point]:
    """Columns by distance from the start; states of one distance one above another, every second column shifted."""
    after: dict[int, list[int]] = {}
    for i, j in edges:
        after.setdefault(i, []).append(j)
    distance = dict.fromkeys(starts, 0)
    queue = list(distance)
    for i in queue:
        for j in after.get(i, ()):
            if j not in distance:
                distance[j] = distance[i] + 1
                queue.append(j)
    last = max(distance.values(), default=0) + 1
    columns: dict[int, list[int]] = {}
    for i in range(count):
        columns.setdefault(distance.get(i, last), []).append(i)
    places = [(0.0, 0.0)] * count
    for column, members in columns.items():
        for row, i in enumerate(members):
            height = (len(members) - 1) / 2 - row + (0.23 if column % 2 else 0.0)
            places[i] = (COLUMN * column, ROW * height)
    return places


def lay_out(count: int, starts: Iterable[int], edges: dict[tuple[int, int], str]) -> Layout:
    """Places for states, then for each arrow a curve that passes no other state, then for each label free room."""
    places = place_states(count, starts, edges)
    careful = count <= MAX_CAREFUL
    taken: list[Box] = []
    arrows = []
    for (i, j), text in edges.items():
        arrow = _loop(places, i, text, taken) if i == j else _curve(places, i, j, text, (j, i) in edges, taken, careful)
        taken.append(arrow.label)
        arrows.append(arrow)
    return Layout(places, arrows)


def _box(text: str, x: float, y: float) -> Box:
    lines = text.split("\n") or [""]
    return Box(text, x, y, LETTER * max(2, *(len(line) for line in lines)) + 0.06, LINE * len(lines))


def _free(box: Box, places: list[Point], taken: list[Box]) -> bool:
    return all(box.off(place) for place in places) and all(box.apart(other) for other in taken)


def _loop(places: list[Point], i: int, text: str, taken: list[Box]) -> Arrow:
    """An arrow from a state to itself: above it, or below, or further away."""
    x, y = places[i]
    for away in range(8):
        for side in (1, -1):
            height = RADIUS + 0.42 + 0.12 * away
            box = _box(text, x, y + side * (height + LINE * (text.count("\n") + 1) / 2))
            if _free(box, places, taken) or away == 7:
                rim = RADIUS * 0.85
                begin, end = (x - 0.14, y + side * rim), (x + 0.14, y + side * rim)
                return Arrow(begin, (x, y + side * (2 * height - rim)), end, box)
    raise AssertionError


def _curve(places: list[Point], i: int, j: int, text: str, returns: bool, taken: list[Box], careful: bool) -> Arrow:
    (x0, y0), (x1, y1) = places[i], places[j]
    length = math.hypot(x1 - x0, y1 - y0)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    best: Arrow | None = None
    for bend in _bends(returns):
        middle = ((x0 + x1) / 2 + uy * bend * length, (y0 + y1) / 2 - ux * bend * length)
        begin, end = _rim(places[i], middle), _rim(places[j], middle)
        clear = all(
            math.dist(_on(begin, middle, end, t / 12), place) > RADIUS + 0.06
            for t in range(1, 12)
            for k, place in enumerate(places)
            if k not in (i, j)
        )
        for box in _label_places(text, begin, middle, end, (uy, -ux)):
            arrow = Arrow(begin, middle, end, box)
            best = best or arrow
            if (clear and _free(box, places, taken)) or not careful:
                return arrow
            if _free(box, places, taken) and not _free(best.label, places, taken):
                best = arrow
    assert best is not None
    return best


def _bends(returns: bool) -> Iterator[float]:
    if not returns:
        yield 0.0
    for step in range(1, 9):
        yield 0.14 * step
        if not returns:
            yield -0.14 * step


def _label_places(text: str, begin: Point, bend: Point, end: Point, normal: Point) -> Iterator[Box]:
    """Room beside the curve: near its middle first, then along it, then further off."""
    for off in (0.17, -0.17, 0.3, -0.3, 0.45, -0.45, 0.62, -0.62):
        for t in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):
            x, y = _on(begin, bend, end, t)
            yield _box(text, x + normal[0] * off, y + normal[1] * off)


def _on(begin: Point, bend: Point, end: Point, t: float) -> Point:
    """A point of a quadratic curve."""
    a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t * t
    return a * begin[0] + b * bend[0] + c * end[0], a * begin[1] + b * bend[1] + c * end[1]


def _rim(place: Point, towards: Point) -> Point:
    distance = math.dist(place, towards)
    reach = RADIUS / distance if distance else 0.0
    return place[0] + reach * (towards[0] - place[0]), place[1] + reach * (towards[1] - place[1])


def svg(
    names: list[str],
    starts: Iterable[int],
    accepting: Iterable[int],
    edges: dict[tuple[int, int], str],
    marked: dict[int, str] | None = None,
    layout: Layout | None = None,
) -> str:
    """The diagram as an SVG element; `marked` gives the fill of some states."""
    starts, accepting = list(starts), set(accepting)
    found = layout or lay_out(len(names), starts, edges)
    left, bottom, right, top = found.bounds()
    scale = 64.0

    def at(point: Point) -> str:
        return f"{(point[0] - left) * scale:.1f},{(top - point[1]) * scale:.1f}"

    parts = [
        f'<svg viewBox="0 0 {(right - left) * scale:.0f} {(top - bottom) * scale:.0f}" '
        f'width="{(right - left) * scale:.0f}" class="diagram"><defs><marker id="tip" viewBox="0 0 8 8" '
        'refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    ]
    for start in starts:
        x, y = found.places[start]
        parts.append(f'<path d="M{at((x - 0.75, y))} L{at((x - RADIUS, y))}" class="edge" marker-end="url(#tip)"/>')
    for arrow in found.arrows:
        path = f"M{at(arrow.begin)} Q{at(arrow.bend)} {at(arrow.end)}"
        parts.append(f'<path d="{path}" class="edge" marker-end="url(#tip)"/>')
        lines = arrow.label.text.split("\n")
        for k, line in enumerate(lines):
            cx, cy = at((arrow.label.x, arrow.label.y + LINE * ((len(lines) - 1) / 2 - k))).split(",")
            parts.append(f'<text x="{cx}" y="{cy}" class="label">{escape(line)}</text>')
    for i, name in enumerate(names):
        cx, cy = at(found.places[i]).split(",")
        fill = (marked or {}).get(i, "#fff")
        parts.append(f'<circle cx="{cx}" cy="{cy}" r="{RADIUS * scale:.1f}" fill="{fill}" class="state"/>')
        if i in accepting:
            parts.append(f'<circle cx="{cx}" cy="{cy}" r="{RADIUS * scale - 4:.1f}" class="inner"/>')
        size = 13 if len(name) < 6 else 9
        parts.append(f'<text x="{cx}" y="{cy}" class="name" font-size="{size}">{escape(name[:14])}</text>')
    return "".join(parts) + "</svg>"
