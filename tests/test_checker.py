"""The independent checker by itself: what it imports, what it reads, formats, and every program of the library."""

from __future__ import annotations

import ast
import copy
import itertools
import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import kleene as kl
from kleene import checker

ROOT = Path(__file__).parent.parent
SOURCE = Path(checker.__file__)


def test_it_imports_the_standard_library_numpy_and_safetensors_alone():
    found = set()
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add((node.module or "").partition(".")[0])
    assert found - set(sys.stdlib_module_names) == {"numpy", "safetensors"}
    text = SOURCE.read_text(encoding="utf-8")
    assert "import_module" not in text and "__import__" not in text and "exec(" not in text


def test_nothing_that_certifies_compiles():
    text = (SOURCE.parent / "checks" / "certificates.py").read_text(encoding="utf-8")
    readers = {"transformer_to_dfa import read_automaton", "transformer_to_turing import check_steps, read_turing"}
    # these read an automaton or a Turing machine from updates that the checker has proved, not from weights
    assert set(re.findall(r"kleene\.decompilers\.(.*)", text)) == readers
    assert "kleene.compilers" not in text and "assemble" not in text


def test_it_reads_a_folder_by_itself(tmp_path):
    """As a file, without the package: nothing of Kleene is imported."""
    kl.compile(kl.library.parity_relative).save(tmp_path / "net")
    program = "import runpy, sys; sys.argv = sys.argv[1:]; "
    program += "\ntry: runpy.run_path(sys.argv[0], run_name='__main__')\n"
    program += "finally: assert not any(name.startswith(('kleene', 'torch')) for name in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(SOURCE), str(tmp_path / "net"), "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["holds"] and [lemma["name"] for lemma in content["lemmas"]] == list(checker.LEMMAS)


def test_the_folder_and_the_network_in_memory_are_proved_alike(tmp_path):
    for dtype in ("float32", "float64", "bfloat16"):
        net = kl.compile(kl.library.parity_absolute(6), dtype=dtype)
        net.save(tmp_path / dtype)
        verdict = checker.check(checker.read_folder(tmp_path / dtype))
        assert verdict.holds and verdict.lemmas == kl.certify(net).lemmas and verdict.dtype == dtype


