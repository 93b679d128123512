"""The interpreter: the definition of what programs mean."""

from __future__ import annotations

from fractions import Fraction

import pytest

import kleene as kl
from agreeing import lookup
from sample_programs import Parity


def test_figure_two_runs_as_printed():
    output = Parity.run([2, 1, 0, 1])
    assert output == [0, 1, 1, 0] and output.layers == 3


def shifted(offset, default=0, **attributes):
    class Shift(kl.Program):
        tokens = 5
        here = kl.cat(5, token=lambda t: t)
        there = kl.relative(here, offset, default=default)
        output = here
        layers = 1
        causal = attributes.get("causal", False)

        def step(z):
            z.here = z.there

    return Shift


def test_relative_heads_look_left_and_right():
    assert shifted(-1).run([1, 2, 3]) == [0, 1, 2]
    assert shifted(1).run([1, 2, 3]) == [2, 3, 0]
    assert shifted(0).run([1, 2, 3]) == [1, 2, 3]
    assert shifted(2, default=4).run([1, 2, 3]) == [3, 4, 4]


def test_causal_programs_do_not_look_right():
    assert shifted(1, causal=True).run([1, 2, 3]) == [0, 0, 0]
    assert shifted(-1, causal=True).run([1, 2, 3]) == [0, 1, 2]


def test_heads_of_a_layer_read_the_state_before_it():
    """Two neighbours that swap: were positions or heads run one after another, a value would be lost."""

    class Swap(kl.Program):
        tokens = 4
        a = kl.cat(4, token=lambda t: t)
        b = kl.cat(4, position=lambda p: 3 - p)
        odd = kl.cat(2, position=lambda p: p)
        a_there = kl.attend(odd, odd, a, offsets=[0])
        b_there = kl.attend(odd, odd, b, offsets=[0])
        right = kl.relative(a, 1, default=0)
        left = kl.relative(a, -1, default=0)
        output = a
        layers = 1

        def step(z):
            z.b = z.a_there
            z.a = z.left if z.odd else z.right

    assert Swap.run([1, 2]) == [2, 1]
    assert [state["b"] for state in Swap.trace([1, 2]).states[-1]] == [1, 2]


def test_a_read_after_a_write_sees_the_new_value():
    class Sequence(kl.Program):
        tokens = 4
        a = kl.cat(4, token=lambda t: t)
        b = kl.cat(4)
        output = b
        layers = 1

        def step(z):
            z.a = (z.a + 1) % 4
            z.b = z.a

    assert Sequence.run([0, 1, 3]) == [1, 2, 0]


def test_a_head_keeps_its_value_while_its_source_is_written():
    class Head(kl.Program):
        tokens = 3
        a = kl.cat(3, token=lambda t: t)
        same = kl.relative(a, 0)
        output = a
        layers = 1

        def step(z):
            z.a = (z.a + 1) % 3
            z.a = (z.a + z.same) % 3

    assert Head.run([0, 1, 2]) == [1, 0, 2]


# --- selection --------------------------------------------------------------------------------------------


def test_one_match_is_its_value():
    assert lookup().run([0, 2, 1, 2]) == [2, 2, 2, 2]


def test_no_match_is_an_undefined_read():
    with pytest.raises(kl.UndefinedRead) as caught:
        lookup().run([0, 2])
    error = caught.value
    assert (error.program, error.variable, error.position, error.layer, error.selected) == ("Lookup", "found", 0, 1, 0)
    assert "selects nothing" in str(error)


def test_two_matches_are_an_undefined_read():
    with pytest.raises(kl.UndefinedRead) as caught:
        lookup().run([1, 0, 1])
    assert caught.value.selected == 2 and "selects 2 positions" in str(caught.value)


def test_a_default_is_for_nothing_selected_only():
    assert lookup(default=5).run([0, 2]) == [5, 5]
    with pytest.raises(kl.UndefinedRead):
        lookup(default=5).run([1, 1])


def test_offsets_limit_a_match():
    assert lookup(offsets=[-1, 0], default=5).run([1, 0, 1, 0]) == [0, 0, 2, 2]


def test_a_head_that_is_not_read_may_be_undefined():
    class Unread(kl.Program):
        tokens = 2
        here = kl.cat(2, token=lambda t: t)
        left = kl.relative(here, -1)
        output = here
        layers = 2

        def step(z):
            if z.here:
                z.here = 0

    assert Unread.run([1, 0]) == [0, 0]


