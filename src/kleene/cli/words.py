"""The words of the command line: options in messages, and completion of names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from inspect import signature
from typing import Any

SPELLED = {"inputs": "input", "dialect": "dialect"}  # options with another spelling than in Python


def in_options(message: str, arguments: Sequence[str] | None, app: Any) -> str:
    """Write the Python options that a message names as the options of the command that was called.

    `layers=3` becomes `--layers 3`, `lengths=range(1, 9)` becomes `--lengths 1-8`, and `(max_layers)` `(--max-layers)`.
    """
    names = options_of(list(sys.argv[1:] if arguments is None else arguments), app)
    if not names:
        return message
    one = "|".join(sorted(names, key=len, reverse=True))

    def option(name: str) -> str:
        return f"--{SPELLED.get(name, name).replace('_', '-')}"

    free = r"(?<![\w:,='\"-])"
    message = re.sub(
        rf"{free}({one})=range\((\d+), (\d+)\)", lambda m: f"{option(m[1])} {m[2]}-{int(m[3]) - 1}", message
    )
    message = re.sub(rf"{free}({one})=\[…\]", lambda m: f"{option(m[1])} …", message)
    message = re.sub(rf"{free}({one})=(?=\s|$|[,;)])", lambda m: option(m[1]), message)
    message = re.sub(rf"{free}({one})=(?=[\w'\"])", lambda m: f"{option(m[1])} ", message)
    return re.sub(rf"\(({one})\)", lambda m: f"({option(m[1])})", message)


def options_of(arguments: list[str], app: Any) -> set[str]:
    """The Python names of the options of the command that arguments call."""
    group = app
    for word in arguments:
        for command in group.registered_commands:
            name = command.name or command.callback.__name__.replace("_", "-")
            if name == word:
                return {*signature(command.callback).parameters} - {"as_json"}
        group = next((sub.typer_instance for sub in group.registered_groups if sub.name == word), group)
    return set()


def complete_program(incomplete: str) -> list[tuple[str, str]]:
    """The programs of the library that begin so, each with what it does."""
    from kleene.cli.names import library_programs

    return [(name, _sentence(made)) for name, made in library_programs().items() if name.startswith(incomplete)]


def complete_machine(incomplete: str) -> list[tuple[str, str]]:
    """The Turing machines of the library that begin so."""
    from kleene.library.turing_machines import MACHINES

    return [(name, made().name) for name, made in MACHINES.items() if name.startswith(incomplete)]


def complete_one_of(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that begin so."""
    return sorted(name for name in names if name.startswith(incomplete))


def complete_anything(incomplete: str) -> list[tuple[str, str]]:
    """The programs and the Turing machines that begin so."""
    return complete_program(incomplete) + complete_machine(incomplete)


def complete_experiment(incomplete: str) -> list[str]:
    from kleene.papers import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


def _sentence(made: Any) -> str:
    import inspect

    return " ".join((inspect.getdoc(made) or "").split("\n\n")[0].split()).partition(". ")[0]
