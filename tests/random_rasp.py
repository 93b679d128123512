"""Random s-ops, for tests: any mix of maps, selectors, widths and aggregates over a small vocabulary."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kleene import rasp
from kleene.rasp import Comparison

VOCABULARIES: list[list[Any]] = [["a", "b", "c"], [0, 1, 2], ["x", "y"], [1, 2, 5]]
COMPARED = [
    Comparison.EQ,
    Comparison.LT,
    Comparison.LEQ,
    Comparison.GT,
    Comparison.NEQ,
    Comparison.GEQ,
    Comparison.TRUE,
]
MAPS: list[Callable[[int], Callable[[Any], Any]]] = [
    lambda c: lambda x: x + c,
    lambda c: lambda x: x * c,
    lambda c: lambda x: c - x,
    lambda c: lambda x: x % 3,
    lambda c: lambda x: x // 2,
    lambda c: round,
    lambda c: lambda x: 1 / x,
]
JOINTS: list[Callable[[rasp.SOp, rasp.SOp], rasp.SOp]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: rasp.SequenceMap(max, a, b),
    lambda a, b: rasp.SequenceMap(lambda x, y: x * y, a, b),
    lambda a, b: rasp.SequenceMap(lambda x, y: x if y > 1 else y, a, b),
    lambda a, b: rasp.LinearSequenceMap(a, b, 2, -1),
]


class Maker:
    """Grow pools of numbers, truth values, tokens and selectors, then choose an s-op."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.vocab = self.chance.choice(VOCABULARIES)
        self.numbers: list[rasp.SOp] = [rasp.indices]
        self.tokens: list[rasp.SOp] = [rasp.tokens]
        self.truths: list[rasp.SOp] = [rasp.tokens == self.vocab[0]]
        self.selectors: list[rasp.Selector] = [rasp.Select(rasp.indices, rasp.indices, Comparison.LEQ)]
        if isinstance(self.vocab[0], int):
            self.numbers.append(rasp.tokens)

    def pick(self, *pools: list[Any]) -> Any:
        pool = [one for each in pools for one in each]
        return self.chance.choice(pool[-6:] if self.chance.random() < 0.6 else pool)

    def grow(self) -> None:
        chance = self.chance
        kind = chance.randrange(11)
        if kind == 0:
            self.numbers.append(rasp.Map(chance.choice(MAPS)(chance.randint(-2, 3)), self.pick(self.numbers)))
        elif kind == 1:
            number, limit = self.pick(self.numbers), chance.randint(-1, 4)
            self.truths.append(chance.choice([number == limit, number < limit, number >= limit]))
        elif kind == 2:
            self.truths.append(self.pick(self.tokens) == chance.choice(self.vocab))
        elif kind == 3:
            self.numbers.append(chance.choice(JOINTS)(self.pick(self.numbers), self.pick(self.numbers)))
        elif kind == 4:
            one, two = self.pick(self.truths), self.pick(self.truths)
            self.truths.append(chance.choice([one & two, one | two, ~one]))
        elif kind == 5:
            predicate = chance.choice([*COMPARED, lambda k, q: (k + q) % 2 == 0, lambda k, q: q == k + 1])
            self.selectors.append(rasp.Select(self.pick(self.numbers), self.pick(self.numbers), predicate))
        elif kind == 6:
            predicate = chance.choice([Comparison.EQ, Comparison.NEQ, Comparison.LT, lambda k, q: k != q])
            self.selectors.append(rasp.Select(self.pick(self.tokens), self.pick(self.tokens), predicate))
        elif kind == 7:
            one, two = self.pick(self.selectors), self.pick(self.selectors)
            truth = rasp.Select(self.pick(self.truths), rasp.Full(True), Comparison.EQ)
            self.selectors.append(chance.choice([one & two, one | two, ~one, one & truth]))
        elif kind == 8:
            self.numbers.append(rasp.SelectorWidth(self.pick(self.selectors)))
        else:
            self.aggregate()

    def aggregate(self) -> None:
        chance, selector = self.chance, self.pick(self.selectors)
        kind = chance.randrange(5)
        if kind == 0:
            value = self.pick(self.numbers, self.truths)
            self.numbers.append(rasp.Aggregate(selector, value, default=chance.choice([None, 0, 7])))
        elif kind == 1:
            default = chance.choice([None, self.vocab[0]])
            self.tokens.append(rasp.Aggregate(selector, self.pick(self.tokens), default=default))
        elif kind == 4:
            cls = chance.choice([rasp.AggregateFirst, rasp.AggregateLast])
            self.tokens.append(cls(selector, self.pick(self.tokens), default=chance.choice([None, self.vocab[0]])))
        elif kind == 2:
            cls = chance.choice([rasp.AggregateMax, rasp.AggregateMin])
            self.numbers.append(cls(selector, self.pick(self.numbers), default=chance.choice([0, -1])))
        else:
            self.numbers.append(rasp.numerical(rasp.Aggregate(selector, self.pick(self.truths), default=0)))


def depth_of(expr: rasp.RASPExpr) -> int:
    """How many attention layers an expression needs at least."""
    own = isinstance(expr, rasp.SelectorWidth | rasp.Aggregate)
    return own + max((depth_of(child) for child in expr.children), default=0)


def random_program(seed: int, size: int) -> tuple[rasp.SOp, list[Any], bool]:
    """An s-op, its vocabulary, and whether it is causal. Deep ones are preferred."""
    maker = Maker(seed)
    for _ in range(maker.chance.randint(size // 2, size)):
        maker.grow()
    pool = [*maker.numbers, *maker.truths, *maker.tokens]
    pool.sort(key=depth_of)
    return maker.chance.choice(pool[-4:]), maker.vocab, maker.chance.random() < 0.3
