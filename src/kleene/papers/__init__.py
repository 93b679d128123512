"""One module a paper: every table and figure, the paper's figure beside ours.

`EXPERIMENTS` is what `kleene reproduce` knows: a name, and the function that runs it. The function takes
`scale` ("small" or "paper"), `data` (the folder of data sets, or None) and `folder` (where results go), and
returns a `kleene.papers.report.Result`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kleene.errors import InputError

EXPERIMENTS: dict[str, str] = {
    "interdependence.synthetic": "kleene.papers.interdependence_synthetic:synthetic",
    "interdependence.english": "kleene.papers.interdependence_english:english",
    "interdependence.natural": "kleene.papers.interdependence_natural:natural",
    "alta.scan": "kleene.papers.alta_scan:scan",
    "alta.scan-dense": "kleene.papers.alta_scan:scan_dense",
    "alta.parity": "kleene.papers.alta_parity:parity",
    "alta.parity-minimal": "kleene.papers.alta_parity_minimal:parity_minimal",
    "alta.parity-trace": "kleene.papers.alta_parity_trace:parity_trace",
    "alta.parity-end-to-end": "kleene.papers.alta_parity_end_to_end:parity_end_to_end",
    "alta.addition": "kleene.papers.alta_addition:addition",
    "alta.scan-end-to-end": "kleene.papers.alta_scan_end_to_end:scan_end_to_end",
    "alta.frozen": "kleene.papers.alta_frozen:frozen",
    "alta.probes": "kleene.papers.alta_probes:probes",
    "synthesizer.memorise": "kleene.papers.synthesizer_memorise:memorise_programs",
    "synthesizer.sweep": "kleene.papers.synthesizer_sweep:sweep",
    "synthesizer.soft-instruction": "kleene.papers.synthesizer_soft:soft_instruction",
    "synthesizer.soft-imperative": "kleene.papers.synthesizer_soft:soft_imperative",
}


def experiment(name: str) -> Callable[..., Any]:
    """The function that runs the experiment of that name."""
    if name not in EXPERIMENTS:
        raise InputError(f"experiment {name!r}: unknown; there are {', '.join(EXPERIMENTS)}")
    module, _, function = EXPERIMENTS[name].partition(":")
    experiment: Callable[..., Any] = getattr(import_module(module), function)
    return experiment
