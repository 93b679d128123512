"""Methods that explain a network's answer on a word, behind one interface; and null methods, which ignore the network.

A method is a function of a `Reading` (a network on one word) and a random generator. It gives one number per symbol
(`TOKENS`), or one per pair of symbols (`PAIRS`, a symmetric matrix). A method for nodes (`NODES`) or edges (`EDGES`) is
a function of a `CircuitGraph`, a transformer on some inputs (`kleene.evidence.circuit_methods`). A new method is one
function; if it does not apply to a network, such as attention to an RNN, it gives None:

    @tokens("loudest")
    def loudest(reading, rng):
        return reading.vectors[reading.first :].abs().sum(-1).numpy()
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kleene.errors import InputError
from kleene.evidence.interdependence import ratio
from kleene.evidence.parted import RULES
from kleene.evidence.readings import Array
from kleene.evidence.readings import Reading as Reading

STEPS = 32  # of a path integral


Method = Callable[[Any, np.random.Generator], Array | None]  # of a `Reading`, or for nodes and edges a `CircuitGraph`
TOKENS: dict[str, Method] = {}
PAIRS: dict[str, Method] = {}
NODES: dict[str, Method] = {}
EDGES: dict[str, Method] = {}


def _register(methods: dict[str, Method], name: str) -> Callable[[Method], Method]:
    def register(method: Method) -> Method:
        known = methods.get(name, method)
        if known is not method and _place(known) != _place(method):
            raise InputError(f"method {name!r}: there is one of this name; choose another")
        methods[name] = method
        return method

    return register


def _place(method: Method) -> tuple[str, str]:
    """The file and the name of a function, which stay the same where a file is loaded twice."""
    code = getattr(method, "__code__", None)
    return getattr(code, "co_filename", ""), getattr(method, "__qualname__", "")


def tokens(name: str) -> Callable[[Method], Method]:
    """Register a method that gives one number per symbol."""
    return _register(TOKENS, name)


def pairs(name: str) -> Callable[[Method], Method]:
    """Register a method that gives one number per pair of symbols."""
    return _register(PAIRS, name)


def nodes(name: str) -> Callable[[Method], Method]:
    """Register a method that gives one number per node of a transformer."""
    return _register(NODES, name)


def edges(name: str) -> Callable[[Method], Method]:
    """Register a method that gives one number per edge of a transformer."""
    return _register(EDGES, name)


KINDS = (("tokens", TOKENS), ("pairs", PAIRS), ("nodes", NODES), ("edges", EDGES))


def method_named(name: str) -> list[tuple[str, Method]]:
    """The methods of a name: ("tokens", "pairs", "nodes" or "edges", function).

    `module:function` and `file.py:function` are registered functions of a user.
    """
    found = [(kind, methods[name]) for kind, methods in KINDS if name in methods]
    if not found and is_foreign(name):
        return _foreign(name)
    if not found:
        every = list(dict.fromkeys(one for _, methods in KINDS for one in methods))
        close = [one for one in every if name.lower() in one] or get_close_matches(name, every, n=3)
        said = (
            f"did you mean {' or '.join(map(repr, close))}?"
            if close
            else f"choose one of {'; '.join(every)}; or module:function for one of yours"
        )
        raise InputError(f"method {name!r}: unknown; {said}")
    return found


def is_foreign(name: str) -> bool:
    """Whether a name is that of a user's function: `module:function` or `file.py:function`."""
    return re.fullmatch(r"(.+\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):[^\W\d]\w*", name) is not None


def _foreign(name: str) -> list[tuple[str, Method]]:
    place, _, function = name.rpartition(":")
    method = getattr(foreign_module(place), function, None)
    if method is None:
        raise InputError(f"method {name!r}: {place} has no {function}")
    found = [
        (kind, method) for kind, methods in KINDS if any(_place(one) == _place(method) for one in methods.values())
    ]
    if not found:
        raise InputError(
            f"method {name!r}: not registered; write @tokens({function!r}) above it, or pairs, nodes or edges, of "
            "kleene.evidence.methods"
        )
    return found


@cache
def foreign_module(place: str) -> Any:
    """A user's module or Python file; modules are also looked for in the working folder."""
    sys.path.insert(0, str(Path.cwd() if not place.endswith(".py") else Path(place).resolve().parent))
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(f"kleene_methods_{Path(place).stem}", place)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{place}: cannot be imported ({type(error).__name__}: {error})") from None
    finally:
        sys.path.pop(0)


# --- nulls ------------------------------------------------------------------------------------------------


