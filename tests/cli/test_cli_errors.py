"""Every command with bad input: a missing file, a wrong type, out of range, a broken file, an interruption.

What is asked is always the same: the exit code, exactly one line on standard error, no traceback, nothing half-written.
The commands are those that the application has: one without cases here fails.
"""

from __future__ import annotations

import enum
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
import typing
from pathlib import Path

import pytest
import torch
import typer

import kleene as kl
from kleene.cli import app, main
from kleene.networks.trained.lstm import LanguageModel, Vocabulary
from kleene.truth.factory import Order, build
from sample_programs import COPY

PROGRAM = (
    COPY
    + """
class Far(Copy):
    def step(z):
        z.x = z.x + 1

class Forever(kl.Program):
    tokens = 2
    x = kl.cat(2, token=lambda t: t)
    done = kl.cat(2)
    output = x
    halt = {done: 1}
    def step(z):
        z.x = 1 - z.x

number = 3
"""
)


def registered(group: typer.Typer, path: str = "") -> dict[str, typing.Callable[..., object]]:
    """Every command of the application, `learn trace` and such included."""
    found = {}
    for command in group.registered_commands:
        assert command.callback is not None
        found[path + (command.name or command.callback.__name__.replace("_", "-"))] = command.callback
    for sub in group.registered_groups:
        found |= registered(sub.typer_instance, f"{path}{sub.name} ")
    return found


COMMANDS = registered(app)

# what each command takes when all is well; options that are wrong are put after it
GOOD = {
    "list": [],
    "demo": [],
    "run": ["parity_relative", "101"],
    "trace": ["parity_relative", "101"],
    "compile": ["parity_relative"],
    "verify": ["parity_relative"],
    "certify": ["parity_relative"],
    "decompile": ["parity_relative"],
    "regex": ["a*b", "aab"],
    "convert": ["dfa.json", "-o", "dfa.att"],
    "compare": ["dfa.json", "--length", "4"],
    "tm": ["1RB1LB_1LA1RZ"],
    "subleq": ["hello"],
    "riscv": ["hello", "--on", "reference"],
    "explain": ["nets/transformer", "[2,1,0]"],
    "reproduce": ["alta.scan"],
    "factory": ["--count", "1", "-o", "made"],
    "score": ["random", "--models", "models"],
    "learn trace": ["parity_relative"],
    "learn end-to-end": ["parity_relative"],
    "export": ["parity_relative", "--to", "circuit"],
}

PROGRAMS = [  # for commands that take a PROGRAM
    ("missing", ["nowhere.py:Copy"]),
    ("missing", ["nosuchprogram"]),
    ("missing", ["programs.py:Nothing"]),
    ("missing", ["no/such/folder"]),
    ("type", ["programs.py:number"]),
    ("type", ["programs.py"]),
    ("type", ["sort:length=many"]),
    ("type", ["notes.txt"]),
    ("range", ["computer:bits=99"]),
    ("range", ["addition:length=3"]),
    ("broken", ["broken.py:Copy"]),
    ("broken", ["raises.py:Copy"]),
]
NOT_PROGRAMS = [("type", ["nets/rnn"]), ("type", ["dfa.json"])]
NETWORKS = [("missing", ["nets/nowhere"]), ("type", ["empty"]), ("broken", ["cut/transformer"])]

