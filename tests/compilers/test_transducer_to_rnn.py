"""Mealy machines and programs that are one, as simple and linear RNNs: outputs, certificates, files, and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import kleene as kl
from kleene.library.decoders import copy_decoder
from kleene.machines.automata.transducer import Transducer
from kleene.networks.rnn.matrix import Matrix

NETWORKS = ("rnn", "linear")


class LastLetter(kl.Program):
    """The letter that stood last before a bar, by a head that takes the latest match; c before any bar."""

    tokens = "abc|"
    causal = True
    letter = kl.cat(4, token=lambda t: t)
    before = kl.cat(4, default=2)
    bar = kl.cat(2, token=lambda t: t == 3)
    one = kl.cat(2, default=1)
    held = kl.cat(4, default=2)
    left = kl.relative(letter, -1, default=2)
    latest = kl.attend(one, bar, before, latest=True, default=2)
    output = held

    @kl.layer(left)
    def remember(z):
        z.before = z.left

    @kl.layer(latest)
    def look(z):
        z.held = z.latest

    cycle = (remember, look)
    layers = 2


@pytest.mark.parametrize("to", NETWORKS)
@pytest.mark.parametrize("program", [kl.library.parity_relative, LastLetter])
def test_a_program_that_looks_left(program, to, tmp_path: Path):
    net = kl.compile(program, to=to)
    assert kl.verify(program, net, lengths=range(1, 6 if to == "rnn" else 5)).holds
    certificate = kl.certify(net, program=program)
    assert certificate.holds and certificate.max_length is None, certificate
    net.save(tmp_path / "net")
    again = kl.load(tmp_path / "net", kl.SequenceRNN)
    assert kl.decompile(again).equivalent(kl.decompile(net))
    assert kl.verify(program, again, random=50).holds
    tokens = list(range(program.spec.tokens))
    start = [2, *tokens] if program is kl.library.parity_relative else tokens
    assert again.run(start) == program.run(start)


def test_text_in_text_out_and_words():
    net = kl.compile(LastLetter, to="rnn")
    assert net.run("ab|c|a") == LastLetter.run("ab|c|a") == [2, 2, 1, 1, 2, 2]
    assert net.write("ab|") == ["2", "2", "1"]
    for wrong in ("", [4], [0.5]):
        with pytest.raises(kl.InputError):
            net.run(wrong)


def test_where_the_program_raises_so_does_the_network():
    for to in NETWORKS:
        with pytest.raises(kl.InputError, match="no move for '1' at position 0"):
            kl.compile(kl.library.parity_relative, to=to).run([1, 0])


def test_a_linear_network_in_other_formats():
    for dtype in ("float64", "bfloat16"):
        net = kl.compile(LastLetter, to="linear", dtype=dtype)
        assert kl.certify(net).holds and net.run("b|") == [2, 1]
    with pytest.raises(kl.NotSupported, match="unknown dtype 'int8'"):
        kl.compile(LastLetter, to="linear", dtype="int8")


def test_a_decoder_appends_its_own_outputs():
    class Countdown(kl.Program):
        """Writes the number below its last token until it writes 0."""

        tokens = 5
        max_tokens = 9
        stop = 0
        value = kl.cat(5, token=lambda t: max(t - 1, 0))
        output = value
        layers = 1

        def step(z):
            z.value = z.value

    for to in NETWORKS:
        net = kl.compile(Countdown, to=to)
        assert net.run([4]) == Countdown.run([4]) == [3, 2, 1, 0]
        assert kl.verify(Countdown, net, lengths=range(1, 4)).holds


def test_windows_that_are_too_long_are_refused():
    with pytest.raises(kl.NotSupported, match="more than 200 values, mostly through the head"):
        kl.compile(copy_decoder("ab", 16), to="rnn", limit=200)


def test_mealy_machines():
    machine = Transducer.mealy([[1, 0], [0, 1]], ["xy", "yz"], "ab")
    for to in NETWORKS:
        net = kl.compile(machine, to=to)
        assert "".join(net.write("abba")) == machine("abba")
        assert kl.certify(net).holds and kl.decompile(net).equivalent(machine)
        with pytest.raises(kl.NotSupported, match="was not compiled from a program"):
            net.run([0])
    other = Transducer.mealy([[1, 0], [0, 1]], ["xy", "yy"], "ab")
    assert not kl.certify(kl.compile(machine), machine=other).holds
    with pytest.raises(kl.NotSupported, match="writes 2 symbols"):
        kl.compile(Transducer([[0]], [["xx"]], "a"))
    with pytest.raises(kl.NotSupported, match="before the first symbol"):
        kl.compile(Transducer.moore([[0]], ["x"], "a"))


def test_any_two_are_compared():
    simple, linear = (kl.compile(LastLetter, to=to) for to in NETWORKS)
    assert kl.verify(simple, linear).holds and kl.verify(linear).holds and kl.verify(linear, LastLetter).holds
    other = kl.compile(Transducer.mealy([[0] * 4], ["0000"], "abc|"))
    report = kl.verify(simple, other)
    assert not report.holds and "on a they write something else" in str(report)
    with pytest.raises(kl.NotSupported, match="compare each with the program"):
        kl.verify(simple, kl.compile(LastLetter))


def test_planted_bugs_are_found():
    net = kl.compile(LastLetter, to="rnn")
    entries = dict(net.cell.out_W.entries)
    at = next(iter(entries))
    entries[at] = 3 - entries[at]
    net.cell = replace(net.cell, out_W=Matrix(1, net.cell.units, entries))
    found = kl.certify(net)
    assert not found.holds and "differ on" in str(found)
    report = kl.verify(LastLetter, net, lengths=range(1, 5))
    assert not report.holds and report.counterexample is not None
    linear = kl.compile(LastLetter, to="linear")
    with torch.no_grad():
        linear.cell.out.weight[0, 1] += 0.5
    assert "not a whole number" in str(kl.certify(linear))
    other = kl.compile(kl.library.parity_relative, to="rnn")
    other.about["machine"] = kl.compile(LastLetter, to="rnn").about["machine"]
    with pytest.raises(kl.InputError, match="alphabets must be equal"):
        kl.certify(other)


def test_a_machine_of_another_program_is_found():
    class Other(LastLetter):
        @kl.layer(LastLetter.latest)
        def look(z):
            z.held = z.latest if z.letter != 0 else 0

        cycle = (LastLetter.remember, look)

    net = kl.compile(LastLetter, to="rnn")
    assert not kl.certify(net, program=Other).holds


def test_broken_folders(tmp_path: Path):
    net = kl.compile(LastLetter, to="rnn")
    net.save(tmp_path / "net")
    path = tmp_path / "net" / "kleene.json"
    text = path.read_text()
    for change in (('"outputs": [', '"outputs": [3, '), ('"version": 1', '"version": 9')):
        path.write_text(text.replace(*change))
        with pytest.raises(kl.FileError):
            kl.load(tmp_path / "net")
    path.write_text(text)
    (tmp_path / "net" / "cell" / "kleene.json").write_text('{"kind": "other"}')
    with pytest.raises(kl.FileError, match="it must be 'rnn' or 'linear'"):
        kl.load(tmp_path / "net")


def test_what_run_needs_of_the_program_is_certified():
    """How text and tokens become symbols, and how long inputs are: this decides what `run` gives, too."""
    program = kl.library.parity_relative
    net = kl.compile(program, to="rnn")
    assert kl.certify(net, program=program).holds
    about, alphabet = net.about["program"], net.alphabet
    changes: dict[str, Any] = {"positions": 3, "stop": 1, "max_tokens": 2, "text": {"alphabet": ["1", "0", "^"]}}
    for name, value in changes.items():
        net.about["program"] = {**about, name: value}
        assert f"they differ in {name}" in str(kl.certify(net, program=program))
    net.about["program"] = about
    codes = [1, 0, 2]  # the same words, other numbers: W's columns go with the symbols
    entries = {(unit, codes.index(code)): w for (unit, code), w in net.cell.W.entries.items()}
    W = replace(net.cell.W, entries=entries)
    net.cell = replace(net.cell, alphabet=tuple(alphabet[code] for code in codes), W=W)
    assert "numbers its symbols in another way" in str(kl.certify(net))


@pytest.mark.parametrize(
    "name, value",
    [
        ("positions", "x"),
        ("positions", 0),
        ("max_tokens", {}),
        ("stop", True),
        ("text", 3),
        ("text", {"alphabet": [3]}),
    ],
)
def test_malformed_programs_are_not_loaded(name, value, tmp_path: Path):
    net = kl.compile(kl.library.parity_relative, to="rnn")
    net.about["program"][name] = value
    net.save(tmp_path / "net")
    with pytest.raises(kl.FileError, match=name):
        kl.load(tmp_path / "net")
