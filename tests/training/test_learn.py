"""Learning programs: from traces and end to end; a killed run ends as one that was not; what is saved runs."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import kleene as kl
from kleene.cli import app
from kleene.networks.trained import encoder_decoder
from kleene.networks.trained.encoder_decoder import StandardConfig, StandardTransformer, bucket, rows
from kleene.training.adafactor import Adafactor
from kleene.training.end_to_end import labelled, right
from kleene.training.from_traces import vectors
from sample_programs import Parity

parity = kl.library.parity_relative
CHANCE = random.Random(0)
SHORT = [[2, *(CHANCE.randrange(2) for _ in range(CHANCE.randrange(9)))] for _ in range(60)]
LONG = [[2, *(CHANCE.randrange(2) for _ in range(30))] for _ in range(20)]


def test_parity_from_traces_generalises(tmp_path):
    net = kl.learn(parity, SHORT, steps=600, test=LONG)
    assert net.metrics[-1]["test"] == 1.0
    assert net.run(LONG[0]) == parity.run(LONG[0]) and net.run(LONG[0]).layers == parity.run(LONG[0]).layers
    net.save(tmp_path / "net")
    again = kl.load(tmp_path / "net")
    assert again.run_batch(LONG) == net.run_batch(LONG) and again.metrics == net.metrics


def test_everything_but_the_mlp_is_compiled():
    net = kl.learn(parity, SHORT, steps=1)
    compiled = kl.compile(parity)
    for name, tensor in net.base.state_dict().items():
        assert torch.equal(tensor, compiled.state_dict()[name])
    with torch.no_grad():  # the compiled MLP in the same place gives the program
        mine = lambda x: compiled.block(0).second_half(compiled.block(0).first_half(x))  # noqa: E731
        net.layer = lambda number, x, mask: mine(_attended(compiled, x, mask))
        assert net.run_batch(LONG) == [parity.run(tokens) for tokens in LONG]


def _attended(net, x, mask):
    block = net.block(0)
    keys, values = block.keys_values(x)
    return block.attend(x, block.scores(x, keys, mask), values)


def test_vectors_of_traces_are_what_the_network_computes():
    """The MLP's inputs and outputs in the dense network are the vectors that it would be trained on."""
    for program, inputs in [(parity, SHORT[:9]), (kl.library.parity_sum(8), SHORT[:9])]:
        net = kl.compile(program)
        before, after = vectors(kl.traces(program, inputs), net.layout)
        known = {tuple(a.tolist()): b for a, b in zip(before, after)}
        for tokens in inputs:
            mask = torch.ones(1, len(tokens), dtype=torch.bool)
            x = net.embed(torch.tensor([tokens]))
            for _ in range(program.run(tokens).layers):
                middle = _attended(net, x, mask)
                x = net.block(0).second_half(net.block(0).first_half(middle))
                for a, b in zip(middle[0], x[0]):
                    assert torch.equal(known[tuple(a[: before.shape[1]].tolist())], b[: before.shape[1]])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("positions", ["relative", "absolute"])
def test_end_to_end_learns(shared, positions, tmp_path):
    """Counting is learned by each variant; the network is saved and runs again."""
    inputs = [[CHANCE.randrange(5) for _ in range(CHANCE.randrange(1, 6))] for _ in range(200)]
    program = kl.library.histogram(5, 5)
    net = kl.learn(
        program,
        inputs,
        supervision="end-to-end",
        shared=shared,
        positions=positions,
        steps=400,
        optimiser="adam",
        rate=3e-3,
        width=32,
        hidden=64,
        heads=2,
        layers=2,
        batch=32,
    )
    assert net.metrics[-1]["accuracy"] > 0.7 > net.metrics[0]["accuracy"]
    net.save(tmp_path / "net")
    assert kl.load(tmp_path / "net").run_batch(inputs[:9]) == net.run_batch(inputs[:9])


def test_padding_changes_nothing():
    torch.manual_seed(0)
    net = StandardTransformer(StandardConfig(5, 3, width=16, hidden=32, heads=2, head_size=8, layers=3)).eval()
    words = [[1, 2, 3], [4], [0, 1, 2, 3, 4, 0]]
    tokens, real, _ = labelled(words, words, "all")
    together = net(tokens, real)
    for row, word in enumerate(words):
        alone = net(torch.tensor([word]), torch.ones(1, len(word), dtype=torch.bool))
        assert torch.allclose(together[row, : len(word)], alone[0], atol=1e-5)


def test_teacher_forcing_is_greedy_decoding():
    torch.manual_seed(1)
    config = StandardConfig(6, 4, width=16, hidden=32, heads=2, head_size=8, layers=2, target_tokens=4)
    net = StandardTransformer(config).eval()
    inputs = [[CHANCE.randrange(6) for _ in range(4)] for _ in range(30)]
    said = net.decode(inputs, start=3, stop=0, limit=5)
    tokens, real, _ = labelled(inputs, inputs, "all")
    for shift in (0, 1):  # the sequences it says itself are right, others are not
        outputs = [[(t + shift) % 4 if shift else t for t in row] for row in said]
        longest = max(map(len, outputs)) + 1
        heard = torch.tensor([[3, *row, *[0] * (longest - len(row) - 1)] for row in outputs])
        full = [row if len(row) == 5 else [*row, 0] for row in outputs]
        labels = torch.tensor([[*row, *[-100] * (longest - len(row))][:longest] for row in full])
        found = right(net, (tokens, real, labels), heard)
        assert bool(found.all()) if shift == 0 else not bool(found.any())


