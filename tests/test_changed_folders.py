"""Random changes of saved folders of every kind of network: refused, or it answers the same; never a raw exception."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import kleene as kl
from kleene import checker
from kleene.checks import stock_checker
from stock_programs import Counter, FirstEven, Maybe, Recall
from test_checker_changes import other_value, places

LANGUAGES = ("(b|ab*a)*", "(a|b)*abb", "a*b*", "(a|b)*bb(a|b)*")
STAR_FREE = LANGUAGES[1:]
LARGE = 4096  # a size beyond every network's; a larger one takes time and shows nothing else


def machines(languages: tuple[str, ...], **options: Any) -> list[Any]:
    return [kl.compile(kl.regex(one, alphabet="ab"), **options) for one in languages]


def weighted() -> Any:
    step = {"a": np.array([[1.0, 1.0], [0.0, 1.0]]), "b": np.array([[0.5, 0.0], [0.0, 1.0]])}
    return kl.compile(kl.WeightedAutomaton([1.0, 0.0], step, [0.0, 1.0]))


NETWORKS: dict[str, Any] = {
    "exact": lambda: machines(LANGUAGES),
    "lstm": lambda: machines(LANGUAGES, to="lstm"),
    "gru": lambda: machines(LANGUAGES, to="gru"),
    "linear": lambda: [
        *machines(LANGUAGES, to="linear"),
        *machines(STAR_FREE, to="linear", transitions="positive"),
        weighted(),
    ],
    "memoriser": lambda: [
        kl.compile(kl.InstructionTable.random(3, 5, 8, seed=seed), method=method)
        for seed, method in enumerate(("grid", "yun", "grid"))
    ],
    "mamba": lambda: machines(STAR_FREE, to="mamba"),
    "olmo_hybrid": lambda: machines(LANGUAGES, to="olmo_hybrid"),
    "gpt2": lambda: [kl.compile(p, to="gpt2", length=24) for p in (FirstEven, Counter, Recall, Maybe)],
    "llama": lambda: [kl.compile(p, to="llama", length=24) for p in (FirstEven, Counter)],
}
STOCK = ("gpt2", "llama")
FEW_STATES = ("lstm", "gru", "mamba", "olmo_hybrid")  # what counts without end is visited up to a limit


@cache
def saved(kind: str, folder: Path) -> list[tuple[Path, list[Any]]]:
    """Folders of a kind, with what their networks answer."""
    found = []
    for number, net in enumerate(NETWORKS[kind]()):
        net.save(folder / f"{kind}{number}")
        assert kl.certify(kl.load(folder / f"{kind}{number}")).holds
        found.append((folder / f"{kind}{number}", behaviour(kind, net)))
    return found


def answer(ask: Any) -> Any:
    """What a network answers, or the kind of its error."""
    try:
        return ask()
    except kl.KleeneError as error:
        return type(error).__name__


def behaviour(kind: str, net: Any) -> list[Any]:
    chance = random.Random(5)
    if kind == "memoriser":
        rows = [(program, j) for program, length in enumerate(net.lengths) for j in range(length)]
        every = np.array(rows).T
        named = [answer(lambda name=name: net.lookup(name, 0)) for name in net.names]
        return [answer(lambda: net.operands(*every).tolist()), named]
    if kind in STOCK:
        inputs = [[chance.randrange(net.first) for _ in range(size)] for size in (1, 2, 3, 5, 8, 13, 18)]
        return [answer(lambda tokens=tokens: list(net.run(tokens))) for tokens in inputs]
    words = ["".join(word) for size in range(6) for word in itertools.product("ab", repeat=size)]
    words += ["".join(chance.choice("ab") for _ in range(size)) for size in (9, 17, 33, 64, 70)]
    said = [answer(lambda: [bool(one) for one in net.accepts_batch(words)])]
    return said + [answer(lambda word=word: bool(net.accepts(word))) for word in (*words[::5], *words[-5:])]


def change_field(folder: Path, chance: random.Random) -> Any:
    """Change, remove or double a field of one of the folder's JSON files."""
    path = chance.choice(sorted(file for file in folder.iterdir() if file.suffix == ".json"))
    content = json.loads(path.read_text(encoding="utf-8"))
    by_name: dict[Any, list[Any]] = {}
    for field in places(content):
        by_name.setdefault(tuple(key for key in field if isinstance(key, str)), []).append(field)
    field = chance.choice(chance.choice(list(by_name.values())))
    holder = content
    for key in field[:-1]:
        holder = holder[key]
    how = chance.random()
    if how < 0.1 and isinstance(holder, dict):
        del holder[field[-1]]
    elif how < 0.15 and isinstance(holder, dict):
        holder[f"{field[-1]}x"] = holder[field[-1]]
    else:
        new = other_value(holder[field[-1]], chance)
        holder[field[-1]] = LARGE if isinstance(new, int) and new >= LARGE else new
    path.write_text(json.dumps(content), encoding="utf-8")
    return path.name, field


