"""A calculator that shows its work: each line is the one before with one step done, until a number is left.

    12*(3-45)+6=12*-42+6=(-84+1*-420)+6=(-84+-420)+6=-504+6=-498;

The step is in the first innermost bracket, or in the whole line: its first product, or else its first sum or
difference. A product takes the last digit of its left factor: 12*-42 is (2*-42+1*-420). All of a step is worked out
where its line ends, at `=`: which step it is, the digits of the result, and where each part of the next line comes
from. The tokens of the next line look there.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

from kleene.errors import InputError
from kleene.library.decoding import doublings, text_decoder
from kleene.library.encoding import TextProgram
from kleene.lowering.symbolic import table
from kleene.machines.declarations import attend, cat, layer, relative, word

SYMBOLS = "0123456789+-*()=;?"
ADD, SUBTRACT, TIMES, OPEN, CLOSE, EQUALS, END, TOO_LARGE = range(10, 18)
NO_DIGIT = NO_FACTOR = 10
COPY, DIGIT, SIGN, BRACKET, PLUS, ZERO, CLOSING = range(7)  # what a token of the next line is
CARRIES = table([0] * 9 + [1] + [2] * 9)  # by x + y, or x + (9 − y)
PRODUCTS = [a * b for a in range(10) for b in range(10)]


def calculator_decoder(digits: int = 5, length: int = 250) -> type[TextProgram]:
    """Works out + − × and brackets, step by step: after `2*(3-14)=` it writes `2*-11=-22` and stops.

    Numbers are whole, and may have a sign: `-3*-4`. If an intermediate number has more than `digits` digits, the
    answer is `?`. `length`: the longest sequence, the expression with its steps; brackets nest as deep as it allows.
    """
    if not 2 <= digits <= 7:
        raise InputError(f"calculator_decoder: digits={digits}; it takes 2 to 7")
    if not 16 <= length <= 4000:
        raise InputError(f"calculator_decoder: length={length}; it takes 16 to 4,000")
    made = _Calculator(digits, length)
    about = calculator_decoder.__doc__ or ""
    program: type[TextProgram] = text_decoder("calculator_decoder", about, SYMBOLS, END, length, made.body)
    return program


class _Calculator:
    """The declarations and layers of the program."""

    def __init__(self, digits: int, length: int) -> None:
        self.digits, self.length, self.bits = digits, length, doublings(length + 2)
        self.size = 1 << self.bits
        self.body: dict[str, Any] = {}
        self.places = range(digits)
        self._variables()
        local = [self._look(), self._multiply(), self._collect()]
        local += [((), None)] * (self.bits - len(local))
        cycle = [self._count(k, *local[k]) for k in range(self.bits)]
        cycle += [self._starts(), self._group(), self._choose(), self._operands(), self._larger(), self._carry()]
        cycle += [self._digits(), self._measure(), self._place(), self._aim(), self._write()]
        self.body |= {"cycle": tuple(cycle), "layers": len(cycle), "output": self.body["result"]}
        self.body["sample"] = staticmethod(self._sample)

    def _sample(self, chance: Random, wanted: int) -> list[int]:
        """A random expression of at most this many characters that the calculator can finish."""
        while True:
            text = random_expression(chance, max(1, wanted))
            lines = lines_of(text, self.digits)
            if lines[-1] != "?" and len("=".join([text, *lines])) < self.length:
                return [SYMBOLS.index(character) for character in f"{text}="]

    def _variables(self) -> None:
        words = [
            *("start", "bound", "left", "first", "at", "after_at", "step_from", "step_to", "rest", "factors", "more"),
            *("size", "begins_at", "ends_at", "rest_to", "factors_to", "next_at", "back", "back_rest", "back_after"),
            *("source", "offset"),
        ]
        body = self.body
        body["token"] = cat(18, token=lambda t: t)
        body["position"] = word(self.bits, default=1)
        for name in words:
            body[name] = word(self.bits)
        body["one"] = cat(2, default=1)
        body["is_times"] = cat(2, token=lambda t: int(t == TIMES))
        body["is_close"] = cat(2, token=lambda t: int(t == CLOSE))
        body["is_equals"] = cat(2, token=lambda t: int(t == EQUALS))
        body["line_starts"] = cat(2)  # the first token of a line
        body["group_starts"] = cat(2)  # the first token after a bracket, or of a line
        body["number_starts"] = cat(2)  # the first digit of a number, or its sign
        body["is_sign"] = cat(2)
        body["in_bracket"] = cat(2)  # a number's first token: the token before it is `(`
        body["is_operator"] = cat(2)
        body["ends"] = cat(2)  # an operator, `)` or `=`: it follows a number
        body["parts"] = cat(2)  # an operator, a bracket or `=`
        body["factor"] = cat(11, default=NO_FACTOR)  # at `*`: the last digit of the number before it
        body["several"] = cat(2)  # at `*`: that number has several digits
        body["low"] = cat(11, default=NO_DIGIT)  # a digit, or the low digit of its product with the factor
        body["high"] = cat(10)
        body["negative"] = cat(2)  # the sign of the number before this token
        body["bracketed"] = cat(2)
        body["long"] = cat(2)  # it has too many digits
        for k in self.places:
            body[f"x{k}"], body[f"y{k}"] = cat(10), cat(10)  # digits before this token; then operands; x: then the sum
            body[f"carries{k}"] = cat(3, default=1)  # 0 gives no carry, 1 passes one on, 2 gives one
        for k in range(self.digits + 1):
            body[f"carry{k}"] = cat(2)  # into this place
        body["alone"] = cat(2)  # there is a number only
        body["subtracts"], body["minus"], body["splits"] = cat(2), cat(2), cat(2)
        body["finishes"], body["too_large"] = cat(2), cat(2)
        body["part"] = cat(7)
        body["result"] = cat(18, default=END)

    def _head(self, name: str, made: Any) -> Any:
        self.body[name] = made
        return made

    def _layer(self, name: str, heads: list[Any], step: Any) -> Any:
        made = layer(*heads)(step)
        self.body[name] = made
        return made

    def _latest(self, name: str, flag: str, value: str, default: int = 0) -> Any:
        """A head: the value at the latest position where a flag is 1."""
        b = self.body
        return self._head(name, attend(b["one"], b[flag], b[value], latest=True, default=default))

    # --- while positions are counted: what each token is, from the tokens around it ---

    def _count(self, k: int, heads: tuple[Any, ...], also: Any) -> Any:
        """Count positions by doubling."""
        left, size = f"position_{1 << k}_left", self.size
        head = self._head(left, relative(self.body["position"], -(1 << k), default=0))

        def step(z: Any) -> None:
            z.position = (z.position + getattr(z, left)) % size
            if also is not None:
                also(z)

        return self._layer(f"count_{1 << k}", [head, *heads], step)

    def _look(self) -> Any:
        before = self._head("before", relative(self.body["token"], -1, default=EQUALS))
        before_that = self._head("before_that", relative(self.body["token"], -2, default=EQUALS))

        def step(z: Any) -> None:
            if z.before == EQUALS:
                z.line_starts = 1
            if z.before == OPEN or z.before == CLOSE or z.before == EQUALS:
                z.group_starts = 1
            if z.token == SUBTRACT:
                if z.before < 10 or z.before == CLOSE:
                    z.is_operator, z.ends, z.parts = 1, 1, 1
                else:
                    z.is_sign, z.number_starts = 1, 1
                    z.in_bracket = 1 if z.before == OPEN else 0
            elif z.token == ADD or z.token == TIMES:
                z.is_operator, z.ends, z.parts = 1, 1, 1
                if z.token == TIMES:
                    if z.before < 10:
                        z.factor = z.before
                    if z.before_that < 10:
                        z.several = 1
            elif z.token < 10:
                if z.before == SUBTRACT:
                    if z.before_that < 10 or z.before_that == CLOSE:
                        z.number_starts = 1
                elif z.before >= 10:
                    z.number_starts = 1
                    z.in_bracket = 1 if z.before == OPEN else 0
            else:
                z.parts = 1
                if z.token == CLOSE or z.token == EQUALS:
                    z.ends = 1

        return (before, before_that), step

    def _multiply(self) -> Any:
        """Each digit after `*` is multiplied with the digit before `*`; other digits stay."""
        heads = (
            self._latest("times", "parts", "factor", NO_FACTOR),
            self._latest("sign_here", "number_starts", "is_sign"),
            self._latest("bracket_here", "number_starts", "in_bracket"),
        )
        low, high = table([p % 10 for p in PRODUCTS]), table([p // 10 for p in PRODUCTS])

        def step(z: Any) -> None:
            z.negative, z.bracketed = z.sign_here, z.bracket_here
            if z.token < 10:
                if z.times == NO_FACTOR:
                    z.low = z.token
                else:
                    z.low = low[10 * z.times + z.token]
                    z.high = high[10 * z.times + z.token]

        return heads, step

    def _collect(self) -> Any:
        """The digits of the number before each token, lowest first."""
        lows, highs = [], []
        for k in range(self.digits + 1):
            lows.append(self._head(f"low_{k}", relative(self.body["low"], -k - 1, default=NO_DIGIT)))
        for k in self.places:
            highs.append(self._head(f"high_{k}", relative(self.body["high"], -k - 1, default=0)))

        def step(z: Any) -> None:
            for k in self.places:
                if getattr(z, f"low_{k}") == NO_DIGIT:
                    break
                setattr(z, f"x{k}", getattr(z, f"low_{k}"))
                setattr(z, f"y{k}", getattr(z, f"high_{k}"))
            else:
                if getattr(z, f"low_{self.digits}") != NO_DIGIT:
                    z.long = 1

        return (*lows, *highs), step

    # --- at `=`: which step is next ---

    def _starts(self) -> Any:
        """Where the line, the group and the number before this token start."""
        heads = [
            self._latest("the_start", "line_starts", "position"),
            self._latest("the_bound", "group_starts", "position"),
            self._latest("the_left", "number_starts", "position"),
        ]

        def step(z: Any) -> None:
            z.start, z.bound, z.left = z.the_start, z.the_bound, z.the_left

        return self._layer("find_starts", heads, step)

    def _group(self) -> Any:
        """The group in which the step is: up to the first `)` of the line, or the whole line."""
        b, heads, size = self.body, [], self.size
        for name, value in (("close_bound", "bound"), ("closed", "one")):
            made = attend(b["start"], b["start"], b[value], among={b["is_close"]: 1}, earliest=True, default=0)
            heads.append(self._head(name, made))

        def step(z: Any) -> None:
            z.first = z.bound
            if z.closed:
                z.first = z.close_bound
            z.back = (z.position + 1 - z.start) % size

        return self._layer("find_group", heads, step)

    def _choose(self) -> Any:
        """The first product of the group, else its first operator, else what is before its number."""
        b, heads, size = self.body, [], self.size
        for kind, flag in (("product", "is_times"), ("operator", "is_operator")):
            for name, value in ((f"the_{kind}", "position"), (f"has_{kind}", "one")):
                made = attend(b["first"], b["bound"], b[value], among={b[flag]: 1}, earliest=True, default=0)
                heads.append(self._head(name, made))

        def step(z: Any) -> None:
            if z.has_product:
                z.at, z.after_at = z.the_product, (z.the_product + 1) % size
            elif z.has_operator:
                z.at, z.after_at = z.the_operator, (z.the_operator + 1) % size
            else:
                z.at, z.after_at = (z.first - 1) % size, z.first
                z.alone = 1

        return self._layer("choose", heads, step)

    def _operands(self) -> Any:
        """Fetch both numbers, and say what is to be added: for a product the low and the high digits."""
        b, size = self.body, self.size
        values = {"token": END, "left": 0, "negative": 0, "bracketed": 0, "long": 0, "several": 0}
        values |= {f"x{k}": 0 for k in self.places}
        heads = []
        for value, default in values.items():
            made = attend(b["at"], b["position"], b[value], where={b["alone"]: 0}, latest=True, default=default)
            heads.append(self._head(f"a_{value}", made))
        values = {"position": 0, "negative": 0, "bracketed": 0, "long": 0, "is_close": 0}
        values |= {f"{name}{k}": 0 for name in "xy" for k in self.places}
        for value, default in values.items():
            made = attend(b["after_at"], b["left"], b[value], among={b["ends"]: 1}, earliest=True, default=default)
            heads.append(self._head(f"b_{value}", made))

        def step(z: Any) -> None:
            z.factors, z.rest = (z.b_position - z.at) % size, (z.at - z.a_left - 1) % size
            z.left = z.a_left
            self._edges(z)
            self._signs(z)
            for k in self.places:
                x, y = getattr(z, f"a_x{k}"), getattr(z, f"b_x{k}")
                if z.a_token == TIMES:
                    x, y = y, getattr(z, f"b_y{k - 1}") if k else 0
                setattr(z, f"x{k}", x)
                setattr(z, f"y{k}", y)
                setattr(z, f"carries{k}", CARRIES[x - y + 9 if z.subtracts else x + y])

        return self._layer("fetch", heads, step)

    def _edges(self, z: Any) -> None:
        """The tokens that the result replaces: both numbers, and the brackets around them if these hold nothing
        else."""
        z.step_from, z.step_to = z.a_left, z.b_position
        if z.alone:
            z.step_from = z.first
            if z.b_bracketed and z.b_is_close:
                z.step_from, z.step_to = (z.first - 1) % self.size, (z.b_position + 1) % self.size
        elif z.a_bracketed and z.b_is_close:
            z.step_from, z.step_to = (z.a_left - 1) % self.size, (z.b_position + 1) % self.size

    def _signs(self, z: Any) -> None:
        """Whether the result is negative, whether one number is subtracted from the other, and whether both fit."""
        z.too_large = 1 if z.a_long or z.b_long else 0
        if z.a_token == TIMES:
            z.minus = 1 if z.a_negative + z.b_negative == 1 else 0
            z.splits = z.a_several
            if getattr(z, f"b_y{self.digits - 1}") != 0:
                z.too_large = 1
        else:
            z.minus = z.a_negative
            if z.a_token == SUBTRACT:
                z.subtracts = 1 if z.a_negative + z.b_negative != 1 else 0
            else:
                z.subtracts = 1 if z.a_negative + z.b_negative == 1 else 0

    # --- at `=`: the result, and where the parts of the next line come from ---

    def _larger(self) -> Any:
        """A difference is a sum with a complement: of the smaller number's digits to nine."""
        size = self.size

        def step(z: Any) -> None:
            if z.subtracts:
                if sum((getattr(z, f"carries{k}") - 1) * (1 << k) for k in self.places) >= 0:
                    for k in self.places:
                        setattr(z, f"y{k}", 9 - getattr(z, f"y{k}"))
                else:
                    z.minus = 1 - z.minus
                    for k in self.places:
                        setattr(z, f"x{k}", 9 - getattr(z, f"x{k}"))
                        setattr(z, f"carries{k}", 2 - getattr(z, f"carries{k}"))
            z.begins_at = (z.step_from + z.back) % size
            if z.splits:
                z.more = (z.factors + z.rest + 3) % size
                z.factors = (z.factors + z.rest) % size
            if z.step_from == z.start and z.step_to == z.position and not z.splits:
                z.finishes = 1

        return self._layer("complement", [], step)

    def _carry(self) -> Any:
        """The carry into each place: the highest lower place that does not pass one on decides."""
        size = self.size

        def step(z: Any) -> None:
            for k in range(self.digits + 1):
                lower = sum((getattr(z, f"carries{j}") - 1) * (1 << j) for j in range(k)) + z.subtracts
                setattr(z, f"carry{k}", table([int(v > (1 << k) - 1) for v in range(2 << k)])[lower + (1 << k) - 1])
            z.ends_at = (z.begins_at - 1) % size
            z.rest_to = (z.begins_at + z.rest + 1) % size
            z.factors_to = (z.begins_at + z.factors + 1) % size
            z.next_at = (z.begins_at + z.more) % size
            z.back_rest = (z.begins_at - z.left + 1) % size
            z.back_after = (z.begins_at - z.step_to + z.more) % size

        return self._layer("carry", [], step)

    def _digits(self) -> Any:
        def step(z: Any) -> None:
            for k in self.places:
                setattr(z, f"x{k}", (getattr(z, f"x{k}") + getattr(z, f"y{k}") + getattr(z, f"carry{k}")) % 10)
            if getattr(z, f"carry{self.digits}") and not z.subtracts:
                z.too_large = 1

        return self._layer("add", [], step)

    def _measure(self) -> Any:
        """How many tokens the result has, with its sign and with `(` where it splits. Zero has no sign."""

        def step(z: Any) -> None:
            for k in reversed(self.places):
                if getattr(z, f"x{k}") != 0:
                    z.size = k + 1 + (2 if z.splits and z.minus else 1 if z.splits or z.minus else 0)
                    break
            else:
                z.size = 2 if z.splits else 1
                z.minus = 0

        return self._layer("measure", [], step)

    def _place(self) -> Any:
        """Move what follows the result by its size."""
        places, size = ("ends_at", "rest_to", "factors_to", "next_at", "back_rest", "back_after"), self.size

        def step(z: Any) -> None:
            for name in places:
                setattr(z, name, (getattr(z, name) + z.size) % size)

        return self._layer("place", [], step)

    # --- at every token of the next line ---

    def _aim(self) -> Any:
        """Which part of the line the next token is in, and what it is copied from."""
        words = ("begins_at", "ends_at", "rest_to", "factors_to", "next_at", "back", "back_rest", "back_after")
        heads = [self._latest(f"its_{name}", "is_equals", name) for name in (*words, "splits", "minus")]
        size = self.size

        def step(z: Any) -> None:
            z.part = COPY
            if z.position + 1 < z.its_begins_at:
                z.source = (z.position + 1 - z.its_back) % size
            elif z.position + 1 >= z.its_next_at:
                z.source = (z.position + 1 - z.its_back_after) % size
            elif z.position < z.its_ends_at:
                z.part = DIGIT
                z.offset = (z.its_ends_at - z.position - 1) % size
                if z.its_splits and z.position + 1 == z.its_begins_at:
                    z.part = BRACKET
                elif z.its_minus and z.position + 1 == z.its_begins_at + z.its_splits:
                    z.part = SIGN
            elif z.position == z.its_ends_at:
                z.part = PLUS
            elif z.position + 1 < z.its_rest_to:
                z.source = (z.position + 1 - z.its_back_rest) % size
            elif z.position + 1 < z.its_factors_to:
                z.source = (z.position + 2 - z.its_back_rest) % size
            else:
                z.part = ZERO if z.position + 1 == z.its_factors_to else CLOSING

        return self._layer("aim", heads, step)

    def _write(self) -> Any:
        b = self.body
        copied = self._head("copied", attend(b["source"], b["position"], b["token"], latest=True, default=END))
        heads = [copied, *(self._latest(f"its_{name}", "is_equals", name) for name in ("finishes", "too_large"))]
        heads += [self._latest(f"its_x{k}", "is_equals", f"x{k}") for k in self.places]
        fixed = {SIGN: SUBTRACT, BRACKET: OPEN, PLUS: ADD, ZERO: 0, CLOSING: CLOSE}

        def step(z: Any) -> None:
            if z.token == TOO_LARGE:
                z.result = END
            elif z.token == EQUALS and z.its_too_large:
                z.result = TOO_LARGE
            elif z.part == COPY:
                z.result = END if z.copied == EQUALS and z.its_finishes else z.copied
            elif z.part == DIGIT:
                for k in self.places:
                    if z.offset == k:
                        z.result = getattr(z, f"its_x{k}")
                        break
            else:
                for part, token in fixed.items():
                    if z.part == part:
                        z.result = token
                        break

        return self._layer("write", heads, step)


