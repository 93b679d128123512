"""Standard transformers that are trained side by side learn what each learns alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import torch

import kleene as kl
from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer
from kleene.papers.alta_parity import words
from kleene.papers.alta_parity_end_to_end import END_TO_END, examples
from kleene.papers.tasks import Plan
from kleene.training.end_to_end import IGNORED, labelled, train_standard
from kleene.training.loop import seeded
from kleene.training.options import Storage, TrainingPlan
from kleene.training.standard_stack import PADDING, PackedWords, train_standards

CASES = [("relative", 0), ("absolute", 1), ("relative", 1), ("absolute", 0)]


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def network(positions: str, seed: int, *, shared: bool, width: int = 16) -> StandardTransformer:
    torch.manual_seed(seeded(seed, -1))
    shape = {"width": width, "hidden": 2 * width, "heads": 2, "head_size": 8, "layers": 3}
    return StandardTransformer(
        StandardConfig(tokens=3, classes=2, shared=shared, positions=positions, max_length=12, name="parity", **shape)
    )


def plan(seed: int, optimiser: str = "adafactor", steps: int = 12) -> TrainingPlan:
    return TrainingPlan(steps=steps, rate=1e-3, optimiser=optimiser, batch=16, seed=seed, every=4, half=False)


DATA = examples(words(8, 20, seed=1))


@pytest.mark.parametrize(
    ("optimiser", "shared", "width"), [("adafactor", False, 16), ("adafactor", True, 136), ("adam", False, 16)]
)
def test_a_stack_learns_what_each_network_learns_alone(optimiser: str, shared: bool, width: int):
    alone = [network(positions, seed, shared=shared, width=width) for positions, seed in CASES]
    made = train_standards(
        [network(positions, seed, shared=shared, width=width) for positions, seed in CASES],
        DATA,
        plans=[plan(seed, optimiser) for _, seed in CASES],
        storage=Storage(),
        title="stack",
    )
    for (positions, seed), one, other in zip(CASES, alone, made):
        before = {name: weight.clone() for name, weight in one.state_dict().items()}
        train_standard(one, DATA, plan=plan(seed, optimiser), storage=Storage())
        assert other.config == one.config and other.config.positions == positions
        for name, weight in one.state_dict().items():
            torch.testing.assert_close(other.state_dict()[name], weight, rtol=0, atol=1e-12)
        assert any((before[name] - weight).abs().max() > 1e-4 for name, weight in one.state_dict().items())
        assert [entry["accuracy"] for entry in other.metrics] == [entry["accuracy"] for entry in one.metrics]
        assert [entry["loss"] for entry in other.metrics] == pytest.approx([entry["loss"] for entry in one.metrics])


def test_a_stack_goes_on_where_it_stopped(tmp_path):
    def made(steps: int, storage: Storage) -> list[StandardTransformer]:
        nets = [network(positions, seed, shared=True) for positions, seed in CASES]
        plans = [plan(seed, steps=steps) for _, seed in CASES]
        return train_standards(nets, DATA, plans=plans, storage=storage, title="stack")

    made(4, Storage(folder=tmp_path, save_seconds=0))
    resumed, whole = made(12, Storage(folder=tmp_path)), made(12, Storage())
    for one, other in zip(resumed, whole):
        assert [entry["step"] for entry in one.metrics] == [4, 8, 12]
        for name, weight in one.state_dict().items():
            torch.testing.assert_close(weight, other.state_dict()[name], rtol=0, atol=1e-12)


def test_packed_words_are_whole_and_apart():
    data = words(8, 5, seed=1)
    packed = PackedWords(examples(data), torch.device("cpu"))
    chosen = torch.tensor([0, 7, 7, *range(20)])
    count = packed.row_count([chosen])
    tokens, places, mask, last, labels = (
        part[0] for part in packed.unpacked(packed.pack(chosen, count)[None], len(chosen))
    )
    assert tokens.shape == (count * 64,) and mask.shape == (count, 64, 64)
    for word, end, label in zip(chosen.tolist(), last.tolist(), labels.tolist()):
        length = len(data[word]) + 1
        here = slice(end - length + 1, end + 1)
        assert tokens[here].tolist() == [2, *data[word]] and places[here].tolist() == list(range(length))
        assert label == sum(data[word]) % 2
        row, column = divmod(end, 64)
        assert (mask[row, column] == 0).nonzero().flatten().tolist() == list(range(column - length + 1, column + 1))
    assert int((packed.pack(chosen, count)[: -len(chosen)] != PADDING).sum()) == int(packed.lengths[chosen].sum())
    with pytest.raises(kl.InputError, match="do not fit"):
        packed.pack(torch.arange(40), 1)


def test_a_stack_is_of_one_shape_and_reads_last_positions():
    two = [network("relative", 0, shared=True), network("relative", 0, shared=False)]
    with pytest.raises(kl.InputError, match="one shape"):
        train_standards(two, DATA, plans=[plan(0), plan(1)], storage=Storage(), title="stack")
    with pytest.raises(kl.InputError, match="more than their seeds"):
        train_standards(two[:1] * 2, DATA, plans=[plan(0), plan(1, steps=3)], storage=Storage(), title="stack")
    whole = labelled([[2, 1], [2, 0, 1]], [[0, 1], [0, 0, 1]], "all")
    assert int((whole[2] != IGNORED).sum()) == 5
    with pytest.raises(kl.InputError, match="last positions"):
        PackedWords(whole, torch.device("cpu"))


def test_the_experiment_says_the_same_together(tmp_path):
    torch.set_default_dtype(torch.float32)
    one, other = (
        END_TO_END.run(
            "tiny", folder=tmp_path / name, progress=False, plan=Plan(only=("*-1-*",), workers=1, together=together)
        )
        for name, together in (("alone", False), ("together", True))
    )
    assert one.rows == other.rows
    for name, run in one.runs.items():
        assert run.get("said") == other.runs[name].get("said")
        assert run.get("loss") == pytest.approx(other.runs[name].get("loss"), abs=1e-4)
    files = {path.name for path in (tmp_path / "together" / "runs" / "tiny").iterdir()}
    assert {"together-1-own", "together-1-shared", "relative-1-own-seed-0.json"} <= files


def test_many_words_fit_into_the_rows_that_are_counted():
    packed = PackedWords(examples(words(20, 60, seed=1)), torch.device("cpu"))
    some = torch.randperm(len(packed.lengths), generator=torch.Generator().manual_seed(0))[:1024]
    count = packed.row_count([some])
    assert len(packed.pack(some, count)) == count * packed.width + 1024
    assert count * packed.width < 1.05 * int(packed.lengths[some].sum())


def test_a_stack_goes_on_where_other_code_made_its_checkpoints(tmp_path, monkeypatch):
    """The experiment's results of other code are made again, but the training goes on: the words are the same."""
    torch.set_default_dtype(torch.float32)
    chosen = {"only": ("*-1-own-*",), "workers": 1, "together": True}
    END_TO_END.run("tiny", folder=tmp_path, progress=False, plan=Plan(steps=10, **chosen))
    monkeypatch.setattr("kleene.papers.tasks.changed_code", lambda code: ["machines/spec.py"])
    END_TO_END.run("tiny", folder=tmp_path, progress=False, plan=Plan(**chosen))
    metrics = tmp_path / "runs" / "tiny" / "together-1-own" / "metrics.jsonl"
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [10, 20]
    first = json.loads(metrics.read_text().splitlines()[0])
    END_TO_END.run("tiny", folder=tmp_path, progress=False, plan=Plan(**chosen), settings={"rate": 0.1})
    assert json.loads(metrics.read_text().splitlines()[0])["losses"] != first["losses"], "another task begins again"
