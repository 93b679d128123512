"""Run SUBLEQ images on a transformer: the compiled `library.computer`, with a driver for keyboard and screen.

The weights of the network run every instruction. The driver acts as a device: it puts the next byte into the port
when the network is about to read it, and takes out the bytes that the network writes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from kleene.drivers.kept import KeptNetwork
from kleene.errors import InputError, RangeError
from kleene.library.computer import computer
from kleene.machines.subleq import DIALECTS, Dialect, Image, Machine, Port, RunResult, dialect_of, image_of
from kleene.networks.transformer.lane_builds import compiler
from kleene.networks.transformer.stops import EVALUATORS, HALTED, PAUSED, WATCHED, Watch

if TYPE_CHECKING:  # torch takes seconds to import; a run whose code is in the cache does without
    from kleene.networks.transformer.model import Transformer

FETCH, LOAD = 0, 1  # the layers of an instruction that look up words
MOST_KEYS = 26  # bits of words by which lookup keeps a table of rows
Rules = Literal["eforth", "alta"]  # of the computer itself
MAX_DENSE = 1 << 13  # words; a head of the dense evaluator scores every pair


@cache
def _kept(bits: int, dialect: Rules, input_adds: bool, checked: bool, layers: int, words: int) -> KeptNetwork:
    choices = [dialect, *["input-adds"] * input_adds, *["checked"] * checked]
    name = f"subleq-{bits}-{words}-{'-'.join(choices)}-{layers}"
    return KeptNetwork(name, lambda: computer(bits, dialect, input_adds, checked, layers, words))


def computer_network(
    bits: int = 16,
    dialect: Rules = "eforth",
    input_adds: bool = False,
    checked: bool = False,
    layers: int = 3,
    words: int | None = None,
) -> Transformer:
    """The computer as a transformer; compiled once, and kept in the cache folder."""
    return _kept(bits, dialect, input_adds, checked, layers, words or bits).net


def quickest() -> str:
    """The quickest evaluator here: lanes in C where a compiler is found, otherwise in Numba."""
    return "lanes" if compiler() else "lanes-numba"


class TransformerMachine(Port):
    """A SUBLEQ computer that is a transformer; use it like `kl.subleq.Machine`.

    >>> echo = TransformerMachine([-1, 9, 3, 9, -1, 6, 10, 10, 0, 0, 0], bits=8, evaluator="lookup")
    >>> echo.feed("ab"); result = echo.run(100)
    >>> result.output, result.why, result.steps
    ('ab', 'input', 6)
    """

    def __init__(
        self,
        image: Image | str | Sequence[int],
        dialect: str | Dialect = "eforth",
        *,
        bits: int = 16,
        input_adds: bool = False,
        evaluator: str | None = None,
        layers: int = 3,
        words: int | None = None,
    ) -> None:
        super().__init__()
        evaluator = evaluator or quickest()
        if evaluator not in EVALUATORS:
            raise InputError(f"subleq: unknown evaluator {evaluator!r}; a transformer has {', '.join(EVALUATORS)}")
        rules, wide = dialect_of(dialect), words or bits
        if wide != bits and rules.low is not None:
            raise InputError(
                f"subleq: words={words}; dialect {rules.name} has words of its own size; use esolang or paper"
            )
        if wide > MOST_KEYS and evaluator in ("lookup", "generated"):
            raise InputError(
                f"subleq: words={wide}: {evaluator} takes words of {MOST_KEYS} bits; use lanes, lanes-numba or rows"
            )
        self.size, self.half, self.evaluator = 1 << wide, 1 << (wide - 1), evaluator
        self.places, self.wide = 1 << bits, wide != bits
        self.given, (self.image, self.end) = rules, _in_one_memory(image_of(image, rules), rules)
        plain = rules.negative_halts
        self.rules = replace(DIALECTS["alta" if plain else "eforth"], low=-self.half, high=self.half - 1)
        self.exact = rules.low is None  # words of any size: a run that leaves this computer's words is an error
        self._check_words()
        count = len(self.image.words) + 1 if plain else self.places
        if evaluator == "dense" and count > MAX_DENSE:
            raise InputError(
                f"subleq: the dense evaluator scores every pair of {count:,} words, and takes at most {MAX_DENSE:,}; "
                "use generated, lookup or rows, or fewer bits"
            )
        self.cycle = layers  # for each instruction
        self.kept = _kept(bits, "alta" if plain else "eforth", input_adds, self.exact, layers, wide)
        tokens = np.zeros(count, dtype=np.int64)  # the processor's word first
        tokens[1 : len(self.image.words) + 1] = np.array(self.image.words, dtype=np.int64) % self.places
        self.running = self.kept.start(tokens, evaluator)
        layout = self.running.layout
        self.place = {name: layout[name] for name in ("mem", "pc", "a", "b", "mem_a", "mem_b", "old", "talks")}
        self.place |= {name: layout[name] for name in ("leaves", "ending") if name in layout}
        self.watch = None if plain else Watch(FETCH, 0, self.place["talks"].start + 1)
        self.checks = (plain or self.wide) and evaluator in ("dense", "rows")  # the other evaluators check it
        self.count = count - 1
        if self.wide:
            self._put_wide_words()
        self.input_adds, self._waits = input_adds, False

    @property
    def net(self) -> Transformer:
        """The network whose weights run."""
        return self.kept.net

    def _put_wide_words(self) -> None:
        """Put the words of the image that no token holds into memory."""
        segment, sign = self.place["mem"], self.places // 2
        for at, word in enumerate(self.image.words):
            if not -sign <= word < sign:
                self.running.put(at + 1, segment.start, [word >> k & 1 for k in range(segment.size)])

    def _check_words(self) -> None:
        most, above = self.places - 1, self.half if self.exact else self.size
        if len(self.image.words) > most:
            raise InputError(f"subleq: {len(self.image.words):,} words; this computer has {most:,}")
        for at, word in enumerate(self.image.words):
            if not -self.half <= word < above:
                raise InputError(
                    f"subleq: the word {word} at address {at} is outside {-self.half} … {self.half - 1}, the words of "
                    "this computer"
                )

    @property
    def steps(self) -> int:
        """How many instructions are finished."""
        return self.running.layers // self.cycle

    @property
    def layers(self) -> int:
        return self.running.layers

    def run(self, max_steps: int = 10_000_000) -> RunResult:
        """Run at most `max_steps` more instructions."""
        why = self._run((self.steps + max_steps) * self.cycle)
        memory, counter = self.memory(), self._counter()
        output = self._output.decode("utf-8", errors="replace")
        return RunResult(why, self.steps, output, memory, counter, self.where(memory, counter))

    def _run(self, end: int) -> str:
        while True:
            if self._waits and not self._read():
                return "input"
            try:
                found = self._layers(max(0, end - self.running.layers))
            except RangeError:
                memory, counter = self.memory(), self._counter()
                raise RangeError(
                    f"subleq: after {self.steps:,} steps an address is outside memory 0 … {len(memory) - 1}; "
                    f"the program counter was {counter}"
                ) from None
            if found == PAUSED and self.cycle == 2 and self.running.row(0)[self.place["ending"].start + 1]:
                found = self.running.run(1)  # two layers halt while the next instruction would be fetched
            if found == HALTED:
                self._check_end()
                return "halted"
            if found != WATCHED:
                return "steps"
            if self._word("a") == self.size - 1:
                self._waits = True
            else:
                self._write()

    def _layers(self, count: int) -> str:
        """Run `count` layers; raise `RangeError` before a layer that would look for a missing word."""
        if not self.checks:
            return self.running.run(min(count, 1 << 62), self.watch)  # evaluators count in 64 bits
        for _ in range(0 if self.running.halted else count):
            self._check_addresses()
            if self.running.run(1) == HALTED:
                break
        return HALTED if self.running.halted else PAUSED

    def _check_addresses(self) -> None:
        place = self.running.layers % self.cycle
        wanted = {FETCH: [self._word("pc") + 2], LOAD: [self._word("a"), self._word("b")]}.get(place, [])
        last = self.size - 1 if self.wide else self.size  # the port has a row; in `alta` there is none
        if any(self.count <= word < last for word in wanted):
            raise RangeError("a head looks for a word that no row has")

    def _read(self) -> bool:
        """Put the next byte into the port; return False if there is none yet."""
        if not self._input and not self._ended:
            return False
        value = self._input.pop(0) if self._input else -1
        bits = (-value if self.input_adds else value) % self.size
        port = self.place["mem"]
        self.running.put(0, port.start, [bits >> k & 1 for k in range(port.size)])
        self._waits = False
        return True

    def _write(self) -> None:
        """Let the network finish the instruction, and take out the byte that it wrote."""
        self.running.run(self.cycle - 1)
        self._output.append(self._word("mem" if self.cycle == 3 else "mem_b") & 0xFF)

    def _word(self, name: str) -> int:
        """A word in the processor's row."""
        segment = self.place[name]
        return sum(int(bit) << k for k, bit in enumerate(self.running.row(0)[segment.slice]))

    def _counter(self) -> int:
        """The program counter; the layer that halts a computer of two layers has moved it on."""
        moved = 3 if self.cycle == 2 and self.running.halted else 0
        return self._signed((self._word("pc") - moved) % self.size)

    def _signed(self, value: int) -> int:
        return (value + self.half) % self.size - self.half

    def memory(self) -> list[int]:
        """Every word except the port, as signed numbers; in the dialect "paper", only the data."""
        segment = self.place["mem"]
        words = self.running.words(tuple(range(segment.start, segment.stop)))
        if self.cycle == 2 and self.running.layers and self.running.layers % 2 == 0:  # the result is on its way
            words[(self._word("b") + 1) % self.size] = self._word("mem_b")
        words = words[1:]
        signed: list[int] = ((words + self.half) % self.size - self.half).tolist()
        return signed[self.end + 3 : len(self.image.words)] if self.given.separate else signed

    def where(self, memory: list[int], counter: int) -> str:
        """The place of the program counter, in the words of the reference machine."""
        reader = Machine(replace(self.image, words=()), self.rules, memory=1)
        reader.memory, reader.counter = memory, counter
        if self.given.separate:
            return f"instruction {counter // 3 + 1}"
        return reader.where()

    def _check_end(self) -> None:
        """Raise where a word left this computer's words, or a program with separate data left its instructions."""
        if self.exact and int(self.running.row(0)[self.place["leaves"].start + 1]):
            if self.running.layers % self.cycle == FETCH + 1:
                address = next(a for a in map(self._signed, (self._word("a"), self._word("b"))) if a < -1)
                raise RangeError(f"subleq: after {self.steps:,} steps the address {address} is outside memory")
            at, old, taken = (self._signed(self._word(name)) for name in ("b", "old", "mem_a"))
            raise RangeError(
                f"subleq: after {self.steps:,} steps the word at address {at} would be {old} − {taken} = "
                f"{old - taken}, outside {-self.half} … {self.half - 1}, the words of this computer; use more bits, "
                "words=32, or --on reference"
            )
        if self.given.separate and self._word("a") == self.end + 2:
            raise RangeError(f"subleq: after {self.steps - 1:,} steps the program left its instructions")


