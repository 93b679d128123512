"""Language models: a stack is its models; training resumes; saving, explanations, the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

import kleene as kl
from kleene.cli import app
from kleene.errors import FileError, InputError, NotSupported
from kleene.evidence.corpora import rule_corpus, rule_windows
from kleene.evidence.decomposition import decompose
from kleene.evidence.interdependence import between
from kleene.evidence.rule_probe import gradients, probe
from kleene.evidence.transformer_decomposition import (
    RULES,
    decompose_transformer,
    transformer_interdependence,
)
from kleene.networks.trained.lstm import LanguageModel, Vocabulary
from kleene.networks.trained.transformer_lm import TransformerLanguageModel
from kleene.papers import EXPERIMENTS, experiment, protocol_of
from kleene.training.language_model import Stack, StackPlan, columns, train_stack
from kleene.training.options import Storage

WORDS = Vocabulary(["<unk>", "the", "cat", "sat", "on", "mat", "."])


def stack(models: int = 2, tokens: int = 20, dropout: float = 0.0) -> Stack:
    found = Stack(models, tokens, embedding=7, hidden=6, batch=3, dropout=dropout)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.mul_(3)
    return found


def test_a_stack_has_the_losses_and_gradients_of_its_models() -> None:
    many = stack()
    tokens, zero = torch.randint(20, (9, 2, 3)), torch.zeros(2, 3, 6)
    losses = many.losses(tokens, zero, zero)
    losses.sum().backward()
    for m in range(2):
        one = many.take(m)
        loss = F.cross_entropy(one(tokens[:-1, m].T).flatten(0, 1), tokens[1:, m].T.flatten())
        loss.backward()
        assert abs(loss.item() - losses[m].item()) < 1e-6
        for mine, theirs in (
            (many.recurrent.grad[m].T, one.lstm.weight_hh_l0.grad),
            (many.bias.grad[m], one.lstm.bias_ih_l0.grad),
            (many.input.grad[m].T, one.lstm.weight_ih_l0.grad),
            (many.embedding.grad[m], one.embedding.weight.grad),
            (many.decoder.grad[m].T, one.decoder.weight.grad),
        ):
            assert torch.allclose(mine, theirs, atol=1e-6)


def test_tokens_that_align_rows_have_no_chance() -> None:
    many, hidden, due = stack(), torch.randn(2, 5, 6), torch.randint(20, (10,))

    def outcome(aligned: bool) -> list[torch.Tensor]:
        many.zero_grad()
        logits = many.logits(hidden, aligned)
        assert logits.shape == (2, 5, 32 if aligned else 20)
        loss = F.cross_entropy(logits.flatten(0, 1), due)
        loss.backward()
        assert many.decoder.grad is not None and many.decoder_bias.grad is not None
        return [loss, many.decoder.grad.clone(), many.decoder_bias.grad.clone()]

    for one, other in zip(outcome(True), outcome(False)):
        assert torch.allclose(one, other, atol=1e-6)


def test_clipping_and_rate_are_each_models_own() -> None:
    text = columns([torch.arange(400) % 20, torch.arange(400) % 7], 3)
    together, alone = stack(2, dropout=0.0), stack(2, dropout=0.0)
    train_stack(together, text, StackPlan(1, clip=0.05, bptt=5))
    single = Stack(1, 20, embedding=7, hidden=6, batch=3, dropout=0.0)
    single.put(0, alone.take(1))
    train_stack(single, text[:, 1:], StackPlan(1, clip=0.05, bptt=5))
    for name, value in single.named_parameters():
        assert torch.allclose(getattr(together, name)[1], value[0], atol=1e-6)


def test_training_learns_and_resumes_to_the_same(tmp_path: Path) -> None:
    text = columns([torch.arange(300) % 5], 3)

    def go(folder: Path, epochs: int) -> list[dict[str, object]]:
        torch.manual_seed(0)
        model = Stack(1, 20, embedding=7, hidden=6, batch=3)
        return train_stack(
            model,
            text,
            StackPlan(epochs, rate=5.0, bptt=5, anneal=4.0),
            valid=text,
            storage=Storage(folder=folder),
        ).metrics

    whole = go(tmp_path / "whole", 12)
    go(tmp_path / "stopped", 5)
    assert go(tmp_path / "stopped", 12) == whole
    assert whole[-1]["perplexity"][0] < 0.5 * whole[0]["perplexity"][0]  # type: ignore[index]


def test_probe_is_the_decomposition_of_each_model() -> None:
    corpora = [
        rule_corpus(k, familiar=True, seed=1, tokens=2000, types=18, conduits=4, uses=5, outside=20) for k in (2, 3)
    ]
    windows = [rule_windows(corpus, in_domain=True, seed=2, tokens=175) for corpus in corpora]
    many = stack()
    for m, found in enumerate(probe(many, windows, prefixes=True)):
        one, k, wanted = many.take(m).double(), windows[m].k, []
        for row, start in zip(torch.as_tensor(windows[m].tokens), windows[m].open.tolist()):
            tokens = row[: start + k + 1]
            x = one.vectors(tokens)
            parts = decompose(
                one.lstm, one.decoder, x, [[start], list(range(start + 1, start + k + 1)), [start, start + 1]]
            )
            due = parts.relevant_probabilities[:, -1, 19]
            wanted.append(
                [
                    float(one(tokens[None])[0, -1].softmax(-1)[19].detach()),
                    float(due[0]),
                    float(due[1]),
                    between(one.lstm, one.decoder, x, [start], range(start + 1, start + k + 1)),
                    float(due[2]),
                ]
            )
        mine = [found.whole, found.open, found.conduit, found.interdependence, found.prefixes[1]]
        assert np.allclose(mine, np.mean(wanted, axis=0), rtol=0, atol=1e-12)  # float64
        assert len(found.prefixes) == k + 1
    assert [len(row) for row in gradients(many, windows)] == [3, 4]


def test_gradients_are_those_of_the_summed_error() -> None:
    corpus = rule_corpus(2, familiar=False, seed=1, tokens=500, types=18, conduits=4, uses=5)
    window = rule_windows(corpus, in_domain=True, seed=2, tokens=35)
    many = stack(1)
    one, tokens, start = many.take(0), torch.as_tensor(window.tokens[0]), int(window.open[0])

    def error(nudge: torch.Tensor) -> torch.Tensor:
        """The window's error when the hidden state at α is moved by `nudge`."""
        h = c = torch.zeros(1, 1, 6)
        total = torch.zeros(())
        for t in range(34):
            out, (h, c) = one.lstm(one.embedding(tokens[None, t : t + 1]), (h, c))
            if t == start:
                h = h + nudge
                out = out + nudge
            total = total + F.cross_entropy(one.decoder(out[0]), tokens[t + 1 : t + 2])
        return total

    nudge = torch.zeros(6, requires_grad=True)
    error(nudge).backward()
    assert nudge.grad is not None
    assert abs(float(nudge.grad.norm()) - gradients(many, [window])[0][0]) < 1e-4


