"""The other way: the s-op of an attention program, so that other RASP tools can run it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from math import lcm
from types import ModuleType
from typing import Any, overload

from kleene.common.means import exact
from kleene.errors import NotSupported
from kleene.machines.interpreter import RunningLayer, run_step
from kleene.machines.kinds import Numerical, Subset, Word
from kleene.machines.program import ProgramClass, check_program
from kleene.machines.spec import HeadSpec, Spec
from kleene.machines.trace import HeadOutput
from kleene.rasp.expressions import SOp

UNDEFINED = "undefined"  # what a head reads where it is not defined


@overload
def to_rasp(program: ProgramClass, *, layers: int | None = None, module: None = None) -> SOp: ...
@overload
def to_rasp(program: ProgramClass, *, layers: int | None = None, module: ModuleType) -> Any: ...
def to_rasp(program: ProgramClass, *, layers: int | None = None, module: ModuleType | None = None) -> Any:
    """Write an attention program as an s-op: the same tokens in, the same outputs out.

    - `layers`: how many layers to run, for a program that halts by itself.
    - `module`: whose classes to build with, `kleene.rasp` by default; `tracr.rasp.rasp` works as well.

    Programs that append tokens, heads that write into variables or prefer a position, and words do not fit.

    >>> import kleene as kl
    >>> flip = kl.to_rasp(kl.library.reverse(5, 3))
    >>> flip([0, 1, 2])
    [2, 1, 0]
    """
    if module is None:
        from kleene import rasp as module
    check_program("to_rasp", program)
    return _Writer(program, module).write(layers)


class _Writer:
    """Write the variables of each layer as s-ops."""

    def __init__(self, program: ProgramClass, rasp: Any) -> None:
        self.program, self.spec, self.rasp = program, program.spec, rasp
        self._check()

    def _check(self) -> None:
        spec, name = self.spec, self.spec.name
        if spec.max_tokens is not None:
            raise NotSupported(f"{name}: appends tokens; an s-op gives one value per position")
        if spec.moves or any(head.prefer is not None for head in spec.heads.values()):
            raise NotSupported(f"{name}: has heads with into= or a preferred position, which RASP's aggregate has not")
        if any(isinstance(kind, Word) for kind in spec.kinds.values()):
            raise NotSupported(f"{name}: has a kl.word, whose values RASP cannot list")

    def write(self, layers: int | None) -> Any:
        count = layers if layers is not None else None if self.spec.halt else self.spec.layers
        if count is None:
            raise NotSupported(f"{self.spec.name}: halts by itself; give layers=, how many to run")
        state = {name: self.initial(name) for name in self.spec.variables}
        for number in range(count):
            state = self.layer(self.program.by_layer[number % len(self.program.by_layer)], state)
        return state[self.spec.output].named(self.spec.output)

    def initial(self, name: str) -> Any:
        variable = self.spec.variables[name]
        values, by_token, by_position = variable.kind.values, variable.by_token, variable.by_position
        if by_token is not None:
            return self.rasp.Map(lambda t: values[by_token[t]], self.rasp.tokens)
        if by_position is not None:
            return self.rasp.Map(lambda p: values[by_position[p]], self.rasp.indices)
        start = values[variable.default]
        return self.rasp.Map(lambda t: start, self.rasp.tokens)

    def layer(self, part: Any, state: dict[str, Any]) -> dict[str, Any]:
        read = {name: self.head(head, state) for name, head in part.spec.heads.items()}
        names = [*state, *read]
        packed = self.packed([*state.values(), *read.values()])
        after = self.rasp.Map(lambda values: _stepped(part, dict(zip(names, values))), packed)
        return {name: self.rasp.Map(_item(name), after, simplify=False) for name in state}

    def packed(self, sops: list[Any]) -> Any:
        """One s-op of tuples."""
        first = self.rasp.Map(lambda x: (x,), sops[0])
        return reduce(lambda one, two: self.rasp.SequenceMap(lambda x, y: (*x, y), one, two), sops[1:], first)

    def head(self, head: HeadSpec, state: dict[str, Any]) -> Any:
        """A head as an aggregate: its query and key, where it looks, at which distances."""
        key = self.sides(head.key, head.among, state)
        query = self.sides(head.query, head.where, state)
        matches = _matches(self.spec, head)
        selector = self.rasp.Select(key, query, matches)
        offsets, causal = head.offsets, self.spec.causal
        if offsets is not None or causal:
            near = lambda k, q: (offsets is None or k - q in offsets) and not (causal and k > q)  # noqa: E731
            selector = selector & self.rasp.Select(self.rasp.indices, self.rasp.indices, near)
        kind, held = head.kind, self.spec.kinds[head.value]
        scale = lcm(*(Fraction(v).denominator for v in held.values)) if isinstance(kind, Numerical) else 1
        as_number = (lambda x: int(x * scale)) if isinstance(kind, Numerical) else held.index
        mean = self.rasp.Aggregate(selector, self.rasp.Map(as_number, state[head.value]), 0)
        nothing = UNDEFINED if head.default is None else kind.values[head.default]

        def read(average: Any, width: int) -> Any:
            if width == 0:
                return (nothing,)
            if isinstance(kind, Numerical):
                return (exact(average) / scale,)
            return (held.values[int(average)] if width == 1 else UNDEFINED,)

        return self.rasp.SequenceMap(read, mean, self.rasp.SelectorWidth(selector))

    def sides(self, name: str | None, limits: Any, state: dict[str, Any]) -> Any:
        """Return what a position shows to a head: its key or query, and whether the head's limits admit it."""
        kinds = self.spec.kinds
        shown = [state[name]] if name is not None else [self.rasp.Map(lambda t: 0, self.rasp.tokens)]
        wanted = [kinds[limit].values[index] for limit, index in limits]
        packed = self.packed([*shown, *(state[limit] for limit, _ in limits)])
        return self.rasp.Map(lambda values: (values[0], list(values[1:]) == wanted), packed, simplify=False)


def _matches(spec: Spec, head: HeadSpec) -> Callable[[Any, Any], bool]:
    asks_sets = head.query is not None and isinstance(spec.kinds[head.query], Subset)

    def matches(key: Any, query: Any) -> bool:
        if not (key[1] and query[1]):
            return False
        return head.query is None or (key[0] in query[0] if asks_sets else key[0] == query[0])

    return matches


def _item(name: str) -> Callable[[Any], Any]:
    return lambda state: dict(state)[name]


class _Known(RunningLayer):
    """A layer whose heads have read known values."""

    def __init__(self, spec: Spec, values: dict[str, Any]) -> None:
        super().__init__(spec, [{name: values[name] for name in spec.variables}], 1)
        self.given = values

    def output(self, head: HeadSpec, position: int) -> HeadOutput:
        (value,) = self.given[head.name]
        return HeadOutput((), None) if isinstance(value, str) else HeadOutput((0,), value)


def _stepped(part: Any, values: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The variables after `step` on known values."""
    return tuple(run_step(part, _Known(part.spec, values), 0).items())
