"""A transformer without layer norm: universal (one looped, halting block), encoder or decoder.

Attention has a null key, whose score lies between mismatch and match: where nothing is selected the output
is the null value. The MLP block is two residual halves, each x + B·clip(A·x + b).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
from torch import Tensor, nn

from kleene.common.alphabet import Word
from kleene.common.decision import Decision
from kleene.common.output import Output, check_layers
from kleene.common.residual import Layout
from kleene.common.text import Text, encode_text
from kleene.common.tokens import Tokens, check_tokens, list_of_inputs, read_tokens
from kleene.common.vocabulary import Vocabulary
from kleene.errors import DidNotHalt, InputError
from kleene.networks.formats import check_transformer
from kleene.networks.transformer.by_name import (
    HeadWeights,
    Named,
    UnitWeights,
    VariableWeights,
    describe,
    every_unit,
    heads_by_name,
    variables_by_name,
)

if TYPE_CHECKING:
    from kleene.networks.transformer.sparse import SparseTransformer

Evaluator = Literal["dense", "sparse", "rows", "lookup", "generated", "lanes", "lanes-numba"]

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
MAX_LAYERS = 10_000  # of net(x)
UNDERFLOW = 745.2  # exp(−745.2) is zero in float64


@dataclass(frozen=True)
class BlockShape:
    """The sizes of one block, and the names of its heads."""

    heads: tuple[str, ...]
    key_size: int
    value_size: int
    hidden: tuple[int, int]  # of the two halves of the MLP block
    window: int  # relative biases are told apart up to this offset


@dataclass(frozen=True)
class Config:
    """The sizes of a transformer, and the names of its parts."""

    name: str
    shape: str  # "universal" | "encoder" | "decoder"
    tokens: int
    positions: int | None
    max_length: int | None  # the longest input for which all heads are exact; None: any
    dim: int
    cycle: tuple[BlockShape, ...]  # the blocks that take turns; most networks have one
    classes: int
    output_coding: str  # "one-hot" | "bits"
    causal: bool
    halts: bool
    layers: int | None  # how many to run where the network does not halt
    blocks: int = 1  # equal to the length of the cycle: all layers share the blocks
    stop: int | None = None
    max_tokens: int | None = None
    counted: tuple[tuple[int, int, int], ...] = ()  # (first dimension, bits, offset): position + offset in binary

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the whole cycle."""
        return tuple(name for shape in self.cycle for name in shape.heads)

    @property
    def hidden(self) -> tuple[int, int]:
        """The clipped units of both halves, summed over the cycle."""
        return sum(shape.hidden[0] for shape in self.cycle), sum(shape.hidden[1] for shape in self.cycle)


@dataclass(frozen=True)
class Sizes:
    """How large a network is.

    `hidden` counts the clipped units of both halves. `heads` and `hidden` are sums over the blocks of a cycle, not
    over layers."""

    residual: int
    heads: int
    hidden: int
    parameters: int
    nonzero: int


@dataclass(frozen=True)
class Applied:
    """What `apply` gives: the values of all positions, and how many layers ran."""

    decoded: list[Any]
    layers: int


