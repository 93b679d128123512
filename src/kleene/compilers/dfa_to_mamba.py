"""Star-free languages in an unmodified Mamba of `transformers`: a cascade of flip-flops, a layer a level.

A channel of the mixer is a rule: the symbol, and the values that the levels above had before it. Its SiLU is saturated,
so that it is 0 or a constant. Where a rule fires, the time step Δ of all channels is so large that exp(−Δ) is exactly
0: every channel forgets, and the rule's own keeps a mark. Where none fires, softplus is exactly 0: nothing changes. So
a level holds which rule fired last, exactly, however long the word is. What a channel holds is written once, so
rounding does not add up.

The values before a symbol come from the convolution: a layer that shifts what the level wrote by one position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kleene.compilers.dfa_to_linear import SARROF, value_tuples
from kleene.errors import NotSupported
from kleene.machines.automata.cascade import Cascade, cascade, otherwise
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.networks.stock.acceptor import transformers_model
from kleene.networks.stock.mamba import MambaAcceptor

MAX_UNITS = 4096  # channels of a layer
STEEP = 512.0  # a unit's argument is ± half of it: SiLU is then 0 or the argument itself
STEP = 256.0  # Δ where a rule fires; exp(−Δ) is 0 in float32
GATE = 32.0  # SiLU of it is itself


@dataclass
class _Unit:
    """A channel that is on where all of these dimensions are 1, here or one position back; it writes into one."""

    reads: list[int]
    writes: int
    back: bool = False


@dataclass
class _Mixer:
    """A layer: its units, and whether they keep their marks."""

    ones: int  # how many dimensions of the residual are 1, at every position
    units: list[_Unit] = field(default_factory=list)
    keeps: bool = False


def compile_to_mamba(dfa: DFA | NFA) -> MambaAcceptor:
    """A `MambaForCausalLM` that accepts what `dfa` accepts, in float32; for star-free languages."""
    minimal = dfa.minimise()
    with otherwise("to='linear' holds it with transitions='products'"):
        free = minimal.is_star_free
        if not free:
            raise NotSupported(
                f"compile: not star-free ({free.reason}), and Mamba's exp(ΔA) is positive: {SARROF}; to='linear' holds "
                "it with transitions='signed' or 'products'"
            )
        made = cascade(minimal)
    plan = _Plan(made)
    widest = max(len(layer.units) for layer in plan.layers) + 1
    if widest > MAX_UNITS:
        raise NotSupported(f"compile: cascade: {widest:,} channels in a layer; at most {MAX_UNITS:,} here")
    mamba = transformers_model("mamba")
    config = mamba.MambaConfig(
        vocab_size=len(minimal.alphabet) + 3,
        hidden_size=plan.width,
        state_size=1,
        num_hidden_layers=len(plan.layers),
        expand=-(-widest // plan.width),
        conv_kernel=2,
        use_bias=True,
        time_step_rank=1,
        layer_norm_epsilon=0.0,
        tie_word_embeddings=False,
        pad_token_id=None,
        bos_token_id=len(minimal.alphabet),
        eos_token_id=None,
    )
    model = mamba.MambaForCausalLM(config).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        _fill(model, plan, len(minimal.alphabet))
    return MambaAcceptor(minimal.alphabet, model, {"machine": minimal.to_json()})


class _Plan:
    """The dimensions of the residual, and the layers: rules and shifts in turn, then the answer."""

    def __init__(self, made: Cascade) -> None:
        symbols = len(made.dfa.alphabet)
        sizes = [level.size for level in made.levels]
        at = symbols + 1  # dimensions 0 … symbols: the token
        self.values, self.before = list[int](), list[int]()  # the first dimension of each level's value, now and before
        for size in sizes:
            self.values.append(at)
            self.before.append(at + size)
            at += 2 * size
        self.accept, self.width = at, at + 1
        self.layers: list[_Mixer] = []
        ones, tuples = 1, value_tuples(made)
        for number, level in enumerate(made.levels):
            rules = _Mixer(ones, keeps=True)
            rules.units.append(_Unit([symbols], self.values[number] + level.start))
            for u, above in enumerate(tuples[number]):
                for a in range(symbols):
                    wanted = int(level.sets[u, a])
                    if wanted >= 0:
                        reads = [a, *(self.before[k] + value for k, value in enumerate(above))]
                        rules.units.append(_Unit(reads, self.values[number] + wanted))
            self.layers.append(rules)
            ones += 1
            if number + 1 < len(made.levels):
                shift = _Mixer(ones)
                for value in range(level.size):
                    shift.units.append(_Unit([self.values[number] + value], self.before[number] + value, back=True))
                shift.units.append(_Unit([symbols], self.before[number]))  # so that norms are those of other positions
                self.layers.append(shift)
                ones += 1
        answer = _Mixer(ones)
        for number, values in enumerate(tuples[-1]):
            if made.dfa.accepting[made.states[number]]:
                reads = [self.values[k] + value for k, value in enumerate(values)]
                answer.units.append(_Unit(reads, self.accept))
        self.layers.append(answer)


def _fill(model: Any, plan: _Plan, symbols: int) -> None:
    """The tensors. Norms are set so that dimensions that are 1 stay about 1."""
    model.backbone.embeddings.weight[: symbols + 1, : symbols + 1] = torch.eye(symbols + 1)
    for block, layer in zip(model.backbone.layers, plan.layers):
        block.norm.weight.fill_(np.sqrt(layer.ones / plan.width))
        _fill_mixer(block.mixer, layer)
    model.backbone.norm_f.weight.fill_(1.0)
    model.lm_head.weight[symbols + 1, : symbols + 1] = 1.0  # exactly one of the tokens is there
    model.lm_head.weight[symbols + 2, plan.accept] = 2.0


def _fill_mixer(mixer: Any, layer: _Mixer) -> None:
    channels, one = mixer.intermediate_size, len(layer.units)
    on = STEEP / 2
    for r, unit in enumerate(layer.units):
        for dimension in unit.reads:
            mixer.in_proj.weight[r, dimension] = 1.0
        mixer.conv1d.weight[r, 0, 0 if unit.back else 1] = STEEP
        mixer.conv1d.bias[r] = STEEP * (0.5 - len(unit.reads))
        mixer.out_proj.weight[unit.writes, r] = 1.0
        if layer.keeps:
            mixer.x_proj.weight[0, r] = 2 * STEP / on
            mixer.dt_proj.weight[r, 0] = 1.0
        else:
            mixer.D[r] = 1 / (on * GATE)
    mixer.in_proj.bias[channels:] = GATE
    mixer.dt_proj.bias.fill_(-STEP)
    mixer.conv1d.bias[one] = on  # a channel that is always on: B and C are constants
    mixer.x_proj.weight[1, one] = 1 / (on * on * STEP)
    mixer.x_proj.weight[2, one] = 1 / (on * GATE)
