"""Text in, text out: an alphabet works wherever tokens do, in programs, networks and files."""

from __future__ import annotations

import pickle

import pytest

import kleene as kl
from kleene.common.text import Text
from kleene.errors import InputError, ProgramError
from kleene.library.scan import ROOM, memory
from sample_programs import Parity as ParityOfTokens


class Parity(ParityOfTokens):
    tokens = "01^"


def test_text_works_wherever_tokens_do(tmp_path):
    net = kl.compile(Parity)
    net.save(tmp_path / "parity")
    loaded = kl.load(tmp_path / "parity")
    for thing in (Parity, net, loaded):
        assert thing.run("^101") == thing.run([2, 1, 0, 1]) == thing.run(["^", "1", "0", "1"]) == [0, 1, 1, 0]
        assert thing.run("^101").text == "0110"
    assert Parity.trace("^101").tokens == (2, 1, 0, 1)
    assert kl.explain(loaded, "^101").tokens == (2, 1, 0, 1)
    assert loaded.run_batch(["^1", [2, 1]]) == [[0, 1], [0, 1]]
    assert kl.verify(Parity, net, inputs=["^101", "^1"]).raised == 0


@pytest.mark.parametrize(
    ("program", "given", "answer"),
    [
        (kl.library.addition, "34+58", "92"),
        (kl.library.addition, "5+99", "104"),
        (kl.library.addition_scratchpad(4), "37+8", "45"),
        (kl.library.parity_relative, "1011", "1"),
        (kl.library.parity_absolute(5), "1011", "1"),
        (kl.library.parity_sum(5), "1011", "1"),
        (kl.library.parity_scratchpad(5), "1011", "1101"),
        (kl.library.dyck1(6), "(()", "PPP"),
        (kl.library.dyck2(6), "([)]", "PPPT"),
        (kl.library.subleq(-4, 4, 4), "3 3 -1 2", "3 3 -1 0"),
        (kl.library.subleq_words(4, 4), "3 3 -1 2", "3 3 -1 0"),
        (kl.library.scan, "jump twice", "I_JUMP I_JUMP"),
    ],
    ids=lambda thing: getattr(thing, "__name__", ""),
)
def test_the_alphabet_says_what_encode_and_decode_say(program, given, answer):
    """The data that a saved network and a page carry means what the program's own Python means."""
    text = program.spec.text
    assert text.encode(given, "x") == list(program.encode(given))
    assert Text.from_json(text.to_json()) == text
    outputs = program.run(given)
    own = program.decode(outputs)
    assert outputs.text == answer == text.decode(outputs) == (own if isinstance(own, str) else " ".join(map(str, own)))


def test_room_of_commands():
    assert list(ROOM) == [memory(words) for words in range(len(ROOM))]


def test_an_output_can_be_sent_to_another_process():
    outputs = pickle.loads(pickle.dumps(Parity.run("^101")))
    assert outputs == [0, 1, 1, 0] and outputs.layers == 3


def test_a_network_can_be_copied_without_its_program():
    net = pickle.loads(pickle.dumps(kl.compile(kl.library.addition_scratchpad(3))))
    assert net.run("37+8").text == "45"


def test_problems_are_named(tmp_path):
    with pytest.raises(InputError, match="Parity: 'x' in '\\^1x' is not in the alphabet 01\\^"):
        Parity.run("^1x")
    with pytest.raises(InputError, match="Parity: 'x' at position 1 is not in the alphabet"):
        Parity.run(["^", "x"])
    with pytest.raises(InputError, match="not a sum of two whole numbers"):
        kl.library.addition.run("34")
    kl.compile(kl.library.addition).save(tmp_path / "add")
    with pytest.raises(InputError, match=r"addition: '34' is not of the form a\+b, such as 34\+58"):
        kl.load(tmp_path / "add").run("34")
    with pytest.raises(InputError, match="reverse: has no alphabet for the text '12'; give tokens as a list"):
        kl.library.reverse(4, 4).run("12")
    for tokens, said in {
        "": "it has 0 symbols",
        "00": "the symbol '0' appears twice",
        ("a b",): "is not a symbol",
    }.items():
        with pytest.raises(ProgramError, match=said):
            type(kl.Program)("Wrong", (kl.Program,), {**vars(ParityOfTokens), "tokens": tokens})
    with pytest.raises(ProgramError, match="start='x' is not in the alphabet 01"):
        type(kl.Program)("Wrong", (kl.Program,), {**vars(ParityOfTokens), "tokens": "01^", "text": Text(start="x")})


MALFORMED = [
    *(3, {"alphabet": [3]}, {"alphabet": ["0", "0"]}, {"names": [[]]}, {"unknown": 1}, {"reverse": 1}),
    *({"room": [None]}, {"part": [0]}, {"part": ["x", None]}, {"align": "+"}),
]


@pytest.mark.parametrize("content", MALFORMED)
def test_malformed_descriptions_are_refused(content):
    with pytest.raises(InputError, match="malformed"):
        Text.from_json(content)
