"""Networks of the library that are compiled once and kept in the cache folder, and quick starts of their runs.

Importing this file does not import torch: a run of lanes whose code is in the cache does without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.common.cache import cache_folder, hash_of_sources
from kleene.errors import FileError
from kleene.machines.program import Program
from kleene.networks.transformer.prepared import PreparedLanes, load_prepared, save_prepared
from kleene.networks.transformer.stops import Array

if TYPE_CHECKING:
    from kleene.networks.transformer.lanes import LanesRun
    from kleene.networks.transformer.model import Transformer
    from kleene.networks.transformer.pausable import PausableRun


class KeptNetwork:
    """The network of a program, kept by a name and by the source code that makes it."""

    def __init__(self, name: str, program: Callable[[], type[Program]]) -> None:
        self.name, self.program = name, program

    @cached_property
    def folder(self) -> Path:
        made_by = hash_of_sources(("machines", "lowering", "compilers", "library", "networks/transformer"))[:24]
        return cache_folder() / f"{self.name}-{made_by}"

    @cached_property
    def net(self) -> Transformer:
        """The network: from the cache folder, or compiled and put there."""
        from kleene.compilers.program_to_transformer import compile_program
        from kleene.networks.transformer.files import load_transformer

        if self.folder.exists():
            with contextlib.suppress(FileError):
                return load_transformer(self.folder)
        net = compile_program(self.program())
        with contextlib.suppress(OSError, FileError):
            net.save(self.folder)
        return net

    def start(self, tokens: Array, evaluator: str) -> PausableRun | PreparedLanes:
        """Begin a run; lanes from what an earlier run has kept, where there is one."""
        kept = self.folder.with_name(f"{self.folder.name}-{evaluator}")
        weights, lanes = self.folder / "weights.safetensors", evaluator.startswith("lanes")
        if lanes and (found := load_prepared(kept, weights, tokens)) is not None:
            found.load = lambda: self._begin(tokens, evaluator)  # type: ignore[assignment]
            return found
        run = self._begin(tokens, evaluator)
        if lanes and weights.exists():
            made: LanesRun = run  # type: ignore[assignment]
            save_prepared(made, weights, kept)
        return run

    def _begin(self, tokens: Array, evaluator: str) -> PausableRun:
        from kleene.networks.transformer.evaluators import start

        return start(self.net, tokens, evaluator)
