"""SCAN: the grammar, the program on every evaluator, its sizes, and what a user meets."""

from __future__ import annotations

import random
from itertools import product

import pytest
import torch
from typer.testing import CliRunner

import kleene as kl
from data_sets import DATA, needs
from kleene.cli import app
from kleene.errors import InputError
from kleene.library.scan import CELLS, RULES, memory, scan, steps
from kleene.lowering.rule_machine import RuleMachine
from kleene.machines import scan_grammar
from kleene.machines.scan_grammar import ACTIONS, SPLITS, WORDS, interpret, length_split, pairs

needs_data = needs("scan/tasks.txt")
ALL = pairs()
LONGEST = max(ALL, key=lambda pair: len(pair[1].split()))
SAMPLE = [*random.Random(7).sample(ALL, 60), LONGEST]


@pytest.fixture(scope="module")
def network():
    return kl.compile(scan)


@pytest.fixture(scope="module")
def machine():
    return RuleMachine(kl.guarded_updates(scan))


def encoded(sample):
    return [scan.encode(command) for command, _ in sample]


# --- the grammar ---


def test_examples_of_the_publication():
    assert interpret("jump") == "I_JUMP"
    assert interpret("jump around right").split() == ["I_TURN_RIGHT", "I_JUMP"] * 4
    assert interpret("turn left twice") == "I_TURN_LEFT I_TURN_LEFT"
    assert interpret("jump opposite left after walk around left").split() == (
        ["I_TURN_LEFT", "I_WALK"] * 4 + ["I_TURN_LEFT", "I_TURN_LEFT", "I_JUMP"]
    )


def test_there_are_20910_commands_of_at_most_9_words_and_48_actions():
    assert len({command for command, _ in ALL}) == 20_910
    assert max(len(command.split()) for command, _ in ALL) == scan_grammar.LONGEST_COMMAND
    assert max(len(actions.split()) for _, actions in ALL) == 48


@needs_data
def test_commands_are_those_published():
    published = scan_grammar.published_tasks(DATA)
    assert len(published) == 20_910
    assert set(published) == set(ALL)


@needs_data
@pytest.mark.parametrize("name", SPLITS)
def test_published_splits_hold_commands_with_their_actions(name):
    train, test = scan_grammar.published_split(name, DATA)
    assert train and test
    assert set(train) | set(test) <= set(ALL)


@needs_data
def test_the_length_split_is_derived():
    for derived, published in zip(length_split(), scan_grammar.published_split("length", DATA)):
        assert set(derived) == set(published)


def test_missing_data_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("KLEENE_DATA", raising=False)
    with pytest.raises(kl.FileError, match="no data folder"):
        scan_grammar.published_tasks()
    with pytest.raises(kl.FileError, match=r"no such folder.*brendenlake"):
        scan_grammar.published_split("mcd1", tmp_path)
    with pytest.raises(InputError, match="no split 'mcd4'"):
        scan_grammar.published_split("mcd4", tmp_path)
    (tmp_path / "scan").mkdir()
    (tmp_path / "scan" / "tasks.txt").write_text("IN: jump\n")
    with pytest.raises(kl.FileError, match="line 1"):
        scan_grammar.published_tasks(tmp_path)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("jmp twice", "'jmp' is not a word.*did you mean 'jump'"),
        ("xyzzy", "'xyzzy' is not a word.*walk, look"),
        ("", "the command is empty"),
        ("turn", "'turn'.*needs left or right"),
        ("walk around", "'around'.*needs left or right"),
        ("jump twice twice", "'twice'.*cannot come after 'twice'"),
        ("jump left around", "'around'.*cannot come after 'left'"),
        ("left jump", "'left'.*cannot begin a phrase"),
        ("twice", "'twice'.*cannot begin a phrase"),
        ("and jump", "no phrase before 'and'"),
        ("jump after", "no phrase after 'after'"),
        ("jump and run after walk", "more than two phrases.*'after' cannot come after 'and'"),
    ],
)
def test_what_is_wrong_with_a_command_is_said(command, said):
    with pytest.raises(InputError, match=said):
        scan.encode(command)


# --- the program ---


def test_every_target_can_be_written():
    for rule in RULES:
        nonterminals = [symbol for symbol in rule.right if symbol in ("U", "V", "S")]
        children = {child for _, child in steps(rule) if child}
        assert children <= {"U", "V", "S", "S1", "S2"} and len(children) == len(nonterminals)


def test_memory_holds_every_output():
    for command, actions in ALL:
        assert memory(len(command.split())) >= max(CELLS, len(actions.split()))


def test_interpreter():
    for command, actions in [*SAMPLE[:12], LONGEST]:
        assert scan.decode(scan.run(scan.encode(command))) == actions


def test_rule_machine_is_the_interpreter(machine):
    outputs = machine.run_batch(encoded(SAMPLE[:6]))
    for output, tokens in zip(outputs, encoded(SAMPLE[:6])):
        run = scan.run(tokens)
        assert output == run and output.layers == run.layers


def test_rule_machine(machine):
    for output, (_, actions) in zip(machine.run_batch(encoded(SAMPLE)), SAMPLE):
        assert scan.decode(output) == actions


