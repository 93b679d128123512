"""The Synthesizer: any network that names an instruction, and an executor that performs it.

    Synthesizer(j, d) = execute(argmax(split(network(j, d))))

The network reads the number of an instruction and a description of the program, and computes logits for every
operand. The executor defines what an instruction does: SUBLEQ with external data memory, or another instruction set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kleene.common.execution import Instruction, InstructionExecutor, Performance, perform
from kleene.errors import InputError
from kleene.networks.synthesizer.descriptions import by_index
from kleene.networks.synthesizer.memoriser import choices

Describe = Callable[[Any, Sequence[int]], Tensor]
CHUNK = 4096


class Synthesizer(nn.Module):
    """A network that names instructions, and an executor that performs them.

    network: maps the inputs to the concatenated logits of all operands.
    sizes: the number of classes of each operand.
    executor: performs one instruction.
    describe: maps (description, numbers) to the network's inputs.

    >>> from kleene.networks.synthesizer.descriptions import by_index
    >>> import kleene as kl
    >>> image = kl.subleq.assemble("ADD x y\\n HALT\\n x: .data 2\\n y: .data 3", "paper")
    >>> net = kl.compile(kl.InstructionTable.of_images({"add": image}))
    >>> machine = Synthesizer(net, net.operand_sizes, kl.subleq.Executor(), by_index)
    >>> machine.run(0, image.words).memory[image.address("y")]
    5
    """

    def __init__(
        self, network: nn.Module, sizes: Sequence[int], executor: InstructionExecutor, describe: Describe
    ) -> None:
        super().__init__()
        self.network, self.executor, self.describe = network, executor, describe
        self.sizes = tuple(int(size) for size in sizes)

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """The logits of each operand."""
        logits = self.network(self._as_the_network_reads(inputs))
        logits = getattr(logits, "logits", logits)  # models of the transformers library give an object
        if logits.shape[-1] != sum(self.sizes):
            raise InputError(
                f"Synthesizer: the network has {logits.shape[-1]} outputs; operands of {self.sizes} classes need "
                f"{sum(self.sizes)}"
            )
        return torch.split(logits, list(self.sizes), dim=-1)

    def _as_the_network_reads(self, inputs: Tensor) -> Tensor:
        """Numbers in the network's own type, which an `nn.Linear` needs. Tokens for embeddings stay whole."""
        weights = next((p for p in self.network.parameters() if p.is_floating_point()), None)
        if weights is None or any(isinstance(part, nn.Embedding) for part in self.network.modules()):
            return inputs
        return inputs.to(weights.dtype)

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """The sum of the operands' cross-entropies; labels are (batch, operands)."""
        parts = [nn.functional.cross_entropy(part, labels[:, k]) for k, part in enumerate(self(inputs))]
        return torch.stack(parts).sum()

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """The class of the largest logit of each operand: (batch, operands); −1 where a logit is NaN."""
        device = next((p.device for p in self.parameters()), inputs.device)
        found = []
        for some in torch.split(inputs, CHUNK):
            found.append(choices(self(some.to(device))))
        return torch.cat(found)

    def instructions(self, description: Any, numbers: Sequence[int]) -> list[Instruction]:
        """The instructions of these numbers, as the network names them."""
        self._check(description)
        training = self.training
        self.eval()
        try:
            found = self.predict(self.describe(description, numbers))
        finally:
            self.train(training)
        rows = [tuple(row) for row in found.cpu().tolist()]
        for number, row in zip(numbers, rows):
            if min(row) < 0:
                raise InputError(f"Synthesizer: at instruction {number} the network's logits are not numbers (NaN)")
        return rows

    def _check(self, description: Any) -> None:
        """Reject a program index outside the programs of the network, if their number is known."""
        programs = getattr(self.network, "programs", None)
        if self.describe is not by_index or programs is None:
            return
        if not isinstance(description, (int, np.integer)) or not 0 <= description < programs:
            last = programs - 1
            raise InputError(f"Synthesizer: no program {description!r}; the network knows {programs}, 0 … {last}")

    def operands(self, program: np.ndarray, instruction: np.ndarray) -> np.ndarray:
        """The operands of many instructions of programs that are described by index."""
        found = np.zeros((len(program), len(self.sizes)), dtype=np.int64)
        for index in np.unique(program):
            at = program == index
            found[at] = self.instructions(int(index), instruction[at].tolist())
        return found

    def run(
        self, description: Any, memory: Sequence[int] = (), *, input: Sequence[int] = (), max_steps: int = 100_000
    ) -> Performance:
        """Run a program on data until it halts; the network names each next instruction.

        The network runs once for each instruction number.

        description: the program.
        memory: the data at the start.
        input: the numbers that the program can read.
        max_steps: the most instructions before `DidNotHalt`.
        """
        known: dict[int, Instruction] = {}

        def fetch(number: int) -> Instruction:
            if number not in known:
                known[number] = self.instructions(description, [number])[0]
            return known[number]

        name = f"Synthesizer, {description!r}" if isinstance(description, (int, str)) else "Synthesizer"
        return perform(fetch, self.executor, memory, input=input, max_steps=max_steps, name=name)


class OneHot(nn.Module):
    """[j, i] as two one-hot vectors, then a feedforward network."""

    def __init__(self, numbers: int, programs: int, outputs: int, hidden: int = 256) -> None:
        super().__init__()
        self.numbers, self.programs = numbers, programs
        self.layers = nn.Sequential(
            nn.Linear(numbers + programs, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, outputs),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits."""
        number, program = inputs.long().unbind(dim=-1)
        hot = [nn.functional.one_hot(number, self.numbers), nn.functional.one_hot(program, self.programs)]
        logits: Tensor = self.layers(torch.cat(hot, dim=-1).float())
        return logits


class SoftInstruction(nn.Module):
    """A classifier as a network that names one instruction, `subleq(&−class, &output, 0)` (Theorem 2).

    Address c holds −c, and `output` is the address after those. The classifier's logits are those of operand A;
    addresses that hold no class get a logit below all others. The logits of B and C do not depend on the input. They
    are parameters: set to name `output` and 0, or, with `learned`, all equal until training finds them.
    """

    def __init__(self, classifier: nn.Module, classes: int, sizes: Sequence[int], learned: bool = False) -> None:
        super().__init__()
        k, k2, n = sizes
        if classes < 1 or min(k, k2) <= classes or n < 1:
            raise InputError(f"soft instruction: {classes} classes and an output need {classes + 1} addresses, not {k}")
        self.classifier, self.classes, self.addresses = classifier, classes, k
        constants = torch.zeros(k2 + n)
        if not learned:
            constants[classes] = 1.0  # B = &output
            constants[k2] = 1.0  # C = 0
        self.constants = nn.Parameter(constants)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of A, B and C."""
        logits = self.classifier(inputs)
        logits = getattr(logits, "logits", logits)
        if logits.shape[-1] != self.classes:
            raise InputError(f"soft instruction: the classifier has {logits.shape[-1]} outputs, not {self.classes}")
        nowhere = torch.finfo(logits.dtype).min
        others = logits.new_full((*logits.shape[:-1], self.addresses - self.classes), nowhere)
        constants = self.constants.to(logits.dtype).expand(*logits.shape[:-1], -1)
        return torch.cat([logits, others, constants], dim=-1)
