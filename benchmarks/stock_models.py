"""Stock models: sizes, seconds, and every sum of two 3-digit numbers, in the formats of a GPU.

    python -m benchmarks.stock_models --device cuda --json stock_models.json

`rows` is what `make bench` measures: sizes and CPU seconds. The command line generates: for each class and format all
10⁶ sums (5 tokens each), and random copies, whose heads take the latest match. It counts wrong tokens and collects
the values of logits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

import kleene as kl
from benchmarks.measure import Row, cpu_seconds

FAMILIES = ("llama", "gpt2", "phi3", "qwen3")
TORCHWRIGHT = "TorchWright (its README): 29 layers, d = 1,024"


def rows() -> Iterator[Row]:
    """Sizes of 3-digit addition, seconds of compiling and proving."""
    program = kl.library.addition_decoder(3)
    for family in FAMILIES:
        begin = time.process_time()
        net = kl.compile(program, to=family, length=12)  # type: ignore[call-overload]
        seconds = time.process_time() - begin
        s = net.sizes
        name = f"3-digit addition in {family}"
        yield {"name": f"{name}: layers", "ours": s.layers, "at_most": 8, "others": TORCHWRIGHT}
        yield {"name": f"{name}: residual", "ours": s.residual, "at_most": 256, "others": TORCHWRIGHT}
        yield {"name": f"{name}: bytes", "ours": s.bytes, "at_most": 2_000_000}
        yield {"name": f"{name}: compile", "ours": seconds, "unit": "s"}
        yield {"name": f"{name}: certify", "ours": cpu_seconds(partial(kl.certify, net)), "unit": "s"}


@torch.no_grad()
def generate(model: Any, ids: torch.Tensor, steps: int) -> tuple[torch.Tensor, set[float]]:
    """Greedy decoding with the cache; the tokens, and every value that a logit of the last position has."""
    cache, fresh, made, seen = None, ids, [], set()
    for _ in range(steps):
        out = model(fresh, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, logits = out.past_key_values, out.logits[:, -1].float()
        seen |= {*logits.unique()[:64].tolist()}
        fresh = logits.argmax(dim=-1, keepdim=True)
        made.append(fresh)
    return torch.cat(made, dim=1), seen


def sums(first: int, device: str, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts `abc+def=` and what follows them, for pairs start … stop of the 10⁶."""
    number = torch.arange(start, stop, device=device)
    a, b = number // 1000, number % 1000
    digits = torch.tensor([100, 10, 1], device=device)
    sign, equals, end = (torch.full((len(number), 1), t, device=device) for t in (10, 11, 12))
    front = torch.full((len(number), 1), first, device=device)
    prompt = torch.cat([front, a[:, None] // digits % 10, sign, b[:, None] // digits % 10, equals], dim=1)
    answer = (a + b)[:, None] // torch.tensor([1000, 100, 10, 1], device=device) % 10
    return prompt, torch.cat([answer, end], dim=1)


def copies(net: Any, device: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts of 28 random symbols and `=`, and their copies."""
    symbols = torch.randint(0, 8, (count, 28), generator=torch.Generator().manual_seed(0)).to(device)
    front, equals, end = (torch.full((count, 1), t, device=device) for t in (net.first, 8, 9))
    return torch.cat([front, symbols, equals], dim=1), torch.cat([symbols, end], dim=1)


def measure(net: Any, device: str, form: str, pairs: int, batch: int, attention: str = "sdpa") -> dict[str, Any]:
    """Wrong tokens of one model in one number format."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = form == "tf32"
    model = net.model(attention=attention).to(device)
    model = model.to(torch.bfloat16) if form == "bfloat16" else model
    wrong = tokens = 0
    values: set[float] = set()
    begin = time.perf_counter()
    adds = net.name == "addition_decoder"
    for start in range(0, pairs, batch):
        prompt, right = (
            sums(net.first, device, start, min(pairs, start + batch)) if adds else copies(net, device, batch)
        )
        made, seen = generate(model, prompt, right.shape[1])
        wrong, tokens, values = wrong + int((made != right).sum()), tokens + right.numel(), values | seen
    return {
        "class": net.family,
        "program": net.name,
        "format": form,
        "attention": attention,
        "tokens": tokens,
        "wrong": wrong,
        "logits": sorted(values)[:12],
        "seconds": round(time.perf_counter() - begin, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate with stock models and count wrong tokens.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--classes", nargs="+", default=FAMILIES)
    parser.add_argument("--formats", nargs="+", help="float32, tf32, bfloat16; by default all that the device has")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    formats = given.formats or ("float32", *(("tf32",) if given.device != "cpu" else ()), "bfloat16")
    for program, length, pairs in (
        (kl.library.addition_decoder(3), 12, given.pairs),
        (kl.library.copy_decoder("abcdefgh", 64), 64, min(given.pairs, given.batch)),
    ):
        for family in given.classes:
            for form in formats:
                dtype: Any = "bfloat16" if form == "bfloat16" and family == "gpt2" else "float32"
                net = kl.compile(program, to=family, length=length, dtype=dtype)
                proved = kl.certify(net, dtype="bfloat16" if form == "bfloat16" else "float32").holds
                row = {**measure(net, given.device, form, pairs, given.batch), "certified": proved and form != "tf32"}
                found.append(row)
                print(json.dumps(row), flush=True)
                if given.json is not None:
                    given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    net = kl.compile(kl.library.addition_decoder(3), to="llama", length=12)
    print(json.dumps(measure(net, given.device, "float32", min(given.pairs, 200_000), given.batch, "eager")))


if __name__ == "__main__":
    main()
