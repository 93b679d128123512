"""The command line. Thin: parses, calls, prints. One file a group of commands."""

from __future__ import annotations

import sys

import typer

from kleene.errors import KleeneError

app = typer.Typer(
    name="kleene",
    help="Programs into neural networks and neural networks back into programs, exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line: exit code 0 when what is printed holds, 1 when a check fails, 2 for bad input."""
    try:
        app()
    except KleeneError as error:
        print(f"kleene: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("kleene: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)


# Each module adds its commands to `app`.
from kleene.cli import evidence as _evidence  # noqa: E402, F401
