"""The page of a program's run: find the updates and the weights to show, and render the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kleene.compilers.program_to_transformer import compile_program
from kleene.errors import KleeneError
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.layout import build_layout
from kleene.machines.program import ProgramClass
from kleene.machines.trace import Trace

if TYPE_CHECKING:
    from kleene.show.page import Page

MAX_WEIGHTS = 3_000_000  # zeros included; larger networks are compiled for a page only on request


def program_page(trace: Trace, *, weights: bool | None = None, text: str | None = None) -> Page:
    """The page of a trace.

    weights: show the network's weights; by default where the network is small.
    text: the input as it was written, for the title.
    """
    from kleene.show.page.program import program_page as render

    network, without = _network(trace, weights)
    return render(trace, updates_of(trace), network, without, text)


def updates_of(trace: Trace) -> Any:
    """The guarded updates of the run: the program's, or those saved with the network."""
    if isinstance(trace.origin, ProgramClass):
        return guarded_updates(trace.origin)
    if trace.origin is None:
        return None
    from kleene.checks.certificates import saved_updates

    return saved_updates(trace.origin, trace.spec)


def _network(trace: Trace, wanted: bool | None) -> tuple[Any, str | None]:
    """The network of the run, or the compiled program; or None, and the reason."""
    if wanted is False:
        return None, "left out: weights=False"
    if trace.origin is None:
        return None, "left out: the trace does not say what made it"
    if not isinstance(trace.origin, ProgramClass):
        return trace.origin, None
    least = build_layout(trace.spec).size * (trace.spec.tokens + (trace.spec.positions or 0))
    if wanted is None and least > MAX_WEIGHTS:
        return None, f"left out: its embeddings alone have {least:,} entries; weights=True shows them"
    try:
        return compile_program(trace.origin), None
    except KleeneError as error:
        if wanted:
            raise
        return None, f"left out: {error}"
