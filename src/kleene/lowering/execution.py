"""Run `step` on symbols: every path through it, with statements whose paths have met again."""

from __future__ import annotations

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
        raise StepError(
            f"{path.program.spec.name}: step raises {type(error).__name__}: {error} while it is read symbolically"
        ) from error
    if merger.refused:
        raise merger.refused[0]