class Part(nn.Module):
    """A part of a block that hooks can find by name. The weights stay with the block."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self._of = (block,)  # in a tuple, so that the block is not a part of its part


class Attention(Part):
    """All heads of a block: from the residual stream before them to the stream after them.

    `scores` passes the scores (batch, head, position, position) through, so that a hook can read or replace them.
    """

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.scores = nn.Identity()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        (block,) = self._of
        keys, values = block.keys_values(x)
        scores: Tensor = self.scores(block.scores(x, keys, mask))
        return block.attend(x, scores, values)


class MLP(Part):
    """Both halves of the clipped units: from the residual stream after attention to the stream after the block."""

    def forward(self, x: Tensor) -> Tensor:
        (block,) = self._of
        return block.second_half(block.first_half(x))


class Block(nn.Module):
    """One layer: attention, then the two halves of the MLP block."""

    def __init__(self, config: Config, shape: BlockShape, dtype: torch.dtype) -> None:
        super().__init__()
        d, h, k, v = config.dim, len(shape.heads), shape.key_size, shape.value_size
        first, second = shape.hidden
        self.heads, self.causal, self.window = shape.heads, config.causal, shape.window

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(*shape, dtype=dtype))

        self.query, self.query_bias = weight(h, k, d), weight(h, k)
        self.key, self.key_bias = weight(h, k, d), weight(h, k)
        self.value, self.out = weight(h, v, d), weight(h, d, v)
        self.relative = weight(h, 2 * shape.window + 3)  # the ends: all offsets further away
        self.null_score, self.null_value = weight(h), weight(h, v)
        self.in1, self.bias1, self.out1 = weight(first, d), weight(first), weight(d, first)
        self.in2, self.bias2, self.out2 = weight(second, d), weight(second), weight(d, second)
        self.attention, self.mlp = Attention(self), MLP(self)

    def scores(self, x: Tensor, keys: Tensor, mask: Tensor, start: int = 0) -> Tensor:
        """Attention scores of queries at positions start … against all keys; excluded keys are −inf."""
        queries = torch.einsum("bnd,hkd->bhnk", x, self.query) + self.query_bias[:, None]  # (batch, head, n, key)
        scores = queries @ keys.transpose(-1, -2)  # (batch, head, n, m)
        here = torch.arange(start, start + x.shape[1], device=x.device)
        offsets = torch.arange(keys.shape[2], device=x.device)[None, :] - here[:, None]  # (n, m)
        reach = self.window + 1
        scores = scores + self.relative[:, (offsets.clamp(-reach, reach) + reach)]
        excluded = ~mask[:, None, None, :]
        if self.causal:
            excluded = excluded | (offsets > 0)
        return scores.masked_fill(excluded, -torch.inf)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        keys = torch.einsum("bnd,hkd->bhnk", x, self.key) + self.key_bias[:, None]
        return keys, torch.einsum("bnd,hvd->bhnv", x, self.value)

    def attend(self, x: Tensor, scores: Tensor, values: Tensor) -> Tensor:
        """Add softmax(scores, null key included) · values to x.

        Normalise after the sum: with hard scores the sum is exact, and only the average is rounded."""
        b, h, n, _ = scores.shape
        null = self.null_score[None, :, None, None].expand(b, h, n, 1)
        scores = torch.cat([scores, null], dim=-1)
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        padded = torch.cat([values, self.null_value[None, :, None].expand(b, h, 1, -1)], dim=2)
        mixed = (weights @ padded) / weights.sum(dim=-1, keepdim=True)  # (batch, head, n, value)
        return x + torch.einsum("bhnv,hdv->bnd", mixed, self.out)

    def pattern(self, x: Tensor, mask: Tensor) -> Tensor:
        """The attention weights (batch, head, position, position + 1); the last column is the null key."""
        keys, _ = self.keys_values(x)
        scores = self.scores(x, keys, mask)
        b, h, n, _ = scores.shape
        return torch.softmax(
            torch.cat([scores, self.null_score[None, :, None, None].expand(b, h, n, 1)], dim=-1), dim=-1
        )

    def selected(self, scores: Tensor) -> Tensor:
        """Which positions each head selects, (batch, head, position, position): the best above the null key."""
        above = scores >= self.null_score[None, :, None, None]  # equal only in a head that counts
        return above & (scores == scores.amax(dim=-1, keepdim=True))

    def first_half(self, x: Tensor) -> Tensor:
        if not self.in1.shape[0]:
            return x
        return x + (x @ self.in1.T + self.bias1).clamp(0, 1) @ self.out1.T

    def second_half(self, x: Tensor) -> Tensor:
        return x + (x @ self.in2.T + self.bias2).clamp(0, 1) @ self.out2.T

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        after: Tensor = self.mlp(self.attention(x, mask))
        return after


class Transformer(nn.Module):
    """Embeddings, blocks and unembedding; see `Config`. `description` says what the network was compiled from."""

    def __init__(self, config: Config, description: dict[str, Any], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.config, self.description = config, description
        self.token_embedding = nn.Parameter(torch.zeros(config.tokens, config.dim, dtype=dtype))
        if config.positions is not None:
            self.position_embedding = nn.Parameter(torch.zeros(config.positions, config.dim, dtype=dtype))
        shapes = [config.cycle[k % len(config.cycle)] for k in range(config.blocks)]
        self.blocks = nn.ModuleList([Block(config, shape, dtype) for shape in shapes])
        self.unembedding = nn.Parameter(torch.zeros(config.classes, config.dim, dtype=dtype))
        self.halt_weight = nn.Parameter(torch.zeros(config.dim, dtype=dtype))
        self.halt_bias = nn.Parameter(torch.zeros(1, dtype=dtype))
        self.requires_grad_(False)
        self._sparse: tuple[Any, SparseTransformer] | None = None
        self._text: tuple[Any, Text | None] = None, None  # how the description says it, and the text
        self._certificates: dict[str, tuple[Any, Any]] = {}  # by number format
        self.made_for = dtype  # the number format that it was compiled for; a conversion does not change it
        self.tf32: tuple[Any, str | None] | None = None  # see formats.py
        self.encoder: Callable[[str], list[int]] | None = None  # the program's own, while it is in memory
        self.decoder: Callable[[Sequence[int]], str | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "encoder": None, "decoder": None}  # Python of the program stays with the program

    # --- what it is ---

    @property
    def dtype(self) -> torch.dtype:
        return self.token_embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.token_embedding.device

    @property
    def sizes(self) -> Sizes:
        every = list(self.parameters())
        return Sizes(
            residual=self.config.dim,
            heads=len(self.config.heads),
            hidden=sum(self.config.hidden),
            parameters=sum(p.numel() for p in every),
            nonzero=sum(int(torch.count_nonzero(p)) for p in every),
        )

    @property
    def layout(self) -> Layout:
        """Every residual dimension by name."""
        return Layout.from_json(self.description["layout"])

    @property
    def heads(self) -> Named[HeadWeights]:
        """Every head by name, with its weights: `net.heads["parity_left"].query`."""
        return heads_by_name(self)

    @property
    def variables(self) -> Named[VariableWeights]:
        """Every variable of the program by name: its dimensions, its first values, the units that write it."""
        return variables_by_name(self)

    @property
    def units(self) -> list[UnitWeights]:
        """Every hidden unit: what it reads, what it writes, and its purpose."""
        return every_unit(self)

    def __repr__(self) -> str:
        return describe(self) if "program" in self.description else super().__repr__()

    def note_certificate(self, certificate: Any) -> None:
        """Keep what certify found, by number format: print tells it, and it allows to run in that format."""
        self._certificates[certificate.dtype] = (self.stamp(), certificate)

    def certificate_text(self) -> str:
        """The certificate in words, as far as it is known; this proves nothing."""
        found = self._certificates.get(str(self.dtype).removeprefix("torch."))
        if found is None:
            return "not asked yet: kl.certify(net)"
        stamp, certificate = found
        if stamp != self.stamp():
            return "the weights have changed since it was asked: kl.certify(net)"
        return str(certificate).splitlines()[0].partition(": ")[2]

    def certified_in(self, dtype: str) -> bool:
        """Whether certify has shown these weights exact in a number format."""
        stamp, certificate = self._certificates.get(dtype, (None, None))
        return stamp == self.stamp() and bool(certificate)

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """A fingerprint that changes with any weight."""
        return tuple((p.data_ptr(), p._version) for p in self.parameters())

    # --- the pass through the network ---

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        x = self.token_embedding[tokens]  # (batch, position, dim)
        places = self.places(start, start + tokens.shape[1])
        return x if places is None else x + places

    def places(self, start: int, stop: int) -> Tensor | None:
        """Return what positions start … stop − 1 add to the first residual stream (position, dim); None: nothing."""
        rows = None if self.config.positions is None else self.position_embedding[start:stop]
        for first, bits, offset in self.config.counted:
            place = torch.arange(start, stop, device=self.device) + offset
            rows = self.token_embedding.new_zeros(stop - start, self.config.dim) if rows is None else rows.clone()
            rows[:, first : first + bits] += (place[:, None] >> torch.arange(bits, device=self.device) & 1).to(rows)
        return rows

    def block(self, layer: int) -> Block:
        chosen = self.blocks[layer % len(self.blocks)]
        assert isinstance(chosen, Block)
        return chosen

    def described(self, layer: int) -> dict[str, Any]:
        """The saved description of a layer: its updates, its read guards and the purpose of each unit."""
        if "cycle" in self.description:
            part: dict[str, Any] = self.description["cycle"][layer % len(self.description["cycle"])]
            return part
        return self.description

    def done(self, x: Tensor, mask: Tensor) -> Tensor:
        """Whether each sequence has the halt value at every position."""
        return ((x @ self.halt_weight + self.halt_bias > 0) | ~mask).all(dim=1)

    def logits(self, x: Tensor) -> Tensor:
        return x @ self.unembedding.T

    def read(self, x: Tensor) -> Tensor:
        """The output at every position as whole numbers."""
        logits = self.logits(x)
        if self.config.output_coding == "bits":
            powers = 2 ** torch.arange(logits.shape[-1], device=x.device)
            return ((logits > 0.5) * powers).sum(dim=-1)
        return logits.argmax(dim=-1)

    def forward(self, tokens: Tensor, mask: Tensor | None = None, layers: int | None = None) -> Tensor:
        """Logits (batch, position, class). Without `layers`, every sequence runs until it halts, then stays as it is.

        Hooks on `blocks.N`, `blocks.N.attention`, `blocks.N.attention.scores` and `blocks.N.mlp` see every layer.
        """
        if not isinstance(tokens, Tensor):
            raise InputError(
                f"{self.config.name}: net(x) takes a tensor of tokens (batch, position); net.run takes lists"
            )
        if tokens.ndim != 2 or tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
            raise InputError(
                f"{self.config.name}: net(x) takes a tensor of whole numbers (batch, position), "
                f"not of shape {tuple(tokens.shape)} and {str(tokens.dtype).removeprefix('torch.')}"
            )
        if self.config.positions is not None and tokens.shape[1] > self.config.positions:
            raise InputError(
                f"{self.config.name}: {tokens.shape[1]:,} tokens; it has {self.config.positions:,} positions"
            )
        mask = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        check_transformer(self)
        count = self._count(layers)
        try:
            x = self.embed(tokens)
        except IndexError:
            raise InputError(f"{self.config.name}: tokens are 0 … {self.config.tokens - 1}") from None
        if count is None:
            return self.logits(self._until_halted(x, mask))
        for layer in range(count):
            x = self.block(layer)(x, mask)
        return self.logits(x)

    def _until_halted(self, x: Tensor, mask: Tensor) -> Tensor:
        halted = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for layer in range(MAX_LAYERS):
            x = torch.where(halted[:, None, None], x, self.block(layer)(x, mask))
            halted = halted | self.done(x, mask)
            if bool(halted.all()):
                return x
        raise DidNotHalt(
            f"{self.config.name}: did not halt within {MAX_LAYERS:,} layers; net(x, layers=…) stops earlier"
        )

    def hooked(self) -> bool:
        """Whether somebody looks into a part of the network; then it runs dense, so that hooks see it."""
        return any(part._forward_hooks or part._forward_pre_hooks for part in self.modules())

    # --- running ---

    def run(
        self,
        tokens: Tokens,
        *,
        layers: int | None = None,
        max_layers: int = 10_000,
        check: bool = False,
        evaluator: Evaluator | None = None,
    ) -> Output:
        """Run one input, tokens or text; the output has `.layers`, and `.text` where there is one. See `run_batch`."""
        return self.run_batch([tokens], layers=layers, max_layers=max_layers, check=check, evaluator=evaluator)[0]

    def run_batch(
        self,
        inputs: Iterable[Tokens],
        *,
        layers: int | None = None,
        max_layers: int = 10_000,
        check: bool = False,
        evaluator: Evaluator | None = None,
        watch: Callable[[int, Tensor, Tensor], None] | None = None,
    ) -> list[Output]:
        """Run a batch of inputs of any lengths.

        inputs: token sequences, or texts where the network has an alphabet.
        layers: run exactly this many layers; by default each sequence runs until it halts.
        max_layers: raise `DidNotHalt` where a sequence needs more.
        check: raise `UndefinedRead` where the program would (dense).
        evaluator: "dense"; on a CPU also "sparse"; where few rows change also "rows", "lookup" and "generated" (see
            evaluators.py). By default the quickest that runs these weights.
        watch: called as `watch(layer, rows, residual)` after every layer (dense).
        """
        checked = [self.check_input(tokens) for tokens in list_of_inputs(inputs, self.config.name)]
        if not checked:
            return []
        check_transformer(self)
        self._count(layers)
        if self.config.shape == "decoder":
            made = self.decode_batch(checked, layers=layers, check=check, evaluator=evaluator)
        else:
            from kleene.networks.transformer.evaluators import run_many

            evaluator = "dense" if evaluator is None and self.hooked() else evaluator
            made = run_many(self, checked, self._count(layers), max_layers, evaluator, check, watch)
        for output in made:
            output.answer = self.answer
        return made

    @property
    def text(self) -> Text | None:
        """How text becomes tokens; None where no alphabet was declared."""
        said = self.description.get("program", {}).get("text")
        if said != self._text[0]:
            self._text = deepcopy(said), None if said is None else Text.from_json(said)
        return self._text[1]

    def answer(self, outputs: Sequence[int]) -> str | None:
        """The text of outputs; None where the network does not say how they are written."""
        if "vocabulary" in self.description:
            return " ".join(map(str, self.decode(outputs)))
        if self.decoder is not None:
            return self.decoder(outputs)
        return None if self.text is None else self.text.decode(outputs)

    def encode(self, text: str | Sequence[Any]) -> list[int]:
        """The tokens of a text, or of a sequence where the network was compiled with a vocabulary."""
        if "vocabulary" in self.description:
            return self.words.encode(text)
        if not isinstance(text, str):
            raise InputError(f"{self.config.name}: has no vocabulary; encode takes a text, run a list of numbers")
        return self.encoder(text) if self.encoder is not None else encode_text(self.text, text, self.config.name)

    @property
    def alphabet(self) -> tuple[str, ...]:
        """The symbols of a network that holds an automaton; other networks have none."""
        if "words" not in self.description:
            raise AttributeError(f"{self.config.name}: it was not compiled from an automaton, so it has no alphabet")
        from kleene.networks.transformer.words import described_words

        return tuple(described_words(self)["alphabet"])

    def accepts_batch(self, words: Sequence[Word]) -> np.ndarray:
        """Whether a network that holds an automaton accepts each word."""
        from kleene.networks.transformer.words import accepts_batch

        return accepts_batch(self, words)

    def decide(self, word: Word, *, max_steps: int = 10_000) -> Decision:
        """Run a network that holds a Turing machine: accept, reject, or still running after this many steps."""
        from kleene.networks.transformer.words import decide

        return decide(self, word, max_steps)

    def accepts(self, word: Word) -> bool:
        """Whether a network that holds an automaton accepts a word."""
        return bool(self.accepts_batch([word])[0])

    def preferred_evaluator(self) -> str:
        """ "sparse" where the sparse evaluator can run these weights, otherwise "dense"."""
        from kleene.networks.transformer.evaluators import runs_sparse

        return "sparse" if runs_sparse(self) else "dense"

    def _count(self, layers: int | None) -> int | None:
        """How many layers to run; None: until the sequence halts."""
        least = 1 if self.config.shape == "decoder" else 0
        check_layers(self.config.name, layers, least, self.description.get("most_layers"))
        return layers if layers is not None else None if self.config.halts else self.config.layers

    def sparse_copy(self) -> SparseTransformer:
        """The weights for the sparse evaluator; rebuilt after a weight has changed."""
        from kleene.networks.transformer.sparse import SparseTransformer

        stamp = self.stamp()
        if self._sparse is None or self._sparse[0] != stamp:
            self._sparse = (stamp, SparseTransformer(self))
        return self._sparse[1]

    @property
    def longest(self) -> int | None:
        """The longest input, in tokens; None: any length."""
        limits = (self.config.positions, self.config.max_length)
        return min((limit for limit in limits if limit is not None), default=None)

    def check_input(self, given: Tokens) -> list[int]:
        """Return the input as a list of ints, or raise an error that says what is wrong with it."""
        name = self.config.name
        return check_tokens(read_tokens(given, name, self.text, self.encode), name, self.config.tokens, self.longest)

    def decode_batch(
        self,
        inputs: list[list[int]],
        *,
        layers: int | None = None,
        check: bool = False,
        cached: bool = True,
        evaluator: str | None = None,
    ) -> list[Output]:
        """Append each input's last output until `stop` or `max_tokens`; return the appended tokens.

        layers: how many layers run for a token; by default the network's own number.
        check: raise where the program would (dense).
        cached: keep keys and values of earlier positions; without, every token runs the whole input again (dense).
        evaluator: "dense" or "sparse"; by default sparse on a CPU where it runs these weights.
        """
        from kleene.networks.transformer.decoding import decode_many

        return decode_many(self, inputs, layers or self.config.layers or 1, check, cached, evaluator)

    # --- tokens and values by name ---

    @property
    def words(self) -> Vocabulary:
        """What tokens and outputs mean, where the network was compiled with a vocabulary."""
        if "vocabulary" not in self.description:
            raise InputError(f"{self.config.name}: has no vocabulary; its tokens and outputs are whole numbers")
        try:
            return Vocabulary.from_json(self.description["vocabulary"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{self.config.name}: its vocabulary is malformed ({error!r})") from None

    def decode(self, outputs: Sequence[int]) -> list[Any]:
        """The values of the outputs, one for each position after the beginning."""
        return self.words.decode(outputs)

    @overload
    def apply(self, sequence: Callable[[nn.Module], None]) -> Transformer: ...
    @overload
    def apply(self, sequence: str | Sequence[Any]) -> Applied: ...
    def apply(self, sequence: Any) -> Any:
        """Run a sequence, and return the value of each position as `.decoded`, with the beginning and the padding that
        were given.

        With a function, it is `torch.nn.Module.apply`.
        """
        if callable(sequence):
            return super().apply(sequence)
        words = self.words
        outputs = self.run(words.encode(sequence))
        given = words.read(sequence) if isinstance(sequence, str) else list(sequence)
        begins = [words.bos] if given[:1] == [words.bos] else []
        ends = [words.pad] * words.padding(given)
        return Applied([*begins, *words.decode(outputs), *ends], outputs.layers)

    # --- files ---

    def save(self, folder: str | Path) -> None:
        """Write the network to a folder, atomically: weights.safetensors and kleene.json."""
        from kleene.networks.transformer.files import save_transformer

        save_transformer(self, folder)


def load(folder: Path) -> Transformer:
    """Read a saved transformer (through kl.load)."""
    from kleene.networks.transformer.files import load_transformer

    return load_transformer(folder)