# --- expressions, as text ---------------------------------------------------------------------------------


def random_expression(chance: Random, size: int) -> str:
    """A random well-formed expression of at most this many characters."""
    if size < 3 or chance.random() < 0.15:
        sign = "-" if size > 1 and chance.random() < 0.2 else ""
        return sign + str(chance.randrange(10 ** min(4, size - len(sign))))
    if size > 4 and chance.random() < 0.35:
        return f"({random_expression(chance, size - 2)})"
    left = chance.randrange(1, size - 1)
    return random_expression(chance, left) + chance.choice("+-*") + random_expression(chance, size - 1 - left)


def lines_of(text: str, digits: int) -> list[str]:
    """The lines that the calculator writes after an expression, found by another way: text is replaced.

    >>> lines_of("12*(3-14)", 6)
    ['12*-11', '(-22+1*-110)', '(-22+-110)', '-132']
    """
    lines, finished = [text], False
    while not finished:
        made, finished = _next_line(lines[-1], digits)
        lines.append(made)
    return lines[1:]


def _next_line(line: str, digits: int) -> tuple[str, bool]:
    """The line after one step, and whether it is the answer."""
    group = re.search(r"\(([^()]*)\)", line) or re.fullmatch(r"(.*)", line)
    assert group is not None
    items = list(re.finditer(r"(-?\d+)([-+*]?)", group[1]))
    chosen = next((i for i, item in enumerate(items) if item[2] == "*"), 0)
    a, operator, b = items[chosen][1], items[chosen][2], items[min(chosen + 1, len(items) - 1)][1]
    numbers = {"+": int(a) + int(b), "-": int(a) - int(b), "": int(b), "*": int(a[-1]) * int(b)}
    value = -numbers[operator] if operator == "*" and a[0] == "-" else numbers[operator]
    if max(abs(value), abs(int(b)), 0 if operator in ("", "*") else abs(int(a))) >= 10**digits:
        return "?", True
    splits = operator == "*" and len(a.lstrip("-")) > 1
    made = f"({value}+{a[:-1]}*{b}0)" if splits else str(value)
    if len(items) <= 2:
        made_line = line[: group.start()] + made + line[group.end() :]
        return made_line, made_line == made and not splits
    begin, end = items[chosen].start(), items[chosen + 1].end(1)
    return line[: group.start(1) + begin] + made + line[group.start(1) + end :], False