@tokens("random")
def _random(reading: Reading, rng: np.random.Generator) -> Array:
    return rng.standard_normal(len(reading))


@tokens("position")
def _position(reading: Reading, rng: np.random.Generator) -> Array:
    return np.arange(len(reading), dtype=float)


@pairs("random")
def _random_pairs(reading: Reading, rng: np.random.Generator) -> Array:
    drawn = np.triu(rng.standard_normal((len(reading), len(reading))), 1)
    return np.asarray(drawn + drawn.T)


@pairs("nearness")
def _nearness(reading: Reading, rng: np.random.Generator) -> Array:
    places = np.arange(len(reading))
    return np.asarray(len(reading) - np.abs(places[:, None] - places[None, :]), dtype=float)


@pairs("position")
def _lateness(reading: Reading, rng: np.random.Generator) -> Array:
    places = np.arange(len(reading), dtype=float)
    return np.asarray(np.maximum(places[:, None], places[None, :]))


# --- gradients --------------------------------------------------------------------------------------------


def _gradient(reading: Reading, vectors: Tensor) -> Tensor:
    points = vectors.clone().requires_grad_()
    (found,) = torch.autograd.grad(reading.output(points).sum(), points)
    return found


def mean_symbol(reading: Reading) -> Tensor:
    """The word's vectors, each replaced by the mean of all symbols."""
    base = reading.vectors.clone()
    base[reading.first :] = 0
    base[reading.first :, : reading.symbols] = 1 / reading.symbols
    return base


def _integrated(reading: Reading, base: Tensor) -> Array:
    at = ((torch.arange(STEPS, dtype=torch.float64) + 0.5) / STEPS)[:, None, None]
    change = reading.vectors - base
    slope = _gradient(reading, base + at * change).mean(0)
    found: Array = (slope * change).sum(-1)[reading.first :].numpy()
    return found


@tokens("gradient x input")
def _gradient_times_input(reading: Reading, rng: np.random.Generator) -> Array:
    found: Array = (_gradient(reading, reading.vectors[None])[0] * reading.vectors).sum(-1)[reading.first :].numpy()
    return found


@tokens("integrated gradients")
def _integrated_zero(reading: Reading, rng: np.random.Generator) -> Array:
    base = reading.vectors.clone()
    base[reading.first :] = 0
    return _integrated(reading, base)


@tokens("integrated gradients, mean symbol")
def _integrated_mean(reading: Reading, rng: np.random.Generator) -> Array:
    return _integrated(reading, mean_symbol(reading))


@tokens("attribution patching")
def _attribution_patching(reading: Reading, rng: np.random.Generator) -> Array:
    """The effect of a symbol compared with the mean of all symbols, to first order."""
    slope = _gradient(reading, reading.vectors[None])[0]
    found: Array = (slope * (reading.vectors - mean_symbol(reading))).sum(-1)[reading.first :].numpy()
    return found


@pairs("hessian x input")
def _hessian(reading: Reading, rng: np.random.Generator) -> Array:
    points = reading.vectors[None].clone().requires_grad_()
    (slope,) = torch.autograd.grad(reading.output(points).sum(), points, create_graph=True)
    effects = (slope * reading.vectors).sum(-1)[0]
    rows = []
    for effect in effects[reading.first :]:
        (again,) = torch.autograd.grad(effect, points, retain_graph=True, allow_unused=True)
        row = torch.zeros_like(effects) if again is None else (again[0] * reading.vectors).sum(-1)
        rows.append(row[reading.first :].detach())
    found = torch.stack(rows).numpy()
    return (found + found.T) / 2  # type: ignore[no-any-return]


# --- occlusion --------------------------------------------------------------------------------------------


@tokens("occlusion by zero")
def _occlusion_zero(reading: Reading, rng: np.random.Generator) -> Array:
    without = reading.vectors.repeat(len(reading), 1, 1)
    for place in range(len(reading)):
        without[place, place + reading.first] = 0
    with torch.no_grad():
        found: Array = (reading.output(reading.vectors[None]) - reading.output(without)).numpy()
    return found


@tokens("occlusion by resampling")
def _occlusion(reading: Reading, rng: np.random.Generator) -> Array:
    """Activation patching of the input: the output minus its mean over drawn symbols."""
    words = np.concatenate([np.array([reading.codes])] + [reading.drawn(i) for i in range(len(reading))])
    found = reading.outputs_of(words)
    return np.asarray(found[0] - found[1:].reshape(len(reading), -1).mean(1))


