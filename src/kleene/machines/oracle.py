"""Any language as one endless string (Theorem 4.12): ⟨L⟩ = w₀#w₁#…, its words in order of length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product

from kleene.common.alphabet import check_alphabet, show_word
from kleene.errors import DidNotHalt, InputError
from kleene.machines.multitape import MultiTapeMachine, rule

SEPARATOR, FINISHED = "#", "."


@dataclass(frozen=True)
class OracleLanguage:
    """A language given by a predicate on words, or by a function that gives its words in order of length.

    A predicate is tried on words of up to `longest` symbols, shortest first; `DidNotHalt` above that. An
    enumerator that ends makes the language finite.

    >>> squares = OracleLanguage("ab", predicate=lambda w: w[: len(w) // 2] * 2 == w)
    >>> stream = squares.stream()
    >>> "".join(next(stream) for _ in range(17))
    '#aa#bb#aaaa#abab#'
    """

    alphabet: Sequence[str]
    predicate: Callable[[str], bool] | None = None
    enumerator: Callable[[], Iterable[str]] | None = None
    longest: int = 24

    def __post_init__(self) -> None:
        alphabet = check_alphabet(self.alphabet)
        object.__setattr__(self, "alphabet", alphabet)
        if (self.predicate is None) == (self.enumerator is None):
            raise InputError("language: give either predicate= or enumerator=")
        for symbol in alphabet:
            if symbol in (SEPARATOR, FINISHED, " ") or len(symbol) != 1:
                raise InputError(
                    f"language: {symbol!r} cannot be a symbol; use single characters other than '#', '.', ' '"
                )

    def words(self) -> Iterator[str]:
        """The words of the language, in order of length."""
        if self.predicate is not None:
            for length in count():
                if length > self.longest:
                    raise DidNotHalt(
                        f"language: no further word of up to {self.longest} symbols, and the answer needs "
                        f"one; give an "
                        "enumerator that ends, or raise longest="
                    )
                for symbols in product(self.alphabet, repeat=length):
                    if self.predicate("".join(symbols)):
                        yield "".join(symbols)
        else:
            assert self.enumerator is not None
            before = ""
            for word in self.enumerator():
                if not isinstance(word, str) or any(s not in self.alphabet for s in word):
                    raise InputError(
                        f"language: the enumerator gave {word!r}; it should give words over {self.alphabet}"
                    )
                if len(word) < len(before):
                    raise InputError(
                        f"language: {show_word(word)} comes after {show_word(before)}; words must come in "
                        f"order of length"
                    )
                before = word
                yield word

    def stream(self) -> Iterator[str]:
        """⟨L⟩, symbol by symbol; after the last word of a finite language comes an end marker, without
        end."""
        for word in self.words():
            yield from word
            yield SEPARATOR
        while True:
            yield FINISHED


def comparing_machine(alphabet: Sequence[str], contents: tuple[str, ...] = ()) -> MultiTapeMachine:
    """The proof's machine: compare w with the word on the second tape, accept if equal, reject if w is
    shorter, else go on to the next word. At the end of what the second tape holds (a blank) it waits for
    ever."""
    blank = " "
    rules = [rule("compare", [a, a], "compare", [None, None], [1, 1]) for a in alphabet]  # 1
    rules += [
        rule("compare", [a, [b for b in alphabet if b != a]], "measure", [None, None], [1, 1])
        for a in alphabet
        if len(alphabet) > 1
    ]
    rules += [
        rule("compare", [blank, SEPARATOR], "accept", [None, None], [0, 0]),  # 2
        rule(["compare", "measure"], [blank, alphabet], "reject", [None, None], [0, 0]),  # 3
        rule("measure", [alphabet, alphabet], "measure", [None, None], [1, 1]),
        rule("compare", [alphabet, SEPARATOR], "back", [None, None], [-1, 1]),  # 4
        rule("measure", [None, SEPARATOR], "back", [None, None], [-1, 1]),
        rule("back", [alphabet, None], "back", [None, None], [-1, 0]),
        rule("back", [blank, None], "compare", [None, None], [1, 0]),
        rule(["compare", "measure"], [None, FINISHED], "reject", [None, None], [0, 0]),
        rule(["compare", "measure"], [None, blank], "wait", [None, None], [0, 0]),
        rule("wait", [None, None], "wait", [None, None], [0, 0]),
    ]
    return MultiTapeMachine(
        symbols=((blank, *alphabet), (blank, *alphabet, SEPARATOR, FINISHED)),
        input_alphabet=tuple(alphabet),
        rules=tuple(rules),
        start="compare",
        accept=frozenset({"accept"}),
        reject=frozenset({"reject"}),
        contents=contents,
        name="comparing machine",
    )
