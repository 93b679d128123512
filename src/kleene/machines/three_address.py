"""A small instruction set with indirect addresses: an opcode and three arguments.

SUBLEQ with separate instructions and data can only name fixed addresses, so a program works for one length of input.
Here LOAD and STORE go through a pointer and IN reads as many numbers as there are, so a program works for any length.

    MOV x y      y = x                    JMP c      to instruction c
    ADD x y z    z = x + y                JZ x c     to c where x = 0
    SUB x y z    z = x − y                JN x c     to c where x < 0
    LOAD p x     x = memory[p]            IN x c     x = the next input; to c where there is none
    STORE x p    memory[p] = x            OUT x      write x
                                          HALT

x, y, z and p are addresses of data; `memory[p]` is the word at the address that is the word at p. Instructions are
numbered from 0. JN is not among the ten instructions that one would name first, but JZ alone cannot compare.

>>> text = "loop: IN x done\\n ADD x sum sum\\n JMP loop\\n done: OUT sum\\n HALT\\n x: .data 0\\n sum: .data 0"
>>> image = assemble(text)
>>> run(image, [3, 4, 5]).output, run(image, range(101)).output
([12], [5050])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kleene.common.execution import Instruction, Performance, Store, perform
from kleene.errors import InputError, RangeError
from kleene.machines.subleq import Dialect, Image
from kleene.machines.subleq_assembly import Item, Source, place_labels, written_words

# opcode → what its arguments are: data (an address) or code (an instruction's number)
OPERATIONS: dict[str, tuple[str, ...]] = {
    "HALT": (),
    "MOV": ("data", "data"),
    "ADD": ("data", "data", "data"),
    "SUB": ("data", "data", "data"),
    "JMP": ("code",),
    "JZ": ("data", "code"),
    "JN": ("data", "code"),
    "LOAD": ("data", "data"),
    "STORE": ("data", "data"),
    "IN": ("data", "code"),
    "OUT": ("data",),
}
NAMES = tuple(OPERATIONS)
FIELDS = ("op", "x", "y", "z")
MAX_MEMORY = 1 << 22


class ThreeAddress:
    """Executes these instructions: (opcode, x, y, z), with 0 for arguments that an opcode does not have."""

    first = 0
    fields = FIELDS

    def execute(self, store: Store, number: int, instruction: Instruction) -> int | None:
        """Execute one instruction. Return the number of the next one, or None to halt."""
        op, x, y, z = instruction
        if not 0 <= op < len(NAMES):
            raise RangeError(f"instruction {number}: opcode {op} is outside 0 … {len(NAMES) - 1}")
        name = NAMES[op]
        if name == "HALT":
            return None
        if name == "JMP":
            return x
        if name == "MOV":
            self._write(store, number, y, self._read(store, number, x))
        elif name == "ADD":
            self._write(store, number, z, self._read(store, number, x) + self._read(store, number, y))
        elif name == "SUB":
            self._write(store, number, z, self._read(store, number, x) - self._read(store, number, y))
        elif name == "JZ":
            return y if self._read(store, number, x) == 0 else number + 1
        elif name == "JN":
            return y if self._read(store, number, x) < 0 else number + 1
        elif name == "LOAD":
            self._write(store, number, y, self._read(store, number, self._read(store, number, x)))
        elif name == "STORE":
            self._write(store, number, self._read(store, number, y), self._read(store, number, x))
        elif name == "IN":
            if not store.input:
                return y
            self._write(store, number, x, store.input.pop())
        else:
            store.output.append(self._read(store, number, x))
        return number + 1

    def show(self, instruction: Instruction) -> str:
        """Format an instruction as text."""
        op, *arguments = instruction
        if not 0 <= op < len(NAMES):
            return f"opcode {op}?"
        return " ".join([NAMES[op], *(str(x) for x in arguments[: len(OPERATIONS[NAMES[op]])])])

    @staticmethod
    def _read(store: Store, number: int, address: int) -> int:
        if not 0 <= address < MAX_MEMORY:
            raise RangeError(f"instruction {number}: address {address} is outside memory 0 … {MAX_MEMORY - 1:,}")
        return store.memory[address] if address < len(store.memory) else 0

    def _write(self, store: Store, number: int, address: int, value: int) -> None:
        self._read(store, number, address)
        if address >= len(store.memory):  # memory grows with use; new words are 0
            store.memory += [0] * (address + 1 - len(store.memory))
        store.memory[address] = value


def assemble(text: str, *, name: str = "assembly") -> Image:
    """Assemble a text with labels, `.data`, `.zero` and `.equ`, as in the assembly language of SUBLEQ."""
    source = Source(name, Dialect("three_address", separate=True))
    source.constants = {}
    items: list[Item] = []
    for line in source.lines(text):
        items += [Item("label", line.number, (label,)) for label in line.labels]
        if not line.words:
            continue
        head, operands = line.words[0], line.words[1:]
        op = head.upper()
        if source.directive(line, items):
            continue
        if op not in OPERATIONS:
            known = ", ".join([*OPERATIONS, ".data", ".zero", ".equ"])
            raise source.error(line.number, head, f"is not an instruction; known: {known}")
        if len(operands) != len(OPERATIONS[op]):
            wants = len(OPERATIONS[op])
            raise source.error(line.number, head, f"takes {wants} arguments, not {len(operands)}")
        items.append(Item("code", line.number, (op, *operands)))
    labels, names = place_labels(source, items, first=0)
    known_names = {**source.constants, **labels, **names}
    code: list[Instruction] = []
    for item in items:
        if item.kind == "code":
            op, arguments = item.words[0], item.words[1:]
            numbers = [source.value(token, item.line, known_names, len(code) + 1) for token in arguments]
            for token, number in zip(arguments, numbers):
                if number < 0:
                    raise source.error(item.line, token, f"is {number}; an address is 0 or more")
            code.append((NAMES.index(op), *numbers, *[0] * (3 - len(numbers))))
    if not code:
        raise InputError(f"{name}: no instructions")
    return Image(tuple(written_words(source, items, known_names)), tuple(code), labels, names)


def run(image: Image, input: Sequence[int] = (), *, max_steps: int = 1_000_000) -> Performance:
    """Run a program as written."""
    return perform(fetcher(image), ThreeAddress(), image.words, input=input, max_steps=max_steps)


def fetcher(image: Image) -> Callable[[int], Instruction]:
    """A function from the number of an instruction to the instruction."""

    def fetch(number: int) -> Instruction:
        if not 0 <= number < len(image.code):
            raise RangeError(f"program: instruction {number} is outside 0 … {len(image.code) - 1}")
        return image.code[number]

    return fetch
