"""The attention-program language: variables, heads, `step`, `halt`.

A program is a class. Its variables and heads are class attributes (`declarations.py`); `step` is plain Python on the
state of one position. The class statement checks everything that can be checked (`specify.py`) and makes a `Spec`
(`spec.py`): plain data from which the interpreter, the lowerings and the compiler work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kleene.common.output import Output
from kleene.common.text import Text
from kleene.common.tokens import Tokens
from kleene.errors import NotSupported, ProgramError, a_type
from kleene.machines.arrays import expanded, is_array
from kleene.machines.declarations import Clear, CycleLayer, Head, Variable
from kleene.machines.spec import Spec, second_spec
from kleene.machines.specify import specify

if TYPE_CHECKING:
    from kleene.machines.trace import Trace

C = TypeVar("C", bound="ProgramClass")


class _Body(dict[str, Any]):
    """A class body that rejects a second variable of the same name.

    Comprehensions and lambdas in a class do not see the names of its body, only global names. While the body runs,
    its declarations are global names, too.
    """

    lent: ClassVar[list[tuple[dict[str, Any], str, Any]]] = []  # (the global names, a name, what it was before)

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(self.get(name), Variable | Head | Clear):
            raise ProgramError(f"'{name}' is declared twice; every variable and head has a name of its own")
        super().__setitem__(name, value)
        if isinstance(value, Variable | Head) or is_array(value):
            scope = sys._getframe(1).f_globals
            self.lent.append((scope, name, scope.get(name, _ABSENT)))
            scope[name] = value
        if isinstance(value, Head) and value.own is not None:
            self[f"{name}_here"] = value.own

    @classmethod
    def take_back(cls) -> None:
        """Make global names what they were before."""
        while cls.lent:
            scope, name, before = cls.lent.pop()
            if before is _ABSENT:
                scope.pop(name, None)
            else:
                scope[name] = before


_ABSENT = object()


class ProgramClass(type):
    """The metaclass of programs. It checks a program when its class is made, and adds `run`, `trace` and `spec`."""

    spec: Spec
    by_layer: tuple[ProgramClass | LayerProgram, ...]  # the program itself, or each layer of its cycle

    @classmethod
    def __prepare__(mcs, name: str, bases: tuple[type, ...], /, **options: Any) -> Any:
        _Body.take_back()  # from a body that raised an error
        return _Body()

    def __new__(mcs: type[C], name: str, bases: tuple[type, ...], body: dict[str, Any], *, abstract: bool = False) -> C:
        _Body.take_back()
        cls = super().__new__(mcs, name, bases, expanded(dict(body)))
        if bases and not abstract:
            cls.spec = specify(name, _body(cls), taken=ProgramClass)
            cls.by_layer = tuple(LayerProgram(cls, *one) for one in zip(cls.spec.by_layer, _cycle(cls))) or (cls,)
            if "rules" in body and "step" not in body:
                from kleene.machines.written_rules import step_from_rules

                step, recorded = step_from_rules(cls.spec, cls.rules)  # type: ignore[attr-defined]
                type.__setattr__(cls, "_written", recorded)
                type.__setattr__(cls, "step", staticmethod(step))
        return cls

    def run(cls, tokens: Tokens, *, layers: int | None = None, max_layers: int = 10_000) -> Output:
        """Run the program on the interpreter. The result lists the outputs by position, and has `.layers` and `.text`.

        - `tokens`: the input as tokens, or as text where the program has an alphabet or `encode`.
        - `layers`: run this many layers instead of until the program halts.
        - `max_layers`: raise `DidNotHalt` after this many layers.
        """
        from kleene.machines.interpreter import run

        return run(cls, tokens, layers=layers, max_layers=max_layers)

    def trace(cls, tokens: Tokens, *, layers: int | None = None, max_layers: int = 10_000) -> Trace:
        """Run the program on the interpreter and keep every variable, position and layer. Options as for `run`."""
        from kleene.machines.interpreter import trace

        return trace(cls, tokens, layers=layers, max_layers=max_layers)

    def __repr__(cls) -> str:
        return f"<program {cls.__name__}>"


class LayerProgram:
    """One layer of a program with a cycle, as a program of its own. Constants come from the whole program."""

    def __init__(self, program: ProgramClass, spec: Spec, declared: CycleLayer) -> None:
        self.program, self.spec, self.step = program, spec, declared.step
        self.declared = declared
        self.second: LayerProgram | None = None  # the second step of the layer, which reads no heads
        if declared.second is not None:
            self.second = LayerProgram(program, second_spec(spec), CycleLayer((), declared.second))

    @property
    def first(self) -> LayerProgram:
        """The layer with its first step alone."""
        return LayerProgram(self.program, self.spec, CycleLayer(self.declared.heads, self.step))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)


class Program(metaclass=ProgramClass):
    """The base class of attention programs.

    >>> import kleene as kl
    >>> class Copy(kl.Program):
    ...     tokens = 2
    ...     here = kl.cat(2, token=lambda t: t)
    ...     left = kl.relative(here, -1, default=0)
    ...     output = here
    ...     layers = 1
    ...     def step(z):
    ...         z.here = z.left
    >>> Copy.run([1, 0, 1])
    [0, 1, 0]
    """

    tokens: ClassVar[int | str | Sequence[str]]  # the input alphabet: its size, or its symbols
    text: ClassVar[Text]  # how text becomes tokens, and outputs become text
    output: ClassVar[Variable[int]]  # the variable that holds the result
    halt: ClassVar[Mapping[Variable[int], int]]  # the program is done when every position has these values
    positions: ClassVar[int | None]  # the longest input
    layers: ClassVar[int | None]  # how many layers to run, without `halt`
    causal: ClassVar[bool]  # whether heads see only positions to the left
    stop: ClassVar[int | str | None]  # of a decoder: the token after which it stops
    max_tokens: ClassVar[int | None]  # of a decoder: the most tokens to append
    cycle: ClassVar[Sequence[CycleLayer]]  # the layers that take turns, instead of one `step`

    if TYPE_CHECKING:

        def step(z) -> None: ...


def check_program(where: str, thing: Any) -> None:
    """Check that something is an attention program. `where`: the name of the function that needs one."""
    if not isinstance(thing, ProgramClass):
        of_rasp = type(thing).__module__.startswith("kleene.rasp.")
        hint = "; rasp.to_program(sop, vocab=…, max_seq_len=…) makes one of an s-op" if of_rasp else ""
        raise NotSupported(f"{where}: cannot take {a_type(thing)}; it takes an attention program{hint}")


def sent_program(program: ProgramClass) -> tuple[Callable[..., ProgramClass], tuple[Any, ...]]:
    """A function and arguments that make the program in another process: its module and name, or its class body.

    >>> make, arguments = sent_program(Program)
    >>> arguments, make(*arguments) is Program
    (('kleene.machines.program', 'Program'), True)
    """
    found: Any = sys.modules.get(program.__module__)
    for part in program.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is program and program.__module__ != "__main__":
        return _imported, (program.__module__, program.__qualname__)
    made = {"spec", "by_layer", "_written", "__dict__", "__weakref__"}  # by the class statement
    made |= {"step"} if "_written" in vars(program) else set()
    body = {name: value for name, value in vars(program).items() if name not in made}
    bases = tuple(sent_program(base) if isinstance(base, ProgramClass) else base for base in program.__bases__)
    return _made_again, (program.__name__, bases, body)


def _imported(module: str, name: str) -> Any:
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _made_again(name: str, bases: tuple[Any, ...], body: dict[str, Any]) -> ProgramClass:
    parents = tuple(base[0](*base[1]) if isinstance(base, tuple) else base for base in bases)
    return ProgramClass(name, parents, body)


def step_of(program: ProgramClass | LayerProgram) -> Callable[[Any], None]:
    """The `step` of a program, or of one layer of its cycle."""
    step: Callable[[Any], None] = program.step  # type: ignore[union-attr]
    return step


def _body(cls: ProgramClass) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if isinstance(base, ProgramClass):
            body |= vars(base)
    return body


def _cycle(cls: ProgramClass) -> tuple[CycleLayer, ...]:
    return tuple(_body(cls).get("cycle") or ())