def test_undefined_reads_name_the_layer():
    class Later(kl.Program):
        tokens = 2
        clock = kl.cat(3)
        left = kl.relative(clock, -1)
        output = clock
        layers = 3

        def step(z):
            if z.clock == 1:
                z.clock = z.left
            else:
                z.clock = z.clock + 1

    with pytest.raises(kl.UndefinedRead) as caught:
        Later.run([0, 0])
    assert (caught.value.layer, caught.value.position) == (2, 0)


# --- sets and numbers -------------------------------------------------------------------------------------


def test_a_set_query_matches_any_member():
    class Members(kl.Program):
        tokens = 4
        key = kl.cat(4, token=lambda t: t)
        wanted = kl.subset(4, [set(), {1, 3}, {0}], position=lambda p: [set(), {1, 3}, {0}][p])
        index = kl.cat(5, position=lambda p: p)
        found = kl.attend(wanted, key, index, default=4)
        result = kl.cat(5)
        output = result
        layers = 1

        def step(z):
            z.result = z.found

    assert Members.run([2, 3, 2]) == [4, 1, 4]
    with pytest.raises(kl.UndefinedRead, match="selects 2 positions"):
        Members.run([1, 3, 2])


def test_sets_are_compared_asked_and_assigned():
    class Sets(kl.Program):
        tokens = 3
        chosen = kl.subset(3, [set(), {0}, {1, 2}], token=lambda t: [set(), {0}, {1, 2}][t])
        result = kl.cat(5)
        output = result
        layers = 2

        def step(z):
            if z.chosen == {0}:
                z.result = 1
                z.chosen = [2, 1]
            elif 2 in z.chosen:
                z.result = 2 + z.result

    assert Sets.run([0, 1, 2], layers=1) == [0, 1, 2]
    assert Sets.run([0, 1, 2], layers=2) == [0, 3, 4]


def averaged(values, **options):
    class Average(kl.Program):
        tokens = 5
        number = kl.num(range(5), token=lambda t: t)
        mean = kl.attend(None, None, number, output=kl.num(values), **options)
        shown = kl.cat(20)
        output = shown
        layers = 1

        def step(z):
            z.shown = int(4 * z.mean)

    return Average


def test_a_numerical_head_averages_exactly():
    quarters = [Fraction(k, 4) for k in range(17)]
    assert averaged(quarters).run([1, 2]) == [6, 6]
    assert averaged(quarters).run([0, 0, 0, 1]) == [1] * 4
    assert averaged(quarters).run([0, 1, 1]) == [3] * 3  # 2/3 is nearer to 3/4 than to 1/2


def test_ties_go_to_the_smaller_value():
    assert averaged([0, 1, 2, 3, 4]).run([0, 1]) == [0, 0]
    assert averaged([0, 1, 2, 3, 4]).run([1, 2]) == [4, 4]


def test_an_average_outside_the_declared_values_is_a_range_error():
    assert averaged([1, 2]).run([0, 1]) == [4, 4]  # 1/2 is half a gap below: still 1
    with pytest.raises(kl.RangeError, match=r"Average: 'mean' at position 0 in layer 1.*1/3"):
        averaged([1, 2]).run([0, 0, 1])
    with pytest.raises(kl.RangeError, match=r"the average 3 is outside"):
        averaged([1, 2]).run([3])


# --- writing ----------------------------------------------------------------------------------------------


def writing(value):
    class Write(kl.Program):
        tokens = 2
        here = kl.cat(3, token=lambda t: t)
        output = here
        layers = 1

        def step(z):
            z.here = value

    return Write


@pytest.mark.parametrize("value", [3, -1, 1.5, "1", None, [1]])
def test_a_value_out_of_range_is_a_range_error(value):
    with pytest.raises(kl.RangeError, match=r"Write: step writes .* to 'here', outside 0 … 2"):
        writing(value).run([0])


@pytest.mark.parametrize(("value", "kept"), [(True, 1), (2.0, 2), (Fraction(4, 2), 2)])
def test_whole_values_of_any_type_are_kept_as_ints(value, kept):
    output = writing(value).run([0])
    assert output == [kept] and type(output[0]) is int


def test_a_step_that_raises_names_the_place():
    class Raises(kl.Program):
        tokens = 3
        here = kl.cat(3, token=lambda t: t)
        output = here
        layers = 1

        def step(z):
            z.here = 2 // z.here

    assert Raises.run([1, 2]) == [2, 1]
    with pytest.raises(kl.StepError, match=r"Raises: step raises ZeroDivisionError.* at position 1 in layer 1"):
        Raises.run([1, 0])