def test_the_decoder_sees_nothing_of_the_future():
    torch.manual_seed(2)
    config = StandardConfig(6, 4, width=16, hidden=32, heads=2, head_size=8, layers=2, target_tokens=4)
    net = StandardTransformer(config).eval()
    tokens, real = torch.randint(6, (1, 5)), torch.ones(1, 5, dtype=torch.bool)
    target = torch.tensor([[3, 1, 2, 0]])
    other = torch.tensor([[3, 1, 0, 1]])
    assert torch.equal(net(tokens, real, target)[:, :2], net(tokens, real, other)[:, :2])
    assert not torch.equal(net(tokens, real, target)[:, 2:], net(tokens, real, other)[:, 2:])


def test_buckets_tell_near_offsets_apart():
    near = bucket(torch.arange(-7, 8), both_ways=True).tolist()
    assert len(set(near)) == 15
    assert bucket(torch.arange(-15, 1), both_ways=False).unique().numel() == 16
    assert bucket(torch.tensor([5]), both_ways=False).item() == 0  # the future is left out anyway


def test_rows_are_an_embedding_with_its_gradient():
    torch.manual_seed(0)
    mine, theirs = (torch.arange(12.0).reshape(4, 3).requires_grad_() for _ in range(2))
    indices, weigh = torch.tensor([[2, 0, 2], [3, 2, 2]]), torch.randint(9, (2, 3, 3)).float()
    one, other = rows(mine, indices), torch.nn.functional.embedding(indices, theirs)
    (one * weigh).sum().backward()
    (other * weigh).sum().backward()
    assert torch.equal(one, other) and torch.equal(mine.grad, theirs.grad)


def test_adafactor_is_torchs():
    """While 1/√step is larger than the rate the two are one; torch's has a smallest rate besides."""
    torch.manual_seed(0)
    shapes = [(130, 140), (130, 140), (7,), (140, 130)]
    mine, theirs = ([torch.nn.Parameter(torch.randn(shape) / 3) for shape in shapes] for _ in range(2))
    for a, b in zip(mine, theirs):
        b.data.copy_(a.data)
    one, other = Adafactor(mine, lr=0.01), torch.optim.Adafactor(theirs, lr=0.01)
    for _ in range(5):
        for a, b in zip(mine, theirs):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        one.step()
        other.step()
    for a, b in zip(mine, theirs):
        assert torch.allclose(a, b, atol=2e-5)


SCRIPT = """
import sys, torch, kleene as kl
torch.set_num_threads(1)
words = [[2, *map(int, f"{n:06b}")] for n in range(64)]
kind = sys.argv[2]
options = {"trace": dict(width=32, batch=32),
           "end-to-end": dict(width=16, hidden=32, layers=2, batch=16, read="last")}[kind]
net = kl.learn(kl.library.parity_relative, words, supervision=kind, steps=300, every=10, folder=sys.argv[1],
               save_seconds=0, device="cpu", **options)
net.save(sys.argv[1] + "-net")
"""


@pytest.mark.parametrize("kind", ["trace", pytest.param("end-to-end", marks=pytest.mark.slow)])
def test_a_run_that_is_killed_ends_as_one_that_is_not(tmp_path, kind):
    def start(folder: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / folder), kind], env=environment)

    assert start("whole").wait() == 0
    kills = 0
    for wanted in (20, 140) if kind == "end-to-end" else (70,):  # killed when so many steps are seen, wherever it is
        running = start("killed")
        while running.poll() is None and _steps(tmp_path / "killed") < wanted:
            time.sleep(0.005)
        if running.poll() is None:
            running.send_signal(signal.SIGKILL)
            kills += 1
        running.wait()
    assert kills >= 1
    assert start("killed").wait() == 0
    files = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "killed")]
    assert files[0] == files[1] and len(files[0].splitlines()) == 30
    name = "mlp.safetensors" if kind == "trace" else "weights.safetensors"
    weights = [(tmp_path / f"{run}-net" / name).read_bytes() for run in ("whole", "killed")]
    assert weights[0] == weights[1]


