"""Instruction tables and the networks that memorise them by construction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import kleene as kl
from kleene.cli import app
from kleene.compilers.table_to_memoriser import yun_layers
from kleene.errors import FileError, InputError, NotExact, NotSupported


def tables(most=6):
    shapes = st.tuples(st.integers(1, most), st.integers(1, most), st.integers(1, 9), st.integers(0, 10**6))
    return shapes.map(lambda s: kl.InstructionTable.random(s[0], s[1], s[2], seed=s[3]))


def test_grid_memorises_128_programs_of_256_in_float32():
    table = kl.InstructionTable.random(128, 256, 256, seed=5)
    net = kl.compile(table)
    assert net.dtype == "float32" and all(p.dtype == torch.float32 for p in net.parameters())
    report = kl.verify(table, net)
    assert (report.checked, report.mismatches) == (128 * 256 * 3, 0)
    assert all(net.sizes[field] <= 80_000 for field in "ABC")
    assert all(bool((p == p.round()).all()) for p in net.parameters())  # whole numbers only


def test_yun_memorises_64_programs_of_256_in_float64_and_is_refused_in_float32():
    table = kl.InstructionTable.random(64, 256, 256, seed=6)
    net = kl.compile(table, method="yun")
    assert net.dtype == "float64" and kl.verify(table, net).mismatches == 0
    assert net.sizes["A"] == net.sizes["B"] == 854_144
    assert net.sizes["parameters"] == net.sizes["theorem_corrected"] > net.sizes["theorem"]
    with pytest.raises(NotExact, match=r"in float32 the 'yun' network gets [\d,]+ of 49,152 labels wrong"):
        kl.compile(table, method="yun", dtype="float32")


@given(table=tables())
@settings(max_examples=25, deadline=None)
def test_decompiling_gives_the_table_back(table):
    for method in ("grid", "yun"):
        net = kl.compile(table, method=method)
        assert kl.decompile(net) == table


@pytest.mark.parametrize("swapped", [False, True])
def test_yun_is_exact_in_rationals(swapped):
    chance = np.random.default_rng(1)
    for groups, width, z in [(1, 1, 1), (3, 4, 5), (5, 3, 2), (4, 7, 9)]:
        labels = chance.integers(0, z, (groups, width))
        layers = yun_layers(labels.tolist(), z, swapped)
        for group in range(groups):
            for place in range(width):
                values = [Fraction(group), Fraction(place)] if swapped else [Fraction(place), Fraction(group)]
                for number, (weight, bias) in enumerate(layers):
                    values = [sum(w * x for w, x in zip(row, values)) + b for row, b in zip(weight, bias)]
                    values = [max(v, Fraction(0)) for v in values] if number < 3 else values
                assert values == [int(c == labels[group, place]) for c in range(z)]


def test_programs_of_different_lengths_and_names():
    table = kl.InstructionTable({"one": [(0, 0, 0), (3, 1, 0)], "two": [(2, 2, 2)]})
    net = kl.compile(table)
    assert table.sizes == (4, 4, 3)
    assert net.lookup("one", 1) == net.lookup(program=0, instruction=1) == table.lookup("one", 1) == (3, 1, 0)
    assert net.lookup(program="two", instruction=0) == (2, 2, 2)
    with pytest.raises(InputError, match="instruction 1 of program 1 is outside 0 … 0"):
        net.lookup(1, 1)
    with pytest.raises(InputError, match="no program is called 'three'; there are one, two"):
        net.lookup("three", 0)


def test_a_changed_weight_shows():
    table = kl.InstructionTable.random(4, 6, 8, seed=1)
    net = kl.compile(table)
    net.networks[1][2].bias.data[0] += 3
    report = kl.verify(table, net)
    assert not report.holds and report.example.startswith("B of instruction")
    assert kl.decompile(net) != table


def test_logits_that_are_not_numbers_are_no_answer():
    table = kl.InstructionTable([[(0, 0, 0)], [(0, 0, 0)]])
    net = kl.compile(table)
    net.networks[1][6].bias.data[:] = float("nan")
    for read in (lambda: kl.verify(table, net), lambda: kl.decompile(net), lambda: net.lookup(0, 0)):
        with pytest.raises(InputError, match=r"instruction 0 of program 0 its logits are not numbers \(NaN\)"):
            read()


def test_saved_and_loaded(tmp_path):
    table = kl.InstructionTable({"a": [(0, 0, 0), (1, 2, 1)], "b": [(2, 0, 1)]})
    for method in ("grid", "yun"):
        kl.compile(table, method=method).save(tmp_path / method)
        net = kl.load(tmp_path / method)
        assert net.method == method and kl.decompile(net) == table
    description = (tmp_path / "grid" / "kleene.json").read_text()
    (tmp_path / "grid" / "kleene.json").write_text(description.replace('"lengths": [2', '"lengths": [1000000000'))
    with pytest.raises(FileError, match="lengths of more than 16,777,216 instructions"):
        kl.load(tmp_path / "grid")
    (tmp_path / "grid" / "kleene.json").write_text(description.replace('"widths": [[2', '"widths": [[2000000'))
    with pytest.raises(FileError, match="not a description of a memoriser"):
        kl.load(tmp_path / "grid")
    (tmp_path / "grid" / "kleene.json").write_text(description.replace('["a", "b"]', '["a", "a"]'))
    with pytest.raises(FileError, match="two programs or operands of one name"):
        kl.load(tmp_path / "grid")
    (tmp_path / "yun" / "weights.safetensors").write_bytes(b"no")
    with pytest.raises(FileError, match="does not fit"):
        kl.load(tmp_path / "yun")


def test_decompiled_on_the_command_line(tmp_path):
    table = kl.InstructionTable({"one": [(0, 0, 0), (1, 2, 1)]})
    kl.compile(table).save(tmp_path / "net")
    said = CliRunner().invoke(app, ["decompile", str(tmp_path / "net")])
    assert said.exit_code == 0 and "one:" in said.output and "1 2 1" in said.output
    said = CliRunner().invoke(app, ["decompile", str(tmp_path / "net"), "--json"])
    assert '"programs": {"one": [[0, 0, 0], [1, 2, 1]]}' in said.output


def test_numbers_beyond_float32_take_float64_or_are_refused():
    table = kl.InstructionTable.random(3, 3, 4000, seed=1)  # 2·c·v reaches 2^24
    assert kl.compile(table).dtype == "float64"
    with pytest.raises(NotExact, match="grow beyond"):
        kl.compile(table, dtype="float32")
    with pytest.raises(NotSupported, match="bfloat16"):
        kl.compile(table, dtype="bfloat16")
    with pytest.raises(InputError, match="method 'x'"):
        kl.compile(table, method="x")


@pytest.mark.parametrize("method", ["grid", "yun"])
@pytest.mark.parametrize(
    "programs, sizes",
    [([[(200_000_000, 0, 0)]], None), ([[(2**40, 0, 0)]], None), ([[(0, 0, 0)]], (10**10, 1, 1))],
)
def test_networks_that_would_be_too_large_are_refused_before_they_are_made(programs, sizes, method):
    with pytest.raises(NotSupported, match=r"parameters, more than 500,000,000"):
        kl.compile(kl.InstructionTable(programs, sizes=sizes), method=method)


@pytest.mark.parametrize(
    "sizes, said",
    [((10**6, 10**6, 3), "at most 16,777,216 in"), ((-1, 2, 3), "must be 1 or more"), ((2, 2, 0), "1 or more")],
)
def test_random_tables_check_their_sizes(sizes, said):
    with pytest.raises(InputError, match=said):
        kl.InstructionTable.random(*sizes)
    with pytest.raises(InputError, match="least=3 is outside 0 … 1"):
        kl.InstructionTable.random(2, 2, 3, least=3)


@pytest.mark.parametrize(
    "programs, said",
    [
        ([], "no programs"),
        ([[(1, 2)]], "is not a list of whole-number instructions"),
        ([[(1, 2, -1)]], "is negative"),
        ([[(1, 2, 0.5)]], "is not a list of whole-number instructions"),
        ({"a": []}, "program 'a' is not a list"),
    ],
)
def test_tables_that_are_none(programs, said):
    with pytest.raises(InputError, match=said):
        kl.InstructionTable(programs)


def test_sizes_that_are_too_small():
    with pytest.raises(InputError, match="A = 5 needs 6 classes; sizes say 4"):
        kl.InstructionTable([[(5, 0, 0)]], sizes=(4, 4, 4))


def test_tables_of_instructions_check_their_numbers():
    with pytest.raises(InputError, match="is not a list of whole-number instructions"):
        kl.InstructionTable([[(2**70, 0, 0)]])
    with pytest.raises(InputError, match="2 sizes for the 3"):
        kl.InstructionTable([[(1, 1, 1)]], sizes=(4, 4))


def test_a_table_is_compared_with_networks_that_know_instructions():
    with pytest.raises(kl.NotSupported, match="with a memoriser or a Synthesizer, not a NoneType"):
        kl.verify(kl.InstructionTable([[(0, 0, 0)]]), None)