# --- halting ----------------------------------------------------------------------------------------------


def counting(goal):
    class Count(kl.Program):
        tokens = 4
        left = kl.cat(4, token=lambda t: t)
        done = kl.cat(2, token=lambda t: t == 0)
        output = left
        halt = {done: 1}

        def step(z):
            if z.left > goal:
                z.left = z.left - 1
            if z.left <= goal:
                z.done = 1

    return Count


def test_halting_waits_for_every_position():
    for tokens in ([0], [1], [2, 0], [1, 3, 2]):
        output = counting(0).run(tokens)
        assert output == [0] * len(tokens) and output.layers == max(1, *tokens, 0)


def test_halting_is_looked_at_after_a_layer():
    assert counting(0).run([0, 0]).layers == 1


def test_layers_given_are_run_halting_or_not():
    for layers in (0, 1, 2, 5):
        output = counting(0).run([3, 1], layers=layers)
        assert output.layers == layers and output == [max(0, 3 - layers), max(0, 1 - layers)]


def test_max_layers_is_the_number_of_layers():
    assert counting(0).run([3], max_layers=3).layers == 3
    with pytest.raises(kl.DidNotHalt, match=r"Count: did not halt within 2 layers"):
        counting(0).run([3], max_layers=2)


def test_halting_on_several_variables_waits_for_all():
    class Both(kl.Program):
        tokens = 2
        one = kl.cat(2)
        two = kl.cat(2)
        output = one
        halt = {one: 1, two: 1}

        def step(z):
            if z.one:
                z.two = 1
            z.one = 1

    assert Both.run([0]).layers == 2


# --- decoders ---------------------------------------------------------------------------------------------


def test_a_decoder_appends_until_stop():
    program = kl.library.parity_scratchpad(4)
    output = program.run(program.encode("1101"))
    assert output == [1, 0, 0, 1, 3] and output.layers == 5 * program.spec.layers
    assert program.decode(output) == "1001"


def test_a_decoder_stops_at_max_tokens():
    class Forever(kl.Program):
        tokens = 2
        here = kl.cat(2, token=lambda t: t)
        output = here
        layers = 1
        stop = 1
        max_tokens = 4

        def step(z):
            pass

    assert Forever.run([0]) == [0, 0, 0, 0]
    assert Forever.run([0, 1]) == [1]


# --- traces -----------------------------------------------------------------------------------------------


def test_a_trace_keeps_every_variable_position_and_layer():
    trace = kl.library.parity_relative.trace([2, 1, 1])
    assert trace.layers == 2 and trace.outputs == [0, 1, 0] and trace.outputs.layers == 2
    assert [[state["parity"] for state in states] for states in trace.states] == [[0, 1, 1], [0, 1, 1], [0, 1, 0]]
    assert [[state["done"] for state in states] for states in trace.states] == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    first = trace.heads[0]["parity_left"]
    assert [output.value for output in first] == [None, 0, 1]
    assert [output.selected for output in first] == [(), (0,), (1,)]


def test_a_trace_shows_exact_averages():
    mean = averaged([0, 1, 2, 3, 4]).trace([0, 1]).heads[0]["mean"][0]
    assert mean.value == Fraction(1, 2) and mean.selected == (0, 1)


def test_running_does_not_change_the_program():
    program = kl.library.addition
    tokens = program.encode("12+34")
    before = program.spec.to_json()
    assert program.run(tokens) == program.run(tokens)
    assert program.spec.to_json() == before


def test_methods_and_properties_of_the_class():
    class Helped(kl.Program):
        tokens, layers = 4, 1
        LIMIT = 2
        here = kl.cat(4, token=lambda t: t)
        left = kl.relative(here, -1, default=0)
        result = kl.cat(8)
        output = result

        def combined(z, one, two):
            return one + two if z.big else min(one, z.LIMIT)

        @property
        def big(z):
            return z.here > z.LIMIT

        @staticmethod
        def doubled(value):
            return 2 * value % 8

        def step(z):
            z.result = z.doubled(z.combined(z.here, z.left))

    class Multiplied(Helped):
        def combined(z, one, two):
            return one * two

    for program, expected in ((Helped, [2, 0, 2, 0]), (Multiplied, [0, 6, 6, 6])):
        assert program.run([1, 3, 1, 3]) == expected
        assert kl.compile(program).run([1, 3, 1, 3]) == expected
    assert kl.certify(Helped).holds
