"""The calculator in stock models: every expression of up to 5 characters, and random longer ones.

    python -m benchmarks.stock_calculator --device cuda --json stock_calculator.json

Every token that a model writes is compared with the lines of `lines_of`, which replaces text, and the last line with
the value that Python gives. Rows count expressions, tokens and those that are wrong, for each class and number format.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import torch

import kleene as kl
from benchmarks.stock_models import FAMILIES, generate
from kleene.library.calculator import SYMBOLS, lines_of, random_expression


@cache
def expressions(size: int) -> tuple[str, ...]:
    """Every well-formed expression of exactly this many characters."""
    joined = (
        f"{left}{sign}{right}"
        for first in range(1, size - 1)
        for left, sign, right in product(operands(first), "+-*", expressions(size - 1 - first))
    )
    return (*operands(size), *joined)


@cache
def operands(size: int) -> tuple[str, ...]:
    """Numbers, with or without a sign, and brackets, of exactly this many characters."""
    digits = ["".join(chosen) for chosen in product("0123456789", repeat=size)]
    signed = [f"-{''.join(chosen)}" for chosen in product("0123456789", repeat=size - 1)] if size > 1 else []
    inside = expressions(size - 2) if size > 2 else ()
    return (*digits, *signed, *(f"({text})" for text in inside))


def random_ones(count: int, longest: int, digits: int, length: int, seed: int = 0) -> list[str]:
    """Random expressions of more than 5 characters, all of whose numbers and lines fit."""
    chance, found = Random(seed), []
    while len(found) < count:
        text = random_expression(chance, chance.randrange(6, longest + 1))
        lines = lines_of(text, digits)
        if len(text) > 5 and lines[-1] != "?" and len("=".join([text, *lines])) + 1 <= length:
            found.append(text)
    return found


Case = tuple[str, str]  # an expression with its `=`, and what is to be written after it


def cases_of(texts: list[str], digits: int, length: int) -> list[Case]:
    """What the calculator has to write after each expression; its last line is the value that Python gives."""
    cases = []
    for text in texts:
        lines = lines_of(text, digits)
        assert lines[-1] == "?" or int(lines[-1]) == eval(plain(text)), text
        cases.append((f"{text}=", "=".join(lines) + ";"))
        assert len("".join(cases[-1])) <= length + 1, text
    return sorted(cases, key=lambda case: (len(case[0]), len(case[1])))


def batches(cases: list[Case], batch: int, room: int) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """Prompts of one length with what is to be written after each, of about one length; `room`: tokens together."""
    start = 0
    while start < len(cases):
        here = [case for case in cases[start : start + batch] if len(case[0]) == len(cases[start][0])]
        while len(here) > 1 and len(here) * len("".join(here[-1])) > room:
            here = here[: max(1, room // len("".join(here[-1])))]
        start += len(here)
        prompts, answers = ([[SYMBOLS.index(c) for c in text] for text in part] for part in zip(*here, strict=True))
        yield prompts, answers


def plain(text: str) -> str:
    """The expression as Python reads it: numbers without leading zeros."""
    return re.sub(r"\d+", lambda found: str(int(found[0])), text)


def measure(net: Any, device: str, form: str, cases: list[Case], batch: int, memory: float) -> dict[str, Any]:
    """Wrong expressions and tokens of one model in one number format. `memory`: bytes of the cache, at most."""
    s = net.sizes
    room = int(memory / (2 * 4 * s.layers * s.heads * s.head_size))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = form == "tf32"
    model = net.model().to(device)
    model = model.to(torch.bfloat16) if form == "bfloat16" else model
    wrong = wrong_tokens = tokens = 0
    values: set[float] = set()
    begin = time.perf_counter()
    for prompts, answers in batches(cases, batch, room):
        steps = max(map(len, answers))
        ids = torch.tensor([[net.first, *prompt] for prompt in prompts], device=device)
        right = torch.tensor([answer + [-1] * (steps - len(answer)) for answer in answers], device=device)
        made, seen = generate(model, ids, steps)
        off = (made != right) & (right >= 0)
        wrong, wrong_tokens = wrong + int(off.any(dim=1).sum()), wrong_tokens + int(off.sum())
        tokens, values = tokens + int((right >= 0).sum()), values | seen
    return {
        "class": net.family,
        "format": form,
        "expressions": len(cases),
        "wrong": wrong,
        "tokens": tokens,
        "wrong tokens": wrong_tokens,
        "logits": sorted(values)[:12],
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Let stock calculators work out expressions, and count wrong ones.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--digits", type=int, default=5)
    parser.add_argument("--length", type=int, default=250)
    parser.add_argument("--random", type=int, default=100_000, help="expressions of 6 to --longest characters")
    parser.add_argument("--longest", type=int, default=16)
    parser.add_argument("--short", type=int, default=5, help="every expression of up to so many characters")
    parser.add_argument("--batch", type=int, default=8_000)
    parser.add_argument("--memory", type=float, default=30.0, help="GB that the cache of a batch may take")
    parser.add_argument("--classes", nargs="+", default=FAMILIES)
    parser.add_argument("--formats", nargs="+", default=["float32"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    program = kl.library.calculator_decoder(given.digits, given.length)
    short = [text for size in range(1, given.short + 1) for text in expressions(size)]
    longer = random_ones(given.random, given.longest, given.digits, given.length)
    print(
        f"{len(short):,} expressions of up to {given.short} characters, {len(longer):,} random longer ones", flush=True
    )
    kinds = {k: cases_of(t, given.digits, given.length) for k, t in (("short", short), ("random", longer))}
    found = []
    for family, form in product(given.classes, given.formats):
        dtype: Any = "bfloat16" if form == "bfloat16" and family == "gpt2" else "float32"
        net = kl.compile(program, to=family, length=given.length, dtype=dtype)
        print(net, flush=True)
        for kind, cases in kinds.items():
            row = {"kind": kind, **measure(net, given.device, form, cases, given.batch, given.memory * 1e9)}
            found.append(row)
            print(json.dumps(row), flush=True)
            if given.json is not None:
                given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
