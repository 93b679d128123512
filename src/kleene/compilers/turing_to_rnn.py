"""Theorem 4.11: a Turing machine becomes a simple RNN with rational weights, as printed or compact."""

from __future__ import annotations

from kleene.compilers.forms import Form, StepBuilder, total
from kleene.compilers.two_layer import fuse
from kleene.errors import InputError
from kleene.machines.turing import TuringMachine
from kleene.networks.decider import ACCEPT, END, MARK, NOTHING, NUL, REJECT, Decider


def compile_turing(machine: TuringMachine, *, form: str = "compact", base: int = 3) -> Decider:
    """A ReLU network with rational weights that reads w, EOS and then NUL until its output says the answer.

    `form`: "compact" or "literal" (the chapter's construction with its corrections). `base` is the number
    system of the stacks, at least 3.
    """
    if form not in ("compact", "literal"):
        raise InputError(f"compile: form {form!r}; it should be 'compact' or 'literal'")
    if not isinstance(base, int) or base < 3:
        raise InputError(f"compile: base {base!r}; stacks need an integer base of at least 3")
    for name in (END, NUL):
        if name in (machine.input_alphabet or ()):
            raise InputError(f"compile: the input symbol {name!r} is what the network ends its input with")
    alphabet = (*(machine.input_alphabet or ()), END, NUL)
    builder = StepBuilder(alphabet, outputs=3, base=base)
    lead = (_compact if form == "compact" else _literal)(builder, machine)
    about = {
        "form": form,
        "base": base,
        "lead": list(lead),
        "roles": [list(role) for role in builder.roles],
        "blank": machine.blank,
        "two_way": machine.two_way,
        "symbols": list(machine.symbols),
        "conditions": builder.conditions_to_json(),
        "machine": machine.to_json(),
    }
    return fuse(builder.build(), Decider, about=about)


def _outputs(build: StepBuilder, machine: TuringMachine, state_of: dict[tuple[str, ...], str]) -> None:
    """NUL is 1 minus the others; the answers are sums of the values that hold the state."""
    build.out_bias = {NOTHING: 1}
    for role, state in state_of.items():
        answer = machine.answer(state)
        if answer is not None:
            at = build.roles[role]
            build.out[ACCEPT if answer == "accept" else REJECT, at] = 1
            build.out[NOTHING, at] = -1


# As printed


