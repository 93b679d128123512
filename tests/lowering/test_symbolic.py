"""Symbolic execution of `step`: paths, feasibility, ranges, and the guarded updates that come out."""

from __future__ import annotations

import json
import random
import re
from itertools import product
from typing import Any

import pytest

import kleene as kl
from kleene.lowering import merging
from kleene.lowering.execution import execute, ways_through
from kleene.lowering.guarding import guarded_updates
from kleene.lowering.updates import Updates


def make(step: Any, **variables: Any) -> Any:
    """A program with this step and variables (by default a, b, c of range 10); `a` is the output."""
    body = {name: kl.cat(10, token=lambda t: t) for name in ("a", "b", "c")}
    body |= variables
    body |= {"tokens": 10, "output": body["a"], "layers": 1, "step": step}
    return type(kl.Program)("Made", (kl.Program,), body)


def paths(step: Any, **variables: Any) -> int:
    return len(ways_through(execute(make(step, **variables))))


def same_as_python(program: Any, samples: int = 400) -> None:
    """The updates applied to random states (or all of them) give what step gives on plain values."""
    updates, kinds = guarded_updates(program), program.spec.kinds
    names, sizes = list(kinds), [len(kind) for kind in kinds.values()]
    chance = random.Random(0)
    total = 1
    for size in sizes:
        total *= size
    states = (
        product(*map(range, sizes))
        if total <= samples
        else (tuple(chance.randrange(size) for size in sizes) for _ in range(samples))
    )
    for state in states:
        indices = dict(zip(names, state))
        plain = Plain(program, {name: kinds[name].values[index] for name, index in indices.items()})
        program.step(plain)
        wanted = {name: kinds[name].index(plain.values[name]) for name in program.spec.variables}
        assert updates.apply(indices) == wanted, indices


class Plain:
    """`z` on plain values."""

    def __init__(self, program: Any, values: dict[str, Any]) -> None:
        vars(self).update(program=program, values=values)

    def __getattr__(self, name: str) -> Any:
        return self.values[name] if name in self.values else getattr(self.program, name)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self.program.spec.kinds[name]
        self.values[name] = kind.values[kind.index(value)]


# --- paths ------------------------------------------------------------------------------------------------


def test_a_straight_step_is_one_path():
    def step(z):
        z.c = (z.a + z.b) % 10
        z.a = 0

    program = make(step)
    assert len(execute(program)) == 1
    same_as_python(program)


def test_each_branch_is_a_path():
    def step(z):
        if z.a == 0:
            z.b = 1
        elif z.a == 1:
            z.b = 2
        else:
            z.b = 3

    assert paths(step) == 3


def test_branches_that_cannot_be_taken_are_no_paths():
    def step(z):
        if z.a > 5:
            if z.a < 3:
                raise AssertionError("unreachable")
            z.b = 1
        if z.a - z.b > 20:
            raise AssertionError("unreachable")

    assert paths(step) == 4  # two of each statement that asks for a or b


def test_branches_on_several_variables_limit_each_other():
    def step(z):
        if z.a < z.b and z.b < z.c and z.c < z.a:
            raise AssertionError("unreachable")

    assert paths(step) == 3 and len(guarded_updates(make(step))) == 0


def test_the_papers_addition_has_few_paths():
    assert len(ways_through(execute(kl.library.addition))) <= 12


@pytest.mark.parametrize("high", [8, 16, 64])
def test_the_paths_of_subleq_do_not_grow_with_its_values(high):
    assert len(ways_through(execute(kl.library.subleq(-high, high, 8)))) <= 10


def test_and_or_not_and_conditional_expressions():
    def step(z):
        z.b = 1 if z.a > 3 and not z.b else (z.c if z.a < 2 or z.c == 7 else 0)

    same_as_python(make(step))


# --- feasibility and range --------------------------------------------------------------------------------


def test_a_guarded_difference_does_not_report_minus_nine():
    def step(z):
        if z.a >= z.b:
            z.c = z.a - z.b

    program = make(step)
    same_as_python(program, 1_000)
    assert kl.verify(program, kl.compile(program), lengths=[1, 2], evaluator="dense")


