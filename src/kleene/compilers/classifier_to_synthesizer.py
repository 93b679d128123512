"""Theorem 2: any classifier as a family of one-instruction programs."""

from __future__ import annotations

from torch import nn

from kleene.machines.subleq import Executor
from kleene.networks.synthesizer.descriptions import by_itself
from kleene.networks.synthesizer.synthesizer import Describe, SoftInstruction, Synthesizer


def soft_instruction(
    classifier: nn.Module,
    classes: int,
    *,
    addresses: int | None = None,
    instructions: int = 2,
    describe: Describe = by_itself,
    learned: bool = False,
) -> Synthesizer:
    """Make a Synthesizer whose run writes the classifier's answer into memory, at the address `classes`.

    The instruction is `subleq(&−class, &output, 0)`. The run halts on the operand C = 0, as Algorithm 1 is written: a
    class above 0 leaves the result above 0, so the branch itself is not taken.

    - `classes`: how many classes the classifier has.
    - `addresses`: how many addresses there are; by default one for each class and one for the output.
    - `instructions`: how many instructions the Synthesizer can number.
    - `describe`: how an input becomes the classifier's input; by default unchanged.
    - `learned`: start with B and C unknown, so that training must find them with A, as in Theorem 2.

    >>> import torch
    >>> machine = soft_instruction(nn.Identity(), classes=3)
    >>> machine.run(torch.tensor([0.1, 0.2, 0.9]), soft_memory(3)).memory[3]
    2
    """
    k = classes + 1 if addresses is None else addresses
    sizes = (k, k, instructions)
    return Synthesizer(SoftInstruction(classifier, classes, sizes, learned), sizes, Executor(literal=True), describe)


def soft_memory(classes: int, addresses: int | None = None) -> list[int]:
    """The data memory of a soft instruction: −c at address c, and 0 for the output after them."""
    k = classes + 1 if addresses is None else addresses
    return [*(-c for c in range(classes)), *[0] * (k - classes)]