def change_tensor(folder: Path, chance: random.Random) -> Any:
    """Change a number, or remove, double or convert a tensor; digests are made to fit."""
    (path,) = folder.glob("*.safetensors")
    tensors = load_file(path)
    name, how = chance.choice(sorted(tensors)), chance.random()
    tensor = tensors[name]
    if how < 0.03:
        del tensors[name]
    elif how < 0.05:
        tensors[f"{name}x"] = tensor.clone()
    elif how < 0.07 or not tensor.numel():
        tensors[name] = tensor.double() if tensor.dtype == torch.float32 else tensor.float()
    else:
        flat = tensor.flatten().clone()
        nonzero = torch.nonzero(flat).flatten().tolist()
        place = chance.choice(nonzero) if nonzero and chance.random() < 0.7 else chance.randrange(len(flat))
        old = flat[place].item()
        others = [0.0, -old, old + 1, old - 1, 1.01 * old, old + 2**-10, 2 * old, old / 2, old + chance.gauss(0, 64)]
        flat[place] = (
            chance.choice([*others, 1e30, float("nan"), float("inf")]) if flat.is_floating_point() else old + 1
        )
        tensors[name] = flat.reshape(tensor.shape)
    save_file({key: value.contiguous() for key, value in tensors.items()}, path, {"format": "pt"})
    content = json.loads((folder / "kleene.json").read_text(encoding="utf-8"))
    if "weights" in content:
        content["weights"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / "kleene.json").write_text(json.dumps(content), encoding="utf-8")
    return name, place if how >= 0.07 and tensor.numel() else how


def change_folders(kind: str, count: int, seed: int, folder: Path) -> tuple[int, int, int]:
    """How many changes were not loaded, refused, and accepted: these answer the same."""
    chance, unloaded, refused, accepted = random.Random(seed), 0, 0, 0
    folders = saved(kind, folder)
    limit = {"limit": 100} if kind in FEW_STATES else {}
    for _ in range(count):
        original, right = chance.choice(folders)
        made = folder / "changed"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(original, made)
        numbers = kind != "exact" and chance.random() < 0.5
        said = (change_tensor if numbers else change_field)(made, chance)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert checker.main([str(made)]) in (1, 2)  # no transformer of an attention program
            proved = kind in STOCK and stock_checker.main([str(made)]) == 0
        try:
            net = kl.load(made)
        except kl.KleeneError:
            unloaded += 1
            continue
        try:
            certificate = kl.certify(net, **limit)
        except kl.KleeneError:
            refused += 1
            continue
        assert certificate.holds or not proved, (original.name, said)
        refused, accepted = refused + (not certificate.holds), accepted + certificate.holds
        assert not certificate.holds or behaviour(kind, net) == right, (original.name, said)
    return unloaded, refused, accepted


@pytest.mark.parametrize("kind", NETWORKS)
def test_changed_folders_are_refused_or_harmless(kind, tmp_path):
    if kind in ("mamba", "olmo_hybrid", *STOCK):
        pytest.importorskip("transformers")
    unloaded, refused, accepted = change_folders(kind, 15 if kind in ("mamba", "olmo_hybrid") else 40, 1, tmp_path)
    assert unloaded > 0 and refused > 2 and accepted > 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETWORKS)
def test_a_thousand_changed_folders(kind, tmp_path):
    if kind in ("mamba", "olmo_hybrid", *STOCK):
        pytest.importorskip("transformers")
    unloaded, refused, accepted = change_folders(kind, 1_000, 2, tmp_path)
    assert unloaded > 50 and refused > 100
    print(f"{kind}: {unloaded} changes not loaded, {refused} refused, {accepted} accepted, and these answer the same")
