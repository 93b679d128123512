"""Turing machines to try: Sipser's, and the busy beavers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kleene.machines.turing import TuringMachine

# Example 4.10 (Sipser's M₂ with 1 for 0): 1^(2^m), m ≥ 0; q5 accepts, q6 rejects
POWERS_OF_TWO = TuringMachine(
    {
        "q0": {" ": ("q6", " ", 1), "1": ("q1", " ", 1), "x": ("q6", "x", 1)},
        "q1": {" ": ("q5", " ", 1), "1": ("q2", "x", 1), "x": ("q1", "x", 1)},
        "q2": {" ": ("q4", " ", -1), "1": ("q3", "1", 1), "x": ("q2", "x", 1)},
        "q3": {" ": ("q6", " ", 1), "1": ("q2", "x", 1), "x": ("q3", "x", 1)},
        "q4": {" ": ("q1", " ", 1), "1": ("q4", "1", -1), "x": ("q4", "x", -1)},
    },
    start="q0",
    accept=frozenset({"q5"}),
    reject=frozenset({"q6"}),
    blank=" ",
    input_alphabet=("1",),
    two_way=False,
    name="powers of two",
)

# The champions with 2 to 5 states: (text, steps, ones)
BUSY_BEAVERS = {
    2: ("1RB1LB_1LA1RZ", 6, 4),
    3: ("1RB1RZ_1LB0RC_1LC1LA", 21, 5),
    4: ("1RB1LB_1LA0LC_1RZ1LD_1RD0RA", 107, 13),
    5: ("1RB1LC_1RC1RB_1RD0LE_1LA1LD_1RZ0LA", 47_176_870, 4098),
}


def powers_of_two() -> TuringMachine:
    """Decide whether the number of ones is a power of two."""
    return POWERS_OF_TWO


def busy_beaver(states: int) -> TuringMachine:
    """The busy beaver champion with 2, 3, 4 or 5 states and two symbols.

    >>> busy_beaver(4).run().steps
    107
    """
    return TuringMachine.parse(BUSY_BEAVERS[states][0])


MACHINES: dict[str, Callable[[], TuringMachine]] = {  # by the names of the command line
    "powers_of_two": powers_of_two,
    **{f"busy_beaver_{states}": partial(busy_beaver, states) for states in BUSY_BEAVERS},
}
