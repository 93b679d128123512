"""Paths meet after each statement: independent branches add up, and the result is what Python does."""

from __future__ import annotations

import linecache
import random
from fractions import Fraction
from typing import Any

import pytest

import kleene as kl
from kleene.errors import KleeneError, StepError
from kleene.lowering.execution import execute, ways_through
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.rewriting import rewritten

NUMBER = iter(range(1_000_000))


def written(source: str) -> Any:
    """The function `step` of a source text that Python can find again."""
    name = f"<merging {next(NUMBER)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"kl": kl}
    exec(compile(source, name, "exec"), scope)
    return scope["step"]


def program(step: Any, **variables: Any) -> Any:
    body: dict[str, Any] = {name: kl.cat(4, token=lambda t: t) for name in "abcd"}
    body |= {"x": kl.cat(6), "y": kl.cat(6), **variables}
    return type(kl.Program)("Made", (kl.Program,), body | {"tokens": 4, "layers": 1, "output": body["x"], "step": step})


def everywhere(step: Any, **variables: Any) -> None:
    """The updates are what step does, on all values where these are few; a network does the same."""
    made = program(step, **variables)
    assert rewritten(step, None) is not None, "the source was not rewritten"
    assert kl.certify(made).holds, kl.certify(made)
    assert kl.certify(kl.compile(made)).holds


# --- branches add up --------------------------------------------------------------------------------------


def independent(count: int) -> Any:
    lines = [f"    if z.a{i} == 1:\n        z.x{i} = 2\n" for i in range(count)]
    variables: dict[str, Any] = {f"a{i}": kl.cat(2, token=lambda t: t % 2) for i in range(count)}
    variables |= {f"x{i}": kl.cat(3) for i in range(count)}
    return program(written("def step(z):\n" + "".join(lines)), **variables)


@pytest.mark.parametrize("count", [12, 30])
def test_independent_ifs_add_up(count):
    made = independent(count)
    assert len(ways_through(execute(made))) == 2 * count
    updates = guarded_updates(made)
    assert [len(update.guard) for update in updates] == [1] * count
    assert kl.explain_size(made).hidden == 2 * count


def test_flags_that_are_counted_are_one_sum():
    names = [f"f{i}" for i in range(20)]

    def step(z):
        count = 0
        for name in names:
            if getattr(z, name) == 1:
                count += 1
        z.total = count

    made = program(step, total=kl.cat(21), **{name: kl.cat(2, token=lambda t: t % 2) for name in names})
    (update,) = guarded_updates(made)
    assert update.form.variables == tuple(sorted(names)) and not update.guard
    assert kl.certify(kl.compile(made)).holds


def test_flags_that_are_counted_in_a_variable():
    def step(z):
        z.x = 0
        if z.a == 1:
            z.x += 1
        if z.b >= 2:
            z.x += 2
        if z.c:
            z.x += 1

    everywhere(step)
    assert len(guarded_updates(program(step))) == 1


def test_a_chain_of_elifs_after_ifs():
    def step(z):
        if z.a == 1:
            z.x = 1
        elif z.a == 2:
            z.x = z.b
        elif z.a == 3 and z.c == 1:
            z.x = 5
        if z.b == 2:
            z.y = z.x
        found = False
        if z.c == 3:
            found = True
        if z.d == 3:
            found = True
        if found:
            z.y = 4

    everywhere(step)


def test_long_chains_compile():
    chain = "".join(
        f"    {'el' if k else ''}if z.a == {k % 4} and z.n == {k}:\n        z.n = {k + 1}\n" for k in range(60)
    )
    everywhere(written("def step(z):\n" + chain), n=kl.cat(61))


# --- what statements do -----------------------------------------------------------------------------------


def helped(z: Any, limit: int) -> int:
    if z.a > limit:
        return 3
    for k in range(3):
        if z.b == k:
            return k
    return limit


def test_functions_that_return_from_the_middle():
    def step(z):
        z.x = helped(z, 1) + 1
        z.y = helped(z, 2)

    everywhere(step)


def test_loops_with_break_and_continue():
    def step(z):
        z.y = 5
        for k in range(4):
            if z.a == k:
                continue
            if z.b == k:
                z.y = k
                break
            z.x = k
        n = 0
        while n < z.c:
            n += 1
        z.x = n + 1

    everywhere(step)


