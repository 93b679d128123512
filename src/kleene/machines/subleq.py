"""SUBLEQ, the one-instruction computer, in its dialects.

`subleq A B C` does memory[B] −= memory[A], then jumps to C if the result is 0 or less. `DIALECTS` lists how the
dialects differ in memory, input, output and halting. All of them write words as signed numbers.

>>> image = assemble('loop: OUT next\\n BEQ next =67 STOP\\n INC next\\n JMP loop\\n next: .data "A"', "esolang")
>>> run(image, dialect="esolang").output
'ABC'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kleene.common.execution import Instruction, Store
from kleene.errors import DidNotHalt, FileError, InputError, RangeError
from kleene.files import read_bytes, read_text, write_text

IO = -1  # the address of input and output, 0xFFFF in 16 bits
MAX_WORDS = 1 << 22  # the largest memory
MAX_FILE = 64 * 1024 * 1024
DialectName = Literal["paper", "alta", "esolang", "eforth"]
RAW = ("", ".bin", ".img", ".raw")  # suffixes of files that are told apart by their content


@dataclass(frozen=True)
class Dialect:
    """A dialect: words, memory, input, output and halting."""

    name: str
    separate: bool = False  # separate instructions, numbered from 1; otherwise one memory from address 0
    low: int | None = None  # words are low … high and wrap round; None: any whole number
    high: int | None = None
    memory: int = 1 << 16  # default words of memory; 0: as many as the image has
    masked: bool = False  # addresses modulo 65,536; a program counter above `high` halts
    io: bool = False  # A = −1 reads a byte into B, B = −1 writes the byte at A
    negative_halts: bool = False  # a negative A or B halts

    @property
    def stop(self) -> int:
        """The jump target that halts."""
        return 0 if self.separate else -1

    def word(self, value: int) -> int:
        """Wrap `value` round into the words of this dialect."""
        if self.low is None or self.high is None:
            return value
        return (value - self.low) % (self.high - self.low + 1) + self.low

    def holds(self, value: int) -> bool:
        """Whether `value` may be in an image. In 16 bits, 65535 is another way to write −1."""
        if self.low is None or self.high is None:
            return True
        return self.low <= value <= (0xFFFF if self.masked else self.high)

    def words(self, low: int, high: int) -> Dialect:
        """The same dialect on words low … high.

        >>> DIALECTS["alta"].words(-128, 127).word(128)
        -128
        """
        if low > -1 or high < 1 or self.low is None or self.masked:
            raise InputError(f"subleq: dialect {self.name} cannot have words {low} … {high}; 'alta' takes any around 0")
        return replace(self, low=low, high=high)


DIALECTS = {
    "paper": Dialect("paper", separate=True, memory=0),  # the Synthesizer paper
    "alta": Dialect("alta", low=-16, high=16, memory=0, negative_halts=True),  # kl.library.subleq
    "esolang": Dialect("esolang", io=True),  # the common one
    "eforth": Dialect("eforth", low=-(1 << 15), high=(1 << 15) - 1, masked=True, io=True),  # 16 bits
}


def dialect_of(name: str | Dialect) -> Dialect:
    """Look up a dialect by name."""
    if isinstance(name, Dialect):
        return name
    if name not in DIALECTS:
        raise InputError(f"subleq: unknown dialect {name!r}; choose one of {', '.join(DIALECTS)}")
    return DIALECTS[name]


@dataclass(frozen=True)
class Image:
    """A program before it runs: the words of memory, and separate instructions in the dialect "paper"."""

    words: tuple[int, ...]
    code: tuple[tuple[int, ...], ...] = ()  # instructions 1, 2, … of the dialect "paper"
    labels: Mapping[str, int] = field(default_factory=dict, compare=False)  # of instructions
    names: Mapping[str, int] = field(default_factory=dict, compare=False)  # of data

    def __len__(self) -> int:
        return len(self.words)

    def address(self, name: str) -> int:
        """The address of the label `name`."""
        for table in (self.names, self.labels):
            if name in table:
                return table[name]
        known = ", ".join([*self.names, *self.labels]) or "none"
        raise InputError(f"subleq: no label {name!r} in this image; its labels: {known}")

    def with_data(self, **values: int | Sequence[int]) -> Image:
        """The same program with other words at these labels: `image.with_data(n=7, list=[3, 1, 2])`."""
        words = list(self.words)
        for name, value in values.items():
            at = self.address(name)
            new = [value] if isinstance(value, int) else [int(v) for v in value]
            if at + len(new) > len(words):
                raise InputError(f"subleq: {len(new)} words at {name!r} ({at}) reach past the image's {len(words)}")
            words[at : at + len(new)] = new
        return replace(self, words=tuple(words))


def image_of(image: Image | str | Sequence[int], dialect: DialectName | Dialect) -> Image:
    """Convert an image, a text of decimal cells, or a list of words to an image, and check every word."""
    rules = dialect_of(dialect)
    if isinstance(image, str):
        image = parse_cells(image, rules)
    elif not isinstance(image, Image):
        image = Image(tuple(_whole(word, at) for at, word in enumerate(image)))
    for at, word in enumerate(image.words):
        if not rules.holds(word):
            raise InputError(f"subleq: the word {word} at address {at} is outside {rules.low} … {rules.high}")
    if rules.separate and not image.code:
        raise InputError("subleq: dialect paper needs separate instructions and data; use assemble(text, 'paper')")
    if image.code and not rules.separate:
        raise InputError(f"subleq: an image with separate instructions does not fit the dialect {rules.name}")
    return replace(image, words=tuple(rules.word(word) for word in image.words))


def _whole(word: Any, at: int) -> int:
    try:
        if int(word) == word:
            return int(word)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"subleq: {word!r} at address {at} is not a whole number")


# Running


@dataclass(frozen=True)
class RunResult:
    """The result of a run, and why it stopped: "halted", "steps" (the limit), or "input" (it waits for more)."""

    why: str
    steps: int
    output: str
    memory: list[int]
    counter: int  # the program counter: an address, or the number of an instruction
    where: str  # the program counter as text, with the instruction there

    @property
    def halted(self) -> bool:
        """Whether the program halted by itself."""
        return self.why == "halted"

    def checked(self) -> RunResult:
        """Return this result, or raise `DidNotHalt` with the place where the program stopped."""
        if not self.halted:
            wants = "waits for input" if self.why == "input" else "has not halted"
            raise DidNotHalt(f"subleq: {wants} after {self.steps:,} steps; it was at {self.where}")
        return self


class Executor:
    """Executes the SUBLEQ of the paper, one instruction at a time: operands (A, B, C), and data in a separate memory.

    It halts if the next instruction is 0. `literal=True` halts as Algorithm 1 is printed, on any operand C = 0.
    """

    first = 1
    fields = ("A", "B", "C")

    def __init__(self, *, literal: bool = False) -> None:
        self.literal = literal

    def execute(self, store: Store, number: int, instruction: Instruction) -> int | None:
        """Execute one instruction. Return the number of the next one, or None if that is 0."""
        a, b, c = instruction
        size = len(store.memory)
        for address in (a, b):
            if not 0 <= address < size:
                raise RangeError(
                    f"subleq: address {address} is outside memory 0 … {size - 1}, at instruction {number}: "
                    f"{self.show(instruction)}"
                )
        store.memory[b] -= store.memory[a]
        following = c if store.memory[b] <= 0 or (self.literal and c == 0) else number + 1
        return following or None

    def show(self, instruction: Instruction) -> str:
        """Format an instruction as text."""
        return " ".join(["subleq", *map(str, instruction)])


def recall(fetch: Callable[[int], Instruction], data: Sequence[int], *, limit: int = 10_000) -> Image:
    """Turn a program that `fetch` knows by number, such as a memorised one, into an image.

    The image has every instruction that can be reached from the first one. Any SUBLEQ machine can run it.
    """
    found: dict[int, Instruction] = {}
    waiting = [1]
    while waiting:
        number = waiting.pop()
        if number == 0 or number in found:
            continue
        if len(found) >= limit:
            raise InputError(f"subleq: more than {limit:,} instructions can be reached; the program may have no end")
        a, b, c = fetch(number)
        found[number] = (a, b, c)
        waiting += [c] if a == b else [c, number + 1]  # x − x = 0 always branches
    code = tuple(found.get(number, (0, 0, 0)) for number in range(1, max(found) + 1))
    return Image(tuple(data), code)


def one_memory(image: Image, dialect: DialectName | Dialect = "esolang") -> Image:
    """Convert a program of the dialect "paper" for a machine with one memory: its instructions, then its data.

    >>> image = assemble("MOV x y\\n HALT\\n x: .data 5\\n y: .data 0", "paper")
    >>> joined = one_memory(image)
    >>> run(joined).memory[joined.address("y")]
    5
    """
    rules, base = dialect_of(dialect), 3 * len(image.code)
    if rules.separate:
        raise InputError(f"subleq: dialect {rules.name} keeps instructions and data separate")
    words: list[int] = []
    for a, b, c in image.code:
        words += [a + base, b + base, 3 * (c - 1) if c else rules.stop]
    labels = {name: 3 * (number - 1) for name, number in image.labels.items()}
    names = {name: at + base for name, at in image.names.items()}
    joined = Image((*words, *image.words), labels=labels, names=names)
    return image_of(joined, rules)


class Port:
    """The input and output of a SUBLEQ computer: bytes that wait to be read, and bytes that were written."""

    def __init__(self) -> None:
        self._input, self._ended = bytearray(), False
        self._output, self._taken = bytearray(), 0

    def feed(self, text: str | bytes) -> None:
        """Append to the input."""
        self._input += text.encode() if isinstance(text, str) else text

    def end_input(self) -> None:
        """End the input. Reading past its end gives −1."""
        self._ended = True

    def take_output(self) -> bytes:
        """The output since the last call."""
        new = bytes(self._output[self._taken :])
        self._taken = len(self._output)
        return new


class Machine(Port):
    """A SUBLEQ computer that takes input and runs in slices.

    - `image`: the program: an `Image`, a text of decimal cells, or a list of words.
    - `dialect`: "paper", "alta", "esolang" or "eforth", or a `Dialect`.
    - `memory`: the words of memory; the dialect has a default.
    - `input_adds`: add input to the word instead of replacing it.
    - `evaluator`: "numba" (fast) or "plain" (the definition).

    >>> echo = Machine([-1, 9, 3, 9, -1, 6, 10, 10, 0, 0, 0], "esolang")
    >>> echo.feed("ab"); result = echo.run(10**6)
    >>> result.output, result.why, echo.take_output(), echo.take_output()
    ('ab', 'input', b'ab', b'')
    """

    def __init__(
        self,
        image: Image | str | Sequence[int],
        dialect: DialectName | Dialect = "esolang",
        *,
        memory: int | None = None,
        input_adds: bool = False,
        evaluator: Literal["numba", "plain"] = "numba",
    ) -> None:
        super().__init__()
        if evaluator not in ("numba", "plain"):
            raise InputError(f"subleq: unknown evaluator {evaluator!r}; choose 'numba' or 'plain'")
        self.dialect = dialect_of(dialect)
        self.image = image_of(image, self.dialect)
        words = self.image.words
        size = (self.dialect.memory or len(words)) if memory is None else memory
        if not 1 <= size <= MAX_WORDS or (self.dialect.masked and size > 1 << 16):
            most = 1 << 16 if self.dialect.masked else MAX_WORDS
            raise InputError(f"subleq: memory={size:,} words; memory has 1 … {most:,} words")
        if len(words) > size:
            raise InputError(f"subleq: {len(words):,} words do not fit into a memory of {size:,}")
        self.memory: list[int] = [*words, *[0] * (size - len(words))]
        self.code: list[int] = [0, 0, 0, *(x for row in self.image.code for x in row)]
        self.counter = 1 if self.dialect.separate else 0
        self.steps = 0
        self.input_adds, self.evaluator = input_adds, evaluator

    def run(self, max_steps: int = 10_000_000) -> RunResult:
        """Run for at most `max_steps` more instructions. The result counts steps from the start of the machine."""
        if max_steps < 0:
            raise InputError(f"subleq: max_steps={max_steps}; it must be 0 or more")
        end = self.steps + max_steps
        why = self._fast(end) if self.evaluator == "numba" else "overflow"
        if why == "overflow":  # words beyond 64 bits, or evaluator="plain"
            why = self._plain(end)
        output = self._output.decode("utf-8", errors="replace")
        return RunResult(why, self.steps, output, list(self.memory), self.counter, self.where())

    def _fast(self, end: int) -> str:
        import numpy as np

        from kleene.machines import subleq_kernels as kernels

        rules = self.dialect
        whole = rules.masked and len(self.memory) == 1 << 16
        try:
            data = np.array(self.memory, dtype=np.int64)
            code = np.array(self.code, dtype=np.int64) if rules.separate else data
        except OverflowError:
            return "overflow"
        if whole:
            data = data.astype(np.uint16)
        given = np.frombuffer(bytes(self._input), dtype=np.uint8)
        made = np.empty(1 << 16, dtype=np.uint8)
        low, high = (1, 0) if rules.low is None or rules.high is None else (rules.low, rules.high)
        unit, halt_at = (3, 0) if rules.separate else (1, -1)
        used, why, counter = 0, kernels.FULL, self.counter
        while why == kernels.FULL:
            source, left = given[used:], min(end - self.steps, 1 << 62)  # the kernels count in 64 bits
            if whole:
                found = kernels.execute_16(data, counter & 0xFFFF, self.input_adds, self._ended, source, made, left)
            else:
                found = kernels.execute(
                    code,
                    data,
                    counter,
                    unit,
                    halt_at,
                    low,
                    high,
                    rules.masked,
                    rules.io,
                    rules.negative_halts,
                    self.input_adds,
                    self._ended,
                    source,
                    made,
                    left,
                )
            why, counter, steps, read, written = found
            self.steps += steps
            used += read
            self._output += made[:written].tobytes()
        self.counter = rules.word(counter) if rules.masked else counter
        self.memory = (data.astype(np.int16) if whole else data).tolist()
        del self._input[:used]
        if why in (kernels.OUTSIDE, kernels.NO_CODE):
            self._plain(self.steps + 1)  # raises an error that names the place
        return {kernels.HALTED: "halted", kernels.LIMIT: "steps", kernels.INPUT: "input"}.get(why, "overflow")

    def _plain(self, end: int) -> str:
        """The definition: execute one instruction after another on Python integers."""
        rules, memory = self.dialect, self.memory
        code = self.code if rules.separate else memory
        unit, following = (3, 1) if rules.separate else (1, 3)
        while True:
            if self.counter < 0 or (rules.separate and self.counter == 0):
                return "halted"
            if self.steps >= end:
                return "steps"
            at = self.counter * unit
            if at + 2 >= len(code):
                raise RangeError(f"subleq: after {self.steps:,} steps the program left its memory, at {self.where()}")
            a, b, c = code[at : at + 3]
            goes_on = rules.word(self.counter + following) if rules.masked else self.counter + following
            if rules.io and a == IO:
                if not self._read(self._address(b)):
                    return "input"
                self.counter = goes_on
            elif rules.io and b == IO:
                self._output.append(memory[self._address(a)] & 0xFF)
                self.counter = goes_on
            elif rules.negative_halts and (a < 0 or b < 0):
                return "halted"
            else:
                a, b = self._address(a), self._address(b)
                memory[b] = rules.word(memory[b] - memory[a])
                self.counter = c if memory[b] <= 0 else goes_on
            self.steps += 1

    def _read(self, address: int) -> bool:
        """Read one byte of input into memory, or −1 after its end. Return False if there is no input yet."""
        if not self._input and not self._ended:
            return False
        value = self._input.pop(0) if self._input else -1
        self.memory[address] = self.dialect.word(value + (self.memory[address] if self.input_adds else 0))
        return True

    def _address(self, address: int) -> int:
        inside = address & 0xFFFF if self.dialect.masked else address
        if not 0 <= inside < len(self.memory):
            raise RangeError(
                f"subleq: after {self.steps:,} steps, address {inside} is outside memory 0 … {len(self.memory) - 1}, "
                f"at {self.where()}"
            )
        return inside

    def where(self) -> str:
        """Format the program counter: its number, the nearest label before it, and the instruction there."""
        kind = "instruction" if self.dialect.separate else "address"
        before = [(at, name) for name, at in self.image.labels.items() if at <= self.counter]
        label = ""
        if before:
            nearest, name = max(before)
            label = f" ({name}{f'+{self.counter - nearest}' if self.counter > nearest else ''})"
        code, unit = (self.code, 3) if self.dialect.separate else (self.memory, 1)
        cells = code[self.counter * unit : self.counter * unit + 3] if self.counter >= 0 else []
        shown = f": subleq {' '.join(map(str, cells))}" if len(cells) == 3 else ""
        return f"{kind} {self.counter}{label}{shown}"


def run(
    image: Image | str | Sequence[int],
    *,
    dialect: DialectName | Dialect = "esolang",
    input: str | bytes = "",
    max_steps: int = 100_000_000,
    memory: int | None = None,
    input_adds: bool = False,
    evaluator: Literal["numba", "plain"] = "numba",
) -> RunResult:
    """Run an image on all of its input.

    - `dialect`: "paper", "alta", "esolang" or "eforth", or a `Dialect`.
    - `input`: what the program reads.
    - `max_steps`: stop after this many instructions.
    - `memory`: the words of memory; the dialect has a default.
    - `input_adds`: add input to the word instead of replacing it.
    - `evaluator`: "numba" (fast) or "plain" (the definition).

    >>> run([3, 3, -1, 5], dialect="esolang").memory[:4]
    [3, 3, -1, 0]
    """
    machine = Machine(image, dialect, memory=memory, input_adds=input_adds, evaluator=evaluator)
    machine.feed(input)
    machine.end_input()
    return machine.run(max_steps)


# Text and files


def assemble(text: str, dialect: DialectName | Dialect = "esolang", *, name: str = "assembly") -> Image:
    """Assemble a text. The module `kleene.machines.subleq_assembly` describes the language."""
    from kleene.machines.subleq_assembly import assemble as assembled

    return assembled(text, dialect_of(dialect), name)


def disassemble(image: Image | str | Sequence[int], dialect: DialectName | Dialect = "esolang") -> str:
    """Write assembly text, with labels and macros, that assembles to the same words."""
    from kleene.machines.subleq_assembly import disassemble as disassembled

    return disassembled(image_of(image, dialect), dialect_of(dialect))


def parse_cells(text: str, dialect: DialectName | Dialect = "esolang", *, name: str = "subleq") -> Image:
    """Read an image from decimal cells. In the dialect "paper": how many instructions, these, then the data."""
    rules = dialect_of(dialect)
    cells = []
    for number, line in enumerate(text.splitlines(), 1):
        for token in line.replace(",", " ").split():
            try:
                cells.append(int(token))
            except ValueError:
                raise InputError(f"{name}, line {number}: {token[:40]!r} is not a whole number") from None
            if not rules.holds(cells[-1]):
                raise InputError(f"{name}, line {number}: {token[:40]} is outside {rules.low} … {rules.high}")
    if len(cells) > MAX_WORDS or (rules.masked and len(cells) > 1 << 16):
        most = 1 << 16 if rules.masked else MAX_WORDS
        raise InputError(f"{name}: {len(cells):,} words, more than the {most:,} that memory has")
    if not cells:
        raise InputError(f"{name}: no words; an image is a list of whole numbers")
    if not rules.separate:
        return Image(tuple(rules.word(cell) for cell in cells))
    end = 1 + 3 * cells[0]
    if not 3 < end <= len(cells):
        raise InputError(f"{name}: begins with {cells[0]} instructions, but {len(cells) - 1} words follow")
    code = tuple((cells[i], cells[i + 1], cells[i + 2]) for i in range(1, end, 3))
    return Image(tuple(cells[end:]), code)


def load(path: str | Path, dialect: DialectName | Dialect = "esolang") -> Image:
    """Load an image: `.dec` and `.txt` hold decimal cells, `.subleq`, `.asm` and `.s` assembly text.

    A file with the suffix `.bin`, `.img`, `.raw` or none is recognised by its content: decimal cells, or raw bytes
    (words of 16 bits, low byte first)."""
    path = Path(path)
    if path.suffix in (".dec", ".txt"):
        return parse_cells(read_text(path, MAX_FILE), dialect, name=str(path))
    if path.suffix in (".subleq", ".asm", ".s"):
        return assemble(read_text(path, MAX_FILE), dialect, name=str(path))
    if path.suffix not in RAW:
        raise FileError(
            f"{path}: unknown suffix {path.suffix!r}; images are read from .dec (decimal cells), .subleq (assembly) "
            "and .bin (raw bytes)"
        )
    content = read_bytes(path, MAX_FILE)
    if content.translate(None, b"0123456789+-, \t\r\n"):
        return parse_bytes(content, dialect, name=str(path))
    return parse_cells(content.decode("ascii"), dialect, name=str(path))


def parse_bytes(content: bytes, dialect: DialectName | Dialect = "esolang", *, name: str = "subleq") -> Image:
    """Read an image from raw bytes: words of 16 bits, low byte first, two's complement.

    >>> parse_bytes(bytes([9, 0, 255, 255, 3, 0])).words
    (9, -1, 3)
    """
    rules = dialect_of(dialect)
    if rules.separate:
        raise InputError(f"{name}: raw bytes are one memory; the dialect {rules.name} has separate instructions")
    if len(content) % 2 or not content:
        raise InputError(f"{name}: {len(content):,} raw bytes; an image has words of two bytes")
    words = [int.from_bytes(content[k : k + 2], "little", signed=True) for k in range(0, len(content), 2)]
    return parse_cells(" ".join(map(str, words)), rules, name=name)


def save(image: Image | Sequence[int], path: str | Path, dialect: DialectName | Dialect = "esolang") -> None:
    """Write an image: decimal cells to `.dec` and `.txt`, assembly text to `.subleq`, `.asm` and `.s`."""
    path, image = Path(path), image_of(image, dialect)
    if path.suffix in (".dec", ".txt"):
        cells = [len(image.code), *(x for row in image.code for x in row)] if image.code else []
        write_text(path, "".join(f"{word}\n" for word in [*cells, *image.words]))
    elif path.suffix in (".subleq", ".asm", ".s"):
        write_text(path, disassemble(image, dialect))
    else:
        raise FileError(f"{path}: unknown suffix {path.suffix!r}; use .dec (decimal cells) or .subleq (assembly)")