@pytest.mark.parametrize("wrong", ["nowhere", "empty"])
def test_a_folder_that_is_none(wrong, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert checker.main([str(tmp_path / wrong)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_folder_of_another_network(tmp_path, capsys):
    kl.compile(kl.regex("(01)*")).save(tmp_path / "net")
    assert checker.main([str(tmp_path / "net")]) == 2
    assert "no transformer; try `kleene certify`" in capsys.readouterr().err


def test_a_refusal_ends_with_1(tmp_path, capsys):
    net = kl.compile(kl.library.parity_relative)
    net.blocks[0].bias2.data[0] += 1
    net.save(tmp_path / "net")
    assert checker.main([str(tmp_path / "net")]) == 1
    assert "refused:" in capsys.readouterr().out


# --- formats ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", checker.FORMATS)
def test_formats_hold_what_torch_holds(dtype):
    import torch

    numbers = torch.tensor(
        [
            0,
            1,
            -3,
            255,
            256,
            257,
            2048,
            2049,
            65504,
            65520,
            1e5,
            2.0**-24,
            2.0**-25,
            1e-40,
            0.1,
            2.0**-1074,
            3e38,
            1e39,
        ],
        dtype=torch.float64,
    )
    held = numbers.to(getattr(torch, dtype)).double() == numbers
    assert checker.FORMATS[dtype].holds(numbers.numpy()).tolist() == held.tolist()


@pytest.mark.parametrize("dtype", checker.FORMATS)
def test_exp_is_zero_beyond_the_gap(dtype):
    import torch

    kind, gap = getattr(torch, dtype), checker.FORMATS[dtype].gap
    assert torch.exp(torch.tensor([0.0, -gap, -gap - 100.0]).to(kind)).tolist() == [1, 0, 0]
    assert torch.exp(torch.tensor([-gap + 4.0]).to(kind)).item() > 0  # the gap is not much more than it must be


def test_float16_is_proved_where_it_is_exact():
    assert kl.certify(kl.compile(kl.library.parity_relative), dtype="float16").holds
    assert not kl.certify(kl.compile(kl.library.parity_sum(60)), dtype="float16").holds


# --- parts ------------------------------------------------------------------------------------------------


def test_neighbours_among_fractions():
    for length in (1, 2, 5, 9):
        every = sorted({Fraction(p, q) for q in range(1, length + 1) for p in range(-3 * q, 3 * q + 1)})
        for middle in {Fraction(p, q) for q in range(1, 12) for p in range(-2 * q, 2 * q)}:
            below = max(f for f in every if f <= middle)
            above = min(f for f in every if f > middle)
            assert checker.neighbours(middle, length) == (below, above), (middle, length)


class Words(kl.Program):
    """Sums of words of different widths, with and without a modulus."""

    tokens = 8
    a = kl.word(3, token=lambda t: t)
    b = kl.word(3, token=lambda t: (3 * t) % 8)
    wide = kl.word(5)
    twice = kl.word(3)
    near = kl.word(2)
    output, layers = wide, 1

    def step(z):
        z.wide = 2 * z.a + z.b + 5
        z.twice = (z.a - 3 * z.b + 1) % 8
        if z.a >= z.b:
            z.near = (z.a - z.b) % 4


def test_a_changed_adder_is_refused_exactly_where_it_is_wrong():
    """Every unit of an adder shifted by one: accepted only where no input shows it."""
    net = kl.compile(Words)
    assert kl.certify(net).holds
    layout, block = net.layout, net.blocks[0]
    grid = list(itertools.product(range(8), repeat=2))
    from kleene.compilers.transformer_coding import encode

    spec = Words.spec
    states = encode(layout, spec, {"a": [a for a, _ in grid], "b": [b for _, b in grid]}).float()
    right = block.second_half(block.first_half(states))
    for unit in range(len(block.bias2)):
        for by in (1, -1):
            block.bias2.data[unit] += by
            wrong = not bool((block.second_half(block.first_half(states)) == right).all())
            if wrong:
                assert not kl.certify(net).holds, unit
            block.bias2.data[unit] -= by


class Found(kl.Program):
    """A word that may be found at several positions, compared and added where it is asked for."""

    tokens = 4
    key = kl.cat(2, token=lambda t: t % 2)
    asks = kl.cat(2, token=lambda t: t // 2)
    here = kl.word(3, token=lambda t: t)
    one = kl.cat(2, default=1)
    found = kl.attend(one, key, here)
    size = kl.cat(3)
    total = kl.word(3)
    output, layers = size, 1

    def step(z):
        if z.asks == 1:
            z.size = 1 if z.found >= 2 else 2
            z.total = (z.found + z.here) % 8


def test_a_word_that_several_positions_have_is_a_fraction_where_it_is_not_read():
    net = kl.compile(Found)
    assert kl.certify(net).holds, kl.certify(net)
    assert kl.verify(Found, net, lengths=range(1, 4)).holds
    compared = net.layout["[found ≥ 2]"].start
    gate = next(u for u in range(len(net.blocks[0].bias2)) if net.blocks[0].in2[u, compared])
    net.blocks[0].bias2.data[gate] += 1  # now a fraction opens it
    assert not kl.certify(net).holds


class Sliced(kl.Program):
    """A part of a word that a head reads decides what another word becomes; the first position reads nothing."""

    tokens = 4
    here = kl.word(2, token=lambda t: t)
    start = kl.cat(2, position=lambda p: p == 0)
    left = kl.relative(here, -1)
    found = kl.word(2, default=1)
    output, layers, positions = found, 2, 5

    def step(z):
        if z.start == 0 and z.left[0:2] == 1:
            z.found = z.here
        elif z.start == 0 and z.left[1]:
            z.found = z.left


def test_parts_of_a_word_that_a_head_reads_are_proved_bit_by_bit():
    net = kl.compile(Sliced)
    assert kl.certify(net).holds, kl.certify(net)
    inputs = [list(word) for size in range(1, 4) for word in itertools.product(range(4), repeat=size)]
    wanted, (block,) = [Sliced.run(tokens) for tokens in inputs], net.blocks
    wrong = 0
    for unit in range(len(block.bias2)):
        for by in (-1, 1):
            block.bias2.data[unit] += by
            if net.run_batch(inputs, evaluator="dense") != wanted:
                wrong += 1
                assert not kl.certify(net).holds, (unit, by)
            block.bias2.data[unit] -= by
    assert wrong > 4 and kl.certify(net).holds


class Both(kl.Program):
    """A head that each branch reads, and that decides afterwards whether another head is read."""

    tokens = 4
    a = kl.cat(2, token=lambda t: t % 2)
    b = kl.cat(2, token=lambda t: t // 2)
    c = kl.cat(2)
    d = kl.cat(2)
    i = kl.relative(a, -1, default=0)
    k = kl.relative(b, -2)
    output, layers = c, 1

    def step(z):
        if z.b == 1:
            z.c = z.i
        else:
            z.d = z.i
        if z.i == 1:
            z.c = z.k


def test_a_head_that_is_read_in_every_branch_is_read():
    net = kl.compile(Both)
    assert kl.certify(net).holds, kl.certify(net)
    assert kl.verify(Both, net, lengths=range(1, 4)).holds
    for branch in (0, 1):  # without one of the branches
        lost = copy.deepcopy(net)
        for reads in (lost.description["updates"]["reads"], lost.description["reads"]):
            assert reads.pop(branch)["head"] == "i"
        assert "'i' is not read before" in str(kl.certify(lost))


# --- the library ------------------------------------------------------------------------------------------

DEFAULT_SIZE = "parity_relative parity_absolute parity_sum parity_scratchpad addition addition_scratchpad subleq "
DEFAULT_SIZE += "subleq_words sort_unique sort reverse histogram most_frequent dyck1 dyck2"


@pytest.mark.parametrize("name", DEFAULT_SIZE.split())
def test_every_library_program_is_proved_at_its_default_size(name):
    program = getattr(kl.library, name)
    certificate = kl.certify(kl.compile(program if isinstance(program, type) else program()))
    assert certificate.holds, certificate
    assert [lemma.name for lemma in certificate.lemmas] == list(checker.LEMMAS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scan", "computer"])
def test_large_programs_are_proved(name):
    program = getattr(kl.library, name)
    assert kl.certify(kl.compile(program if isinstance(program, type) else program(8))).holds


# --- the page ---------------------------------------------------------------------------------------------


def test_the_page_names_every_lemma_and_the_sizes_of_trusted_files():
    page = (ROOT / "docs" / "proved.md").read_text(encoding="utf-8")
    for name in checker.LEMMAS:
        assert f"| `{name}` |" in page, name
    said = re.findall(r"\| `(src/\S+)` \| ([\d,]+) \|", page)
    assert len(said) == 5
    for name, lines in said:
        count = len((ROOT / name).read_text(encoding="utf-8").splitlines())
        assert abs(count - int(lines.replace(",", ""))) <= max(15, count // 10), (name, count)


def test_a_form_beyond_64_bits_is_refused():
    net = kl.compile(kl.library.parity_relative)
    form = net.description["updates"]["forms"][0]
    name, table = next(iter(form[1].items()))
    form[1][name] = [1 << 63, *table[1:]]
    assert "too large" in kl.certify(net).reasons[0]


def test_a_key_that_appears_twice_is_refused(tmp_path, capsys):
    """Readers of JSON disagree on which of two entries counts."""
    kl.compile(kl.library.parity_relative).save(tmp_path)
    path = tmp_path / "kleene.json"
    text = path.read_text()
    assert checker.main([str(tmp_path)]) == 0
    path.write_text(text.replace('"causal": false', '"causal": true, "causal": false', 1))
    assert path.read_text() != text and checker.main([str(tmp_path)]) == 2
    assert "a key twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    "field, value", [("by_position", 0), ("by_position", [0, 1]), ("default", "x"), ("default", 9)]
)
def test_a_variable_that_starts_in_two_ways_is_refused(field, value):
    """And no raw exception where an automaton's description is read after the proof."""
    net = kl.compile(kl.regex("(01)*"), to="transformer")
    net.description["program"]["variables"]["done"][field] = value
    assert not kl.certify(net).holds
