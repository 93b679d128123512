"""The Mealy machine of a network that writes a symbol for each symbol it reads, from the weights of its cell."""

from __future__ import annotations

from kleene.decompilers.linear_to_dfa import Whole, moves_and_outputs
from kleene.decompilers.rnn_to_dfa import reachable
from kleene.errors import NotExact
from kleene.machines.automata.transducer import UNDEFINED, Output, Transducer
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.sequence import NO_MOVE, SequenceRNN


def decompile_sequence(net: SequenceRNN, *, limit: int = 100_000) -> Transducer:
    """The smallest Mealy machine that writes what the network writes; `limit`: the most hidden vectors to visit."""
    return read_machine(net, limit).minimise()


def read_machine(net: SequenceRNN, limit: int, whole: Whole | None = None) -> Transducer:
    """The machine on the hidden vectors that words reach. `whole` reads a linear cell in a number format."""
    if isinstance(net.cell, ExactRNN):
        found, vectors = reachable(net.cell, limit)
        rows, numbers = found.table.tolist(), [net.cell.output(g)[0] for g in vectors]
    else:
        rows, whole_numbers = moves_and_outputs(Whole(net.cell, "float64") if whole is None else whole, limit)
        numbers = list(whole_numbers)
    entered = {r for row in rows for r in row}
    for state in entered:
        number = numbers[state]
        if number != int(number) or not NO_MOVE <= number < len(net.outputs):
            raise NotExact(f"an output of {number} is not the number of one of the {len(net.outputs)} symbols")
    table = [[UNDEFINED if numbers[r] == NO_MOVE else r for r in row] for row in rows]
    outputs: list[list[Output]] = [
        [() if numbers[r] == NO_MOVE else (net.outputs[int(numbers[r])],) for r in row] for row in rows
    ]
    return Transducer(table, outputs, net.alphabet)
