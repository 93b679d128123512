"""Stock models without Kleene: an environment with torch and transformers loads, tokenizes and generates the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kleene as kl
from clean_environment import run_clean
from stock_programs import FAMILIES

PARITY = "1RB1RZ_1LB0RC_1LC1LA"

# name → (program, longest sequence, prompts)
DECODERS: dict[str, tuple[Any, int, list[str]]] = {
    "addition": (kl.library.addition_decoder(3), 12, ["123+456=", "999+001="]),
    "long_addition": (kl.library.long_addition_decoder(20), 20, ["95+7=", "1+999="]),
    "multiplication": (kl.library.multiplication_decoder(2), 12, ["12*34=", "99*99="]),
    "calculator": (kl.library.calculator_decoder(2, 62), 62, ["2*(3-14)=", "-7=", "12*4="]),
    "scan": (kl.library.scan_decoder(), 60, ["jump twice and look left =", "turn opposite right ="]),
    "parity": (kl.library.parity_decoder(16), 18, ["0110=", "1=", "111="]),
    "copy": (kl.library.copy_decoder("abc", 16), 18, ["abca=", "c="]),
    "reverse": (kl.library.reverse_decoder("abc", 16), 18, ["abca=", "c="]),
    "sort": (kl.library.sort_decoder(4, 12), 14, ["3120=", "0="]),
    "dyck": (kl.library.dyck_decoder(16), 18, ["([", "()[("]),
    "regex": (kl.library.regex_decoder("(ab|ba)*c", 16), 18, ["abb", "b"]),
    "turing": (kl.library.turing_decoder(PARITY, 32), 32, [":", ": B,1,R B,1,L"]),
}

SCRIPT = """
import importlib.util, json, sys
assert importlib.util.find_spec("kleene") is None
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging
logging.disable_progress_bar()
torch.set_num_threads(1)
found = {}
for case in json.loads(sys.argv[1]):
    answers = []
    tokenizer = AutoTokenizer.from_pretrained(case["folder"])
    assert tokenizer.is_fast
    for attention in ("eager", "sdpa"):
        model = AutoModelForCausalLM.from_pretrained(case["folder"], attn_implementation=attention)
        assert type(model).__name__ == case["class"] and type(model).__module__.startswith("transformers.models.")
        for cached in (True, False):
            together = tokenizer(case["prompts"], return_tensors="pt", padding=True)
            inputs = [together, *(tokenizer([prompt], return_tensors="pt") for prompt in case["prompts"])]
            for part in inputs:
                part.pop("token_type_ids", None)
                made = model.generate(**part, use_cache=cached)[:, part["input_ids"].shape[1] :]
                answers.append(tokenizer.batch_decode(made, skip_special_tokens=True))
    found[case["folder"]] = answers
print(json.dumps(found))
"""


def cases(names: list[tuple[str, str]], folder: Path) -> list[dict[str, Any]]:
    """Compile and save; what the other environment is asked, and what the interpreter says."""
    made = []
    for name, family in names:
        program, length, prompts = DECODERS[name]
        place = folder / f"{name}-{family}"
        net = kl.compile(program, to=family, length=length)  # type: ignore[call-overload]
        net.save(place)
        right = [program.decode(program.run(program.encode(prompt))) for prompt in prompts]
        made.append({"folder": str(place), "prompts": prompts, "class": net.config["architectures"][0], "right": right})
    return made


def check(asked: list[dict[str, Any]]) -> None:
    found = json.loads(run_clean(SCRIPT, json.dumps([{k: v for k, v in c.items() if k != "right"} for c in asked])))
    for case in asked:
        for answers in found[case["folder"]]:
            plain = [answer.replace(";", "").strip() for answer in answers]
            several = len(plain) == len(case["right"])
            assert plain == case["right"] if several else plain[0] in case["right"], case["folder"]
        singles = [a[0].replace(";", "").strip() for a in found[case["folder"]] if len(a) == 1]
        if len(case["right"]) > 1:
            assert singles == case["right"] * 4, case["folder"]


def test_every_class(tmp_path: Path) -> None:
    """Eager and sdpa, with and without the cache, in a batch with left padding and alone: all equal."""
    names = [*(("addition", family) for family in FAMILIES), ("regex", "llama"), ("dyck", "gpt2")]
    check(cases(names, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_decoder_in_every_class(family: str, tmp_path: Path) -> None:
    check(cases([(name, family) for name in DECODERS], tmp_path))


def test_the_environment_lacks_everything_else() -> None:
    names = run_clean(
        "import importlib.util, json\n"
        "names = ['kleene', 'numba', 'matplotlib', 'pytest', 'torch', 'transformers']\n"
        "print(json.dumps([n for n in names if importlib.util.find_spec(n) is not None]))"
    )
    assert json.loads(names) == ["torch", "transformers"]


def test_changed_folders_are_refused_in_one_line(tmp_path: Path) -> None:
    kl.compile(DECODERS["parity"][0], to="llama", length=8).save(tmp_path / "parity")
    for name, change in (
        ("config.json", lambda content: [content]),
        ("config.json", lambda content: {**content, "num_attention_heads": 0}),
        ("config.json", lambda content: {key: content[key] for key in content if key != "hidden_size"}),
        ("kleene.json", lambda content: {**content, "family": "gpt2"}),
        ("kleene.json", lambda content: {**content, "claim": {}}),
    ):
        path = tmp_path / "parity" / name
        text = path.read_text(encoding="utf-8")
        path.write_text(json.dumps(change(json.loads(text))), encoding="utf-8")
        with pytest.raises(kl.FileError, match="not a description of a stock model"):
            kl.load(tmp_path / "parity")
        path.write_text(text, encoding="utf-8")
    for name, key, value in (
        ("generation_config.json", "num_beams", 2),
        ("generation_config.json", "max_new_tokens", 9),
        ("tokenizer.json", "normalizer", {"type": "Lowercase"}),
        ("tokenizer_config.json", "padding_side", "right"),
    ):
        path = tmp_path / "parity" / name
        text = path.read_text(encoding="utf-8")
        path.write_text(json.dumps({**json.loads(text), key: value}), encoding="utf-8")
        with pytest.raises(kl.FileError, match="differs from what is saved with this program"):
            kl.load(tmp_path / "parity")
        path.write_text(text, encoding="utf-8")
    assert kl.load(tmp_path / "parity", kl.StockModel).run("011=").text == "0"


def test_unknown_symbols_are_padding(tmp_path: Path) -> None:
    kl.compile(DECODERS["parity"][0], to="llama", length=8).save(tmp_path / "parity")
    script = (
        "from transformers import AutoTokenizer\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "print(tokenizer('01=')['input_ids'], tokenizer('0x1=')['input_ids'])"
    )
    assert run_clean(script, str(tmp_path / "parity")).strip() == "[4, 0, 1, 2] [4, 0, 5, 1, 2]"
