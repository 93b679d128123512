"""Words over a finite alphabet as integer codes. A word is a string of one-character symbols, or any
sequence of symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from kleene.errors import InputError

Word = Sequence[str]


def check_alphabet(alphabet: Iterable[str]) -> tuple[str, ...]:
    """Return the symbols as a tuple; reject an empty alphabet, empty symbols and repetitions."""
    try:
        symbols = tuple(alphabet)
    except TypeError:
        raise InputError(f"alphabet: {alphabet!r} is not an alphabet; give its symbols, as in alphabet='01'") from None
    if not symbols:
        raise InputError("alphabet: it has no symbols; give at least one, as in alphabet='01'")
    for symbol in symbols:
        if not isinstance(symbol, str) or symbol == "":
            raise InputError(f"alphabet: {symbol!r} is not a symbol; a symbol is a non-empty string")
    if len(set(symbols)) != len(symbols):
        twice = next(s for s in symbols if symbols.count(s) > 1)
        raise InputError(f"alphabet: {twice!r} appears twice; each symbol once")
    return symbols


def show_word(word: Word) -> str:
    """A word as text: `""` when empty; spaces separate symbols of several characters."""
    parts = list(word)
    text = ("" if all(len(p) == 1 for p in parts) else " ").join(parts)
    return text if text else '""'


def encode(word: Word, index: dict[str, int]) -> list[int]:
    """The codes of a word's symbols."""
    try:
        return [index[symbol] for symbol in word]
    except TypeError:
        raise InputError(f"word {word!r:.60}: a word is a string, or a list of symbols") from None
    except KeyError:
        place, bad = next((i, s) for i, s in enumerate(word) if s not in index)
        shown = show_word(word) if all(isinstance(s, str) for s in word) else word
        raise InputError(
            f"word {shown!r}: {bad!r} at position {place} is not in the alphabet {{{', '.join(index)}}}"
        ) from None


def encode_batch(words: Sequence[Word], alphabet: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate the codes of all words (int32); the offsets (int64) say where each word begins and the last ends.

    >>> codes, offsets = encode_batch(["ab", "", "b"], ("a", "b"))
    >>> codes.tolist(), offsets.tolist()
    ([0, 1, 1], [0, 2, 2, 3])
    """
    if isinstance(words, str):
        raise InputError(f"words {words!r:.60}: one word, or several run together; give a list of words")
    try:
        lengths = [len(word) for word in words]
    except TypeError:
        raise InputError(f"words {words!r:.60}: a list of words is needed; a word is a string, or symbols") from None
    offsets = np.zeros(len(words) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    text = "".join(words) if all(isinstance(word, str) for word in words) else None  # type: ignore[arg-type]
    if text is not None and text.isascii() and len(alphabet) < 128 and all(len(s) == 1 for s in alphabet):
        code_of = bytearray(b"\xff" * 256)
        for i, symbol in enumerate(alphabet):
            if symbol.isascii():
                code_of[ord(symbol)] = i
        codes = np.frombuffer(text.encode("ascii").translate(code_of), dtype=np.uint8)
        if not codes.size or int(codes.max()) < 255:
            return codes.astype(np.int32), offsets
    index = {s: i for i, s in enumerate(alphabet)}
    every = [code for word in words for code in encode(word, index)]
    return np.array(every, dtype=np.int32), offsets


def all_words(alphabet: Sequence[str], longest: int) -> Iterator[Word]:
    """Yield every word up to a length, shortest first.

    >>> list(all_words("ab", 2))
    ['', 'a', 'b', 'aa', 'ab', 'ba', 'bb']
    """
    return words_of(alphabet, range(longest + 1))


def words_of(alphabet: Sequence[str], lengths: Iterable[int]) -> Iterator[Word]:
    """Yield every word of these lengths, as text where symbols are single characters.

    >>> list(words_of(["ab", "c"], [1]))
    [('ab',), ('c',)]
    """
    single = all(len(symbol) == 1 for symbol in alphabet)
    for length in lengths:
        for symbols in product(alphabet, repeat=length):
            yield "".join(symbols) if single else symbols
