"""What `kleene reproduce` lists: a sentence about each experiment, and how long its published runs took.

The seconds and devices are those of docs/results; a test compares them.
"""

from __future__ import annotations

import sys

from kleene.papers import EXPERIMENTS, _named

DURATIONS: dict[str, dict[str, tuple[float, str]]] = {
    "alta.addition": {"small": (452.6, "CPU"), "paper": (276.2, "CPU and GPU")},
    "alta.frozen": {"small": (238.2, "CPU"), "paper": (1296.5, "GPU")},
    "alta.parity-end-to-end": {"small": (697.2, "CPU"), "paper": (3972.2, "CPU and GPU")},
    "alta.parity-minimal": {"paper": (172, "CPU")},
    "alta.parity-trace": {"small": (467.1, "CPU"), "paper": (4781.5, "GPU")},
    "alta.probes": {"paper": (2518.1, "GPU")},
    "alta.scan-dense": {"paper": (7.7, "GPU")},
    "alta.scan-end-to-end": {"small": (573.0, "CPU"), "paper": (5591.7, "GPU")},
    "alta.scan": {"paper": (1285.1, "CPU")},
    "interdependence.english": {"paper": (452.6, "GPU")},
    "interdependence.natural": {"paper": (992.7, "GPU")},
    "interdependence.synthetic": {"paper": (3976.6, "GPU")},
    "synthesizer.memorise": {"small": (76.6, "CPU"), "paper": (955.4, "CPU")},
    "synthesizer.soft-imperative": {"small": (76.1, "CPU"), "paper": (3254.7, "GPU")},
    "synthesizer.soft-instruction": {"small": (126.0, "CPU"), "paper": (912.1, "GPU")},
    "synthesizer.sweep": {"paper": (2403.7, "GPU")},
}


def about(name: str) -> str:
    """One sentence about an experiment: the first of its module's docstring."""
    found = _named(name)
    title = getattr(found, "title", None)
    module = sys.modules[EXPERIMENTS[name].partition(":")[0]]
    said = " ".join((module.__doc__ or "").split("\n\n")[0].split())
    return f"{title}: {said}" if title and title.lower() not in said.lower() else said
