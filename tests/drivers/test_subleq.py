"""The SUBLEQ computer: one set of weights, four evaluators, the reference interpreter beside them."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import kleene as kl
from data_sets import EFORTH, needs, needs_eforth
from kleene.cli import app
from kleene.cli.computer import library_programs, read_program
from kleene.drivers.subleq import TransformerMachine, computer_network, quickest, run_on_transformer
from kleene.networks.transformer.active_rows import find_active_rows
from kleene.networks.transformer.evaluators import start
from kleene.networks.transformer.prepared import PreparedLanes
from kleene.networks.transformer.stops import Watch

EVERY = ("dense", "rows", "lookup", "generated", "lanes-numba")


def image(chance, bits):
    """Random words, most of them small: programs that change themselves and run for a while."""
    size = 1 << bits
    return [chance.randrange(size // 2) if chance.random() < 0.9 else chance.randrange(size) for _ in range(size - 1)]


def in_lockstep(bits, layers, evaluators=EVERY, seed=0):
    """The longest run among the programs tried; every residual of every layer is compared."""
    net, chance, longest = computer_network(bits), random.Random(seed), 0
    done = 0
    while done < layers:
        tokens = [0, *image(chance, bits)]
        runs = [start(net, tokens, evaluator) for evaluator in evaluators]
        for layer in range(min(600, layers - done)):
            found = {run.run(1) for run in runs}
            first, *others = [run.residual() for run in runs]
            assert len(found) == 1 and all(torch.equal(first, other) for other in others), (layer, found)
            assert set(first.unique().tolist()) <= {-1.0, 0.0, 1.0}
            done, longest = done + 1, max(longest, layer)
            if found == {"halted"}:
                break
    return longest


@pytest.mark.parametrize("bits, layers", [(4, 600), (6, 400), (8, 200), (9, 60)])
def test_four_evaluators_in_lockstep(bits, layers):
    assert in_lockstep(bits, layers) > 20


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 6, 8, 9])
def test_four_evaluators_in_lockstep_for_thousands_of_steps(bits):
    assert in_lockstep(bits, 3 * 2_000, seed=1) > 60


@pytest.mark.slow
def test_lockstep_at_16_bits():
    net, chance = computer_network(16), random.Random(3)
    tokens = [0, *image(chance, 16)]
    runs = [start(net, tokens, evaluator) for evaluator in ("rows", "lookup", quickest())]
    for _ in range(30):
        assert len({run.run(1) for run in runs}) == 1
        first, *others = [run.residual() for run in runs]
        assert all(torch.equal(first, other) for other in others)


def test_interpreter_and_network_agree():
    program, chance = kl.library.computer(4), random.Random(5)
    net = kl.compile(program)
    inputs = [[0, *image(chance, 4)] for _ in range(60)]
    assert kl.verify(program, net, inputs=inputs, layers=45).holds
    assert kl.verify(kl.guarded_updates(program), net, inputs=inputs, layers=45).holds


@pytest.mark.parametrize("evaluator", [None, *EVERY])
def test_run_takes_every_evaluator(evaluator):
    program, net = kl.library.computer(6), computer_network(6)
    tokens = program.encode([9, 10, 3, 11, 11, -1, 0, 0, 0, 7, 30, 0])
    wanted = program.run(tokens)
    found = net.run(tokens, evaluator=evaluator)
    assert found == wanted and found.layers == wanted.layers == 6 and program.decode(found)[10] == 23
    if evaluator in (None, "dense"):
        assert net.run(tokens, evaluator=evaluator, layers=3) == program.run(tokens, layers=3)
    with pytest.raises(kl.DidNotHalt):
        net.run(program.encode([3, 3, 0, 0]), evaluator=evaluator, max_layers=30)


def test_sizes():
    """At most 3 layers, 8 heads, 128 hidden units and 256 dimensions at 16 bits, and linear in the bits."""
    sizes = {bits: kl.compile(kl.library.computer(bits)).sizes for bits in (8, 12)}
    sizes[16] = computer_network(16).sizes
    assert len(kl.library.computer(16).spec.cycle) == 3
    assert (sizes[16].heads, sizes[16].hidden, sizes[16].residual) == (8, 121, 207)
    for name in ("hidden", "residual", "heads"):
        small, middle, large = (getattr(sizes[bits], name) for bits in (8, 12, 16))
        assert large - middle == middle - small


def test_certificate():
    net = computer_network(16)
    assert kl.certify(net).holds
    refused = kl.certify(net, dtype="bfloat16")
    assert not refused.holds and "bfloat16 cannot hold" in refused.reasons[0]


def test_decompile_save_and_load(tmp_path):
    program = kl.library.computer(8)
    net = kl.compile(program)
    assert kl.decompile(net) == kl.guarded_updates(program)
    net.save(tmp_path / "computer")
    again = kl.load(tmp_path / "computer")
    assert kl.certify(again).holds and kl.decompile(again) == kl.guarded_updates(program)


def test_only_the_processor_works():
    net = computer_network(8)
    x = net.embed(torch.tensor([[0] * 256]))[0]
    known = find_active_rows(net, x)
    assert known.working == (0,) and known.resting_done
    with pytest.raises(kl.NotSupported, match="use 'dense'"):
        start(kl.compile(kl.library.parity_relative), [2, 1, 0], "lookup")


@pytest.mark.parametrize("evaluator", EVERY)
@pytest.mark.parametrize(
    "image, steps, counter", [([9, 9, 0], 0, 3), ([0, 0, 9], 1, 9), ([3, 4, 3, 6, 8, 2, 3, 1], 9, 8)]
)
def test_an_address_outside_memory_is_an_error(image, steps, counter, evaluator):
    alta, last = kl.subleq.DIALECTS["alta"].words(-16, 15), len(image) - 1
    said = f"after {steps} steps an address is outside memory 0 … {last}; the program counter was {counter}$"
    with pytest.raises(kl.RangeError, match=said):
        run_on_transformer(image, dialect=alta, bits=5, evaluator=evaluator, max_steps=40)
    with pytest.raises(kl.RangeError, match=f"after {steps} steps"):
        kl.subleq.run(image, dialect=alta, max_steps=40)


def test_a_word_that_is_not_of_bits_is_an_error():
    run = start(computer_network(4), [0, 4, 4, 0, 0, 0, *[0] * 10], "lookup")
    mem = computer_network(4).layout["mem"].start
    run.put(5, mem, [0, 0, 0, 3])
    with pytest.raises(kl.KleeneError, match=r"zeros and ones|no row has"):
        run.run(300)


def test_watch():
    echo = [word % 64 for word in (-1, 9, 3, 9, -1, 6, 10, 10, 0, 0, 0)]
    run = start(computer_network(6), [0, *echo, *[0] * 52], "lookup")
    talks = computer_network(6).layout["talks"].start + 1
    assert run.run(100, Watch(0, 0, talks)) == "watched" and run.layers == 1
    assert run.run(100, Watch(0, 0, talks)) == "watched" and run.layers == 4


# --- programs ---------------------------------------------------------------------------------------------

EXPECTED = {
    "hello": "Hello, world!\n",
    "primes": "2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 53 59 61 67 71 73 79 83 89 97 \n",
    "factorial": "1\n1\n2\n6\n24\n120\n720\n5040\n",
    "bubble_sort": "0 1 2 3 4 5 8 17 30 42 64 77 100 256 999 12345 \n",
    "interpreter": "Hi!\n",
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_library_programs(name):
    program = read_program(name, "eforth")
    wanted = kl.subleq.run(program, dialect="eforth")
    found = run_on_transformer(program, evaluator="lookup")
    assert wanted.halted and wanted.output == EXPECTED[name]
    assert (found.output, found.steps, found.counter) == (wanted.output, wanted.steps, wanted.counter)
    assert found.memory == wanted.memory[:-1]  # the last word is the port


def test_life():
    assert set(library_programs()) == {*EXPECTED, "life"}
    found = run_on_transformer(read_program("life", "eforth"), evaluator="lookup")
    drawn = [frame.split() for frame in found.output.split("\n\n")]
    frames = [np.array([[cell == "#" for cell in row] for row in rows]) for rows in drawn]
    board = frames[0]
    assert found.halted and board.shape == (8, 16) and board.sum() == 8
    for frame in frames[1:12]:
        padded = np.pad(board, 1).astype(int)
        near = sum(np.roll(padded, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - padded
        board = ((near == 3) | ((padded == 1) & (near == 2)))[1:-1, 1:-1]
        assert (frame == board).all()


def test_dialects():
    countdown = "6 7 -1  8 8 0  1 5 0"
    alta = kl.subleq.DIALECTS["alta"].words(-16, 15)
    wanted = kl.subleq.run(countdown, dialect=alta, max_steps=100)
    found = run_on_transformer(countdown, dialect=alta, bits=5, evaluator="lookup", max_steps=100)
    assert (found.why, found.steps, found.memory) == (wanted.why, wanted.steps, wanted.memory)

    text = "loop: subleq one n done\n JMP loop\ndone: HALT\none: .data 1\nn: .data 5"
    paper = kl.subleq.assemble(text, "paper")
    wanted = kl.subleq.run(paper, dialect="paper")
    found = run_on_transformer(paper, dialect="paper", bits=8, evaluator="lookup")
    assert (found.why, found.steps, found.memory) == (wanted.why, wanted.steps, wanted.memory)
    past = kl.subleq.assemble("subleq one n\none: .data 1\nn: .data 5", "paper")
    with pytest.raises(kl.RangeError, match="left its instructions"):
        run_on_transformer(past, dialect="paper", bits=8, evaluator="lookup")

    echo = "-1 12 3  12 -1 6  13 13 -1 0 0 0 0 0"
    for dialect in ("esolang", "eforth"):
        for adds in (False, True):
            wanted = kl.subleq.run(echo, dialect=dialect, input="x", input_adds=adds)
            found = run_on_transformer(echo, dialect=dialect, input="x", input_adds=adds, bits=9, evaluator="lookup")
            assert (found.output, found.steps) == (wanted.output, wanted.steps) and wanted.output == "x"


def test_input_adds():
    twice = "-1 12 3  -1 12 6  12 -1 9  13 13 -1 0 0"
    for adds, letter in ((False, "!"), (True, "a")):
        wanted = kl.subleq.run(twice, dialect="eforth", input="@!", input_adds=adds)
        found = run_on_transformer(twice, input="@!", input_adds=adds, bits=8, evaluator="lookup")
        assert found.output == wanted.output == letter


@pytest.mark.parametrize("evaluator", ["lookup", "generated", "rows"])
def test_a_step_limit_may_be_any_number(evaluator):
    found = run_on_transformer([3, 3, -1, 5], dialect="alta", bits=5, evaluator=evaluator, max_steps=2**70)
    assert (found.why, found.steps) == ("halted", 1)


def test_waiting_for_input():
    machine = TransformerMachine([-1, 9, 3, 9, -1, 6, 10, 10, 0, 0, 0], bits=8, evaluator="lookup")
    assert machine.run(100).why == "input"
    machine.feed("o")
    assert machine.run(100).output == "o" and machine.take_output() == b"o"
    machine.end_input()
    assert machine.run(2).why == "steps"


def test_refused():
    with pytest.raises(kl.InputError, match="outside -32 … 31"):
        TransformerMachine([0, 0, 100], bits=6)
    with pytest.raises(kl.InputError, match="this computer has 15"):
        TransformerMachine([0] * 20, bits=4)
    with pytest.raises(kl.InputError, match="a transformer has dense, rows, lookup, generated"):
        TransformerMachine([0, 0, 0], bits=4, evaluator="numba")
    with pytest.raises(kl.InputError, match="every pair of 65,536 words, and takes at most 8,192; use generated"):
        TransformerMachine([0, 0, 0], evaluator="dense")
    with pytest.raises(kl.ProgramError, match="3 … 16 bits"):
        kl.library.computer(40)
    with pytest.raises(kl.InputError, match="not a list of whole numbers"):
        kl.library.computer(4).encode("a b")


@needs_eforth
def test_eforth_answers():
    cells = EFORTH.read_text()
    wanted = kl.subleq.run(cells, dialect="eforth", input="2 2 + . cr bye\n")
    found = run_on_transformer(cells, input="2 2 + . cr bye\n")
    assert found.output == wanted.output and "4" in found.output
    assert found.steps == wanted.steps == 16_802_616 and found.memory == wanted.memory[:-1]


@needs_eforth
@pytest.mark.slow
def test_a_hundred_million_instructions():
    cells, typed = EFORTH.read_text(), ": t 1400 for 1000 for next next ; t bye\n"
    wanted = kl.subleq.run(cells, dialect="eforth", input=typed, max_steps=10**9)
    found = run_on_transformer(cells, input=typed, max_steps=10**9)
    assert wanted.halted and wanted.steps > 100_000_000
    assert (found.steps, found.output, found.memory) == (wanted.steps, wanted.output, wanted.memory[:-1])


@needs("subleq/subleq.dec", "subleq/subleq.fth")
@pytest.mark.slow
def test_eforth_compiles_itself():
    """About ten minutes: its own source makes it write its own image."""
    cells, typed = EFORTH.read_text(), EFORTH.with_suffix(".fth").read_bytes()
    wanted = kl.subleq.run(cells, dialect="eforth", input=typed, max_steps=10**12)
    found = run_on_transformer(cells, input=typed, max_steps=10**12)
    assert wanted.halted and found.output.split() == cells.split()
    assert (found.steps, found.output, found.memory) == (wanted.steps, wanted.output, wanted.memory[:-1])


# --- the command ------------------------------------------------------------------------------------------


def test_command():
    result = CliRunner().invoke(app, ["subleq", "hello", "--evaluator", "lookup", "--compare"])
    assert result.exit_code == 0 and result.stdout.startswith("Hello, world!")
    said = CliRunner().invoke(app, ["subleq", "hello", "--evaluator", "lookup", "--json"])
    content = json.loads(said.stdout)
    assert content["output"] == "Hello, world!\n" and content["layers"] == 3 * content["instructions"]
    same = CliRunner().invoke(app, ["subleq", "hello", "--on", "reference", "--json"])
    assert json.loads(same.stdout)["instructions"] == content["instructions"]


def test_command_reads_what_is_typed(tmp_path):
    (tmp_path / "echo.dec").write_text("-1 9 3 9 -1 6 10 10 0 0 0")
    options = ["subleq", str(tmp_path / "echo.dec"), "--evaluator", "lookup", "--bits", "9", "--steps", "20"]
    result = CliRunner().invoke(app, options, input="ab\nc\n")
    assert result.exit_code == 1 and result.stdout.startswith("ab\nc\n")  # it never halts


@pytest.mark.parametrize(
    "content, message",
    [("1 2 x", "'x' is not a whole number"), ("0 0 70000", "outside"), ("0 " * 70_000, "more than the 65,536")],
)
def test_bad_images(tmp_path, content, message):
    (tmp_path / "bad.dec").write_text(content)
    with pytest.raises(kl.InputError, match=message):
        CliRunner().invoke(app, ["subleq", str(tmp_path / "bad.dec")], catch_exceptions=False)


def test_runaway_programs_are_stopped(tmp_path):
    (tmp_path / "loop.dec").write_text("3 3 0 0")
    result = CliRunner().invoke(app, ["subleq", str(tmp_path / "loop.dec"), "--evaluator", "lookup", "--steps", "500"])
    assert result.exit_code == 1 and "has not halted after 500 steps; it was at address 0" in result.stderr


@pytest.mark.parametrize(
    ("first", "second"), [(-100, 60), (100, -60), (-128, 127), (0, -128), (127, -127), (-128, -128)]
)
@pytest.mark.parametrize("dialect", ["esolang", "eforth"])
def test_a_run_that_leaves_its_words_is_an_error(dialect, first, second):
    """memory[b] − memory[a] in 8 bits: an error where the dialect has words of any size, and wraps round in eforth."""
    image = [6, 7, -1, 0, 0, 0, second, first]
    difference = first - second
    if dialect == "eforth" or -128 <= difference <= 127:
        result = run_on_transformer(image, dialect=dialect, bits=8, evaluator="lookup", max_steps=10)
        assert result.memory[7] == (difference + 128) % 256 - 128
        return
    with pytest.raises(
        kl.RangeError, match=f"address 7 would be {first} − {second} = {difference}, outside -128 … 127"
    ):
        run_on_transformer(image, dialect=dialect, bits=8, evaluator="lookup", max_steps=10)


@pytest.mark.parametrize("dialect", ["esolang", "paper"])
def test_words_that_16_bits_would_misread_are_refused(dialect):
    """40,000 is 40,000 where words have any size, not −25,536."""
    image = [6, 7, -1, 0, 0, 0, 40_000, 5]
    if dialect == "paper":
        image = kl.subleq.assemble("subleq x y stop\n stop: HALT\n x: .data 40000\n y: .data 5", "paper")
    with pytest.raises(kl.InputError, match="40000 at address 6 is outside" if dialect == "esolang" else "40000"):
        run_on_transformer(image, dialect=dialect)


def test_an_address_below_the_port_is_an_error():
    for words in (None, 20):
        with pytest.raises(kl.RangeError, match="outside memory"):
            run_on_transformer([-2, 3, -1, 0], dialect="esolang", evaluator="lookup", words=words)


@pytest.mark.parametrize("seed", range(4))
def test_words_wider_than_addresses(seed):
    """Random programs in 6 bits of address and 12 bits of word, on four evaluators: equal to the definition, up to the
    instruction whose result leaves the words."""
    chance, count = random.Random(seed), 12
    data = [chance.choice([0, 1, -1, 2047, -2048, chance.randrange(-2048, 2048)]) for _ in range(20)]
    code = [x for k in range(count) for x in (36 + chance.randrange(20), 36 + chance.randrange(20), 3 * k + 3)]
    image = [*code[:-1], -1, *data]
    wanted = kl.subleq.Machine(image, "esolang", memory=63)
    machines = [
        TransformerMachine(image, "esolang", bits=6, words=12, evaluator=name)
        for name in ("dense", "rows", "lookup", quickest())
    ]
    while True:
        expected = wanted.run(1)
        leaves = not all(-2048 <= word < 2048 for word in expected.memory)
        for machine in machines:
            if leaves:
                with pytest.raises(kl.RangeError, match="outside -2048 … 2047"):
                    machine.run(1)
            else:
                found = machine.run(1)
                assert (found.why, found.steps, found.counter) == (expected.why, expected.steps, expected.counter)
                assert found.memory == expected.memory
        if leaves or expected.halted:
            break


def test_words_of_32_bits():
    """Powers of two up to 2^30, which 16 bits do not hold; certified, and refused where it does not fit."""
    text = "loop: ADD power power\n DEC left\n BGT left zero loop\n HALT\n"
    image = kl.subleq.assemble(text + "power: .data 1\n zero: .data 0\n left: .data 30", "esolang")
    result = run_on_transformer(image, dialect="esolang", bits=8, words=32)
    assert result == kl.subleq.run(image, dialect="esolang", memory=255)
    assert result.halted and result.memory[image.address("power")] == 2**30
    with pytest.raises(kl.RangeError, match="words of this computer; use more bits, words=32"):
        run_on_transformer(image, dialect="esolang", bits=8, words=24, evaluator="lookup")
    with pytest.raises(kl.InputError, match="dialect eforth has words of its own size"):
        run_on_transformer("3 3 -1", dialect="eforth", words=32)
    with pytest.raises(kl.InputError, match="use lanes, lanes-numba or rows"):
        run_on_transformer(image, dialect="esolang", bits=8, words=32, evaluator="lookup")
    assert kl.certify(computer_network(8, checked=True, words=32)).holds


@pytest.mark.parametrize("seed", range(3))
def test_two_layers_are_three_layers(seed):
    """Programs that change the instruction that comes next: the processor forwards what it has just written."""
    chance = random.Random(seed)
    words = [chance.randrange(24) if k % 3 != 2 else (k + 1) % 24 for k in range(24)]  # every word is code
    words += [chance.randrange(-30, 30) for _ in range(39)]
    machines = [TransformerMachine(words, bits=6, evaluator="lookup", layers=layers) for layers in (3, 2)]
    for _ in range(60):
        first, second = (machine.run(1) for machine in machines)
        assert first == second
        if first.halted:
            break


def test_two_layers_talk_to_the_port():
    image = kl.subleq.assemble("loop: IN x\n OUT x\n JMP loop\n x: .data 0", "eforth")
    for evaluator in ("lookup", quickest()):
        machine = TransformerMachine(image, bits=8, evaluator=evaluator, layers=2)
        machine.feed("abc")
        assert machine.run(100).output == "abc"


def test_two_layers_are_certified():
    net = computer_network(6, layers=2)
    assert kl.certify(net).holds and len(net.config.cycle) == 2 and net.sizes.heads == 9
    with pytest.raises(kl.ProgramError, match="layers=4; 3, or 2"):
        kl.library.computer(6, layers=4)


def test_a_run_from_the_cache_does_without_the_network():
    """The second run of lanes is prepared, and equal; also where a table says what positions add."""
    image = read_program("hello", "eforth")
    first, again = TransformerMachine(image, bits=9), TransformerMachine(image, bits=9)
    assert isinstance(again.running, PreparedLanes) and again.running.start_rows.places is not None
    assert first.run(1000) == again.run(1000) and again.running.whole is None
    assert again.layers == first.layers > 0
