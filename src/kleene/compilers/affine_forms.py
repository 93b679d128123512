"""Two-layer steps written as formulas: affine forms of named values, ReLU units of forms, new values of units."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from kleene.compilers.two_layer import TwoLayerStep
from kleene.errors import InputError
from kleene.networks.rnn.decider import MAX_BASE
from kleene.networks.rnn.matrix import Matrix, Number, Vector, exact, vector

Role = tuple[str, ...]  # the role of a value: ("l", "1") is the number of symbol 1 on the left stack
ONE: Role = ("1",)


class AffineForm:
    """A sum of named values times exact numbers, and a constant."""

    __slots__ = ("terms",)

    def __init__(self, terms: dict[Role, Number]) -> None:
        self.terms = {role: exact(v) for role, v in terms.items() if v != 0}

    def __add__(self, other: AffineForm | Number) -> AffineForm:
        terms = dict(self.terms)
        for role, value in (other.terms if isinstance(other, AffineForm) else {ONE: other}).items():
            terms[role] = terms.get(role, 0) + value
        return AffineForm(terms)

    def __mul__(self, factor: Number) -> AffineForm:
        return AffineForm({role: value * factor for role, value in self.terms.items()})

    def __neg__(self) -> AffineForm:
        return self * -1

    def __sub__(self, other: AffineForm | Number) -> AffineForm:
        return self + (-other)

    __radd__, __rmul__ = __add__, __mul__


def total(forms: Iterable[AffineForm]) -> AffineForm:
    """The sum of forms."""
    result = AffineForm({})
    for form in forms:
        result = result + form
    return result


class StepBuilder:
    """Collects the units of a step and what they add to each value. Equal units are made once."""

    def __init__(self, alphabet: tuple[str, ...], outputs: int, base: int = 3) -> None:
        if not isinstance(base, int) or not 3 <= base <= MAX_BASE:
            raise InputError(f"compile: base {base!r}; stacks need a whole number from 3 to {MAX_BASE}")
        self.alphabet, self.base = alphabet, base
        self.start: dict[Role, Number] = {}
        self.roles: dict[Role, int] = {}
        self.units: dict[frozenset[tuple[Role, Number]], int] = {}
        self.second: dict[tuple[int, int], Number] = {}
        self.out: dict[tuple[int, int], Number] = {}
        self.out_bias: Vector = {}
        self.outputs = outputs
        self.conditions: list[tuple[str, AffineForm]] = []

    def value(self, *role: str, start: Number = 0) -> AffineForm:
        """Add a value that the step carries from one time to the next, with its initial number."""
        self.roles[role] = len(self.roles)
        self.start[role] = start
        return AffineForm({role: 1})

    @staticmethod
    def input(symbol: str) -> AffineForm:
        """x[symbol]."""
        return AffineForm({("x", symbol): 1})

    def relu(self, form: AffineForm) -> AffineForm:
        """Add the unit ReLU(form), and return it as a form of units."""
        key = frozenset(form.terms.items())
        unit = self.units.setdefault(key, len(self.units))
        return AffineForm({("unit", str(unit)): 1})

    def add(self, role: Role, form: AffineForm) -> None:
        """Add a form of units to the next content of a value."""
        for (_, unit), value in form.terms.items():
            at = (self.roles[role], int(unit))
            self.second[at] = self.second.get(at, 0) + value

    def condition(self, name: str, form: AffineForm) -> None:
        """Name a form of units that is 1 or 0. Exactly one of all conditions is 1 at each step."""
        self.conditions.append((name, form))

    # The parts of Theorem 4.11. Conditions p lie in {1} ∪ (−∞, 0], stack numbers in [0, 1].

    def when(self, p: AffineForm, value: AffineForm | Number = 1) -> AffineForm:
        """if(p, t) = ReLU(t + p − 1)."""
        return self.relu(p + value - 1)

    def when_top(self, p: AffineForm, z: AffineForm) -> AffineForm:
        """if(p, top z) = ReLU(Bz + 2p − B) − ReLU(Bz + 2p − B − 1), B the base of the stacks."""
        inner = z * self.base + p * 2 - self.base
        return self.relu(inner) - self.relu(inner - 1)

    def when_pop(self, p: AffineForm, z: AffineForm) -> AffineForm:
        """if(p, pop z) = B·if(p, z) − (B − 1)·if(p, top z)."""
        return self.when(p, z) * self.base - self.when_top(p, z) * (self.base - 1)

    def at_bottom(self, p: AffineForm, marker: AffineForm) -> AffineForm:
        """p ∧ top(z) = $: the number of $ is (B − 1)/B at the bottom and at most 1/B above it."""
        return p + marker * self.base - (self.base - 1)

    @property
    def push(self) -> Fraction:
        """What a push adds to the number of its symbol, (B − 1)/B, after all numbers of the stack are divided by B."""
        return Fraction(self.base - 1, self.base)

    def build(self) -> TwoLayerStep:
        """Build the matrices of the step."""
        V: dict[tuple[int, int], Number] = {}
        W: dict[tuple[int, int], Number] = {}
        b: Vector = {}
        symbol = {s: i for i, s in enumerate(self.alphabet)}
        for key, unit in self.units.items():
            for role, value in key:
                if role == ONE:
                    b[unit] = value
                elif role[0] == "x":
                    W[unit, symbol[role[1]]] = value
                else:
                    V[unit, self.roles[role]] = value
        size, width = len(self.roles), len(self.units)
        return TwoLayerStep(
            self.alphabet,
            s=vector({self.roles[r]: v for r, v in self.start.items()}),
            V=Matrix(width, size, V),
            W=Matrix(width, len(self.alphabet), W),
            b=b,
            U=Matrix(size, width, {at: exact(v) for at, v in self.second.items() if v != 0}),
            out_W=Matrix(self.outputs, size, self.out),
            out_b=self.out_bias,
            names=tuple(f"{r[0]}[{', '.join(part or '$' for part in r[1:])}]" if r[1:] else r[0] for r in self.roles),
        )

    def conditions_to_json(self) -> list[list[object]]:
        """The conditions over the units of the fused network: [name, [[unit, factor], …]]. Lemma 4.5 adds unit 0."""
        return [
            [name, [[int(unit) + 1, int(v)] for (_, unit), v in form.terms.items()]] for name, form in self.conditions
        ]
