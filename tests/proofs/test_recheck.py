"""The walk that Coq proved and extracted, beside the checker in Python: on the library, and on planted bugs."""

from __future__ import annotations

import importlib.util
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import kleene as kl
from kleene import checker

PROOFS = Path(__file__).parents[2] / "proofs"
RECHECK = PROOFS / "build" / "recheck"
built = pytest.mark.skipif(not RECHECK.exists(), reason="make proofs builds proofs/build/recheck")


def loaded(path: Path) -> Any:
    """A module that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


export = loaded(PROOFS / "export.py")
planted = loaded(next((PROOFS.parent / "tests").rglob("test_checker_planted.py")))

L = kl.library
PROGRAMS: dict[str, Any] = {
    "parity_relative": lambda: L.parity_relative,
    "parity_absolute": lambda: L.parity_absolute(6),
    "parity_sum": lambda: L.parity_sum(6),
    "addition": lambda: L.addition,
    "subleq": lambda: L.subleq(-8, 8, 6),
    "sort_unique": lambda: L.sort_unique(4, 5),
    "sort": lambda: L.sort(4, 5),
    "reverse": lambda: L.reverse(4, 3),
    "histogram": lambda: L.histogram(4, 3),
    "most_frequent": lambda: L.most_frequent(4, 3),
    "dyck1": lambda: L.dyck1(5),
    "dyck2": lambda: L.dyck2(4),
}
CHANGED = ["parity_relative", "parity_absolute", "reverse", "dyck1", "dyck2"]

# What the extracted functions check, as the checker's lemmas.
LEMMAS = ("hard-attention", "scratch", "clearing", "thresholds")


def saved(name: str, folder: Path, **options: Any) -> Path:
    kl.compile(PROGRAMS[name](), **options).save(folder)
    return folder


def python_verdict(folder: Path) -> dict[str, str]:
    """The lemmas that the checker refuses, with its reasons."""
    read = checker.read_folder(folder)
    net = checker.Net(read, checker.FORMATS[read.content["dtype"]])
    refused = {}
    for name in LEMMAS:
        try:
            checker.LEMMAS[name][0](net)
        except checker.Refused as error:
            refused[name] = str(error)
    return refused


def coq_verdict(folder: Path) -> tuple[int, list[str], list[str]]:
    """Exit code, lines, and what was left out."""
    try:
        text, left_out = export.export(folder)
    except ValueError:
        return 2, [], []
    path = folder / "recheck.txt"
    path.write_text(text)
    done = subprocess.run([RECHECK, path], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    said = [line.removesuffix(" left out") for line in lines if line.endswith(" left out")]
    assert said == left_out, "the verdict does not say what the file leaves out"
    checked = [line for line in lines if not line.endswith(" left out")]
    fails = any(not line.endswith(" holds") for line in checked)
    assert done.returncode == (1 if fails else 3 if left_out else 0), done.stderr
    return done.returncode, checked, left_out


@built
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_library_holds_in_both(name, tmp_path):
    folder = saved(name, tmp_path / name)
    code, lines, left_out = coq_verdict(folder)
    assert not left_out
    program = PROGRAMS[name]().spec
    kinds = [line.split()[0] for line in lines]
    assert kinds.count("variable") == len(program.variables) and kinds.count("clearing") == 1
    assert kinds.count("head") >= 1
    assert code == 0, [line for line in lines if not line.endswith("holds")]
    assert not python_verdict(folder)


@built
@pytest.mark.parametrize("name", ["parity_relative", "reverse", "dyck1"])
def test_rules_hold_too(name, tmp_path):
    assert coq_verdict(saved(name, tmp_path / name, lowering="rules"))[0] == 0


def change_one_weight(folder: Path, chance: random.Random) -> str:
    """One entry of one tensor of a block, by one (of scores by the compiler's gap)."""
    tensors = load_file(folder / "weights.safetensors")
    scores = ("query", "query_bias", "relative", "null_score")
    parts = ("in1", "bias1", "out1", "in2", "bias2", "out2", "key", "key_bias", *scores)
    name = chance.choice([n for n, t in tensors.items() if n.split(".")[-1] in parts and t.size])
    entries = tensors[name].reshape(-1)
    used = np.nonzero(entries)[0]
    where = int(chance.choice(used.tolist())) if len(used) and chance.random() < 0.8 else chance.randrange(len(entries))
    entries[where] += chance.choice([-1, 1]) * (2048 if name.split(".")[-1] in scores else 1)
    save_file(tensors, folder / "weights.safetensors")
    return f"{name}[{where}]"


@built
@pytest.mark.parametrize("name", CHANGED)
def test_changed_weights_get_the_same_verdict(name, tmp_path):
    chance, refusals = random.Random(name), 0
    weights = (saved(name, tmp_path) / "weights.safetensors").read_bytes()
    for _ in range(8):
        (tmp_path / "weights.safetensors").write_bytes(weights)
        what = change_one_weight(tmp_path, chance)
        refused, (code, lines, _) = python_verdict(tmp_path), coq_verdict(tmp_path)
        failing = [line for line in lines if not line.endswith("holds")]
        assert bool(refused) == (code != 0), f"{what}: {refused} in Python, {failing} in Coq's"
        refusals += code != 0
    assert refusals


@built
def test_changed_updates_fail(tmp_path):
    """The program counts, not only the weights."""
    saved("addition", tmp_path)
    path = tmp_path / "kleene.json"
    text = path.read_text()
    changed = text.replace('"table": [[0, 2]]', '"table": [[0, 1]]', 1).replace('"table":[[0,2]]', '"table":[[0,1]]', 1)
    assert changed != text
    path.write_text(changed)
    code, lines, _ = coq_verdict(tmp_path)
    assert code == 1 and "variable 0/stage fails" in lines


@built
@pytest.mark.parametrize(
    "text",
    ["", "kleene-recheck-2", "kleene-recheck-2 1 block 1", "kleene-recheck-2 0 0 end 1", "kleene-recheck-1 0 end"],
)
def test_malformed_files_are_no_verdict(text, tmp_path):
    (tmp_path / "file").write_text(text)
    done = subprocess.run([RECHECK, tmp_path / "file"], capture_output=True, text=True)
    assert done.returncode == 2 and "recheck:" in done.stderr


def test_the_export_says_what_it_leaves_out(tmp_path):
    kl.compile(kl.library.subleq_words(4, 8)).save(tmp_path)
    text, left_out = export.export(tmp_path)
    assert text.startswith("kleene-recheck-2 ") and text.endswith(" end\n")
    assert "variable 0/mem" in left_out and " variable 0/mem " in text


def test_weights_that_are_not_whole_are_not_exported(tmp_path):
    saved("parity_relative", tmp_path)
    tensors = load_file(tmp_path / "weights.safetensors")
    tensors["blocks.0.in2"][0, 0] += 0.5
    save_file(tensors, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match="no whole number"):
        export.export(tmp_path)


# --- the checker's planted bugs ---

# Lemmas whose bugs the extracted functions must find, where words, averages and moves have no part in them.
FOUND = ("hard-attention", "scratch", "clearing", "thresholds")
# Bugs in what the export leaves out: what it must name.
OUTSIDE = {
    "null key of words": "head 0/found",
    "bits of an address swapped": "head 0/found",
    "where lost": "move 0/left",
    "among lost": "move 0/put",
    "carry into bit 2 dropped": "variable 0/total",
    "carry one too late": "variable 0/total",
    "a bit not copied": "variable 0/total",
    "a constant lost": "variable 0/total",
    "a limb's carry lost": "variable 0/a",
    "a limb's carry too late": "variable 0/a",
    "one bit of a bitwise and": "variable 0/c",
    "a shift by one too few": "variable 0/a",
    "the earliest for the latest": "head 0/last",
    "ranks that exp confuses": "head 0/last",
    "the right one of two": "head 0/near",
    "an offset forgotten": "head 0/near",
    "a decoder that finds the first": "head 0/again",
    "a count's null key": "head 0/same",
    "a clearing head at every position": "block 0",
    "two steps at once": "block 0",
    "a bit of a complement": "block 0",
    "scores beyond 64 bits": "move 0/left",
    "an old word not cleared": "block 0",
    "cleared where a head says so later": "block 0",
    "cleared where a step says so later": "block 0",
}


@built
@pytest.mark.parametrize("name", planted.BUGS)
def test_planted_bugs_get_the_same_verdict(name, tmp_path, monkeypatch):
    program, options, patch, lemma, _ = planted.BUGS[name]
    monkeypatch.setattr(planted.compiler, "check_weights", lambda *given: None)
    patch(monkeypatch)
    kl.compile(program, **options).save(tmp_path)
    code, lines, left_out = coq_verdict(tmp_path)
    failing = [line for line in lines if not line.endswith("holds")]
    if name in OUTSIDE:
        assert OUTSIDE[name] in left_out, "the bug is in what is left out, and the export does not say so"
        what, _, part = OUTSIDE[name].partition(" 0/")
        assert what == "block 0" or f"'{part}'" in python_verdict(tmp_path)[lemma], "another part is wrong"
    if lemma in FOUND and name not in OUTSIDE:
        assert code == 1 and failing, f"the checker refuses it by lemma {lemma}"
    else:
        assert code != 1 or python_verdict(tmp_path), f"{failing}, and no lemma of the checker's refuses it"
