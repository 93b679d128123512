"""Four-layer ReLU networks that have memorised instruction tables: one network for each operand.

The input is [j, i]: the numbers of the instruction and of the program. Each network computes the logits of one
operand. The Synthesizer splits the concatenated logits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from kleene.errors import FileError, InputError
from kleene.files import MAX_ENTRIES, read_json, written_atomically
from kleene.networks.formats import check_format

VERSION = 1
DTYPES = {"float32": torch.float32, "float64": torch.float64}
MAX_PARAMETERS = 500_000_000
CHUNK, CHUNK_VALUES = 1 << 14, 1 << 24  # the largest batch, and the most activations of one layer


class Memoriser(nn.Module):
    """An instruction table as weights.

    widths: the layer sizes of each operand's network.
    method: how the weights were found.
    names, lengths: the programs, and how many instructions each has.
    fields: the names of the operands.
    dtype: "float32" or "float64".
    """

    def __init__(
        self,
        widths: Sequence[Sequence[int]],
        *,
        method: str,
        names: Sequence[str],
        lengths: Sequence[int],
        fields: Sequence[str],
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        self.method, self.names, self.lengths = method, tuple(names), tuple(lengths)
        self.fields, self.dtype = tuple(fields), dtype
        self.networks = nn.ModuleList(_stack(sizes, DTYPES[dtype]) for sizes in widths)
        self.table: Tensor | None
        self.register_buffer("table", None)  # (instructions, operands): what it is to know, as data for certificates

    @property
    def programs(self) -> int:
        """How many programs the network has memorised."""
        return len(self.names)

    @property
    def operand_sizes(self) -> tuple[int, ...]:
        """The number of classes of each operand."""
        return tuple(network[-1].out_features for network in self.networks)  # type: ignore[index]

    def forward(self, inputs: Tensor) -> Tensor:  # (batch, 2) → (batch, sum of sizes)
        """The concatenated logits of all operands at inputs [j, i]."""
        inputs = inputs.to(DTYPES[self.dtype])
        return torch.cat([network(inputs) for network in self.networks], dim=-1)

    @torch.no_grad()
    def operands(self, program: np.ndarray, instruction: np.ndarray) -> np.ndarray:
        """The operands of many instructions: (entries, operands)."""
        found = []
        check_format("memoriser", next(self.parameters()), DTYPES[self.dtype])
        chunk = rows_at_once([size for network in self.networks for size in _widths(network)])
        for begin in range(0, len(program), chunk):
            some = slice(begin, begin + chunk)
            inputs = torch.as_tensor(np.stack([instruction[some], program[some]], axis=-1), dtype=DTYPES[self.dtype])
            device = next(self.parameters()).device
            logits = torch.split(self(inputs.to(device)), list(self.operand_sizes), dim=-1)
            found.append(choices(logits).cpu().numpy())
        operands = np.concatenate(found)
        if (operands < 0).any():
            at = int(np.argwhere(operands < 0)[0][0])
            raise InputError(
                f"memoriser: at instruction {instruction[at]} of program {program[at]} its logits are not numbers (NaN)"
            )
        return operands

    def lookup(self, program: int | str, instruction: int) -> tuple[int, ...]:
        """One instruction of one program, from the weights."""
        if isinstance(program, str):
            if program not in self.names:
                raise InputError(f"lookup: no program is called {program!r}; there are {', '.join(self.names[:20])}")
            program = self.names.index(program)
        if not 0 <= program < len(self.names):
            raise InputError(f"lookup: program {program} is outside 0 … {len(self.names) - 1}")
        if not 0 <= instruction < self.lengths[program]:
            last = self.lengths[program] - 1
            raise InputError(f"lookup: instruction {instruction} of program {program} is outside 0 … {last}")
        return tuple(self.operands(np.array([program]), np.array([instruction]))[0].tolist())

    @property
    def sizes(self) -> dict[str, int]:
        """The parameters of each operand's network and in total, and Theorem 1's counts for its three networks.

        `theorem` uses the hidden sizes as stated (h3 = k, whose k² the theorem's bound omits).
        `theorem_corrected` uses h3 = 4k, which the cited construction needs.
        """
        found = {
            field: sum(p.numel() for p in network.parameters()) for field, network in zip(self.fields, self.networks)
        }
        found["parameters"] = sum(found.values())
        found["nonzero"] = sum(int(torch.count_nonzero(p)) for p in self.parameters())
        many, longest = len(self.names), max(self.lengths)
        for name, factor in (("theorem", 1), ("theorem_corrected", 4)):
            found[name] = sum(
                parameters([2, 2 * (longest if last else many), 2 * (many if last else longest), factor * z, z])
                for z, last in zip(self.operand_sizes, [False] * (len(self.fields) - 1) + [True])
            )
        return found

    def __str__(self) -> str:
        sizes = self.sizes
        each = ", ".join(f"{field} {sizes[field]:,}" for field in self.fields)
        return (
            f"memoriser ({self.method}, {self.dtype}) of {len(self.names):,} programs, {sum(self.lengths):,} "
            f"instructions: {sizes['parameters']:,} parameters ({each}); Theorem 1's networks as stated "
            f"{sizes['theorem']:,}, corrected {sizes['theorem_corrected']:,}"
        )

    __repr__ = __str__

    def save(self, folder: str | Path) -> None:
        """Write weights.safetensors and kleene.json, atomically."""
        content = {
            "kind": "memoriser",
            "version": VERSION,
            "method": self.method,
            "dtype": self.dtype,
            "widths": [_widths(network) for network in self.networks],
            "names": self.names,
            "lengths": self.lengths,
            "fields": self.fields,
        }
        with written_atomically(folder) as beside:
            beside.mkdir()
            save_file({k: v.contiguous() for k, v in self.state_dict().items()}, beside / "weights.safetensors")
            (beside / "kleene.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _stack(sizes: Sequence[int], dtype: torch.dtype) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inside, outside in pairwise(sizes):
        layers += [nn.ReLU()] if layers else []
        layers.append(nn.Linear(inside, outside, dtype=dtype))
    return nn.Sequential(*layers)


def choices(logits: Sequence[Tensor]) -> Tensor:
    """The class of the largest logit of each operand: (batch, operands); −1 where a logit is NaN."""
    largest = [part.max(dim=-1) for part in logits]  # NaN if one is NaN
    return torch.stack([found.indices.masked_fill(found.values.isnan(), -1) for found in largest], dim=-1)


def rows_at_once(widths: Sequence[int]) -> int:
    """The batch size for a network of these layer sizes.

    >>> rows_at_once([2, 100, 256]), rows_at_once([2, 100, 1_000_000])
    (16384, 16)
    """
    return max(1, min(CHUNK, CHUNK_VALUES // max(widths)))


def _widths(network: Any) -> list[int]:
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    return [linear[0].in_features, *(layer.out_features for layer in linear)]


def parameters(sizes: Sequence[int]) -> int:
    """Weights and biases of a dense network with these layer sizes."""
    return sum((inside + 1) * outside for inside, outside in pairwise(sizes))


def load(folder: Path) -> Memoriser:
    """Read a memoriser; check sizes before taking memory."""
    described = _described(folder / "kleene.json")
    net = Memoriser(described.pop("widths"), **described)
    path = folder / "weights.safetensors"
    try:
        tensors = load_file(path)
        if (table := tensors.get("table")) is not None:  # networks that were saved without one have none
            if table.dtype != torch.int32 or table.shape != (sum(net.lengths), len(net.fields)):
                raise FileError(f"{path}: 'table' is not one of whole numbers for each instruction")
            net.table = torch.zeros_like(table)
        net.load_state_dict(tensors)
    except (RuntimeError, OSError, SafetensorError) as error:
        raise FileError(f"{path}: does not fit ({str(error).splitlines()[0]})") from None
    return net


def _described(path: Path) -> dict[str, Any]:
    """The arguments of the memoriser that a file describes; their sizes fit together and are not too large."""
    content = read_json(path)
    try:
        widths = [[int(size) for size in sizes] for sizes in content["widths"]]
        names, lengths = [str(name) for name in content["names"]], [int(length) for length in content["lengths"]]
        fields = [str(field) for field in content["fields"]]
        good = content["version"] == VERSION and content["dtype"] in DTYPES and len(names) == len(lengths) > 0
        good = good and len(widths) == len(fields) > 0 and all(len(sizes) > 1 and min(sizes) > 0 for sizes in widths)
        if not good or min(lengths) < 1 or any(sizes[0] != 2 for sizes in widths):
            raise ValueError("sizes that do not fit together")
        if len({*names}) < len(names) or len({*fields}) < len(fields):
            raise ValueError("two programs or operands of one name")
        method, dtype = str(content["method"]), content["dtype"]
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not a description of a memoriser ({error!r})") from None
    _check_sizes(path, lengths, widths)
    described = {"widths": widths, "names": names, "lengths": lengths, "fields": fields}
    return described | {"method": method, "dtype": dtype}


def _check_sizes(path: Path, lengths: list[int], widths: list[list[int]]) -> None:
    """Reject sizes that would take too much memory."""
    if len(lengths) * max(lengths) > MAX_ENTRIES:
        raise FileError(f"{path}: lengths of more than {MAX_ENTRIES:,} instructions, the most in a table")
    total = sum(map(parameters, widths))
    if total > MAX_PARAMETERS:
        raise FileError(f"{path}: {total:,} parameters, more than the {MAX_PARAMETERS:,} that Kleene loads")
