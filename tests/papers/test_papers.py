"""The experiments on learnability: what needs no training holds; tasks go on after a limit and after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import kleene as kl
from kleene.cli import app
from kleene.errors import InputError
from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer
from kleene.networks.trained.hybrid_transformer import HybridTransformer
from kleene.papers import EXPERIMENTS, experiment
from kleene.papers.alta_addition import ADDITION, short_sums
from kleene.papers.alta_parity import Cells, every_cell, words
from kleene.papers.alta_parity_end_to_end import END_TO_END
from kleene.papers.alta_parity_end_to_end import PAPER as TABLE_3
from kleene.papers.alta_parity_end_to_end import SCALES as TABLE_3_SCALES
from kleene.papers.alta_parity_minimal import MINIMAL
from kleene.papers.alta_parity_trace import SCALES as TABLE_1
from kleene.papers.alta_probes import states
from kleene.papers.alta_scan_end_to_end import ACTIONS, PAPER, SCALES, SCAN_END_TO_END, START, STOP, examples
from kleene.papers.tasks import Plan, run_tasks
from kleene.training.end_to_end import IGNORED

# --- by analysis ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def figure_4(tmp_path_factory):
    """Minimal versions from words of up to 20 bits, with fewer test words than the published result."""
    fewer = {"paper": {**MINIMAL.scales["paper"], "train_each": 60, "test_each": 1}}
    return replace(MINIMAL, scales=fewer).run(
        "paper", folder=tmp_path_factory.mktemp("figure4"), progress=False, plan=Plan(workers=1)
    )


def row(result, start):
    return next(row for row in result.rows if row["name"].startswith(start))


def test_figure_4(figure_4):
    """Relative parity generalises to every length, absolute stops at 20 bits, sum + modulo at 20 ones."""
    assert [found["holds"] for found in figure_4.rows if "verdict" in found] == [True] * 8
    assert row(figure_4, "Sequential (Relative): rules")["ours"] == "7"
    assert row(figure_4, "Sum + Modulo: rules")["ours"] == "31"
    assert row(figure_4, "Sequential (Absolute): the minimal")["ours"] == "to length 20"
    assert row(figure_4, "Sum + Modulo: the minimal")["ours"] == "to 20 ones, at every length"
    assert (figure_4.folder / "parity-minimal.png").stat().st_size > 10_000
    published = json.loads((figure_4.folder / "parity-minimal.json").read_text())
    assert {"command", "commit", "device", "seconds", "rows"} <= published.keys()


def test_minimal_addition_adds_50_digits():
    program = kl.library.addition
    small = kl.minimal(program, [program.encode(text) for text in short_sums(3_000)])
    assert small.seen.rule_count <= 884
    a, b = 10**50 - 1, 12345678901234567890123456789012345678901234567890
    assert program.decode(small.run(program.encode(f"{a}+{b}"))) == str(a + b)


def test_words_have_every_number_of_ones_and_every_length():
    found = words(20, 50, seed=0)
    assert [sum(sum(word) == ones for word in found) for ones in range(21)] == [50] * 21
    assert {len(word) for word in found} == set(range(21)) and words(20, 50, seed=0) == found
    cells = {(len(word), sum(word)) for word in every_cell(6, 1, seed=0)}
    assert cells == {(length, ones) for length in range(7) for ones in range(length + 1)}


def test_slices_are_the_tables_columns():
    given = [[1], [1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 1]]
    cells = Cells.of(given, [1, 1, 1, 1, 0], trained=2)
    assert cells.slices == (1 / 2, 2 / 3, 1 / 2)
    assert cells.by(0) == ([1, 2, 3], [1.0, 0.0, 2 / 3]) and cells.by(1, 4)[1] == [1.0, 1.0, 1 / 2]
    other = Cells.of([[1, 1]], [0], trained=2)
    assert Cells.joined([cells, other]).slices == (2 / 3, 2 / 3, 1 / 2)


@pytest.mark.parametrize("options", [{}, {"scale": 1, "mask": False}])
def test_parity_count_is_parity(options):
    program = kl.library.parity_count(6, **options)
    net = kl.compile(program)
    for word in every_cell(6, 1, seed=1):
        assert program.run([2, *word])[-1] == net.run([2, *word])[-1] == sum(word) % 2


# --- what the paper's scale is ----------------------------------------------------------------------------


def test_the_papers_hyperparameters():
    """Table 1; Table 3's eight rows; Table 6's cells."""
    one = TABLE_1["paper"]
    assert one["relative"] == {"depth": 2, "width": 128, "rate": 1e-2, "optimiser": "adafactor", "steps": 50_000}
    wide = {"depth": 4, "width": 4096, "rate": 1e-4, "optimiser": "adam"}
    assert one["absolute"] == {**wide, "steps": 50_000} and one["stated"] == {**wide, "steps": 400_000}
    three = TABLE_3_SCALES["paper"]
    assert three["shape"] == {"width": 512, "hidden": 2048, "heads": 6, "head_size": 64} and len(TABLE_3) == 8
    assert (three["rate"], three["optimiser"], three["layers"]) == (5e-4, "adafactor", {8: 50_000, 40: 5_000})
    six = SCALES["paper"]
    assert six["shape"] == {"width": 128, "hidden": 512, "heads": 8, "head_size": 128} and six["steps"] == 10_000
    assert six["layers"] == [2, 6, 16] and six["splits"] == ["length", "mcd1", "mcd2", "mcd3"]
    assert sum(cell is not None for cells in PAPER.values() for cell in cells) == 96


def test_scan_examples():
    (tokens, real, labels), heard = examples([("jump twice", "I_JUMP I_JUMP"), ("walk", "I_WALK")])
    jump, walk = ACTIONS.index("I_JUMP"), ACTIONS.index("I_WALK")
    assert real.tolist() == [[True, True], [True, False]] and tokens.shape == (2, 2)
    assert labels.tolist() == [[jump, jump, STOP], [walk, STOP, IGNORED]]
    assert heard.tolist() == [[START, jump, jump], [START, walk, STOP]]


# --- networks ---------------------------------------------------------------------------------------------


def test_the_frozen_block_stays_and_is_read():
    torch.manual_seed(0)
    config = StandardConfig(3, 2, width=8, hidden=8, heads=1, head_size=8, layers=1)
    compiled = kl.compile(kl.library.parity_relative)
    net = HybridTransformer(config, compiled)
    net.join.weight.data.zero_()
    plain = StandardTransformer(config)
    plain.load_state_dict({k: v for k, v in net.state_dict().items() if k in plain.state_dict()})
    tokens, real = torch.tensor([[2, 1, 1, 0]]), torch.tensor([[True, True, True, False]])
    assert torch.equal(net(tokens, real), plain(tokens, real))  # without its column the block adds nothing
    net.join.weight.data.normal_()
    assert not torch.equal(net(tokens, real), plain(tokens, real))
    net(tokens, real).sum().backward()
    assert net.join.weight.grad is not None and all(p.grad is None for p in compiled.parameters())


def test_probes_are_asked_for_the_programs_variables():
    """After each layer the labels are the interpreter's values; after halting they stay."""
    given = [[1, 0, 1], [1]]
    found = states(given, layers=4)
    trace = kl.library.parity_relative.trace([2, 1, 0, 1])
    for layer in range(trace.layers):
        for position in range(4):
            state = trace.states[layer + 1][position]
            assert all(found[name][0, layer, position] == state[name] for name in found)
    assert found["parity"][1, 3].tolist() == [0, 1, IGNORED, IGNORED]


