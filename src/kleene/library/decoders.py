"""Decoders: programs that write their answer token by token, for transformers as people use them.

Each one fits every stock class (`kl.compile(program, to="llama")`): its heads have one offset, or take the latest
match. What must be summed over a prefix (positions, depths, counts) is summed by doubling, in a logarithm of layers.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from kleene.errors import InputError, NotSupported
from kleene.library.decoding import doublings, summed, text_decoder
from kleene.library.encoding import TextProgram
from kleene.lowering.symbolic import table
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.monoid import syntactic_monoid
from kleene.machines.automata.regex import regex
from kleene.machines.declarations import attend, cat, layer, relative, subset, word
from kleene.machines.turing import TuringMachine

MAX_ELEMENTS = 64  # of a language's monoid: a layer has a unit for every pair
ENDS = (";", "␄", *map(chr, range(0xE000, 0xE100)))  # symbols that may end a word
MAX_DEEP = 512  # layers of a decoder that takes one for each position
Step = Callable[[Any], None]


# --- arithmetic -------------------------------------------------------------------------------------------


def addition_decoder(digits: int = 3) -> type[TextProgram]:
    """Adds two numbers of this many digits: after `123+456=` it writes `0579` and stops, without a scratchpad.

    Each place of the second number adds up its two digits: it has the last digit of the sum, and knows whether it
    carries, or passes a carry on. The position that writes a digit sees its place and all lower ones at fixed offsets:
    the carry is one threshold.
    """
    if not 1 <= digits <= 12:
        raise InputError(f"addition_decoder: digits={digits}; it takes 1 to 12")
    n, add, equals, end = digits, 10, 11, 12
    body: dict[str, Any] = {
        "layers": 2,
        "place": cat(13, token=lambda t: t),  # the token; at a digit of b: the last digit of the sum
        "carries": cat(3, default=0),  # a place: 0 gives no carry, 1 passes one on, 2 gives one
        "result": cat(13, default=end),
    }
    body["above"] = relative(body["place"], -(n + 1), default=end)  # at a digit of b: the digit of a of the same place
    body["sum"] = relative(body["place"], -(n + 1), default=end)  # where a digit is written: the sum of its place
    lower = [f"lower_{k}" for k in range(1, n + 1)]
    for k, name in enumerate(lower, start=1):
        body[name] = relative(body["carries"], -(n + 1) + k, default=0)
    body["output"] = body["result"]

    def look(z: Any) -> None:
        if z.place < 10 and z.above < 10:
            z.carries = 2 if z.place + z.above >= 10 else 1 if z.place + z.above == 9 else 0
            z.place = (z.place + z.above) % 10

    def write(z: Any) -> None:
        carry = 0
        if sum((getattr(z, name) - 1) * (1 << (n - k)) for k, name in enumerate(lower, start=1)) > 0:
            carry = 1
        if z.sum == add:
            z.result = carry
        elif z.sum < 10:
            z.result = (z.sum + carry) % 10
        else:
            z.result = end

    body["look"] = layer(body["above"])(look)
    body["write"] = layer(body["sum"], *(body[name] for name in lower))(write)
    body["cycle"] = (body["look"], body["write"])

    def sample(chance: Random, length: int) -> list[int]:
        return [*(chance.randrange(10) for _ in range(n)), add, *(chance.randrange(10) for _ in range(n)), equals]

    body["sample"] = staticmethod(sample)
    made: type[TextProgram] = text_decoder(
        "addition_decoder", addition_decoder.__doc__ or "", "0123456789+=;", end, n + 2, body
    )
    return made


def long_addition_decoder(length: int = 40) -> type[TextProgram]:
    """Adds numbers of any lengths, its own output as scratchpad: after `95+7=` it writes `201`, lowest digit first.

    The digit written last tells its carry: a + b − digit is 9 or more. `length`: the longest sequence.
    """
    add, equals, end = 10, 11, 12
    bits = doublings(length + 1)
    size = 1 << bits
    body: dict[str, Any] = {
        "digit": cat(10, token=lambda t: t if t < 10 else 0),
        "is_digit": cat(2, token=lambda t: int(t < 10)),
        "is_add": cat(2, token=lambda t: int(t == add)),
        "is_equals": cat(2, token=lambda t: int(t == equals)),
        "one": cat(2, default=1),
        "count": word(bits, token=lambda t: int(t < 10)),  # of digits since the last sign
        "count_fresh": cat(2, token=lambda t: int(t >= 10)),
        "part": cat(3),  # 0: the first number, 1: the second, 2: the sum
        "size": word(bits),  # at a sign: how many digits stand before it
        "at_a": word(bits),  # which digits are to be added
        "at_b": word(bits),
        "last_at_a": word(bits),  # which were added last
        "last_at_b": word(bits),
        "left": cat(2),  # whether there are digits left
        "result": cat(13, default=end),
    }
    cycle = summed(body, "count", bits)
    one, count, part = body["one"], body["count"], body["part"]
    body["before"] = relative(count, -1, default=0)
    body["added"] = attend(one, body["is_add"], one, latest=True, default=0)
    body["ended"] = attend(one, body["is_equals"], one, latest=True, default=0)
    body["size_a"] = attend(one, body["is_add"], body["size"], latest=True, default=0)
    body["size_b"] = attend(one, body["is_equals"], body["size"], latest=True, default=0)
    limits = [{part: 0, body["is_digit"]: 1}, {part: 1, body["is_digit"]: 1}]
    for name, among in zip("ab", limits):
        body[name] = attend(body[f"at_{name}"], count, body["digit"], among=among, latest=True, default=0)
        body[f"last_{name}"] = attend(
            body[f"last_at_{name}"], count, body["digit"], among=among, latest=True, default=0
        )
    body["output"] = body["result"]

    def measure(z: Any) -> None:
        z.size = z.before
        z.part = 2 if z.ended else 1 if z.added else 0

    def aim(z: Any) -> None:
        z.at_a = (z.size_a - z.count) % size
        z.at_b = (z.size_b - z.count) % size
        z.last_at_a = (z.size_a - z.count + 1) % size
        z.last_at_b = (z.size_b - z.count + 1) % size
        z.left = 1 if z.size_a > z.count or z.size_b > z.count else 0

    def write(z: Any) -> None:
        carry = 0
        if z.is_digit and z.last_a + z.last_b - z.digit >= 9:
            carry = 1
        if z.left:
            z.result = (z.a + z.b + carry) % 10
        else:
            z.result = 1 if carry else end

    body["measure"] = layer(body["before"], body["added"], body["ended"])(measure)
    body["aim"] = layer(body["size_a"], body["size_b"])(aim)
    body["write"] = layer(body["a"], body["b"], body["last_a"], body["last_b"])(write)
    body["cycle"] = (*cycle, body["measure"], body["aim"], body["write"])
    body["layers"] = len(body["cycle"])

    def sample(chance: Random, wanted: int) -> list[int]:
        sizes = [chance.randrange(1, max(2, min(wanted, length) // 3)) for _ in range(2)]
        a, b = ([chance.randrange(10) for _ in range(n)] for n in sizes)
        return [*a, add, *b, equals]

    body["sample"] = staticmethod(sample)
    made: type[TextProgram] = text_decoder(
        "long_addition_decoder", long_addition_decoder.__doc__ or "", "0123456789+=;", end, length, body
    )
    return made


def _places(n: int) -> list[list[str]]:
    """Which digits of which products add up to each place, lowest first. The first digit of a number is the highest."""
    terms: list[list[str]] = [[] for _ in range(2 * n)]
    for i, j in ((i, j) for i in range(n) for j in range(n)):
        lowest = (n - 1 - i) + (n - 1 - j)
        terms[lowest].append(f"low_{i}{j}")
        terms[lowest + 1].append(f"high_{i}{j}")
    return terms


def multiplication_decoder(digits: int = 2) -> type[TextProgram]:
    """Multiplies two numbers of this many digits: after `12*34=` it writes `0408` and stops, without a scratchpad.

    Every position of the answer fetches all digits, multiplies each pair, adds up the places from the lowest to the
    highest, one layer per place, and writes its own.
    """
    if not 1 <= digits <= 3:
        raise InputError(f"multiplication_decoder: digits={digits}; it takes 1 to 3")
    n, times, equals, end = digits, 10, 11, 12
    other = 2 * n
    body: dict[str, Any] = {
        "digit": cat(10, token=lambda t: t if t < 10 else 0),
        "is_times": cat(2, token=lambda t: int(t == times)),
        "is_equals": cat(2, token=lambda t: int(t == equals)),
        "there": cat(2, default=1),
        "place": cat(other + 1, default=other),  # of a digit: 0 … n − 1 of the first number, n … of the second
        "made": cat(other + 2, default=other + 1),  # how many digits of the answer are written
        "result": cat(13, default=end),
    }
    names_of = {"a": [f"a{i}" for i in range(n)], "b": [f"b{i}" for i in range(n)]}
    every = [*names_of["a"], *names_of["b"]]
    for index, name in enumerate(every):
        body[f"asks_{name}"] = cat(other + 1, default=index)
        body[name] = cat(10)
        body[f"the_{name}"] = attend(body[f"asks_{name}"], body["place"], body["digit"], latest=True, default=0)
    pairs = [(i, j) for i in range(n) for j in range(n)]
    for i, j in pairs:
        body[f"low_{i}{j}"], body[f"high_{i}{j}"] = cat(10), cat(9)
    terms = _places(n)
    for k in range(other):
        body[f"sum_{k}"], body[f"carry_{k}"] = cat(10), cat(9 * n)
    starts = [f"start_{k}" for k in range(1, n)]
    signs = [f"times_{k}" for k in range(1, n + 1)]
    ends = [f"equals_{k}" for k in range(1, other + 1)]
    for k, name in enumerate(starts, start=1):
        body[name] = relative(body["there"], -k, default=0)
    for k, name in enumerate(signs, start=1):
        body[name] = relative(body["is_times"], -k, default=0)
    for k, name in enumerate(ends, start=1):
        body[name] = relative(body["is_equals"], -k, default=0)
    body["output"] = body["result"]

    def locate(z: Any) -> None:
        if sum(getattr(z, name) for name in signs) == 1:
            z.place = n - 1 + sum(k * getattr(z, name) for k, name in enumerate(signs, start=1))
        elif sum(getattr(z, name) for name in ends) == 0 and not z.is_times and not z.is_equals:
            z.place = sum(getattr(z, name) for name in starts)
        if z.is_equals:
            z.made = 0
        elif sum(getattr(z, name) for name in ends) == 1:
            z.made = sum(k * getattr(z, name) for k, name in enumerate(ends, start=1))

    def fetch(z: Any) -> None:
        for name in every:
            setattr(z, name, getattr(z, f"the_{name}"))

    def multiply(z: Any) -> None:
        for i, j in pairs:
            both = 10 * getattr(z, f"a{i}") + getattr(z, f"b{j}")
            setattr(z, f"low_{i}{j}", table([x * y % 10 for x in range(10) for y in range(10)])[both])
            setattr(z, f"high_{i}{j}", table([x * y // 10 for x in range(10) for y in range(10)])[both])

    def place_step(k: int) -> Step:
        def add_up(z: Any) -> None:
            total = sum(getattr(z, name) for name in terms[k])
            if k:
                total = total + getattr(z, f"carry_{k - 1}")
            setattr(z, f"sum_{k}", total % 10)
            setattr(z, f"carry_{k}", total // 10)

        return add_up

    def write(z: Any) -> None:
        z.result = end
        for k in range(other):
            if z.made == k:
                z.result = getattr(z, f"sum_{other - 1 - k}")

    body["locate"] = layer(*(body[name] for name in [*starts, *signs, *ends]))(locate)
    body["fetch"] = layer(*(body[f"the_{name}"] for name in every))(fetch)
    body["multiply"] = layer()(multiply)
    columns = []
    for k in range(other):
        body[f"column_{k}"] = one = layer()(place_step(k))
        columns.append(one)
    body["write"] = layer()(write)
    body["cycle"] = (body["locate"], body["fetch"], body["multiply"], *columns, body["write"])
    body["layers"] = len(body["cycle"])

    def sample(chance: Random, length: int) -> list[int]:
        return [*(chance.randrange(10) for _ in range(n)), times, *(chance.randrange(10) for _ in range(n)), equals]

    body["sample"] = staticmethod(sample)
    made: type[TextProgram] = text_decoder(
        "multiplication_decoder", multiplication_decoder.__doc__ or "", "0123456789*=;", end, other + 1, body
    )
    return made


# --- sequences --------------------------------------------------------------------------------------------


def parity_decoder(length: int = 64) -> type[TextProgram]:
    """Parity: after bits and `=` it writes 1 if the number of ones is odd, otherwise 0, and stops."""
    equals, end = 2, 3
    body: dict[str, Any] = {
        "odd": cat(2, token=lambda t: int(t == 1)),
        "is_equals": cat(2, token=lambda t: int(t == equals)),
        "result": cat(4, default=end),
    }
    cycle = []
    for k in range(doublings(length)):
        left = f"left_{1 << k}"
        body[left] = relative(body["odd"], -(1 << k), default=0)

        def add(z: Any, left: str = left) -> None:
            z.odd = z.odd ^ getattr(z, left)

        body[f"add_{1 << k}"] = one = layer(body[left])(add)
        cycle.append(one)

    def give(z: Any) -> None:
        z.result = z.odd if z.is_equals else end

    body["give"], body["output"] = layer()(give), body["result"]
    body["cycle"] = (*cycle, body["give"])
    body["layers"] = len(body["cycle"])

    def sample(chance: Random, wanted: int) -> list[int]:
        return [*(chance.randrange(2) for _ in range(min(wanted, length - 1))), equals]

    body["sample"] = staticmethod(sample)
    made: type[TextProgram] = text_decoder("parity_decoder", parity_decoder.__doc__ or "", "01=;", end, 2, body)
    return made


def copy_decoder(symbols: str = "abcdefgh", length: int = 64) -> type[TextProgram]:
    """Copies: after some symbols and `=` it writes them again, and stops."""
    return _repeating("copy_decoder", copy_decoder.__doc__ or "", symbols, length, backwards=False)


def reverse_decoder(symbols: str = "abcdefgh", length: int = 64) -> type[TextProgram]:
    """Reverses: after some symbols and `=` it writes them from the last to the first, and stops."""
    return _repeating("reverse_decoder", reverse_decoder.__doc__ or "", symbols, length, backwards=True)


def _repeating(name: str, about: str, symbols: str, length: int, backwards: bool) -> type[TextProgram]:
    """Positions count symbols since `=` or the start. The answer asks for the symbol whose count is next."""
    if set("=;") & set(symbols) or len(set(symbols)) != len(symbols):
        raise InputError(f"{name}: symbols={symbols!r}; they must differ, and '=' and ';' are taken")
    n = len(symbols)
    equals, end, bits = n, n + 1, doublings(length + 1)
    size = 1 << bits
    body: dict[str, Any] = {
        "token": cat(n + 2, token=lambda t: t),
        "is_equals": cat(2, token=lambda t: int(t == equals)),
        "is_symbol": cat(2, token=lambda t: int(t < n)),
        "one": cat(2, default=1),
        "count": word(bits, token=lambda t: int(t < n)),
        "count_fresh": cat(2, token=lambda t: int(t == equals)),
        "given": cat(2),  # whether this symbol is of the input
        "size": word(bits),
        "next": word(bits),
        "result": cat(n + 2, default=end),
    }
    cycle = summed(body, "count", bits)
    one = body["one"]
    body["before"] = relative(body["count"], -1, default=0)
    body["ended"] = attend(one, body["is_equals"], one, latest=True, default=0)
    body["all"] = attend(one, body["is_equals"], body["size"], latest=True, default=0)
    body["asked"] = attend(
        body["next"], body["count"], body["token"], among={body["given"]: 1}, latest=True, default=end
    )
    body["output"] = body["result"]

    def measure(z: Any) -> None:
        z.size = z.before
        z.given = 1 if z.is_symbol and not z.ended else 0

    def aim(z: Any) -> None:
        z.next = (z.all - z.count) % size if backwards else (z.count + 1) % size

    def write(z: Any) -> None:
        z.result = z.asked

    body["measure"] = layer(body["before"], body["ended"])(measure)
    body["aim"] = layer(body["all"])(aim)
    body["write"] = layer(body["asked"])(write)
    body["cycle"] = (*cycle, body["measure"], body["aim"], body["write"])
    body["layers"] = len(body["cycle"])

    def sample(chance: Random, wanted: int) -> list[int]:
        return [*(chance.randrange(n) for _ in range(max(1, min(wanted, length // 2 - 1)))), equals]

    body["sample"] = staticmethod(sample)
    made: type[TextProgram] = text_decoder(name, about, [*symbols, "=", ";"], end, length, body)
    return made


def sort_decoder(values: int = 10, length: int = 24) -> type[TextProgram]:
    """Sorts digits: after some of them and `=` it writes them in ascending order, and stops.

    Every position counts each digit since `=` or the start. The answer writes the smallest digit of which fewer are
    written than given.
    """
    if not 1 <= values <= 10:
        raise InputError(f"sort_decoder: values={values}; it takes 1 to 10, the digits")
    equals, end, bits = values, values + 1, doublings(length // 2 + 1)
    size, layers = 1 << bits, doublings(length)
    body: dict[str, Any] = {
        "fresh": cat(2, token=lambda t: int(t == equals)),
        "is_equals": cat(2, token=lambda t: int(t == equals)),
        "one": cat(2, default=1),
        "result": cat(values + 2, default=end),
    }
    for v in range(values):
        body[f"count_{v}"] = word(bits, token=lambda t, v=v: int(t == v))  # type: ignore[misc]
        body[f"given_{v}"] = word(bits)  # at `=`: how many were given
    cycle = []
    for k in range(layers):
        heads = [f"fresh_{1 << k}_left", *(f"count_{v}_{1 << k}_left" for v in range(values))]
        body[heads[0]] = relative(body["fresh"], -(1 << k), default=1)
        for v in range(values):
            body[heads[v + 1]] = relative(body[f"count_{v}"], -(1 << k), default=0)

        def add(z: Any, heads: list[str] = heads) -> None:
            if not z.fresh:
                for v in range(values):
                    setattr(z, f"count_{v}", (getattr(z, f"count_{v}") + getattr(z, heads[v + 1])) % size)
                z.fresh = getattr(z, heads[0])

        body[f"add_{1 << k}"] = added = layer(*(body[name] for name in heads))(add)
        cycle.append(added)
    for v in range(values):
        body[f"before_{v}"] = relative(body[f"count_{v}"], -1, default=0)
        body[f"all_{v}"] = attend(body["one"], body["is_equals"], body[f"given_{v}"], latest=True, default=0)
    body["output"] = body["result"]

    def measure(z: Any) -> None:
        for v in range(values):
            setattr(z, f"given_{v}", getattr(z, f"before_{v}"))

    def write(z: Any) -> None:
        z.result = end
        for v in range(values):
            if getattr(z, f"all_{v}") > getattr(z, f"count_{v}"):
                z.result = v
                break

    body["measure"] = layer(*(body[f"before_{v}"] for v in range(values)))(measure)
    body["write"] = layer(*(body[f"all_{v}"] for v in range(values)))(write)
    body["cycle"] = (*cycle, body["measure"], body["write"])
    body["layers"] = len(body["cycle"])

    def sample(chance: Random, wanted: int) -> list[int]:
        return [*(chance.randrange(values) for _ in range(max(1, min(wanted, length // 2 - 1)))), equals]

    body["sample"] = staticmethod(sample)
    symbols = [*(str(v) for v in range(values)), "=", ";"]
    made: type[TextProgram] = text_decoder("sort_decoder", sort_decoder.__doc__ or "", symbols, end, length, body)
    return made


def dyck_decoder(length: int = 64) -> type[TextProgram]:
    """Brackets `()[]` as a language model: it closes what is open, the last bracket first, and stops.

    `allowed` is the set of tokens that keep the word well-formed: both opening brackets, and the closing bracket
    that fits the last open one, or `;` if none is open.
    """
    end, bits = 4, doublings(2 * length)
    size = 1 << bits
    kinds = {0: 0, 2: 1}
    body: dict[str, Any] = {
        "depth": word(bits, token=lambda t: 1 if t in (0, 2) else size - 1 if t in (1, 3) else 0),
        "depth_fresh": cat(2, default=0),
        "opens": cat(2, token=lambda t: int(t in kinds)),
        "kind": cat(2, token=lambda t: kinds.get(t, 0)),
        "allowed": subset(5, values=[(), {0, 2, 1}, {0, 2, 3}, {0, 2, 4}]),
        "result": cat(5, default=end),
    }
    cycle = summed(body, "depth", doublings(length))
    body["open"] = attend(body["depth"], body["depth"], body["kind"], among={body["opens"]: 1}, latest=True, default=0)
    body["choices"], body["output"] = "allowed", body["result"]

    def close(z: Any) -> None:
        if z.depth == 0:
            z.result = end
            z.allowed = frozenset({0, 2, 4})
        elif z.open:
            z.result = 3
            z.allowed = frozenset({0, 2, 3})
        else:
            z.result = 1
            z.allowed = frozenset({0, 2, 1})

    body["close"] = layer(body["open"])(close)
    body["cycle"] = (*cycle, body["close"])
    body["layers"] = len(body["cycle"])

    def sample(chance: Random, wanted: int) -> list[int]:
        made: list[int] = []
        stack: list[int] = []
        for _ in range(max(1, min(wanted, length // 2 - 1))):
            if stack and chance.random() < 0.4:
                made.append(stack.pop() + 1)
            else:
                stack.append(chance.choice([0, 2]))
                made.append(stack[-1])
        return made

    body["sample"] = staticmethod(sample)
    made: type[TextProgram] = text_decoder("dyck_decoder", dyck_decoder.__doc__ or "", "()[];", end, length, body)
    return made


# --- languages --------------------------------------------------------------------------------------------


def regex_decoder(pattern: str | DFA = "(0|10*1)*", length: int = 64) -> type[TextProgram]:
    """A regular language as a language model: the allowed next tokens are exactly those that keep a match possible.

    `pattern` is a regular expression or an automaton. `allowed` is the set of allowed tokens, the end among them where
    the word is a match; the end is `;`, or `␄` if `;` is a symbol of the pattern. Greedy decoding completes a prefix to
    a shortest match; a prefix that has none gives the end at once. Words act on states as elements of the syntactic
    monoid, which positions multiply by doubling. Where the monoid is large, the state goes from left to right instead,
    a position per layer.
    """
    dfa = (pattern if isinstance(pattern, DFA) else regex(pattern)).minimise()
    about = f"The words that match {pattern if isinstance(pattern, str) else 'an automaton'}: {regex_decoder.__doc__}"
    symbols = [*dfa.alphabet, next(symbol for symbol in ENDS if symbol not in dfa.alphabet)]
    try:
        monoid = syntactic_monoid(dfa, limit=MAX_ELEMENTS)
    except NotSupported:
        deep: type[TextProgram] = text_decoder(
            "regex_decoder", about, symbols, len(dfa.alphabet), length, _by_layers(dfa, length)
        )
        return deep
    dfa, size, end = monoid.dfa, len(monoid), len(dfa.alphabet)
    steps = _steps_to_match(dfa)
    states = [int(monoid.maps[element, dfa.start]) for element in range(size)]
    options = [_options(dfa, steps, state) for state in states]
    greedy = [_shortest(dfa, steps, state) for state in states]
    product = [monoid.multiply(first, then) for first in range(size) for then in range(size)]
    generators = [int(monoid.right[0, column]) for column in range(end)] + [0]
    body: dict[str, Any] = {
        "element": cat(size, token=lambda t: generators[t]),
        "allowed": subset(end + 1, values=dict.fromkeys([frozenset(), *options])),
        "result": cat(end + 1, default=end),
    }
    body["choices"], body["output"] = "allowed", body["result"]
    cycle = []
    for k in range(doublings(length)):
        left = f"left_{1 << k}"
        body[left] = relative(body["element"], -(1 << k), default=0)

        def multiply(z: Any, left: str = left) -> None:
            z.element = table(product)[getattr(z, left) * size + z.element]

        body[f"multiply_{1 << k}"] = one = layer(body[left])(multiply)
        cycle.append(one)

    def give(z: Any) -> None:
        z.allowed = table(options)[z.element]
        z.result = table(greedy)[z.element]

    body["give"] = layer()(give)
    body["cycle"] = (*cycle, body["give"])
    body["layers"] = len(body["cycle"])
    made: type[TextProgram] = text_decoder("regex_decoder", about, symbols, end, length, body)
    return made


def _by_layers(dfa: DFA, length: int) -> dict[str, Any]:
    """The state of an automaton, one position further in each layer; the end changes no state."""
    end, states = len(dfa.alphabet), len(dfa)
    if length > MAX_DEEP:
        raise NotSupported(
            f"regex_decoder: the language's monoid has more than {MAX_ELEMENTS} elements, so a position takes a layer, "
            f"and length={length} is more than {MAX_DEEP} layers"
        )
    steps = _steps_to_match(dfa)
    options = [_options(dfa, steps, state) for state in range(states)]
    greedy = [_shortest(dfa, steps, state) for state in range(states)]
    moves = [target for q, row in enumerate(dfa.table.tolist()) for target in (*row, q)]
    body: dict[str, Any] = {
        "symbol": cat(end + 1, token=lambda t: t),
        "state": cat(states, default=dfa.start),
        "done": cat(2),
        "allowed": subset(end + 1, values=dict.fromkeys([frozenset(), *options])),
        "result": cat(end + 1, default=end),
        "layers": length + 1,
    }
    body["state_left"] = relative(body["state"], -1, default=dfa.start)
    body["done_left"] = relative(body["done"], -1, default=1)
    body["choices"], body["output"] = "allowed", body["result"]

    def step(z: Any) -> None:
        if not z.done and z.done_left:
            pair = z.state_left * (end + 1) + z.symbol
            z.state = table(moves)[pair]
            z.allowed = table([options[q] for q in moves])[pair]
            z.result = table([greedy[q] for q in moves])[pair]
            z.done = 1

    return {**body, "step": step}


def _steps_to_match(dfa: DFA) -> list[int | None]:
    """The number of symbols from each state to a match; None if there is no match."""
    found: list[int | None] = [0 if accepting else None for accepting in dfa.accepting.tolist()]
    while True:
        rows = dfa.table.tolist()
        after = [
            min((s + 1 for s in (found[t] for t in row) if s is not None), default=None)
            if found[q] is None
            else found[q]
            for q, row in enumerate(rows)
        ]
        if after == found:
            return found
        found = after


def _options(dfa: DFA, steps: list[int | None], state: int) -> frozenset[int]:
    """The tokens after which a match is still possible; the end where the word is one."""
    kept = {column for column, target in enumerate(dfa.table[state].tolist()) if steps[target] is not None}
    return frozenset(kept | ({len(dfa.alphabet)} if steps[state] == 0 else set()))


def _shortest(dfa: DFA, steps: list[int | None], state: int) -> int:
    """The first token of a shortest completion; the end if the word is complete or cannot be completed."""
    if not steps[state]:
        return len(dfa.alphabet)
    columns = dfa.table[state].tolist()
    reachable = [(steps[target], column) for column, target in enumerate(columns) if steps[target] is not None]
    return int(min(reachable)[1])


# --- machines ---------------------------------------------------------------------------------------------


def _at_the_edge(action: tuple[str, str, int]) -> tuple[str, str, int]:
    """Return what a step does on the first cell of a tape with a left end: it does not move left."""
    state, symbol, move = action
    return state, symbol, max(move, 0)


def turing_decoder(machine: TuringMachine | str = "1RB1LB_1LA1RZ", length: int = 128) -> type[TextProgram]:
    """A Turing machine with a chain of thought: after the word and `:` it writes a token per step, then its answer.

    A token of a step is what the step changed: the new state, the symbol written and the move. The position of the head
    is the sum of the moves, and the symbol under it is what was written there last: a head with `latest=True`.
    `length`: the longest sequence, word and steps together; the tape is as long as that reaches. On a tape with a left
    end, a step to the left from its first cell stays there, and its token says so.
    """
    machine = TuringMachine.parse(machine) if isinstance(machine, str) else machine
    effects: dict[tuple[str, str, int], int] = {}
    word_symbols = list(machine.input_alphabet or ())
    colon = len(word_symbols)
    for row in machine.transitions.values():
        for action in row.values():
            effects.setdefault(action, colon + 1 + len(effects))
            if not machine.two_way:
                effects.setdefault(_at_the_edge(action), colon + 1 + len(effects))
    accept, reject, end = (colon + 1 + len(effects) + i for i in range(3))
    names = {action: f"{action[0]},{action[1].replace(' ', '_')},{'LSR'[action[2] + 1]}" for action in effects}
    symbols = [*(symbol.replace(" ", "_") for symbol in word_symbols), ":", *names.values(), "accept", "reject", ";"]
    working, tape, one_way = machine.working, list(machine.symbols), not machine.two_way
    by_token = {token: action for action, token in effects.items()}
    bits = doublings(2 * length)
    size, blank, halting = 1 << bits, tape.index(machine.blank), len(working)

    def move(t: int) -> int:
        return 1 if t < colon else by_token[t][2] if t in by_token else 0

    def written(t: int) -> int:
        return tape.index(word_symbols[t]) if t < colon else tape.index(by_token[t][1]) if t in by_token else blank

    def state(t: int) -> int:
        reached = machine.start if t == colon else by_token[t][0] if t in by_token else None
        return working.index(reached) if reached in working else halting

    def ending(t: int) -> int:
        """1 after a state that accepts, 2 after one that rejects, 3 after the answer."""
        reached = machine.start if t == colon else by_token[t][0] if t in by_token else None
        return 1 if reached in machine.accept else 2 if reached in machine.reject else 3 if t >= accept else 0

    body: dict[str, Any] = {
        "at": word(bits, token=lambda t: move(t) % size),  # where the head is after this token
        "at_fresh": cat(2, token=lambda t: int(t == colon)),  # the head begins at the word's first symbol
        "cell": word(bits),  # where this token wrote
        "moved": word(bits, token=lambda t: move(t) % size),
        "writes": cat(2, token=lambda t: int(t < colon or t in by_token)),
        "symbol": cat(len(tape), token=written),
        "state": cat(len(working) + 1, token=state),
        "ending": cat(4, token=ending),
        "result": cat(len(symbols), default=end),
    }
    cycle = summed(body, "at", doublings(length))
    body["under"] = attend(
        body["at"], body["cell"], body["symbol"], among={body["writes"]: 1}, latest=True, default=blank
    )
    body["output"] = body["result"]
    flat = [effects[machine.transitions[q][a]] for q in working for a in tape]
    at_edge = [effects[_at_the_edge(machine.transitions[q][a])] for q in working for a in tape] if one_way else flat

    def place(z: Any) -> None:
        z.cell = (z.at - z.moved) % size

    def act(z: Any) -> None:
        if z.state < halting:
            if one_way and z.at == 0:
                z.result = table(at_edge)[z.state * len(tape) + z.under]
            else:
                z.result = table(flat)[z.state * len(tape) + z.under]
        else:
            z.result = accept if z.ending == 1 else reject if z.ending == 2 else end

    body["place"] = layer()(place)
    body["act"] = layer(body["under"])(act)
    body["cycle"] = (*cycle, body["place"], body["act"])
    body["layers"] = len(body["cycle"])
    about = f"{machine.name}: {turing_decoder.__doc__}"
    made: type[TextProgram] = text_decoder("turing_decoder", about, symbols, end, length - 1, body)
    return made
