"""Certificates: they hold where the network is exact, and only there."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch

import kleene as kl
from kleene.lowering.averages import extreme_averages

LIBRARY: dict[str, Any] = {
    "parity_relative": lambda: kl.library.parity_relative,
    "parity_absolute": lambda: kl.library.parity_absolute(6),
    "parity_sum": lambda: kl.library.parity_sum(8),
    "parity_scratchpad": lambda: kl.library.parity_scratchpad(3),
    "addition": lambda: kl.library.addition,
    "addition_scratchpad": lambda: kl.library.addition_scratchpad(2),
    "subleq": lambda: kl.library.subleq(-4, 5, 6),
    "reverse": lambda: kl.library.reverse(5, 4),
    "histogram": lambda: kl.library.histogram(5, 4),
    "sort": lambda: kl.library.sort(5, 4),
    "sort_unique": lambda: kl.library.sort_unique(5, 5),
    "most_frequent": lambda: kl.library.most_frequent(5, 4),
    "dyck1": lambda: kl.library.dyck1(5),
    "dyck2": lambda: kl.library.dyck2(4),
}


@cache
def program(name: str) -> Any:
    return LIBRARY[name]()


@cache
def net(name: str, lowering: str = "thresholds", dtype: str = "float32") -> Any:
    return kl.compile(program(name), lowering=lowering, dtype=dtype)


def fresh(name: str, **options: Any) -> Any:
    """A copy that may be spoiled."""
    return kl.compile(program(name), **options)


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_is_certified(name):
    certificate = kl.certify(net(name))
    assert certificate.holds, certificate
    assert certificate.dtype == "float32" and certificate.program == name and len(certificate.reasons) >= 3


@pytest.mark.parametrize("name", ["parity_relative", "parity_sum", "sort", "dyck1", "reverse", "subleq"])
def test_rules_are_certified_too(name):
    for dtype in ("float32", "float64"):
        certificate = kl.certify(net(name, "rules", dtype))
        assert certificate.holds, certificate


def test_an_encoder_is_certified_block_by_block():
    made = kl.compile(kl.library.addition, shape="encoder", layers=3, shared=False)
    assert kl.certify(made).holds
    with torch.no_grad():
        made.blocks[2].out2[0, 0] += 1
    assert not kl.certify(made).holds


def test_a_certificate_is_json():
    certificate = kl.certify(net("parity_relative"))
    content = json.loads(json.dumps(certificate.to_json()))
    assert content["holds"] is True and content["dtype"] == "float32" and content["reasons"]


# --- number formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIBRARY)
def test_what_is_certified_in_bfloat16_also_runs_equal(name):
    """Where the format is too narrow the compiler or the certificate says so, and nothing is claimed."""
    chosen = program(name)
    try:
        narrow = kl.compile(chosen, dtype="bfloat16")
    except kl.NotExact as error:
        assert "bfloat16" in str(error)
        return
    certificate = kl.certify(narrow)
    if not certificate.holds:
        assert "bfloat16" in " ".join(certificate.reasons)
        return
    longest = min(chosen.spec.positions or 8, certificate.max_length or 8, 8)
    report = kl.verify(chosen, narrow, random=40, lengths=range(1, longest + 1), max_layers=40)
    assert report.holds, report


def test_some_programs_are_certified_in_bfloat16():
    for name in ("parity_relative", "parity_absolute", "sort", "dyck1"):
        assert kl.certify(net(name, dtype="bfloat16")).holds, name
        assert kl.certify(net(name), dtype="bfloat16").holds, name


def test_a_wide_form_is_not_certified_in_bfloat16():
    class wide(kl.Program):
        tokens = 300
        a = kl.cat(300, token=lambda t: t)
        b = kl.cat(300, token=lambda t: 299 - t)
        larger = kl.cat(2)
        output = larger
        layers = 1

        def step(z):
            z.larger = z.a > z.b

    assert kl.certify(kl.compile(wide)).holds
    certificate = kl.certify(kl.compile(wide), dtype="bfloat16")
    assert not certificate.holds and "bfloat16" in " ".join(certificate.reasons)
    with pytest.raises(kl.NotExact, match="bfloat16"):
        kl.compile(wide, dtype="bfloat16")


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_other_formats_are_refused(dtype):
    with pytest.raises(kl.NotSupported, match=dtype):
        kl.compile(kl.library.parity_relative, dtype=dtype)


# --- mutations --------------------------------------------------------------------------------------------

MUTATED = ["parity_relative", "parity_sum", "parity_scratchpad", "histogram", "dyck1", "reverse"]


def behaviour(made: Any, inputs: Any) -> list[Any]:
    """What a network answers, plainly and with its reads checked."""
    answers: list[Any] = []
    for tokens in inputs:
        for check in (False, True):
            try:
                output = made.run(tokens, check=check, max_layers=20, evaluator=None if check else "dense")
                answers.append((list(output), output.layers))
            except kl.KleeneError as error:
                answers.append(f"{type(error).__name__}: {error}")
    return answers


def some_inputs(chosen: Any, count: int = 24) -> list[list[int]]:
    chance, longest = random.Random(5), min(chosen.spec.positions or 6, 6)
    longest -= chosen.spec.max_tokens or 0
    draw = getattr(chosen, "sample", None)
    sizes = [chance.randint(1, max(1, longest)) for _ in range(count)]
    return [
        draw(chance, n) if draw and chance.random() < 0.5 else [chance.randrange(chosen.spec.tokens) for _ in range(n)]
        for n in sizes
    ]


def mutate_and_certify(name: str, lowering: str, count: int, seed: int) -> None:
    """Any one entry of any tensor changed: refused, or it answers the same."""
    chance, spoiled = random.Random(seed), fresh(name, lowering=lowering)
    inputs = some_inputs(program(name))
    before_all = behaviour(spoiled, inputs)
    tensors = {label: tensor for label, tensor in spoiled.named_parameters() if tensor.numel()}
    labels = [chance.choice(list(tensors)) for _ in range(max(0, count - len(tensors)))] + list(tensors)
    refused = 0
    for label in labels[-count:]:
        flat = tensors[label].data.view(-1)
        place, by = chance.randrange(len(flat)), chance.choice([0.37, 1, -1, 2048, -2048])
        before = flat[place].clone()
        flat[place] += by
        if flat[place] == before:  # lost in rounding: nothing was changed
            continue
        certificate = kl.certify(spoiled)
        if certificate.holds:
            assert behaviour(spoiled, inputs) == before_all, f"{label}[{place}] {float(before)} + {by}"
        else:
            refused += 1
            assert certificate.reasons and certificate.max_length is None
        flat[place] = before
    assert refused > count // 2
    assert kl.certify(spoiled).holds  # all of them undone


@pytest.mark.parametrize("name", MUTATED)
def test_a_changed_weight_is_refused_or_harmless(name):
    mutate_and_certify(name, "thresholds", 24, seed=len(name))


@pytest.mark.parametrize("name", ["parity_relative", "sort"])
def test_a_changed_weight_of_a_rules_network_is_refused_or_harmless(name):
    mutate_and_certify(name, "rules", 24, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARY)
def test_many_changed_weights_are_refused_or_harmless(name):
    for seed in range(4):
        mutate_and_certify(name, "thresholds", 60, seed)


@pytest.mark.slow
def test_every_entry_of_a_small_network():
    spoiled, inputs = fresh("parity_relative"), [list(t) for n in range(1, 6) for t in product(range(3), repeat=n)]
    right = behaviour(spoiled, inputs)
    for label, tensor in spoiled.named_parameters():
        flat = tensor.data.view(-1)
        for place in range(len(flat)):
            for by in (0.37, 1, -1, 1024, -2048):
                before = flat[place].clone()
                flat[place] += by
                if kl.certify(spoiled).holds:
                    assert behaviour(spoiled, inputs) == right, (label, place, by)
                flat[place] = before


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_entries_that_are_no_numbers_are_never_certified(value):
    spoiled = fresh("parity_relative")
    with torch.no_grad():
        spoiled.blocks[0].in2[0, 0] = value
    certificate = kl.certify(spoiled)
    assert not certificate.holds and "not finite" in certificate.reasons[0]


def test_the_saved_updates_count_not_only_the_weights():
    """Weights of one program with the updates of another are not certified."""
    spoiled, other = fresh("sort"), kl.compile(kl.library.sort(5, 4), lowering="rules")
    spoiled.description = {**spoiled.description, "updates": {**spoiled.description["updates"], "updates": []}}
    assert not kl.certify(spoiled).holds
    assert kl.certify(other).holds


@pytest.mark.parametrize("description", [{}, {"program": {}}, {"program": None, "updates": None}])
def test_a_description_that_is_none_is_not_certified(description):
    spoiled = fresh("parity_relative")
    spoiled.description = description
    assert not kl.certify(spoiled).holds


# --- lengths ----------------------------------------------------------------------------------------------


def ones(count: int, length: int) -> list[int]:
    return [2, *[1] * count, *[0] * (length - count)]


@pytest.mark.parametrize("evaluator", ["dense", "sparse"])
def test_sum_and_modulo_for_length_400_is_right_at_length_400(evaluator):
    made = kl.compile(kl.library.parity_sum(400))
    counts = [0, 1, 2, 199, 200, 201, 398, 399, 400]
    for count, output in zip(counts, made.run_batch([ones(count, 400) for count in counts], evaluator=evaluator)):
        assert output == [count % 2] * 401, count
    certificate = kl.certify(made)
    assert certificate.holds and certificate.max_length == 401


def test_a_length_that_float32_cannot_resolve_names_the_largest_that_works():
    with pytest.raises(kl.NotExact, match=r"float32.*'share'.*length 1000000") as caught:
        kl.compile(kl.library.parity_sum(60), length=10**6)
    largest = int(re.search(r"largest length that works is (\d+)", str(caught.value)).group(1))
    assert 400 < largest < 10**6


def test_the_largest_length_that_is_named_works_and_one_more_does_not():
    """For buckets fixed beforehand, the length asked for is the limit."""
    shares = kl.library.parity_sum(60)
    with pytest.raises(kl.NotExact) as caught:
        kl.compile(shares, length=10**6)
    largest = int(re.search(r"largest length that works is (\d+)", str(caught.value)).group(1))
    assert largest >= 61
    assert kl.certify(kl.compile(shares, length=largest)).holds
    with pytest.raises(kl.NotExact, match=f"largest length that works is {largest}"):
        kl.compile(shares, length=largest + 1)


@pytest.mark.parametrize("values", [[0, 1], [0, Fraction(1, 3), Fraction(2, 3), 1], [-1, 0, Fraction(1, 7), 3], [2, 3]])
def test_extreme_averages_are_those_of_all_averages(values):
    class Shares(kl.Program):
        tokens = 2
        bit = kl.num([0, Fraction(1, 2)], token=lambda t: Fraction(t, 2))
        share = kl.attend(None, None, bit, output=kl.num(values))
        high = kl.cat(2)
        output, layers = high, 1

        def step(z):
            z.high = z.share > 0

    found = extreme_averages(Shares.spec, "share", 9)  # in halves
    averages = {Fraction(ones, count) for count in range(1, 10) for ones in range(count + 1)}
    taken = [[] for _ in values]
    for average in sorted(averages):
        if values[0] <= average / 2 <= values[-1]:  # taken for the nearest, the smaller one of two
            taken[min(range(len(values)), key=lambda k: (abs(values[k] - average / 2), k))].append(average)
    if any(taken):
        assert found == [[each[0], each[-1]] if each else [] for each in taken]
    else:
        assert found == [[2 * value] for value in values]


def test_the_largest_length_of_the_program_itself_works():
    with pytest.raises(kl.NotExact) as caught:
        kl.compile(kl.library.parity_sum(100), dtype="bfloat16")
    largest = int(re.search(r"largest length that works is (\d+)", str(caught.value)).group(1))
    made = kl.compile(kl.library.parity_sum(100), dtype="bfloat16", length=largest) if largest else None
    if made is not None:
        assert kl.certify(made).holds
        for count in range(largest):
            assert made.run(ones(count, largest - 1), evaluator="dense") == [count % 2] * largest


def test_float64_resolves_what_float32_cannot():
    shares = kl.library.parity_sum(60)
    with pytest.raises(kl.NotExact):
        kl.compile(shares, length=10**6)
    made = kl.compile(shares, length=10**6, dtype="float64")
    assert kl.certify(made).max_length == 61  # the program's own limit
    assert made.run(ones(7, 60)) == [1] * 61


def test_a_network_refuses_inputs_longer_than_it_resolves():
    made = kl.compile(kl.library.parity_sum(50), length=20)
    assert made.run(ones(19, 19)) == [1] * 20
    with pytest.raises(kl.InputError, match="the longest allowed has 20"):
        made.run(ones(20, 20))


def test_the_certified_length_is_the_length_asked_for():
    made = kl.compile(kl.library.parity_sum(50), length=20)
    assert kl.certify(made).max_length == 20
    assert kl.certify(net("parity_relative")).max_length is None  # any length


def test_a_query_that_matches_nothing_is_certified():
    """A set variable that is always empty, as a query: its weights are zeros, and do not say whose they are."""

    class Nowhere(kl.Program):
        tokens = 3
        key = kl.cat(3, token=lambda t: t)
        none = kl.subset(3, [set()])
        found = kl.attend(none, key, key, default=2)
        result = kl.cat(3)
        output = result
        layers = 1

        def step(z):
            z.result = z.found

    net = kl.compile(Nowhere)
    assert net.run([0, 1, 2]) == Nowhere.run([0, 1, 2]) == [2, 2, 2]
    assert kl.certify(net).holds and kl.decompile(net) == kl.guarded_updates(Nowhere)
    with torch.no_grad():
        net.blocks[0].query[0, 0, net.layout["none"].start] = 2048  # now it looks for 0
    assert not kl.certify(net).holds


def test_an_average_that_is_read_under_a_condition_is_certified():
    """Units that cancel each other where the guard fails do so for every value that the head's buckets can have; where
    it selects nothing it is 0, which they tell apart like any other average."""

    class Guarded(kl.Program):
        tokens = 4
        positions = 5
        a = kl.cat(4, position=lambda p: (2 * p + 2) % 4)
        b = kl.cat(2)
        c = kl.cat(4, token=lambda t: (t + 1) % 4)
        mean = kl.attend(None, None, a, output=kl.num(Fraction(k, 2) for k in range(7)))
        output = b
        layers = 2

        def step(z):
            if z.a + z.c <= 0:
                z.c = min(z.c + z.c, 3)
                z.b = min(abs(round(2 * z.mean)), 1)

    for lowering in ("thresholds", "rules"):
        net = kl.compile(Guarded, lowering=lowering)
        assert kl.certify(net).holds, kl.certify(net)
        assert kl.verify(Guarded, net, lengths=range(1, 4)).holds