def _in_one_memory(image: Image, rules: Dialect) -> tuple[Image, int]:
    """Put an image with separate data into one memory; return it, and where its code ends.

    The instructions come first, then a halting instruction that its operand identifies, then the data."""
    if not rules.separate:
        return image, 0
    end = 3 * len(image.code)
    base = end + 3
    words: list[int] = []
    for a, b, c in image.code:
        words += [base + a, base + b, -1 if c == 0 else 3 * (c - 1)]
    words += [end + 2, end + 2, -1, *image.words]
    return Image(tuple(words)), end


def run_on_transformer(
    image: Image | str | Sequence[int],
    *,
    dialect: str | Dialect = "eforth",
    input: str | bytes = "",
    max_steps: int = 100_000_000,
    bits: int = 16,
    input_adds: bool = False,
    evaluator: str | None = None,
    layers: int = 3,
    words: int | None = None,
) -> RunResult:
    """Run an image on the transformer with all of its input, like `kl.subleq.run`.

    image: the program, as an image, source text or words.
    dialect: the instruction set.
    input: the bytes that the program can read.
    max_steps: the most instructions.
    bits: the word size.
    input_adds: whether reading adds to a word instead of replacing it.
    evaluator: "lanes", "lanes-numba", "generated", "lookup", "rows" or "dense"; by default the quickest here.
    layers: for each instruction, 3 or 2.
    words: the bits of a word, where they are more than `bits`, which address the memory (dialects esolang and paper).
    """
    machine = TransformerMachine(
        image, dialect, bits=bits, input_adds=input_adds, evaluator=evaluator, layers=layers, words=words
    )
    machine.feed(input)
    machine.end_input()
    result: RunResult = machine.run(max_steps)
    return result
