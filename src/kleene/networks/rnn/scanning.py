"""Parallel scans over affine steps h ↦ A h + b: their composition is associative, so a tree of products will do.

A finite automaton's steps generate a finite monoid. So in a long word most products of neighbours are products that
were made before: `after` gives every different product a number, multiplies each pair of numbers once, and reads all
others from a table. Where products do not repeat, it multiplies them all.
"""

from __future__ import annotations

import torch
from torch import Tensor

CELLS = 4_000_000  # numbers in the matrices of one block of a scan
MAX_KINDS = 2048  # different products in a table of pairs
RUNS, LONGEST_RUN = 4096, 16  # different sequences of steps that are joined at once, and their length
Step = tuple[Tensor, Tensor]  # A and b


def compose(first: Step, then: Step) -> Step:
    """The step that does both."""
    (a1, b1), (a2, b2) = first, then
    if a1.dim() == b1.dim():  # diagonal
        return a2 * a1, a2 * b1 + b2
    return a2 @ a1, (a2 @ b1[..., None])[..., 0] + b2


def apply(a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """A h + b."""
    return a * h + b if a.dim() == b.dim() else a @ h + b


def scan(a: Tensor, b: Tensor) -> Step:
    """All prefix products of steps, in 2 log₂(time) rounds (Blelloch)."""
    count = len(b)
    if count == 1:
        return a, b
    even, odd = (a[0 : count - 1 : 2], b[0 : count - 1 : 2]), (a[1::2], b[1::2])
    pairs = scan(*compose(even, odd))
    a, b = a.clone(), b.clone()
    a[1::2], b[1::2] = pairs
    if count > 2:
        stop = (count + 1) // 2 - 1
        a[2::2], b[2::2] = compose((pairs[0][:stop], pairs[1][:stop]), (a[2::2], b[2::2]))
    return a, b


def reduce(a: Tensor, b: Tensor) -> Step:
    """The product of all steps, in log₂(time) rounds."""
    while len(b) > 1:
        odd = (a[-1:], b[-1:]) if len(b) % 2 else None
        even = len(b) // 2 * 2
        a, b = compose((a[0:even:2], b[0:even:2]), (a[1:even:2], b[1:even:2]))
        if odd is not None:
            a, b = torch.cat([a, odd[0]]), torch.cat([b, odd[1]])
    return a[0], b[0]


def before(a: Tensor, b: Tensor, h: Tensor) -> Step:
    """The states before each step and the last one, from h on, by scans over blocks: (time, d) and (d,)."""
    block = max(1, CELLS // a[0].numel()) if len(a) else 1
    found = []
    for begin in range(0, len(a), block):
        product, offset = scan(a[begin : begin + block], b[begin : begin + block])
        states = apply(product, offset, h)
        found += [h[None], states[:-1]]
        h = states[-1]
    return (torch.cat(found) if found else b), h


def after(a: Tensor, b: Tensor, order: Tensor, h: Tensor) -> Tensor:
    """The state after the steps that `order` names by their rows in a and b, from h on."""
    kinds = Kinds(a, b)
    order = kinds.shorten(order)
    a, b = kinds.steps()
    block = max(1, CELLS // a[0].numel())
    for begin in range(0, len(order), block):
        rows = order[begin : begin + block]
        h = apply(*reduce(a[rows], b[rows]), h)
    return h


class Kinds:
    """The different steps among given ones and their products, by number."""

    def __init__(self, a: Tensor, b: Tensor) -> None:
        """Number the rows of a and b."""
        self.limit = min(MAX_KINDS, CELLS // a[0].numel())
        self.a, self.b, self.count = [a], [b], len(b)
        self.numbers = {key: number for number, key in enumerate(_keys(a, b))}
        size = self.count if self.count <= self.limit else 0
        self.pairs = torch.full((size, size), -1, dtype=torch.int64, device=b.device)  # −1: not made yet

    def steps(self) -> Step:
        """All steps, in the order of their numbers."""
        if len(self.a) > 1:
            self.a, self.b = [torch.cat(self.a)], [torch.cat(self.b)]
        return self.a[0], self.b[0]

    def shorten(self, order: Tensor) -> Tensor:
        """Steps with the same product, a fraction as many, as long as products repeat."""
        order = self._runs(order)
        while len(order) > 1:
            even = len(order) // 2 * 2
            made = self._joined(order[0:even:2], order[1:even:2])
            if made is None:
                break
            order = torch.cat([made, order[even:]])
        return order

    def _runs(self, order: Tensor) -> Tensor:
        """Join 4, 8, … steps at once, where so many have few different sequences."""
        count, run = self.count, 2
        while run < LONGEST_RUN and count ** (2 * run) <= RUNS < len(order) // 4:
            run *= 2
        if run == 2:
            return order
        even = len(order) // run * run
        grouped = order[:even].view(-1, run)
        where = grouped[:, 0]
        for place in range(1, run):
            where = where * count + grouped[:, place]
        occurs = torch.zeros(count**run, dtype=torch.bool, device=order.device)
        occurs[where] = True
        found = occurs.nonzero()[:, 0]
        joined: Tensor | None = found[:, None] // count ** torch.arange(run - 1, -1, -1, device=order.device) % count
        while joined is not None and joined.shape[1] > 1:
            made = self._joined(joined[:, 0::2].flatten(), joined[:, 1::2].flatten(), always=True)
            joined = None if made is None else made.view(len(found), -1)
        if joined is None:
            return order
        table = torch.zeros(count**run, dtype=torch.int64, device=order.device)
        table[found] = joined[:, 0]
        return torch.cat([table[where], order[even:]])

    def _joined(self, first: Tensor, then: Tensor, always: bool = False) -> Tensor | None:
        """The products' numbers; None where most are new (unless `always`), or there are too many."""
        if self.count > self.limit:
            return None
        made = self.pairs[first, then]
        unknown = made < 0
        if bool(unknown.any()):
            missing = torch.unique(first[unknown] * len(self.pairs) + then[unknown])
            if (len(missing) > len(first) // 4 and not always) or not self._make(missing):
                return None
            made = self.pairs[first, then]
        return made

    def _make(self, missing: Tensor) -> bool:
        """Multiply pairs and enter them into the table; False where there are too many different products."""
        size = len(self.pairs)
        first, then = missing // size, missing % size
        a, b = self.steps()
        block = max(1, CELLS // a[0].numel())
        numbers = []
        for begin in range(0, len(missing), block):
            i, j = first[begin : begin + block], then[begin : begin + block]
            made = compose((a[i], b[i]), (a[j], b[j]))
            new = []
            for row, key in enumerate(_keys(*made)):
                if key not in self.numbers:
                    self.numbers[key] = self.count
                    self.count += 1
                    new.append(row)
                numbers.append(self.numbers[key])
            self.a.append(made[0][new])
            self.b.append(made[1][new])
            if self.count > self.limit:
                return False
        if self.count > size:
            grown = self.pairs.new_full((self.count, self.count), -1)
            grown[:size, :size] = self.pairs
            self.pairs = grown
        self.pairs[first, then] = torch.tensor(numbers, device=self.pairs.device)
        return True


def _keys(a: Tensor, b: Tensor) -> list[bytes]:
    """The numbers of each step, as bytes; 0 and −0 are one."""
    rows = torch.cat([a.reshape(len(b), -1), b], dim=1) + 0.0
    view = rows.cpu().contiguous().view(torch.uint8).numpy()
    return [row.tobytes() for row in view]
