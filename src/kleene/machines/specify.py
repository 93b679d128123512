"""The check of a class body: it makes the `Spec` of a program, or says which variable breaks which rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

from kleene.common.text import Text, alphabet_problem
from kleene.common.tokens import as_int
from kleene.errors import ProgramError
from kleene.machines.bitwords import overlap, part_name, word_of_name
from kleene.machines.declarations import Clear, Counted, CycleLayer, Head, Variable, WordPart
from kleene.machines.kinds import MAX_VALUES, Categorical, Kind, Numerical, Subset, Word
from kleene.machines.spec import ClearSpec, Counting, HeadSpec, Spec, VariableSpec, inside

RESERVED = ("tokens", "output", "halt", "positions", "layers", "causal", "stop", "max_tokens", "step", "rules", "cycle")
TAKEN = ("run", "trace", "spec", "by_layer")  # what every program has
MAX_DEFAULT_POSITIONS = 512

CycleLayers = tuple[tuple[str, tuple[str, ...]], ...]  # (layer, names of its heads)


def specify(name: str, body: dict[str, Any], taken: type) -> Spec:
    """Make the `Spec` of a program, or raise a `ProgramError` that says what is wrong.

    - `name`: the name of the program, for messages.
    - `body`: the attributes of its class, those of base classes included.
    - `taken`: a class; a variable may not have the name of one of its attributes.
    """
    names: dict[int, str] = {}  # from the identity of a declaration to its attribute
    for attribute, thing in body.items():
        if attribute == "output" or not isinstance(thing, Variable | Head | Clear) or isinstance(thing, WordPart):
            continue
        if attribute in RESERVED:
            raise ProgramError(
                f"{name}: '{attribute}' is an attribute of programs; give the variable another name "
                f"(taken: {', '.join((*RESERVED, *TAKEN))})"
            )
        if attribute.startswith("_"):
            raise ProgramError(f"{name}: the variable '{attribute}' must not start with an underscore")
        if hasattr(taken, attribute) or attribute in TAKEN:
            raise ProgramError(
                f"{name}: every program has '{attribute}'; give the variable another name "
                f"(taken: {', '.join((*RESERVED, *TAKEN))})"
            )
        if id(thing) in names:
            raise ProgramError(
                f"{name}: '{names[id(thing)]}' and '{attribute}' are the same declaration; declare each "
                "variable by itself"
            )
        names[id(thing)] = attribute
    return _Checker(name, body, names).spec()


class _Checker:
    """Turn a class body into a `Spec`, or say which variable breaks which rule."""

    def __init__(self, name: str, body: dict[str, Any], names: dict[int, str]) -> None:
        self.name, self.body, self.names = name, body, names

    def fail(self, message: str) -> ProgramError:
        return ProgramError(f"{self.name}: {message}")

    def spec(self) -> Spec:
        tokens = self._tokens()
        has_cycle = self._has_cycle()
        declared = {self.names[id(thing)]: thing for thing in self.body.values() if id(thing) in self.names}
        plain = {name: thing for name, thing in declared.items() if isinstance(thing, Variable)}
        positions = self._positions(plain)
        variables = {name: self._variable(name, thing, tokens, positions) for name, thing in plain.items()}
        every = {name: self._head(name, thing) for name, thing in declared.items() if isinstance(thing, Head)}
        clears = self._clears(declared, has_cycle)
        cycle = self._cycle({**every, **clears}) if has_cycle else ()
        for names in [names for _, names in cycle] or [tuple(every)]:
            self._check_moves([every[name] for name in names if name in every])
            self._check_clears(names, clears, every)
        halt, layers = self._halt(plain), self._whole("layers", at_least=1)
        text = self._text()
        stop, max_tokens = self._stop(text), self._whole("max_tokens", at_least=1)
        self._check_end(halt, layers, max_tokens)
        return Spec(
            name=self.name,
            tokens=tokens,
            positions=positions,
            variables=variables,
            heads={name: head for name, head in every.items() if head.into is None},
            output=self._output(plain, tokens if max_tokens else None),
            halt=halt,
            layers=layers,
            causal=bool(self.body.get("causal", False)) or max_tokens is not None,
            stop=stop,
            max_tokens=max_tokens,
            moves={name: head for name, head in every.items() if head.into is not None},
            cycle=cycle,
            clears=clears,
            text=text,
            encoder=self._function("encode"),
            decoder=self._function("decode"),
        )

    def _function(self, name: str) -> Any:
        """A function of the class, such as `encode`; None where there is none, or a variable of this name."""
        found = self.body.get(name)
        found = found.__func__ if isinstance(found, staticmethod) else found
        return found if callable(found) and not isinstance(found, Variable | Head) else None

    def _text(self) -> Text | None:
        """The alphabet, from `tokens` as a text or a list of symbols, and how text is written, from `text`."""
        declared, tokens = self.body.get("text"), self.body.get("tokens")
        text = declared if isinstance(declared, Text) else None
        alphabet = text.alphabet if text is not None and not isinstance(tokens, str | list | tuple) else tokens
        if not isinstance(alphabet, str | list | tuple) or not alphabet:
            return None
        made = (text or Text()).with_alphabet(tuple(alphabet))
        for mark, symbols in {"start": [made.start], "end": [made.end], "align": made.align}.items():
            for symbol in symbols:
                if symbol and symbol not in made.alphabet:
                    raise self.fail(f"text: {mark}={symbol!r} is not in the alphabet {made.shown()}")
        if made.align and (len(made.align) != 2 or made.spaced):
            raise self.fail(f"text: align={made.align!r} must be a sign and a digit, such as '+0'")
        if len(made.alphabet) != self._tokens():
            raise self.fail(
                f"text: the alphabet has {len(made.alphabet)} symbols, but the program has {self._tokens()} tokens"
            )
        if self.body.get("max_tokens") is not None and not made.names:  # a decoder writes tokens
            made = replace(made, names=made.alphabet)
        return made

    def _stop(self, text: Text | None) -> int | None:
        stop = self.body.get("stop")
        if isinstance(stop, str) and text is not None:
            if stop not in text.alphabet:
                raise self.fail(f"stop = {stop!r} is not in the alphabet {text.shown()}")
            return text.alphabet.index(stop)
        return self._whole("stop", at_least=0)

    def _clear(self, name: str, clear: Clear) -> ClearSpec:
        variables = tuple(self._named(name, "variable", variable) for variable in clear.variables)
        for one, variable in zip(variables, clear.variables):
            if not isinstance(variable.kind, Word | Categorical):
                raise self.fail(f"'{name}' clears '{one}', a {variable.kind.name}; only words and cats are cleared")
        return ClearSpec(name, variables, self._limits(name, "where", clear.where))

    def _clears(self, declared: dict[str, Any], has_cycle: bool) -> dict[str, ClearSpec]:
        clears = {name: self._clear(name, thing) for name, thing in declared.items() if isinstance(thing, Clear)}
        if clears and not has_cycle:
            raise self.fail(f"'{min(clears)}' is a kl.clear; only the layers of a cycle take one")
        return clears

    def _check_clears(self, names: tuple[str, ...], clears: dict[str, ClearSpec], every: dict[str, HeadSpec]) -> None:
        """Reject variables that a layer clears twice, or clears and also writes by a head."""
        heads = [every[name] for name in names if name in every]
        written = {word_of_name(head.into): head.name for head in heads if head.into is not None}
        for clear in (clears[name] for name in names if name in clears):
            for variable in clear.variables:
                if variable in written:
                    raise self.fail(f"'{written[variable]}' and '{clear.name}' both write '{variable}' in one layer")
                written[variable] = clear.name

    def _tokens(self) -> int:
        declared = self.body.get("tokens")
        if isinstance(declared, str | list | tuple):
            problem = alphabet_problem(declared)
            if problem is not None:
                raise self.fail(f"'tokens', the alphabet: {problem}")
            return len(declared)
        tokens = self._whole("tokens", at_least=1)
        if tokens is None:
            raise self.fail("'tokens', the size of the input alphabet, is missing")
        if tokens > MAX_VALUES:
            raise self.fail(f"'tokens' is {tokens:,}, more than the {MAX_VALUES:,} allowed")
        return tokens

    def _has_cycle(self) -> bool:
        """Whether the program has a cycle of layers instead of one `step` (or `rules`). It must have one of them."""
        steps = [name for name in ("step", "rules", "cycle") if self.body.get(name)]
        if not steps or (steps != ["cycle"] and not callable(self.body[steps[0]])):
            raise self.fail("'step' is missing: def step(z): … (or def rules(b): …, or cycle = (layer, …))")
        layers = [one for one in self.body.get("cycle") or () if isinstance(one, CycleLayer)]
        for step in [self.body.get("step"), *(each for one in layers for each in (one.step, one.second))]:
            plain = step.__func__ if isinstance(step, staticmethod) else step
            if isinstance(plain, FunctionType) and plain.__code__.co_argcount - len(plain.__defaults__ or ()) > 1:
                named = ", ".join(plain.__code__.co_varnames[: plain.__code__.co_argcount])
                raise self.fail(
                    f"'{plain.__name__}({named})': a step takes one argument, the state of a position, without self: "
                    f"def {plain.__name__}(z): …"
                )
        return steps == ["cycle"]

    def _check_end(self, halt: dict[str, int], layers: int | None, max_tokens: int | None) -> None:
        """Reject a program that does not say when it ends, and a decoder with `halt`."""
        if not halt and layers is None:
            raise self.fail("say when the program ends: halt = {variable: value}, or layers = a number")
        if max_tokens is not None and (halt or layers is None):
            raise self.fail("a decoder (max_tokens) runs a fixed number of layers per token and has no halt")

    def _cycle(self, heads: Mapping[str, HeadSpec | ClearSpec]) -> CycleLayers:
        declared = self.body["cycle"]
        names = {id(thing): name for name, thing in self.body.items() if isinstance(thing, CycleLayer)}
        if not isinstance(declared, tuple | list) or not all(isinstance(one, CycleLayer) for one in declared):
            raise self.fail(f"cycle must be a tuple of steps declared with @kl.layer(…), not {declared!r}")
        made = []
        for place, one in enumerate(declared):
            for head in one.heads:
                if id(head) not in self.names:
                    raise self.fail(f"layer {place + 1} of the cycle has a head that is not in this program")
            made.append((names.get(id(one), f"layer {place + 1}"), tuple(self.names[id(head)] for head in one.heads)))
        idle = heads.keys() - {name for _, used in made for name in used}
        if idle:
            raise self.fail(f"the head '{min(idle)}' is not in any layer of the cycle")
        return tuple(made)

    def _check_moves(self, heads: list[HeadSpec]) -> None:
        """Reject two heads of a layer that write one variable.

        Reject also a head that writes a variable which limits another head of its layer.
        """
        written: dict[str, str] = {}
        first_of: dict[
            str, HeadSpec
        ] = {}  # heads that replace may share a variable; two writes at once are an error of the run
        for head in heads:
            if head.into is None:
                continue
            for other, name in written.items():
                shared = overlap(other, head.into)
                if shared and not (other == head.into and head.replacing and first_of[other].replacing):
                    raise self.fail(f"'{name}' and '{head.name}' write into '{head.into}' in the same layer")
            written[head.into] = head.name
            first_of.setdefault(head.into, head)
        for head in heads:
            for name, _ in (*head.where, *head.among):
                for other in written:
                    if overlap(other, name):
                        raise self.fail(
                            f"'{written[other]}' writes into '{other}', which limits '{head.name}' in the same layer"
                        )

    def _limits(self, head: str, side: str, given: Any) -> tuple[tuple[str, int], ...]:
        if given is None:
            return ()
        if not isinstance(given, dict) or not given:
            raise self.fail(f"the head '{head}': {side} must be {{variable: value}}, not {given!r}")
        limits = []
        for variable, value in given.items():
            name = self._named(head, side, variable)
            if isinstance(variable, WordPart) and variable.kind == Word(1) and value == 1:
                limits.append((name, 1))
                continue
            index = variable.kind.index(value)
            if index is None or not isinstance(variable.kind, Categorical):
                raise self.fail(
                    f"the head '{head}': {side} asks for {value!r} in '{name}', not a value of a kl.cat; of a word it "
                    "may ask for a bit that is 1, {w[3]: 1}"
                )
            limits.append((name, index))
        return tuple(sorted(limits))

    def _into(self, name: str, head: Head[Any], kind: Kind) -> tuple[str | None, str | None]:
        """The variable that a head writes into, and the variable whose value it replaces."""
        if head.into is None:
            if head.replacing is not None:
                raise self.fail(f"the head '{name}' has replacing= without into=")
            return None, None
        into = self._named(name, "into", head.into)
        if isinstance(kind, Numerical) or head.into.kind != kind:
            raise self.fail(
                f"the head '{name}' cannot write a {kind.name} into '{into}' ({head.into.kind.name}); "
                "both must be of the same kind, and not averages"
            )
        if head.replacing is None:
            return into, None
        replaced = self._named(name, "replacing", head.replacing)
        if head.replacing is head.value:
            raise self.fail(f"the head '{name}' replaces '{replaced}' with itself")
        if head.replacing.kind != kind or head.default is not None:
            raise self.fail(f"the head '{name}': replacing= takes a variable of the kind of '{into}', and no default")
        return into, replaced

    def _whole(self, attribute: str, at_least: int) -> int | None:
        value = self.body.get(attribute)
        if value is None:
            return None
        whole = as_int(value)
        if whole is None or whole < at_least:
            raise self.fail(f"'{attribute}' must be a whole number of at least {at_least}, not {value!r}")
        return whole

    def _initial(self, name: str, variable: Variable[Any], function: Callable[[int], Any], of: str, at: int) -> int:
        try:
            value = function(at)
        except Exception as error:
            raise self.fail(f"the initialiser of '{name}' raises {error!r} for {of} {at}") from None
        index = variable.kind.index(inside(variable.kind, variable.outside, value))
        if index is None:
            raise self.fail(
                f"the initialiser of '{name}' returns {value!r} for {of} {at}, outside {variable.kind.describe()}"
            )
        return index

    def _positions(self, variables: dict[str, Variable[Any]]) -> int | None:
        declared = self._whole("positions", at_least=1)
        placed = {name: variable for name, variable in variables.items() if variable.position is not None}
        stored = {name: one for name, one in placed.items() if not isinstance(one.position, Counted)}
        if stored and declared is not None and declared > MAX_VALUES:
            raise self.fail(
                f"'positions' is {declared:,}; with a table for '{min(stored)}' at most {MAX_VALUES:,} are allowed"
            )
        if declared is not None or not placed:
            return declared
        for place in range(MAX_DEFAULT_POSITIONS):
            for name, variable in stored.items():
                try:
                    assert variable.position is not None
                    self._initial(name, variable, variable.position, "position", place)
                except ProgramError:
                    if place == 0:
                        raise
                    return place
        return MAX_DEFAULT_POSITIONS

    def _variable(self, name: str, variable: Variable[Any], tokens: int, positions: int | None) -> VariableSpec:
        kind, by_token, by_position = variable.kind, None, None
        if variable.token is not None:
            by_token = tuple(self._initial(name, variable, variable.token, "token", t) for t in range(tokens))
        if isinstance(variable.position, Counted):
            if not isinstance(kind, Word):
                raise self.fail(f"'{name}' counts positions; only a kl.word can")
            assert positions is not None
            counted = Counting(variable.position.offset % (1 << kind.bits), kind.bits, positions)
            return VariableSpec(name, kind, None, counted, 0)
        if variable.position is not None:
            assert positions is not None
            by_position = tuple(
                self._initial(name, variable, variable.position, "position", p) for p in range(positions)
            )
        if isinstance(kind, Word) and (by_token or by_position) and not any(by_token or by_position or ()):
            return VariableSpec(
                name, kind, None, None, 0, variable.outside
            )  # the weights of a table of zeros equal those of no table
        default = self._default(name, kind, variable.default)
        return VariableSpec(name, kind, by_token, by_position, default, variable.outside)

    def _default(self, name: str, kind: Kind, value: Any) -> int:
        if value is None:  # zero or the empty set where the kind has it, else its first value
            zero = kind.index(frozenset() if isinstance(kind, Subset) else 0)
            return 0 if zero is None else zero
        index = kind.index(value)
        if index is None:
            raise self.fail(f"the default {value!r} of '{name}' is outside {kind.describe()}")
        return index

    def _named(self, head: str, role: str, thing: Any) -> str:
        if isinstance(thing, Head):
            raise self.fail(
                f"the head '{head}' has the head '{self.names.get(id(thing), '?')}' as its {role}; "
                "heads of a layer run in parallel: copy it into a variable in step"
            )
        if isinstance(thing, WordPart) and id(thing.word) in self.names and isinstance(thing.kind, Word):
            return part_name(self.names[id(thing.word)], thing.start, thing.start + thing.kind.bits)
        if not isinstance(thing, Variable) or id(thing) not in self.names:
            raise self.fail(f"the {role} of the head '{head}' is {thing!r}, not a variable of this program")
        return self.names[id(thing)]

    def _head(self, name: str, head: Head[Any]) -> HeadSpec:
        value = self._counted(head) if head.counts else self._named(name, "value", head.value)
        query = key = None
        if (head.query is None) != (head.key is None):
            raise self.fail(f"the head '{name}' needs both a query and a key")
        if head.query is not None and head.key is not None:
            query, key = self._named(name, "query", head.query), self._named(name, "key", head.key)
            self._match(name, query, head.query.kind, key, head.key.kind)
        kind = head.output or head.value.kind
        averages = isinstance(kind, Numerical) and (head.counts or isinstance(head.value.kind, Numerical | Categorical))
        if not averages and kind != head.value.kind:
            raise self.fail(
                f"the head '{name}' cannot turn its value '{value}' ({head.value.kind.name}) into a {kind.name}; "
                "output= may be kl.num(values=…) for a cat or num value"
            )
        if head.offsets is not None and not head.offsets:
            raise self.fail(f"the head '{name}' has empty offsets; give at least one")
        kind, default = self._head_default(name, kind, head)
        where, among = self._limits(name, "where", head.where), self._limits(name, "among", head.among)
        into, replaced = self._into(name, head, kind)
        return HeadSpec(
            name, query, key, value, head.offsets, default, kind, where, among, into, replaced, head.prefer, head.counts
        )

    def _head_default(self, name: str, kind: Kind, head: Head[Any]) -> tuple[Kind, int | None]:
        """The kind and the default of a head. A default above the range of a cat adds values to the kind."""
        value = len(kind) if head.default == "none" else head.default
        above = as_int(value)
        if isinstance(kind, Categorical) and above is not None and above >= len(kind):
            if above > MAX_VALUES:
                raise self.fail(f"the default {value!r} of '{name}' is too large")
            kind = Categorical(above + 1)
        elif head.default == "none":
            raise self.fail(f"the head '{name}' has default=\"none\", which only a kl.cat has; give one of its values")
        return kind, None if value is None else self._default(name, kind, value)

    def _counted(self, head: Head[Any]) -> str:
        """The value of a head that counts: it adds nothing, so that any variable will do."""
        every = [name for name, thing in self.body.items() if isinstance(thing, Variable) and id(thing) in self.names]
        return self.names.get(id(head.key), every[0] if every else "")

    def _match(self, head: str, query: str, asked: Kind, key: str, held: Kind) -> None:
        if isinstance(asked, Word) and isinstance(held, Word):
            sizes = (asked.bits, held.bits)
        elif isinstance(asked, Categorical | Subset) and isinstance(held, Categorical):
            sizes = (asked.range, held.range)
        else:
            raise self.fail(
                f"the head '{head}' cannot match the query '{query}' ({asked.name}) with the key '{key}' "
                f"({held.name}); a query is a cat or subset with a cat key, or a word with a word key"
            )
        if sizes[0] != sizes[1]:
            raise self.fail(
                f"the head '{head}' matches the query '{query}' (range {sizes[0]}) with the key '{key}' "
                f"(range {sizes[1]}); the ranges must be equal"
            )

    def _output(self, variables: dict[str, Variable[Any]], tokens: int | None) -> str:
        output = self.body.get("output")
        name = self.names.get(id(output))
        if output is None:
            raise self.fail("'output', the variable that is the result, is missing")
        if name not in variables and isinstance(output, Variable):
            raise self.fail("'output' must be one of this program's variables; give it a name of its own first")
        if name not in variables:
            raise self.fail("'output' must be one of this program's variables (a head's value: copy it in step)")
        kind = variables[name].kind
        if not isinstance(kind, Categorical | Word):
            raise self.fail(f"the output '{name}' is a {kind.name}; it must be categorical (kl.cat)")
        if tokens is not None and len(kind) > tokens:
            raise self.fail(f"the output '{name}' of a decoder has {len(kind)} values, more than the {tokens} tokens")
        return name

    def _halt(self, variables: dict[str, Variable[Any]]) -> dict[str, int]:
        halt = self.body.get("halt") or {}
        if not isinstance(halt, dict):
            raise self.fail(f"halt must be {{variable: value}}, not {halt!r}")
        result = {}
        for variable, value in halt.items():
            name = self.names.get(id(variable))
            if name not in variables:
                raise self.fail(f"halt names {variable!r}, which is not a variable of this program")
            index = variables[name].kind.index(value)
            if index is None or not isinstance(variables[name].kind, Categorical):
                raise self.fail(f"halt waits for {value!r} in '{name}'; it must be a value of a categorical variable")
            result[name] = index
        return result
