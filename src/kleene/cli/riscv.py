"""`kleene riscv`: run a RISC-V program on the transformer or on the reference machine, from a keyboard."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from kleene.cli import AsJson, app, busy, print_json
from kleene.cli.words import complete_one_of
from kleene.errors import InputError

MOST_SHOWN = 2_000  # instructions on a page
FIRST, LATER = 30_000, 1_000_000  # instructions between two looks at the output


@app.command(
    "riscv",
    epilog="Example: kleene riscv hello, or echo '(+ 1 2)' | kleene riscv lisp --compare",
    context_settings={"allow_interspersed_args": True},
)
def riscv_command(
    program: Annotated[
        str,
        typer.Argument(
            help="An ELF file, a C file, or a program of the library; or an image.",
            autocompletion=lambda incomplete: _completed(incomplete),
        ),
    ],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")] = None,
    on: Annotated[str, typer.Option(help="transformer, or reference: the plain interpreter.")] = "transformer",
    evaluator: Annotated[
        str | None,
        typer.Option(help="For the transformer: lanes (with a C compiler), lanes-numba, lookup, rows, dense."),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", "--max-steps", min=0, help="Stop after this many instructions.")
    ] = 10_000_000_000,
    memory: Annotated[
        int | None, typer.Option(help="Bytes of memory, a power of two. [default: 2^18; with --device-tree 2^24]")
    ] = None,
    instructions: Annotated[
        str | None,
        typer.Option(help="rv32i, rv32im or rv32ima. [default: rv32i; with --device-tree rv32ima]"),
    ] = None,
    device_tree: Annotated[
        str | None,
        typer.Option(help="A .dtb file: PROGRAM is the image of an operating system, and runs on a board."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also run the reference; compare registers and memory as it goes.")
    ] = False,
    page: Annotated[
        str | None, typer.Option(help="Write a page of the first instructions (--steps, at most 2,000) to this file.")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print every instruction (to standard error).")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a RISC-V program. It reads standard input and writes standard output; its exit code is passed on.

    At the end, say how many instructions ran, how fast, and on which evaluator.
    """
    if on not in ("transformer", "reference"):
        raise InputError(f"--on {on}: unknown; use 'transformer' or 'reference'")
    if on == "reference" and evaluator not in (None, "numba"):
        raise InputError(f"--evaluator {evaluator}: the reference has only numba")
    from kleene.machines.riscv import ReferenceMachine

    asked = _asked(program, tuple(arguments or ()), memory, instructions, device_tree)
    with busy("getting ready", quiet=as_json):
        machine = _machine(asked, on, evaluator)
        reference = ReferenceMachine(*asked) if compare else None
    if page is not None:
        _write_page(page, program, machine, min(steps, MOST_SHOWN))
        return
    started = time.perf_counter()
    run = _Run(machine, reference, trace, quiet=as_json)
    result = run.drive(steps)
    seconds = time.perf_counter() - started
    layers = getattr(machine, "layers", None)
    told = {
        "program": program,
        "on": on,
        "evaluator": machine.evaluator,
        "why": result.why,
        "code": result.code,
        "output": run.output.decode("utf-8", errors="replace"),
        "instructions": result.steps,
        "layers": layers,
        "seconds": round(seconds, 3),
        "pc": result.counter,
        **({"agrees_with_reference": not run.differs, "compared": run.compared} if compare else {}),
    }
    _tell(told, run.differs, as_json)
    if run.differs:
        raise typer.Exit(1)
    if result.why == "exit":
        raise typer.Exit(result.code or 0)
    if not compare and result.why != "idle":
        print(f"kleene: {program}: ends with '{result.why}' at pc {result.counter:#x}", file=sys.stderr)
        raise typer.Exit(1)


def _completed(incomplete: str) -> list[str]:
    from kleene.drivers.riscv_programs import library_programs

    return complete_one_of(library_programs(), incomplete)


def _write_page(path: str, name: str, machine: Any, steps: int) -> None:
    """Record the first instructions of a run, and write them as a page."""
    from kleene.drivers.riscv import TransformerComputer

    if not isinstance(machine, TransformerComputer):
        raise InputError("--page shows the transformer; omit --on reference")
    from kleene.drivers.riscv_record import record
    from kleene.show.page.computer import computer_page

    if not sys.stdin.isatty():
        machine.feed(sys.stdin.buffer.read())
    machine.end_input()
    moments = list(record(machine, steps))
    if not moments:
        raise InputError("--page with --steps 0 shows nothing; give at least 1")
    computer_page(name, machine.evaluator, moments).write(path)
    print(f"{path}: {len(moments):,} instructions of {name}", file=sys.stderr)


