"""The automaton of a transformer that reads words, from its guarded updates alone.

The intention of `compile` does not matter. Each reader checks that the heads look where its lemma says, evaluates the
updates on every value that they read, and returns the automaton that then follows by induction over the word. NotExact
names the first condition that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kleene.common.search import breadth_first
from kleene.errors import DidNotHalt, NotExact, NotSupported
from kleene.lowering.rule_machine import RuleMachine
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.operations import alive
from kleene.machines.spec import HeadSpec, Spec

Array = np.ndarray
MAX_TUPLES = 50_000


def need(holds: bool, what: str) -> None:
    """Raise NotExact unless a condition of a lemma holds."""
    if not holds:
        raise NotExact(f"the updates are not an automaton's: {what}")


def read_automaton(words: dict[str, Any], updates: Updates | Cycle) -> DFA:
    """The automaton that guarded updates compute on words that become tokens as `words` says."""
    try:
        reader = READERS[words["depth"]]
        _check_frame(words)
        found = reader(words, updates, tuple(words["alphabet"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise NotExact(f"the updates are not an automaton's ({error!r})") from None
    return found


def _check_frame(words: dict[str, Any]) -> None:
    """How words become tokens and answers, as far as it does not depend on the updates."""
    depth, length, copies = words["depth"], words["length"], words["copies"]
    need(type(copies) is int and (copies == 1 or depth == "logarithmic by states"), "copies of each symbol")
    need(("allowed" in words) == (depth in ("decoder", "sequential decoder")), "where the answer stands")
    limited = type(length) is int and length >= 0
    need(limited or (length is None and depth == "sequential"), "the longest word")
    need(words["answer"] is None or type(words["answer"]) is int, "the position of the answer")
    alphabet = words["alphabet"]
    need(all(isinstance(symbol, str) for symbol in alphabet) and len({*alphabet}) == len(alphabet), "the alphabet")


class Evaluated:
    """The updates of one layer, as a function of arrays."""

    def __init__(self, updates: Updates) -> None:
        self.updates, self.spec = updates, updates.spec
        self.machine = RuleMachine(updates)
        self.names = [*self.spec.variables, *self.spec.heads]

    def __call__(self, variable: str, **given: Array) -> Array:
        """A variable after the updates, on arrays of the values that its updates read."""
        reads = frozenset[str]().union(
            *(u.reads for u in self.updates.of(variable)), *(u.reads for u in self.updates.of_word(variable))
        )
        for predicate in self.updates.predicates:  # comparisons of words, which guards name
            if predicate.name in reads:
                reads = reads - {predicate.name} | {name.partition("[")[0] for name, _ in predicate.terms}
        need(reads <= given.keys(), f"'{variable}' depends on {sorted(reads - given.keys())}")
        size = len(next(iter(given.values())))
        every = {name: given.get(name, np.zeros(size, dtype=np.int64)) for name in self.names}
        state = {name: every[name] for name in self.spec.variables}
        heads = {name: every[name] for name in self.spec.heads}
        return np.asarray(self.machine.step(state, heads)[variable])

    def keeps(self, variable: str) -> bool:
        """Whether no update writes a variable."""
        return not self.updates.of(variable) and not self.updates.of_word(variable)


def grid(**sizes: int) -> dict[str, Array]:
    """All combinations of values, one flat array per name."""
    found = np.indices(list(sizes.values())).reshape(len(sizes), -1)
    return {name: found[i] for i, name in enumerate(sizes)}


def relative_head(head: HeadSpec, value: str, offset: int, into: str | None, default: int | None) -> bool:
    """Whether a head reads a variable at an offset, everywhere, and writes it into a variable (or nowhere)."""
    plain = head.query is None and head.replacing is None and head.plain
    return plain and (head.value, head.offsets, head.into, head.default) == (value, frozenset([offset]), into, default)


# --- one position per layer -----------------------------------------------------------------------------------


def _sequential(words: dict[str, Any], updates: Updates | Cycle, alphabet: tuple[str, ...]) -> DFA:
    need(isinstance(updates, Updates), "one block loops")
    assert isinstance(updates, Updates)
    spec, symbols = updates.spec, len(alphabet)
    v, states = spec.variables, len(spec.kinds["state"])
    need(words["before"] == [symbols] and not words["after"] and words["answer"] is None, "the frame of the words")
    need(relative_head(spec.heads["state_left"], "state", -1, None, None), "'state_left'")
    need(relative_head(spec.heads["done_left"], "done", -1, None, None), "'done_left'")
    need(not spec.moves and spec.output == "accepts" and spec.halt == {"done": 1} and not spec.causal, "heads and halt")
    need(v["symbol"].by_token is not None and v["symbol"].by_token[:symbols] == tuple(range(symbols)), "'symbol'")
    need(v["done"].by_token == (*[0] * symbols, 1), "'done'")
    need(v["state"].by_token is None and v["state"].by_position is None, "'state' before the word")
    need(v["accepts"].by_token is None and v["accepts"].by_position is None, "'accepts' before the word")
    layer = Evaluated(updates)
    sizes = {"state": states, "symbol": symbols, "done": 2, "done_left": 2, "state_left": states, "accepts": 2}
    for name in ("state", "done", "accepts"):
        reads = frozenset([name]).union(*(u.reads for u in updates.of(name)))
        every = grid(**{n: sizes[n] for n in sorted(reads | {"done", "done_left"})})
        rest = (every["done"] == 1) | (every["done_left"] == 0)
        need(bool((layer(name, **every)[rest] == every[name][rest]).all()), f"'{name}' changes at the wrong time")
    need(layer.keeps("symbol"), "'symbol' changes")
    now = grid(state_left=states, symbol=symbols)
    size = len(now["symbol"])
    now |= {"done": np.zeros(size, dtype=int), "done_left": np.ones(size, dtype=int)}
    old = {name: np.full(size, v[name].default) for name in ("state", "accepts")}
    need(bool((layer("done", **now) == 1).all()), "'done' stays 0")
    after, answers = layer("state", **now, **old), layer("accepts", **now, **old)
    accepting = np.zeros(states, dtype=bool)
    accepting[after] = answers == 1
    accepting[v["state"].default] = v["accepts"].default == 1
    need(bool((accepting[after] == (answers == 1)).all()), "answers are not those of states")
    return DFA(after.reshape(states, symbols), accepting, alphabet, v["state"].default)


# --- blocks of 1, 2, 4, … symbols ----------------------------------------------------------------------------


def _logarithmic(words: dict[str, Any], updates: Updates | Cycle, alphabet: tuple[str, ...]) -> DFA:
    """Lemma: where the product of elements is associative, doubling blocks give the product of all symbols before."""
    layers, spec, symbols = updates.by_layer, updates.spec, len(alphabet)
    v, size = spec.variables, len(spec.kinds["element"])
    need(words["before"] == [symbols] and not words["after"] and words["answer"] is None, "the frame of the words")
    need(spec.layers == len(layers) and not spec.halt and spec.output == "accepts", "the number of layers")
    need(int(words["length"]) + 1 <= 1 << len(layers), "there are too few layers for the length")
    first = v["element"].by_token
    assert first is not None
    need(len(first) == symbols + 1 and not spec.moves and not spec.causal, "the elements")
    one = first[symbols]
    products = _products(layers, size, one, tuple(first))
    (head,) = layers[-1].spec.heads.values()
    pairs = grid(**{head.name: size, "element": size})
    answers = Evaluated(layers[-1])("accepts", **pairs, accepts=np.zeros(size * size, dtype=int)).reshape(size, size)
    accepting = answers[one] == 1
    need(np.array_equal(answers == 1, accepting[products]), "answers are not those of elements")
    reach = _closed(products, first)
    table = products[:, list(first[:symbols])]
    need(one in reach, "the start")
    return DFA(table, accepting, alphabet, one)


def _decoder(words: dict[str, Any], updates: Updates | Cycle, alphabet: tuple[str, ...]) -> DFA:
    """Lemma: as for blocks that double; the last layer reads what may come next from the element of the prefix.

    Which tokens may come next is compared with the automaton itself: the end where it accepts, and the symbols after
    which a word is still possible. So the network is a language model of exactly these words.
    """
    *layers, last = updates.by_layer
    spec, symbols = updates.spec, len(alphabet)
    v, size = spec.variables, len(spec.kinds["element"])
    need(words["before"] == [symbols] and not words["after"] and words["answer"] is None, "the frame of the words")
    need(spec.layers == len(layers) + 1 and not spec.halt and not spec.moves and spec.causal, "the number of layers")
    need(int(words["length"]) <= 1 << len(layers), "there are too few layers for the length")
    first = v["element"].by_token
    assert first is not None
    need(len(first) == symbols + 1 and not last.spec.heads and spec.output == "result", "the elements")
    one = first[symbols]
    products = _products(layers, size, one, tuple(first))
    every = np.arange(size)
    unset = {name: np.full(size, v[name].default) for name in ("allowed", "result")}
    for name in unset:
        start = v[name]
        need(start.by_token is None and start.by_position is None, f"'{name}' before the word")
        need(all(Evaluated(part).keeps(name) for part in layers), f"'{name}' changes too early")
    given = {"element": every, **unset}
    allowed, result = Evaluated(last)("allowed", **given), Evaluated(last)("result", **given)
    return _language_model(words, spec, products[:, list(first[:symbols])], (allowed, result), alphabet, one)


def _language_model(
    words: dict[str, Any], spec: Spec, table: Array, given: tuple[Array, Array], alphabet: tuple[str, ...], start: int
) -> DFA:
    """The automaton of states whose allowed tokens and results are given, where these are what it allows."""
    symbols, sets = len(alphabet), spec.kinds["allowed"].values
    allowed, result = [sets[i] for i in given[0]], given[1]
    need(words["allowed"]["variable"] == "allowed", "the variable that holds what may come next")
    need(list(words["allowed"]["values"]) == [i for i, one in enumerate(sets) if symbols in one], "what holds the end")
    found = DFA(table, np.array([symbols in members for members in allowed]), alphabet, start)
    living = alive(found)
    for state in range(len(found)):
        after = {a for a in range(symbols) if living[table[state, a]]} | ({symbols} & allowed[state])
        need(set(allowed[state]) == after, "a token is allowed after which no word is possible, or the other way")
        need(int(result[state]) in (after or {symbols}), "the token that is written is not allowed")
    return found


def _sequential_decoder(words: dict[str, Any], updates: Updates | Cycle, alphabet: tuple[str, ...]) -> DFA:
    """Lemma: a position is done one layer after its left neighbour, so after n layers the first n positions are."""
    need(isinstance(updates, Updates), "one block loops")
    assert isinstance(updates, Updates)
    spec, symbols = updates.spec, len(alphabet)
    v, states = spec.variables, len(spec.kinds["state"])
    need(words["before"] == [symbols] and not words["after"] and words["answer"] is None, "the frame of the words")
    need(not spec.halt and not spec.moves and spec.causal and spec.output == "result", "the decoder")
    need(int(words["length"]) + 1 <= (spec.layers or 0), "there are too few layers for the length")
    need(relative_head(spec.heads["state_left"], "state", -1, None, v["state"].default), "'state_left'")
    need(relative_head(spec.heads["done_left"], "done", -1, None, 1), "'done_left'")
    need(v["symbol"].by_token == tuple(range(symbols + 1)), "'symbol'")
    written = ("state", "done", "allowed", "result")
    for name in written:
        need((v[name].by_token, v[name].by_position) == (None, None), f"'{name}' before the word")
    need(v["done"].default == 0, "'done' before the word")
    layer = Evaluated(updates)
    need(layer.keeps("symbol"), "'symbol' changes")
    for name in written:
        reads = frozenset([name, "done", "done_left"]).union(*(u.reads for u in updates.of(name)))
        every = grid(**{read: len(spec.kinds[read]) for read in sorted(reads)})
        rest = (every["done"] == 1) | (every["done_left"] == 0)
        need(bool((layer(name, **every)[rest] == every[name][rest]).all()), f"'{name}' changes at the wrong time")
    now = grid(state_left=states, symbol=symbols + 1)
    size = len(now["symbol"])
    now |= {name: np.full(size, v[name].default) for name in written} | {"done_left": np.ones(size, dtype=int)}
    need(bool((layer("done", **now) == 1).all()), "'done' stays 0")
    after = layer("state", **now).reshape(states, symbols + 1)
    need(np.array_equal(after[:, symbols], np.arange(states)), "the end changes a state")
    given = []
    for name in ("allowed", "result"):
        found = layer(name, **now).reshape(states, symbols + 1)
        need(np.array_equal(found, found[:, symbols][after]), f"'{name}' is not that of the state")
        given.append(found[:, symbols])
    return _language_model(words, spec, after[:, :symbols], (given[0], given[1]), alphabet, v["state"].default)


def _products(layers: Sequence[Updates], size: int, one: int, first: tuple[int, ...]) -> Array:
    """The multiplication of elements that every layer makes, checked to be associative and to keep `one` neutral."""
    products: Array | None = None
    for k, part in enumerate(layers):
        layer = Evaluated(part)
        (head,) = part.spec.heads.values()
        need(relative_head(head, "element", -(1 << k), None, one), f"the head of layer {k}")
        found = layer("element", **grid(**{head.name: size, "element": size})).reshape(size, size)
        need(products is None or np.array_equal(products, found), f"layer {k} multiplies in its own way")
        products = found
    assert products is not None
    every = np.arange(size)
    need(bool((products[one] == every).all() and (products[:, one] == every).all()), "the start is not neutral")
    for a in {int(x) for x in first}:  # Light's test of associativity, on generators
        need(np.array_equal(products[products[:, a]], products[:, products[a]]), f"products with element {a}")
    return products


def _closed(products: Array, generators: tuple[int, ...]) -> set[int]:
    found, queue = set(generators), list(dict.fromkeys(generators))
    for x in queue:
        for a in generators:
            y = int(products[x, a])
            if y not in found:
                found.add(y)
                queue.append(y)
    return found


# --- state by state -------------------------------------------------------------------------------------------


def _by_states(words: dict[str, Any], updates: Updates | Cycle, alphabet: tuple[str, ...]) -> DFA:
    """Lemma: each value of p mod 2|Q| occurs once in 2|Q| positions; r doublings make a pointer lead 2ʳ symbols on."""
    layers, spec, symbols = updates.by_layer, updates.spec, len(alphabet)
    v, states, start = spec.variables, int(words["copies"]), int(words["answer"])
    end = symbols * states
    need(words["before"] == [] and words["after"] == list(range(end, end + states)), "the frame of the words")
    need(spec.tokens == end + states and not spec.moves and not spec.causal, "the tokens")
    need(spec.layers == len(layers) and spec.output == "answer" and 0 <= start < states, "layers and output")
    need((1 << (len(layers) - 2)) > int(words["length"]), "there are too few layers for the length")
    places = tuple(range(spec.positions or 0))
    need(len(places) >= states * (int(words["length"]) + 1), "there are too few positions")
    need(v["place"].by_position == places, "'place'")
    need(v["own"].by_position == tuple(p % (2 * states) for p in places), "'own'")
    need(v["is_end"].by_token == (*[0] * end, *[1] * states), "'is_end'")
    target, answer = v["target"].by_token, v["answer"].by_token
    assert target is not None and answer is not None
    need(target[end:] == tuple(range(states)) and not any(answer[:end]), "the end")
    aim, begin = Evaluated(layers[0]), Evaluated(layers[1])
    every = grid(own=2 * states, target=states, is_end=2)
    odd = (every["own"] >= states) ^ (every["is_end"] == 0)
    zero = np.zeros(len(odd), dtype=int)
    need(bool((aim("wanted", **every, wanted=zero) == every["target"] + states * odd).all()), "'wanted'")
    _pointers(layers, states)
    for layer, written in ((aim, {"wanted"}), (begin, {"pointer"})):
        need(all(layer.keeps(name) for name in v.keys() - written), "a variable changes that should not")
    table = np.array(target[:end]).reshape(symbols, states).T
    return DFA(table, np.array(answer[end:], dtype=bool), alphabet, start)


def _pointers(layers: tuple[Updates, ...], states: int) -> None:
    """The heads of pointers, and that updates copy them."""
    (found,) = layers[1].spec.heads.values()
    need(not layers[0].spec.heads, "the first layer's heads")
    need((found.query, found.key, found.value) == ("wanted", "own", "place"), "'found'")
    need(found.offsets == frozenset(range(2 * states)), "the window of 'found'")
    need(found.plain, "conditions of 'found'")
    copies: list[tuple[Updates, str, str, int | None]] = [(layers[1], "pointer", "found", None)]
    for part in layers[2:]:
        need(set(part.spec.heads) == {"next_pointer", "next_answer"}, "the heads that double")
        for value in ("pointer", "answer"):
            head = part.spec.heads[f"next_{value}"]
            need((head.query, head.key, head.value) == ("pointer", "place", value), f"'next_{value}'")
            need(head.offsets is None and head.plain, f"conditions of 'next_{value}'")
            copies.append((part, value, f"next_{value}", 2 if value == "answer" else None))
        need(all(Evaluated(part).keeps(n) for n in part.spec.variables if n not in ("pointer", "answer")), "doubling")
    for part, variable, head_name, size in copies:
        if size is not None:
            every = grid(**{variable: size, head_name: size})
            need(bool((Evaluated(part)(variable, **every) == every[head_name]).all()), f"'{variable}' is not copied")
            continue
        written = part.of_word(variable)
        need(len(written) == 1 and not written[0].guard and not part.of(variable), f"'{variable}' is not copied")
        assignment = written[0].assignment
        ones = np.arange(8)
        given = {name: ones * 0 for name in part.spec.kinds} | {head_name: ones}
        need(assignment.terms == ((head_name, 1),), f"'{variable}' is not copied")
        need(bool((np.asarray(assignment.value(given)) == ones).all()), f"'{variable}' is not copied")


# --- constant depth -------------------------------------------------------------------------------------------


class _Cascade:
    """A program of constant depth, read as levels: lemmas say what its heads find, and updates are asked for the rest.

    A level's value before a position is what the latest position before it set, or the start value (a reset), or the
    sum of what positions have added since, modulo the size (a counter).
    """

    def __init__(self, words: dict[str, Any], updates: Updates | Cycle, alphabet: tuple[str, ...]) -> None:
        self.layers, self.spec, self.symbols = updates.by_layer, updates.spec, len(alphabet)
        self.evaluated = [Evaluated(part) for part in self.layers]
        v, spec, symbols = self.spec.variables, self.spec, self.symbols
        need(words["before"] == [symbols] and words["after"] == [symbols + 1], "the frame of the words")
        need(words["answer"] is None and spec.layers == len(self.layers) and not spec.moves, "layers and moves")
        need(spec.output == "accepts" and not spec.halt and not spec.causal, "the output")
        need(v["is_symbol"].by_token == (*[1] * symbols, 0, 0), "'is_symbol'")
        need(v["symbol"].by_token is not None and v["symbol"].by_token[:symbols] == (*range(symbols),), "'symbol'")
        one = v["one"]
        need((one.by_token, one.by_position, one.default) == (None, None, 1), "'one'")
        need(all(self._never_written(name) for name in ("one", "symbol", "is_symbol")), "a given variable changes")
        self.window = frozenset(range(-(int(words["length"]) + 1), 0))
        self.kinds: list[tuple[str, int, int]] = []  # kind, size, start
        self._levels()

    def _levels(self) -> None:
        numbers = sorted({int(name.rpartition("_")[2]) for name in self.spec.heads})
        need(numbers == list(range(len(numbers))), "the numbers of levels")
        for n in numbers:
            names = [name for name in self.spec.heads if name.endswith(f"_{n}")]
            if names == [f"found_{n}"]:
                head = self.spec.heads[names[0]]
                self._looks_back(head, f"sets_{n}", f"value_{n}")
                need(head.default is not None, "a reset level has no start")
                self.kinds.append(("reset", len(self.spec.kinds[f"value_{n}"]), head.default or 0))
                continue
            size = len(self.spec.kinds[f"total_{n}"])
            for k in range(1, size):
                self._averages(self.spec.heads[f"share_{k}_{n}"], f"adds_{k}_{n}", f"start_{n}")
            rest = set(names) - {f"share_{k}_{n}" for k in range(1, size)}
            need(rest <= {f"base_{n}"}, "the heads of a counter")
            if rest:
                base = self.spec.heads[f"base_{n}"]
                self._looks_back(base, f"sets_{n}", f"total_{n}")
                need(base.default == 0, "a counter does not start at 0")
            self.kinds.append(("count", size, 0))
            self._counts(n, size)

    def _looks_back(self, head: HeadSpec, key: str, value: str) -> None:
        need((head.query, head.key, head.value, head.prefer) == ("one", key, value, "latest"), f"'{head.name}'")
        need(head.offsets == self.window and not head.where and not head.among, f"the window of '{head.name}'")
        need(not head.counts, f"'{head.name}' counts")

    def _averages(self, head: HeadSpec, key: str, value: str) -> None:
        """The share of the start among positions that count is 1 / (1 + count): all of these are declared values."""
        need((head.query, head.key, head.value, head.prefer) == ("one", key, value, None), f"'{head.name}'")
        need(head.offsets == self.window and not head.where and not head.among, f"the window of '{head.name}'")
        need(not head.counts, f"'{head.name}' counts")
        values = [1 / x for x in head.kind.values]
        need(sorted(values) == list(range(1, len(self.window) + 1)), f"the values of '{head.name}'")
        need(head.default == head.kind.values.index(1), f"the default of '{head.name}'")
        start = self.spec.variables[value]
        need(start.by_token == (*[0] * self.symbols, 1, 0) and self._never_written(value), f"'{value}'")

    def _never_written(self, name: str) -> bool:
        return all(layer.keeps(name) for layer in self.evaluated)

    def _counts(self, n: int, size: int) -> None:
        """Sums modulo the size, from each count: asked of the layers that hold the heads, and of the one after."""
        at = next(i for i, part in enumerate(self.layers) if f"share_1_{n}" in part.spec.heads)
        kinds = self.spec.kinds
        for k in range(1, size):
            share = f"share_{k}_{n}"
            into = f"total_{n}" if size == 2 else f"count_{k}_{n}"
            counts = np.array([int(1 / x) - 1 for x in kinds[share].values])
            given = {share: np.arange(len(counts)), into: np.zeros(len(counts), dtype=int)}
            need(bool((self.evaluated[at](into, **given) == counts % size).all()), f"'{into}' is not the count")
        if size > 2:
            every = grid(**{f"count_{k}_{n}": size for k in range(1, size)})
            total = sum(k * every[f"count_{k}_{n}"] for k in range(1, size))
            zero = np.zeros(len(next(iter(every.values()))), dtype=int)
            found = self.evaluated[at + 1](f"total_{n}", **every, **{f"total_{n}": zero})
            need(bool((found == total % size).all()), f"'total_{n}' is not the sum")

    def run(self, values: tuple[int, ...], token: int) -> dict[str, int]:
        """A position's variables after all layers, where levels had these values before it."""
        spec = self.spec
        state = {name: v.initial(token, 0) for name, v in spec.variables.items()}
        for part, layer in zip(self.layers, self.evaluated):
            heads = {name: self._head(name, values) for name in part.spec.heads}
            if any(name.startswith("share_") for name in heads) or self._only_sums(part):
                continue  # what these layers write was asked in `_counts`
            for n, (kind, _, _) in enumerate(self.kinds):
                if kind == "count":
                    state[f"total_{n}"] = values[n]  # less a base of 0; `shifted` asks the other bases
            state = layer.updates.apply({**state, **heads})
        return state

    def _only_sums(self, part: Updates) -> bool:
        return bool(part.variables) and all(name.startswith("total_") for name in part.variables)

    def _head(self, name: str, values: tuple[int, ...]) -> int:
        return 0 if name.startswith(("base_", "share_")) else values[int(name.rpartition("_")[2])]

    def shifted(self) -> None:
        """Check that the layer that reads a counter with a base depends only on total − base modulo the size."""
        for name in self.spec.heads:
            if not name.startswith("base_"):
                continue
            n = int(name.rpartition("_")[2])
            size, total = self.kinds[n][1], f"total_{n}"
            layer = next(layer for layer in self.evaluated if name in layer.spec.heads)
            for variable in layer.updates.variables:
                reads = frozenset([variable, total, name]).union(*(u.reads for u in layer.updates.of(variable)))
                every = grid(**{read: len(self.spec.kinds[read]) for read in sorted(reads)})
                moved = {**every, total: (every[total] - every[name]) % size, name: 0 * every[name]}
                need(np.array_equal(layer(variable, **every), layer(variable, **moved)), f"'{variable}' and its base")

    def after(self, values: tuple[int, ...], symbol: int) -> tuple[int, ...]:
        """The values after a symbol."""
        state = self.run(values, symbol)
        found = []
        for n, ((kind, size, _), value) in enumerate(zip(self.kinds, values)):
            sets = bool(state.get(f"sets_{n}", 0))
            if kind == "reset":
                found.append(state[f"value_{n}"] if sets else value)
                continue
            adds = [k for k in range(1, size) if state[f"adds_{k}_{n}"]]
            need(len(adds) + sets <= 1, "a symbol counts in two ways")
            found.append(0 if sets else (value + sum(adds)) % size)
        return tuple(found)