# --- tasks ------------------------------------------------------------------------------------------------


def work(x, folder, deadline):
    return {"square": x * x, "finished": x != 3}


def killed(x, folder, deadline):
    if x == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": x}


def test_a_killed_process_is_named_and_the_next_call_goes_on(tmp_path):
    tasks = {f"t{x}": {"x": x} for x in range(2)}
    with pytest.raises(kl.KleeneError, match=r"t0, t1: a training process was killed.*the same command continues"):
        run_tasks(killed, tasks, tmp_path, plan=Plan(workers=2), progress=False)
    assert set(run_tasks(killed, tasks, tmp_path, plan=Plan(only=("t0",), workers=1), progress=False)) == {"t0"}


def test_plans(tmp_path):
    tasks = {f"t{x}": {"x": x} for x in range(5)}
    found = run_tasks(work, tasks, tmp_path, plan=Plan(only=("t[12]",), workers=1), progress=False)
    assert list(found) == ["t1", "t2"]
    late = run_tasks(work, tasks, tmp_path, plan=Plan(limit=0, workers=1), progress=False)
    assert list(late) == ["t1", "t2"]  # nothing new is begun, what is there comes back
    found = run_tasks(work, tasks, tmp_path, plan=Plan(workers=2), default=["t0", "t3"], progress=False)
    assert {name: run["square"] for name, run in found.items()} == {"t0": 0, "t1": 1, "t2": 4, "t3": 9}
    assert not json.loads((tmp_path / "t3.json").read_text())["finished"]
    with pytest.raises(kl.InputError, match="no task has such a name; the tasks: t0, t1"):
        run_tasks(work, tasks, tmp_path, plan=Plan(only=("x*",)), progress=False)


