"""Theorem 4.11: a Turing machine becomes a simple RNN with rational weights, as printed or compact."""

from __future__ import annotations

from kleene.compilers import turing_compact, turing_literal
from kleene.compilers.affine_forms import StepBuilder
from kleene.compilers.turing_compact import CompactStep
from kleene.compilers.turing_literal import LiteralStep
from kleene.compilers.two_layer import fuse
from kleene.errors import InputError
from kleene.machines.turing import TuringMachine
from kleene.networks.rnn.decider import ACCEPT, END, NOTHING, NUL, REJECT, Decider


def compile_turing(machine: TuringMachine, *, form: str = "compact", base: int = 3) -> Decider:
    """Build a ReLU network with rational weights that reads w, EOS and then NUL until its output gives the answer.

    - `form`: "compact" or "literal" (the construction of the chapter with its corrections).
    - `base`: the base of the stack numbers, 3 to 128.
    """
    if form not in ("compact", "literal"):
        raise InputError(f"compile: form {form!r}; it should be 'compact' or 'literal'")
    for name in (END, NUL):
        if name in (machine.input_alphabet or ()):
            raise InputError(f"compile: the input symbol {name!r} is what the network ends its input with")
    alphabet = (*(machine.input_alphabet or ()), END, NUL)
    builder = StepBuilder(alphabet, outputs=3, base=base)
    lead = turing_compact.LEAD if form == "compact" else turing_literal.LEAD
    (CompactStep if form == "compact" else LiteralStep)(builder, machine)
    _outputs(builder, machine)
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


def _outputs(build: StepBuilder, machine: TuringMachine) -> None:
    """Sum the values that hold the state into the answers; NUL is 1 minus both."""
    build.out_bias = {NOTHING: 1}
    for role, at in build.roles.items():
        answer = machine.answer(role[1]) if role[0] in ("q", "pair") else None
        if answer is not None:
            build.out[ACCEPT if answer == "accept" else REJECT, at] = 1
            build.out[NOTHING, at] = -1
