"""Comparisons are bools in `step`, and what sees through operator overloading is refused."""

from __future__ import annotations

from typing import Any

import pytest

import kleene as kl


def made(step: Any) -> Any:
    body = {"a": kl.cat(100, token=lambda t: t), "b": kl.cat(50, token=lambda t: t % 50), "c": kl.cat(3)}
    body |= {"w": kl.word(4), "tokens": 100, "output": body["c"], "layers": 1, "step": step}
    return type(kl.Program)("Made", (kl.Program,), body)


def _text(z):
    if z.a == 42:
        z.c = f"{z.b == 42}" == "True"


def _shown(z):
    z.c = (repr(z.a < 3) == "True") + (str(z.b == z.a) == "True")


def _number_text(z):
    z.c = f"{(z.a > 5) + 1}" == "2"


def _method(z):
    z.c = z.b.bit_length() == 6


def _is_a_number(z):
    if z.b is not None:
        z.c = 1


def _is_none(z):
    found = {1: "one", 2: "two"}.get(z.b)
    z.c = 2 if found is None else len(found) - 3 + isinstance(found, str)


def _table(z):
    z.c = str(kl.table([True, 1] * 50)[z.a]) == "True"


@pytest.mark.parametrize("step", [_text, _shown, _number_text, _method, _is_a_number, _is_none, _table])
def test_comparisons_are_bools_and_numbers_are_numbers(step):
    program = made(step)
    net = kl.compile(program)
    assert [net.run([a]) for a in range(100)] == [program.run([a]) for a in range(100)]
    assert kl.certify(program).holds


def _is_true(z):
    if z.a == 42:
        z.c = (z.b == 23) is True


def _isinstance(z):
    compared = z.b == 7
    if z.a == 42:
        z.c = isinstance(compared, bool)


def _type(z):
    z.c = type(z.b == 3) is bool


def _case(z):
    match z.b == 3:
        case True:
            z.c = 1


def _caught(z):
    try:
        z.c = (z.b == 3) is True
    except Exception:
        z.c = 2


def _helped(x, default=None):
    return default if x is None else 1


def _asked(x):
    return 1 if x is True else 0


def _in_a_helper(z):
    z.c = _asked(z.b)


def _word_text(z):
    z.c = f"{z.w}" == "3"


def _word_is(z):
    z.c = isinstance(z.w, int)


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (_is_true, "'is'"),
        (_isinstance, "isinstance"),
        (_type, r"type\(\)"),
        (_case, "'is'"),
        (_caught, "'is'"),
        (_in_a_helper, "'is'"),
        (_word_is, "isinstance"),
    ],
)
def test_questions_that_a_symbol_would_answer_wrongly_are_refused(step, what):
    with pytest.raises(kl.ProgramError, match=rf"step uses {what} on a value .*line \d+.*Compare with =="):
        kl.compile(made(step))


def test_a_word_is_no_text():
    with pytest.raises(kl.ProgramError, match="makes text of the word expression w"):
        kl.compile(made(_word_text))


def _constants(z):
    limit = None
    z.c = _helped(limit, 2) if limit is None else 0


def _of_an_object(z):
    if z.RULE.before is None or z.b == 3:
        z.c = 1


class _Rule:
    before = None


def test_is_on_what_is_known_is_fine():
    for step in (_constants, _of_an_object):
        program = made(step)
        program.RULE = _Rule()
        net = kl.compile(program)
        assert net.run([3]) == program.run([3])
