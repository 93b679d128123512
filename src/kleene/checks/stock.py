"""Certificates of stock models: the stock checker's proof from the tensors, as the model has them now."""

from __future__ import annotations

import json
from typing import Any

import torch

from kleene.checks.certificates import Certificate, about_words, saved_updates
from kleene.checks.steps import certify_step
from kleene.checks.stock_checker import check_stock
from kleene.checks.stock_tensors import StockSaved
from kleene.decompilers.transformer_to_dfa import described, read_automaton
from kleene.decompilers.transformer_to_turing import read_turing
from kleene.errors import InputError, NotExact, NotSupported
from kleene.machines.program import ProgramClass
from kleene.networks.stock.files import content_of
from kleene.networks.stock.model import StockModel
from kleene.networks.transformer.model import DTYPES


def certify_stock(
    net: StockModel,
    *,
    dtype: str | torch.dtype | None = None,
    program: ProgramClass | None = None,
    layers: int | None = None,
) -> Certificate:
    """Prove a stock model in its own number format, or as if it were converted to `dtype`. With `program`, the
    certificate holds where the saved declarations are the program's and the saved updates do what its `step` does; with
    `layers`, where the model runs so many layers, instead of as many as the program."""
    if layers is not None and program is None:
        raise InputError(f"{net.name}: layers={layers!r} says how program= is run; there is no program=")
    own = str(net.dtype).removeprefix("torch.")
    name = own if dtype is None else str(dtype).removeprefix("torch.")
    if name not in ("float32", "bfloat16"):
        raise NotSupported(f"stock models have certificates in float32 and bfloat16, not {name!r}")
    verdict = check_stock(as_saved(net, name), name)
    reasons = (f"proved: {verdict.statement}", *map(str, verdict.lemmas)) if verdict.holds else (verdict.reason or "",)
    right, words = about_words(net) if verdict.holds else (True, None)
    step = None
    if program is not None and verdict.holds:
        step = certify_step(program, updates=saved_updates(net), layers=layers)
    return Certificate(
        verdict.holds and right and (step is None or step.holds),
        name,
        verdict.max_length,
        reasons,
        net.name,
        verdict.statement,
        verdict.lemmas,
        step,
        words,
    )


def decompile_stock(net: StockModel, *, to: str = "updates") -> Any:
    """The guarded updates that the tensors are proved to compute, or the machine of these updates.

    to: "updates"; "dfa" or "regex" for a model that was compiled from an automaton, "turing" from a Turing machine.
    """
    if to not in ("updates", "dfa", "regex", "turing"):
        raise NotSupported(f"decompile: to={to!r}; it must be 'updates', 'dfa', 'regex' or 'turing'")
    verdict = check_stock(as_saved(net, str(net.dtype).removeprefix("torch.")), str(net.dtype).removeprefix("torch."))
    if not verdict.holds:
        raise NotExact(f"{net.name}: the tensors are not proved to compute the saved updates ({verdict.reason})")
    updates = saved_updates(net)
    if to == "updates":
        return updates
    if to == "turing":
        if "chain" not in net.description:
            raise NotSupported("decompile: to='turing' needs a network of a Turing machine")
        return read_turing(net.description, updates)
    dfa = read_automaton(described(net.description.get("words")), updates).minimise()
    return dfa if to == "dfa" else dfa.to_regex()


def as_saved(net: StockModel, dtype: str) -> StockSaved:
    """What `net.save` would write, with the model's current tensors converted to a number format."""
    content: Any = json.loads(json.dumps(content_of(net, "")))
    tensors = {name: t.detach().cpu().to(DTYPES[dtype]).double().numpy() for name, t in net.tensors.items()}
    return StockSaved(json.loads(json.dumps(net.config)), content, tensors)
