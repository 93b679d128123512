"""Networks that write a symbol for each symbol that they read: a simple RNN or a linear one, read out at every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from kleene.common.alphabet import Word, encode
from kleene.common.output import Output
from kleene.common.text import Text, encode_text
from kleene.common.tokens import Tokens, check_tokens, list_of_inputs, read_tokens
from kleene.errors import FileError, InputError, NotSupported
from kleene.files import check_version, read_json, write_json, written_atomically
from kleene.networks.rnn import files as exact_files
from kleene.networks.rnn import linear
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.linear import LinearRNN

VERSION = 1
NO_MOVE = -1  # the cell's output where the machine has no move
MAX_OUTPUTS = 1_000_000


class SequenceRNN:
    """A recurrent network as a transducer: `cell` reads symbols, and its output is the number of a symbol to write.

    `write(word)` gives the symbols. A network that was compiled from an attention program also has `run(tokens)`, as
    the program has. Where the program raises, so does the network.
    """

    kind = "sequence"

    def __init__(self, cell: ExactRNN | LinearRNN, outputs: Sequence[str], about: dict[str, Any] | None = None) -> None:
        """Put the parts together.

        cell: the recurrent network; its output after a symbol is a number k, and outputs[k] is written.
        outputs: the symbols that can be written.
        about: plain data to save with the network: the machine, and what `run` needs from the program.
        """
        self.cell, self.outputs = cell, tuple(outputs)
        self.about: dict[str, Any] = {} if about is None else about

    @property
    def alphabet(self) -> tuple[str, ...]:
        """The symbols that it reads."""
        return self.cell.alphabet

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes of the cell."""
        return self.cell.sizes

    @property
    def name(self) -> str:
        """The name of the program, or a description of the network."""
        return str(self.about.get("program", {}).get("name", "sequence network"))

    def __repr__(self) -> str:
        return f"SequenceRNN({self.cell!r}, writes {{{', '.join(self.outputs[:8])}}})"

    def numbers(self, codes: Sequence[int]) -> Iterator[int]:
        """The cell's output after each symbol; `codes` may grow during the run."""
        cell = self.cell
        if isinstance(cell, ExactRNN):
            g = cell.s
            for code in codes:
                g = cell.step(g, code)
                yield int(cell.output(g)[0])
            return
        with torch.no_grad():
            states = cell.begin(1)
            for code in codes:
                states = cell.after(states, torch.tensor([code], device=cell.out.weight.device))
                yield round(float(cell.output(torch.cat(states, dim=1))[0]))

    def write(self, word: Word) -> list[str]:
        """The output, one symbol for each symbol of the word."""
        index = {symbol: code for code, symbol in enumerate(self.alphabet)}
        return [self.outputs[number] for number in self._checked(encode(word, index))]

    def _checked(self, codes: Sequence[int]) -> Iterator[int]:
        for place, number in enumerate(self.numbers(codes)):
            if number == NO_MOVE or not 0 <= number < len(self.outputs):
                symbol = self.alphabet[codes[place]]
                raise InputError(f"{self.name}: no move for {symbol!r} at position {place}")
            yield number

    # --- programs ---

    def tokens(self, given: Tokens) -> list[int]:
        """An input of the program, tokens or text, as tokens."""
        about = self.about.get("program")
        if not isinstance(about, dict):
            raise NotSupported(f"{self.name}: it was not compiled from a program; use write")
        text = None if about.get("text") is None else Text.from_json(about["text"])
        found = read_tokens(given, self.name, text, lambda one: encode_text(text, one, self.name))
        return check_tokens(found, self.name, len(self.alphabet), about.get("positions"))

    def run(self, tokens: Tokens) -> Output:
        """The output at each position, or the tokens that a decoder appends. `layers` counts the symbols read."""
        given = self.tokens(tokens)
        about = self.about["program"]
        text = None if about.get("text") is None else Text.from_json(about["text"])
        answer = None if text is None else text.decode
        most = about.get("max_tokens")
        if most is None:
            return Output([int(self.outputs[k]) for k in self._checked(given)], len(given), answer)
        sequence, made = list(given), list[int]()
        numbers = self._checked(sequence)  # follows the list as it grows
        for _ in given:
            number = next(numbers)
        while True:
            made.append(int(self.outputs[number]))
            if len(made) >= most or made[-1] == about.get("stop"):
                return Output(made, len(sequence), answer)
            sequence.append(made[-1])
            number = next(numbers)

    def run_batch(self, inputs: Iterable[Tokens]) -> list[Output]:
        """`run` on each input."""
        return [self.run(tokens) for tokens in list_of_inputs(inputs, self.name)]

    # --- files ---

    def save(self, folder: str | Path) -> None:
        """Write kleene.json, and the cell into the folder `cell`, atomically."""
        content = {"kind": self.kind, "version": VERSION, "outputs": list(self.outputs), "about": self.about}
        with written_atomically(folder) as made:
            made.mkdir()
            write_json(made / "kleene.json", content)
            self.cell.save(made / "cell")


def _check_program(path: Path, about: dict[str, Any]) -> None:
    """Raise a FileError where what `run` needs of a program is malformed."""
    program = about.get("program", {})
    if not isinstance(program, dict):
        raise FileError(f"{path}, 'program': must be an object")
    for name, least in (("positions", 1), ("max_tokens", 1), ("stop", 0)):
        number = program.get(name)
        if number is not None and (type(number) is not int or number < least):
            raise FileError(f"{path}, '{name}': {number!r:.40}; it must be a whole number of {least} or more, or null")
    try:
        if program.get("text") is not None:
            Text.from_json(program["text"])
    except InputError as error:
        raise FileError(f"{path}, 'text': {error}") from None


def load(folder: Path) -> SequenceRNN:
    """Read a network that `save` wrote."""
    path = folder / "kleene.json"
    content = read_json(path)
    check_version(path, content, VERSION)
    outputs, about = content.get("outputs"), content.get("about")
    if not isinstance(outputs, list) or len(outputs) > MAX_OUTPUTS or not all(isinstance(s, str) for s in outputs):
        raise FileError(f"{path}, 'outputs': must be a list of symbols")
    if not isinstance(about, dict):
        raise FileError(f"{path}, 'about': must be an object")
    _check_program(path, about)
    inner = read_json(folder / "cell" / "kleene.json")
    kind = inner.get("kind") if isinstance(inner, dict) else None
    if kind not in ("rnn", "linear"):
        raise FileError(f"{folder}/cell/kleene.json: kind {kind!r}; it must be 'rnn' or 'linear'")
    cell = exact_files.load(folder / "cell") if kind == "rnn" else linear.load(folder / "cell")
    return SequenceRNN(cell, outputs, about)
