"""Random changes of a saved network: refused, or it answers the same. Nothing is compiled again."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import kleene as kl
from kleene.networks.transformer.files import _digest, content_of
from rich_programs import RICH
from test_checker_planted import Adder, Lookup, Mailbox, Several, Shares, Tied, Waits

NETWORKS: dict[str, Any] = {
    "parity_relative": lambda: kl.library.parity_relative,
    "parity_scratchpad": lambda: kl.library.parity_scratchpad(3),
    "parity_sum": lambda: kl.library.parity_sum(6),
    "reverse": lambda: kl.library.reverse(4, 3),
    "sort": lambda: kl.library.sort(4, 3),
    "adder": lambda: Adder,
    "lookup": lambda: Lookup,
    "mailbox": lambda: Mailbox,
    "shares": lambda: Shares,
    "tied": lambda: Tied,
    "several": lambda: Several,
    "waits": lambda: Waits,
    **{name.lower(): lambda program=program: program for name, program in RICH.items()},
}


@cache
def program(name: str) -> Any:
    return NETWORKS[name]()


@cache
def network(name: str) -> Any:
    return kl.compile(program(name))


@cache
def inputs(name: str) -> tuple[tuple[int, ...], ...]:
    """Short ones first: many changes show at once."""
    chance, spec = random.Random(7), program(name).spec
    longest = min(spec.positions or 7, 7) - (spec.max_tokens or 0)
    sizes = [chance.randint(1, max(1, longest)) for _ in range(14)]
    return tuple(tuple(chance.randrange(spec.tokens) for _ in range(size)) for size in sizes)


def behaviour(net: Any, name: str, longest: int | None) -> list[Any]:
    """What a network answers: dense, by the evaluator that it chooses, and with its reads checked."""
    answers: list[Any] = []
    for tokens in inputs(name):
        if len(tokens) > (longest or len(tokens)):
            continue
        for check, evaluator in ((False, "dense"), (False, None), (True, None)):
            try:
                output = net.run(tokens, check=check, max_layers=12, evaluator=evaluator)
                answers.append((list(output), output.layers))
            except kl.KleeneError as error:
                answers.append(f"{type(error).__name__}: {error}")
    return answers


@cache
def right(name: str, longest: int | None) -> list[Any]:
    return behaviour(network(name), name, longest)


def same_answers(net: Any, name: str, certificate: Any) -> bool:
    """Whether a changed network answers like the right one, on inputs of the length that is certified."""
    longest = certificate.max_length
    return behaviour(net, name, longest) == right(name, longest)


def test_the_networks_are_proved_as_they_are():
    for name in NETWORKS:
        assert kl.certify(network(name)).holds, name


# --- numbers ----------------------------------------------------------------------------------------------

CHANGES = (0.37, 1, -1, 2, -2, 0.5, 512, 1024, -1024, 2048, -2048)


def change_numbers(count: int, seed: int) -> tuple[int, int]:
    """How many changes were refused, and how many accepted: these answer the same."""
    chance, refused, accepted = random.Random(seed), 0, 0
    for _ in range(count):
        name = chance.choice(list(NETWORKS))
        net = network(name)
        tensor = chance.choice([p for p in net.parameters() if p.numel()]).data.view(-1)
        place = chance.randrange(len(tensor))
        before = tensor[place].clone()
        with torch.no_grad():
            tensor[place] = 0 if chance.random() < 0.1 else before + chance.choice(CHANGES)
        try:
            if tensor[place] == before:
                continue
            certificate = kl.certify(net)
            refused, accepted = refused + (not certificate.holds), accepted + certificate.holds
            assert not certificate.holds or same_answers(net, name, certificate), (name, place, float(before))
        finally:
            with torch.no_grad():
                tensor[place] = before
    return refused, accepted


def test_changed_numbers_are_refused_or_harmless():
    refused, _ = change_numbers(120, seed=1)
    assert refused > 60


@pytest.mark.slow
def test_5000_changed_numbers():
    refused, accepted = change_numbers(5_600, seed=2)
    assert refused + accepted >= 5_000 and refused > 2_000
    print(f"{refused} changes refused, {accepted} accepted, and these answer the same")


# --- JSON -------------------------------------------------------------------------------------------------


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field of a JSON document, and every list and object in it."""
    found = [path] if path else []
    entries = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in entries:
        found += places(value, (*path, key))
    return found