def test_the_same_difference_without_a_guard_is_a_range_error_with_an_example():
    def step(z):
        z.c = z.a - z.b

    program = make(step)
    with pytest.raises(kl.RangeError, match=r"outside 0 … 9") as caught:
        kl.compile(program)
    found = re.search(r"Made: step writes (-\d) to 'c'.*\(for a = (\d), b = (\d)", str(caught.value))
    assert found is not None, caught.value
    wrong, a, b = map(int, found.groups())
    assert a - b == wrong


def test_the_example_of_a_range_error_is_on_the_path():
    def step(z):
        if z.a > 6:
            z.b = z.a + 2

    with pytest.raises(kl.RangeError, match=r"step writes (10|11) to 'b'.*\(for a = [89]"):
        kl.compile(make(step))


def test_a_constant_out_of_range_is_found_only_on_a_path_that_is_taken():
    def fine(z):
        if z.a > 12:
            z.b = 12

    def wrong(z):
        if z.a == 9:
            z.b = 12

    kl.compile(make(fine))
    with pytest.raises(kl.RangeError, match=r"step writes 12 to 'b'"):
        kl.compile(make(wrong))


def test_ranges_use_what_earlier_branches_said():
    def step(z):
        if z.a + z.b <= 9:
            z.c = z.a + z.b
        elif z.a + z.b < 15:
            z.c = z.a + z.b - 10
        z.b = min(z.b + 1, 9) if z.a else max(z.b - 1, 0)

    same_as_python(make(step), 1_000)


def test_a_range_that_needs_three_variables_together():
    def step(z):
        if z.a < z.b and z.b < z.c:
            z.a = z.c - z.a - 2

    same_as_python(make(step), 1_000)


# --- raising ----------------------------------------------------------------------------------------------


def test_a_step_that_raises_for_some_value_says_for_which():
    def step(z):
        z.b = 9 // z.a

    with pytest.raises(kl.StepError, match=r"Made: step raises ZeroDivisionError: .*\(for a = 0; line \d+\)"):
        kl.compile(make(step))


def test_a_step_that_raises_only_where_it_is_not_used_is_fine():
    def step(z):
        if z.a > 0:
            z.b = 9 // z.a

    same_as_python(make(step))


def test_a_step_that_always_raises():
    def step(z):
        raise ValueError("no")

    with pytest.raises(kl.StepError, match=r"Made: step raises ValueError: no"):
        kl.compile(make(step))


def test_a_table_too_short_is_a_step_error_with_an_example():
    def step(z):
        z.b = kl.table([1, 2, 3])[z.a]

    with pytest.raises(kl.StepError, match=r"IndexError.*\(for a = [3-9]"):
        kl.compile(make(step))


def test_a_list_too_short_is_a_step_error():
    def step(z):
        z.b = [1, 2, 3][z.a]

    with pytest.raises(kl.StepError, match="IndexError"):
        kl.compile(make(step))


def test_a_step_of_another_type_than_numbers_is_an_error():
    def step(z):
        z.b = z.a + "1"

    with pytest.raises(kl.StepError, match="TypeError"):
        kl.compile(make(step))


# --- too many paths ---------------------------------------------------------------------------------------


def test_too_many_paths_names_the_branches_that_multiply(monkeypatch):
    monkeypatch.setattr(merging, "MAX_PATHS", 2_000)
    names = [f"v{i}" for i in range(6)]

    def step(z):
        z.a = sum(int(f"{getattr(z, name)}") for name in names) % 10

    program = make(step, **{name: kl.cat(10) for name in names})
    with pytest.raises(kl.TooManyPaths) as caught:
        kl.compile(program)
    message = str(caught.value)
    assert "2,000 paths" in message and "line " in message and "kl.table" in message
    assert any(name in message for name in names)


def test_tables_and_among_do_not_fork():
    digits = kl.table([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])

    def step(z):
        z.b = digits[z.a]
        z.c = kl.among(z.b, {1, 4, 7})

    assert paths(step) == 1
    same_as_python(make(step))


def test_lists_and_dicts_of_constants_do_not_fork_where_the_source_is_at_hand():
    names = {k: "even" if k % 2 == 0 else None for k in range(9)}

    def step(z):
        z.b = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0][z.a]
        z.c = 1 if names.get(z.b, "none") == "even" else (3, 2, 1).index(3)

    assert paths(step) == 2
    same_as_python(make(step))


def test_a_text_does_fork():
    def step(z):
        z.b = int("9876543210"[z.a])

    assert paths(step) == 10
    same_as_python(make(step))


