"""The folder for Hugging Face loads where Kleene is not installed, and computes the same numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kleene as kl
from rich_programs import Numbered

pytest.importorskip("transformers")

ALONE = """
import json, sys
sys.modules["kleene"] = None  # importing it fails, as where it is not installed
import torch
from transformers import AutoModel, AutoTokenizer
folder, inputs, texts = json.loads(sys.argv[1])
model = AutoModel.from_pretrained(folder, trust_remote_code=True)
made = []
for tokens in inputs:
    out = model(torch.tensor([tokens]), output_hidden_states=True, output_attentions=True)
    made.append([out.logits.tolist(), int(out.layers[0]), out.hidden_states[1].tolist(), out.attentions[0].tolist()])
told = [AutoTokenizer.from_pretrained(folder, trust_remote_code=True)(text)["input_ids"] for text in texts]
print(json.dumps([made, told, sorted(name for name in sys.modules if name.startswith("kleene."))]))
"""


@pytest.mark.parametrize(
    ("program", "texts"),
    [
        (kl.library.addition, ["34+58", "1+9"]),
        (kl.library.computer(6), []),
        (kl.library.scan, []),
        (kl.library.parity_sum(5), ["1011"]),
        (Numbered, []),
    ],
    ids=lambda thing: getattr(thing, "__name__", ""),
)
def test_it_loads_without_kleene(tmp_path, program, texts):
    from kleene.networks.transformer.hugging_face import as_model

    net = kl.compile(program)
    kl.export(net, "hugging-face", tmp_path / "model")
    inputs = [net.encode(text) for text in texts] or [
        [1, 6, 3]
        if program is Numbered
        else program.encode({"scan": "jump twice"}.get(program.__name__, "9 9 3 10 11 6 0 0 -1 5 3 7"))
    ]
    ran = subprocess.run(
        [sys.executable, "-c", ALONE, json.dumps([str(tmp_path / "model"), inputs, texts])],
        capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False,
        env={**os.environ, "PYTHONPATH": "", "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    made, told, imported = json.loads(ran.stdout.splitlines()[-1])
    assert imported == [] and told == inputs[: len(texts)]
    model = as_model(net)
    for tokens, (logits, layers, stream, attention) in zip(inputs, made):
        ours = model(torch.tensor([tokens]), output_hidden_states=True, output_attentions=True)
        assert (
            torch.equal(torch.tensor(logits), ours.logits) and layers == int(ours.layers[0]) == net.run(tokens).layers
        )
        assert torch.equal(torch.tensor(stream), ours.hidden_states[1])
        assert torch.allclose(torch.tensor(attention), ours.attentions[0])


def test_the_code_needs_nothing_of_kleene():
    source = Path(kl.__file__).parent / "exporters" / "standalone_hugging_face.py"
    imports = [line for line in source.read_text(encoding="utf-8").splitlines() if line.startswith(("import", "from"))]
    assert imports and not any("kleene" in line for line in imports)
