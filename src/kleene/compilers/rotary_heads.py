"""Heads of models with rotary positions: offsets by turned queries, matches on the slowest frequencies.

The score of a query and a key at distance D is, for each frequency θ, |q| |k| cos(θ D + angle between them). A head
with an offset turns its query, so that the sum over the fast frequencies is largest at that distance. A head that
matches by content has its codes on frequencies so slow that they hardly turn, and one frequency, turned by a quarter,
on which the score falls with the distance: the latest match wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.compilers.stock_plan import Plan, PlannedHead, match_codes
from kleene.compilers.stock_tensors import GAP, Rows
from kleene.errors import NotSupported

Array = np.ndarray[Any, Any]

SIZES = (16, 32, 64, 128, 256)
RATIOS = (1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
MAX_THETA = 1e30  # float32 holds it
LEAST_MARGIN = 0.2
SMALL_ERROR = GAP / 8  # of scores: those of two positions may be off in opposite directions
LEAST_KEPT = 0.25  # what a mismatch loses at least, by the strength of a bit


@dataclass(frozen=True)
class Rotary:
    """The frequencies of a model: θ = ratio^(−f) for f < size / 2; those before `slow` are not constant."""

    size: int  # of a head
    ratio: float
    length: int
    margin: float  # Σ (1 − cos θΔ) over the frequencies before `slow` is at least this for every other distance

    @property
    def theta(self) -> float:
        """The config's rope_theta."""
        return float(self.ratio) ** (self.size // 2)

    @property
    def frequencies(self) -> Array:
        """The frequencies, as the model computes them in float32."""
        exponents = np.arange(0, self.size, 2, dtype=np.float32) / np.float32(self.size)
        return (np.float32(1) / np.float32(self.theta) ** exponents).astype(np.float64)

    @property
    def recent(self) -> int:
        """The frequency that turns by at most one radian over the whole length."""
        return next(f for f in range(self.size) if self.ratio**f >= self.length)

    @property
    def slow(self) -> int:
        return self.recent + 1

    @property
    def free(self) -> list[int]:
        """The frequencies that hardly turn, slowest first."""
        return list(range(self.size // 2 - 1, self.recent, -1))


def choose_rotary(plan: Plan, size: int | None = None) -> Rotary:
    """The smallest head size with enough slow frequencies for every head, and the ratio with the largest margin.

    Scores are large where the latest match wins over many positions: a ratio that keeps them small enough for float32
    comes first."""
    length = plan.length + 1
    heads = {head.selection: head for layer in plan.layers for head in layer.heads}
    for candidate in SIZES if size is None else (size,):
        found = [scheme(candidate, ratio, length) for ratio in RATIOS]
        errors = {r: max((error_of(plan, r, head) for head in heads.values()), default=0.0) for r in found if r}
        fitting = [r for r, error in errors.items() if np.isfinite(error)]
        if fitting:
            exact = [r for r in fitting if errors[r] <= SMALL_ERROR]
            return max(exact, key=lambda r: r.margin) if exact else min(fitting, key=lambda r: errors[r])
    needed = max([1, *(slow_places(plan, head) for head in heads.values())])
    raise NotSupported(
        f"{plan.spec.name}: no head size up to {SIZES[-1] if size is None else size} has {needed} slow frequencies "
        f"for {plan.length:,} positions; use a smaller length="
    )


def error_of(plan: Plan, rotary: Rotary, head: PlannedHead) -> float:
    """About how far float32 rounds the scores of a head; infinite where frequencies are too few or too fast for it."""
    if len(rotary.free) < max(1, slow_places(plan, head)):
        return float("inf")
    made = _Head(plan, rotary, head, normed=False)
    try:
        made.rows()
    except NotSupported:
        return float("inf")
    return made.best * (rotary.size + 64) * 2.0**-24 if made.separation >= GAP else float("inf")


def scheme(size: int, ratio: float, length: int) -> Rotary | None:
    """A scheme with a ratio between frequencies; None where it does not tell distances apart."""
    if ratio ** (size // 2 - 1) < length or ratio ** (size // 2) > MAX_THETA:
        return None
    made = Rotary(size, ratio, length, 0.0)
    distances = np.arange(1, length + 1)
    apart = (1 - np.cos(np.outer(made.frequencies[: made.slow], distances))).sum(axis=0)
    margin = float(apart.min())
    return Rotary(size, ratio, length, margin) if margin >= LEAST_MARGIN else None


def slow_places(plan: Plan, head: PlannedHead) -> int:
    """How many slow frequencies a head needs: one for the sink, one for `among`, one for two bits of a match."""
    return 1 + bool(head.select.among) + -(-bits_of(plan, head) // 2)


def bits_of(plan: Plan, head: PlannedHead) -> int:
    """How many bits a head compares."""
    return 0 if head.select.key is None else len(match_codes(plan.spec, head.select, plan.layout)[0])


def match_sizes(rotary: Rotary, free: list[int], bits: int, head: PlannedHead) -> tuple[float, float] | None:
    """How strongly a head compares each bit, and how strongly it prefers the latest or earliest match.

    `free`: the frequencies for bits, slowest first. None: they turn too much over the length for so many bits.
    """
    theta = rotary.frequencies
    used = theta[np.repeat(free[: -(-bits // 2)], 2)[:bits]]  # of each bit
    turn = used[-1] * rotary.length  # of the fastest
    keeps = 2 * (np.cos(turn) - np.sin(turn)) - bits * (1 - np.cos(turn))  # what a mismatch loses, by the strength
    if head.offset is not None:
        return None if keeps <= LEAST_KEPT else (float(2.0 ** np.ceil(np.log2(3 * GAP / keeps))), 0.0)
    recent = theta[rotary.recent]
    reach = np.tan(recent * rotary.length) / recent  # how far matches spread, by the slope between neighbours
    drift = float(used @ np.sin(used * rotary.length)) if head.earliest else 0.0  # codes turn, too
    if keeps - reach * drift <= LEAST_KEPT:
        return None
    strength = float(2.0 ** np.ceil(np.log2((reach * 1.25 * GAP + 3 * GAP) / (keeps - reach * drift))))
    return strength, float((1.25 * GAP + strength * drift) / (recent * np.cos(recent * rotary.length)))


def fill_rotary_head(plan: Plan, rotary: Rotary, normed: bool, head: PlannedHead) -> tuple[Rows, Rows]:
    """Queries and keys of a head. A match scores best, then the first token, then everything else.

    `normed`: the model norms queries and keys. The key of the first token is shorter than others, and grows by more.
    """
    return _Head(plan, rotary, head, normed).rows()


class _Head:
    def __init__(self, plan: Plan, rotary: Rotary, head: PlannedHead, normed: bool) -> None:
        self.plan, self.rotary, self.head, self.normed = plan, rotary, head, normed
        self.queries, self.keys = Rows.zeros(rotary.size, plan.dims), Rows.zeros(rotary.size, plan.dims)
        self.half = rotary.size // 2
        self.free = rotary.free
        self.best = self.worst = self.missed = 0.0  # best and worst score of a match; best of anything else
        self.separation = np.inf  # between a match, the first token and anything else

    def rows(self) -> tuple[Rows, Rows]:
        sink, among = self.free.pop(0), self.free.pop(0) if self.head.select.among else None
        lost = np.inf
        if self.head.offset is not None:
            lost = self._offset(min(self.head.offset, self.plan.length))  # further away, there is no position
        if self.head.select.key is not None:
            lost = min(lost, self._match())
        self.missed = self.best - lost
        self._limits(sink, among)
        scale = 2.0 ** np.ceil(
            np.log2(self.rotary.size) / 2
        )  # at least the root of the size, by which the model divides
        return Rows(*(part * scale for part in (self.queries.weights, self.queries.constant, self.queries.sink))), (
            self.keys
        )

    def _offset(self, offset: int) -> float:
        """Turn the query by the offset on the fast frequencies; give what every other distance loses."""
        amplitude = 3 * GAP / self.rotary.margin
        for f, theta in enumerate(self.rotary.frequencies[: self.rotary.slow]):
            self.queries.constant[f] = amplitude * np.cos(offset * theta)
            self.queries.constant[f + self.half] = -amplitude * np.sin(offset * theta)
            self.keys.constant[f], self.keys.sink[f] = 1, -1  # the first token has no place
        self.best += amplitude * self.rotary.slow
        self.worst += amplitude * self.rotary.slow
        return amplitude * self.rotary.margin

    def _match(self) -> float:
        """Compare codes on the slow frequencies, and prefer the latest; give what a mismatch loses at least."""
        rotary, head = self.rotary, self.head
        query, key, constant = match_codes(self.plan.spec, head.select, self.plan.layout)
        bits, sized = len(query), match_sizes(rotary, self.free, len(query), head)
        if sized is None:
            raise NotSupported(f"{self.plan.spec.name}: the head '{head.name}' compares too many bits ({bits})")
        strength, amplitude = sized
        places = [f + side for f in self.free[: -(-bits // 2)] for side in (0, self.half)][:bits]
        self.queries.weights[places], self.queries.constant[places] = strength * query, strength * constant
        self.keys.weights[places], self.keys.constant[places] = key, constant
        self.keys.sink[places] = -constant  # the first token has no code
        if amplitude:
            self.queries.constant[rotary.recent + self.half] = -amplitude if head.earliest else amplitude
            self.keys.constant[rotary.recent], self.keys.sink[rotary.recent] = 1, -1
        spread = amplitude * np.sin(rotary.frequencies[rotary.recent] * rotary.length)
        turn = rotary.frequencies[self.free[-(-bits // 2) - 1]] * rotary.length
        above = spread if head.earliest else 0.0
        self.best += strength * bits + above
        self.worst += strength * bits * np.cos(turn) + above - spread
        return float(2 * strength * (np.cos(turn) - np.sin(turn)))

    def _limits(self, sink: int, among: int | None) -> None:
        """The first token scores between, more where `where` fails; a key that `among` excludes scores less."""
        layout, select = self.plan.layout, self.head.select
        keeps = float(np.cos(self.rotary.frequencies[sink] * self.rotary.length))  # of its score, at the end
        level = (self.worst + self.missed) / (1 + keeps)
        lowest = min(level, level * keeps)
        cost = self.best - level + 2 * GAP
        if self.normed:  # a key that `among` excludes is longer: its score is nearer to zero
            cost += max(-level, 0) + 2 * GAP
        self.separation = min(self.worst - level, lowest - self.missed)
        self.queries.constant[sink] = level + cost * len(select.where)
        for name, index in select.where:
            self.queries.weights[sink, layout[name].start + index] = -cost
            self.separation = min(self.separation, (level + cost) * keeps - self.best)
        self.keys.sink[sink] = 1
        if self.normed:
            places = (self.keys.constant != 0) | self.keys.weights.any(axis=1)
            for part in (self.queries.constant, self.queries.weights):
                part[sink] /= places.sum() ** 0.5
        if among is not None:
            self.queries.constant[among] = cost
            self.keys.constant[among] = -len(select.among)
            self.keys.sink[among] = len(select.among)
            for name, index in select.among:
                self.keys.weights[among, layout[name].start + index] = 1
            excluded = self.best - cost * np.cos(self.rotary.frequencies[among] * self.rotary.length)
            self.separation = min(self.separation, lowest - excluded)
