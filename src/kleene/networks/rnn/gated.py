"""LSTMs and GRUs that read words: a plain `torch.nn.LSTM` or `torch.nn.GRU` and a linear read-out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from kleene.common.alphabet import Word, check_alphabet, encode_batch
from kleene.errors import FileError, InputError
from kleene.files import MAX_PARAMETERS, check_version, read_json, write_json, written_atomically
from kleene.networks.formats import check_format
from kleene.networks.rnn.packing import Packed
from kleene.networks.weight_files import with_saved_weights

VERSION = 1
CELLS: dict[str, tuple[Any, int]] = {"lstm": (nn.LSTM, 4), "gru": (nn.GRU, 3)}
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}
SEGMENT = 4096  # symbols of each word in one call of the cell
CALL = 4_000_000  # about as many numbers as one call of the cell makes


class GatedRNN(nn.Module):
    """A recurrent cell that reads a start symbol and then a word, one-hot; a positive output means accept.

    `recurrent` is the torch module of the cell, `out` the linear read-out. Symbols are numbered as in `alphabet`; the
    start symbol is the number after them.
    """

    kind = "gated"

    def __init__(
        self,
        alphabet: Sequence[str],
        cell: Literal["lstm", "gru"],
        units: int,
        dtype: str = "float32",
        about: dict[str, Any] | None = None,
    ) -> None:
        """Make the modules, with all weights zero.

        alphabet: the symbols.
        cell: "lstm" or "gru".
        units: the hidden size.
        dtype: the number format.
        about: plain data to save with the network, such as the machine that it was compiled from.
        """
        super().__init__()
        self.alphabet, self.cell, self.units, self.dtype = check_alphabet(alphabet), cell, units, dtype
        if cell not in CELLS or dtype not in DTYPES:
            raise InputError(
                f"gated RNN: cell {cell!r} in {dtype!r}; cells are lstm and gru, formats {', '.join(DTYPES)}"
            )
        self.about = {} if about is None else about
        make, _ = CELLS[cell]
        self.recurrent: nn.LSTM | nn.GRU = make(len(self.alphabet) + 1, units, batch_first=True, dtype=DTYPES[dtype])
        self.out = nn.Linear(units, 1, dtype=DTYPES[dtype])
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()

    @property
    def sizes(self) -> dict[str, int]:
        """Units, parameters and non-zero parameters."""
        return {
            "units": self.units,
            "parameters": sum(p.numel() for p in self.parameters()),
            "nonzero": sum(int((p != 0).sum()) for p in self.parameters()),
        }

    def extra_repr(self) -> str:
        return f"{self.cell}, {self.units} units, alphabet {{{', '.join(self.alphabet[:8])}}}, {self.dtype}"

    def one_hot(self, codes: Tensor) -> Tensor:
        """The vectors that the cell reads: (…,) codes → (…, symbols + 1)."""
        weight = self.out.weight
        return torch.eye(len(self.alphabet) + 1, dtype=weight.dtype, device=weight.device)[codes]

    def forward(self, codes: Tensor) -> Tensor:
        """The output after each prefix, the empty one first: (batch, time) codes → (batch, time + 1)."""
        start = torch.full((len(codes), 1), len(self.alphabet), dtype=torch.long, device=codes.device)
        hidden, _ = self.recurrent(self.one_hot(torch.cat([start, codes.long()], dim=1)))
        logits: Tensor = self.out(hidden)[..., 0]
        return logits

    @torch.no_grad()
    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether each word is accepted; words of all lengths run in one packed batch."""
        check_format("gated RNN", self.out.weight, DTYPES[self.dtype])
        codes, offsets = encode_batch(words, self.alphabet)
        packed = Packed(codes, offsets)
        answers = np.empty(len(words), dtype=bool)
        for group in packed.groups(CALL // max(1, self.units)):
            answers[packed.order[group]] = (self.out(self._last(packed, group))[:, 0] > 0).cpu().numpy()
        return answers

    def _last(self, packed: Packed, group: slice) -> Tensor:
        """The hidden vectors after some words, longest first: (word, unit)."""
        device, count = self.out.weight.device, group.stop - group.start
        start = torch.full((count, 1), len(self.alphabet), dtype=torch.long, device=device)
        _, state = self.recurrent(self.one_hot(start))
        state = state if isinstance(state, tuple) else (state,)  # (1, word, unit) each
        longest = int(packed.lengths[group.start])
        for begin in range(0, longest, SEGMENT):
            times = range(begin, min(longest, begin + SEGMENT))
            counts = np.minimum(packed.counts[times], group.stop) - group.start
            codes = np.concatenate([packed.at(t)[group.start : group.stop] for t in times])
            data = self.one_hot(torch.from_numpy(codes.astype(np.int64)).to(device))
            pack = PackedSequence(data, torch.from_numpy(counts.astype(np.int64)))
            running = tuple(part[:, : counts[0]].contiguous() for part in state)
            _, after = self.recurrent(pack, running if self.cell == "lstm" else running[0])
            after = after if isinstance(after, tuple) else (after,)
            state = tuple(torch.cat([new, old[:, counts[0] :]], dim=1) for new, old in zip(after, state))
        last: Tensor = state[0][0]
        return last

    def accepts(self, word: Word) -> bool:
        """Whether the word is accepted."""
        return bool(self.accepts_batch([word])[0])

    def save(self, folder: str | Path) -> None:
        """Write kleene.json and weights.safetensors, atomically."""
        content = {
            "kind": self.kind,
            "version": VERSION,
            "cell": self.cell,
            "units": self.units,
            "alphabet": list(self.alphabet),
            "dtype": self.dtype,
            "about": self.about,
        }
        with written_atomically(folder) as made:
            made.mkdir()
            save_file({k: v.contiguous() for k, v in self.state_dict().items()}, made / "weights.safetensors")
            write_json(made / "kleene.json", content)


def shapes(symbols: int, units: int, gates: int) -> dict[str, list[int]]:
    """The shape of every weight, by name."""
    return {
        "recurrent.weight_ih_l0": [gates * units, symbols + 1],
        "recurrent.weight_hh_l0": [gates * units, units],
        "recurrent.bias_ih_l0": [gates * units],
        "recurrent.bias_hh_l0": [gates * units],
        "out.weight": [1, units],
        "out.bias": [1],
    }


def load(folder: Path) -> GatedRNN:
    """Read a network that `save` wrote; check sizes before taking memory."""
    path = folder / "kleene.json"
    content = read_json(path)
    check_version(path, content, VERSION)
    cell, units, alphabet, about = (content.get(key) for key in ("cell", "units", "alphabet", "about"))
    dtype = content.get("dtype")
    named = isinstance(cell, str) and cell in CELLS and isinstance(dtype, str) and dtype in DTYPES
    if not named or type(units) is not int or units < 1 or not isinstance(about, dict):
        raise FileError(f"{path}: needs a 'cell' ({', '.join(CELLS)}), 'units', a 'dtype' and 'about'")
    if not isinstance(alphabet, list) or not all(isinstance(s, str) for s in alphabet):
        raise FileError(f"{path}, 'alphabet': must be a list of symbols")
    gates = CELLS[cell][1]
    if gates * units * (units + len(alphabet) + 3) > MAX_PARAMETERS:
        raise FileError(f"{path}: {units:,} units need more than {MAX_PARAMETERS:,} parameters")
    return with_saved_weights(
        folder, lambda: shapes(len(alphabet), units, gates), lambda: GatedRNN(alphabet, cell, units, dtype, about)
    )
