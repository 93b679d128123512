"""SUBLEQ: dialects, the two interpreters, the assembler and back, files, and what a user meets."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agreeing
import kleene as kl
from data_sets import EFORTH, needs_eforth
from kleene.errors import DidNotHalt, FileError, InputError, RangeError
from kleene.machines.subleq import DIALECTS, Dialect, Image, Machine

subleq = kl.subleq

word = st.integers(-3, 14)
images = st.lists(word, min_size=3, max_size=15)
paper_images = st.builds(
    lambda code, words: Image(tuple(words), tuple(code)),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6),
    st.lists(st.integers(-9, 9), min_size=1, max_size=6),
)


def outcome(image, dialect, evaluator, **options):
    try:
        found = subleq.run(image, dialect=dialect, evaluator=evaluator, max_steps=200, **options)
    except RangeError as error:
        return str(error)
    return found


@pytest.mark.parametrize("dialect", ["alta", "esolang", "eforth"])
@given(image=images, adds=st.booleans())
@settings(max_examples=150, deadline=None)
def test_both_interpreters_do_the_same(dialect, image, adds):
    options = {"memory": 65536 if dialect == "eforth" else None, "input": "ab\xff", "input_adds": adds}
    assert outcome(image, dialect, "numba", **options) == outcome(image, dialect, "plain", **options)


@given(image=images)
@settings(max_examples=60, deadline=None)
def test_sixteen_bits_in_a_smaller_memory(image):
    assert outcome(image, "eforth", "numba", memory=20) == outcome(image, "eforth", "plain", memory=20)


@given(image=paper_images)
@settings(max_examples=150, deadline=None)
def test_both_interpreters_do_the_same_with_code_apart(image):
    assert outcome(image, "paper", "numba") == outcome(image, "paper", "plain")


def test_alta_is_what_the_library_program_and_an_independent_simulator_do():
    chance, compared = random.Random(3), 0
    while compared < 40:
        memory = [chance.randint(-6, 7) for _ in range(8)]
        try:
            wanted, _ = agreeing.subleq(memory, -6, 7, limit=30)
        except (ValueError, IndexError, AssertionError):
            continue
        found = subleq.run(memory, dialect=DIALECTS["alta"].words(-6, 7), max_steps=40)
        program = kl.library.subleq(-6, 7, 8)
        assert program.decode(program.run(program.encode(memory))) == wanted
        assert (found.memory, found.halted) == (wanted, True)
        compared += 1


@needs_eforth
def test_eforth_answers():
    image = subleq.load(EFORTH, "eforth")
    found = subleq.run(image, dialect="eforth", input="2 2 + . cr bye\n")
    assert (found.output, found.why, found.steps) == (" 4\r\n", "halted", 16_802_616)


@needs_eforth
def test_eforth_in_slices_with_input_as_it_comes():
    machine = Machine(EFORTH.read_text(), "eforth")
    assert machine.run(10**9).why == "input"
    for line, answer in (("3 4 * .\n", "12"), (": twice dup + ; 21 twice .\n", "42")):
        machine.take_output()
        machine.feed(line)
        while (found := machine.run(100_000)).why == "steps":
            pass
        assert found.why == "input" and answer in machine.take_output().decode()
    machine.feed("bye\n")
    assert machine.run(10**8).halted


@needs_eforth
def test_eforth_assembles_again_from_its_listing():
    image = subleq.load(EFORTH, "eforth")
    listing = subleq.disassemble(image, "eforth")
    assert subleq.assemble(listing, "eforth").words == image.words


def test_words_beyond_64_bits():
    # doubles x a hundred times: subleq x Z; subleq Z x; subleq Z Z, counted down by n
    image = subleq.assemble("loop: ADD x x\n DEC n\n BGT n =0 loop\n HALT\n x: .data 1\n n: .data 100")
    found = subleq.run(image)
    assert found.memory[image.address("x")] == 2**100
    assert found == subleq.run(image, evaluator="plain")


def test_input_replaces_or_adds():
    image = "-1 9 3 9 -1 6 10 10 -1 5 0"
    assert subleq.run(image, input="A").output == "A"
    assert subleq.run(image, input="A", input_adds=True).output == "F"
    assert subleq.run(image, input="").memory[9] == -1  # the end of the input


MACROS = {
    "CLR x": lambda x, y: (0, y),
    "NEG x": lambda x, y: (-x, y),
    "INC x": lambda x, y: (x + 1, y),
    "DEC x": lambda x, y: (x - 1, y),
    "SUB y x": lambda x, y: (x - y, y),
    "ADD y x": lambda x, y: (x + y, y),
    "ADD x x": lambda x, y: (2 * x, y),
    "MOV y x": lambda x, y: (y, y),
    "MOV x x": lambda x, y: (x, y),
}
BRANCHES = {
    "BEQ": int.__eq__,
    "BNE": int.__ne__,
    "BLT": int.__lt__,
    "BLE": int.__le__,
    "BGT": int.__gt__,
    "BGE": int.__ge__,
}
BRANCHED = "HALT\n yes: INC went\n HALT\n x: .data 0\n y: .data 0\n went: .data 0"


@pytest.mark.parametrize("dialect", ["paper", "esolang", "eforth"])
@pytest.mark.parametrize("macro", MACROS)
def test_macros(macro, dialect):
    image = subleq.assemble(f"{macro}\n{macro}\n HALT\n x: .data 0\n y: .data 0", dialect)
    for x in range(-3, 4):
        for y in range(-3, 4):
            memory = subleq.run(image.with_data(x=x, y=y), dialect=dialect).checked().memory
            wanted = MACROS[macro](*MACROS[macro](x, y))
            assert (memory[image.address("x")], memory[image.address("y")]) == wanted, (x, y)


@pytest.mark.parametrize("dialect", ["paper", "esolang", "eforth"])
@pytest.mark.parametrize("branch", BRANCHES)
def test_branches(branch, dialect):
    image = subleq.assemble(f"{branch} x y yes\n{BRANCHED}", dialect)
    values = [-3, -1, 0, 1, 2, 5]
    for x in values:
        for y in values:
            memory = subleq.run(image.with_data(x=x, y=y), dialect=dialect).checked().memory
            assert memory[image.address("went")] == BRANCHES[branch](x, y), (x, y)


@pytest.mark.parametrize("branch", BRANCHES)
def test_macros_after_a_comparison(branch):
    image = subleq.assemble(f"{branch} x y on\n on: NEG x\n HALT\n x: .data 1\n y: .data 7")
    assert subleq.run(image).memory[image.address("x")] == -1


@pytest.mark.parametrize("dialect", ["paper", "esolang", "eforth"])
def test_a_word_of_the_macros_has_their_value(dialect):
    added = "ADD x y\n HALT\n {}\n x: .data 1\n y: .data 2"
    for own in ("Z: .data 0", "Z: .zero 1", "T: .data 4"):  # ADD uses no T
        image = subleq.assemble(added.format(own), dialect)
        assert subleq.run(image, dialect=dialect).memory[image.address("y")] == 3
    for own in ("Z: .data 5", "Z: subleq x x", "Z: .data 0-1"):
        with pytest.raises(InputError, match=r"line 1: 'Z' is a word of the macros'; define it as '\.data 0'"):
            subleq.assemble(added.format(own), dialect)
    for text, word in (("BLE x x STOP\nT: .data 4\nx: .data 1", "T"), ("INC x\nHALT\nx: .data 1\nMINUS:", "MINUS")):
        with pytest.raises(InputError, match=f"'{word}' is a word of the macros'"):
            subleq.assemble(text, dialect)
    subleq.assemble("subleq Z Z STOP\n Z: .data 5", dialect)  # no macro here


@pytest.mark.parametrize("inside", ["subleq 0 0", ""])
def test_macros_that_make_too_much_are_refused_at_once(inside):
    doubled = "".join(f".macro M{k + 1}\nM{k}\nM{k}\n.end\n" for k in range(40))
    started = time.perf_counter()
    with pytest.raises(InputError, match="'M40' makes more than 1,000,000 statements"):
        subleq.assemble(f".macro M0\n{inside}\n.end\n{doubled}M40")
    assert time.perf_counter() - started < 5


def test_equality_where_words_wrap_round():
    image = subleq.assemble(f"BEQ x y yes\n{BRANCHED}", "eforth")
    for x, y in [(-32768, 0), (0, -32768), (32767, -1), (-32768, -32768), (-32768, 32767)]:
        memory = subleq.run(image.with_data(x=x, y=y), dialect="eforth").memory
        assert memory[image.address("went")] == (x == y)


def test_load_and_store():
    image = subleq.assemble("LOAD p x\n INC p\n STORE x p\n HALT\n p: .data list+1\n x: .data 9\n list: .data 4 7 0 2")
    found = subleq.run(image)
    at = image.address("list")
    assert found.memory[at : at + 4] == [4, 7, 7, 2] and found.memory[image.address("x")] == 7


def test_macros_of_ones_own_have_their_own_labels():
    text = """
        .equ TIMES 3
        .macro AGAIN times what     ; a loop
            CLR n
        top: ADD what total
            INC n
            BLT n times top
            JMP past
        n:  .data 0
        past:
        .end
        AGAIN =TIMES =10
        AGAIN =2 =1
        HALT
    total: .data 0
    """
    image = subleq.assemble(text)
    assert subleq.run(image).checked().memory[image.address("total")] == 32


@pytest.mark.parametrize("dialect", ["alta", "esolang", "eforth"])
@given(image=images)
@settings(max_examples=200, deadline=None)
def test_disassembling_gives_the_same_words(dialect, image):
    assert list(subleq.assemble(subleq.disassemble(image, dialect), dialect).words) == image


@given(image=paper_images)
@settings(max_examples=100, deadline=None)
def test_disassembling_gives_the_same_words_with_code_apart(image):
    assert subleq.assemble(subleq.disassemble(image, "paper"), "paper") == image


def test_a_listing_has_the_macros_again():
    text = "loop: LOAD p x\n BEQ x =0 STOP\n OUT x\n INC p\n MOV x y\n JMP loop\n"
    text += 'p: .data s\n x: .data 0\n y: .data 0\n s: .data "hi" 0'
    image = subleq.assemble(text)
    listing = subleq.disassemble(image)
    found = [line.split(":")[-1].split()[0] for line in listing.splitlines()]
    assert found[:6] == ["LOAD", "BEQ", "OUT", "INC", "MOV", "JMP"]
    assert subleq.run(subleq.assemble(listing)).output == subleq.run(image).output == "hi"


@pytest.mark.parametrize(
    "text, line, token",
    [
        ("JMP nowhere", 1, "nowhere"),
        ("HALT\n ADD x\nx: .data 1", 2, "ADD"),
        ("HALT\n\n FROB 1 2", 3, "FROB"),
        ("x: .data 1\nx: .data 2", 2, "x"),
        ("subleq 1 2 3 4", 1, "subleq"),
        (".data 1+", 1, "1+"),
        ('.data "open', 1, '"open'),
        (".macro A\nHALT", 1, "A"),
        (".macro A\nA\n.end\nHALT\nA", 5, "A"),
        (".macro A\nA\nA\n.end\nA", 5, "A"),
        (".zero 99999999999", 1, "99999999999"),
        ("9x: HALT", 1, "9x"),
        (".end", 1, ".end"),
        ("HALT\n.data 5 six", 2, "six"),
    ],
)
def test_assembly_errors_name_the_line_and_the_token(text, line, token):
    with pytest.raises(InputError) as caught:
        subleq.assemble(text, name="p.subleq")
    assert str(caught.value).startswith(f"p.subleq, line {line}: '{token}'")
    assert "\n" not in str(caught.value)


def test_errors_that_belong_to_a_dialect():
    with pytest.raises(InputError, match="line 2: 'OUT' needs input and output; dialect paper has none"):
        subleq.assemble("HALT\nOUT x\nx: .data 1", "paper")
    with pytest.raises(InputError, match="'LOAD' changes instructions; dialect paper cannot"):
        subleq.assemble("LOAD x y", "paper")
    with pytest.raises(InputError, match="line 1: '70000' is 70000, outside the words -32768 … 32767"):
        subleq.assemble(".data 70000", "eforth")
    with pytest.raises(InputError, match="unknown dialect 'x86'; choose one of paper, alta, esolang, eforth"):
        subleq.run([0, 0, 0], dialect="x86")


def test_addresses_outside_memory():
    with pytest.raises(RangeError, match=r"address 99 is outside memory 0 … 9, at address 0: subleq 99 1 3"):
        subleq.run([99, 1, 3], memory=10)
    with pytest.raises(RangeError, match=r"left its memory, at address 8"):
        subleq.run([9, 9, 8, 0, 0, 0, 0, 0, 0, 0], memory=10)
    with pytest.raises(RangeError, match=r"left its memory, at instruction 2"):
        subleq.run(Image((1, 1), ((0, 1, 2),)), dialect="paper")


def test_a_step_limit_says_where_it_was():
    image = subleq.assemble("INC x\nagain: JMP again\nx: .data 0")
    found = subleq.run(image, max_steps=1000)
    assert (found.why, found.steps, found.counter) == ("steps", 1000, 3)
    assert subleq.run([3, 3, -1, 5], max_steps=2**70).steps == 1
    with pytest.raises(DidNotHalt, match=r"after 1,000 steps; it was at address 3 \(again\): subleq 8 8 3"):
        found.checked()


def test_files(tmp_path):
    for dialect in ("paper", "esolang"):
        image = subleq.assemble("MOV x y\n HALT\n x: .data 5\n y: .data 0", dialect)
        for name in ("p.dec", "p.subleq"):
            subleq.save(image, tmp_path / name, dialect)
            assert subleq.load(tmp_path / name, dialect) == image
    (tmp_path / "bad.dec").write_text("1 2\n3 four")
    with pytest.raises(InputError, match=r"bad.dec, line 2: 'four' is not a whole number"):
        subleq.load(tmp_path / "bad.dec")
    (tmp_path / "big.dec").write_text("1 2\n40000 70000")
    with pytest.raises(InputError, match=r"big.dec, line 2: 70000 is outside"):
        subleq.load(tmp_path / "big.dec", "eforth")
    with pytest.raises(InputError, match="no words"):
        subleq.parse_cells("  ")
    with pytest.raises(FileError, match="unknown suffix"):
        subleq.load(tmp_path / "p.exe")
    with pytest.raises(InputError, match="do not fit"):
        subleq.run([0] * 20, memory=10)
    with pytest.raises(InputError, match="not a whole number"):
        subleq.run([0, 1.5, 2])


def test_raw_bytes_are_recognised(tmp_path):
    words = (9, 10, 3, 11, 11, -1, 0, 0, 0, 7, 30, -32768)
    raw = b"".join(word.to_bytes(2, "little", signed=True) for word in words)
    for name in ("image", "image.bin", "image.img"):
        (tmp_path / name).write_bytes(raw)
        assert subleq.load(tmp_path / name, "eforth").words == words
    (tmp_path / "cells").write_text(" ".join(map(str, words)))
    assert subleq.load(tmp_path / "cells").words == words
    (tmp_path / "odd.bin").write_bytes(raw + b"\x80")
    with pytest.raises(InputError, match="25 raw bytes; an image has words of two bytes"):
        subleq.load(tmp_path / "odd.bin")
    with pytest.raises(InputError, match="has separate instructions"):
        subleq.load(tmp_path / "image", "paper")


def test_kernels_of_subleq_are_the_definition_at_the_edges():
    def run(code, dialect, given=b"", adds=False):
        found = []
        for evaluator in ("numba", "plain"):
            machine = Machine(code, dialect, evaluator=evaluator, input_adds=adds)
            machine.feed(given)
            try:
                found.append((machine.run(1).why, machine.memory[:4]))
            except kl.errors.KleeneError as error:
                found.append(str(error))
        assert found[0] == found[1]
        return found[0]

    most = 2**63 - 1
    assert run([-1, 3, -1, most], DIALECTS["esolang"], b"a", adds=True)[1][3] == most + ord("a")
    assert run([-1, 3, -1, 0], Dialect("narrow", low=-16, high=16, io=True), b"\xc8")[1][3] == 2