def _constant(words: dict[str, Any], updates: Updates | Cycle, alphabet: tuple[str, ...]) -> DFA:
    cascade = _Cascade(words, updates, alphabet)
    cascade.shifted()
    first = tuple(start for _, _, start in cascade.kinds)
    symbols = range(len(alphabet))
    found = breadth_first(
        first,
        lambda values: (cascade.after(values, symbol) for symbol in symbols),
        key=tuple,
        limit=MAX_TUPLES,
        error=lambda: DidNotHalt(f"more than {MAX_TUPLES:,} tuples of values"),
    )
    queue, rows = map(list, zip(*found))
    answers = []
    for values in queue:
        state = cascade.run(values, cascade.symbols + 1)
        answers.append(state["accepts"] == 1)
    _framed(cascade, queue)
    return DFA(np.array(rows), np.array(answers), alphabet)


def _framed(cascade: _Cascade, queue: list[tuple[int, ...]]) -> None:
    """The start sets nothing and counts as one; the end comes last, so nothing depends on it."""
    state = cascade.run(queue[0], cascade.symbols)
    for n, (kind, size, _) in enumerate(cascade.kinds):
        need(not state.get(f"sets_{n}", 0), "the start sets a level")
        marks = [state[f"adds_{k}_{n}"] for k in range(1, size)] if kind == "count" else []
        need(all(marks), "the start is not counted")
        reads = [f"sets_{n}"] if f"sets_{n}" in cascade.spec.variables else []
        reads += [f"adds_{k}_{n}" for k in range(1, size)] if kind == "count" else [f"value_{n}"]
        first = min(i for i, part in enumerate(cascade.layers) if any(h.endswith(f"_{n}") for h in part.spec.heads))
        for name in reads:
            need(all(layer.keeps(name) for layer in cascade.evaluated[first:]), f"'{name}' changes too late")


READERS: dict[str, Callable[[dict[str, Any], Updates | Cycle, tuple[str, ...]], DFA]] = {
    "sequential": _sequential,
    "logarithmic": _logarithmic,
    "logarithmic by states": _by_states,
    "constant": _constant,
    "decoder": _decoder,
    "sequential decoder": _sequential_decoder,
}


def described(words: Any) -> dict[str, Any]:
    """The part of a description that says how words become tokens."""
    if not isinstance(words, dict):
        raise NotSupported("decompile: the transformer was not compiled from an automaton; omit to=")
    return words
