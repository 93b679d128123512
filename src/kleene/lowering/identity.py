"""What operator overloading cannot see: `is`, `isinstance` and `type` on values that are not known yet.

`isinstance` asks a symbol for its `__class__`, and the symbol raises an error. Nothing can intercept `is` and `type`.
So this module searches the bytecode of `step` and of every function that it can reach, and watches each use while
`step` runs.
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from kleene.errors import ProgramError

ASKING = {"type": type, "id": id}  # builtins that no overloading can intercept
OPERANDS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CONST", "LOAD_CLASSDEREF")

Operand = list[tuple[str, Any]]  # consecutive loads; empty: unknown
Sites = dict[int, tuple[str, list[Operand]]]  # offset in the bytecode → the operation there, and its operand


class Opaque:
    """A value in symbolic execution. Its type is not the type of the value that it stands for."""

    @property
    def numeric(self) -> bool:
        """Whether the value is a number for certain."""
        return True

    @property
    def program_name(self) -> str:
        raise NotImplementedError

    def concrete(self) -> Any:
        """The value on this path."""
        raise NotImplementedError

    @property
    def __class__(self) -> Any:
        frame = sys._getframe(1)
        if written_by_user(frame.f_globals.get("__name__", "")):
            if not self.numeric:
                return type(self.concrete())
            raise refused(self.program_name, "isinstance", frame.f_lineno)
        return type(self)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("the class of a value in step cannot be changed")


def refused(program: str, what: str, line: int) -> ProgramError:
    """The error for a question that a symbol would answer wrongly."""
    return ProgramError(
        f"{program}: step uses {what} on a value that depends on variables (line {line}); it would see a symbol, not "
        "the value. Compare with ==: a comparison is True or False, a variable is a number"
    )


def written_by_user(module: str) -> bool:
    """Whether a module is neither Kleene's nor Python's own; programs of the library count as the user's."""
    top = module.partition(".")[0]
    if top == "kleene":
        return module.startswith("kleene.library")
    return top not in sys.stdlib_module_names or top == "__main__"


@contextmanager
def watched(program: Any) -> Iterator[None]:
    """Reject `is` and `type` on symbols while `step` runs, if its code uses them."""
    sites = _sites_of(program)
    if not sites:
        yield
        return
    found: list[ProgramError] = []

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code not in sites:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return look

    def look(frame: FrameType, event: str, _: Any) -> Any:
        site = sites[frame.f_code].get(frame.f_lasti) if event == "opcode" else None
        if site is not None and any(_may_be_symbol(frame, operand) for operand in site[1]):
            found.append(refused(program.spec.name, site[0], frame.f_lineno))
            raise found[0]
        return look

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
        if found:  # also if step has caught the error
            raise found[0]


def _may_be_symbol(frame: FrameType, operand: Operand) -> bool:
    """Whether the operand is, or may be, a symbol."""
    value: Any = None
    if not operand:
        return True
    for how, name in operand:
        if how == "LOAD_CONST":
            value = name
        elif how == "LOAD_ATTR":
            value = getattr(value, name)
        else:
            scopes = (frame.f_locals, frame.f_globals, vars(builtins))
            known = [scope[name] for scope in scopes if name in scope]
            if not known:
                return True
            value = known[0]
        if isinstance(value, Opaque):
            return True
    return False


def _sites_of(program: Any) -> dict[CodeType, Sites]:
    """The uses of `is` and `type` in `step` and in every function that it can reach, cached for each program."""
    cached: dict[CodeType, Sites] | None = vars(program).get("_identity_sites")
    if cached is None:
        cached = {}
        for function in _reachable(program):
            for code in _codes(function.__code__):
                if sites := _sites(code, function.__globals__):
                    cached[code] = sites
        keep = type.__setattr__ if isinstance(program, type) else object.__setattr__
        keep(program, "_identity_sites", cached)
    return cached


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _reachable(program: Any) -> list[FunctionType]:
    """`step`, and every function that the names in its code can mean: globals, closures, attributes of those."""
    start = program.step
    found: dict[int, FunctionType] = {}
    todo: list[Any] = [getattr(start, "__func__", start)]
    while todo:
        thing = todo.pop()
        function = getattr(thing, "__func__", getattr(thing, "__wrapped__", thing))
        if not isinstance(function, FunctionType) or id(function) in found:
            continue
        if not written_by_user(function.__module__ or ""):
            continue
        found[id(function)] = function
        names = {name for code in _codes(function.__code__) for name in code.co_names}
        owners = [function.__globals__[name] for name in names if name in function.__globals__]
        owners += [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
        owners += list(function.__defaults__ or ())
        todo += owners
        for owner in [*owners, getattr(program, "program", program)]:
            holder = owner if isinstance(owner, (type, ModuleType)) else type(owner)
            todo += [vars(holder).get(name) for name in names if name in vars(holder)]
    return list(found.values())


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class _Instruction:
    name: str
    value: Any
    offset: int
    joins: bool  # a jump leads here


def _instructions(code: CodeType) -> list[_Instruction]:
    """The instructions of the bytecode. An instruction that loads two variables is listed as two."""
    made = []
    for found in dis.get_instructions(code):
        double = found.opname.startswith("LOAD_FAST") and isinstance(found.argval, tuple)
        for value in found.argval if double else [found.argval]:
            made.append(_Instruction(found.opname, value, found.offset, found.is_jump_target))
    return [one for one in made if one.name not in ("EXTENDED_ARG", "CACHE", "NOP")]


def _sites(code: CodeType, scope: dict[str, Any]) -> Sites:
    instructions = _instructions(code)
    sites: Sites = {}
    for place, one in enumerate(instructions):
        if one.name == "IS_OP":
            right, start = _operand(instructions, place)
            left, _ = _operand(instructions, start) if right else ([], 0)
            sites[one.offset] = ("'is'", [left, right])
        elif one.name.startswith("POP_JUMP") and one.name.endswith("_NONE"):
            sites[one.offset] = ("'is'", [_operand(instructions, place)[0]])
        elif one.name in ("LOAD_GLOBAL", "LOAD_NAME") and one.value in ASKING and _builtin(one.value, scope):
            sites[one.offset] = (f"{one.value}()", [[]])
    return sites


def _builtin(name: str, scope: dict[str, Any]) -> bool:
    return scope.get(name, ASKING[name]) is ASKING[name]


def _operand(instructions: list[_Instruction], stop: int) -> tuple[Operand, int]:
    """The loads that make the last operand of an instruction, and where they begin.

    The loads are empty where the operand is made in another way.
    """
    place, attributes = stop - 1, []
    if instructions[stop].joins:
        return [], place
    while place >= 0 and instructions[place].name == "LOAD_ATTR" and not instructions[place].joins:
        attributes.append(("LOAD_ATTR", instructions[place].value))
        place -= 1
    if place < 0 or not instructions[place].name.startswith(OPERANDS):
        return [], place
    first = instructions[place]
    how = "LOAD_CONST" if first.name.startswith("LOAD_CONST") else "LOAD_FAST"
    return [(how, first.value), *reversed(attributes)], place