def _steps(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return json.loads(lines[-1])["step"] if lines and lines[-1].endswith("}") else 0


def test_it_stops_at_its_target():
    net = kl.learn(parity, SHORT, steps=5_000, every=50, target=1.0)
    assert net.metrics[-1]["step"] < 5_000 and net.metrics[-1]["accuracy_noisy"] == 1.0


def test_what_cannot_be_learned_is_said():
    with pytest.raises(kl.InputError, match="supervision 'magic'"):
        kl.learn(parity, SHORT, supervision="magic")
    with pytest.raises(kl.InputError, match="no inputs"):
        kl.learn(parity, [], supervision="end-to-end")
    with pytest.raises(kl.InputError, match="read='first'"):
        kl.learn(parity, SHORT, supervision="end-to-end", read="first")
    with pytest.raises(kl.NotSupported, match="optimiser 'sgd'"):
        kl.learn(parity, SHORT, optimiser="sgd")
    with pytest.raises(kl.InputError, match="rate=-1: a learning rate is above 0"):
        kl.learn(parity, SHORT, rate=-1)
    with pytest.raises(kl.InputError, match="a decoder"):
        kl.learn(kl.library.parity_scratchpad(4), [[1, 2]], supervision="end-to-end")
    with pytest.raises(kl.NotSupported, match="learn"):
        kl.learn(kl.regex("0*", "01"), [])


def test_commands(tmp_path):
    run = CliRunner()
    arguments = ["learn", "trace", "parity_relative", "--steps", "400", "--test-lengths", "10-20", "--random", "50"]
    result = run.invoke(app, [*arguments, "--json", "-o", str(tmp_path / "net")])
    said = json.loads(result.stdout)
    assert (result.exit_code == 0) == (said["right"] == 1.0) and said["test"] > 0.9
    assert kl.load(tmp_path / "net").run([2, 1, 1]) == [0, 1, 0]
    result = run.invoke(app, ["learn", "end-to-end", "parity_relative", "--steps", "2", "--input", "1101"])
    assert result.exit_code in (0, 1) and "training inputs" in result.stdout


# --- a folder belongs to one program and its inputs ---------------------------------------------------------


def running_xor(flip: int) -> type:
    """Two programs with one name that differ in their body."""

    class running(Parity):
        def step(z):
            if not z.done and z.done_left:
                z.parity = (z.parity_left + z.parity + flip) % 2
                z.done = 1

    return running


SMALL = {"supervision": "end-to-end", "layers": 1, "width": 16, "hidden": 16, "heads": 1}


@pytest.mark.parametrize("options", [{}, SMALL])
def test_a_folder_belongs_to_one_program_and_its_inputs(tmp_path, options):
    kl.learn(running_xor(0), SHORT, steps=10, folder=tmp_path, **options)
    with pytest.raises(kl.InputError, match="holds another run"):
        kl.learn(running_xor(1), SHORT, steps=10, folder=tmp_path, **options)
    with pytest.raises(kl.InputError, match="holds another run"):
        kl.learn(running_xor(0), SHORT[:8], steps=10, folder=tmp_path, **options)


def test_more_steps_go_on(tmp_path):
    kl.learn(parity, SHORT, steps=40, folder=tmp_path)
    longer = kl.learn(parity, SHORT, steps=100, folder=tmp_path)
    whole = kl.learn(parity, SHORT, steps=100)
    assert longer.metrics[-1]["step"] == 100
    assert all(torch.equal(a, b) for a, b in zip(longer.mlp.parameters(), whole.mlp.parameters()))


def test_a_short_training_has_a_checkpoint_after_its_first_evaluation(tmp_path, monkeypatch):
    from kleene.training import loop

    seen, saving = [], loop._Checkpoints.save

    def save(self, model, optimiser, run):
        seen.append(run.step)
        saving(self, model, optimiser, run)

    monkeypatch.setattr(loop._Checkpoints, "save", save)
    kl.learn(parity, SHORT, steps=40, every=10, folder=tmp_path, save_seconds=3600)
    assert seen == [10, 40]


@pytest.mark.parametrize("positions", ["relative", "absolute"])
@pytest.mark.parametrize("decodes", [False, True])
def test_examples_that_share_a_row_of_attention_are_computed_apart(positions, decodes, monkeypatch):
    """On a GPU several examples fill the tile of a kernel: logits, layers and gradients are those of each alone."""
    torch.manual_seed(0)
    config = StandardConfig(
        5, 3, width=8, hidden=8, heads=2, head_size=4, layers=2, positions=positions, max_length=6,
        target_tokens=4 if decodes else None,
    )  # fmt: skip
    net = StandardTransformer(config).double()
    tokens, real = torch.randint(5, (7, 6)), torch.arange(6) < torch.tensor([6, 1, 3, 6, 2, 5, 4])[:, None]
    heard = torch.randint(4, (7, 9)) if decodes else None

    def outcome():
        net.zero_grad()
        layers = []
        logits = net(tokens, real, heard, watch=layers)
        shown = logits if decodes else logits[real]
        shown.square().sum().backward()
        return [shown, *(layer[real] for layer in layers), *(p.grad.clone() for p in net.parameters())]

    alone = outcome()
    for count in (2, 3, 7, 20):
        monkeypatch.setattr(encoder_decoder, "examples_in_a_row", lambda _, count=count: count)
        together = outcome()
        assert len(alone) == len(together)
        for one, other in zip(alone, together):
            assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)
