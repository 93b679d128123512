"""Run a program as written, one position at a time. This file defines what programs mean.

A layer is attention, then `step`. All heads of a layer read the state before it, in parallel.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from fractions import Fraction
from functools import cached_property
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import Any

from kleene.common.output import Output, check_layers
from kleene.common.tokens import Tokens, as_int
from kleene.errors import DidNotHalt, KleeneError, ProgramError, RangeError, StepError, UndefinedRead, WrongReplacement
from kleene.machines.arrays import view
from kleene.machines.bitwords import BitValues, BitWord, with_part
from kleene.machines.declarations import Head, Variable
from kleene.machines.kinds import Categorical, Numerical, Subset, Value, Word, as_number
from kleene.machines.program import LayerProgram, ProgramClass, step_of
from kleene.machines.spec import HeadSpec, Spec
from kleene.machines.trace import HeadOutput, Lines, States, Trace


class RunningLayer:
    """The state before a layer, and what the heads read there."""

    def __init__(self, spec: Spec, states: States, number: int) -> None:
        self.spec, self.states, self.number = spec, states, number
        self.lines: Lines = [{} for _ in states]
        self.running: Sequence[int] = range(len(states))  # the positions that take the step
        self._places: dict[str, dict[Value, list[int]]] = {}

    def _by_key(self, key: str) -> dict[Value, list[int]]:
        """Map each value of a key to the positions that have it."""
        if key not in self._places:
            places: dict[Value, list[int]] = {}
            for position, state in enumerate(self.states):
                places.setdefault(value_of(state, key), []).append(position)
            self._places[key] = places
        return self._places[key]

    def _has(self, position: int, limits: tuple[tuple[str, int], ...]) -> bool:
        """Whether a position has the values that limit a head."""
        state, kinds = self.states[position], self.spec.kinds
        return all(value_of(state, name) == kinds[name].values[index] for name, index in limits)

    def selected(self, head: HeadSpec, position: int) -> tuple[int, ...]:
        """The positions that a head selects from one position."""
        if not self._has(position, head.where):
            return ()
        if head.key is None or head.query is None:
            offsets = range(-position, len(self.states) - position) if head.offsets is None else head.offsets
            found = [position + offset for offset in offsets if 0 <= position + offset < len(self.states)]
        else:
            query, places = value_of(self.states[position], head.query), self._by_key(head.key)
            matches = query if isinstance(self.spec.kinds[head.query], Subset) else (query,)
            found = [j for match in matches for j in places.get(match, ()) if head.allows(j - position)]
        if self.spec.causal:
            found = [j for j in found if j <= position]
        found = sorted(j for j in found if self._has(j, head.among))
        if head.prefer is not None and found:
            return (max(found, key=lambda j: head.rank(j - position)),)
        return tuple(found)

    def output(self, head: HeadSpec, position: int) -> HeadOutput:
        """Return what a head reads. A categorical head needs exactly one position; a numerical head averages."""
        selected = self.selected(head, position)
        if not selected and head.default is not None and not head.counts:
            return HeadOutput(selected, head.kind.values[head.default])
        if head.counts:
            return HeadOutput(selected, Fraction(-1, 1 + len(selected)))
        if isinstance(head.kind, Numerical):
            total = sum((Fraction(value_of(self.states[j], head.value)) for j in selected), Fraction(0))
            return HeadOutput(selected, as_number(total / len(selected)) if selected else None)
        return HeadOutput(selected, value_of(self.states[selected[0]], head.value) if len(selected) == 1 else None)

    @cached_property
    def moved(self) -> States:
        """The state after the heads that write into variables. Every head reads the state before the layer."""
        after = [dict(state) for state in self.states]
        for clear in self.spec.clears.values():
            for i in self.running:
                if self._has(i, clear.where):
                    after[i] |= {name: self.spec.kinds[name].values[0] for name in clear.variables}
        written: set[tuple[int, str]] = set()
        for head in self.spec.moves.values():
            assert head.into is not None
            outputs = {i: self.output(head, i) for i in self.running if self._has(i, head.where)}
            if head.replacing is not None:
                outputs = {i: output for i, output in outputs.items() if output.selected}
            for i, output in outputs.items():
                if output.value is None:
                    raise UndefinedRead(self.spec.name, head.name, i, self.number, len(output.selected))
                if (i, head.into) in written:
                    raise WrongReplacement(self.spec.name, head.name, head.into, "another head", i, self.number)
                written.add((i, head.into))
                name, value = with_part(after[i], head.into, output.value)
                after[i][name] = value
            for i, output in outputs.items():
                if head.replacing is None:
                    continue
                old = value_of(self.states[output.selected[0]], head.replacing)
                if old != value_of(self.states[i], head.into):
                    raise WrongReplacement(self.spec.name, head.name, head.into, head.replacing, i, self.number)
        return after


class PositionState:
    """`z` in `step`: the variables and head outputs of one position."""

    def __init__(
        self, program: ProgramClass | LayerProgram, layer: RunningLayer, position: int, values: dict[str, Value]
    ) -> None:
        vars(self).update(_program=program, _layer=layer, _position=position)
        vars(self).update(_values=values)

    def __getattr__(self, name: str) -> Any:
        spec, values = self._program.spec, self._values
        if name in values:
            return _read(spec, name, values[name])
        if name in spec.heads:
            head = spec.heads[name]
            output = self._layer.output(head, self._position)
            if output.value is None:
                raise UndefinedRead(spec.name, name, self._position, self._layer.number, len(output.selected))
            value = self._nearest(head, output.value)
            return head.read_values[head.kind.index(value) or 0] if head.counts else _read(spec, name, value)
        return class_constant(self._program, name, self)

    def _nearest(self, head: HeadSpec, value: Value) -> Value:
        if not isinstance(head.kind, Numerical):
            return value
        try:
            if head.counts and head.kind.index(value) is None:
                raise RangeError(
                    f"the head counts {-1 / value - 1} positions, more than the {len(head.kind) - 1} declared"
                )
            return head.kind.nearest(value)
        except RangeError as error:
            where = f"at position {self._position} in layer {self._layer.number}"
            raise RangeError(f"{self._program.spec.name}: '{head.name}' {where}: {error}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._values and (array := view(self, self._program, name)) is not None:
            return array.assign(value)
        self._values[name] = checked_write(self._program.spec, name, value)
        self._layer.lines[self._position][name] = executing_line(self._program)


def value_of(state: Mapping[str, Value], name: str) -> Any:
    """Return what a variable, or a part of a word, holds."""
    return state[name] if name in state else BitValues(state)[name]


def _read(spec: Spec, name: str, value: Value) -> Value:
    """A value as `step` reads it: words know their width."""
    kind = spec.kinds[name]
    return BitWord(value, kind.bits) if isinstance(kind, Word) else value


@contextmanager
def quiet() -> Iterator[None]:
    """`step` prints only in runs. It prints nothing while it is read, or checked on many states."""
    with redirect_stdout(_Nowhere()):
        yield


class _Nowhere(io.TextIOBase):
    def write(self, text: str, /) -> int:
        return len(text)


def executing_line(program: ProgramClass | LayerProgram) -> int | None:
    """The line of the program's file that is running now, in `step` or in a function that it calls."""
    filename = getattr(getattr(step_of(program), "__code__", None), "co_filename", None)
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != filename:
        frame = frame.f_back
    return frame.f_lineno if frame is not None else None