def test_network_sparse_and_dense(network, machine):
    expected = machine.run_batch(encoded(SAMPLE))
    sparse = network.run_batch(encoded(SAMPLE), evaluator="sparse")
    assert sparse == expected and [o.layers for o in sparse] == [o.layers for o in expected]
    some = [*SAMPLE[:5], LONGEST]
    dense = network.run_batch(encoded(some), evaluator="dense")
    again = network.run_batch(encoded(some), evaluator="sparse")
    assert dense == again and [o.layers for o in dense] == [o.layers for o in again]


def test_sizes(network):
    sizes = network.sizes
    assert sizes.hidden <= 1_000 and sizes.residual <= 400 and sizes.heads <= 12
    assert network.dtype == torch.float32


def test_layers_of_the_longest_command(machine):
    assert machine.run(scan.encode(LONGEST[0])).layers == 112


@pytest.mark.slow
def test_certified_in_float32(network):
    assert kl.certify(network).holds


def test_the_parser_accepts_commands_only(machine):
    """Every sequence of up to three words, and longer ones around a command, straight to the parser."""
    commands = {command for command, _ in ALL}
    texts = [" ".join(words) for n in (1, 2, 3) for words in product(WORDS, repeat=n)]
    chance = random.Random(3)
    for command, _ in chance.sample(ALL, 300):
        words = command.split()
        place = chance.randrange(len(words))
        texts.append(" ".join([*words[:place], chance.choice(WORDS), *words[place:]][:9]))
        texts.append(" ".join([*words[:place], chance.choice(WORDS), *words[place + 1 :]]))
    texts.append(" ".join(["jump"] * 9))
    texts.sort(key=lambda text: len(text.split()))
    inputs = [[1 + WORDS.index(word) for word in text.split()] for text in texts]
    inputs = [tokens + [0] * (memory(len(tokens)) - len(tokens)) for tokens in inputs]
    outputs = [output for i in range(0, len(inputs), 300) for output in machine.run_batch(inputs[i : i + 300])]
    for text, output in zip(texts, outputs):
        assert scan.decode(output) == (interpret(text) if text in commands else "")


@pytest.mark.slow
def test_all_commands_on_the_rule_machine(machine):
    right, layers = 0, []
    ordered = sorted(ALL, key=lambda pair: len(scan.encode(pair[0])))
    for start in range(0, len(ordered), 500):
        chunk = ordered[start : start + 500]
        for output, (_, actions) in zip(machine.run_batch(encoded(chunk)), chunk):
            right += scan.decode(output) == actions
            layers.append(output.layers)
    assert right == 20_910
    assert max(layers) == 112 and sum(layers) / len(layers) < 57


@pytest.mark.slow
def test_all_commands_on_the_network(network):
    outputs = network.run_batch(encoded(ALL), evaluator="sparse")
    assert sum(scan.decode(output) == actions for output, (_, actions) in zip(outputs, ALL)) == 20_910


# --- what a user meets ---


def test_run_prints_the_actions():
    result = CliRunner().invoke(app, ["run", "scan", "jump twice and look left"])
    assert result.exit_code == 0
    assert "I_JUMP I_JUMP I_TURN_LEFT I_LOOK" in result.stdout


def test_trace_shows_table_5():
    columns, rows = scan.describe(scan.trace(scan.encode("jump twice")))
    assert columns[1:5] == ["Action", "Stack", "Parse tree", "Input buffer"]
    told = [row[1:5] for row in rows]
    assert told[0] == ["Initialize", "⟨ ⟩", "⟨ ⟩", "⟨ jump, twice ⟩"]
    assert told[1] == ["Shift", "⟨ jump ⟩", "⟨ ⟩", "⟨ twice ⟩"]
    assert told[2] == ["Reduce by U → jump", "⟨ U ⟩", "⟨ U → jump ⟩", "⟨ twice ⟩"]
    assert told[4] == ["Shift", "⟨ V, twice ⟩", "⟨ U → jump, V → U ⟩", "⟨ ⟩"]
    assert rows[-1][5] == "⟨ I_JUMP, I_JUMP ⟩" and told[-1][0] == "Halt"


def test_trace_tells_of_a_rejected_input():
    _, rows = scan.describe(scan.trace([1 + WORDS.index("turn")] + [0] * 9))
    assert rows[-1][1] == "Reject"


def test_trace_steps_on_the_command_line():
    result = CliRunner().invoke(app, ["trace", "scan", "jump twice", "--steps", "--json"])
    assert result.exit_code == 0 and '"Action": "Shift"' in result.stdout
    with pytest.raises(kl.NotSupported, match="omit --steps"):
        CliRunner().invoke(app, ["trace", "addition", "1+2", "--steps"], catch_exceptions=False)


def test_decode_reads_only_what_was_written():
    assert scan.decode([0, 1 + ACTIONS.index("I_RUN"), 0]) == "I_RUN"


@pytest.mark.slow
def test_reproduce(tmp_path):
    from kleene.papers.alta_scan import SCAN

    result = SCAN.run(scale="tiny", data=None, folder=tmp_path, progress=False)
    assert all(row.get("holds") is not False for row in result.rows)
    assert (tmp_path / "scan.json").exists() and "hidden units" in result.table()


def test_reproduce_dense(tmp_path):
    from kleene.papers.alta_scan import SCAN_DENSE

    result = SCAN_DENSE.run(scale="tiny", folder=tmp_path, progress=False)
    assert result.rows[0]["ours"].startswith("3 of 3") and result.rows[0]["holds"]