def test_a_time_limit_stops_cleanly_and_the_next_call_goes_on(tmp_path):
    only = ("relative-1-shared-seed-0",)
    whole = END_TO_END.run("tiny", folder=tmp_path / "whole", progress=False, plan=Plan(only=only, workers=1))
    begun = Plan(only=only, workers=1, limit=3600)
    object.__setattr__(begun, "begun", time.monotonic() - 3600 + 0.02)  # 20 ms are left
    cut = END_TO_END.run("tiny", folder=tmp_path / "cut", progress=False, plan=begun)
    steps = cut.runs[only[0]]["step"]
    assert steps < 20 and "20 steps" not in row(cut, "1 layers, shared weights, relative")["note"]
    assert "not run" in row(cut, "2 layers, own weights, absolute")["ours"]
    again = END_TO_END.run("tiny", folder=tmp_path / "cut", progress=False, plan=Plan(only=only, workers=1))
    assert again.runs[only[0]]["step"] == 20
    for result in (again, whole):
        del result.runs[only[0]]["seconds"], result.runs[only[0]]["commit"], result.runs[only[0]]["code"]
    assert again.runs == whole.runs


def test_an_experiment_that_is_killed_ends_as_one_that_is_not(tmp_path):
    arguments = [
        sys.executable,
        "-m",
        "kleene",
        "reproduce",
        "alta.parity-trace",
        "--scale",
        "tiny",
        "--only",
        "relative-*",
        "--workers",
        "1",
        "--steps",
        "600",
        "--json",
        "-o",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}

    def start(folder: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*arguments, str(tmp_path / folder)], env=environment, stdout=subprocess.DEVNULL)

    running = start("killed")
    lines = tmp_path / "killed/runs/tiny/relative-seed-0/metrics.jsonl"
    while running.poll() is None and (not lines.exists() or len(lines.read_text().splitlines()) < 3):
        time.sleep(0.01)
    assert running.poll() is None, "it was too quick to be killed"
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert start("killed").wait() == 0 and start("whole").wait() == 0
    folders = [tmp_path / name / "runs/tiny" for name in ("killed", "whole")]
    metrics = [(folder / "relative-seed-0/metrics.jsonl").read_text() for folder in folders]
    assert metrics[0] == metrics[1] and len(metrics[0].splitlines()) == 12
    ends = [json.loads((folder / "relative-seed-0.json").read_text()) for folder in folders]
    for end in ends:
        del end["result"]["seconds"], end["result"]["commit"], end["result"]["code"]
    assert ends[0] == ends[1]