def class_constant(program: ProgramClass | LayerProgram, name: str, state: Any) -> Any:
    """Read `z.NAME`: an array, a constant of the class, a method bound to `z`, a property. Reject any other name."""
    if (array := view(state, program, name)) is not None:
        return array
    if name in program.spec.moves:
        into = program.spec.moves[name].into
        raise ProgramError(f"{program.spec.name}: step reads '{name}', which writes into '{into}'; read '{into}'")
    if not name.startswith("_") and hasattr(program, name) and not hasattr(ProgramClass, name):
        found = getattr(program, name)
        if isinstance(found, Head):
            raise ProgramError(f"{program.spec.name}: step reads '{name}', which is not a head of its layer")
        if isinstance(found, Variable):
            raise ProgramError(f"{program.spec.name}: step reads '{name}', a second name of a variable; use the first")
        declared = getattr_static(program if isinstance(program, type) else program.program, name)
        if isinstance(declared, property) and declared.fget is not None:
            return declared.fget(state)
        return MethodType(declared, state) if isinstance(declared, FunctionType) else found
    known = ", ".join(program.spec.kinds)
    raise ProgramError(f"{program.spec.name}: step reads '{name}', which is not declared; declared: {known}")


def checked_write(spec: Spec, name: str, value: Any) -> Value:
    """Convert a value to what the variable holds, or raise an error that says why it cannot be written."""
    if name in spec.heads or name in spec.moves:
        raise ProgramError(f"{spec.name}: step writes '{name}', the output of a head; heads are only read")
    if name not in spec.variables:
        known = ", ".join(spec.variables)
        raise ProgramError(f"{spec.name}: step writes '{name}', which is not declared; declared: {known}")
    kind = spec.variables[name].kind
    index = spec.variables[name].write(value)
    if index is None:
        raise RangeError(
            f"{spec.name}: step writes {value!r} to '{name}', outside {kind.describe()}{remedy(spec, name, value)}"
        )
    return kind.values[index]