def _tell(told: dict[str, Any], differs: str, as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    ran = f", {told['layers']:,} layers" if told["layers"] is not None else ""
    code = "" if told["code"] is None else f" {told['code']}"
    rate = told["instructions"] / max(told["seconds"], 1e-9)
    print(
        f"{told['why']}{code}: {told['instructions']:,} instructions{ran} in {told['seconds']:.2f} s "
        f"({rate:,.0f} per second) on the {told['on']}, evaluator {told['evaluator']}",
        file=sys.stderr,
    )
    if "compared" in told:
        agrees = f"agrees: output, instructions, registers and memory, compared {told['compared']:,} times"
        print(f"the reference {differs or agrees}", file=sys.stderr)


def _asked(
    program: str, arguments: tuple[str, ...], memory: int | None, instructions: str | None, device_tree: str | None
) -> tuple[Any, int, tuple[str, ...], str, bytes | None]:
    """The program, its computer and its surroundings."""
    from kleene.drivers.riscv_programs import find_program, load_image
    from kleene.machines.elf import read_limited
    from kleene.machines.riscv import INSTRUCTIONS

    if instructions is not None and instructions not in INSTRUCTIONS:
        raise InputError(f"--instructions {instructions}: unknown; use {', '.join(INSTRUCTIONS)}")
    if device_tree is None:
        chosen = instructions or INSTRUCTIONS[0]
        return find_program(program, chosen), 1 << 18 if memory is None else memory, arguments, chosen, None
    if arguments:
        raise InputError("--device-tree: an operating system takes no arguments; they stand in its device tree")
    chosen = instructions or INSTRUCTIONS[-1]
    return load_image(program), 1 << 24 if memory is None else memory, (), chosen, read_limited(device_tree)


def _machine(asked: tuple[Any, ...], on: str, evaluator: str | None) -> Any:
    if on == "reference":
        from kleene.machines.riscv import ReferenceMachine

        return ReferenceMachine(*asked)
    from kleene.drivers.riscv import TransformerComputer
    from kleene.networks.transformer.lane_builds import compiler

    return TransformerComputer(*asked, evaluator=evaluator or ("lanes" if compiler() else "lanes-numba"))


class _Run:
    """A run in slices, so that output appears at once and a line is read only when the program asks for it."""

    def __init__(self, machine: Any, reference: Any, trace: bool, quiet: bool) -> None:
        self.machine, self.reference, self.trace, self.quiet = machine, reference, trace, quiet
        self.output, self.differs, self.compared = bytearray(), "", 0

    def drive(self, steps: int) -> Any:
        left, slice_ = steps, 1 if self.trace else FIRST
        while True:
            before = self.machine.steps
            if self.trace:
                self._show()
            result = self.machine.run(min(slice_, left))
            left -= self.machine.steps - before
            slice_ = 1 if self.trace else LATER
            self.output += result.output
            if not self.quiet:
                sys.stdout.buffer.write(result.output)
                sys.stdout.flush()
            if self.reference is not None and not self._same(result, before):
                return result
            if result.why == "input":
                line = sys.stdin.buffer.readline()
                for machine in (self.machine, self.reference):
                    if machine is not None:
                        machine.feed(line) if line else machine.end_input()
            elif result.why != "steps" or left <= 0:
                return result

    def _same(self, result: Any, before: int) -> bool:
        """Run the reference to the same point, and compare everything."""
        wanted = self.reference.run(result.steps - before + (result.why != "steps"))
        self.compared += 1
        for name in ("why", "steps", "output", "code", "counter", "registers", "memory"):
            mine, theirs = getattr(result, name), getattr(wanted, name)
            if mine != theirs:
                shown = "" if name == "memory" else f": {theirs!r}, here {mine!r}"
                self.differs = f"differs in its {name} by instruction {result.steps:,}{shown}"
                return False
        return True

    def _show(self) -> None:
        from kleene.machines.riscv_text import disassemble

        pc = self.machine.pc
        try:
            instruction = int.from_bytes(self.machine.load(pc, 4), "little")
        except Exception:
            return
        print(f"{self.machine.steps:>8} {pc:08x}  {instruction:08x}  {disassemble(instruction, pc)}", file=sys.stderr)