# --- experiments, tiny ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["addition", "frozen", "probes"])
def test_reproduce_tiny(name, tmp_path):
    result = CliRunner().invoke(
        app, ["reproduce", f"alta.{name}", "--scale", "tiny", "--workers", "1", "--json", "-o", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    published = json.loads(result.stdout)
    assert published["rows"] and published["task_seconds"]
    assert (tmp_path / "table.md").exists() and (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_scan_cells_by_name(tmp_path):
    only = ("length-own-absolute-6", "length-shared-relative-2")
    found = SCAN_END_TO_END.run("tiny", folder=tmp_path, progress=False, plan=Plan(only=only, workers=1))
    assert set(found.runs) == set(only)
    said = row(found, "length, own weights, absolute")["ours"].split(" / ")
    assert said[0] == "not run" and said[1].endswith("%") and said[5:] == ["—", "—"]


def test_every_experiment_is_there():
    assert all(callable(experiment(name)) for name in EXPERIMENTS)


def test_addition_from_nothing_is_marked(tmp_path: Path):
    found = ADDITION.run("tiny", folder=tmp_path, progress=False, plan=Plan(limit=0, workers=1))
    assert row(found, "learned from traces")["ours"] == "not run"
    assert "holds" not in row(found, "rules of the minimal version")


def test_a_task_with_other_arguments_begins_again(tmp_path):
    def work(rate, steps, folder, deadline):
        folder.mkdir(exist_ok=True)
        (folder / f"{time.monotonic_ns()}").touch()
        return {"calls": len(list(folder.iterdir())), "step": steps}

    def run(limit=None, **arguments):
        plan = Plan(workers=1, limit=limit)
        found = run_tasks(work, {"t": arguments}, tmp_path, plan=plan, progress=False)
        return (found["t"]["calls"], found["t"]["step"]) if found else None

    assert run(rate=1, steps=5) == (1, 5)
    assert run(rate=1, steps=9, limit=0) == (1, 5)  # what there is of it
    assert run(rate=1, steps=9) == (2, 9)  # more of the same
    assert run(rate=1, steps=3) == (2, 9)  # more than is asked for
    assert run(rate=2, steps=3, limit=0) is None and run(rate=2, steps=3) == (1, 3)


def test_a_task_that_stopped_at_its_target_has_no_steps_left(tmp_path):
    calls = []

    def work(steps, folder, deadline):
        calls.append(steps)
        return {"step": 4}

    for steps in (5, 9):
        run_tasks(work, {"t": {"steps": steps}}, tmp_path, plan=Plan(workers=1), progress=False)
    assert calls == [5]


def test_parity_takes_the_tasks_of_one_part(tmp_path):
    from kleene.papers.alta_parity import parity

    result = parity("tiny", folder=tmp_path, progress=False, plan=Plan(only=("relative-seed-0",), workers=1))
    assert list(result.runs) == ["parity-trace: relative-seed-0"]
    with pytest.raises(InputError, match="no task has such a name"):
        parity("tiny", folder=tmp_path / "none", progress=False, plan=Plan(only=("x*",)))
    assert not (tmp_path / "none").exists()


def test_a_result_of_a_program_that_changed_is_made_again(tmp_path):
    calls = []

    def work(x, folder, deadline):
        calls.append(x)
        return {"x": x}

    for _ in range(2):
        run_tasks(work, {"t": {"x": 1}}, tmp_path, plan=Plan(workers=1), progress=False)
    assert calls == [1]
    saved = json.loads((tmp_path / "t.json").read_text())
    saved["result"]["code"]["library/parity.py"] = "another"
    (tmp_path / "t.json").write_text(json.dumps(saved))
    run_tasks(work, {"t": {"x": 1}}, tmp_path, plan=Plan(workers=1), progress=False)
    assert calls == [1, 1]
