"""Tasks on a cluster of several Ray nodes: the same results as here, also when a node dies."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kleene.common.cluster import Cluster, fetch, spread_map, store
from kleene.errors import InputError
from kleene.papers.tasks import Plan, run_tasks

ray = pytest.importorskip("ray")
pytest.importorskip("fsspec")


def slow_square(x: int, marks: str, folder: Path, deadline: float | None) -> dict[str, Any]:
    """Leave a mark for each time a task starts, and take a while."""
    (Path(marks) / f"{x}-{os.getpid()}-{ray.get_runtime_context().get_node_id()}").touch()
    time.sleep(1.0)
    return {"square": x * x, "step": 1}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of a head without workers and two nodes."""
    from ray.cluster_utils import Cluster as Nodes

    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(Path(__file__).parent)])
    made = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
def test_a_node_that_dies_loses_nothing_and_nothing_counts_twice(nodes: Any, tmp_path: Path) -> None:
    first, _second = nodes.add_node(num_cpus=2), nodes.add_node(num_cpus=2)
    nodes.wait_for_nodes()
    marks = tmp_path / "marks"
    marks.mkdir()
    tasks = {f"t{x}": {"x": x, "marks": str(marks)} for x in range(8)}
    ray.init(address=nodes.address, log_to_driver=False)

    def kill() -> None:
        while len(list(marks.iterdir())) < 3:
            time.sleep(0.05)
        nodes.remove_node(first, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    plan = Plan(cluster=Cluster(nodes.address, cpus=1))
    found = run_tasks(slow_square, tasks, tmp_path / "on", plan=plan, progress=False)
    killer.join()
    assert {name: run["square"] for name, run in found.items()} == {f"t{x}": x * x for x in range(8)}
    assert len(list(marks.iterdir())) > 8, "some task ran again"
    assert len(list((tmp_path / "on").glob("*.json"))) == 8
    again = run_tasks(slow_square, tasks, tmp_path / "on", plan=plan, progress=False)
    assert again == found and all(run["code"] and run["commit"] for run in found.values())
    ray.shutdown()


@pytest.mark.slow
def test_a_cluster_gives_the_numbers_of_one_machine(nodes: Any, tmp_path: Path) -> None:
    from kleene.papers.alta_frozen import FROZEN

    nodes.add_node(num_cpus=2)
    nodes.wait_for_nodes()
    plan = Plan(cluster=Cluster(nodes.address, storage=str(tmp_path / "shared")), steps=4)
    on = FROZEN.run("tiny", folder=tmp_path / "on", progress=False, plan=plan)
    here = FROZEN.run("tiny", folder=tmp_path / "here", progress=False, plan=Plan(workers=1, steps=4))
    assert on.rows == here.rows
    for name, run in here.runs.items():
        assert {k: v for k, v in run.items() if k not in ("seconds", "device", "code")} == {
            k: v for k, v in on.runs[name].items() if k not in ("seconds", "device", "code")
        }
    assert json.loads((tmp_path / "shared/with-seed-0/newest.json").read_text())["files"]
    parts = [([1, 2],), ([3],), ([],)]
    assert spread_map(Cluster(nodes.address), sum, parts) == [3, 3, 0]


@pytest.mark.slow
def test_verify_and_interdependence_use_a_cluster(nodes: Any) -> None:
    import torch

    import kleene as kl
    from kleene.evidence.interdependence import interdependence

    nodes.add_node(num_cpus=2)
    nodes.wait_for_nodes()
    program = kl.library.sort(5)  # a class that no other process can import
    net = kl.compile(program)
    here = kl.verify(program, net, random=20_000, lengths=range(1, 6))
    on = kl.verify(program, net, random=20_000, lengths=range(1, 6), cluster=nodes.address)
    assert on == here and on.holds and on.checked == 20_000
    with torch.no_grad():
        some = next(weights for weights in net.blocks[0].parameters() if weights.numel())
        some.view(-1)[0] += 1  # a wrong network has the same shortest disagreement
    here, on = (kl.verify(program, net, lengths=range(1, 4), cluster=where) for where in (None, nodes.address))
    assert on == here
    torch.manual_seed(0)
    lstm, decoder = torch.nn.LSTM(3, 4), torch.nn.Linear(4, 9)
    sentences = [torch.randn(1 + n % 9, 3) for n in range(600)]
    for one, other in zip(
        interdependence(lstm, decoder, sentences).matrices,
        interdependence(lstm, decoder, sentences, cluster=nodes.address).matrices,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_programs_travel() -> None:
    import kleene as kl
    from kleene.checks.agreement import InterpreterReference
    from kleene.library.parity import parity_relative

    for program in (parity_relative, kl.library.sort(5), kl.library.dyck1(8), kl.library.scan):
        again = ray.cloudpickle.loads(ray.cloudpickle.dumps(InterpreterReference(program, {})))
        assert again.spec.name == program.spec.name
        words = [program.sample(Random(n), 4) for n in range(5)] if hasattr(program, "sample") else [[0, 1, 1]]
        assert [str(x) for x in again.run_batch(words)] == [
            str(x) for x in InterpreterReference(program, {}).run_batch(words)
        ]


def test_checkpoints_travel(tmp_path: Path) -> None:
    made = tmp_path / "one" / "checkpoint-000000000005"
    made.mkdir(parents=True)
    (made / "model.safetensors").write_bytes(b"weights")
    (made.parent / "metrics.jsonl").write_text('{"step": 5}\n')
    address = f"file://{tmp_path}/shared/task"
    store(made.parent, address)
    fetch(address, tmp_path / "two")
    assert (tmp_path / "two/checkpoint-000000000005/model.safetensors").read_bytes() == b"weights"
    assert (tmp_path / "two/metrics.jsonl").read_text() == '{"step": 5}\n'
    fetch(f"file://{tmp_path}/nothing", tmp_path / "three")
    assert not (tmp_path / "three").exists()
    about = tmp_path / "shared/task/newest.json"
    about.write_text(json.dumps({"checkpoint": "../x", "files": [], "metrics": ""}))
    with pytest.raises(InputError, match="outside of the folder"):
        fetch(address, tmp_path / "four")
