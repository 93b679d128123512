"""Theorem 4.11, compact: one one-hot of (state, symbol) pairs.

The blank is digit 0 of every stack, so an empty stack reads as blanks and needs no mark. Only a one-way tape marks its
left end. The input w is written as a queue, so the head need not rewind.
"""

from __future__ import annotations

from kleene.compilers.affine_forms import AffineForm, StepBuilder, total
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.decider import END, MARK

LEAD = (1, 2)  # |w| symbols, EOS, and one step that reads the first symbol


class CompactStep:
    """The parts of the step, each a method; `build` collects them."""

    def __init__(self, build: StepBuilder, machine: TuringMachine) -> None:
        self.build, self.machine = build, machine
        self.inked = [a for a in machine.symbols if a != machine.blank]
        self.pair = {(q, a): build.value("pair", q, a) for q in machine.states for a in machine.symbols}
        self.l = {a: build.value("l", a) for a in self.inked}
        if not machine.two_way:
            self.l[MARK] = build.value("l", MARK, start=build.push)
        self.r = {a: build.value("r", a) for a in self.inked}
        self.scale = build.value("scale", start=1)  # B^−i after i symbols, 0 after the input
        self.begin = build.value("begin")
        self.read_input()
        self.keep_stacks()
        self.move(-1)
        self.move(1)
        self.stay()
        self.stop_at_the_left_end()
        self.halt()

    def moving(self, move: int) -> list[tuple[AffineForm, str, str]]:
        """The pairs that move in a direction, each with its target and the symbol that it writes."""
        return [
            (self.pair[q, a], target, write)
            for q, row in self.machine.transitions.items()
            for a, (target, write, way) in row.items()
            if way == move
        ]

    def read_input(self) -> None:
        """Symbol i goes to depth i of the right stack; EOS begins."""
        build = self.build
        for a in self.machine.input_alphabet or ():
            written = build.relu(self.scale + build.input(a) - 1)
            build.add(("r", a), written * build.push)
            build.add(("scale",), written * (1 - build.push))
        ended = build.relu(build.input(END))
        build.add(("begin",), ended)
        build.condition("end of input", ended)

    def keep_stacks(self) -> None:
        """Keep every stack; moves add the difference."""
        for part, values in (("l", self.l), ("r", self.r)):
            for a, z in values.items():
                self.build.add((part, a), self.build.relu(z))

    def move(self, move: int) -> None:
        """Pop one stack, z → Bz − (B − 1)·top, and push the written symbol onto the other, z → z/B."""
        build, rules = self.build, self.moving(move)
        part, values, onto, other = ("l", self.l, "r", self.r) if move < 0 else ("r", self.r, "l", self.l)
        targets: dict[str, list[AffineForm]] = {} if move < 0 else {self.machine.start: [self.begin]}
        writes: dict[str, list[AffineForm]] = {}
        for pair, target, write in rules:
            targets.setdefault(target, []).append(pair)
            writes.setdefault(write, []).append(pair)
        if not targets:
            return
        pushing = total(pair for pair, _, _ in rules)
        popping = pushing if move < 0 else pushing + self.begin
        for a, z in values.items():
            build.add((part, a), build.when(popping, z) * (build.base - 1))
        if rules:
            for a, z in other.items():
                build.add((onto, a), build.when(pushing, z) * -build.push)
        for a in self.inked:
            if a in writes:
                build.add((onto, a), build.when(total(writes[a])) * build.push)
        for target, pairs in targets.items():
            self.enter(target, total(pairs), part, values, "left" if move < 0 else "right")

    def enter(self, target: str, p: AffineForm, part: str, values: dict[str, AffineForm], way: str) -> None:
        """The next pair is the target with the top of the stack: a symbol, or else the blank."""
        build = self.build
        blank = build.when(p)
        build.condition(f"{way} to {target}", blank)
        for a in self.inked:
            top = build.when_top(p, values[a])
            build.add(("pair", target, a), top)
            build.add((part, a), top * (1 - build.base))
            blank = blank - top
        build.add(("pair", target, self.machine.blank), blank)

    def stay(self) -> None:
        """Apply the moves that leave the head where it is."""
        groups: dict[tuple[str, str], list[AffineForm]] = {}
        for pair, target, write in self.moving(0):
            groups.setdefault((target, write), []).append(pair)
        for (target, write), pairs in groups.items():
            stays = self.build.when(total(pairs))
            self.build.add(("pair", target, write), stays)
            self.build.condition(f"stay to {target} with {write!r}", stays)

    def stop_at_the_left_end(self) -> None:
        """On a one-way tape the head stays on the leftmost cell: undo what the move did to c, l and r."""
        build, rules = self.build, self.moving(-1)
        if self.machine.two_way or not rules:
            return
        groups: dict[tuple[str, str], list[AffineForm]] = {}
        for pair, target, write in rules:
            groups.setdefault((target, write), []).append(pair)
        for (target, write), pairs in groups.items():
            at_end = build.when(build.at_bottom(total(pairs), self.l[MARK]))
            build.add(("pair", target, write), at_end)
            build.add(("pair", target, self.machine.blank), -at_end)
            build.add(("l", MARK), at_end * -(build.push * (build.base - 1)))
            if write != self.machine.blank:
                build.add(("r", write), at_end * -build.push)
        left = build.at_bottom(total(pair for pair, _, _ in rules), self.l[MARK])
        for a in self.inked:
            build.add(("r", a), build.when(left, self.r[a]) * build.push)

    def halt(self) -> None:
        """Make halting states absorbing, so that the answer stays."""
        for q in self.machine.states[len(self.machine.working) :]:
            for a in self.machine.symbols:
                halted = self.build.relu(self.pair[q, a])
                self.build.add(("pair", q, a), halted)
                self.build.condition(f"{q} halts on {a!r}", halted)