def saved(folder: Path) -> LanguageModel:
    torch.manual_seed(0)
    model = LanguageModel(len(WORDS), 5, 6, layers=2, vocabulary=WORDS).eval()
    model.save(folder)
    return model


def test_save_and_load_round_trip(tmp_path: Path) -> None:
    model = saved(tmp_path / "m")
    again = kl.load(tmp_path / "m")
    tokens = torch.tensor([[1, 2, 3]])
    assert torch.equal(model(tokens), again(tokens)) and again.vocabulary.words == WORDS.words
    description = json.loads((tmp_path / "m" / "kleene.json").read_text())
    for change, message in (
        ({"sizes": {"tokens": 3}}, "sizes must have"),
        ({"words": [1]}, "list of strings"),
        ({"words": ["a", "a"]}, "twice"),
        ({"sizes": {**description["sizes"], "hidden": 7}}, r"does not fit \(decoder.weight: .* in the file"),
        ({"sizes": {**description["sizes"], "layers": 900}}, r"does not fit \(lstm.bias_hh_l10: None in the file"),
        ({"sizes": {"tokens": 1, "embedding": 1, "hidden": 1, "layers": 300_000}}, "300,000 layers, more than"),
        ({"sizes": {**description["sizes"], "hidden": 9_000_000}}, "parameters"),
    ):
        (tmp_path / "m" / "kleene.json").write_text(json.dumps({**description, **change}))
        with pytest.raises(FileError, match=message) as error:
            kl.load(tmp_path / "m")
        assert "\n" not in str(error.value)


