"""Ways to describe a program to a network: by its index, its instructions, a special token, or a text.

Each is a function (description, instruction numbers) → the inputs of the network, one row for each number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kleene.errors import FileError, InputError

PAD = 0


def by_index(description: int, numbers: Sequence[int]) -> Tensor:
    """[j, i]: the instruction's number and the program's index (ℓ = 1).

    >>> by_index(7, [1, 2]).tolist()
    [[1.0, 7.0], [2.0, 7.0]]
    """
    try:
        return torch.tensor([[number, description] for number in numbers], dtype=torch.float64)
    except (TypeError, ValueError):
        raise InputError(f"description: {description!r} is not a program's index, a whole number") from None


class ByVector:
    """[j, all operands of the program]: the program itself, padded with zeros (ℓ = length).

    >>> ByVector(6)([(1, 2, 0)], [0]).tolist()
    [[0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0]]
    """

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, description: Sequence[Sequence[int]], numbers: Sequence[int]) -> Tensor:
        vector = [float(x) for row in description for x in row]
        if len(vector) > self.length:
            raise InputError(f"description: {len(vector)} operands; the vector has {self.length} places")
        vector += [0.0] * (self.length - len(vector))
        return torch.tensor([[number, *vector] for number in numbers], dtype=torch.float32)


class ByToken:
    """[CLS, the number's token, the program's token]; numbers have tokens from `first` on, programs after them.

    >>> ByToken(numbers=10, programs=3)(2, [4]).tolist()
    [[1, 6, 14]]
    """

    def __init__(self, numbers: int, programs: int, first: int = 2) -> None:
        self.numbers, self.programs, self.first = numbers, programs, first
        self.vocabulary = first + numbers + programs

    def __call__(self, description: int, numbers: Sequence[int]) -> Tensor:
        if not 0 <= description < self.programs or not all(0 <= number < self.numbers for number in numbers):
            raise InputError(f"description: program {description} or an instruction number has no token")
        program = self.first + self.numbers + description
        return torch.tensor([[1, self.first + number, program] for number in numbers])


class ByText:
    """[CLS] number text [SEP] as tokens; `encode` turns a text into tokens."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self.encode = encode

    def __call__(self, description: str, numbers: Sequence[int]) -> Tensor:
        return padded([self.encode(f"{number} {description}") for number in numbers])


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Pad token rows to one tensor with PAD."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def by_itself(description: Tensor, numbers: Sequence[int]) -> Tensor:
    """The description alone (an image, a signal, tokens), for programs of one instruction; the number is ignored."""
    return torch.stack([description] * len(numbers))


class Words:
    """A tokenizer of whole words; its vocabulary is the words of the given texts.

    >>> words = Words(["run sum", "1"])
    >>> words.encode("1 run sum"), len(words)
    ([1, 5, 3, 4, 2], 6)
    """

    def __init__(self, texts: Sequence[str]) -> None:
        found = [word for text in texts for word in text.lower().split()]
        self.index = {word: place for place, word in enumerate(dict.fromkeys(["[pad]", "[cls]", "[sep]", *found]))}

    def __len__(self) -> int:
        return len(self.index)

    def encode(self, text: str) -> list[int]:
        """[CLS] words [SEP]."""
        words = text.lower().split()
        unknown = [word for word in words if word not in self.index]
        if unknown:
            raise InputError(f"text {text!r}: the word {unknown[0]!r} is unknown")
        return [1, *(self.index[word] for word in words), 2]


def bert_tokenizer(vocabulary: Path, special: Sequence[str] = ()) -> Any:
    """BERT's word-piece tokenizer from its vocab.txt, with extra special tokens."""
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError:
        raise FileError("BERT's tokenizer needs the package tokenizers; pip install 'kleene[language]'") from None
    if not Path(vocabulary).is_file():
        raise FileError(f"{vocabulary}: no such file; it is the vocab.txt of bert-base-uncased")
    tokenizer = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    tokenizer.add_special_tokens(list(special))
    return tokenizer
