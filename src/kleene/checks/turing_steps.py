"""Certificates for networks of Turing machines: every step is shown from the weights, for every tape.

The tape's numbers are symbolic. With base B a stack whose top is a is z_a = (B − 1)/B + t_a / B, z_b = t_b / B for
every other symbol b, and the only fact about the rest t is 0 ≤ t ≤ 1: every string of digits lies in the interval. A
unit's sum is then affine in the t. Where it is never negative the unit is that sum, where it is never positive the unit
is 0; a unit of which neither can be said is a reason to refuse. So the next values are affine in the t as well, and are
compared, coefficient by coefficient, with the code of the next configuration. The cases are the states, the symbols
under the heads and the tops of the stacks that are popped: finitely many. Induction over the steps does the rest.

The compiler is not used. The network's own description (`about`: the meaning of each value) is only a claim: wherever
it is wrong, a comparison fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

from kleene.errors import InputError, KleeneError, NotExact
from kleene.machines.multitape import MultiTapeMachine, Rule, rule
from kleene.machines.oracle import comparing_machine
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.decider import ACCEPT, END, MARK, NOTHING, NUL, REJECT, Decider
from kleene.networks.rnn.oracle import OracleRNN

MAX_CASES = 200_000
ONE = ""  # the constant of an affine form
Affine = dict[str, Fraction]  # variable in [0, 1] → coefficient
Values = dict[int, Affine]
Machine = TuringMachine | MultiTapeMachine


@dataclass(frozen=True)
class StepCertificate:
    """Whether each step of a network is a step of its machine, the number of cases, and the reasons."""

    holds: bool
    machine: str
    cases: int
    reasons: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        if self.holds:
            head = f"{self.machine}: certified for every input, every tape and every number of steps"
        else:
            head = f"{self.machine}: no certificate"
        return "\n".join([head, *(f"  - {reason}" for reason in self.reasons)])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"holds": self.holds, "machine": self.machine, "cases": self.cases, "reasons": list(self.reasons)}


def machine_of(net: Decider) -> Machine:
    """The machine that a network was compiled from, as saved with it."""
    if isinstance(net, OracleRNN):
        return comparing_machine(tuple(s for s in net.alphabet if s not in (END, NUL)))
    if "machine" not in net.about:
        raise InputError("certify: the network does not hold the machine that it was compiled from; pass machine=")
    kind = MultiTapeMachine if net.about.get("form") == "several tapes" else TuringMachine
    found: Machine = kind.from_json(net.about["machine"], "the network's 'machine'")
    return found


def certify_decider(net: Decider, *, machine: Machine | None = None) -> StepCertificate:
    """Show from the weights that each step of a network is a step of its machine (by default the one saved with it),
    for every tape: Theorem 4.11."""
    wanted = machine_of(net) if machine is None else machine
    try:
        proof = _proof(net, wanted)
        reasons = proof.reasons()
    except KleeneError as error:
        return StepCertificate(False, wanted.name, 0, (str(error),))
    except (KeyError, ValueError, TypeError, IndexError) as error:
        return StepCertificate(False, wanted.name, 0, (f"the network's description is malformed ({error!r})",))
    return StepCertificate(True, wanted.name, proof.weights.cases, reasons)


def _proof(net: Decider, machine: Machine) -> _Proof:
    form = net.about.get("form")
    if isinstance(machine, MultiTapeMachine):
        if form != "several tapes":
            raise NotExact(f"the network is of form {form!r}, the machine has several tapes")
        return _SeveralTapes(net, machine)
    if form not in ("compact", "literal"):
        raise NotExact(f"the network is of form {form!r}, the machine has one tape")
    return (_Compact if form == "compact" else _Literal)(net, machine)


# --- affine forms -----------------------------------------------------------------------------------------


def _plus(total: Affine, form: Affine, factor: Any) -> None:
    for name, value in form.items():
        total[name] = total.get(name, Fraction(0)) + factor * value


def _tidy(form: Affine) -> Affine:
    return {name: value for name, value in form.items() if value}


def _constant(value: Any) -> Affine:
    return {ONE: Fraction(value)} if value else {}


def _scaled(form: Affine, factor: Any) -> Affine:
    return {name: value * factor for name, value in form.items()}


def _ends(form: Affine) -> tuple[Fraction, Fraction]:
    """The least and the largest value, with every variable in [0, 1]."""
    low = high = form.get(ONE, Fraction(0))
    for name, value in form.items():
        if name != ONE:
            low, high = (low + value, high) if value < 0 else (low, high + value)
    return low, high


class _Undecided(NotExact):
    """A unit whose sum has no single sign."""


class _Weights:
    """One step of the network on affine forms, from its numbers alone."""

    def __init__(self, net: Decider) -> None:
        if net.readout is None:
            raise NotExact("the network does not name its values")
        self.net, self.cases = net, 0
        self.values_of = net.readout.R.by_row()
        self.into = net.readout.A.by_column()
        self.out = net.out_W.by_row()
        self.symbol = {symbol: i for i, symbol in enumerate(net.alphabet)}
        self.bias: list[dict[int, Fraction]] = []
        for column in net.W.by_column():
            base = {i: Fraction(v) for i, v in net.b.items()}
            for i, v in column:
                base[i] = base.get(i, Fraction(0)) + v
            self.bias.append(base)
        self.conditions = [[(int(i), Fraction(v)) for i, v in units] for _, units in net.about["conditions"]]

    def check_factors(self) -> str:
        """V g is A (R g): a step sees the named values, and nothing else of the hidden vector."""
        readout = self.net.readout
        assert readout is not None
        if (readout.A @ readout.R).entries != self.net.V.entries or readout.c:
            raise NotExact("V is not A·R: a step depends on more than the named values")
        return "a step depends on the named values alone: V = A·R, entry by entry"

    def read(self, hidden: Values) -> Values:
        """h = R g."""
        found: Values = {}
        for value, row in enumerate(self.values_of):
            total: Affine = {}
            for unit, weight in row:
                if unit in hidden:
                    _plus(total, hidden[unit], weight)
            if total := _tidy(total):
                found[value] = total
        return found

    def step(self, values: Values, symbol: str) -> Values:
        """σ(A h + W x + b), where every unit is its sum (or 1) everywhere, or 0 everywhere."""
        sums: dict[int, Affine] = {i: {ONE: v} for i, v in self.bias[self.symbol[symbol]].items()}
        for value, form in values.items():
            for unit, weight in self.into[value]:
                _plus(sums.setdefault(unit, {}), form, weight)
        hidden: Values = {}
        for unit, total in sums.items():
            low, high = _ends(total)
            if high <= 0:
                continue
            if self.net.activation == "slu" and low >= 1:
                hidden[unit] = _constant(1)
            elif low >= 0 and (self.net.activation == "relu" or high <= 1):
                hidden[unit] = _tidy(total)
            else:
                raise _Undecided(f"unit {unit} can be on or off: its sum lies between {low} and {high}")
        self.cases += 1
        return hidden

    def check_output(self, hidden: Values, answer: str | None, where: str) -> None:
        """The output is one-hot at an answer."""
        wanted = NOTHING if answer is None else ACCEPT if answer == "accept" else REJECT
        for k, row in enumerate(self.out):
            total = _constant(self.net.out_b.get(k, 0))
            for unit, weight in row:
                if unit in hidden:
                    _plus(total, hidden[unit], weight)
            if _tidy(total) != _constant(int(k == wanted)):
                raise NotExact(f"{where}: the output does not say {answer or 'to go on'}")

    def check_conditions(self, hidden: Values, where: str) -> None:
        """Exactly one of the conditions that the network names is true."""
        true = 0
        for units in self.conditions:
            total: Affine = {}
            for unit, factor in units:
                _plus(total, hidden.get(unit, {}), factor)
            total = _tidy(total)
            if total not in ({}, _constant(1)):
                raise NotExact(f"{where}: a condition is neither true nor false")
            true += bool(total)
        if true != 1:
            raise NotExact(f"{where}: {true} conditions are true; exactly one should be")


# --- configurations as symbolic values --------------------------------------------------------------------


@dataclass(frozen=True)
class _Stack:
    """A stack: the numbers of its symbols."""

    part: str  # the role of its numbers
    numbers: Mapping[str, Affine]
    top: str | None = None  # the known top symbol; the blank may have no number
    rest: Mapping[str, Affine] = field(default_factory=dict)


class _Proof:
    """The common part of all forms of the construction."""

    part_names: Sequence[str]

    def __init__(self, net: Decider, name: str, base: Any) -> None:
        self.net, self.name, self.weights = net, name, _Weights(net)
        self.role = {tuple(role): i for i, role in enumerate(net.about["roles"])}
        if len(self.role) != len(net.about["roles"]) or len(self.role) != len(self.weights.values_of):
            raise NotExact("the number of names differs from the number of values")
        if type(base) is not int or base < 3:
            raise NotExact(f"the stacks' base is {base!r}; it must be a whole number of at least 3")
        self.base, self.push_by = base, Fraction(base - 1, base)

    def symbols_of(self, part: str) -> list[str]:
        """The symbols that have a number in a stack."""
        return [role[1] for role in self.role if role[0] == part]

    # stacks

    def empty(self, part: str) -> _Stack:
        return _Stack(part, {a: _constant(self.push_by if a == MARK else 0) for a in self.symbols_of(part)})

    def any(self, part: str) -> _Stack:
        """An unknown stack."""
        return _Stack(part, {a: self._unknown(part, a) for a in self.symbols_of(part)})

    def _unknown(self, part: str, a: str) -> Affine:
        # $ is only at the bottom: its number is (B − 1)/B there, and less above
        return {f"{part} {a}": self.push_by if a == MARK else Fraction(1)}

    def topped(self, part: str, blank: str | None) -> Iterator[_Stack]:
        """The stacks with each top; `blank` has no number of its own. $ on top: the stack is empty."""
        symbols = self.symbols_of(part)
        rest = {a: self._unknown(part, a) for a in symbols}
        for top in symbols if blank is None else [blank, *symbols]:
            if top == MARK:
                empty = self.empty(part)
                yield _Stack(part, empty.numbers, MARK, empty.numbers)
                continue
            numbers = {a: _scaled(form, Fraction(1, self.base)) for a, form in rest.items()}
            if top in numbers:
                _plus(numbers[top], _constant(self.push_by), 1)
            yield _Stack(part, numbers, top, rest)

    def pushed(self, stack: _Stack, symbol: str) -> _Stack:
        numbers = {a: _scaled(form, Fraction(1, self.base)) for a, form in stack.numbers.items()}
        if symbol in numbers:
            _plus(numbers[symbol], _constant(self.push_by), 1)
        return _Stack(stack.part, numbers)

    # values

    def values(self, on: Iterable[tuple[str, ...]], stacks: Iterable[_Stack], **more: Affine) -> Values:
        """Named values: 1 for some roles, the numbers of stacks, and single values by name."""
        found = {self.role[role]: _constant(1) for role in on}
        for stack in stacks:
            found |= {self.role[stack.part, a]: _tidy(form) for a, form in stack.numbers.items()}
        found |= {self.role[name,]: form for name, form in more.items()}
        return {value: form for value, form in found.items() if form}

    def show(
        self, where: str, before: Values, symbol: str, after: Values, answer: str | None, conditions: bool = True
    ) -> None:
        """One step leads from these values to those, with this output."""
        try:
            hidden = self.weights.step(before, symbol)
        except NotExact as error:
            raise type(error)(f"{where}: {error}") from None
        found = self.weights.read(hidden)
        for value in {*found, *after}:
            if found.get(value, {}) != after.get(value, {}):
                name = self.net.readout.names[value] if self.net.readout else str(value)
                raise NotExact(f"{where}: {name} is {_text(found.get(value, {}))}, not {_text(after.get(value, {}))}")
        self.weights.check_output(hidden, answer, where)
        if conditions:
            self.weights.check_conditions(hidden, where)
        if self.weights.cases > MAX_CASES:
            raise NotExact(f"more than {MAX_CASES:,} cases of states, symbols and tops of stacks")

    def check_start(self, wanted: Values) -> str:
        """The first hidden vector has the values of the network before it reads."""
        first = {unit: _constant(v) for unit, v in self.net.s.items()}
        if self.weights.read(first) != wanted:
            raise NotExact("the first hidden vector is not the code of an empty tape")
        self.weights.check_output(first, None, "before the input")
        return "the first hidden vector is the code of the start, and the output says to go on"

    def check_about(self, alphabet: Sequence[str], lead: tuple[int, int], blank: str, two_way: bool) -> None:
        """The values used to run and to read tapes are those of the machine."""
        about = self.net.about
        if set(self.net.alphabet) != {*alphabet, END, NUL}:
            raise NotExact(f"the network reads {', '.join(self.net.alphabet)}; the machine's input is {alphabet}")
        if self.net.out_W.rows != 3:
            raise NotExact("the outputs are not NUL, ACC and REJ")
        if tuple(about["lead"]) != lead:
            raise NotExact(f"the machine begins after {lead[0]}·|w| + {lead[1]} steps, not after {about['lead']}")
        if about["blank"] != blank or about["two_way"] is not two_way:
            raise NotExact("the blank or the kind of tape is not the machine's")

    def reasons(self) -> tuple[str, ...]:
        raise NotImplementedError


def _text(form: Affine) -> str:
    return " + ".join(f"{value}·{name}" if name else str(value) for name, value in form.items()) or "0"


STEPS = "every step of the machine is one step of the network, in each of {} cases, for every content of the tape"
HALTS = "a halting state no longer changes, and the output is its answer; before that the output says to go on"
CONDITIONS = "exactly one of the named conditions is true"


class _OneTape(_Proof):
    machine: TuringMachine

    def check_symbols(self) -> None:
        if list(self.net.about["symbols"]) != list(self.machine.symbols):
            raise NotExact("the tape's symbols are not the machine's")

    def steps(self) -> None:
        """Each state and symbol, with each top of the stack that is popped."""
        machine = self.machine
        for state, symbol in product(machine.states, machine.symbols):
            where = f"in state {state!r} on {symbol!r}"
            if machine.answer(state):
                self.still(where, state, symbol)
                continue
            target, write, move = machine.transitions[state][symbol]
            popped, other = ("l", "r") if move < 0 else ("r", "l")
            for stack in [self.any(popped)] if move == 0 else self.tops(popped):
                top = "" if stack.top is None else f", {'nothing' if stack.top == MARK else repr(stack.top)} beside it"
                self.move(where + top, (state, symbol), (target, write, move), stack, self.any(other))

    def move(self, where: str, now: tuple[str, str], action: Any, stack: _Stack, other: _Stack) -> None:
        target, write, move = action
        if move == 0 or (stack.top == MARK and move < 0 and not self.machine.two_way):
            after, shown, stacks = target, write, (stack, other)
        else:
            shown = self.machine.blank if stack.top == MARK else str(stack.top)
            after, stacks = target, (_Stack(stack.part, stack.rest), self.pushed(other, write))
        answer = self.machine.answer(after)
        self.show(
            where, self.configuration(*now, (stack, other)), NUL, self.configuration(after, shown, stacks), answer
        )

    def still(self, where: str, state: str, symbol: str) -> None:
        values = self.configuration(state, symbol, (self.any("l"), self.any("r")))
        self.show(where, values, NUL, values, self.machine.answer(state))

    def tops(self, part: str) -> Iterator[_Stack]:
        raise NotImplementedError

    def configuration(self, state: str, symbol: str, stacks: Iterable[_Stack]) -> Values:
        raise NotImplementedError


class _Compact(_OneTape):
    """(state, symbol) pairs are one-hot; the blank is digit 0; the input is written as a queue."""

    def __init__(self, net: Decider, machine: TuringMachine) -> None:
        super().__init__(net, machine.name, net.about["base"])
        self.machine = machine

    def configuration(self, state: str, symbol: str, stacks: Iterable[_Stack]) -> Values:
        return self.values([("pair", state, symbol)], stacks)

    def tops(self, part: str) -> Iterator[_Stack]:
        return self.topped(part, self.machine.blank)

    def reasons(self) -> tuple[str, ...]:
        machine = self.machine
        shown = [self.weights.check_factors()]
        self.check_symbols()
        self.check_about(machine.input_alphabet or (), (1, 2), machine.blank, machine.two_way)
        empty = self.empty("l")
        shown.append(self.check_start(self.values([], [empty, self.empty("r")], scale=_constant(1))))
        self.reading(empty)
        shown.append("symbol i of the input goes to depth i of the right stack; after EOS one step begins")
        self.steps()
        return *shown, STEPS.format(f"{self.weights.cases:,}"), HALTS, CONDITIONS + ", from the end of the input on"

    def reading(self, empty: _Stack) -> None:
        """scale = B^−i after i symbols. With r_a ≤ 1 − scale, r_a + scale·(B − 1)/B ≤ 1 − scale/B: it stays so."""
        scale, queue = {"scale": Fraction(1)}, self.any("r")
        reading = self.values([], [empty, queue], scale=scale)
        for a in self.machine.input_alphabet or ():
            longer = {b: dict(form) for b, form in queue.numbers.items()}
            _plus(longer[a], scale, self.push_by)
            after = self.values([], [empty, _Stack("r", longer)], scale=_scaled(scale, Fraction(1, self.base)))
            self.show(f"reading {a!r}", reading, a, after, None, conditions=False)
        self.show("at the end of the input", reading, END, self.values([("begin",)], [empty, queue]), None)
        for stack in self.tops("r"):
            before = self.values([("begin",)], [empty, stack])
            after = self.configuration(self.machine.start, str(stack.top), (empty, _Stack("r", stack.rest)))
            where = f"at the beginning, with {stack.top!r} first"
            self.show(where, before, NUL, after, self.machine.answer(self.machine.start))


class _Literal(_OneTape):
    """State and symbol are one-hot by themselves, the blank is a symbol, and both stacks have a mark."""

    def __init__(self, net: Decider, machine: TuringMachine) -> None:
        super().__init__(net, machine.name, net.about["base"])
        self.machine = machine

    def configuration(self, state: str, symbol: str, stacks: Iterable[_Stack]) -> Values:
        return self.values([("q", state), ("c", symbol)], stacks)

    def tops(self, part: str) -> Iterator[_Stack]:
        return self.topped(part, None)

    def reasons(self) -> tuple[str, ...]:
        machine = self.machine
        shown = [self.weights.check_factors()]
        self.check_symbols()
        self.check_about(machine.input_alphabet or (), (2, 2), machine.blank, machine.two_way)
        own = [state for state in self.symbols_of("q") if state not in machine.states]
        if len(own) != 2:
            raise NotExact("the network needs two states beside the machine's: one to load and one to rewind")
        load, rewind = own
        empty = (self.empty("l"), self.empty("r"))
        shown.append(self.check_start(self.configuration(load, machine.blank, empty)))
        self.loading(load, rewind, empty[1])
        self.rewinding(rewind)
        shown.append("the input is pushed on the left stack, symbol by symbol, and rewound, a symbol per step")
        self.steps()
        return *shown, STEPS.format(f"{self.weights.cases:,}"), HALTS, CONDITIONS

    def loading(self, load: str, rewind: str, empty: _Stack) -> None:
        blank, left = self.machine.blank, self.any("l")
        before = self.configuration(load, blank, (left, empty))
        for a in self.machine.input_alphabet or ():
            self.show(f"loading {a!r}", before, a, self.configuration(load, blank, (self.pushed(left, a), empty)), None)
        self.show("at the end of the input", before, END, self.configuration(rewind, blank, (left, empty)), None)

    def rewinding(self, rewind: str) -> None:
        machine, right = self.machine, self.any("r")
        for symbol, stack in product(machine.symbols, list(self.tops("l"))):
            before = self.configuration(rewind, symbol, (stack, right))
            if stack.top == MARK:
                after = self.configuration(machine.start, symbol, (stack, right))
                self.show("at the end of rewinding", before, NUL, after, machine.answer(machine.start))
            else:
                stacks = (_Stack("l", stack.rest), self.pushed(right, symbol))
                after = self.configuration(rewind, str(stack.top), stacks)
                self.show(f"rewinding {stack.top!r}", before, NUL, after, None)


LOAD, TURN, REWIND = "(load)", "(turn)", "(rewind)"


class _SeveralTapes(_Proof):
    """State and symbols are one-hot by themselves, blanks are digit 0; the rewinding is two rules of its own."""

    def __init__(self, net: Decider, machine: MultiTapeMachine) -> None:
        super().__init__(net, machine.name, net.about["base"])
        self.machine, self.tapes = machine, range(len(machine.symbols))
        held = [machine.contents[t - 1] if 0 < t <= len(machine.contents) else () for t in self.tapes]
        self.open = self._open(net)
        self.right = [self.any(f"r{t}") if t in self.open else self._coded(t, held[t]) for t in self.tapes]
        filled = [int(bool(held[t]) or t in self.open) for t in self.tapes if t > 0]
        rest: list[None] = [None] * (len(self.tapes) - 1)
        stay = [0] * len(rest)
        inked, blank = machine.symbols[0][1:], machine.symbols[0][0]
        self.own = [
            rule(TURN, [None, *rest], REWIND, [None, *rest], [-1, *stay]),
            rule(REWIND, [inked, *rest], REWIND, [None, *rest], [-1, *stay]),
            rule(REWIND, [blank, *rest], machine.start, [None, *rest], [1, *filled]),
        ]

    def _open(self, net: Decider) -> set[int]:
        """The tapes whose content may be anything: digits are computed on demand."""
        if not isinstance(net, OracleRNN):
            return set()
        if {self.role["r1", a]: a for a in self.symbols_of("r1")} != net.lazy:  # type: ignore[attr-defined]
            raise NotExact("the real weights are not the numbers of the second tape")
        return {1}

    def _coded(self, tape: int, cells: Sequence[str]) -> _Stack:
        stack = self.empty(f"r{tape}")
        for symbol in reversed(list(cells)):
            stack = self.pushed(stack, symbol)
        return stack

    def configuration(self, state: str, shown: Sequence[str], stacks: Iterable[_Stack]) -> Values:
        return self.values([("q", state), *((f"c{t}", a) for t, a in enumerate(shown))], stacks)

    def reasons(self) -> tuple[str, ...]:
        machine = self.machine
        shown = [self.weights.check_factors()]
        self.check_about(machine.input_alphabet, (2, 3), machine.symbols[0][0], True)
        blanks = [symbols[0] for symbols in machine.symbols]
        left = [self.empty(f"l{t}") for t in self.tapes]
        given = [self.empty(f"r{t}") if t in self.open else stack for t, stack in enumerate(self.right)]
        shown.append(self.check_start(self.configuration(LOAD, blanks, [*left, *given])))
        left[0] = self.any("l0")
        before = self.configuration(LOAD, blanks, [*left, *self.right])
        for a in machine.input_alphabet:
            after = self.configuration(LOAD, blanks, [self.pushed(left[0], a), *left[1:], *self.right])
            self.show(f"loading {a!r}", before, a, after, None)
        after = self.configuration(TURN, blanks, [*left, *self.right])
        self.show("at the end of the input", before, END, after, None)
        shown.append(
            "the input is pushed on the first tape's left stack, symbol by symbol, and rewound, a symbol per step"
        )
        for state in (TURN, REWIND, *machine.working, *sorted(machine.accept | machine.reject)):
            for symbols in product(*machine.symbols):
                self.step_of(state, symbols)
        if self.open:
            shown.append("the second tape may hold any digits; a run computes them on demand")
        return *shown, STEPS.format(f"{self.weights.cases:,}"), HALTS, CONDITIONS

    def step_of(self, state: str, shown: tuple[str, ...]) -> None:
        where = f"in state {state!r} on {', '.join(map(repr, shown))}"
        stacks = [(self.any(f"l{t}"), self.any(f"r{t}")) for t in self.tapes]
        if answer := self.machine.answer(state):
            values = self.configuration(state, shown, [stack for pair in stacks for stack in pair])
            self.show(where, values, NUL, values, answer)
            return
        fitting = [r for r in (*self.own, *self.machine.rules) if _fits(r, state, shown)]
        if len(fitting) != 1:
            raise NotExact(f"{where}: {len(fitting)} rules fit")
        self.apply(where, fitting[0], state, shown)

    def apply(self, where: str, each: Rule, state: str, shown: tuple[str, ...]) -> None:
        choices = []
        for t, move in enumerate(each.moves):
            left, right, blank = f"l{t}", f"r{t}", self.machine.symbols[t][0]
            if move < 0:
                choices.append([(stack, self.any(right)) for stack in self.topped(left, blank)])
            elif move > 0:
                choices.append([(self.any(left), stack) for stack in self.topped(right, blank)])
            else:
                choices.append([(self.any(left), self.any(right))])
        for stacks in product(*choices):
            after_shown, after = [], []
            for (left_stack, right_stack), write, move, symbol in zip(stacks, each.writes, each.moves, shown):
                written = symbol if write is None else write
                if move == 0:
                    after_shown.append(written)
                    after += [left_stack, right_stack]
                elif move < 0:
                    after_shown.append(str(left_stack.top))
                    after += [_Stack(left_stack.part, left_stack.rest), self.pushed(right_stack, written)]
                else:
                    after_shown.append(str(right_stack.top))
                    after += [self.pushed(left_stack, written), _Stack(right_stack.part, right_stack.rest)]
            before = self.configuration(state, shown, [stack for pair in stacks for stack in pair])
            values = self.configuration(each.target, after_shown, after)
            self.show(where, before, NUL, values, self.machine.answer(each.target))


def _fits(each: Rule, state: str, shown: Sequence[str]) -> bool:
    return state in each.states and all(want is None or a in want for want, a in zip(each.reads, shown))
