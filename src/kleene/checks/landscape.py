"""The loss around a compiled MLP, exactly (ALTA, appendix B): is it a strict coordinate-wise local optimum?

A rule set compiles to f(z) = z + W2·clip(W1·z + b): one unit per rule, W1 one where a constraint looks, b = 1 − (number
of constraints), W2 −1 at the old value and 1 at the new. The loss over MLP inputs z is the regulariser, α times
the L1 norm or the squared L2 norm of all parameters, plus the L1 distance from the outputs of the compiled parameters.

Move one coordinate by ε, |ε| < 1, and everything is explicit. For rule j let it fire on F inputs (g = 1) and be
violated in exactly one constraint on Z (g = 0); F_k and Z_k count those of them with z_k = 1. Every unit writes two
dimensions, so the reconstruction loss rises by

    W2_ij   F·|ε|                        b_j   2F·|ε| for ε < 0,  2Z·ε for ε > 0
                                         W1_jk 2F_k·|ε| for ε < 0, 2Z_k·ε for ε > 0

and the left and right derivatives are whole numbers plus the regulariser's. With the L1 norm and α < 1 (as with
squared L2 and the paper's bound on α) the compiled parameters are a strict coordinate-wise local optimum exactly
if every rule fires and every rule with two or more constraints is somewhere violated in exactly one. So theorem 2
holds, and theorem 1 does not: see docs/learnability.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from kleene.common.tokens import Tokens
from kleene.errors import InputError, NotSupported
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Spec
from kleene.machines.written_rules import Rule

Array = np.ndarray[Any, Any]
REGULARISERS = ("l1", "l2")
MAX_CELLS = 400_000_000


@dataclass(frozen=True)
class RuleSet:
    """Rules over variables 0 … range − 1, as appendix B has them."""

    ranges: Mapping[str, int]
    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        for rule in self.rules:
            given = dict(rule.antecedent)
            known = all(name in self.ranges and 0 <= v < self.ranges[name] for name, v in rule.antecedent)
            if not known or rule.new is None or given.get(rule.variable) != rule.old or rule.new == rule.old:
                raise InputError(f"{rule}: its values must be in range, its old value a constraint, its new one new")

    @property
    def dims(self) -> dict[tuple[str, int], int]:
        """The dimension of each value of each variable: the paper's m(k, v)."""
        pairs = [(name, value) for name, size in self.ranges.items() for value in range(size)]
        return {pair: place for place, pair in enumerate(pairs)}

    def weights(self) -> tuple[Array, Array, Array]:
        """W1 (rule, dim), b (rule), W2 (dim, rule): equations 8 to 10."""
        dims = self.dims
        first, second = np.zeros((len(self.rules), len(dims)), int), np.zeros((len(dims), len(self.rules)), int)
        for j, rule in enumerate(self.rules):
            for pair in rule.antecedent:
                first[j, dims[pair]] = 1
            assert rule.new is not None
            second[dims[rule.variable, rule.old], j], second[dims[rule.variable, rule.new], j] = -1, 1
        return first, 1 - first.sum(axis=1), second

    def vectors(self, assignments: Array) -> Array:
        """MLP inputs (row, dim) of assignments (row, variable): equation 1; −1, an undefined head, is no value."""
        found = [assignments[:, [k]] == np.arange(size) for k, size in enumerate(self.ranges.values())]
        return np.concatenate(found, axis=1).astype(int)


@dataclass(frozen=True)
class Coordinate:
    """One parameter: its value, and the left and right derivatives of the loss there."""

    name: str
    value: int
    left: Fraction
    right: Fraction


