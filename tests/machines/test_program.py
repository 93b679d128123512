"""Rules of the language, checked when the class is made; each error names the variable and the rule."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import kleene as kl


def keep(z: Any) -> None:
    """A step that does nothing."""


def make(**body: Any) -> Any:
    """A program of this body, where what every program needs is filled in."""
    here = kl.cat(2, token=lambda t: t)
    base: dict[str, Any] = {"tokens": 2, "here": here, "output": here, "layers": 1, "step": keep}
    namespace = type(kl.Program).__prepare__("Made", (kl.Program,))
    for name, value in {**base, **body}.items():
        if value is not MISSING:
            namespace[name] = value
    return type(kl.Program)("Made", (kl.Program,), namespace)


MISSING = object()


def refused(*words: str, **body: Any) -> str:
    with pytest.raises(kl.ProgramError) as caught:
        make(**body)
    message = str(caught.value)
    assert "\n" not in message
    for word in ("Made", *words):
        assert word in message, message
    return message


def test_the_plain_program_is_accepted():
    assert make().run([1, 0]) == [1, 0]


# --- what every program has -------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["tokens", "step", "output"])
def test_a_missing_part_is_named(missing):
    body = {missing: MISSING}
    if missing == "output":
        refused("'output'", "missing", output=None)
    else:
        refused(f"'{missing}'", "missing", **body)


def test_a_program_must_end():
    message = refused("halt", "layers", layers=MISSING)
    assert "say when the program ends" in message


@pytest.mark.parametrize("attribute", ["tokens", "layers", "positions"])
@pytest.mark.parametrize("value", [0, -1, 1.5, b"3"])
def test_sizes_are_whole_numbers_of_at_least_one(attribute, value):
    refused(f"'{attribute}'", "at least 1", repr(value), **{attribute: value})


def test_a_decoder_has_no_halt():
    done = kl.cat(2)
    refused("decoder", "halt", done=done, halt={done: 1}, layers=MISSING, max_tokens=3)
    refused("decoder", "halt", done=done, halt={done: 1}, layers=2, max_tokens=3)


def test_a_decoder_writes_tokens():
    big = kl.cat(5)
    refused("'big'", "5 values", "2 tokens", big=big, output=big, max_tokens=3)


# --- names ------------------------------------------------------------------------------------------------


def test_a_name_declared_twice_is_refused_at_once():
    with pytest.raises(kl.ProgramError, match=r"'x' is declared twice"):

        class Twice(kl.Program):
            tokens = 2
            x = kl.cat(2)
            x = kl.cat(3)


def test_a_head_and_a_variable_share_no_name():
    with pytest.raises(kl.ProgramError, match=r"'x' is declared twice"):

        class Twice(kl.Program):
            tokens = 2
            x = kl.cat(2)
            x = kl.relative(x, -1)


def test_one_declaration_under_two_names_is_refused():
    shared = kl.cat(2)
    refused("'one'", "'two'", "same declaration", one=shared, two=shared)


def test_names_with_an_underscore_are_refused():
    refused("'_x'", "underscore", _x=kl.cat(2))


@pytest.mark.parametrize("role", ["query", "key", "value"])
def test_a_head_uses_only_variables_of_its_program(role):
    here = kl.cat(2)
    parts = {"query": here, "key": here, "value": here, role: kl.cat(2)}
    refused(f"the {role} of the head 'found'", "not a variable", here=here, output=here, found=kl.attend(**parts))


def test_output_is_a_variable_of_the_program():
    refused("'output'", "this program's variables", output=kl.cat(2))


def test_halt_names_a_variable_of_the_program():
    refused("halt", "not a variable", halt={kl.cat(2): 1})


def test_reading_an_unknown_name_lists_the_declared_ones():
    program = make(step=lambda z: z.heer)
    for attempt in (lambda: program.run([1]), lambda: kl.compile(program)):
        with pytest.raises(kl.ProgramError, match=r"Made: step reads 'heer', which is not declared; declared: here"):
            attempt()


def test_writing_an_unknown_name_is_refused():
    def step(z: Any) -> None:
        z.heer = 1

    program = make(step=step)
    for attempt in (lambda: program.run([1]), lambda: kl.compile(program)):
        with pytest.raises(kl.ProgramError, match=r"Made: step writes 'heer', which is not declared"):
            attempt()


def test_writing_a_head_is_refused():
    here = kl.cat(2, token=lambda t: t)

    def step(z: Any) -> None:
        z.left = 1

    program = make(here=here, output=here, left=kl.relative(here, -1, default=0), step=step)
    for attempt in (lambda: program.run([1]), lambda: kl.compile(program)):
        with pytest.raises(kl.ProgramError, match=r"Made: step writes 'left', the output of a head"):
            attempt()


def test_class_constants_are_read_through_z():
    def step(z: Any) -> None:
        z.here = (z.here + z.STEP) % 2

    program = make(STEP=1, step=step)
    assert program.run([1, 0]) == [0, 1] == kl.compile(program).run([1, 0], evaluator="dense")


# --- heads ------------------------------------------------------------------------------------------------


def test_ranges_of_query_and_key_must_be_equal():
    three, four = kl.cat(3), kl.cat(4)
    message = refused(
        "'found'",
        "'three'",
        "'four'",
        "range 3",
        "range 4",
        three=three,
        four=four,
        found=kl.attend(three, four, three),
    )
    assert "must be equal" in message


def test_the_range_of_a_set_query_must_be_its_keys_range():
    wanted, key = kl.subset(3, [{0}, {1, 2}]), kl.cat(4)
    refused("'found'", "'wanted'", "range 3", "range 4", wanted=wanted, key=key, found=kl.attend(wanted, key, key))


@pytest.mark.parametrize("role", ["query", "key", "value"])
def test_a_head_is_not_another_heads_query_key_or_value(role):
    here = kl.cat(2, token=lambda t: t)
    left = kl.relative(here, -1, default=0)
    parts = {"query": here, "key": here, "value": here, role: left}
    message = refused("'found'", "'left'", role, here=here, output=here, left=left, found=kl.attend(**parts))
    assert "copy it into a variable in step" in message


@pytest.mark.parametrize(
    ("query", "key"),
    [
        (kl.num([0, 1]), kl.cat(2)),
        (kl.cat(2), kl.num([0, 1])),
        (kl.cat(2), kl.subset(2, [{0}])),
        (kl.cat(2), kl.word(1)),
    ],
)
def test_queries_and_keys_are_categorical(query, key):
    refused("'found'", "'q'", "'k'", q=query, k=key, found=kl.attend(query, key, key))


def test_a_head_needs_both_query_and_key():
    here = kl.cat(2)
    refused("'found'", "both a query and a key", here=here, output=here, found=kl.attend(here, None, here))


def test_a_head_needs_an_offset():
    here = kl.cat(2)
    refused("'found'", "offsets", here=here, output=here, found=kl.attend(here, here, here, offsets=[]))


def test_the_output_of_a_head_is_of_a_kind_that_it_can_have():
    here, wanted = kl.cat(2), kl.subset(2, [{0}])
    refused("'found'", "'here'", here=here, output=here, found=kl.attend(here, here, here, output=kl.cat(3)))
    refused("'found'", here=here, output=here, found=kl.attend(here, here, here, output=wanted))
    refused(
        "'found'",
        "'wanted'",
        here=here,
        output=here,
        wanted=wanted,
        found=kl.attend(here, here, wanted, output=kl.num([0, 1])),
    )


def test_output_takes_a_declaration():
    with pytest.raises(kl.ProgramError, match=r"output= must be a declaration"):
        kl.attend(None, None, kl.cat(2), output=3)


def test_the_default_of_a_head_is_in_its_range():
    here = kl.cat(2)
    refused("'left'", "default -1", "0 … 1", here=here, output=here, left=kl.relative(here, -1, default=-1))


# --- output and halt --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kl.num([0, 1]), kl.subset(2, [{0}, {1}])])
def test_the_output_is_categorical(kind):
    refused("'result'", "categorical", result=kind, output=kind)


def test_the_output_is_no_head():
    here = kl.cat(2)
    left = kl.relative(here, -1, default=0)
    refused("'output'", "copy it in step", here=here, left=left, output=left)


@pytest.mark.parametrize("value", [2, -1, "yes"])
def test_halt_waits_for_a_value_that_the_variable_has(value):
    done = kl.cat(2)
    refused("halt", "'done'", repr(value), done=done, halt={done: value})


def test_halt_is_a_dict():
    refused("halt must be", halt=3)


# --- variables --------------------------------------------------------------------------------------------


def test_token_and_position_are_not_given_together():
    with pytest.raises(kl.ProgramError, match=r"either token= or position=, not both"):
        kl.cat(2, token=lambda t: t, position=lambda p: p)


@pytest.mark.parametrize("make_one", [lambda f: kl.cat(2, token=f), lambda f: kl.num([0, 1], position=f)])
def test_initialisers_are_functions(make_one):
    with pytest.raises(kl.ProgramError, match=r"must be a function of one integer, not 3"):
        make_one(3)


def test_an_initialiser_out_of_range_names_the_token():
    here = kl.cat(4, token=lambda t: t)
    message = refused(
        "'start'", "returns 2", "token 2", "0 … 1", tokens=4, here=here, output=here, start=kl.cat(2, token=lambda t: t)
    )
    assert "initialiser" in message


def test_an_initialiser_out_of_range_names_the_position():
    refused("'start'", "returns 3", "position 3", "0 … 2", positions=5, start=kl.cat(3, position=lambda p: p))


def test_an_initialiser_that_raises_names_the_token():
    refused("'start'", "raises ZeroDivisionError", "token 1", start=kl.cat(2, token=lambda t: t // (t - 1)))


def test_initialisers_of_sets_and_numbers_are_checked_too():
    refused("'wanted'", "token 1", wanted=kl.subset(3, [{0}, {1}], token=lambda t: {t, 2} if t else {0}))
    refused("'share'", "token 1", share=kl.num([0, Fraction(1, 2)], token=lambda t: Fraction(t, 3)))


@pytest.mark.parametrize(
    "make_one",
    [lambda: kl.cat(3, default=3), lambda: kl.num([0, 2], default=1), lambda: kl.subset(3, [{0}], default={1})],
)
def test_defaults_are_in_range(make_one):
    refused("'start'", "default", start=make_one())


@pytest.mark.parametrize("size", [0, -2, 1.5, "3"])
def test_the_range_of_a_cat_is_a_whole_number(size):
    with pytest.raises(kl.ProgramError, match=r"cat: the range must be a whole number of at least 1"):
        kl.cat(size)


@pytest.mark.parametrize("values", [[], [float("nan")], [float("inf")], ["half"], [None]])
def test_the_values_of_a_num_are_finite_numbers(values):
    with pytest.raises(kl.ProgramError, match=r"^num: "):
        kl.num(values)


def test_the_sets_of_a_subset_are_in_its_range():
    with pytest.raises(kl.ProgramError, match=r"subset: the member 3 is outside 0 … 2"):
        kl.subset(3, [{0, 3}])
    with pytest.raises(kl.ProgramError, match=r"subset: declare at least one set"):
        kl.subset(3, [])


def test_positions_are_by_default_those_that_initialisers_can_start():
    assert make(index=kl.cat(7, position=lambda p: p)).spec.positions == 7
    assert make(odd=kl.cat(2, position=lambda p: p % 2)).spec.positions == 512
    assert make().spec.positions is None
    assert make(positions=9).spec.positions == 9


def test_a_program_can_be_extended():
    class Base(kl.Program):
        tokens = 3
        here = kl.cat(3, token=lambda t: t)
        output = here
        layers = 1

        def step(z):
            z.here = (z.here + 1) % 3

    class Twice(Base):
        layers = 2

    assert Base.run([0, 2]) == [1, 0] and Twice.run([0, 2]) == [2, 1]


def test_a_spec_survives_json():
    import json

    for program in (kl.library.histogram(5, 3), kl.library.addition_scratchpad(2), kl.library.subleq(-4, 4, 4)):
        spec = program.spec
        assert type(spec).from_json(json.loads(json.dumps(spec.to_json()))) == spec


# --- inputs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "empty"),
        ([0, 2], "token 2 at position 1 is outside"),
        ([-1], "token -1 at position 0 is outside"),
        ([0] * 4, "4 tokens"),
    ],
)
def test_bad_inputs_get_one_line_on_both_sides(tokens, message):
    program = make(positions=3)
    net = kl.compile(program)
    runs = (program.run, program.trace, lambda given: net.run(given, evaluator="dense"))
    for run in runs:
        with pytest.raises(kl.InputError) as caught:
            run(tokens)
        assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("tokens", [["a"], [0.5], [None], 3])
def test_tokens_are_whole_numbers_on_both_sides(tokens):
    program = make()
    net = kl.compile(program)
    for attempt in (lambda: program.run(tokens), lambda: net.run(tokens, evaluator="dense")):
        with pytest.raises(kl.InputError):
            attempt()


@pytest.mark.parametrize("name", ["run", "trace", "spec", "by_layer", "tokens", "layers", "halt", "step"])
def test_names_that_are_taken_are_said(name):
    body = {"a": kl.cat(2), "tokens": 2, "layers": 1, "step": lambda z: None}
    with pytest.raises(kl.ProgramError, match=rf"'{name}'.*give the variable another name \(taken: tokens, .*run"):
        type(kl.Program)("Named", (kl.Program,), body | {"output": body["a"], name: kl.cat(2)})


def test_output_is_not_a_declaration():
    with pytest.raises(
        kl.ProgramError, match="'output' must be one of this program's variables; give it a name of its own"
    ):
        type(kl.Program)("Named", (kl.Program,), {"tokens": 2, "layers": 1, "step": print, "output": kl.cat(2)})


def test_a_step_takes_no_self():
    def step(self, z):
        z.a = 1

    body = {"a": kl.cat(2), "tokens": 2, "layers": 1, "step": step}
    with pytest.raises(kl.ProgramError, match=r"'step\(self, z\)': a step takes one argument.*def step\(z\)"):
        type(kl.Program)("Selfish", (kl.Program,), body | {"output": body["a"]})