def test_lists_that_a_branch_changes_belong_to_their_path():
    def step(z):
        seen = []
        if z.a == 1:
            seen.append(z.b)
        if z.c == 1:
            seen.append(1)
        for one in seen:
            z.x = one
        z.y = len(seen)
        pair = (z.a, z.b)
        if z.d == 2:
            pair = (z.b, z.a)
        z.x = max(pair) if pair[0] > 1 else z.x

    everywhere(step)


def test_local_functions_that_change_a_list():
    def step(z):
        seen = []

        def note(value):
            seen.append(value)

        if z.a == 1:
            note(2)
        if z.b == 1:
            note(3)
        z.x = sum(seen)

    everywhere(step)


def test_match_and_walrus_and_conditional_expressions():
    def step(z):
        match z.a:
            case 0 | 1:
                z.x = 2
            case 2 if (t := z.b) > 1:
                z.x = t
        z.y = 1 if z.c else (2 if z.d > 1 else 3)

    everywhere(step)


def test_saturating_by_hand_is_a_form():
    def step(z):
        t = z.a + 1
        if t > 3:
            t = 3
        z.x = t + z.b - 1 if z.c else 0

    everywhere(step)


def test_a_local_variable_without_a_value_is_an_error():
    def step(z):
        if z.a == 1:
            t = 1
        z.x = t

    with pytest.raises(StepError, match="'t'"):
        kl.compile(program(step))


def test_ranges_are_checked_on_the_paths_that_lead_there():
    def step(z):
        if z.a < 2:
            z.x = 0
        else:
            z.x = z.a
        if z.a >= 2:
            z.y = z.x - 2

    everywhere(step)


def needed(value: int) -> int:
    if value == 0:
        raise ValueError("nothing")
    if value == 3:
        raise KeyError(value)
    return value


def test_errors_that_step_catches():
    def step(z):
        try:
            z.x = needed(z.a) + needed(z.b)
        except ValueError:
            z.x = 5
        except KeyError as error:
            z.x = error.args[0] - 1
        finally:
            z.y = 1
        for value in (z.c, z.d):
            try:
                if value == 1:
                    raise StopIteration
                z.y = 10 // value % 6
            except (ZeroDivisionError, StopIteration):
                continue
            else:
                z.x = value

    everywhere(step)


def test_errors_of_lookups_that_step_catches():
    def step(z):
        try:
            z.x = [1, 2][z.a]
            z.y = {3: 4, 0: 1}[z.b]
        except IndexError:
            try:
                z.y = 5 // z.c
            except ZeroDivisionError:
                return
        except KeyError:
            pass
        if z.d:
            z.x = 3

    everywhere(step)


def test_functions_and_lists_that_a_variable_chooses():
    functions = [lambda v: v, lambda v: v + 1, lambda v: 3 - v, max]

    def step(z):
        z.x = functions[z.a](z.b, 0) if z.a == 3 else functions[z.a](z.b)
        z.y = len([0] * z.c) + len(z.d * [1, 2]) % 3

    everywhere(step)


def test_printing_prints_in_runs_alone(capsys):
    def step(z):
        print("at", z.a)
        if z.a == 1:
            print("one")
            z.x = 1

    made = program(step)
    net = kl.compile(made)
    kl.certify(made)
    kl.certify(net, program=made)
    assert capsys.readouterr().out == ""
    made.run([1])
    assert capsys.readouterr().out == "at 1\none\n"


def test_a_step_without_source_means_the_same():
    source = "def step(z):\n    if z.a == 1:\n        z.x = 1\n    if z.b == 1:\n        z.y = z.x\n"
    scope: dict[str, Any] = {}
    exec(source, scope)
    assert rewritten(scope["step"], None) is None
    assert guarded_updates(program(scope["step"])) == guarded_updates(program(written(source)))


