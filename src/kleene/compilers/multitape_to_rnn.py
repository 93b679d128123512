"""Theorem 4.11 for several tapes, as the proof of Theorem 4.12 needs it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kleene.compilers.affine_forms import AffineForm, StepBuilder, total
from kleene.compilers.two_layer import fuse
from kleene.errors import InputError
from kleene.machines.multitape import MultiTapeMachine, Rule, rule
from kleene.networks.rnn.decider import ACCEPT, END, NOTHING, NUL, REJECT, Decider

LOAD, TURN, REWIND = "(load)", "(turn)", "(rewind)"


def compile_multitape(machine: MultiTapeMachine, *, base: int = 3) -> Decider:
    """Build a ReLU network with rational weights that decides as the machine does, step for step."""
    if clash := {LOAD, TURN, REWIND} & {*machine.working, *machine.accept, *machine.reject}:
        raise InputError(f"compile: state {min(clash)!r} has a name that the network reserves; rename it")
    build, about = build_multitape(machine, base, set())
    return fuse(build.build(), Decider, about={**about, "machine": machine.to_json()})


def build_multitape(
    machine: MultiTapeMachine, base: int, open_tapes: set[int]
) -> tuple[StepBuilder, dict[str, object]]:
    """Build the step of a machine, and the description of its values.

    - `base`: the base of the stack numbers.
    - `open_tapes`: tapes that get their content later (Theorem 4.12).
    """
    step = MultiTapeStep(machine, base, open_tapes)
    step.keep_stacks()
    step.load_input()
    for number, each in enumerate([*step.rewinding(), *machine.rules]):
        step.apply_rule(number, each)
    step.stay_halted()
    step.decide()
    about = {
        "form": "several tapes",
        "base": base,
        "lead": [2, 3],
        "roles": [list(role) for role in step.build.roles],
        "blank": machine.symbols[0][0],
        "two_way": True,
        "conditions": step.build.conditions_to_json(),
    }
    return step.build, about


class MultiTapeStep:
    """The two-layer step of a machine with several tapes. `build` collects its units.

    Its values: `state[s]` is 1 in state s, `shown[t][a]` is 1 where head t reads a, and `stacks["l", t][a]` and
    `stacks["r", t][a]` are the numbers of symbol a on the stacks to the left and to the right of head t.
    """

    def __init__(self, machine: MultiTapeMachine, base: int, open_tapes: set[int]) -> None:
        self.machine, self.tapes = machine, range(len(machine.symbols))
        self.build = build = StepBuilder((*machine.input_alphabet, END, NUL), outputs=3, base=base)
        held = [machine.contents[t - 1] if 0 < t <= len(machine.contents) else () for t in self.tapes]
        self.filled = {t for t in self.tapes if held[t]} | open_tapes
        self.halting = sorted(machine.accept | machine.reject)
        states = (LOAD, TURN, REWIND, *machine.working, *self.halting)
        self.state = {s: build.value("q", s, start=int(s == LOAD)) for s in states}
        self.shown = [
            {a: build.value(f"c{t}", a, start=int(a == machine.symbols[t][0])) for a in machine.symbols[t]}
            for t in self.tapes
        ]
        self.stacks: dict[tuple[str, int], dict[str, AffineForm]] = {}
        for t in self.tapes:
            inked = machine.symbols[t][1:]
            self.stacks["l", t] = {a: build.value(f"l{t}", a) for a in inked}
            self.stacks["r", t] = {a: build.value(f"r{t}", a, start=self._stacked(held[t], a)) for a in inked}

    def _stacked(self, content: Sequence[str], symbol: str) -> Fraction:
        """The number of a symbol on a stack with this content, top first."""
        push, base = self.build.push, self.build.base
        return sum((push / base**i for i, s in enumerate(content) if s == symbol), 0 * push)

    def keep_stacks(self) -> None:
        """Keep every stack; what a rule moves is subtracted where the rule applies."""
        for (side, t), numbers in self.stacks.items():
            for a, z in numbers.items():
                self.build.add((f"{side}{t}", a), self.build.relu(z))

    def load_input(self) -> None:
        """Push the input to the left of the first head, symbol by symbol; `rewinding` then moves the head back."""
        build, machine = self.build, self.machine
        for a in machine.input_alphabet:
            pushed = build.when(self.state[LOAD] + build.input(a) - 1)
            build.add(("l0", a), pushed * build.push)
        loading = self.state[LOAD] + total(build.input(a) for a in machine.input_alphabet) - 1
        build.add(("q", LOAD), build.when(loading))
        build.condition("load", build.when(loading))
        for a, z in self.stacks["l", 0].items():
            build.add(("l0", a), build.when(loading, z) * -build.push)
        ended = self.state[LOAD] + build.input(END) - 1
        build.add(("q", TURN), build.when(ended))
        build.condition("end of input", build.when(ended))
        for t in self.tapes:  # the heads show blanks while the input is loaded
            for part in (loading, ended):
                build.add((f"c{t}", machine.symbols[t][0]), build.when(part))

    def rewinding(self) -> list[Rule]:
        """Rules of the machine's own kind that move the first head back over the input, then start the machine."""
        blank, *inked = self.machine.symbols[0]
        others = len(self.tapes) - 1
        stay, rest, enter = [0] * others, [None] * others, [int(t in self.filled) for t in self.tapes if t > 0]
        return [
            rule(TURN, [None, *rest], REWIND, [None, *rest], [-1, *stay]),
            rule(REWIND, [tuple(inked), *rest], REWIND, [None, *rest], [-1, *stay]),
            rule(REWIND, [blank, *rest], self.machine.start, [None, *rest], [1, *enter]),
        ]

    def apply_rule(self, number: int, each: Rule) -> None:
        """if(p, …) for each part, where p says that the rule fits: it lies in {1} ∪ (−∞, 0]."""
        build = self.build
        p = total(self.state[s] for s in each.states)
        for t, reads in enumerate(each.reads):
            if reads is not None:
                p = p + total(self.shown[t][a] for a in sorted(reads)) - 1
        build.add(("q", each.target), build.when(p))
        build.condition(f"rule {number} to {each.target}", build.when(p))
        for t, (write, move) in enumerate(zip(each.writes, each.moves)):
            if move:
                self._move_head(p, t, write, move)
            elif write is not None:
                build.add((f"c{t}", write), build.when(p))
            else:
                for a, shown in self.shown[t].items():
                    build.add((f"c{t}", a), build.when(p, shown))

    def _move_head(self, p: AffineForm, t: int, write: str | None, move: int) -> None:
        """Pop the stack that head t moves into, and push what it leaves behind onto the other one, where p holds."""
        build, (blank, *inked) = self.build, self.machine.symbols[t]
        source, onto = ("l", "r") if move < 0 else ("r", "l")
        empty = build.when(p)
        for a in inked:
            z, other = self.stacks[source, t][a], self.stacks[onto, t][a]
            top = build.when_top(p, z)
            build.add((f"{source}{t}", a), (build.when(p, z) - top) * (build.base - 1))
            build.add((f"c{t}", a), top)
            empty = empty - top
            build.add((f"{onto}{t}", a), build.when(p, other) * -build.push)
            if write is None:
                build.add((f"{onto}{t}", a), build.when(p, self.shown[t][a]) * build.push)
        if write is not None and write != blank:
            build.add((f"{onto}{t}", write), build.when(p) * build.push)
        build.add((f"c{t}", blank), empty)

    def stay_halted(self) -> None:
        """Keep a halting state, and what the heads show in it."""
        build, halted = self.build, total(self.state[s] for s in self.halting)
        for s in self.halting:
            build.add(("q", s), build.relu(self.state[s]))
        for t in self.tapes:
            for a, z in self.shown[t].items():
                build.add((f"c{t}", a), build.when(halted, z))
        build.condition("halted", build.when(halted))

    def decide(self) -> None:
        """The output: accept or reject in a halting state, nothing before."""
        build = self.build
        build.out_bias = {NOTHING: 1}
        for s in self.halting:
            build.out[ACCEPT if s in self.machine.accept else REJECT, build.roles["q", s]] = 1
            build.out[NOTHING, build.roles["q", s]] = -1
