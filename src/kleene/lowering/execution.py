"""Run `step` on symbols: every path through it, with statements whose paths have met again."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from types import FunctionType

from kleene.errors import KleeneError, StepError, TooManyPaths
from kleene.lowering.identity import watched
from kleene.lowering.merging import MAX_PATHS, Merger
from kleene.lowering.rewriting import rewritten
from kleene.lowering.symbolic import Path, Saved, SymbolicState
from kleene.machines.interpreter import quiet
from kleene.machines.program import ProgramClass, step_of


def execute(program: ProgramClass, reached: Mapping[str, frozenset[int]] | None = None) -> list[Path]:
    """Every path through `step`. With `reached`, only paths that begin with these values of variables and heads."""
    paths: list[Path] = []
    open_prefixes: list[tuple[int, ...]] = [()]
    while open_prefixes:
        path = Path(program, open_prefixes.pop(), reached=reached)
        _run(path)
        paths.append(path)
        open_prefixes += path.others()
        if len(paths) + len(open_prefixes) > MAX_PATHS:
            raise TooManyPaths(path.explosion([one.chain for one in paths], MAX_PATHS))
    return paths


def _where(path: Path, error: Exception) -> str:
    """Values for which the path raises an error, and the line of the program that raises it."""
    filename = getattr(getattr(step_of(path.program), "__code__", None), "co_filename", None)
    lines = [found.lineno for found in traceback.extract_tb(error.__traceback__) if found.filename == filename]
    examples = [path.example(one.form, next(iter(path.attainable(one.form)))) for one in path.chain[-1:]]
    parts = [*(f"for {example}" for example in examples if example), *(f"line {line}" for line in lines[-1:])]
    shown = f" ({'; '.join(parts)})" if parts else ""
    if any(name in str(error) for name in ("Symbol", "WordValue", "BitsValue")):
        return f"{shown}: this operation does not take a value that depends on variables"
    return shown


def ways_through(paths: list[Path]) -> list[tuple[Path, Saved]]:
    """The ends of paths: through single statements, and through all of `step`."""
    return [(path, way) for path in paths for way in [*path.ways, *([] if path.ways else [path.saved()])]]


def _run(path: Path) -> None:
    step = step_of(path.program)
    merger = Merger(path)
    merged = rewritten(step, merger) if isinstance(step, FunctionType) else None
    try:
        with watched(path.program), quiet():
            (merged or step)(SymbolicState(path))
    except KleeneError:
        raise
    except Exception as error:
        said = f": {error}" if str(error) else ""
        raise StepError(
            f"{path.program.spec.name}: step raises {type(error).__name__}{said}{_where(path, error)}"
        ) from error
    if merger.refused:
        raise merger.refused[0]
