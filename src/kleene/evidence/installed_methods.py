"""Methods of Captum and shapiq, where these libraries are installed (`pip install kleene[methods]`).

Both see a word as players that are present, or replaced: Captum by the mean of all symbols, shapiq by symbols of random
words.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from kleene.evidence.methods import mean_symbol, pairs, tokens
from kleene.evidence.readings import Array, Reading

CALLS = 256  # of a method of Captum that samples
AT_ONCE = 64
BUDGET = 256  # coalitions of an approximation of shapiq
BACKGROUND = 8  # random words that stand in for absent symbols


def _captum(name: str, **options: Any) -> Callable[[Reading, np.random.Generator], Array]:
    """A method of `captum.attr` by the name of its class; symbols are one feature each."""

    def method(reading: Reading, rng: np.random.Generator) -> Array:
        torch.manual_seed(int(rng.integers(2**31)))
        vectors, base = reading.vectors[None], mean_symbol(reading)[None]
        given = dict(options)
        if given.pop("grouped", False):
            given["perturbations_per_eval"] = AT_ONCE
            groups = torch.arange(vectors.shape[1])[None, :, None].expand_as(vectors).contiguous()
            given["feature_mask"] = groups
        explainer = getattr(importlib.import_module("captum.attr"), name)(reading.output)
        found = explainer.attribute(vectors, baselines=base, **given).detach()
        # a grouped feature's score stands at each of its entries; the others are of single entries
        scores = found[0, :, 0] if "feature_mask" in given else found[0].sum(-1)
        return np.asarray(scores[reading.first :].double().numpy())

    return method


if importlib.util.find_spec("captum") is not None:
    tokens("captum: integrated gradients")(_captum("IntegratedGradients", n_steps=32, method="riemann_middle"))
    tokens("captum: gradient shap")(_captum("GradientShap", n_samples=32))
    tokens("captum: feature ablation")(_captum("FeatureAblation", grouped=True))
    tokens("captum: shapley value sampling")(_captum("ShapleyValueSampling", grouped=True, n_samples=16))
    tokens("captum: kernel shap")(_captum("KernelShap", grouped=True, n_samples=CALLS))
    tokens("captum: lime")(_captum("Lime", grouped=True, n_samples=CALLS))


def _game(reading: Reading, rng: np.random.Generator) -> Callable[[Array], Array]:
    """The value of coalitions (coalition, player): the mean output where the others are symbols of random words."""
    drawn = rng.integers(reading.symbols, size=(BACKGROUND, len(reading)))
    own = np.array(reading.codes)

    def value(coalitions: Array) -> Array:
        inside = np.atleast_2d(np.asarray(coalitions, dtype=bool))
        words = np.where(inside[:, None], own, drawn)
        return np.asarray(reading.outputs_of(words.reshape(-1, len(own))).reshape(len(inside), -1).mean(1))

    return value


def _shapiq(name: str, order: int, **options: Any) -> Callable[[Reading, np.random.Generator], Array]:
    """An approximator of `shapiq` by the name of its class: values of symbols, or interactions of pairs."""

    def method(reading: Reading, rng: np.random.Generator) -> Array:
        size = len(reading)
        known = {"n": size, "random_state": int(rng.integers(2**31)), **options}
        approximator = getattr(importlib.import_module("shapiq.approximator"), name)(**known)
        found = approximator.approximate(min(BUDGET, 2**size), _game(reading, rng))
        if order == 1:
            return np.array([found[(i,)] for i in range(size)])
        scores = np.zeros((size, size))
        for i in range(size):
            for j in range(i + 1, size):
                scores[i, j] = scores[j, i] = found[(i, j)]
        return scores

    return method


if importlib.util.find_spec("shapiq") is not None:
    tokens("shapiq: kernel shap")(_shapiq("KernelSHAP", 1))
    tokens("shapiq: permutation shap")(_shapiq("PermutationSamplingSV", 1))
    pairs("shapiq: k-SII")(_shapiq("KernelSHAPIQ", 2, max_order=2, index="k-SII"))
    pairs("shapiq: STII")(_shapiq("SHAPIQ", 2, max_order=2, index="STII"))
    pairs("shapiq: SII, by permutation")(_shapiq("PermutationSamplingSII", 2, max_order=2, index="SII"))
