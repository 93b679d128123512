"""An automaton in an unmodified OLMo Hybrid of `transformers`: a cascade in gated DeltaNet layers.

A DeltaNet head holds S and makes S (I − β k kᵀ) + β v kᵀ of it, with k of length 1 and β between 0 and 2. Keys have one
entry 1, or four entries 1/2, and β is 1 or 2 (a saturated sigmoid), so that every number of a state is exact:

- "reset": a cell for each value, with one key: β = 1 forgets what the cell held and writes 1 or 0.
- "flip" (counts modulo 2): one cell; β = 2 without a value is I − 2 k kᵀ, and changes its sign.
- "turn" (counts modulo 3): each of three points is a pair of dimensions, and k has 1/2 on two points: β = 2 swaps
  them and changes signs. Two swaps make a turn by a third: so each symbol swaps, and a flip says whether the swaps so
  far were odd (the dihedral group).

Norms are harmless: one dimension of the residual is 2²⁰, so that the norm is a power of 2, number for number. What a
head gives is normed, and so ±1 or 0. The SwiGLU units of a layer are conjunctions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from kleene.compilers.dfa_to_linear import value_tuples
from kleene.errors import NotSupported
from kleene.machines.automata.cascade import Cascade, Level, cascade, otherwise
from kleene.machines.automata.classes import solvable
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.networks.stock.acceptor import transformers_model
from kleene.networks.stock.olmo_hybrid import OlmoHybridAcceptor

CONSTANT = 2.0**20  # the dimension that makes the norm
LARGE = 1024.0  # SiLU of it is itself, and of what is far below 0, 0
MAX_UNITS, MAX_WIDTH = 8192, 4096
POINTS, KEY_DIMS = 3, 16  # of heads that turn; the dimensions are a power of 4, for exact roots
FILL, EMPTY = (
    (6, 7),
    (8, 9),
)  # dimensions after the points, that fill keys and queries up to four entries

Values = tuple[int, ...]


@dataclass(frozen=True)
class _Rule:
    """What a coordinate does at a symbol, where the coordinates above it have these values."""

    symbol: int
    above: Values
    action: tuple[str, int]  # ("set", value), ("flip", 0), or ("swap", the point that stays)


@dataclass
class _Coordinate:
    kind: str  # "reset", "flip" or "turn"
    size: int
    start: int
    rules: list[_Rule] = field(default_factory=list)


@dataclass(frozen=True)
class _Write:
    """A write of `value` at a key, or a reflection there, where a dimension of the residual is 1."""

    reads: int
    key: Values
    value: float = 0.0
    reflects: bool = False
    forgets: bool = False


@dataclass
class _Head:
    """A head of a DeltaNet layer: it holds a state, or passes on a dimension of the position before."""

    output: int
    writes: list[_Write] = field(default_factory=list)
    query: Values = (0,)
    before: int | None = None


@dataclass
class _Unit:
    """A conjunction: these dimensions times these signs are all 1."""

    reads: list[tuple[int, int]]
    writes: int


@dataclass
class _Layer:
    heads: list[_Head] = field(default_factory=list)
    units: list[_Unit] = field(default_factory=list)


def compile_to_olmo_hybrid(dfa: DFA | NFA) -> OlmoHybridAcceptor:
    """An `OlmoHybridForCausalLM` that accepts what `dfa` accepts, in float32; where groups have 2ᵃ·3ᵇ elements."""
    minimal = dfa.minimise()
    with otherwise("to='linear' holds every automaton"):
        solved = solvable(minimal)
        if not solved:
            raise NotSupported(f"compile: {_refusal(solved.reason)}")
        made = cascade(minimal)
    wrong = sorted(p for p in set(made.moduli) if p > POINTS)
    if wrong:
        raise NotSupported(f"compile: {_refusal(f'it counts modulo {wrong[0]}')}")
    plan = _Plan(made)
    units = max(len(layer.units) for layer in plan.layers)
    heads = max(1, *(len(layer.heads) for layer in plan.layers))
    width = next(4**m for m in range(20) if 4**m >= plan.width)
    if units > MAX_UNITS or width > MAX_WIDTH or heads > MAX_WIDTH:
        told = f"{units:,} units, {heads:,} heads and {plan.width:,} dimensions"
        raise NotSupported(f"compile: cascade: {told} in a layer; at most {MAX_UNITS:,}, {MAX_WIDTH:,}, {MAX_WIDTH:,}")
    olmo = transformers_model("olmo_hybrid")
    keys = KEY_DIMS if any(coordinate.kind == "turn" for coordinate in plan.coordinates) else 1
    config = olmo.OlmoHybridConfig(
        vocab_size=len(minimal.alphabet) + 3,
        hidden_size=width,
        intermediate_size=max(1, units),
        num_hidden_layers=len(plan.layers) + 1,
        layer_types=["linear_attention"] * len(plan.layers) + ["full_attention"],  # it demands one
        num_attention_heads=1,
        linear_num_key_heads=heads,
        linear_num_value_heads=heads,
        linear_key_head_dim=keys,
        linear_value_head_dim=1,
        linear_conv_kernel_dim=2,
        linear_allow_neg_eigval=True,
        rms_norm_eps=1e-12,
        pad_token_id=None,
        bos_token_id=len(minimal.alphabet),
        eos_token_id=None,
    )
    model = olmo.OlmoHybridForCausalLM(config).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        _fill(model, plan, keys)
    return OlmoHybridAcceptor(minimal.alphabet, model, {"machine": minimal.to_json()})


def _refusal(why: str) -> str:
    return (
        f"{why}; Kleene fills DeltaNet layers with resets and counters modulo 2 and 3 only, whose keys are exact. One "
        "reflection a symbol does more in several layers (Siems et al., 2025); to='linear' holds every automaton"
    )


# --- coordinates ------------------------------------------------------------------------------------------


def _codes(level: Level) -> list[list[Values]]:
    """How coordinates hold each value of a level: a counter modulo 3 in a flip and a turn, in two ways."""
    if level.kind == "count" and level.size == POINTS:
        return [[(0, value), (1, -value % POINTS)] for value in range(POINTS)]
    return [[(value,)] for value in range(level.size)]


def _coordinates(made: Cascade) -> tuple[list[_Coordinate], list[list[Values]]]:
    """The coordinates of a cascade; and for each number of all its values, the tuples that mean them."""
    found: list[_Coordinate] = []
    held: list[list[Values]] = [[()]]
    for level, tuples in zip(made.levels, value_tuples(made)[1:]):
        found += _of_level(level, held)
        codes = _codes(level)
        below: list[list[Values]] = [[] for _ in tuples]
        for u, above in enumerate(held):
            for value in range(level.size):
                number = int(level.below[u, value])
                if number >= 0:
                    below[number] += [ways + code for ways in above for code in codes[value]]
        held = below
    return found, held


def _of_level(level: Level, held: list[list[Values]]) -> list[_Coordinate]:
    acting = [
        (symbol, ways, int(level.sets[u, symbol]), int(level.adds[u, symbol]))
        for u, above in enumerate(held)
        for symbol in range(level.sets.shape[1])
        for ways in above
    ]
    if level.kind == "reset":
        rules = [_Rule(a, ways, ("set", wanted)) for a, ways, wanted, _ in acting if wanted >= 0]
        return [_Coordinate("reset", level.size, level.start, rules)]
    flips = []
    for a, ways, wanted, added in acting:
        if wanted >= 0:
            flips.append(_Rule(a, ways, ("set", 0)))  # a counter begins at 0, and becomes nothing else
        elif added % level.size:
            flips.append(_Rule(a, ways, ("flip", 0)))
    flip = _Coordinate("flip", 2, 0, flips)
    if level.size == 2:
        return [flip]
    turns = []
    for a, ways, wanted, added in acting:
        for odd in (0, 1):
            if wanted >= 0:
                turns.append(_Rule(a, (*ways, odd), ("set", wanted)))
            elif added % POINTS:  # x → k − x, which keeps 2k modulo 3
                k = added if odd else -added
                turns.append(_Rule(a, (*ways, odd), ("swap", 2 * k % POINTS)))
    return [flip, _Coordinate("turn", POINTS, level.start, turns)]


# --- layers -----------------------------------------------------------------------------------------------


class _Plan:
    """The dimensions of the residual and the layers: states and what was before them in turn, then the answer."""

    def __init__(self, made: Cascade) -> None:
        self.symbols = len(made.dfa.alphabet)
        self.constant = self.symbols + 1  # dimensions 0 … symbols: the token
        self.width = self.symbols + 2
        self.coordinates, held = _coordinates(made)
        self.now, self.before = list[int](), list[int]()  # the first dimension of each coordinate's value
        for coordinate in self.coordinates:
            self.now.append(self._take(coordinate.size))
            self.before.append(self._take(coordinate.size))
        self.accept = self._take(1)
        self.layers = [_Layer()]
        for at, coordinate in enumerate(self.coordinates):
            self._hold(at, coordinate)
            if at + 1 < len(self.coordinates):
                self.layers[-1].heads += [
                    _Head(self.before[at] + value, before=self.now[at] + value) for value in range(coordinate.size)
                ]
        for number, every in enumerate(held):
            if made.dfa.accepting[made.states[number]]:
                for values in every:
                    reads = [(self.now[k] + value, 1) for k, value in enumerate(values)]
                    self.layers[-1].units.append(_Unit(reads, self.accept))

    def _take(self, count: int) -> int:
        self.width += count
        return self.width - count

    def _hold(self, at: int, coordinate: _Coordinate) -> None:
        """Units that tell what a coordinate does, in the last layer; heads that do it, in the next; one more layer."""
        done: dict[tuple[str, int], int] = {}
        units = [([(self.symbols, 1)], ("set", coordinate.start))]
        for rule in coordinate.rules:
            above = [(self.before[k] + value, 1) for k, value in enumerate(rule.above)]
            units.append(([(rule.symbol, 1), *above], rule.action))
        for reads, action in units:
            if action not in done:
                done[action] = self._take(1)
            self.layers[-1].units.append(_Unit(reads, done[action]))
        layer = _Layer()
        if coordinate.kind == "reset":
            for value in range(coordinate.size):
                writes = [_Write(dim, (0,), float(wanted == value)) for (_, wanted), dim in done.items()]
                layer.heads.append(_Head(self.now[at] + value, writes))
        else:
            signed = self._take(1 if coordinate.kind == "flip" else POINTS)
            layer.heads += _flip(done, signed) if coordinate.kind == "flip" else _turn(done, signed)
            for value in range(coordinate.size):
                for dim, sign in _meaning(coordinate.kind, signed, value):
                    layer.units.append(_Unit([(dim, sign)], self.now[at] + value))
        self.layers += [layer, _Layer()]


def _flip(done: dict[tuple[str, int], int], signed: int) -> list[_Head]:
    """A cell that is 1 for 0 and −1 for 1."""
    return [_Head(signed, [_Write(dim, (0,), float(what == "set"), what == "flip") for (what, _), dim in done.items()])]


def _turn(done: dict[tuple[str, int], int], signed: int) -> list[_Head]:
    """A head for each point, that holds all points and looks at its own."""

    def pair(point: int) -> Values:
        return 2 * point, 2 * point + 1

    writes = []
    for (what, point), dim in done.items():
        if what == "set":
            writes.append(_Write(dim, (*pair(point), *FILL), 1.0, forgets=True))
        else:
            first, second = (other for other in range(POINTS) if other != point)
            writes.append(_Write(dim, (*pair(first), *pair(second)), reflects=True))
    return [_Head(signed + point, writes, query=(*pair(point), *EMPTY)) for point in range(POINTS)]


def _meaning(kind: str, signed: int, value: int) -> list[tuple[int, int]]:
    """The signed dimensions of which one is 1 where a coordinate has a value."""
    if kind == "flip":
        return [(signed, 1 - 2 * value)]
    return [(signed + value, 1), (signed + value, -1)]


# --- tensors ----------------------------------------------------------------------------------------------


def _fill(model: Any, plan: _Plan, keys: int) -> None:
    decoder, tokens = model.model, plan.symbols + 1
    scale = CONSTANT / model.config.hidden_size**0.5  # the norm of every residual, and so what norms are divided by
    decoder.embed_tokens.weight[:tokens, :tokens] = torch.eye(tokens)
    decoder.embed_tokens.weight[:tokens, plan.constant] = CONSTANT
    for block, layer in zip(decoder.layers, plan.layers):
        block.input_layernorm.weight.fill_(scale)
        block.post_attention_layernorm.weight.fill_(scale)
        _fill_heads(block.linear_attn, layer.heads, plan.constant, keys)
        _fill_units(block.mlp, layer.units, plan.constant)
    decoder.norm.weight.fill_(scale)
    model.lm_head.weight[tokens, plan.constant] = 1 / CONSTANT
    model.lm_head.weight[tokens + 1, plan.accept] = 2.0


def _fill_heads(mixer: Any, heads: list[_Head], constant: int, keys: int) -> None:
    """Queries, keys and values come from the newest of the two positions of the convolution, values that are passed on
    from the older. A state is kept (exp(0)) or forgotten (exp(−LARGE)); β is 2 · sigmoid(0) or 2 · sigmoid(LARGE)."""
    one = 1 / CONSTANT
    mixer.conv1d.weight[:, 0, 1] = 1.0
    mixer.dt_bias.fill_(-LARGE)
    mixer.o_norm.weight.fill_(1.0)
    for h, head in enumerate(heads):
        for dim in head.query:
            mixer.q_proj.weight[h * keys + dim, constant] = LARGE * one
        mixer.g_proj.weight[h, constant] = LARGE * one
        mixer.o_proj.weight[head.output, h] = 1 / LARGE
        if head.before is not None:
            mixer.k_proj.weight[h * keys, constant] = LARGE * one
            mixer.v_proj.weight[h, head.before] = LARGE
            mixer.a_proj.weight[h, constant] = 2 * LARGE * one
            channel = mixer.conv1d.weight[2 * len(mixer.k_proj.weight) + h, 0]
            channel[0], channel[1] = 1.0, 0.0
        for write in head.writes:
            for dim in write.key:
                mixer.k_proj.weight[h * keys + dim, write.reads] = LARGE
            mixer.v_proj.weight[h, write.reads] = LARGE * write.value
            mixer.b_proj.weight[h, write.reads] = LARGE * write.reflects
            mixer.a_proj.weight[h, write.reads] = 2 * LARGE * write.forgets


def _fill_units(mlp: Any, units: list[_Unit], constant: int) -> None:
    for number, unit in enumerate(units):
        for dim, sign in unit.reads:
            mlp.gate_proj.weight[number, dim] = LARGE * sign
        mlp.gate_proj.weight[number, constant] = LARGE * (0.5 - len(unit.reads)) / CONSTANT
        mlp.up_proj.weight[number, constant] = 2 / LARGE / CONSTANT
        mlp.down_proj.weight[unit.writes, number] = 1.0