def test_tables_of_two_keys():
    grid = [[(3 * i + j) % 10 for j in range(10)] for i in range(10)]

    def step(z):
        z.c = kl.table(grid)[z.a, z.b]
        z.a = kl.table({(i, j): (i * j) % 10 for i in range(10) for j in range(10)})[z.c, z.b]

    assert paths(step) == 1
    same_as_python(make(step), 1_000)


def test_tables_and_among_on_plain_values():
    assert kl.table([5, 6, 7])[1] == 6 and kl.table({"x": 3})["x"] == 3
    assert kl.among(3, [1, 3]) and not kl.among(2, [1, 3])


# --- reading and writing ----------------------------------------------------------------------------------


def test_a_read_after_a_write_sees_the_new_value():
    def step(z):
        z.a = (z.a + 1) % 10
        z.b = z.a
        z.a = z.b
        if z.b == 3:
            z.c = 0

    program = make(step)
    assert program.run([2]) == [3]
    same_as_python(program)


def test_a_swap_needs_no_third_variable():
    def step(z):
        z.a, z.b = z.b, z.a

    same_as_python(make(step))


def test_assignments_that_keep_a_value_are_no_updates():
    def step(z):
        z.a = z.a
        if z.b == 4:
            z.b = 4

    assert len(guarded_updates(make(step))) == 0


def test_an_update_depends_only_on_what_matters():
    def step(z):
        if z.b == 3:
            z.a = 1
            z.c = 2
        else:
            z.a = 1

    updates = guarded_updates(make(step))
    (only,) = updates.of("a")
    assert only.reads == frozenset()
    assert updates.of("c")[0].reads == {"b"}


def test_set_membership():
    declared = [set(), {0}, {1, 2}, {0, 1, 2}]

    def step(z):
        if 1 in z.s:
            z.b = 1
        if z.a in z.s:
            z.c = 5
        if z.s == {0}:
            z.s = {2, 1}
        elif z.s != {0, 1, 2}:
            z.s = set()

    program = make(step, s=kl.subset(3, declared, token=lambda t: declared[t % 4]))
    same_as_python(program, 10_000)


def test_the_size_and_the_members_of_a_set():
    declared = [set(), {0}, {1, 2}]

    def step(z):
        z.b = len(z.s)
        z.c = sum(z.s)

    same_as_python(make(step, s=kl.subset(3, declared)), 10_000)


def test_numbers_in_every_operation():
    from fractions import Fraction

    def step(z):
        z.b = round(6 * z.f) % 10
        z.c = int(z.f > z.g) + int(2 * z.f) if z.f != z.g else abs(-z.b)
        z.g = min(z.f, z.g)

    values = [0, Fraction(1, 3), Fraction(1, 2), 1]
    same_as_python(make(step, f=kl.num(values), g=kl.num(values)), 2_000)


