"""Saved networks: what comes back is what was saved, and anything else is refused with one line."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import kleene as kl
from kleene.errors import FileError, NotSupported
from kleene.lowering.guarding import guarded_updates

SHAPES = {
    "universal": lambda: kl.compile(kl.library.parity_relative),
    "rules": lambda: kl.compile(kl.library.parity_absolute(5), lowering="rules", dtype="float64"),
    "encoder": lambda: kl.compile(kl.library.addition, shape="encoder", layers=3, shared=False),
    "decoder": lambda: kl.compile(kl.library.parity_scratchpad(3)),
    "averages": lambda: kl.compile(kl.library.histogram(5, 3)),
    "bfloat16": lambda: kl.compile(kl.library.parity_relative, dtype="bfloat16"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_saved_network_comes_back_equal(name, tmp_path):
    net = SHAPES[name]()
    net.save(tmp_path / "net")
    again = kl.load(tmp_path / "net")
    assert again.config == net.config and again.dtype == net.dtype
    assert json.dumps(again.description) == json.dumps(net.description)
    theirs = dict(again.named_parameters())
    for label, tensor in net.named_parameters():
        assert torch.equal(tensor, theirs[label]) and tensor.dtype == theirs[label].dtype, label
    assert again.layout == net.layout and again.sizes == net.sizes
    tokens = [0, 1, 2] if name in ("decoder", "averages") else [2, 1, 1]
    if name == "rules":
        tokens = [1, 1, 1]
    if name == "encoder":
        tokens = kl.library.addition.encode("5+7")
    wanted, found = net.run(tokens), again.run(tokens)
    assert wanted == found and wanted.layers == found.layers
    assert kl.certify(again).holds


def test_a_saved_network_can_be_verified_without_its_program(tmp_path):
    from kleene.lowering.updates import Updates
    from kleene.machines.spec import Spec

    program = kl.library.histogram(4, 3)
    kl.compile(program).save(tmp_path / "net")
    net = kl.load(tmp_path / "net")
    saved = Updates.from_json(Spec.from_json(net.description["program"]), net.description["updates"])
    assert saved == guarded_updates(program)
    assert kl.verify(saved, net, lengths=range(1, 5), evaluator="dense")


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "net"
    kl.compile(kl.library.parity_relative).save(folder)
    kl.compile(kl.library.parity_absolute(4)).save(folder)
    assert kl.load(folder).config.name == "parity_absolute"
    assert [path.name for path in tmp_path.iterdir()] == ["net"]
    assert sorted(path.name for path in folder.iterdir()) == ["kleene.json", "weights.safetensors"]


def test_kleene_json_names_every_dimension(tmp_path):
    net = kl.compile(kl.library.parity_relative)
    net.save(tmp_path / "net")
    content = json.loads((tmp_path / "net" / "kleene.json").read_text(encoding="utf-8"))
    labels = [label for segment in content["description"]["layout"] for label in segment["labels"]]
    assert len(labels) == net.config.dim == len(set(labels)) and "parity_left=1" in labels


# --- what is refused --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kl.compile(kl.library.parity_relative).save(tmp_path / "net")
    return tmp_path / "net"


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(kl.FileError) as caught:
        kl.load(folder)
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message
    for word in words:
        assert word in message, message


def edit(folder: Path, change: Any, seal: bool = True) -> None:
    """Change kleene.json; with `seal`, its digest is made to fit again, as a careful editor would."""
    path = folder / "kleene.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    digest = content.pop("digest")
    change(content)
    if seal:
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**content, "digest": digest}), encoding="utf-8")


def edit_weights(folder: Path, change: Any) -> None:
    """Change the tensors, and make every digest fit again."""
    path = folder / "weights.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    edit(folder, lambda content: content.update(weights=digest))


def test_editing_alone_changes_nothing(folder):
    edit(folder, lambda content: None)
    edit_weights(folder, lambda tensors: None)
    assert kl.load(folder).run([2, 1, 1]) == [0, 1, 0]


def test_a_missing_tensor(folder):
    edit_weights(folder, lambda tensors: tensors.pop("unembedding"))
    refused(folder, "unembedding", "missing")


def test_a_tensor_too_many(folder):
    edit_weights(folder, lambda tensors: tensors.update(more=torch.zeros(2)))
    refused(folder, "'more'")


def test_a_tensor_of_a_wrong_shape(folder):
    edit_weights(folder, lambda tensors: tensors.update(unembedding=tensors["unembedding"][:, 1:].contiguous()))
    refused(folder, "unembedding", "should be")


def test_a_tensor_of_a_wrong_type(folder):
    edit_weights(folder, lambda tensors: tensors.update(unembedding=tensors["unembedding"].double()))
    refused(folder, "unembedding", "float64", "float32")


@pytest.mark.parametrize("place", [0, 9, 200, -1])
def test_a_changed_byte_in_the_weights(folder, place):
    path = folder / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    refused(folder)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_changed_byte_in_the_description(folder, share):
    path = folder / "kleene.json"
    data = bytearray(path.read_bytes())
    place = int(share * len(data))
    while not chr(data[place]).isdigit():
        place += 1
    data[place] = ord("1") if data[place] != ord("1") else ord("2")
    path.write_bytes(data)
    refused(folder)


@pytest.mark.parametrize("version", [0, 1, "2", None])
def test_an_unknown_version(folder, version):
    edit(folder, lambda content: content.update(version=version))
    refused(folder, "version", repr(version))


def test_an_unknown_kind(folder):
    edit(folder, lambda content: content.update(kind="perceptron"))
    refused(folder, "perceptron", "transformer")


def test_weights_cut_short(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    refused(folder)


@pytest.mark.parametrize("name", ["kleene.json", "weights.safetensors"])
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    refused(folder, name)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "null", '"text"', "{}", '{"kind": ["transformer"]}'])
def test_a_description_that_is_none(folder, content):
    (folder / "kleene.json").write_text(content)
    refused(folder)


def test_a_description_that_is_not_text(folder):
    (folder / "kleene.json").write_bytes(b"\xff\xfe\x00")
    refused(folder, "UTF-8")


def test_not_a_folder(tmp_path):
    refused(tmp_path / "none", "no such folder")
    (tmp_path / "file").write_text("hello")
    refused(tmp_path / "file", "folder")


@pytest.mark.parametrize("part", ["config", "description", "dtype", "weights"])
def test_a_description_with_a_part_missing(folder, part):
    edit(folder, lambda content: content.pop(part))
    refused(folder)


def part_with(content, field):
    """The part of a configuration that has a field: itself, or the shape of its block."""
    config = content["config"]
    return config if field in config else config["cycle"][0]


@pytest.mark.parametrize("field", ["dim", "tokens", "cycle", "hidden", "heads"])
def test_a_configuration_with_a_field_missing(folder, field):
    edit(folder, lambda content: part_with(content, field).pop(field))
    refused(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dim", -1),
        ("dim", "9"),
        ("dim", 2.5),
        ("hidden", [3]),
        ("hidden", 7),
        ("tokens", None),
        ("blocks", -1),
        ("cycle", []),
    ],
)
def test_a_configuration_that_makes_no_sense(folder, field, value):
    edit(folder, lambda content: part_with(content, field).update({field: value}))
    refused(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dim", 10**9),
        ("tokens", 10**12),
        ("hidden", [10**12, 7]),
        ("hidden", [0, 10**12]),
        ("positions", 10**11),
        ("key_size", 10**12),
        ("value_size", 10**12),
        ("classes", 10**12),
        ("window", 10**12),
        ("blocks", 10**12),
        ("heads", ["head"] * 10**6),
    ],
)
def test_huge_sizes_are_refused_before_memory_is_taken(folder, field, value):
    edit(folder, lambda content: part_with(content, field).update({field: value}))
    refused(folder)


# --- nothing is executed ----------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('executed')",))


def test_a_pickle_is_not_opened(folder):
    for name in ("weights.safetensors", "kleene.json"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
        refused(folder)


def test_loading_never_unpickles(folder, monkeypatch):
    def forbidden(*arguments: Any, **options: Any) -> None:
        raise AssertionError("pickle was used")

    monkeypatch.setattr(pickle, "load", forbidden)
    monkeypatch.setattr(pickle, "loads", forbidden)
    monkeypatch.setattr(torch, "load", forbidden)
    assert kl.load(folder).run([2, 1]) == [0, 1]


def test_no_python_is_saved(folder):
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".safetensors"]
    text = (folder / "kleene.json").read_text(encoding="utf-8")
    assert "lambda" not in text and "def step" not in text


PARITY = kl.library.parity_relative


def test_a_saved_network_cannot_ask_for_any_number_of_blocks(tmp_path):
    from kleene.networks.transformer.files import _digest

    kl.compile(PARITY).save(tmp_path / "net")
    path = tmp_path / "net" / "kleene.json"
    content = json.loads(path.read_text())
    content["config"]["blocks"] = 10**9
    content["digest"] = _digest({key: value for key, value in content.items() if key != "digest"})
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match="1,000,000,000 blocks"):
        kl.load(tmp_path / "net")


def test_only_standard_transformers_are_saved(tmp_path):
    from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer

    class Other(StandardTransformer):
        pass

    config = StandardConfig(tokens=2, classes=2, width=4, hidden=4, heads=1, head_size=4, layers=1)
    with pytest.raises(NotSupported, match="an Other cannot be saved"):
        Other(config).save(tmp_path / "x")
