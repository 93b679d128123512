"""The chapter's remark on alternating automata, stated correctly: d SLU units are d alternating states, and
the automaton accepts the *reversal* of the network's language."""

from __future__ import annotations

from kleene.errors import NotSupported
from kleene.machines.automata.alternating import AFA, Formula, Threshold, all_of, not_
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.matrix import Matrix


def rnn_to_afa(rnn: ExactRNN) -> AFA:
    """An alternating automaton of the reversed language, a state per unit.

    A run of the network from s forwards is a run of the automaton from the end of the word backwards: unit i is on
    after a·(what came before) if its sum is at least 1. If s is not made of zeros and ones, the unit of Lemma 4.5 adds
    one state.
    """
    if not rnn.integer or rnn.activation != "slu":
        raise NotSupported("decompile: to='afa' needs integer weights and SLU units")
    if any(v != 1 for v in rnn.s.values()):
        rnn = _boolean_start(rnn)
    rows = rnn.V.by_row()
    inputs = rnn.W.dense()
    transitions = []
    for i in range(rnn.units):
        parts: tuple[tuple[int, Formula], ...] = tuple((int(v), j) for j, v in rows[i])
        bias = rnn.b.get(i, 0)
        transitions.append({a: Threshold(parts, 1 - int(inputs[i][k] + bias)) for k, a in enumerate(rnn.alphabet)})
    output = tuple((int(v), j) for (_, j), v in sorted(rnn.out_W.entries.items()))
    one = 1 - int(rnn.out_b.get(0, 0))
    at_least = Threshold(output, one)
    head = at_least if rnn.criterion == "positive" else all_of(at_least, not_(Threshold(output, one + 1)))
    return AFA(rnn.alphabet, transitions, tuple(sorted(rnn.s)), head)


def _boolean_start(rnn: ExactRNN) -> ExactRNN:
    """The same language from s' = e₀: unit 0 stands for s, and is off after the first symbol."""
    size = rnn.units + 1

    def right(matrix: Matrix, rows: int) -> dict[tuple[int, int], int]:
        down = rows - matrix.rows
        return {(i + down, j + 1): v for (i, j), v in matrix.entries.items()}  # type: ignore[misc]

    first = {(i + 1, 0): v for i, v in rnn.V.times(rnn.s).items()}
    out_first = {(k, 0): v for k, v in rnn.out_W.times(rnn.s).items()}
    return ExactRNN(
        rnn.alphabet,
        V=Matrix(size, size, {**first, **right(rnn.V, size)}),
        W=Matrix(size, len(rnn.alphabet), {(i + 1, j): v for (i, j), v in rnn.W.entries.items()}),
        b={i + 1: v for i, v in rnn.b.items()},
        s={0: 1},
        out_W=Matrix(rnn.out_W.rows, size, {**out_first, **right(rnn.out_W, rnn.out_W.rows)}),
        out_b=rnn.out_b,
        activation="slu",
        criterion=rnn.criterion,
    )
