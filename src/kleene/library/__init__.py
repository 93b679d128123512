"""Ready programs and machines. Those with parameters are functions that make a program."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kleene.library.addition import addition, addition_scratchpad
from kleene.library.calculator import calculator_decoder
from kleene.library.classics import dyck1, dyck2, histogram, most_frequent, reverse, sort, sort_unique
from kleene.library.computer import computer
from kleene.library.decoders import (
    addition_decoder,
    copy_decoder,
    dyck_decoder,
    long_addition_decoder,
    multiplication_decoder,
    parity_decoder,
    regex_decoder,
    reverse_decoder,
    sort_decoder,
    turing_decoder,
)
from kleene.library.parity import parity_absolute, parity_count, parity_relative, parity_scratchpad, parity_sum
from kleene.library.riscv import riscv
from kleene.library.scan import scan
from kleene.library.scan_decoder import scan_decoder
from kleene.library.subleq import subleq, subleq_words

if TYPE_CHECKING:
    from kleene.library import tomita as tomita
    from kleene.library import turing_machines as turing_machines
    from kleene.networks.rnn import majority as majority

__all__ = [
    "addition",
    "addition_decoder",
    "addition_scratchpad",
    "calculator_decoder",
    "computer",
    "copy_decoder",
    "dyck1",
    "dyck2",
    "dyck_decoder",
    "histogram",
    "long_addition_decoder",
    "majority",
    "most_frequent",
    "multiplication_decoder",
    "parity_absolute",
    "parity_count",
    "parity_decoder",
    "parity_relative",
    "parity_scratchpad",
    "parity_sum",
    "regex_decoder",
    "reverse",
    "reverse_decoder",
    "riscv",
    "scan",
    "scan_decoder",
    "sort",
    "sort_decoder",
    "sort_unique",
    "subleq",
    "subleq_words",
    "tomita",
    "turing_decoder",
    "turing_machines",
]

# modules of other machines and of a network, imported when first used
_MODULES = {
    "majority": "kleene.networks.rnn.majority",
    "tomita": "kleene.library.tomita",
    "turing_machines": "kleene.library.turing_machines",
}


if not TYPE_CHECKING:  # so that checkers reject a name that is not above

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        raise AttributeError(f"module 'kleene.library' has no attribute {name!r}")
