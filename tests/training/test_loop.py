"""The training loop: a run that was killed ends where one that was not ends; folders are not mixed up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from kleene.errors import FileError, InputError, KleeneError
from kleene.training.loop import Run, shuffled, spent, train
from kleene.training.options import Evaluation, GradientStep, Storage

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = X @ torch.tensor([[1.0], [-2.0], [0.5]])


class Killed(Exception):
    pass


def go(
    folder: Path | None,
    kind: str = "adam",
    die_at: int | None = None,
    steps: int = 30,
    seed: int = 3,
    deadline: float | None = None,
) -> tuple[Run, nn.Module]:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimiser = (
        torch.optim.AdamW(model.parameters(), lr=0.01)
        if kind == "adam"
        else torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    )
    order = shuffled(seed, 40, 7)

    def batch(step: int) -> Tensor:
        if step == die_at:
            raise Killed
        while deadline is not None and step == 6 and time.monotonic() < deadline:
            time.sleep(0.01)
        return order(step)

    run = train(
        model,
        optimiser,
        lambda m, i: ((m(X[i]) - Y[i]) ** 2).mean(),
        batch,
        steps=steps,
        gradient=GradientStep(lambda step: 0.01 / (1 + step), clip=0.5),
        seed=seed,
        evaluation=Evaluation(every=5, measure=lambda m: {"error": ((m(X) - Y) ** 2).mean().item()}),
        storage=Storage(save_seconds=0, folder=folder, deadline=deadline),
    )
    return run, model


@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("die_at", [1, 5, 13, 29])
def test_killed_run_ends_the_same(tmp_path: Path, kind: str, die_at: int) -> None:
    whole, model = go(tmp_path / "whole", kind)
    with pytest.raises(Killed):
        go(tmp_path / "killed", kind, die_at=die_at)
    with open(tmp_path / "killed" / "metrics.jsonl", "a") as lines:  # later than the checkpoint
        lines.write(json.dumps({"step": 99, "loss": 0.0}) + "\n" + '{"step": 1')
    again, resumed = go(tmp_path / "killed", kind)
    assert again.metrics == whole.metrics
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), resumed.state_dict().values()))
    files = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "killed")]
    assert files[0] == files[1]
    assert len(list((tmp_path / "killed").glob("checkpoint-*"))) == 1


def test_a_deadline_stops_at_the_next_evaluation_with_a_checkpoint(tmp_path: Path) -> None:
    whole, _ = go(tmp_path / "whole")
    cut, _ = go(tmp_path / "cut", deadline=time.monotonic() + 1)  # step 6 waits for it
    assert cut.step == 10 and cut.metrics == whole.metrics[:2]
    assert [path.name for path in (tmp_path / "cut").glob("checkpoint-*")] == ["checkpoint-000000000010"]
    late, _ = go(tmp_path / "cut", deadline=time.monotonic() - 1)
    assert late.step == 10
    assert late.seconds == cut.seconds == spent(tmp_path / "cut") >= 1
    again, _ = go(tmp_path / "cut")
    assert again == whole
    assert again.seconds == spent(tmp_path / "cut") > cut.seconds


def test_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first, _ = go(tmp_path)
    again, _ = go(tmp_path, die_at=0)
    assert again == first


def test_other_settings_are_refused(tmp_path: Path) -> None:
    go(tmp_path, steps=5)
    with pytest.raises(InputError, match="seed 3, not 4"):
        go(tmp_path, seed=4)


def test_stops_when_good_enough(tmp_path: Path) -> None:
    model = nn.Linear(3, 1)
    run = train(
        model,
        torch.optim.SGD(model.parameters(), lr=0.2),
        lambda m, i: ((m(X) - Y) ** 2).mean(),
        lambda step: None,
        steps=1000,
        evaluation=Evaluation(every=10, until=lambda metrics: metrics["loss"] < 1e-3),
        storage=Storage(save_seconds=0, folder=tmp_path),
    )
    assert run.reached and run.step < 1000 and run.last["loss"] < 1e-3


def test_divergence_is_said_in_one_line() -> None:
    model = nn.Linear(3, 1)
    with pytest.raises(KleeneError, match="smaller learning rate"):
        train(
            model,
            torch.optim.SGD(model.parameters(), lr=1e30),
            lambda m, i: ((m(X) - Y) ** 2).mean(),
            lambda step: None,
            steps=100,
        )


def test_a_run_goes_on_to_a_higher_target(tmp_path):
    def learn(until):
        torch.manual_seed(0)
        model = torch.nn.Linear(1, 1)
        data, order = torch.linspace(-1, 1, 64)[:, None], shuffled(0, 64, 16)
        return train(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            lambda m, x: ((m(x) - 3 * x) ** 2).mean(),
            lambda step: data[order(step)],
            steps=200,
            evaluation=Evaluation(every=10, until=until),
            storage=Storage(save_seconds=0, folder=tmp_path),
        )

    first = learn(lambda metrics: metrics["loss"] < 1)
    second = learn(lambda metrics: metrics["loss"] < 0.01)
    assert first.reached and second.reached and first.step < second.step
    assert learn(None).step == 200
    (next(tmp_path.glob("checkpoint-*")) / "optimiser.safetensors").write_bytes(b"short")
    with pytest.raises(FileError, match="does not fit this model"):
        learn(None)
