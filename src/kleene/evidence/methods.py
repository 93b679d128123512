"""Methods that explain a network's answer on a word, behind one interface; and null methods, which ignore the network.

A method is a function of a `Reading` (a network on one word) and a random generator. It gives one number per symbol
(`TOKENS`), or one a pair of symbols (`PAIRS`, a symmetric matrix). A method for nodes (`NODES`) or edges (`EDGES`) is a
function of a `CircuitGraph`, a transformer on some inputs (`kleene.evidence.circuit_methods`). A new method is one
function:

    @tokens("loudest")
    def loudest(reading, rng):
        return reading.vectors[1:].abs().sum(-1).numpy()
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kleene.errors import InputError
from kleene.evidence.interdependence import ratio
from kleene.evidence.parted import RULES, Parted
from kleene.networks.rnn.gated import GatedRNN

Array = np.ndarray[Any, Any]
STEPS = 32  # of a path integral


@dataclass(frozen=True)
class Reading:
    """A network that reads words, on one word; computed in float64.

    `recurrent` is a `torch.nn.LSTM` or `GRU`, `out` the read-out; vectors are one-hot, the start symbol's first.
    """

    recurrent: Any
    out: Any
    symbols: int
    codes: tuple[int, ...]

    @staticmethod
    def of(network: GatedRNN, codes: tuple[int, ...]) -> Reading:
        """A word of a network; both modules should be in float64 already."""
        return Reading(network.recurrent, network.out, len(network.alphabet), codes)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def vectors(self) -> Tensor:
        """What the network reads: (time + 1, symbols + 1)."""
        return torch.eye(self.symbols + 1, dtype=torch.float64)[[self.symbols, *self.codes]]

    def output(self, vectors: Tensor) -> Tensor:
        """The output at the end of each sequence of vectors (batch, time + 1, features); it can be differentiated."""
        hidden, _ = self.recurrent(vectors)
        return self.out(hidden[:, -1])[:, 0]  # type: ignore[no-any-return]

    @torch.no_grad()
    def outputs_of(self, words: Array) -> Array:
        """The output of each word of codes (word, position)."""
        start = np.full((len(words), 1), self.symbols)
        codes = torch.from_numpy(np.concatenate([start, words], 1).astype(np.int64))
        found = [self.output(torch.eye(self.symbols + 1, dtype=torch.float64)[part]) for part in codes.split(4096)]
        return torch.cat(found).numpy()

    def drawn(self, *places: int) -> Array:
        """The word with every choice of symbols at some positions: (choices, position)."""
        choices = np.stack(np.meshgrid(*[np.arange(self.symbols)] * len(places), indexing="ij"), -1).reshape(
            -1, len(places)
        )
        words = np.tile(np.array(self.codes), (len(choices), 1))
        words[:, list(places)] = choices
        return words

    @torch.no_grad()
    def parts(self, masks: Tensor, rule: str) -> tuple[Tensor, Tensor]:
        """The focus's part of the hidden states and of the output, for masks over symbols."""
        focus = torch.cat([torch.zeros(len(masks), 1, dtype=torch.bool), masks], 1)[..., None]
        vectors = self.vectors.expand(len(masks), *self.vectors.shape)
        hidden, _ = self.recurrent(Parted.of(vectors, focus * vectors, None, RULES[rule]))
        return hidden.part, hidden.part[:, -1] @ self.out.weight[0]


Method = Callable[[Any, np.random.Generator], Array]  # of a `Reading`, or for nodes and edges of a `CircuitGraph`
TOKENS: dict[str, Method] = {}
PAIRS: dict[str, Method] = {}
NODES: dict[str, Method] = {}
EDGES: dict[str, Method] = {}


def tokens(name: str) -> Callable[[Method], Method]:
    """Register a method that gives one number per symbol."""
    return lambda method: TOKENS.setdefault(name, method)


def pairs(name: str) -> Callable[[Method], Method]:
    """Register a method that gives one number a pair of symbols."""
    return lambda method: PAIRS.setdefault(name, method)


def nodes(name: str) -> Callable[[Method], Method]:
    """Register a method that gives one number per node of a transformer."""
    return lambda method: NODES.setdefault(name, method)


def edges(name: str) -> Callable[[Method], Method]:
    """Register a method that gives one number an edge of a transformer."""
    return lambda method: EDGES.setdefault(name, method)


def method_named(name: str) -> list[tuple[str, Method]]:
    """The methods of a name: ("tokens", "pairs", "nodes" or "edges", function)."""
    known = (("tokens", TOKENS), ("pairs", PAIRS), ("nodes", NODES), ("edges", EDGES))
    found = [(kind, methods[name]) for kind, methods in known if name in methods]
    if not found:
        listed = "; ".join(dict.fromkeys(one for _, methods in known for one in methods))
        raise InputError(f"method {name!r}: unknown; there are: {listed}")
    return found


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


def _mean_symbol(reading: Reading) -> Tensor:
    base = reading.vectors.clone()
    base[1:] = 0
    base[1:, : reading.symbols] = 1 / reading.symbols
    return base