def other_value(value: Any, chance: random.Random) -> Any:
    """Something else of the same sort, or of another one."""
    if chance.random() < 0.15:
        return chance.choice([None, True, -1, 0, 1.5, "x", [], {}, 10**6])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + chance.choice([1, -1, 2, -2, 10])
    if isinstance(value, str):
        return chance.choice([value + "x", value[:-1], "done", "1/2"])
    if isinstance(value, list) and value:
        made, place = list(value), chance.randrange(len(value))
        made[place:] = chance.choice([made[place + 1 :], [made[place], *made[place:]], made[place:][::-1]])
        return made
    if isinstance(value, dict) and value:
        gone = chance.choice(list(value))
        return {key: entry for key, entry in value.items() if key != gone}
    return chance.choice([0, 1, "x", [], {}])


@cache
def entries() -> tuple[tuple[str, Any], ...]:
    """Every key that an object of some network's file has, with a value; each key with few values is as likely."""
    found: dict[tuple[str, str], Any] = {}
    for name in NETWORKS:
        content = json.loads(json.dumps(content_of(network(name))))
        for path in places(content):
            if isinstance(path[-1], str):
                value = content
                for key in path:
                    value = value[key]
                found[path[-1], name] = value
    return tuple((key, value) for (key, _), value in found.items())


def with_another_key(content: Any, chance: random.Random) -> tuple[Any, tuple[Any, ...]]:
    """A copy in which one object has a key more: one that other objects have."""
    content = copy.deepcopy(content)
    key, value = chance.choice(entries())
    holder, path = content, (chance.choice(["config", "description", "description"]),)
    while True:
        holder = holder[path[-1]]
        inside = [k for k, v in holder.items() if isinstance(v, dict)]
        if not inside or chance.random() < 0.4:
            holder.setdefault(key, copy.deepcopy(value))
            return content, (*path, key)
        path = (*path, chance.choice(inside))


def changed(content: Any, chance: random.Random) -> tuple[Any, tuple[Any, ...]]:
    """A copy with one field changed, or one more; small parts are as likely as large ones."""
    if chance.random() < 0.2:
        return with_another_key(content, chance)
    content = copy.deepcopy(content)
    part = chance.choice(["config", "description", "dtype"] if chance.random() < 0.3 else ["description"])
    inside = places(content[part])
    by_name: dict[Any, list[Any]] = {}
    for path in inside:
        by_name.setdefault(tuple(key for key in path if isinstance(key, str)), []).append(path)
    path = (part, *chance.choice(chance.choice(list(by_name.values())))) if inside else (part,)
    holder = content
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = other_value(holder[path[-1]], chance)
    return content, path


def written(net: Any, content: Any, folder: Path) -> Path:
    """A folder that says so, with digests that fit."""
    net.save(folder)
    weights = (folder / "weights.safetensors").read_bytes()
    content = {**content, "weights": hashlib.sha256(weights).hexdigest()}
    (folder / "kleene.json").write_text(json.dumps({**content, "digest": _digest(content)}), encoding="utf-8")
    return folder


def change_fields(count: int, seed: int, folder: Path) -> tuple[int, int, int]:
    """How many changes were not loaded, refused, and accepted: these answer the same."""
    chance, unloaded, refused, accepted = random.Random(seed), 0, 0, 0
    for number in range(count):
        name = chance.choice(list(NETWORKS))
        content, path = changed(json.loads(json.dumps(content_of(network(name)))), chance)
        if content == json.loads(json.dumps(content_of(network(name)))):
            continue
        where = written(network(name), content, folder / str(number % 8))
        try:
            net = kl.load(where)
        except kl.KleeneError:
            unloaded += 1
            continue
        certificate = kl.certify(net)
        refused, accepted = refused + (not certificate.holds), accepted + certificate.holds
        assert not certificate.holds or same_answers(net, name, certificate), (name, path)
    return unloaded, refused, accepted


def test_changed_fields_are_refused_or_harmless(tmp_path):
    unloaded, refused, accepted = change_fields(120, 3, tmp_path)
    assert refused > 40 and accepted > 2 and unloaded > 2


@pytest.mark.slow
def test_5000_changed_fields(tmp_path):
    unloaded, refused, accepted = change_fields(5_300, 4, tmp_path)
    assert unloaded + refused + accepted >= 5_000
    print(f"{unloaded} changes not loaded, {refused} refused, {accepted} accepted, and these answer the same")


# --- changes that were once certified ---------------------------------------------------------------------


def spoiled(name: str, **config: Any) -> Any:
    net = kl.compile(program(name))
    net.config = dataclasses.replace(net.config, **config)
    return net