def test_every_operator_means_what_it_means_in_python():
    def step(z):
        z.c = (z.a * z.b + (z.a ^ z.b) - (z.a & z.b) + (z.a | 3) + (z.b << 1) - (z.a >> 1)) % 10
        z.a = (abs(z.b - 2 * z.a) + (-z.a) % 3 + 7 % (z.b + 1) + z.a**2) % 10
        z.b = (~z.b % 4 + (z.b // 3) * 2 + round(z.a / 4) + int(z.a == z.c)) % 10

    same_as_python(make(step), 3_000)


def test_divmod_gives_a_pair():
    def step(z):
        z.b = divmod(z.a, 3)[1]
        z.c, z.a = divmod(z.c, 4)

    same_as_python(make(step), 1_000)


def test_comparisons_with_each_other_and_with_constants():
    def step(z):
        score = (z.a < z.b) + (z.b <= z.c) + (z.a != z.c) + (z.a + z.b > z.c) + (z.c <= 3) + (z.a == z.a)
        z.a = score

    same_as_python(make(step), 1_000)


def test_functions_below_step_are_followed_too():
    def helper(z, name):
        return 0 if getattr(z, name) == 9 else getattr(z, name) + 1

    def step(z):
        for name in ("a", "b", "c"):
            setattr(z, name, helper(z, name))

    same_as_python(make(step), 1_000)


# --- read guards ------------------------------------------------------------------------------------------


def test_read_guards_say_where_a_head_is_read():
    reads = guarded_updates(kl.library.parity_relative).reads
    guards = {read.head: {test.variable: set(test.indices) for test in read.guard} for read in reads}
    assert guards["done_left"] == {"done": {0}}
    assert guards["parity_left"] == {"done": {0}, "done_left": {1}}


def test_a_read_without_use_is_a_read():
    a = kl.cat(10, token=lambda t: t)

    def step(z):
        z.left  # noqa: B018

    program = make(step, a=a, left=kl.relative(a, -1))
    assert [read.head for read in guarded_updates(program).reads] == ["left"]
    net = kl.compile(program)
    for attempt in (lambda: program.run([1]), lambda: net.run([1], check=True)):
        with pytest.raises(kl.UndefinedRead, match="'left' at position 0 in layer 1"):
            attempt()


# --- as data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [kl.library.addition, kl.library.histogram(5, 3), kl.library.subleq(-4, 4, 4), kl.library.dyck2(4)],
    ids=lambda program: program.__name__,
)
def test_updates_survive_json(program):
    updates = guarded_updates(program)
    again = Updates.from_json(program.spec, json.loads(json.dumps(updates.to_json())))
    assert again == updates and again.reads == updates.reads


def test_updates_are_equal_when_they_do_the_same():
    def one(z):
        if z.a == 3:
            z.b = 1
        else:
            z.b = 2

    def other(z):
        z.b = 2 - (z.a == 3)

    def different(z):
        z.b = 2 - (z.a == 4)

    first, same, third = (make(step) for step in (one, other, different))
    assert Updates(first.spec, guarded_updates(same).updates) == guarded_updates(first)
    assert Updates(first.spec, guarded_updates(third).updates) != guarded_updates(first)


@pytest.mark.parametrize(
    "program",
    [
        kl.library.parity_relative,
        kl.library.addition,
        kl.library.subleq(-3, 4, 5),
        kl.library.sort(4, 3),
        kl.library.dyck2(4),
        kl.library.parity_scratchpad(3),
        kl.library.addition_scratchpad(2),
        kl.library.reverse(4, 3),
        kl.library.histogram(4, 3),
        kl.library.most_frequent(4, 3),
    ],
    ids=lambda program: program.__name__,
)
def test_the_updates_of_the_library_do_what_step_does(program):
    same_as_python(program, 2_000)


def test_a_value_as_text_is_the_value():
    class Texts(kl.Program):
        tokens = 300
        layers = 1
        x = kl.cat(300, token=lambda t: t)
        y = kl.cat(6)
        output = y

        def step(z):
            z.y = {"77": 5}.get(f"{z.x}", 3)
            if str(z.x) == "78":
                z.y = 4

    net = kl.compile(Texts)
    assert [net.run([x])[0] for x in (76, 77, 78)] == [Texts.run([x])[0] for x in (76, 77, 78)] == [3, 5, 4]


def test_a_step_that_is_another_one_for_symbols_is_noticed():
    known: list[Any] = []

    class Truth(kl.Program):
        tokens = 2000
        layers = 1
        x = kl.cat(2000, token=lambda t: t)
        y = kl.cat(2)
        output = y

        def step(z):
            known.append(z.x == 777)
            z.y = len(known) > 3

    with pytest.raises(kl.KleeneError, match=r"differ from step.*unless step does other things"):
        kl.compile(Truth)


def test_names_that_are_no_values_are_refused():
    class Alias(kl.Program):
        tokens = 2
        layers = 1
        x = kl.cat(2, token=lambda t: t)
        output = x

        def step(z):
            z.x = z.output == 1

    class Typo(kl.Program):
        tokens = 2
        layers = 1
        x = kl.cat(2, token=lambda t: t)
        output = x

        def step(z):
            z.y = z.x

    for act in (lambda: Alias.run([1]), lambda: kl.compile(Alias)):
        with pytest.raises(kl.ProgramError, match="reads 'output', a second name of a variable"):
            act()
    for act in (lambda: Typo.run([1]), lambda: kl.compile(Typo)):
        with pytest.raises(kl.ProgramError, match="writes 'y', which is not declared; declared: x"):
            act()
    with pytest.raises(kl.ProgramError, match="every program has 'run'"):

        class Runs(kl.Program):
            tokens = 2
            layers = 1
            run = kl.cat(2)
            output = run

            def step(z):
                pass
