"""A compiled transformer with a learned MLP; embeddings, attention, halting and output stay compiled."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from kleene.common.output import Output, check_layers
from kleene.common.tokens import Tokens, list_of_inputs
from kleene.errors import FileError
from kleene.files import MAX_PARAMETERS, check_version, read_json, written_atomically
from kleene.networks.transformer.dense import pad
from kleene.networks.transformer.model import Config, Transformer

VERSION = 1


def mlp(size: int, depth: int, width: int) -> nn.Sequential:
    """A ReLU network from residual stream to residual stream, with `depth` hidden layers."""
    layers: list[nn.Module] = []
    for level in range(depth):
        layers += [nn.Linear(size if level == 0 else width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width if depth else size, size))


class LearnedTransformer(nn.Module):
    """The network `base` with `mlp` in place of its MLP block: `mlp` computes the whole residual stream after the
    layer.

    Its outputs approximate the codes of values, so the threshold for halting is one half. A run that does not halt in
    time is read after its last layer.
    """

    def __init__(self, base: Transformer, learned: nn.Sequential) -> None:
        super().__init__()
        self.base, self.mlp = base, learned
        self.size = int(learned[0].in_features)  # type: ignore[arg-type]
        # dimensions after these are scratch, which only the compiled MLP uses
        self.metrics: list[dict[str, Any]] = []

    @property
    def config(self) -> Config:
        return self.base.config

    @property
    def device(self) -> torch.device:
        return self.base.device

    @property
    def longest(self) -> int | None:
        """The longest input, in tokens; None: any length."""
        return self.base.longest

    def layer(self, number: int, x: Tensor, mask: Tensor) -> Tensor:
        """(batch, position, dim) after attention as compiled and the learned MLP."""
        block = self.base.block(number)
        keys, values = block.keys_values(x)
        x = block.attend(x, block.scores(x, keys, mask), values)
        return torch.cat([self.mlp(x[..., : self.size]), torch.zeros_like(x[..., self.size :])], dim=-1)

    @torch.no_grad()
    def run_batch(
        self, inputs: Iterable[Tokens], *, layers: int | None = None, max_layers: int | None = None
    ) -> list[Output]:
        """Run a batch of inputs.

        inputs: token sequences, or texts where the program has an alphabet.
        layers: run exactly this many layers; by default each sequence runs until it halts.
        max_layers: the most layers; by default twice the number of tokens, plus two.
        """
        base = self.base
        checked = [base.check_input(tokens) for tokens in list_of_inputs(inputs, base.config.name)]
        if not checked:
            return []
        check_layers(base.config.name, layers)
        tokens, mask = pad(checked, self.device)
        fixed = layers if layers is not None else None if base.config.halts else base.config.layers
        x, number = base.embed(tokens), 0
        rows, lengths = torch.arange(len(checked), device=self.device), mask.sum(dim=1)
        limits = torch.full_like(lengths, max_layers) if max_layers is not None else 2 * lengths + 2
        results: list[Output | None] = [None] * len(checked)
        while number != fixed and len(rows):
            x = self.layer(number, x, mask)
            number += 1
            if fixed is None:
                halted = ((x @ base.halt_weight + base.halt_bias > 0.5) | ~mask).all(dim=1)
                done = halted | (limits <= number)
                self._collect(results, rows[done], x[done], lengths[done], number)
                x, mask, rows, lengths, limits = (part[~done] for part in (x, mask, rows, lengths, limits))
        self._collect(results, rows, x, lengths, number)
        return [result for result in results if result is not None]

    def _collect(self, results: list[Output | None], rows: Tensor, x: Tensor, lengths: Tensor, number: int) -> None:
        for row, values, length in zip(rows.tolist(), self.base.read(x).tolist(), lengths.tolist()):
            results[row] = Output(values[:length], layers=number)

    def run(self, tokens: Tokens, *, layers: int | None = None, max_layers: int | None = None) -> Output:
        """Run one input; see `run_batch`."""
        return self.run_batch([tokens], layers=layers, max_layers=max_layers)[0]

    def save(self, folder: str | Path) -> None:
        """Write to a folder: the compiled network in compiled/, mlp.safetensors and kleene.json."""
        with written_atomically(folder) as made:
            made.mkdir()
            self.base.save(made / "compiled")
            weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.mlp.state_dict().items()}
            save_file(weights, made / "mlp.safetensors")
            linear = [part for part in self.mlp if isinstance(part, nn.Linear)]
            content = {
                "kind": "learned",
                "version": VERSION,
                "size": self.size,
                "depth": len(linear) - 1,
                "width": linear[0].out_features,
                "metrics": self.metrics,
            }
            (made / "kleene.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def load(folder: Path) -> LearnedTransformer:
    """Read a saved network with a learned MLP (through kl.load)."""
    from kleene.networks.transformer.files import load_transformer

    content = read_json(folder / "kleene.json")
    check_version(folder / "kleene.json", content, VERSION)
    try:
        size, depth, width = (int(content[key]) for key in ("size", "depth", "width"))
        if min(size, width) < 1 or not 0 <= depth <= 1000 or size * width + depth * width * width > MAX_PARAMETERS:
            raise ValueError(f"size {size}, depth {depth} and width {width} are out of range")
        base = load_transformer(folder / "compiled")
        made = LearnedTransformer(base, mlp(size, depth, width))
        made.mlp.load_state_dict(load_file(folder / "mlp.safetensors"))
        made.metrics = list(content["metrics"])
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, SafetensorError) as error:
        raise FileError(f"{folder}: not a saved network with a learned MLP ({str(error).splitlines()[0]})") from None
    return made.eval()