def _literal(build: StepBuilder, machine: TuringMachine) -> tuple[int, int]:
    """h = [q; l; c; r] and equations (4.33)–(4.39), with the corrections of the notes."""
    load, rewind = "load", "rewind"
    while load in machine.states or rewind in machine.states:
        load, rewind = load + "'", rewind + "'"
    q = {s: build.value("q", s, start=int(s == load)) for s in (load, rewind, *machine.states)}
    stack = (*machine.symbols, MARK)
    bottom = build.push  # stack($) = (B − 1)/B · e_$
    l = {a: build.value("l", a, start=bottom if a == MARK else 0) for a in stack}
    c = {a: build.value("c", a, start=int(a == machine.blank)) for a in machine.symbols}
    r = {a: build.value("r", a, start=bottom if a == MARK else 0) for a in stack}
    third = 1 - build.push  # 1/B

    def keep(p: Form, *parts: str) -> None:
        """Those parts stay as they are where p holds."""
        for part, values in (("l", l), ("c", c), ("r", r)):
            if part in parts:
                for a, z in values.items():
                    build.add((part, a), build.when(p, z))

    def push(p: Form, minus: Form | None, part: str, symbol: str | None) -> None:
        """Push a symbol (or c) onto a stack where p holds and `minus` does not."""
        for sign, cond in ((1, p), (-1, minus)):
            if cond is not None:
                for a, z in (l if part == "l" else r).items():
                    build.add((part, a), build.when(cond, z) * third * sign)
                if symbol is not None:
                    build.add((part, symbol), build.when(cond) * build.push * sign)
                else:
                    for a, z in c.items():
                        build.add((part, a), build.when(cond, z) * build.push * sign)

    def pop(p: Form, minus: Form, part: str) -> None:
        """c becomes the top of a stack, which loses it, where p holds and `minus` does not."""
        for sign, cond in ((1, p), (-1, minus)):
            for a, z in (l if part == "l" else r).items():
                build.add((part, a), build.when_pop(cond, z) * sign)
                if a != MARK:
                    build.add(("c", a), build.when_top(cond, z) * sign)

    def enter(state: str, p: Form, minus: Form | None = None) -> None:
        truth = build.when(p) if minus is None else build.when(p) - build.when(minus)
        build.add(("q", state), truth)

    # (4.36) load: q₀ and a symbol pushes it; EOS goes on to rewinding
    alphabet = machine.input_alphabet or ()
    symbols = total(build.input(a) for a in alphabet)
    p = q[load] + symbols - 1
    if alphabet:
        enter(load, p)
        build.add(("c", machine.blank), build.when(p))
        keep(p, "r")
        for a in stack:
            build.add(("l", a), build.when(p, l[a]) * third)
        for a in alphabet:
            build.add(("l", a), build.when(q[load] + build.input(a) - 1) * build.push)
        build.condition("load", build.when(p))
    p = q[load] + build.input(END) - 1
    enter(rewind, p)
    keep(p, "l", "c", "r")
    build.condition("end of input", build.when(p))

    # (4.37) rewind
    p = q[rewind]
    at_end = build.at_bottom(p, l[MARK])
    enter(rewind, p, at_end)
    pop(p, at_end, "l")
    push(p, at_end, "r", None)
    build.condition("rewind", build.when(p) - build.when(at_end))
    enter(machine.start, at_end)
    keep(at_end, "l", "c", "r")
    build.condition("begin", build.when(at_end))

    # (4.38), (4.39), and moves that stay
    for state, row in machine.transitions.items():
        for symbol, (target, write, move) in row.items():
            p = q[state] + c[symbol] - 1
            name = f"{state} on {symbol!r}"
            if move == 0:
                enter(target, p)
                build.add(("c", write), build.when(p))
                keep(p, "l", "r")
                build.condition(name, build.when(p))
                continue
            from_, onto = ("l", "r") if move < 0 else ("r", "l")
            at_end = build.at_bottom(p, (l if move < 0 else r)[MARK])
            enter(target, p, at_end)
            pop(p, at_end, from_)
            push(p, at_end, onto, write)
            build.condition(name, build.when(p) - build.when(at_end))
            enter(target, at_end)
            keep(at_end, from_)
            if move < 0 and not machine.two_way:  # the head stays on the leftmost cell
                build.add(("c", write), build.when(at_end))
                keep(at_end, onto)
            else:
                build.add(("c", machine.blank), build.when(at_end))
                push(at_end, None, onto, write)
            build.condition(f"{name} at the end", build.when(at_end))

    # Halting states are absorbing, so that the answer stays
    for state in machine.states[len(machine.working) :]:
        enter(state, q[state])
        keep(q[state], "l", "c", "r")
        build.condition(f"{state} halts", build.when(q[state]))
    _outputs(build, machine, {("q", s): s for s in machine.states})
    return 2, 2  # |w| symbols and EOS, then |w| cells back and one step to begin


# Compact


