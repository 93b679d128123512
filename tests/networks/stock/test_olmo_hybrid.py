"""The tensors of a compiled OLMo Hybrid in flash-linear-attention's GatedDeltaNet: the same answers.

Without a GPU its kernels run in Triton's interpreter: TRITON_INTERPRET=1, before Triton is imported.
"""

from __future__ import annotations

import os

import pytest
import torch

import kleene as kl
from kleene.common.alphabet import all_words
from random_machines import counter

LANGUAGES = {"mod 2": (counter(2), 4), "mod 3": (counter(3), 3), "ends in abb": (kl.regex("(a|b)*abb"), 4)}


@pytest.fixture
def interpreted(monkeypatch):
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    pytest.importorskip("fla.layers")
    if not torch.cuda.is_available():  # its tuner would look for a GPU to measure on
        from triton.runtime.autotuner import Autotuner

        monkeypatch.setattr(Autotuner, "do_bench", property(lambda _: lambda run, quantiles=None: [0.0] * 3))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["chunk", "fused_recurrent"])
@pytest.mark.parametrize("name", LANGUAGES)
def test_the_same_tensors_accept_the_same_words(interpreted, name, mode):
    dfa, longest = LANGUAGES[name]
    net = kl.compile(dfa, to="olmo_hybrid").with_flash_linear_attention(mode)
    words = list(all_words(dfa.alphabet, longest))
    assert (net.accepts_batch(words) == dfa.accepts_batch(words)).all()


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fla.layers", None)
    with pytest.raises(kl.NotSupported, match="pip install flash-linear-attention"):
        kl.compile(counter(2), to="olmo_hybrid").with_flash_linear_attention()