def test_explanation_adds_up_to_the_logit(tmp_path: Path) -> None:
    model = saved(tmp_path / "m")
    found = kl.explain(model, "the cat sat on the zebra", target="mat")
    logit = float(model(model.encode("the cat sat on the zebra")[None])[0, -1, WORDS.index["mat"]].detach())
    assert abs(sum(found.contributions) + found.bias + found.interactions - logit) < 1e-5
    assert found.unknown == ["zebra"] and found.interdependence.shape == (6, 6)
    text = str(found)
    assert "zebra" in text and "╲" in text and "interactions" in text
    found.to_png(tmp_path / "heat.png")
    assert (tmp_path / "heat.png").read_bytes()[:4] == b"\x89PNG"


def test_words_are_handled_or_refused() -> None:
    plain = LanguageModel(3, 4, 5, vocabulary=Vocabulary(["a", "b", "c"]))
    with pytest.raises(InputError, match="'z': not among the 3 known words, and the vocabulary has no <unk>"):
        kl.explain(plain, "a z")
    with pytest.raises(InputError, match="empty"):
        kl.explain(plain, " ")
    with pytest.raises(InputError, match="target 'q'"):
        kl.explain(plain, "a b", target="q")
    with pytest.raises(InputError, match="no vocabulary"):
        kl.explain(LanguageModel(3, 4, 5), "a")
    with pytest.raises(NotSupported, match="cannot take a Linear"):
        kl.explain(torch.nn.Linear(2, 2), "a")


def test_token_numbers_are_explained(tmp_path: Path) -> None:
    model = saved(tmp_path / "m")
    spelled = kl.explain(model, [WORDS.words[1], WORDS.words[2]])
    for numbers in ([1, 2], np.array([1, 2]), torch.tensor([1, 2])):
        assert kl.explain(model, numbers).words == spelled.words
        assert kl.explain(model, numbers).contributions == spelled.contributions
    plain = LanguageModel(4, 8, 8)
    found = kl.explain(plain, torch.tensor([1, 2]), target="3")
    assert (found.words, found.unknown, found.target) == (["1", "2"], [], "3")
    for wrong, message in (
        ([1, 4], "4 is not a token; tokens are 0 … 3"),
        ([-1], "-1 is not a token"),
        ([1.5], "1.5 is not a token"),
        (torch.tensor([[1, 2]]), r"\[1, 2\] is not a token"),
        ([], "empty"),
    ):
        with pytest.raises(InputError, match=message):
            kl.explain(plain, wrong)
    with pytest.raises(InputError, match="1 among words; give only words, or only token numbers"):
        kl.explain(model, [1, "cat"])
    plain.save(tmp_path / "plain")
    said = CliRunner().invoke(app, ["explain", str(tmp_path / "plain"), "[1,2]", "--json"])
    assert json.loads(said.stdout)["words"] == ["1", "2"]


def test_commands(tmp_path: Path) -> None:
    saved(tmp_path / "m")
    run = CliRunner().invoke
    shown = run(app, ["explain", str(tmp_path / "m"), "the cat", "-o", str(tmp_path / "x.png"), "--json"])
    assert (
        shown.exit_code == 0 and json.loads(shown.stdout)["words"] == ["the", "cat"] and (tmp_path / "x.png").is_file()
    )
    assert run(app, ["explain", str(tmp_path / "m"), "the cat"]).stdout.startswith("next:")
    listed = json.loads(run(app, ["reproduce", "--json"]).stdout)
    assert [experiment["name"] for experiment in listed] == list(EXPERIMENTS)
    for arguments, message in (
        (["reproduce", "x.y"], "unknown; choose one of"),
        (["reproduce", "interdependence.synthetic", "--treebank", "x.conllu"], "reads no treebank"),
        (["reproduce", "interdependence.english"], "KLEENE_DATA"),
        (["explain", str(tmp_path / "none"), "a"], "no such folder"),
        (["explain", str(tmp_path / "m"), ""], "empty"),
    ):
        failed = run(app, arguments, env={"KLEENE_DATA": ""})
        assert failed.exit_code != 0 and message in str(failed.exception)
    for command in ("explain", "reproduce"):
        assert "Example: kleene" in run(app, [command, "--help"]).stdout