def _compact(build: StepBuilder, machine: TuringMachine) -> tuple[int, int]:
    """One one-hot of (state, symbol) pairs; the blank is digit 0 of every stack, so that an empty stack reads
    as blanks and needs no mark (a one-way tape marks its left end); w is written as a queue, so that nothing
    rewinds.
    """
    inked = [a for a in machine.symbols if a != machine.blank]
    one_way = not machine.two_way
    pair = {(q, a): build.value("pair", q, a) for q in machine.states for a in machine.symbols}
    l = {a: build.value("l", a) for a in inked}
    if one_way:
        l[MARK] = build.value("l", MARK, start=build.push)
    r = {a: build.value("r", a) for a in inked}
    scale = build.value("scale", start=1)  # B^−i after i symbols, 0 after the input
    begin = build.value("begin")

    # Input: symbol i goes to depth i of the right stack
    for a in machine.input_alphabet or ():
        written = build.relu(scale + build.input(a) - 1)
        build.add(("r", a), written * build.push)
        build.add(("scale",), written * (1 - build.push))
    ended = build.relu(build.input(END))
    build.add(("begin",), ended)
    build.condition("end of input", ended)

    # Pairs by where they move, and then by where they lead
    moving: dict[int, dict[str, list[Form]]] = {-1: {}, 1: {machine.start: [begin]}}
    staying: dict[tuple[str, str], list[Form]] = {}
    writing: dict[tuple[int, str], list[Form]] = {}
    ending: dict[tuple[str, str], list[Form]] = {}  # left moves by (target, symbol written)
    for q, row in machine.transitions.items():
        for a, (target, write, move) in row.items():
            if move == 0:
                staying.setdefault((target, write), []).append(pair[q, a])
                continue
            moving[move].setdefault(target, []).append(pair[q, a])
            writing.setdefault((move, write), []).append(pair[q, a])
            if move < 0 and one_way:
                ending.setdefault((target, write), []).append(pair[q, a])
    left = total(pair[q, a] for q, row in machine.transitions.items() for a, t in row.items() if t[2] < 0)
    right = total(pair[q, a] for q, row in machine.transitions.items() for a, t in row.items() if t[2] > 0)

    # What is not moved stays
    for part, values in (("l", l), ("r", r)):
        for a, z in values.items():
            build.add((part, a), build.relu(z))

    for move, part, values, onto, other in ((-1, "l", l, "r", r), (1, "r", r, "l", l)):
        if not moving[move]:
            continue
        popping = left if move < 0 else right + begin
        pushing = left if move < 0 else right
        for a, z in values.items():  # pop: z → Bz − (B − 1)·top
            build.add((part, a), build.when(popping, z) * (build.base - 1))
        for a, z in other.items():  # push: z → z/B, and the symbol written on top
            build.add((onto, a), build.when(pushing, z) * -build.push)
        for a in inked:
            if (move, a) in writing:
                build.add((onto, a), build.when(total(writing[move, a])) * build.push)
        for target, sources in moving[move].items():
            p = total(sources)
            blank = build.when(p)
            build.condition(f"{'left' if move < 0 else 'right'} to {target}", blank)
            for a in inked:
                top = build.when_top(p, values[a])
                build.add(("pair", target, a), top)
                build.add((part, a), top * (1 - build.base))
                blank = blank - top
            build.add(("pair", target, machine.blank), blank)

    for (target, write), sources in staying.items():
        stays = build.when(total(sources))
        build.add(("pair", target, write), stays)
        build.condition(f"stay to {target} with {write!r}", stays)

    # Left end of a one-way tape: the head stays, so undo what the move did to c, l and r
    for (target, write), sources in ending.items():
        at_end = build.when(build.at_bottom(total(sources), l[MARK]))
        build.add(("pair", target, write), at_end)
        build.add(("pair", target, machine.blank), -at_end)
        build.add(("l", MARK), at_end * -(build.push * (build.base - 1)))
        if write != machine.blank:
            build.add(("r", write), at_end * -build.push)
    if ending:
        for a in inked:
            build.add(("r", a), build.when(build.at_bottom(left, l[MARK]), r[a]) * build.push)

    for q in machine.states[len(machine.working) :]:  # halting states are absorbing
        for a in machine.symbols:
            halted = build.relu(pair[q, a])
            build.add(("pair", q, a), halted)
            build.condition(f"{q} halts on {a!r}", halted)
    _outputs(build, machine, {("pair", q, a): q for q, a in pair})
    return 1, 2  # |w| symbols, EOS, and one step that reads the first symbol
