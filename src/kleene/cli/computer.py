"""`kleene subleq`: run a SUBLEQ program on the transformer or on the reference interpreter, from a keyboard."""

from __future__ import annotations

import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kleene.cli import AsJson, app, busy, finish, print_json
from kleene.cli.words import complete_one_of
from kleene.errors import DidNotHalt, FileError, InputError

if TYPE_CHECKING:
    from kleene.machines.subleq import Dialect, DialectName

FIRST, LATER = 30_000, 2_000_000  # instructions between two looks at the output


def library_programs() -> dict[str, Any]:
    """Map the names of the programs that come with Kleene to their files."""
    folder = files("kleene.library") / "subleq_programs"
    return {Path(entry.name).stem: entry for entry in folder.iterdir() if entry.name.endswith(".subleq")}


def read_program(name: str, dialect: DialectName | Dialect) -> Any:
    """Read an image from a file, or a program of the library by its name."""
    from kleene.machines import subleq

    known = library_programs()
    if name in known:
        return subleq.assemble(known[name].read_text(encoding="utf-8"), dialect, name=name)
    if not Path(name).exists():
        raise FileError(f"{name}: no such file, and no program of the library ({', '.join(sorted(known))})")
    return subleq.load(name, dialect)


@app.command(
    "subleq",
    epilog="Example: kleene subleq life, or echo '2 2 + . cr bye' | kleene subleq subleq.dec --on transformer",
)
def subleq_command(
    program: Annotated[
        str,
        typer.Argument(
            help="A file (.dec cells, .subleq assembly, bytes) or a library program.",
            autocompletion=lambda incomplete: complete_one_of(library_programs(), incomplete),
        ),
    ],
    dialect: Annotated[str, typer.Option(help="eforth (16 bits), esolang, alta or paper.")] = "eforth",
    on: Annotated[str, typer.Option(help="transformer, or reference: the plain interpreter.")] = "transformer",
    evaluator: Annotated[
        str | None,
        typer.Option(
            help="For the transformer: lanes (in C), lanes-numba, generated, lookup, rows, dense; "
            "for the reference: numba, plain."
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", "--max-steps", min=0, help="Stop after this many instructions.")
    ] = 100_000_000,
    bits: Annotated[
        int | None, typer.Option(min=3, max=16, help="The word size of the transformer, 3 to 16 (default).")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=2, max=3, help="The layers of the transformer for each instruction, 3 or 2.")
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(min=3, max=60, help="The bits of a word of the transformer, if more than --bits: 32, say."),
    ] = None,
    input_adds: Annotated[
        bool, typer.Option("--input-adds", help="Add input to its word instead of replacing it.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also run the reference; output, count and every word must agree.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a SUBLEQ program. It reads standard input and writes standard output.

    At the end, say how many instructions ran, how fast, and on which evaluator.
    """
    if on not in ("transformer", "reference"):
        raise InputError(f"--on {on}: unknown; use 'transformer' or 'reference'")
    for name, value in (("bits", bits), ("layers", layers), ("words", words)):
        if on == "reference" and value is not None:
            raise InputError(f"--{name} {value}: only for the transformer; omit it with --on reference")
    from kleene.machines.subleq import dialect_of

    rules = dialect_of(dialect)
    image = read_program(program, rules)
    options: dict[str, Any] = {
        "input_adds": input_adds,
        "evaluator": evaluator or (None if on == "transformer" else "numba"),
    }
    with busy("getting ready", quiet=as_json):
        if on == "transformer":
            from kleene.drivers.subleq import TransformerMachine

            machine: Any = TransformerMachine(image, rules, bits=bits or 16, layers=layers or 3, words=words, **options)
        else:
            from kleene.machines.subleq import Machine

            machine = Machine(image, rules, **options)
    chosen = machine.evaluator
    started = time.perf_counter()
    result, given = _drive(machine, steps, quiet=as_json)
    seconds = time.perf_counter() - started
    ran_layers = getattr(machine, "layers", None)
    differs = _difference(result, image, rules, given, input_adds, steps) if compare else None
    if as_json:
        print_json(
            {
                "program": program,
                "dialect": dialect,
                "on": on,
                "evaluator": chosen,
                "why": result.why,
                "output": result.output,
                "instructions": result.steps,
                "layers": ran_layers,
                "seconds": round(seconds, 3),
                "counter": result.counter,
                "where": result.where,
                **({"agrees_with_reference": not differs} if compare else {}),
            }
        )
    else:
        ran = f", {ran_layers:,} layers" if ran_layers is not None else ""
        print(
            f"{result.why}: {result.steps:,} instructions{ran} in {seconds:.2f} s "
            f"({result.steps / max(seconds, 1e-9):,.0f} per second) on the {on}, evaluator {chosen}",
            file=sys.stderr,
        )
    if compare and not as_json:
        print(f"the reference {differs or 'agrees: output, instructions and every word'}", file=sys.stderr)
    if not result.halted and not compare:
        print(f"kleene: {' '.join(_unfinished(result, steps).split())}", file=sys.stderr)
        raise typer.Exit(1)
    finish(not differs)


def _difference(result: Any, image: Any, dialect: Dialect, given: bytes, input_adds: bool, steps: int) -> str:
    """Run the reference to its own end, or to the limit; return the difference, or None."""
    from kleene.machines import subleq

    wanted = subleq.run(image, dialect=dialect, input=given, max_steps=steps, input_adds=input_adds)
    if wanted.why != result.why:
        return f"differs: it ends with '{wanted.why}' after {wanted.steps:,} instructions; here {result.why!r}"
    if wanted.output != result.output:
        return f"differs: its output is {wanted.output!r}"
    if wanted.steps != result.steps or wanted.counter != result.counter:
        return f"differs: {wanted.steps:,} instructions, counter {wanted.counter}; here {result.counter}"
    for at, (mine, theirs) in enumerate(zip(result.memory, wanted.memory)):  # the last word is the port
        if mine != theirs and at != 0xFFFF:
            return f"differs: it has {theirs} at address {at}, but the transformer has {mine}"
    return ""


def _unfinished(result: Any, steps: int) -> str:
    try:
        result.checked()
    except DidNotHalt as error:
        return f"{error} (--steps {steps:,})"
    return ""


def _drive(machine: Any, steps: int, quiet: bool) -> tuple[Any, bytes]:
    """Run in slices, so that output appears at once and a line is read only when the program asks for it.

    Return the result and the input that was read.
    """
    left, slice_, given = steps, FIRST, b""
    while True:
        before = machine.steps
        result = machine.run(min(slice_, left))
        left -= machine.steps - before
        slice_ = LATER
        if not quiet:
            sys.stdout.buffer.write(machine.take_output())
            sys.stdout.flush()
        if result.why == "input":
            line = sys.stdin.buffer.readline()
            given += line
            if line:
                machine.feed(line)
            else:
                machine.end_input()
        elif result.why != "steps" or left <= 0:
            return result, given
