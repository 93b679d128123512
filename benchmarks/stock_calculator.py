"""The calculator in stock models: every expression of up to 5 characters, and random longer ones.

    python -m benchmarks.stock_calculator --device cuda --json stock_calculator.json

Every token that a model writes is compared with the lines of `lines_of`, which replaces text, and the last line with
the value that Python gives. Rows count expressions, tokens and those that are wrong, for each class and number format.

    python -m benchmarks.stock_calculator --along --classes llama

`--along` is for a CPU: it feeds each expression with its right answer, and compares the largest logit at every place
with the next token. Greedy decoding writes the answer exactly where all of them agree. Rows and columns of weights that
are zero are left out of the products: what is left is multiplied as before, and `same_logits` compares the logits with
those of the whole weights.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator
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


def without_zeros(model: Any) -> None:
    """Leave rows and columns of zeros out of the products of a model."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.forward = product_of(module.weight.detach(), None)
        elif type(module).__name__ == "Conv1D":  # the linear layer of GPT-2
            module.forward = product_of(module.weight.detach().T, module.bias.detach())


def product_of(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    """A linear function, computed from the rows and columns of its weight that are not zero."""
    rows, columns = (weight.any(dim=dim).nonzero().flatten() for dim in (1, 0))
    small = weight[rows][:, columns].contiguous()

    def product(x: torch.Tensor) -> torch.Tensor:
        made = x.new_zeros(*x.shape[:-1], len(weight))
        if len(rows):
            made.index_copy_(-1, rows, torch.nn.functional.linear(x.index_select(-1, columns), small))
        return made if bias is None else made + bias

    return product


@torch.no_grad()
def same_logits(net: Any, cases: list[Case]) -> bool:
    """Whether a model without its zeros gives the same logits, bit for bit."""
    whole, lean = net.model(), net.model()
    without_zeros(lean)
    ids = padded(net, cases)[0]
    return all(torch.equal(whole(part).logits, lean(part).logits) for part in ids.split(5))


def padded(net: Any, cases: list[Case]) -> tuple[torch.Tensor, torch.Tensor]:
    """What is fed, and the token that has to follow at each place: −1 inside an expression and after its end."""
    longest = max(len(asked) + len(answer) for asked, answer in cases)
    ids, right = (torch.full((len(cases), longest), filler) for filler in (net.first + 1, -1))
    for row, (asked, answer) in enumerate(cases):
        tokens = [net.first, *(SYMBOLS.index(c) for c in asked + answer)]
        ids[row, : len(tokens) - 1] = torch.tensor(tokens[:-1])
        right[row, len(asked) : len(tokens) - 1] = torch.tensor(tokens[len(asked) + 1 :])
    return ids, right


@torch.no_grad()
def measure_along(net: Any, cases: list[Case], batch: int) -> dict[str, Any]:
    """Wrong expressions and tokens, from the logits along the right answers."""
    model = net.model()
    without_zeros(model)
    wrong = wrong_tokens = tokens = done = 0
    values: set[float] = set()
    begin = time.process_time()
    for start in range(0, len(cases), batch):
        ids, right = padded(net, cases[start : start + batch])
        asked = right >= 0
        logits = model(ids).logits[asked]
        off = torch.zeros_like(asked)
        off[asked] = logits.argmax(dim=-1) != right[asked]
        wrong, wrong_tokens = wrong + int(off.any(dim=1).sum()), wrong_tokens + int(off.sum())
        tokens, values, done = tokens + int(asked.sum()), values | {*logits.unique()[:64].tolist()}, done + len(ids)
        if start // batch % 200 == 199:
            print(f"{done:,} expressions, {wrong} wrong, {time.process_time() - begin:.0f} s", flush=True)
    return {
        "class": net.family,
        "format": "float32",
        "expressions": len(cases),
        "wrong": wrong,
        "tokens": tokens,
        "wrong tokens": wrong_tokens,
        "logits": sorted(values)[:12],
        "CPU seconds": round(time.process_time() - begin, 1),
    }


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
    parser.add_argument("--part", default="0/1", help="K/N: the part K of N random parts of all expressions, K from 0")
    parser.add_argument("--batch", type=int, default=8_000)
    parser.add_argument("--memory", type=float, default=30.0, help="GB that the cache of a batch may take")
    parser.add_argument("--classes", nargs="+", default=FAMILIES)
    parser.add_argument("--formats", nargs="+", default=["float32"])
    parser.add_argument("--along", action="store_true", help="compare along the right answers, without zeros")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    program = kl.library.calculator_decoder(given.digits, given.length)
    short = [text for size in range(1, given.short + 1) for text in expressions(size)]
    longer = random_ones(given.random, given.longest, given.digits, given.length)
    part, parts = map(int, given.part.split("/"))
    short, longer = (Random(0).sample(texts, len(texts))[part::parts] for texts in (short, longer))
    print(
        f"{len(short):,} expressions of up to {given.short} characters, {len(longer):,} random longer ones", flush=True
    )
    kinds = {k: cases_of(t, given.digits, given.length) for k, t in (("short", short), ("random", longer))}
    found = []
    for family, form in product(given.classes, given.formats):
        dtype: Any = "bfloat16" if form == "bfloat16" and family == "gpt2" else "float32"
        net = kl.compile(program, to=family, length=given.length, dtype=dtype)
        print(net, flush=True)
        if given.along:
            some = Random(0).sample([*kinds["short"], *kinds["random"]], min(50, len(short) + len(longer)))
            print(f"the same logits on {len(some)} expressions: {same_logits(net, some)}", flush=True)
        for kind, cases in kinds.items():
            found_here = (
                measure_along(net, cases, min(given.batch, 64))
                if given.along
                else measure(net, given.device, form, cases, given.batch, given.memory * 1e9)
            )
            row = {"kind": kind, **found_here}
            found.append(row)
            print(json.dumps(row), flush=True)
            if given.json is not None:
                given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