def _integrated(reading: Reading, base: Tensor) -> Array:
    at = ((torch.arange(STEPS, dtype=torch.float64) + 0.5) / STEPS)[:, None, None]
    change = reading.vectors - base
    slope = _gradient(reading, base + at * change).mean(0)
    found: Array = (slope * change).sum(-1)[1:].numpy()
    return found


@tokens("gradient x input")
def _gradient_times_input(reading: Reading, rng: np.random.Generator) -> Array:
    found: Array = (_gradient(reading, reading.vectors[None])[0] * reading.vectors).sum(-1)[1:].numpy()
    return found


@tokens("integrated gradients")
def _integrated_zero(reading: Reading, rng: np.random.Generator) -> Array:
    base = reading.vectors.clone()
    base[1:] = 0
    return _integrated(reading, base)


@tokens("integrated gradients, mean symbol")
def _integrated_mean(reading: Reading, rng: np.random.Generator) -> Array:
    return _integrated(reading, _mean_symbol(reading))


@tokens("attribution patching")
def _attribution_patching(reading: Reading, rng: np.random.Generator) -> Array:
    """To first order, the effect of a symbol compared with the mean of all symbols."""
    slope = _gradient(reading, reading.vectors[None])[0]
    found: Array = (slope * (reading.vectors - _mean_symbol(reading))).sum(-1)[1:].numpy()
    return found


@pairs("hessian x input")
def _hessian(reading: Reading, rng: np.random.Generator) -> Array:
    points = reading.vectors[None].clone().requires_grad_()
    (slope,) = torch.autograd.grad(reading.output(points).sum(), points, create_graph=True)
    effects = (slope * reading.vectors).sum(-1)[0]
    rows = []
    for effect in effects[1:]:
        (again,) = torch.autograd.grad(effect, points, retain_graph=True, allow_unused=True)
        row = torch.zeros_like(effects) if again is None else (again[0] * reading.vectors).sum(-1)
        rows.append(row[1:].detach())
    found = torch.stack(rows).numpy()
    return (found + found.T) / 2  # type: ignore[no-any-return]


# --- occlusion --------------------------------------------------------------------------------------------


@tokens("occlusion by zero")
def _occlusion_zero(reading: Reading, rng: np.random.Generator) -> Array:
    without = reading.vectors.repeat(len(reading), 1, 1)
    for place in range(len(reading)):
        without[place, place + 1] = 0
    with torch.no_grad():
        found: Array = (reading.output(reading.vectors[None]) - reading.output(without)).numpy()
    return found


@tokens("occlusion by resampling")
def _occlusion(reading: Reading, rng: np.random.Generator) -> Array:
    """Activation patching of the input: the output, less its mean where the symbol is drawn."""
    words = np.concatenate([np.array([reading.codes])] + [reading.drawn(i) for i in range(len(reading))])
    found = reading.outputs_of(words)
    return np.asarray(found[0] - found[1:].reshape(len(reading), -1).mean(1))


@pairs("occlusion by resampling")
def _occlusion_pairs(reading: Reading, rng: np.random.Generator) -> Array:
    """The output, less what each symbol alone takes away, with what both take away put back."""
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


# --- contextual decomposition -----------------------------------------------------------------------------


def _by_rule(rule: str) -> Method:
    def method(reading: Reading, rng: np.random.Generator) -> Array:
        found: Array = reading.parts(torch.eye(len(reading), dtype=torch.bool), rule)[1].numpy()
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
        hidden = reading.parts(masks, rule)[0]
        found, weight = np.zeros((size, size)), reading.out.weight
        for row, (i, j) in enumerate(joined):
            at = size if read == "end" else j + 1  # the start symbol is at 0
            one, other, both = hidden[i, at], hidden[j, at], hidden[size + row, at]
            found[i, j] = found[j, i] = float(ratio(both, one + other, weight))
        return found

    return method


pairs("interdependence")(_interdependence("right", "cd"))
pairs("interdependence, at the end")(_interdependence("end", "cd"))
pairs("interdependence, murdoch")(_interdependence("right", "murdoch"))


@pairs("cd interaction")
def _cd_interaction(reading: Reading, rng: np.random.Generator) -> Array:
    """What two symbols contribute to the output together, less what each contributes alone."""
    size = len(reading)
    masks, joined = _pair_masks(size)
    parts = reading.parts(masks, "cd")[1].numpy()
    found = np.zeros((size, size))
    for row, (i, j) in enumerate(joined):
        found[i, j] = found[j, i] = parts[size + row] - parts[i] - parts[j]
    return found


# --- other libraries, where they are installed ------------------------------------------------------------

if importlib.util.find_spec("captum") is not None:  # pragma: no cover

    @tokens("captum: shapley value sampling")
    def _captum(reading: Reading, rng: np.random.Generator) -> Array:
        torch.manual_seed(int(rng.integers(2**31)))
        vectors, base = reading.vectors[None], _mean_symbol(reading)[None]
        groups = torch.arange(len(reading) + 1)[None, :, None].expand_as(vectors).contiguous()
        with torch.no_grad():
            found = (
                importlib.import_module("captum.attr")
                .ShapleyValueSampling(reading.output)
                .attribute(vectors, baselines=base, feature_mask=groups, n_samples=8)
            )
        scores: Array = found[0, 1:, 0].numpy()
        return scores