# command → (kind, arguments): what is wrong, where options alone do not show it
CASES: dict[str, list[tuple[str, list[str]]]] = {
    "list": [("type", ["everything"])],
    "demo": [("type", ["everything"])],
    "run": [(kind, [*what, "[0,1]"]) for kind, what in [*PROGRAMS, *NETWORKS]]
    + [
        ("type", ["parity_relative", "[0,x]"]),
        ("range", ["programs.py:Copy", "[0,7]"]),
        ("range", ["programs.py:Copy", "[]"]),
        ("range", ["programs.py:Far", "[1]"]),
        ("range", ["programs.py:Forever", "[1]", "--max-layers", "50"]),
        ("type", ["nets/transformer", "words"]),
        ("range", ["nets/transformer", "[9]"]),
        ("type", ["nets/memoriser", "[1]"]),
        ("type", ["nets/transformer", "[2]", "--on", "rules"]),
        ("type", ["nets/rnn", "[1]"]),
        ("type", ["nets/rnn", "a", "--on", "interpreter"]),
        ("type", ["dfa.json", "c"]),
        ("broken", ["broken.json", "a"]),
    ],
    "trace": [(kind, [*what, "[0,1]"]) for kind, what in [*PROGRAMS, *NOT_PROGRAMS]]
    + [
        ("type", ["addition", "a+b"]),
        ("range", ["programs.py:Copy", "[2]"]),
        ("type", ["parity_relative", "1", "--steps"]),
        ("missing", ["parity_relative", "1", "--svg", "notes.txt/x.svg"]),
    ],
    "compile": [
        *PROGRAMS,
        ("type", ["parity_relative", "--to", "llama"]),
        ("type", ["dfa.json", "--to", "bert"]),
        ("type", ["nets/rnn"]),
        ("type", ["dfa.json", "--dtype", "float64"]),
        ("missing", ["nowhere.json"]),
        ("broken", ["broken.jff"]),
        ("range", ["programs.py:Far"]),
        ("range", ["sort:values=100000000000"]),
        ("type", ["parity_relative", "--layers", "3"]),
        ("type", ["addition", "-o", "notes.txt"]),
        ("type", ["addition", "-o", "."]),
        ("missing", ["parity_relative", "-o", "notes.txt/net"]),
        ("range", ["addition", "--dtype", "bfloat16"]),
        ("type", ["parity_relative", "--shape", "decoder"]),
        ("missing", ["parity_relative", "--shape", "encoder"]),
    ],
    "verify": [
        *PROGRAMS,
        *NETWORKS,
        ("missing", ["nets/transformer", "nowhere.py:X"]),
        ("missing", ["parity_relative", "parity_relative"]),
        ("type", ["parity_relative", "--lengths", "few"]),
        ("range", ["parity_relative", "--lengths", "5-1"]),
        ("range", ["parity_relative", "--lengths", "1-90"]),
        ("missing", ["nets/rnn", "nowhere.json"]),
        ("broken", ["nets/rnn", "broken.json"]),
        ("type", ["nets/rnn", "notes.txt"]),
        ("broken", ["cut/rnn"]),
        ("type", ["nets/memoriser"]),
        ("type", ["nets/learned"]),
        ("range", ["programs.py:Copy", "--input", "[5]"]),
    ],
    "certify": [
        *PROGRAMS,
        *NETWORKS,
        ("type", ["nets/learned"]),
        ("type", ["nets/standard"]),
        ("broken", ["cut/rnn"]),
    ],
    "decompile": [
        *PROGRAMS,
        *NETWORKS,
        ("type", ["nets/lstm"]),
        ("missing", ["parity_relative", "-o", "notes.txt/x.json"]),
    ],
    "regex": [
        ("broken", ["a(b"]),
        ("type", ["a", "b"]),
        ("type", ["a", "--method", "none"]),
        ("type", ["a", "--activation", "tanh"]),
        ("type", ["a", "-o", "a.docx"]),
        ("missing", ["a", "-o", "notes.txt/a.png"]),
        ("type", ["a", "-o", "."]),
        ("range", ["(a|b)*a(a|b){30}"]),
    ],
    "compare": [
        ("missing", ["nowhere.jff"]),
        ("missing", ["dfa.json", "--length", "2", "-o", "notes.txt/x.png"]),
        ("broken", ["broken.jff"]),
        ("type", ["notes.docx"]),
        ("type", ["dfa.json", "-o", "x.docx"]),
        ("range", ["dfa.json", "--length", "0"]),
    ],
    "convert": [
        ("missing", ["nowhere.jff", "-o", "x.att"]),
        ("missing", ["dfa.json", "-o", "notes.txt/x.att"]),
        ("broken", ["broken.jff", "-o", "x.att"]),
        ("broken", ["broken.json", "-o", "x.att"]),
        ("type", ["notes.docx", "-o", "x.att"]),
        ("type", ["dfa.json", "-o", "x.docx"]),
        ("type", ["programs.py", "-o", "x.att"]),
    ],
    "tm": [
        ("missing", ["nowhere.yaml"]),
        ("broken", ["broken.yaml"]),
        ("broken", ["broken.json"]),
        ("broken", ["broken.jff"]),
        ("type", ["notes.docx"]),
        ("type", ["1RB1LB_1LA1RZ", "q"]),
        ("type", ["1RB1LB_1LA1RZ", "--form", "short"]),
        ("type", ["1RB1LB_1LA1RZ", "--evaluator", "fast"]),
        ("range", ["1RB1LB_1LA1RZ", "--max-steps", "-5"]),
        ("broken", ["1RB1LB_1LA"]),
        ("type", ["dfa.json"]),
        ("missing", ["1RB1LB_1LA1RZ", "-o", "notes.txt/net"]),
    ],
    "subleq": [
        ("missing", ["nowhere.dec"]),
        ("broken", ["broken.dec"]),
        ("broken", ["broken.subleq"]),
        ("type", ["notes.docx"]),
        ("type", ["hello", "--dialect", "c"]),
        ("type", ["hello", "--on", "paper"]),
        ("type", ["hello", "--evaluator", "fast"]),
        ("range", ["hello", "--bits", "40"]),
        ("type", ["hello", "--on", "reference", "--evaluator", "generated"]),
    ],
    "riscv": [
        ("missing", ["nowhere.elf"]),
        ("broken", ["notes.docx"]),
        ("broken", ["notes.txt"]),
        ("type", ["hello", "--on", "paper"]),
        ("type", ["hello", "--evaluator", "fast"]),
        ("type", ["hello", "--on", "reference", "--evaluator", "lanes"]),
        ("range", ["hello", "--on", "reference", "--memory", "1000"]),
        ("range", ["hello", "--on", "reference", "--memory", "4096"]),
        ("range", ["hello", "--steps", "-1"]),
    ],
    "explain": [
        ("missing", ["nets/nowhere", "[1]"]),
        ("type", ["empty", "[1]"]),
        ("broken", ["cut/transformer", "[1]"]),
        ("type", ["nets/transformer", "words"]),
        ("range", ["nets/transformer", "[9]"]),
        ("type", ["nets/memoriser", "[1]"]),
        ("type", ["nets/lstm", ""]),
        ("range", ["nets/lstm", "zebra"]),
        ("type", ["nets/lstm", "a b", "--bias-rule", "x"]),
        ("type", ["nets/lstm", "a b", "--read", "x"]),
        ("range", ["nets/lstm", "a b", "--target", "zebra"]),
        ("broken", ["cut/lstm", "a b"]),
        ("type", ["nets/transformer", "[2]", "-o", "picture.png"]),
        ("missing", ["notes.txt", "[1]"]),
        ("type", ["dfa.json", "abc"]),
        ("type", ["dfa.json", "ab", "--distribution", "a"]),
        ("range", ["dfa.json", "ab", "--distribution", "a=0.5"]),
        ("type", ["dfa.json", "ab", "--read", "end"]),
        ("type", ["dfa.json", "ab", "-o", "picture.png"]),
        ("range", ["parity_relative", "[2,1]", "--position", "7"]),
        ("broken", ["broken.json", "ab"]),
    ],
    "reproduce": [
        ("missing", ["no.experiment"]),
        ("type", ["alta.scan", "--scale", "huge"]),
        ("missing", ["interdependence.natural", "--data", "nowhere"]),
        ("missing", ["interdependence.english", "--data", "nowhere"]),
        ("broken", ["interdependence.natural", "--data", "data"]),
        ("broken", ["interdependence.english", "--data", "data"]),
        ("broken", ["synthesizer.soft-instruction", "--data", "data"]),
        ("broken", ["alta.scan", "--data", "data"]),
        ("type", ["alta.scan", "--treebank", "x.conllu"]),
        ("type", ["alta.scan", "-o", "notes.txt"]),
    ],
    "factory": [
        ("missing", ["--count", "2"]),
        ("type", ["--level", "magic", "-o", "made"]),
        ("type", ["--states", "few", "-o", "made"]),
        ("range", ["--states", "1-900", "-o", "made"]),
        ("range", ["--length", "9-3", "-o", "made"]),
        ("broken", ["-o", "nets"]),
        ("type", ["-o", "notes.txt"]),
    ],
    "score": [
        ("missing", ["random", "--models", "nowhere"]),
        ("missing", ["random", "--models", "empty"]),
        ("missing", ["random"]),
        ("type", ["nonsense", "--models", "models"]),
        ("type", ["random", "--models", "models", "-o", "notes.txt"]),
        ("broken", ["random", "--models", "cut"]),
    ],
    "learn trace": [
        *PROGRAMS,
        *NOT_PROGRAMS,
        ("type", ["parity_relative", "--lengths", "few"]),
        ("type", ["parity_relative", "-o", "notes.txt"]),
        ("type", ["parity_relative", "--input", "xyz"]),
        ("type", ["computer:bits=4", "--steps", "1"]),
        ("type", ["parity_relative", "--checkpoints", "notes.txt", "--steps", "1"]),
    ],
    "learn end-to-end": [
        *PROGRAMS,
        *NOT_PROGRAMS,
        ("range", ["parity_relative", "--lengths", "0-3"]),
        ("type", ["parity_relative", "-o", "notes.txt"]),
        ("type", ["parity_relative", "--checkpoints", "notes.txt", "--steps", "1"]),
    ],
    "export": [(kind, [*what, "--to", "circuit"]) for kind, what in [*PROGRAMS, *NETWORKS]]
    + [
        ("type", ["parity_relative", "--to", "llama", "-o", "out"]),
        ("type", ["parity_relative", "--to", "graphviz"]),
        ("type", ["dfa.json", "--to", "onnx", "-o", "x.onnx"]),
        ("broken", ["broken.json", "--to", "graphviz"]),
        ("missing", ["nowhere.json", "--to", "graphviz"]),
        ("missing", ["parity_relative", "--to", "onnx"]),
        ("missing", ["parity_relative"]),
        ("range", ["sort:length=4,values=3", "--to", "transformer-lens", "--length", "9", "-o", "lens"]),
        ("type", ["parity_relative", "--to", "graphviz", "--layers", "3"]),
        ("missing", ["parity_relative", "--to", "onnx", "-o", "notes.txt/x.onnx"]),
        ("type", ["sort:length=4,values=3", "--to", "hugging-face", "-o", "."]),
    ],
}