def test_transformer_parts_add_up() -> None:
    torch.manual_seed(0)
    model = TransformerLanguageModel(20, width=12, heads=3, layers=2, length=9).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    tokens, masks = torch.randint(20, (8,)), torch.rand(6, 8) < 0.5
    for rule, other in (("alone", "removed"), ("removed", "alone"), ("shared", "shared")):
        whole, part = decompose_transformer(model, tokens, masks, rule)
        rest = decompose_transformer(model, tokens, ~masks, other)[1]
        assert (part + rest - whole).abs().max() < 1e-12
        assert (model.decoder(whole) - model(tokens[None])[0]).abs().max() < 1e-12
        ends = torch.stack([torch.zeros(8, dtype=torch.bool), torch.ones(8, dtype=torch.bool)])
        nothing, everything = decompose_transformer(model, tokens, ends, rule)[1]
        assert nothing.abs().max() < 1e-12 and (everything - whole).abs().max() < 1e-12
        assert decompose_transformer(model, tokens, torch.arange(8) == 5, rule)[1][:5].abs().max() < 1e-12
    (matrix,) = transformer_interdependence(model, [tokens])
    assert torch.equal(matrix, matrix.T) and matrix[0, 1] > 0
    (cancelled,) = transformer_interdependence(model, [tokens], "shared")
    assert cancelled[0, 1] < 1e-12, "shared interactions cancel where a pair is all that was read"
    with pytest.raises(InputError, match="at most 9"):
        decompose_transformer(model, torch.zeros(10, dtype=torch.long), torch.ones(10, dtype=torch.bool))
    with pytest.raises(InputError, match=", ".join(RULES)):
        decompose_transformer(model, tokens, masks[0], "other")


def test_synthetic_experiment_from_end_to_end(tmp_path: Path) -> None:
    first = experiment("interdependence.synthetic")(scale="tiny", folder=tmp_path, progress=False)
    published = json.loads((tmp_path / "synthetic.json").read_text())
    assert {"command", "commit", "device", "seconds", "rows"} <= set(published)
    assert all({"name", "paper", "ours"} <= set(row) for row in published["rows"])
    assert {path.name for path in tmp_path.glob("*.png")} >= {
        "figure5.png",
        "figure11.png",
        "controls.png",
        "figure3_4_6_exact.png",
    }
    again = experiment("interdependence.synthetic")(scale="tiny", folder=tmp_path, progress=False)
    assert again.rows == first.rows  # from the checkpoint, without training


def test_experiments_on_text_from_end_to_end(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    wiki, bank = tmp_path / "data" / "wikitext-2", tmp_path / "data" / "ud-english-ewt"
    wiki.mkdir(parents=True)
    bank.mkdir()
    words = [*(f"w{n}" for n in range(54)), "either", "or", "from", "to", "between", "both", "and"]
    for part, lines in (("train", 500), ("valid", 200)):
        text = "\n".join(" ".join([*random.choice(words, size=12), "."]) for _ in range(lines))
        (wiki / f"{part}.txt").write_text(text, encoding="utf-8")
    rows = []
    for _ in range(40):
        for n in range(1, 13):
            head = 0 if n == 1 else int(random.integers(1, n))
            rows.append(f"{n}\t{random.choice(words)}\t_\t{random.choice(['NOUN', 'DET'])}\t_\t_\t{head}\tdep\t_\t_")
        rows.append("")
    (bank / "en_ewt-ud-test.conllu").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name, files in (
        ("english", {"figure8.png", "figure9.png"}),
        ("natural", {"natural.png"}),
    ):
        result = experiment(f"interdependence.{name}")(
            scale="tiny", data=tmp_path / "data", folder=tmp_path / name, progress=False
        )
        assert len(result.rows) >= 6 and files <= {path.name for path in (tmp_path / name).rglob("*")}
        assert json.loads((tmp_path / name / f"{name}.json").read_text())["rows"] == result.rows
        assert all(row["ours"] != "not run" for row in result.rows)
        raw = {
            path.stem: json.loads(path.read_text())["result"]
            for path in (tmp_path / name / "runs" / "tiny").glob("*.json")
        }
        declared = protocol_of(f"interdependence.{name}")
        assert declared.derive(declared.config("tiny"), raw) == result.rows  # from the raw runs alone


def test_bench_rows_are_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import interdependence as bench

    for name, size in (("WORDS", 5), ("HIDDEN", 8), ("TOKENS", 20)):
        monkeypatch.setattr(bench, name, size)
    monkeypatch.setenv("KLEENE_DATA", "")
    rows = bench.rows()
    assert all({"name", "others", "ours", "unit", "note"} <= set(row) for row in rows)
    assert [row["at_most"] for row in rows if "at_most" in row] == [0.6]
    assert [row["at_least"] for row in rows if "at_least" in row] == [4.0, 4.0]
    assert rows[0]["ours"] > 0 and "CPU s" in rows[0]["unit"]