@dataclass(frozen=True)
class Landscape:
    """The derivatives in every coordinate, and the verdict."""

    rules: RuleSet
    regulariser: str
    alpha: Fraction
    fired: Array  # (rule), F
    missed: Array  # (rule), Z
    fired_with: Array  # (rule, dim), F_k
    missed_with: Array  # (rule, dim), Z_k
    spec: Spec | None = None  # of a program; its values are shown as it has them

    def _parts(self) -> Iterator[tuple[str, Array, Array, Array]]:
        """Each parameter tensor: its name, its values, and how fast the reconstruction loss rises on both sides."""
        first, bias, second = self.rules.weights()
        fires = np.broadcast_to(self.fired, second.shape)
        yield "W2", second, fires, fires
        yield "b", bias, 2 * self.fired, 2 * self.missed
        yield "W1", first, 2 * self.fired_with, 2 * self.missed_with

    def derivatives(self, part: str) -> tuple[Array, Array]:
        """Left and right derivatives in every coordinate of "W1", "b" or "W2", as Fractions."""
        values, left, right = next(parts[1:] for parts in self._parts() if parts[0] == part)
        slope = [self._slopes(int(value)) for value in values.ravel()]
        lefts = [below - int(rise) for (below, _), rise in zip(slope, left.ravel())]
        rights = [above + int(rise) for (_, above), rise in zip(slope, right.ravel())]
        return np.array(lefts, object).reshape(values.shape), np.array(rights, object).reshape(values.shape)

    def _slopes(self, value: int) -> tuple[Fraction, Fraction]:
        """Left and right derivative of the regulariser at a value: equations 20 and 21."""
        if self.regulariser == "l2":
            return 2 * self.alpha * value, 2 * self.alpha * value
        return (self.alpha if value > 0 else -self.alpha), (-self.alpha if value < 0 else self.alpha)

    def _flat(self) -> Iterator[tuple[str, int, Array, Array, Array]]:
        """For each tensor and each value in it: where the loss does not rise strictly, and the rises on both sides.

        A derivative of 0 counts by value: with squared L2, α·ε² is then what is left, and it rises.
        """
        for part, values, left, right in self._parts():
            for value in np.unique(values).tolist():
                below, above = self._slopes(value)
                curved = self.regulariser == "l2"
                rises_left = left > below if not curved else left >= below
                rises_right = right > -above if not curved else right >= -above
                yield part, value, (values == value) & ~(rises_left & rises_right), left, right

    @property
    def breaking(self) -> list[Coordinate]:
        """The coordinates in which the loss does not rise strictly on both sides."""
        found, names = [], [f"{name}={self._shown(name, value)}" for name, value in self.rules.dims]
        for part, value, flat, left, right in self._flat():
            below, above = self._slopes(value)
            for place in np.argwhere(flat):
                at = tuple(place.tolist())
                found.append(Coordinate(_name(part, at, names), value, below - int(left[at]), above + int(right[at])))
        return found

    def _shown(self, name: str, value: int) -> str:
        from kleene.lowering.layout import show_value

        return str(value) if self.spec is None else show_value(self.spec.kinds[name].values[value])

    def _said(self, rule: Rule) -> str:
        from kleene.show.terminal import _rule_text

        if self.spec is not None:
            return _rule_text(self.spec, rule)
        guard = ", ".join(f"{name} = {value}" for name, value in rule.antecedent if name != rule.variable)
        return f"{rule.variable}: {rule.old} → {rule.new}" + (f"  if {guard}" if guard else "")

    @property
    def strict(self) -> bool:
        """Whether the compiled parameters are a strict coordinate-wise local optimum."""
        return not any(flat.any() for _, _, flat, _, _ in self._flat())

    def __str__(self) -> str:
        found = self.breaking
        verdict = "a strict" if not found else "not a strict"
        lines = [f"{verdict} coordinate-wise local optimum ({self.regulariser}, α = {self.alpha})"]
        for at in found[:10]:
            lines.append(f"  {at.name} = {at.value}: left derivative {at.left}, right {at.right}")
        lines += [f"  … and {len(found) - 10:,} more"] if len(found) > 10 else []
        named = sorted({int(number) for at in found[:10] for number in re.findall(r"rule (\d+)", at.name)})
        return "\n".join([*lines, *(f"  rule {number}: {self._said(self.rules.rules[number])}" for number in named)])


def _name(part: str, place: tuple[int, ...], names: Sequence[str]) -> str:
    if part == "b":
        return f"b[rule {place[0]}]"
    return f"W1[rule {place[0]}, {names[place[1]]}]" if part == "W1" else f"W2[{names[place[0]]}, rule {place[1]}]"


def landscape(
    rules: RuleSet | ProgramClass,
    data: Iterable[Tokens],
    *,
    regulariser: Literal["l1", "l2"] = "l1",
    alpha: Fraction | str | float = Fraction(1, 2),
) -> Landscape:
    """Measure the loss around the compiled MLP of a program on its runs on inputs, or of a rule set on assignments.

    The heads of a program count as variables, with numerical heads at their rounded values. Rules that clear heads are
    left out.

    - `regulariser`: the norm of the weights that is added to the loss, "l1" or "l2".
    - `alpha`: the weight of the regulariser.

    >>> import kleene as kl
    >>> print(kl.landscape(kl.library.parity_relative, [[2, 1, 0], [2, 0, 0]]))
    not a strict coordinate-wise local optimum (l1, α = 1/2)
      W2[parity=1, rule 1] = -1: left derivative -1/2, right -1/2
      W2[parity=0, rule 1] = 1: left derivative 1/2, right 1/2
      W1[rule 1, parity=1] = 1: left derivative 1/2, right 5/2
      W1[rule 1, done=0] = 1: left derivative 1/2, right 9/2
      W1[rule 1, parity_left=1] = 1: left derivative 1/2, right 5/2
      W1[rule 1, done_left=1] = 1: left derivative 1/2, right 9/2
      rule 1: parity: 1 → 0  if done = 0, done_left = 1, parity_left = 1
    """
    if regulariser not in REGULARISERS:
        raise NotSupported(f"unknown regulariser {regulariser!r}; choose one of {', '.join(REGULARISERS)}")
    if isinstance(rules, RuleSet):
        spec, found, assignments = None, rules, np.array(list(data), dtype=int).reshape(-1, len(rules.ranges))
    else:
        from kleene.checks.minimality import all_rules
        from kleene.lowering.step_traces import traces

        spec, kinds = rules.spec, rules.spec.kinds
        found = RuleSet(
            {name: len(kind) for name, kind in kinds.items()},
            tuple(rule for rule in all_rules(rules) if rule.new is not None),
        )
        assignments = traces(rules, data).assignments()
    dims = len(found.dims)
    if len(found.rules) * (len(assignments) + dims) > MAX_CELLS:
        sizes = f"{len(found.rules):,} rules on {len(assignments):,} MLP inputs"
        raise NotSupported(f"{sizes} are too many to count; use fewer inputs")
    z, (first, bias, _) = found.vectors(assignments).astype(float), found.weights()  # small whole numbers, exact
    g = z @ first.T.astype(float) + bias  # (row, rule)
    fires, misses = (g == 1).astype(float), (g == 0).astype(float)
    return Landscape(
        found,
        regulariser,
        Fraction(alpha) if not isinstance(alpha, float) else Fraction(str(alpha)),
        fires.sum(axis=0).astype(int),
        misses.sum(axis=0).astype(int),
        (fires.T @ z).astype(int),
        (misses.T @ z).astype(int),
        spec,
    )