def test_a_block_that_says_it_is_causal():
    net = kl.compile(program("sort"))
    net.blocks[0].causal = True
    assert "causal" in kl.certify(net).reasons[0]


@pytest.mark.parametrize(
    "change", [{"layers": 1}, {"causal": True}, {"positions": None}, {"tokens": 2}, {"halts": True}]
)
def test_a_config_that_says_something_else(change):
    assert not kl.certify(spoiled("sort", **change)).holds


def test_a_network_that_does_not_halt():
    assert "halts" in kl.certify(spoiled("waits", halts=False)).reasons[0]
    assert "longer inputs" in kl.certify(spoiled("parity_sum", max_length=200)).reasons[0]


@pytest.mark.parametrize("field", ["layers", "tokens", "causal", "positions", "halt", "output"])
def test_a_program_that_says_something_else(field):
    net = kl.compile(program("mailbox"))
    other = {"layers": 1, "tokens": 3, "causal": True, "positions": 5, "halt": {"sends": 1}, "output": "box"}
    net.description["program"] = {**net.description["program"], field: other[field]}
    assert not kl.certify(net).holds


def test_heads_in_another_order():
    net = kl.compile(program("parity_relative"))
    shape = net.config.cycle[0]
    net.config = dataclasses.replace(net.config, cycle=(dataclasses.replace(shape, heads=shape.heads[::-1]),))
    net.blocks[0].heads = shape.heads[::-1]
    assert not kl.certify(net).holds


def test_another_modulus():
    net = kl.compile(program("adder"))
    for word in net.description["updates"]["words"]:
        if word["modulus"]:
            word["modulus"] //= 2
    assert not kl.certify(net).holds


def test_a_second_description_of_the_layers():
    """`check=True` would evaluate the read guards of a cycle, of which the program has none."""
    net = kl.compile(program("tied"))
    part = {"updates": net.description["updates"], "reads": [], "moves": []}
    net.description["cycle"] = [part]
    assert "not the program's" in kl.certify(net).reasons[0]


def test_tensors_in_several_formats():
    net = kl.compile(program("sort"))
    net.blocks[0].in2 = torch.nn.Parameter(net.blocks[0].in2.double(), requires_grad=False)
    assert "another number format" in kl.certify(net).reasons[0]


def test_a_read_guard_that_checks_something_else():
    net = kl.compile(program("tied"))
    net.description["reads"][0]["tests"][0]["allowed"] = [5]
    assert "(lemma reads)" in kl.certify(net).reasons[0]


# --- encoders ---------------------------------------------------------------------------------------------


class Counts(kl.Program):
    """Counts down, and then goes on counting up: running on after halting changes the answer."""

    tokens = 4
    left = kl.cat(4, token=lambda t: t)
    steps = kl.cat(8)
    done = kl.cat(2)
    output = steps
    halt = {done: 1}

    def step(z):
        z.steps = (z.steps + 1) % 8
        if z.left <= 1:
            z.done = 1
        else:
            z.left = z.left - 1


def test_an_encoder_of_a_halting_program_says_what_it_runs():
    """An encoder never halts: what is saved and certified is the program run for its layers, and says so."""
    net = kl.compile(Counts, shape="encoder", layers=5)
    certificate = kl.certify(net)
    assert certificate.holds and "run for 5 layers" in certificate.statement
    assert net.description["program"]["layers"] == 5 and not net.description["program"]["halt"]
    assert net.run([1]) == Counts.run([1], layers=5) == [5] and Counts.run([1]) == [1]
    net.description["program"] = {**net.description["program"], "halt": {"done": 1}}
    assert "fixed number of layers" in kl.certify(net).reasons[0]
    universal = kl.certify(kl.compile(Counts))
    assert universal.holds and "until every position has its halt value" in universal.statement


class Turns(kl.Program):
    """Two layers that take turns."""

    tokens = 2
    count = kl.cat(16, token=lambda t: t)
    output, layers = count, 3

    @kl.layer()
    def one(z):
        z.count = (z.count + 1) % 16

    @kl.layer()
    def double(z):
        z.count = (2 * z.count) % 16

    cycle = (one, double)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5, 8])
def test_an_encoder_with_blocks_of_its_own_keeps_step(layers):
    """Blocks come in whole turns of the cycle, so that more layers than blocks go on with the right one."""
    net = kl.compile(Turns, shape="encoder", layers=3, shared=False)
    assert len(net.blocks) == 4 and kl.certify(net).holds
    assert net.run([1], layers=layers) == Turns.run([1], layers=layers)
    net.config = dataclasses.replace(net.config, blocks=3)
    assert not kl.certify(net).holds
