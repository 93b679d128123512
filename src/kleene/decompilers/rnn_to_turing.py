"""A Turing machine, read back out of the weights of its network (Theorem 4.11)."""

from __future__ import annotations

from itertools import islice

from kleene.errors import NotSupported
from kleene.machines.turing import Action, TuringMachine
from kleene.networks.rnn.decider import ANSWERS, END, NUL, Decider


def decompile_decider(net: Decider) -> TuringMachine:
    """The machine whose steps the weights make: the network gets each state and symbol, and one step
    of it
    shows what is written, where the head goes and which state follows. The machine saved with it is not
    looked at.
    """
    if net.about.get("form") not in ("compact", "literal"):
        raise NotSupported("decompile: this works for machines with one tape")
    if len(net.about["symbols"]) == 1:
        raise NotSupported("decompile: a tape whose only symbol is the blank shows no moves")
    first = next(islice(net.run_inputs(""), net.lead(0), None))
    start = net.configuration(net.values(first))[0]
    rows: dict[str, dict[str, Action]] = {}
    halting: dict[str, str] = {}
    queue = [start]
    for state in queue:
        if answer := _answer(net, state):
            halting[state] = answer
            continue
        rows[state] = {symbol: _action(net, state, symbol) for symbol in net.about["symbols"]}
        queue += [t for t in dict.fromkeys(a[0] for a in rows[state].values()) if t not in queue]
    return TuringMachine(
        rows,
        start,
        frozenset(q for q, answer in halting.items() if answer == "accept"),
        frozenset(q for q, answer in halting.items() if answer == "reject"),
        net.about["blank"],
        tuple(s for s in net.alphabet if s not in (END, NUL)),
        net.about["two_way"],
        "decompiled",
    )


def _answer(net: Decider, state: str) -> str | None:
    """The answer of the output at a state that the next step keeps."""
    g = net.step_from(net.values_of(state, [], net.about["blank"], []), net.alphabet.index(NUL))
    same = net.configuration(net.values(g))[0] == state
    return ANSWERS[net.answer(g)] if same else None


def _action(net: Decider, state: str, symbol: str) -> Action:
    """One step with a cell on each side of the head; the side that grows tells the move."""
    cell = net.about["symbols"][-1]
    g = net.step_from(net.values_of(state, [cell], symbol, [cell]), net.alphabet.index(NUL))
    target, left, shown, right = net.configuration(net.values(g))
    blank = net.about["blank"]
    if len(right) == 2 or (not left and right):
        return target, right[0], -1
    if len(left) == 2 or (not right and left):
        return target, left[0] if left else blank, 1
    return target, shown, 0
