"""Theorem 4.11 for several tapes, as the proof of Theorem 4.12 needs it."""

from __future__ import annotations

from kleene.compilers.affine_forms import Form, StepBuilder, total
from kleene.compilers.two_layer import fuse
from kleene.errors import InputError
from kleene.machines.multitape import MultiTapeMachine, Rule, rule
from kleene.networks.rnn.decider import ACCEPT, END, NOTHING, NUL, REJECT, Decider

LOAD, TURN, REWIND = "(load)", "(turn)", "(rewind)"


def compile_multitape(machine: MultiTapeMachine, *, base: int = 3) -> Decider:
    """A ReLU network with rational weights that decides as the machine does; one step of it is one of the
    machine's."""
    if clash := {LOAD, TURN, REWIND} & {*machine.working, *machine.accept, *machine.reject}:
        raise InputError(f"compile: state {min(clash)!r} is what the network calls one of its own; rename it")
    build, about = build_multitape(machine, base, set())
    return fuse(build.build(), Decider, about={**about, "machine": machine.to_json()})


def build_multitape(
    machine: MultiTapeMachine, base: int, open_tapes: set[int]
) -> tuple[StepBuilder, dict[str, object]]:
    """The step, and what its values are. Tapes in `open_tapes` get their content later (Theorem 4.12)."""
    build = StepBuilder((*machine.input_alphabet, END, NUL), outputs=3, base=base)
    tapes = range(len(machine.symbols))
    held = [machine.contents[t - 1] if 0 < t <= len(machine.contents) else () for t in tapes]
    filled = {t for t in tapes if held[t]} | open_tapes
    states = (LOAD, TURN, REWIND, *machine.working, *sorted(machine.accept | machine.reject))
    q = {s: build.value("q", s, start=int(s == LOAD)) for s in states}
    c = [{a: build.value(f"c{t}", a, start=int(a == machine.symbols[t][0])) for a in machine.symbols[t]} for t in tapes]
    stacks = {}
    for t in tapes:
        stacks["l", t] = {a: build.value(f"l{t}", a) for a in machine.symbols[t][1:]}
        depth = {
            a: sum((build.push / base**i for i, s in enumerate(held[t]) if s == a), 0 * build.push)
            for a in machine.symbols[t]
        }
        stacks["r", t] = {a: build.value(f"r{t}", a, start=depth[a]) for a in machine.symbols[t][1:]}

    for (side, t), numbers in stacks.items():  # what no rule moves stays
        for a, z in numbers.items():
            build.add((f"{side}{t}", a), build.relu(z))

    # The input is pushed to the left of the first head; two rules of the machine's own kind then rewind it
    for a in machine.input_alphabet:
        pushed = build.when(q[LOAD] + build.input(a) - 1)
        build.add(("l0", a), pushed * build.push)
    loading = q[LOAD] + total(build.input(a) for a in machine.input_alphabet) - 1
    build.add(("q", LOAD), build.when(loading))
    build.condition("load", build.when(loading))
    for a, z in stacks["l", 0].items():
        build.add(("l0", a), build.when(loading, z) * -build.push)
    ended = q[LOAD] + build.input(END) - 1
    build.add(("q", TURN), build.when(ended))
    build.condition("end of input", build.when(ended))
    for t in tapes:  # while loading, the heads show blanks
        for part in (loading, ended):
            build.add((f"c{t}", machine.symbols[t][0]), build.when(part))

    stay, enter = [0] * (len(tapes) - 1), [int(t in filled) for t in tapes if t > 0]
    rest = [None] * (len(tapes) - 1)
    rewinding = [
        rule(TURN, [None, *rest], REWIND, [None, *rest], [-1, *stay]),
        rule(REWIND, [machine.symbols[0][1:], *rest], REWIND, [None, *rest], [-1, *stay]),
        rule(REWIND, [machine.symbols[0][0], *rest], machine.start, [None, *rest], [1, *enter]),
    ]
    for number, each in enumerate([*rewinding, *machine.rules]):
        _rule(build, machine, each, q, c, stacks, number)

    halted = total(q[s] for s in sorted(machine.accept | machine.reject))
    for s in sorted(machine.accept | machine.reject):
        build.add(("q", s), build.relu(q[s]))
    for t in tapes:
        for a, z in c[t].items():
            build.add((f"c{t}", a), build.when(halted, z))
    build.condition("halted", build.when(halted))

    build.out_bias = {NOTHING: 1}
    for s in sorted(machine.accept | machine.reject):
        build.out[ACCEPT if s in machine.accept else REJECT, build.roles["q", s]] = 1
        build.out[NOTHING, build.roles["q", s]] = -1
    about = {
        "form": "several tapes",
        "base": base,
        "lead": [2, 3],
        "roles": [list(role) for role in build.roles],
        "blank": machine.symbols[0][0],
        "two_way": True,
        "conditions": build.conditions_to_json(),
    }
    return build, about


def _rule(
    build: StepBuilder,
    machine: MultiTapeMachine,
    each: Rule,
    q: dict[str, Form],
    c: list[dict[str, Form]],
    stacks: dict[tuple[str, int], dict[str, Form]],
    number: int,
) -> None:
    """if(p, …) for each part, where p says that the rule fits: it lies in {1} ∪ (−∞, 0]."""
    p = total(q[s] for s in each.states)
    for t, reads in enumerate(each.reads):
        if reads is not None:
            p = p + total(c[t][a] for a in sorted(reads)) - 1
    build.add(("q", each.target), build.when(p))
    build.condition(f"rule {number} to {each.target}", build.when(p))
    for t, (write, move) in enumerate(zip(each.writes, each.moves)):
        blank, *inked = machine.symbols[t]
        if move == 0:
            if write is not None:
                build.add((f"c{t}", write), build.when(p))
            else:
                for a, shown in c[t].items():
                    build.add((f"c{t}", a), build.when(p, shown))
            continue
        source, onto = ("l", "r") if move < 0 else ("r", "l")
        empty = build.when(p)
        for a in inked:
            z, other = stacks[source, t][a], stacks[onto, t][a]
            top = build.when_top(p, z)
            build.add((f"{source}{t}", a), (build.when(p, z) - top) * (build.base - 1))
            build.add((f"c{t}", a), top)
            empty = empty - top
            build.add((f"{onto}{t}", a), build.when(p, other) * -build.push)
            if write is None:
                build.add((f"{onto}{t}", a), build.when(p, c[t][a]) * build.push)
        if write is not None and write != blank:
            build.add((f"{onto}{t}", write), build.when(p) * build.push)
        build.add((f"c{t}", blank), empty)