def remedy(spec: Spec, name: str, value: Any) -> str:
    """Return what may help where a whole number is outside the range of a variable."""
    if isinstance(spec.variables[name].kind, Categorical) and as_int(value) is not None:
        return "; kl.cat(…, saturate=True) or wrap=True would keep the value inside"
    return ""


def run_step(program: ProgramClass | LayerProgram, layer: RunningLayer, position: int) -> dict[str, Value]:
    """Run `step` at one position, and the second step where the layer has one; the variables after it."""
    state = PositionState(program, layer, position, dict(layer.moved[position]))
    try:
        step_of(program)(state)
        if isinstance(program, LayerProgram) and program.second is not None:
            state = PositionState(program.second, layer, position, state._values)
            step_of(program.second)(state)
    except KleeneError:
        raise
    except Exception as error:
        raise StepError(
            f"{program.spec.name}: step raises {type(error).__name__}: {error} "
            f"at position {position} in layer {layer.number}"
        ) from error
    after: dict[str, Value] = state._values
    return after


def initial_states(spec: Spec, tokens: Sequence[int]) -> States:
    """The variables of every position before the first layer."""
    return [
        {name: variable.kind.values[variable.initial(token, place)] for name, variable in spec.variables.items()}
        for place, token in enumerate(tokens)
    ]


def halted(spec: Spec, states: States) -> bool:
    """Whether every position has the halting values."""
    wanted = {name: spec.variables[name].kind.values[index] for name, index in spec.halt.items()}
    return bool(wanted) and all(state[name] == value for state in states for name, value in wanted.items())


def layers_of(
    program: ProgramClass, tokens: Tokens, layers: int | None = None, max_layers: int = 10_000
) -> Iterator[tuple[RunningLayer, States]]:
    """Run layer by layer; yield each layer and the states after it."""
    spec = program.spec
    check_layers(spec.name, layers, 0 if spec.max_tokens is None else 1)
    states = initial_states(spec, spec.check_input(tokens))
    fixed = layers if layers is not None else None if spec.halt else spec.layers
    number = 0
    while number != fixed:
        if fixed is None and number >= max_layers:
            raise DidNotHalt(f"{spec.name}: did not halt within {max_layers:,} layers (max_layers)")
        part = program.by_layer[number % len(program.by_layer)]
        layer = RunningLayer(part.spec, states, number + 1)
        states = [run_step(part, layer, position) for position in range(len(states))]
        number += 1
        yield layer, states
        if fixed is None and halted(spec, states):
            return


def run(program: ProgramClass, tokens: Tokens, *, layers: int | None = None, max_layers: int = 10_000) -> Output:
    """Run a program; the output of each position, or the tokens that a decoder appends."""
    if program.spec.max_tokens is not None:
        return decode(program, tokens, layers=layers)
    every = [states for _, states in layers_of(program, tokens, layers, max_layers)]
    final = every[-1] if every else initial_states(program.spec, program.spec.check_input(tokens))
    return Output((int(state[program.spec.output]) for state in final), len(every), program.spec.answer)


def decode(program: ProgramClass, tokens: Tokens, *, layers: int | None = None) -> Output:
    """Append the output of the last position until `stop` or `max_tokens`; return the appended tokens."""
    spec = program.spec
    sequence, number = spec.check_input(tokens), 0
    made: list[int] = []
    assert spec.max_tokens is not None
    while len(made) < spec.max_tokens and (spec.stop is None or made[-1:] != [spec.stop]):
        every = [states for _, states in layers_of(program, sequence + made, layers)]
        number += len(every)
        made.append(int(every[-1][-1][spec.output]))
    return Output(made, number, spec.answer)


def trace(program: ProgramClass, tokens: Tokens, *, layers: int | None = None, max_layers: int = 10_000) -> Trace:
    """Run a program and keep every variable, head, position and layer."""
    spec = program.spec
    kept, heads, lines = [initial_states(spec, spec.check_input(tokens))], [], []
    for layer, states in layers_of(program, tokens, layers, max_layers):
        looking = {**layer.spec.heads, **layer.spec.moves}
        heads.append({name: [layer.output(head, i) for i in range(len(states))] for name, head in looking.items()})
        kept.append(states)
        lines.append(layer.lines)
    return Trace(spec, tuple(spec.check_input(tokens)), tuple(kept), tuple(heads), "interpreter", program, tuple(lines))