NEEDED = {"missing", "type", "range", "broken"}
NONE = {
    "list": NEEDED - {"type"},
    "demo": NEEDED - {"type"},
    "convert": {"range"},
}  # kinds that a command has no such input for


@pytest.fixture(scope="module")
def furniture(tmp_path_factory):
    """A folder with good and broken files of every kind; networks in nets/, cut short in cut/."""
    folder = tmp_path_factory.mktemp("files")
    nets = folder / "nets"
    parity = kl.library.parity_relative
    kl.compile(parity).save(nets / "transformer")
    kl.compile(kl.regex("a*b", "ab")).save(nets / "rnn")
    kl.compile(kl.TuringMachine.parse("1RB1LB_1LA1RZ")).save(nets / "decider")
    kl.compile(kl.InstructionTable([[(1, 2, 3)]])).save(nets / "memoriser")
    torch.manual_seed(0)
    LanguageModel(3, 4, 4, vocabulary=Vocabulary(["a", "b", "c"])).save(nets / "lstm")
    small = {"steps": 1, "progress": False}
    kl.learn(parity, [[2, 1]], supervision="trace", depth=1, width=4, **small).save(nets / "learned")
    kl.learn(parity, [[2, 1]], supervision="end-to-end", width=4, hidden=4, heads=1, head_size=4, **small).save(
        nets / "standard"
    )
    kl.regex("a*b", "ab").save(folder / "dfa.json")
    shutil.copytree(nets, folder / "cut")
    build(Order(1, words=1), folder / "models")
    (folder / "cut" / "truth.json").write_text('{"version": 1')
    for weights in (folder / "cut").rglob("*.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-20])
    for weights in (folder / "cut").rglob("weights.json"):
        weights.write_bytes(weights.read_bytes()[:-20])
    (folder / "empty").mkdir()
    for name in ("wikitext-2/train.txt", "ud-english-ewt/en_ewt-ud-test.conllu", "sst2/dev.tsv", "scan/tasks.txt"):
        (folder / "data" / name).parent.mkdir(parents=True)
        (folder / "data" / name).write_bytes(bytes(range(256)))
    (folder / "programs.py").write_text(PROGRAM)
    (folder / "broken.py").write_text("class Copy(:\n")
    (folder / "raises.py").write_text("raise ZeroDivisionError('no')\n")
    (folder / "notes.txt").write_text("nothing of use\n")
    (folder / "notes.docx").write_bytes(bytes(range(256)))
    for suffix, text in {
        "json": '{"turing": [',
        "yaml": "table: {a: [",
        "jff": "<structure><type>",
        "dec": "1 2 x 4",
        "subleq": "ADD nowhere",
    }.items():
        (folder / f"broken.{suffix}").write_text(text)
    return folder


@pytest.fixture
def kleene(furniture, capsys, monkeypatch):
    """Run the command line in this process, in that folder; nothing may be left there afterwards."""
    monkeypatch.chdir(furniture)
    monkeypatch.delenv("KLEENE_DATA", raising=False)

    def run(*arguments: str) -> tuple[int, str]:
        before = sorted(furniture.rglob("*"))
        with pytest.raises(SystemExit) as end:
            main(arguments)
        kept = {folder for order in furniture.rglob("order.json") for folder in (order, order.parent)}  # to go on from
        after = [path for path in sorted(furniture.rglob("*")) if "__pycache__" not in path.parts and path not in kept]
        assert [path for path in after if path not in before] == [], "something was left behind"
        return end.value.code, capsys.readouterr().err

    return run


def refused(result: tuple[int, str], code: int = 2) -> str:
    """The exit code, and the one line."""
    found, line = result
    assert found == code, result
    assert line.count("\n") == 1 and line.startswith("kleene: "), line
    assert "Traceback" not in line and len(line) > len("kleene: ") + 5
    return line


# --- every command has its cases ------------------------------------------------------------------------------------


def test_every_command_has_cases():
    assert set(COMMANDS) == set(CASES) == set(GOOD) == set(INTERRUPTED)
    for command, cases in CASES.items():
        options = {kind for _, _, kind in wrong_options(command)}
        kinds = {kind for kind, _ in cases} | options
        assert kinds >= NEEDED - NONE.get(command, set()), (command, kinds)


@pytest.mark.parametrize(
    "command, arguments",
    [(c, arguments) for c, cases in CASES.items() for _, arguments in cases],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_bad_input(kleene, command, arguments):
    refused(kleene(*command.split(), *arguments))


# --- every option of every command, with a wrong type and out of range -----------------------------------------------


def wrong_options(command: str) -> list[tuple[str, str, str]]:
    """(option, a value that it cannot have, kind) for all options with a type or a smallest value."""
    found = []
    for parameter, hint in typing.get_type_hints(COMMANDS[command], include_extras=True).items():
        kind, information = [*typing.get_args(hint), None, None][:2]
        if not isinstance(information, typer.models.OptionInfo):
            continue
        declared = [name for name in information.param_decls or () if name.startswith("--")]
        option = declared[0] if declared else f"--{parameter.replace('_', '-')}"
        kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
        if any(isinstance(k, type) and (k in (int, float) or issubclass(k, enum.Enum)) for k in kinds):
            found.append((option, "nonsense", "type"))
        if information.min is not None:
            found.append((option, str(information.min - 1), "range"))
    return found


@pytest.mark.parametrize(
    "command, option, value", [(c, option, value) for c in COMMANDS for option, value, _ in wrong_options(c)]
)
def test_wrong_options(kleene, command, option, value):
    line = refused(kleene(*command.split(), *GOOD[command], option, value))
    assert option in line


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_options_and_missing_arguments(kleene, command):
    assert "--nonsense" in refused(kleene(*command.split(), *GOOD[command], "--nonsense"))
    if GOOD[command] and command != "reproduce":  # which lists the experiments then
        assert re.search("Missing (argument|option)", refused(kleene(*command.split())))


# --- every kind of saved network, damaged in every way, by every command that takes one -------------------------------


def cut_weights(folder: Path) -> None:
    for path in [*folder.rglob("*.safetensors"), *folder.rglob("weights.json")]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lose_weights(folder: Path) -> None:
    for path in [*folder.rglob("*.safetensors"), *folder.rglob("weights.json")]:
        path.unlink()


def garbage(folder: Path) -> None:
    for path in [*folder.rglob("*.safetensors"), *folder.rglob("weights.json")]:
        path.write_bytes(bytes(range(256)) * 4)


def rewritten(folder: Path, change: typing.Callable[[dict], object]) -> None:
    content = json.loads((folder / "kleene.json").read_text())
    (folder / "kleene.json").write_text(json.dumps(change(content)))


DAMAGES: dict[str, typing.Callable[[Path], object]] = {
    "weights cut": cut_weights,
    "weights lost": lose_weights,
    "weights garbage": garbage,
    "JSON cut": lambda folder: (folder / "kleene.json").write_text((folder / "kleene.json").read_text()[:-9]),
    "JSON not text": lambda folder: (folder / "kleene.json").write_bytes(bytes(range(128, 256))),
    "JSON a list": lambda folder: rewritten(folder, lambda content: [1, 2, 3]),
    "another version": lambda folder: rewritten(folder, lambda content: {**content, "version": 99}),
    "no kind": lambda folder: rewritten(folder, lambda content: {**content, "kind": "toaster"}),
    "all else lost": lambda folder: rewritten(
        folder, lambda content: {"kind": content["kind"], "version": content["version"]}
    ),
}
KINDS = ["transformer", "learned", "standard", "rnn", "decider", "lstm", "memoriser"]
READERS = {
    "run": ["[0]"],
    "verify": [],
    "certify": [],
    "decompile": [],
    "explain": ["[0]"],
    "export": ["--to", "circuit"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_networks(kleene, furniture, tmp_path, kind, damage):
    damaged = tmp_path / "net"
    shutil.copytree(furniture / "nets" / kind, damaged)
    DAMAGES[damage](damaged)
    for command, rest in READERS.items():
        line = refused(kleene(command, str(damaged), *rest))
        assert str(damaged) in line, (command, line)


@pytest.mark.parametrize("kind", ["transformer", "learned", "standard"])
def test_undamaged_networks_run(kleene, kind):
    """So that what is refused above is refused for its damage."""
    assert kleene("run", f"nets/{kind}", "[2,1]") == (0, "")


# --- interruptions ----------------------------------------------------------------------------------------------------

# command → (what is interrupted as it is called, the arguments)
INTERRUPTED: dict[str, tuple[str, list[str]]] = {
    "list": ("kleene.cli.programs.library_programs", []),
    "demo": ("kleene.checks.agreement.verify_program", []),
    "run": ("kleene.machines.interpreter.run_step", ["parity_relative", "101"]),
    "trace": ("kleene.machines.interpreter.run_step", ["parity_relative", "101", "--svg", "trace.svg"]),
    "compile": (
        "kleene.networks.transformer.files._digest",
        ["parity_relative", "-o", "saved"],
    ),  # between its two files
    "verify": ("kleene.networks.transformer.model.Transformer.run_batch", ["parity_relative"]),
    "certify": ("kleene.checker.check", ["parity_relative"]),
    "decompile": ("kleene.files.os.replace", ["parity_relative", "-o", "found.json"]),
    "regex": ("kleene.networks.rnn.files.weights_to_json", ["a*b", "-o", "saved"]),
    "compare": ("kleene.checks.comparison._row", ["dfa.json", "-o", "x.png"]),
    "convert": ("kleene.files.os.replace", ["dfa.json", "-o", "x.att"]),
    "tm": ("kleene.networks.rnn.digit_patterns.follow_patterns", ["1RB1LB_1LA1RZ"]),
    "subleq": ("kleene.machines.subleq.Machine.run", ["hello", "--on", "reference"]),
    "riscv": ("kleene.machines.riscv.ReferenceMachine.run", ["hello", "--on", "reference"]),
    "explain": ("kleene.evidence.network_traces.explain_transformer", ["nets/transformer", "[2,1]"]),
    "reproduce": ("kleene.papers.protocol.run_tasks", ["alta.scan", "-o", "results"]),
    "factory": ("kleene.truth.factory.truth_of", ["--count", "2", "-o", "made"]),
    "score": ("kleene.truth.scoreboard.score_model", ["random", "--models", "models", "-o", "scores"]),
    "learn trace": ("kleene.training.from_traces.train", ["parity_relative", "-o", "saved"]),
    "learn end-to-end": ("kleene.training.end_to_end.train", ["parity_relative", "-o", "saved"]),
    "export": (
        "kleene.networks.transformer.hugging_face.KleeneModel.save_pretrained",
        ["parity_relative", "--to", "hugging-face", "-o", "saved"],
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_interrupted(kleene, monkeypatch, command):
    """Ctrl-C in the middle: 130, one line, and nothing half-written (the fixture looks)."""
    where, arguments = INTERRUPTED[command]
    called = []

    def interrupted(*given: object, **_: object) -> typing.NoReturn:
        called.append(where)
        for path in given:
            if isinstance(path, Path) and path.parent.name.startswith(".") and not path.exists():
                path.mkdir()  # it got so far, in the folder that becomes the real one at the end
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    assert refused(kleene(*command.split(), *arguments), 130) == "kleene: interrupted\n" and called


@pytest.mark.parametrize(
    "arguments",
    [
        ["tm", "1RB1LC_1RC1RB_1RD0LE_1LA1LD_1RZ0LA", "--max-steps", "999999999999", "--evaluator", "plain"],
        ["subleq", "loop.dec", "--steps", "999999999999"],
        ["learn", "trace", "addition", "--steps", "1000000", "-o", "net"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_real_interruption(tmp_path, arguments):
    """A signal to a process that is at work for long."""
    (tmp_path / "loop.dec").write_text("3 3 0 0")
    code = (
        "import signal, sys, torch, kleene.cli; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "print('ready', flush=True); kleene.cli.main(sys.argv[1:])"  # a background job may inherit an ignored SIGINT
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        env=dict(os.environ),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, "kleene: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["loop.dec"]


def same(values):
    class Same(kl.Program):
        tokens = values
        value = kl.cat(values, token=lambda t: t)
        output = value
        layers = 1

        def step(z):
            pass

    return Same


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: kl.cat(10**11), "100,000,000,000 values are more than"),
        (lambda: kl.num(range(10**11)), "num: declare at most"),
        (lambda: kl.library.sort(values=10**11), "values are more than|'tokens' is"),
        (lambda: kl.library.parity_absolute(10**9), "more than"),
        (lambda: kl.compile(same(40_000)), "parameters, more than the 2,000,000,000"),
    ],
)
def test_sizes_are_refused_before_memory_is_taken(make, said):
    with pytest.raises((kl.ProgramError, kl.NotSupported), match=said):
        make()