@pairs("occlusion by resampling")
def _occlusion_pairs(reading: Reading, rng: np.random.Generator) -> Array:
    """The output, minus the loss without each symbol, plus the loss without both."""
    size, joined = len(reading), list(combinations(range(len(reading)), 2))
    whole = reading.outputs_of(np.array([reading.codes]))[0]
    singles = reading.outputs_of(np.concatenate([reading.drawn(i) for i in range(size)])).reshape(size, -1).mean(1)
    both = reading.outputs_of(np.concatenate([reading.drawn(i, j) for i, j in joined])).reshape(len(joined), -1).mean(1)
    found = np.zeros((size, size))
    for (i, j), mean in zip(joined, both):
        found[i, j] = found[j, i] = whole - singles[i] - singles[j] + mean
    return found


ORDERS = 16


@tokens("sampled shapley")
def _sampled(reading: Reading, rng: np.random.Generator) -> Array:
    """Shapley values of the output, from random orders, each with a random word in the background."""
    size, own = len(reading), np.array(reading.codes)
    orders = [rng.permutation(size) for _ in range(ORDERS)]
    words = np.empty((ORDERS, size + 1, size), dtype=np.int64)
    for run, order in zip(words, orders):
        run[:] = rng.integers(reading.symbols, size=size)
        for step, place in enumerate(order):
            run[step + 1 :, place] = own[place]
    outputs = reading.outputs_of(words.reshape(-1, size)).reshape(ORDERS, size + 1)
    total = np.zeros(size)
    for order, run in zip(orders, outputs):
        total[order] += np.diff(run)
    return total / ORDERS


# --- attention --------------------------------------------------------------------------------------------


@tokens("attention rollout")
def _rollout(reading: Reading, rng: np.random.Generator) -> Array | None:
    """How much of each symbol reaches the last position, if a layer keeps one half and mixes the other by attention.

    What a head gives to its null key is lost: the rows are scaled to one.
    """
    if reading.patterns is None:
        return None
    flow = torch.eye(len(reading), dtype=torch.float64)
    for pattern in reading.patterns:
        mixed = pattern.mean(0) + torch.eye(len(reading), dtype=torch.float64)
        flow = mixed / mixed.sum(-1, keepdim=True) @ flow
    found: Array = flow[-1].numpy()
    return found


@tokens("last attention")
def _last_attention(reading: Reading, rng: np.random.Generator) -> Array | None:
    """How the last position attends in the last layer: the mean of the heads."""
    if reading.patterns is None:
        return None
    found: Array = reading.patterns[-1].mean(0)[-1].numpy()
    return found


# --- contextual decomposition -----------------------------------------------------------------------------


def _by_rule(rule: str) -> Method:
    def method(reading: Reading, rng: np.random.Generator) -> Array:
        found: Array = reading.parts_of(torch.eye(len(reading), dtype=torch.bool), rule)[1].numpy()
        return found

    return method


for _rule in RULES:
    tokens(_rule if _rule in ("cd", "murdoch") else f"cd, {_rule}")(_by_rule(_rule))


def _pair_masks(size: int) -> tuple[Tensor, list[tuple[int, int]]]:
    """Each symbol alone, then each pair."""
    joined = list(combinations(range(size), 2))
    singles = torch.eye(size, dtype=torch.bool)
    both = torch.stack([singles[i] | singles[j] for i, j in joined]) if joined else singles[:0]
    return torch.cat([singles, both]), joined


def _interdependence(read: str, rule: str) -> Method:
    def method(reading: Reading, rng: np.random.Generator) -> Array:
        size = len(reading)
        masks, joined = _pair_masks(size)
        hidden = reading.parts_of(masks, rule)[0]
        found, weight = np.zeros((size, size)), reading.weight
        for row, (i, j) in enumerate(joined):
            at = -1 if read == "end" else j + reading.first
            one, other, both = hidden[i, at], hidden[j, at], hidden[size + row, at]
            found[i, j] = found[j, i] = float(ratio(both, one + other, weight))
        return found

    return method


pairs("interdependence")(_interdependence("right", "cd"))
pairs("interdependence, at the end")(_interdependence("end", "cd"))
pairs("interdependence, murdoch")(_interdependence("right", "murdoch"))


@pairs("cd interaction")
def _cd_interaction(reading: Reading, rng: np.random.Generator) -> Array:
    """The joint contribution of two symbols to the output, minus the contribution of each."""
    size = len(reading)
    masks, joined = _pair_masks(size)
    parts = reading.parts_of(masks, "cd")[1].numpy()
    found = np.zeros((size, size))
    for row, (i, j) in enumerate(joined):
        found[i, j] = found[j, i] = parts[size + row] - parts[i] - parts[j]
    return found
