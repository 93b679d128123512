"""One module a paper's experiment: every table and figure, the paper's figure beside ours.

`EXPERIMENTS` is what `kleene reproduce` knows: a name, and where the experiment is declared (`protocol.Experiment`).
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kleene.errors import InputError

if TYPE_CHECKING:
    from kleene.papers.protocol import Experiment

EXPERIMENTS: dict[str, str] = {
    "interdependence.synthetic": "kleene.papers.interdependence_synthetic:SYNTHETIC",
    "interdependence.english": "kleene.papers.interdependence_english:ENGLISH",
    "interdependence.natural": "kleene.papers.interdependence_natural:NATURAL",
    "alta.scan": "kleene.papers.alta_scan:SCAN",
    "alta.scan-dense": "kleene.papers.alta_scan:SCAN_DENSE",
    "alta.parity": "kleene.papers.alta_parity:parity",
    "alta.parity-minimal": "kleene.papers.alta_parity_minimal:MINIMAL",
    "alta.parity-trace": "kleene.papers.alta_parity_trace:TRACE",
    "alta.parity-end-to-end": "kleene.papers.alta_parity_end_to_end:END_TO_END",
    "alta.addition": "kleene.papers.alta_addition:ADDITION",
    "alta.scan-end-to-end": "kleene.papers.alta_scan_end_to_end:SCAN_END_TO_END",
    "alta.frozen": "kleene.papers.alta_frozen:FROZEN",
    "alta.probes": "kleene.papers.alta_probes:PROBES",
    "synthesizer.memorise": "kleene.papers.synthesizer_memorise:MEMORISE",
    "synthesizer.sweep": "kleene.papers.synthesizer_sweep:SWEEP",
    "synthesizer.soft-instruction": "kleene.papers.synthesizer_soft:SOFT_INSTRUCTION",
    "synthesizer.soft-imperative": "kleene.papers.synthesizer_soft:SOFT_IMPERATIVE",
}


def experiment(name: str) -> Callable[..., Any]:
    """The function that runs the experiment of that name."""
    found = _named(name)
    run: Callable[..., Any] = found.run if hasattr(found, "run") else found
    return run


def protocol_of(name: str) -> Experiment:
    """The experiment of that name, as it is declared."""
    found = _named(name)
    if not hasattr(found, "derive"):
        raise InputError(f"experiment {name!r}: its tables are not derived from raw runs")
    declared: Experiment = found
    return declared


def _named(name: str) -> Any:
    if name not in EXPERIMENTS:
        close = get_close_matches(name, EXPERIMENTS, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(EXPERIMENTS)}"
        raise InputError(f"experiment {name!r}: unknown; {hint}")
    module, _, attribute = EXPERIMENTS[name].partition(":")
    return getattr(import_module(module), attribute)
