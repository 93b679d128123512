"""The command line: parse, call, print. Each group of commands has its own file."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kleene.cli.words import in_options
from kleene.errors import KleeneError, KleeneWarning

# From what a new user tries first to what takes hours; `kleene --help` lists the commands so.
ORDER = (
    *("list", "run", "trace", "compile", "verify", "certify", "decompile", "explain", "export"),
    *("regex", "convert", "compare", "tm", "subleq", "riscv", "learn", "factory", "score", "reproduce", "demo"),
)


class Commands(TyperGroup):
    """The commands in their order."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    cls=Commands,
    name="kleene",
    help="Programs into neural networks and neural networks back into programs, exactly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"kleene {version('kleene')}")
        raise typer.Exit()


@app.callback()
def _about(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Programs into neural networks and neural networks back into programs, exactly."""


INTERRUPTED = 130  # the exit code after Ctrl-C

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 0 if the printed result holds, 1 if a check fails, 2 for bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal's encoding may lack some signs
            stream.reconfigure(errors="replace")
    warnings.showwarning = _show_warning
    try:
        code = app(arguments, prog_name="kleene", standalone_mode=False)
    except KleeneError as error:
        sys.exit(complain(in_options(str(error), arguments, app)))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        sys.exit(0)
    except MemoryError:
        sys.exit(complain("not enough memory; try a smaller input"))
    except OSError as error:
        sys.exit(complain(f"{error.filename}: {error.strerror}" if error.filename else str(error)))
    except Exception as error:
        sys.exit(_usage_error(error))
    if code == INTERRUPTED:  # typer makes an exit code of Ctrl-C
        complain("interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """Kleene's own warnings as one line on standard error; other warnings as Python shows them."""
    if issubclass(category, KleeneWarning):
        print(f"kleene: note: {' '.join(str(message).split())}", file=sys.stderr)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def complain(message: str) -> int:
    """Print one line on standard error; return the exit code for bad input."""
    print(f"kleene: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _usage_error(error: Exception) -> int:
    """Say in one line what typer finds wrong with the arguments. Any other exception is a bug of Kleene."""
    explain = getattr(error, "format_message", None)
    if explain is None:
        raise error
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]
        return 2
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    said = explain().replace("Value error, ", "")
    unknown = re.fullmatch(r"No such command '(.+)'\.", said)
    if unknown is not None:
        hint = _instead_of_command(unknown[1]) or hint
    return complain(f"{said}{hint}")


def _instead_of_command(name: str) -> str:
    """A hint where a program or a machine stands in place of a command."""
    from kleene.cli.names import library_programs, turing_machine

    plain = name.partition(":")[0]
    if plain in library_programs() or ".py" in name:
        return f" Say what to do with the program: kleene run {name} INPUT"
    return f" Say what to do with the machine: kleene tm {name}" if turing_machine(name) is not None else ""


# --- what commands share ------------------------------------------------------------------------------------


def print_json(content: Any) -> None:
    """Print a result for other programs, as JSON."""
    print(json.dumps(_finite(content), ensure_ascii=False, default=str, allow_nan=False))


def _finite(content: Any) -> Any:
    """Replace NaN and the infinities, which JSON does not have, by null."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def show(thing: Any) -> None:
    """Print a result for people: text unchanged, tables to fit the terminal."""
    from rich.console import Console
    from rich.text import Text

    if isinstance(thing, str):
        print(thing)
    else:
        Console().print(thing, soft_wrap=isinstance(thing, Text))


@contextlib.contextmanager
def busy(doing: str, quiet: bool = False, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error until the work is done; yield a function that moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)


def each_line(act: Callable[[str], None]) -> None:
    """Call `act` with each line of standard input as it comes. An error names its line; the exit code is 2 then."""
    failed = False
    for number, line in enumerate(sys.stdin, start=1):
        text = line.rstrip("\r\n")
        if not text.strip():
            continue
        try:
            act(text)
        except KleeneError as error:
            failed = True
            complain(f"line {number}: {error}")
        sys.stdout.flush()
    if failed:
        raise typer.Exit(2)


def finish(holds: bool) -> None:
    """Exit with code 1 if a check failed."""
    if not holds:
        raise typer.Exit(1)


# Each module adds its commands to `app`.
from kleene.cli import automata as _automata  # noqa: E402, F401
from kleene.cli import computer as _computer  # noqa: E402, F401
from kleene.cli import demo, programs  # noqa: E402, F401
from kleene.cli import evidence as _evidence  # noqa: E402, F401
from kleene.cli import exporting as _exporting  # noqa: E402, F401
from kleene.cli import learning as _learning  # noqa: E402, F401
from kleene.cli import riscv as _riscv  # noqa: E402, F401
from kleene.cli import truth as _truth  # noqa: E402, F401
