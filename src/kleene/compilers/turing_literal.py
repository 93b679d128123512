"""Theorem 4.11 as printed: h = [q; l; c; r] and equations (4.33)–(4.39), with the corrections of the notes."""

from __future__ import annotations

from kleene.compilers.affine_forms import AffineForm, StepBuilder, total
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.decider import END, MARK

LEAD = (2, 2)  # |w| symbols and EOS, then |w| cells back and one step to begin


class LiteralStep:
    """The parts of the step, each a method. A condition p comes with `minus`: p ∧ ¬d is if(p, t) − if(p ∧ d, t)."""

    def __init__(self, build: StepBuilder, machine: TuringMachine) -> None:
        self.build, self.machine = build, machine
        self.loading, self.rewinding = "load", "rewind"  # q₀ and q₁
        while {self.loading, self.rewinding} & set(machine.states):
            self.loading, self.rewinding = self.loading + "'", self.rewinding + "'"
        states = (self.loading, self.rewinding, *machine.states)
        stack = (*machine.symbols, MARK)
        self.q = {s: build.value("q", s, start=int(s == self.loading)) for s in states}
        self.l = {a: build.value("l", a, start=build.push if a == MARK else 0) for a in stack}
        self.c = {a: build.value("c", a, start=int(a == machine.blank)) for a in machine.symbols}
        self.r = {a: build.value("r", a, start=build.push if a == MARK else 0) for a in stack}
        self.values = {"l": self.l, "c": self.c, "r": self.r}
        self.load()
        self.rewind()
        for state, row in machine.transitions.items():
            for symbol, (target, write, move) in row.items():
                p = self.q[state] + self.c[symbol] - 1
                self.transition(p, f"{state} on {symbol!r}", target, write, move)
        self.halt()

    # The vocabulary of the equations

    def keep(self, p: AffineForm, *parts: str) -> None:
        """Keep these parts unchanged."""
        for part in parts:
            for a, z in self.values[part].items():
                self.build.add((part, a), self.build.when(p, z))

    def push(self, p: AffineForm, minus: AffineForm | None, part: str, symbol: str | None) -> None:
        """Push a symbol, or c, onto a stack."""
        build = self.build
        for sign, condition in ((1, p), (-1, minus)):
            if condition is None:
                continue
            for a, z in self.values[part].items():
                build.add((part, a), build.when(condition, z) * (1 - build.push) * sign)
            pushed = {a: build.when(condition, z) for a, z in self.c.items()} if symbol is None else {}
            for a, form in (pushed or {str(symbol): build.when(condition)}).items():
                build.add((part, a), form * build.push * sign)

    def pop(self, p: AffineForm, minus: AffineForm, part: str) -> None:
        """Pop a stack into c."""
        for sign, condition in ((1, p), (-1, minus)):
            for a, z in self.values[part].items():
                self.build.add((part, a), self.build.when_pop(condition, z) * sign)
                if a != MARK:
                    self.build.add(("c", a), self.build.when_top(condition, z) * sign)

    def enter(self, state: str, name: str, p: AffineForm, minus: AffineForm | None = None) -> None:
        """Go to a state. This also records the condition by name."""
        truth = self.build.when(p) if minus is None else self.build.when(p) - self.build.when(minus)
        self.build.add(("q", state), truth)
        self.build.condition(name, truth)

    def show(self, p: AffineForm, symbol: str) -> None:
        """Set c to a symbol."""
        self.build.add(("c", symbol), self.build.when(p))

    # The equations

    def load(self) -> None:
        """(4.36): in q₀ a symbol is pushed onto l, and EOS goes on to q₁."""
        build, alphabet = self.build, self.machine.input_alphabet or ()
        if alphabet:
            p = self.q[self.loading] + total(build.input(a) for a in alphabet) - 1
            self.enter(self.loading, "load", p)
            self.show(p, self.machine.blank)
            self.keep(p, "r")
            for a, z in self.l.items():
                build.add(("l", a), build.when(p, z) * (1 - build.push))
            for a in alphabet:
                build.add(("l", a), build.when(self.q[self.loading] + build.input(a) - 1) * build.push)
        p = self.q[self.loading] + build.input(END) - 1
        self.enter(self.rewinding, "end of input", p)
        self.keep(p, "l", "c", "r")

    def rewind(self) -> None:
        """(4.37): in q₁ the head goes back to the left end."""
        p = self.q[self.rewinding]
        at_end = self.build.at_bottom(p, self.l[MARK])
        self.enter(self.rewinding, "rewind", p, at_end)
        self.pop(p, at_end, "l")
        self.push(p, at_end, "r", None)
        self.enter(self.machine.start, "begin", at_end)
        self.keep(at_end, "l", "c", "r")

    def transition(self, p: AffineForm, name: str, target: str, write: str, move: int) -> None:
        """(4.38) and (4.39), and moves that stay."""
        if move == 0:
            self.enter(target, name, p)
            self.show(p, write)
            self.keep(p, "l", "r")
            return
        source, onto = ("l", "r") if move < 0 else ("r", "l")
        at_end = self.build.at_bottom(p, self.values[source][MARK])
        self.enter(target, name, p, at_end)
        self.pop(p, at_end, source)
        self.push(p, at_end, onto, write)
        self.enter(target, f"{name} at the end", at_end)
        self.keep(at_end, source)
        if move < 0 and not self.machine.two_way:  # the head stays on the leftmost cell
            self.show(at_end, write)
            self.keep(at_end, onto)
        else:
            self.show(at_end, self.machine.blank)
            self.push(at_end, None, onto, write)

    def halt(self) -> None:
        """Make halting states, which have no δ, absorbing, so that the answer stays."""
        for state in self.machine.states[len(self.machine.working) :]:
            self.enter(state, f"{state} halts", self.q[state])
            self.keep(self.q[state], "l", "c", "r")