CUBE = {(i, j, k): (i * j + k) % 6 for i in range(4) for j in range(4) for k in range(4)}
NESTED = [[[(i * j + k) % 6 for k in range(4)] for j in range(4)] for i in range(4)]
IDIOMS: dict[str, Any] = {
    "a table of three keys": lambda z: kl.table(CUBE)[z.a, z.b, z.c],
    "a nested table of three keys": lambda z: kl.table(NESTED)[z.a, z.b, z.c],
    "bit_count": lambda z: (z.a + z.b).bit_count(),
    "bit_length": lambda z: z.a.bit_length(),
    "abs": lambda z: abs(z.a - z.b),
    "divmod": lambda z: divmod(z.a + z.b, 3)[0] + divmod(z.a, 2)[1],
    "power": lambda z: pow(z.a, z.b, 5),
    "power of a constant": lambda z: pow(z.a, 3, 6),
}


@pytest.mark.parametrize("name", IDIOMS)
def test_idioms(name):
    def step(z):
        z.x = IDIOMS[name](z)

    everywhere(step)


def test_idioms_that_need_the_source():
    def step(z):
        z.x = pow(2, z.b, 5)
        half = Fraction(z.a, 2)
        z.y = int(half + Fraction(1, 2)) + (Fraction(z.b) > 1) + CUBE[z.a, 1, z.c] % 2 + NESTED[z.a][2][1] % 2

    everywhere(step)


# --- a parser as one would write it in Python ---------------------------------------------------------------

WORDS = ("walk", "left", "twice", "end")
PATTERNS = (("walk",), ("S", "left"), ("S", "twice"))
SYMBOLS = dict(enumerate((None, *WORDS, "S")))
NUMBERS = {symbol: number for number, symbol in SYMBOLS.items()}


def symbol_of(number: Any) -> Any:
    return None if number == 0 else SYMBOLS.get(number)


def matching(top: Any, below: Any) -> Any:
    """The pattern on top of the stack, found by comparing tuples of words."""
    stack = [symbol_of(number) for number in (top, below)]
    for pattern in PATTERNS:
        if tuple(reversed(stack[: len(pattern)])) == pattern:
            return pattern
    return None


class Parser(kl.Program):
    """Shift and reduce: how many patterns were found."""

    tokens, positions, text = len(WORDS), 6, None
    word = kl.cat(4, token=lambda t: t)
    here = kl.cat(6, position=lambda p: p)
    at = kl.cat(6, saturate=True)
    top = kl.cat(6)
    below = kl.cat(6)
    found = kl.cat(6, saturate=True)
    done = kl.cat(2)
    word_at = kl.attend(at, here, word)
    output = found
    halt = {done: 1}

    def step(z) -> None:
        if z.done:
            return
        pattern = matching(z.top, z.below)
        if pattern is not None:
            z.found += 1
            if len(pattern) == 2:
                z.below = 0
            z.top = NUMBERS["S"]
        elif WORDS[z.word_at] == "end":
            z.done = 1
        else:
            z.below = z.top
            z.top = NUMBERS[WORDS[z.word_at]]
            z.at += 1


def test_a_parser_with_words_and_tuples():
    assert Parser.run([0, 1, 2, 3]) == [3, 3, 3, 3]
    net = kl.compile(Parser)
    assert net.run([0, 1, 2, 3]) == [3, 3, 3, 3]
    assert kl.certify(Parser).holds and kl.certify(net).holds
    assert net.sizes.hidden < 120


# --- random steps -----------------------------------------------------------------------------------------


