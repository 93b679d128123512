"""`kl.learn` for attention programs: from traces, or end to end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kleene.common.tokens import Tokens
from kleene.errors import InputError
from kleene.machines.program import ProgramClass
from kleene.training.options import names_of, reject_unknown, take

SUPERVISIONS = ("trace", "end-to-end")


def learn_program(
    program: ProgramClass, inputs: Iterable[Tokens], *, supervision: str = "trace", **options: Any
) -> Any:
    """A network that learned a program from its runs on inputs, with `.metrics`.

    supervision: "trace" (an MLP learns every step and stands in the compiled network; options of
    `training/from_traces.py`) or "end-to-end" (a standard transformer learns the answers; options of
    `training/end_to_end.py`).

    >>> import kleene as kl
    >>> parity = kl.library.parity_relative
    >>> net = kl.learn(parity, [[2, 1, 1, 0], [2, 0, 0, 1], [2, 1, 0, 1]], steps=300)
    >>> net.run([2, 1, 1, 1, 0, 1, 0, 1, 1])
    [0, 1, 0, 1, 1, 0, 0, 1, 0]
    """
    if supervision not in SUPERVISIONS:
        raise InputError(f"supervision {supervision!r}: unknown; choose one of {', '.join(SUPERVISIONS)}")
    given = program.spec.check_inputs(inputs)
    if options.get("test") is not None:
        options["test"] = program.spec.check_inputs(options["test"])
    if supervision == "trace":
        from kleene.training.from_traces import FROM_TRACES, learn_from_traces

        named = {name: options.pop(name) for name in ("test",) if name in options}
        mlp, plan, storage = FROM_TRACES
        mlp, plan, storage = take(mlp, options), take(plan, options), take(storage, options)
        reject_unknown("program (from traces)", options, ["test", *names_of(*FROM_TRACES)])
        return learn_from_traces(program, given, **named, shape=mlp, plan=plan, storage=storage)
    from kleene.training.end_to_end import END_TO_END, learn_end_to_end

    named = {name: options.pop(name) for name in ("test", "read") if name in options}
    shape, plan, storage = END_TO_END
    shape, plan, storage = take(shape, options), take(plan, options), take(storage, options)
    reject_unknown("program (end to end)", options, ["test", "read", *names_of(*END_TO_END)])
    return learn_end_to_end(program, given, **named, shape=shape, plan=plan, storage=storage)
