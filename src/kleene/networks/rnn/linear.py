"""Linear RNNs: h⁽ᵗ⁾ = A(x⁽ᵗ⁾) h⁽ᵗ⁻¹⁾ + b(x⁽ᵗ⁾), with matrices that depend on the input, and a parallel scan.

A layer reads the symbol and the earlier states of the layers below. One ReLU layer, `rules`, makes units of these; A
and b are linear in the units (with one layer, each symbol is a unit). A has one of three forms:

- "diagonal": 1 + gate · units, a number per dimension, as in Mamba.
- "products": (I − l_m r_mᵀ) … (I − l_1 r_1ᵀ) with l and r linear in the units. With l = r this is DeltaNet's (one
  factor) and DeltaProduct's product of Householder matrices; with l ≠ r it is RWKV-7's step.
- "dense": any matrix, the sum of the units' matrices; the linear RNN of a weighted automaton.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from kleene.common.alphabet import Word, check_alphabet, encode_batch
from kleene.errors import FileError, InputError
from kleene.files import MAX_PARAMETERS, check_version, read_json, write_json, written_atomically
from kleene.networks.formats import check_format
from kleene.networks.rnn.packing import Packed
from kleene.networks.rnn.scanning import Step, after, before
from kleene.networks.weight_files import with_saved_weights

VERSION = 1
FORMS = ("diagonal", "products", "dense")
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class LayerShape:
    """The sizes of a layer: its state, the units of its rules, and its factors if A is a product."""

    form: str
    size: int
    units: int
    factors: int = 0


class LinearLayer(nn.Module):
    """One layer. `features` is the number of inputs of its rules: the symbols, then the states of the layers below."""

    def __init__(self, shape: LayerShape, features: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape, self.features = shape, features
        for name, sizes in layer_shapes(shape, features).items():
            self.register_parameter(name, nn.Parameter(torch.zeros(sizes, dtype=dtype)))

    start: Tensor
    rules: Tensor
    rules_bias: Tensor
    write: Tensor
    gate: Tensor
    matrix: Tensor
    left: Tensor
    right: Tensor

    def units(self, features: Tensor) -> Tensor:
        """(…, features) → (…, units)."""
        return torch.relu(features @ self.rules.T + self.rules_bias)

    def transition(self, units: Tensor) -> Step:
        """A and b of each row of units: (n, units) → (n, d) or (n, d, d), and (n, d)."""
        b = units @ self.write.T
        if self.shape.form == "diagonal":
            return 1 + units @ self.gate.T, b
        if self.shape.form == "dense":
            return torch.einsum("nu,uij->nij", units, self.matrix), b
        left, right = self._factors(units)
        a = torch.eye(self.shape.size, dtype=b.dtype, device=b.device).expand(len(units), -1, -1)
        for k in range(self.shape.factors):
            a = a - left[:, k, :, None] * (right[:, k, None, :] @ a)
        return a, b

    def _factors(self, units: Tensor) -> tuple[Tensor, Tensor]:
        return torch.einsum("nu,ukd->nkd", units, self.left), torch.einsum("nu,ukd->nkd", units, self.right)

    def step(self, units: Tensor, h: Tensor) -> Tensor:
        """The next state, without making the matrix of a product: (n, units), (n, d) → (n, d)."""
        if self.shape.form != "products":
            a, b = self.transition(units)
            return a * h + b if self.shape.form == "diagonal" else torch.einsum("nij,nj->ni", a, h) + b
        left, right = self._factors(units)
        for k in range(self.shape.factors):
            h = h - left[:, k] * (right[:, k] * h).sum(dim=-1, keepdim=True)
        return h + units @ self.write.T


class LinearRNN(nn.Module):
    """Layers, and a read-out of their last states: linear, or with one ReLU layer. A positive output means accept.

    `weight(word)` is the output itself: the weight, for a weighted automaton.
    """

    kind = "linear"

    def __init__(
        self,
        alphabet: Sequence[str],
        layers: Sequence[LayerShape],
        read_units: int = 0,
        dtype: str = "float32",
        about: dict[str, Any] | None = None,
    ) -> None:
        """Make the modules, with all weights zero.

        alphabet: the symbols.
        layers: the shapes of the layers, lowest first.
        read_units: ReLU units of the read-out; 0 for a linear read-out.
        dtype: the number format.
        about: plain data to save with the network.
        """
        super().__init__()
        self.alphabet, self.dtype = check_alphabet(alphabet), dtype
        if dtype not in DTYPES or not layers or any(shape.form not in FORMS for shape in layers):
            raise InputError(f"linear RNN: needs layers of forms {', '.join(FORMS)} and a format {', '.join(DTYPES)}")
        self.about = {} if about is None else about
        features, made = len(self.alphabet), []
        for shape in layers:
            made.append(LinearLayer(shape, features, DTYPES[dtype]))
            features += shape.size
        self.layers = nn.ModuleList(made)
        total, self.read_units = features - len(self.alphabet), read_units
        self.read = nn.Linear(total, read_units, dtype=DTYPES[dtype]) if read_units else None
        self.out = nn.Linear(read_units or total, 1, dtype=DTYPES[dtype])
        with torch.no_grad():
            for parameter in [*self.out.parameters(), *(self.read.parameters() if self.read is not None else [])]:
                parameter.zero_()

    @property
    def shapes(self) -> list[LayerShape]:
        """The shapes of the layers."""
        return [layer.shape for layer in self.stack]

    @property
    def stack(self) -> list[LinearLayer]:
        """The layers, lowest first."""
        return [layer for layer in self.layers if isinstance(layer, LinearLayer)]

    @property
    def sizes(self) -> dict[str, int]:
        """Layers, dimensions of the state, factors, parameters and non-zero parameters."""
        return {
            "layers": len(self.shapes),
            "state": sum(shape.size for shape in self.shapes),
            "factors": max(shape.factors for shape in self.shapes),
            "units": sum(shape.units for shape in self.shapes) + self.read_units,
            "parameters": sum(p.numel() for p in self.parameters()),
            "nonzero": sum(int((p != 0).sum()) for p in self.parameters()),
        }

    def extra_repr(self) -> str:
        shown = ", ".join(f"{shape.form} {shape.size}" for shape in self.shapes)
        return f"{shown}; alphabet {{{', '.join(self.alphabet[:8])}}}, {self.dtype}"

    def output(self, states: Tensor) -> Tensor:
        """(…, all states) → (…,)."""
        found: Tensor = self.out(states if self.read is None else torch.relu(self.read(states)))[..., 0]
        return found

    def one_hot(self, codes: Tensor) -> Tensor:
        """(…,) codes → (…, symbols)."""
        weight = self.out.weight
        return torch.eye(len(self.alphabet), dtype=weight.dtype, device=weight.device)[codes]

    def forward(self, codes: Tensor) -> Tensor:
        """The output after the last symbol, by parallel scans: (batch, time) codes → (batch,)."""
        return torch.stack([self.output(self.scanned(row)) for row in codes])

    def scanned(self, codes: Tensor) -> Tensor:
        """All layers' states after a word, each layer by one parallel scan over the time."""
        symbols = self.one_hot(torch.arange(len(self.alphabet), device=codes.device))
        below: list[Tensor] = []  # (time, d): the states of the layers below before each symbol
        ends: list[Tensor] = []
        for number, layer in enumerate(self.stack):
            if number == 0:
                a, b = layer.transition(layer.units(symbols))  # a step per symbol
                if len(self.stack) == 1:
                    return after(a, b, codes, layer.start) if len(codes) else layer.start
                a, b = a[codes], b[codes]
            else:
                a, b = layer.transition(layer.units(torch.cat([self.one_hot(codes), *below], dim=1)))
            held, end = before(a, b, layer.start)
            below.append(held)
            ends.append(end)
        return torch.cat(ends)

    def begin(self, rows: int) -> list[Tensor]:
        """The states before the first symbol, one tensor per layer: (rows, d)."""
        return [layer.start.expand(rows, -1).clone() for layer in self.stack]

    def after(self, states: list[Tensor], codes: Tensor) -> list[Tensor]:
        """The states after one more symbol in each row."""
        features, found = self.one_hot(codes), []
        for layer, h in zip(self.stack, states):
            found.append(layer.step(layer.units(features), h))
            features = torch.cat([features, h], dim=1)
        return found

    @torch.no_grad()
    def weights(self, words: Sequence[Word]) -> np.ndarray:
        """The output after each word; words of all lengths run side by side, symbol by symbol."""
        check_format("linear RNN", self.out.weight, DTYPES[self.dtype])
        codes, offsets = encode_batch(words, self.alphabet)
        packed, device = Packed(codes, offsets), self.out.weight.device
        states = self.begin(len(words))
        for t, count in enumerate(packed.counts.tolist()):
            read = torch.from_numpy(packed.at(t).astype(np.int64)).to(device)
            for h, new in zip(states, self.after([h[:count] for h in states], read)):
                h[:count] = new
        found = np.empty(len(words))
        if len(words):
            found[packed.order] = self.output(torch.cat(states, dim=1)).double().cpu().numpy()
        return found

    @torch.no_grad()
    def weight(self, word: Word) -> float:
        """The output after a word, by the parallel scan."""
        check_format("linear RNN", self.out.weight, DTYPES[self.dtype])
        codes, _ = encode_batch([word], self.alphabet)
        return float(self.output(self.scanned(torch.from_numpy(codes.astype(np.int64)).to(self.out.weight.device))))

    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether each word is accepted."""
        return np.asarray(self.weights(words) > 0)

    def accepts(self, word: Word) -> bool:
        """Whether the word is accepted, by the parallel scan."""
        return self.weight(word) > 0

    def save(self, folder: str | Path) -> None:
        """Write kleene.json and weights.safetensors, atomically."""
        content = {
            "kind": self.kind,
            "version": VERSION,
            "alphabet": list(self.alphabet),
            "layers": [asdict(shape) for shape in self.shapes],
            "read_units": self.read_units,
            "dtype": self.dtype,
            "about": self.about,
        }
        with written_atomically(folder) as made:
            made.mkdir()
            save_file({k: v.contiguous() for k, v in self.state_dict().items()}, made / "weights.safetensors")
            write_json(made / "kleene.json", content)


def layer_shapes(shape: LayerShape, features: int) -> dict[str, list[int]]:
    """The shape of every weight of a layer, by name."""
    made = {
        "start": [shape.size],
        "rules": [shape.units, features],
        "rules_bias": [shape.units],
        "write": [shape.size, shape.units],
    }
    if shape.form == "diagonal":
        return made | {"gate": [shape.size, shape.units]}
    if shape.form == "dense":
        return made | {"matrix": [shape.units, shape.size, shape.size]}
    factors = [shape.units, shape.factors, shape.size]
    return made | {"left": factors, "right": factors}


def all_shapes(symbols: int, layers: Sequence[LayerShape], read_units: int) -> dict[str, list[int]]:
    """The shape of every weight of a network, by name."""
    made: dict[str, list[int]] = {}
    features = symbols
    for number, shape in enumerate(layers):
        made |= {f"layers.{number}.{name}": sizes for name, sizes in layer_shapes(shape, features).items()}
        features += shape.size
    total = features - symbols
    if read_units:
        made |= {"read.weight": [read_units, total], "read.bias": [read_units]}
    return made | {"out.weight": [1, read_units or total], "out.bias": [1]}


def load(folder: Path) -> LinearRNN:
    """Read a network that `save` wrote; check sizes before taking memory."""
    path = folder / "kleene.json"
    content = read_json(path)
    check_version(path, content, VERSION)
    alphabet, dtype, about = content.get("alphabet"), content.get("dtype"), content.get("about")
    try:
        layers = [LayerShape(**entry) for entry in content["layers"]]
        read_units = content["read_units"]
        counts = [read_units, *(n for s in layers for n in (s.size - 1, s.units, s.factors))]
        if not all(type(n) is int and n >= 0 for n in counts) or not isinstance(about, dict) or dtype not in DTYPES:
            raise ValueError("sizes must be counts; a format and 'about' are needed")
        if not isinstance(alphabet, list) or not all(isinstance(s, str) for s in alphabet):
            raise ValueError("'alphabet' must be a list of symbols")
        wanted = all_shapes(len(alphabet), layers, read_units)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not a description of a linear RNN ({error})") from None
    total = sum(int(np.prod([float(n) for n in sizes])) for sizes in wanted.values())
    if total > MAX_PARAMETERS:
        raise FileError(f"{path}: {total:,} parameters, more than the {MAX_PARAMETERS:,} that Kleene loads")
    return with_saved_weights(folder, lambda: wanted, lambda: LinearRNN(alphabet, layers, read_units, dtype, about))