class Writer:
    """Random steps: sequences of assignments, branches and loops on variables and local variables."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def value(self) -> str:
        simple = ["z.a", "z.b", "z.c", "z.x", "z.y", "s", "t", "1", "2"]
        one, two = self.chance.choice(simple), self.chance.choice(simple)
        ways = [one, f"({one} + {two}) % 6", f"min({one}, {two})", f"[3, 1, 0, 2, 5, 4][{one}]", f"abs({one} - {two})"]
        return self.chance.choice(ways)

    def condition(self) -> str:
        one, two = (self.chance.choice(["z.a", "z.b", "z.c", "z.x", "s", "t"]) for _ in "12")
        ways = [f"{one} == {self.chance.randrange(4)}", f"{one} > {two}", f"{one} and {two} != 1", f"{one} in (1, 3)"]
        return self.chance.choice(ways)

    def block(self, indent: str, depth: int) -> str:
        return "".join(self.statement(indent, depth) for _ in range(self.chance.randint(1, 3)))

    def statement(self, indent: str, depth: int) -> str:
        kind = self.chance.choice(["assign", "assign", "local", "if", "if", "else", "for"] if depth else ["assign"])
        inside = indent + "    "
        if kind == "if":
            return f"{indent}if {self.condition()}:\n{self.block(inside, depth - 1)}"
        if kind == "else":
            other = f"{indent}else:\n{self.block(inside, depth - 1)}"
            return f"{indent}if {self.condition()}:\n{self.block(inside, depth - 1)}{other}"
        if kind == "for":
            leave = self.chance.choice(
                ["", f"{inside}if {self.condition()}: {self.chance.choice(['break', 'continue'])}\n"]
            )
            return f"{indent}for k in range(2):\n{leave}{self.block(inside, depth - 1)}"
        target = self.chance.choice(["s", "t"] if kind == "local" else ["z.x", "z.y"])
        return f"{indent}{target} = {self.value()} % 6\n"

    def source(self) -> str:
        return "def step(z):\n    s, t = 0, z.a\n" + self.block("    ", 2) + self.block("    ", 2)


@pytest.mark.parametrize("seed", range(25))
def test_random_steps_do_what_python_does(seed):
    source = Writer(seed).source()
    step = written(source)
    assert rewritten(step, None) is not None
    made = program(step)
    try:
        found = kl.certify(made)
    except KleeneError as error:
        raise AssertionError(f"{error}\n{source}") from error
    assert found.holds, f"{found}\n{source}"


def test_functions_of_imported_modules_leave_the_source_readable():
    """Python compiles `math.gcd(…)` differently where the module imports `math`."""
    step = written(
        "import math\ndef step(z):\n    if z.a:\n        z.x = math.gcd(z.b, z.c)\n    if z.d:\n        z.y = 1\n"
    )
    everywhere(step)


def test_with_that_catches_errors():
    imports = "from contextlib import suppress\n"
    everywhere(written(imports + "def step(z):\n    with suppress(ZeroDivisionError):\n        z.x = 3 // z.a\n"))


def test_a_text_contains_a_text_that_depends_on_variables():
    everywhere(
        written("def step(z):\n    name = 'abcd'[z.a]\n    if name in 'bd' or name not in 'abd':\n        z.x = 1\n")
    )


@pytest.mark.parametrize(
    "source, words",
    [
        ("import random\ndef step(z):\n    z.x = random.randrange(2)\n", r"step calls randrange\(\).*line 3"),
        ("from time import time\ndef step(z):\n    z.x = int(time()) % 2\n", r"calls time\(\), which gives another"),
        ("import datetime\ndef step(z):\n    z.x = datetime.date.today().day % 2\n", r"step calls today\(\)"),
        ("def step(z):\n    assert z.a < 3\n", r"step raises AssertionError \(for a = 3; line 2\)"),
        ("def step(z):\n    if z.a == 1:\n        raise ValueError('no')\n", r"ValueError: no \(for a = 1; line 3\)"),
    ],
)  # fmt: skip
def test_what_step_may_not_do_is_said(source, words):
    with pytest.raises(KleeneError, match=words):
        kl.compile(program(written(source)))


@pytest.mark.parametrize(
    "body",
    [
        "z.x = len({z.a, z.b, z.c})",
        "z.x = [z.a, z.b, z.c].count(z.a)",
        "counts = [0] * 4\n    for v in (z.a, z.b, z.c):\n        counts[v] += 1\n    z.x = max(counts)",
    ],
)
def test_updates_of_one_variable_share_the_units_that_clear_it(body):
    wide = {"x": kl.cat(60)}
    step = written(f"def step(z):\n    {body}\n")
    everywhere(step, **wide)
    assert kl.explain_size(program(step, **wide)).hidden <= 60 + 64  # once for each old value, and what is written


class Spells(kl.Program):
    """Letters are searched in a text of the class, for each value of a variable."""

    tokens, layers = 3, 1
    word = "cabbage"
    here = kl.cat(3, token=lambda t: t)
    place = kl.cat(60)
    output = place

    def step(z):
        letter = "abc"[z.here]
        z.place = z.word.index(letter) + 10 * z.word.count(letter) + z.word.startswith(letter)


def test_a_text_is_searched_for_what_depends_on_a_variable():
    assert Spells.run([0, 1, 2]) == [21, 22, 11]
    assert kl.verify(Spells, kl.compile(Spells), lengths=[1, 2]).mismatches == 0
    assert kl.certify(Spells).holds
