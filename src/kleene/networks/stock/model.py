"""A compiled decoder as an unmodified class of transformers: its config, its tensors, and the claim about them.

The saved folder runs without Kleene: `AutoModelForCausalLM` and `AutoTokenizer` read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Literal

import torch

from kleene.common.alphabet import encode_batch
from kleene.common.decision import Decision
from kleene.common.output import Output
from kleene.common.tokens import Tokens, check_tokens, list_of_inputs, read_tokens
from kleene.errors import InputError, NotSupported
from kleene.networks.stock.tokenizer import check_symbols
from kleene.networks.transformer.words import decide_by_tokens, tokens_of

Family = Literal["llama", "gpt2", "phi3", "qwen3"]

CLASSES = {
    "llama": "LlamaForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "phi3": "Phi3ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
BATCH = 256  # sequences that run together


@dataclass(frozen=True)
class StockSizes:
    """How large a stock model is. `bytes` counts the weights."""

    layers: int
    residual: int
    heads: int
    head_size: int
    hidden: int
    parameters: int
    nonzero: int
    bytes: int


@dataclass(eq=False)
class StockModel:
    """A decoder inside a stock class.

    family: "llama", "gpt2", "phi3" or "qwen3".
    config: the content of config.json.
    tensors: the state dict.
    description: the program as data (declarations, guarded updates, layout), as every transformer of Kleene has it.
    claim: which dimensions and layers hold what; `kl.certify` proves it.
    symbols: the text of each token.
    """

    family: Family
    config: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    description: dict[str, Any]
    claim: dict[str, Any]
    symbols: list[str]
    about: str = ""
    _model: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.symbols = check_symbols(self.name, self.symbols, self.program["tokens"])

    def __repr__(self) -> str:
        s = self.sizes
        return (
            f"{CLASSES[self.family]} of '{self.name}': {s.layers} layers, residual {s.residual}, {s.heads} heads of "
            f"{s.head_size}, {s.hidden} neurons per layer, {s.parameters:,} parameters, up to {self.length:,} tokens"
        )

    # --- what it is ---

    @property
    def program(self) -> dict[str, Any]:
        found: dict[str, Any] = self.description["program"]
        return found

    @property
    def name(self) -> str:
        return str(self.program["name"])

    @property
    def length(self) -> int:
        """The longest sequence, generated tokens included, the first token excluded."""
        return int(self.claim["length"])

    @property
    def longest(self) -> int:
        """The longest prompt."""
        return self.length

    @property
    def max_tokens(self) -> int:
        return int(self.program["max_tokens"] or 1)

    @property
    def first(self) -> int:
        """The token in front of every sequence."""
        return int(self.program["tokens"])

    @property
    def dtype(self) -> torch.dtype:
        return next(iter(self.tensors.values())).dtype

    def parameters(self) -> Iterator[torch.Tensor]:
        yield from self.tensors.values()

    @property
    def sizes(self) -> StockSizes:
        c, every = self.config, list(self.tensors.values())
        heads = c["n_head"] if self.family == "gpt2" else c["num_attention_heads"]
        width = c["n_embd"] if self.family == "gpt2" else c["hidden_size"]
        return StockSizes(
            layers=c["n_layer"] if self.family == "gpt2" else c["num_hidden_layers"],
            residual=width,
            heads=heads,
            head_size=c.get("head_dim") or width // heads,
            hidden=c["n_inner"] if self.family == "gpt2" else c["intermediate_size"],
            parameters=sum(t.numel() for t in every),
            nonzero=sum(int(torch.count_nonzero(t)) for t in every),
            bytes=sum(t.numel() * t.element_size() for t in every),
        )

    def described(self, layer: int) -> dict[str, Any]:
        """The saved description of a layer of the program: its updates, read guards and the purpose of each unit."""
        cycle = self.description.get("cycle")
        part: dict[str, Any] = self.description if cycle is None else cycle[layer % len(cycle)]
        return part

    # --- text ---

    def encode(self, text: str) -> list[int]:
        """The tokens of a text: its characters, or its words where symbols are longer."""
        parts = text.split() if any(len(symbol) > 1 for symbol in self.symbols) else list(text)
        for part in parts:
            if part not in self.symbols:
                raise InputError(f"{self.name}: {part!r} is not one of the symbols {' '.join(self.symbols)}")
        return [self.symbols.index(part) for part in parts]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without the token at which generation stops."""
        space = " " if any(len(symbol) > 1 for symbol in self.symbols) else ""
        for token in tokens:
            if not 0 <= token < self.first:
                raise InputError(f"{self.name}: token {token!r} is outside 0 … {self.first - 1}")
        return space.join(self.symbols[t] for t in tokens if t != self.program["stop"])

    # --- running ---

    def model(self, *, attention: Literal["sdpa", "eager"] = "sdpa") -> Any:
        """The model of transformers, with these tensors; `attention` chooses its implementation."""
        transformers = _transformers()
        config_class = getattr(
            transformers, CLASSES[self.family].replace("ForCausalLM", "").replace("LMHeadModel", "") + "Config"
        )
        options = {key: value for key, value in self.config.items() if key not in ("architectures", "model_type")}
        config = config_class(**options, attn_implementation=attention)
        with torch.device("meta"):
            model = getattr(transformers, CLASSES[self.family])(config)
        model = model.to_empty(device="cpu").to(self.dtype)
        _reset_buffers(model)
        model.load_state_dict(self.tensors, strict=True)
        return model.eval().requires_grad_(False)

    def check_input(self, given: Tokens) -> list[int]:
        """Convert an input, tokens or a text, to ints, or raise an error that says what is wrong."""
        return check_tokens(read_tokens(given, self.name, None, self.encode), self.name, self.first, self.length)

    def run(self, tokens: Tokens) -> Output:
        """The tokens that the model appends to one input, tokens or a text; `.text` is them as text."""
        return self.run_batch([tokens])[0]

    def run_batch(self, inputs: Iterable[Tokens]) -> list[Output]:
        """The tokens that the model appends to each input, by its own `generate` in batches with left padding."""
        return self._run(inputs, unfinished=False)

    def run_as_far(self, inputs: Iterable[Tokens]) -> list[Output]:
        """As `run_batch`, and what is written of answers that the model's length cuts."""
        return self._run(inputs, unfinished=True)

    def _run(self, inputs: Iterable[Tokens], unfinished: bool) -> list[Output]:
        checked = [self.check_input(tokens) for tokens in list_of_inputs(inputs, self.name)]
        if self._model is None:
            self._model = self.model()
        if self.program["max_tokens"] is None:
            return [self._outputs(tokens) for tokens in checked]
        order = sorted(range(len(checked)), key=lambda i: len(checked[i]))
        made: dict[int, Output] = {}
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            made |= dict(zip(chosen, self._generate([checked[i] for i in chosen], unfinished)))
        return [made[i] for i in range(len(checked))]

    def _outputs(self, tokens: list[int]) -> Output:
        """The outputs of an encoder at every position."""
        logits = self._model(torch.tensor([[self.first, *tokens]])).logits[0, 1:]
        return Output(logits.argmax(dim=-1).tolist(), layers=self.sizes.layers)

    # --- languages ---

    @property
    def alphabet(self) -> tuple[str, ...]:
        """The symbols of the words, of a model that was compiled from an automaton or a Turing machine."""
        about = self.description.get("words") or self.description.get("chain")
        if about is None:
            raise NotSupported(f"{self.name}: it was not compiled from an automaton or a Turing machine")
        return tuple(about["alphabet"])

    def accepts(self, word: Tokens) -> bool:
        """Whether a word is complete: the model allows it to end. For models that know the allowed tokens."""
        return self.accepts_batch([word])[0]

    def accepts_batch(self, words: Iterable[Tokens]) -> list[bool]:
        """Whether the model allows each word to end."""
        stop = self.program["stop"]
        if self.claim.get("choices") is None or stop is None:
            raise NotSupported(f"{self.name}: it does not know which tokens are allowed next; a regex_decoder does")
        listed = list_of_inputs(words, self.name)
        checked = self._tokens_of_words(listed) if "words" in self.description else list(map(self.check_input, listed))
        if self._model is None:
            self._model = self.model()
        answers: dict[int, bool] = {}
        for _, alike in groupby(sorted(range(len(checked)), key=lambda i: len(checked[i])), lambda i: len(checked[i])):
            rows = list(alike)
            for start in range(0, len(rows), BATCH):
                chosen = rows[start : start + BATCH]
                logits = self._model(torch.tensor([[self.first, *checked[i]] for i in chosen])).logits[:, -1, stop]
                answers |= dict(zip(chosen, (logits > 0).tolist()))
        return [answers[i] for i in range(len(checked))]

    def _tokens_of_words(self, given: Sequence[Any]) -> list[list[int]]:
        """The tokens of words of an automaton, the empty one among them."""
        words = self.description["words"]
        codes, offsets = encode_batch(given, self.alphabet)
        found = [tokens_of(words, codes[a:b].tolist()) for a, b in pairwise(offsets.tolist())]
        longest = max(map(len, found), default=0)
        if longest > self.length:
            raise InputError(f"word of {longest - 1:,} symbols: {self.name} reads up to {self.length - 1:,}")
        return found

    def decide(self, word: Any = "", max_steps: int = 10**6) -> Decision:
        """Run the Turing machine that the model was compiled from: its answer and the number of its steps."""
        chain = self.description.get("chain")
        if chain is None:
            raise NotSupported(f"{self.name}: it was not compiled from a Turing machine; use run")
        return decide_by_tokens(lambda tokens: self.run_as_far([tokens])[0], self.name, chain, word, max_steps)

    def _generate(self, inputs: list[list[int]], unfinished: bool) -> list[Output]:
        longest, stop = max(map(len, inputs)), self.program["stop"]
        most = min(self.max_tokens, self.length + 1 - longest)
        ids = torch.full((len(inputs), longest + 1), self.first + 1)
        for row, tokens in enumerate(inputs):
            ids[row, longest - len(tokens) :] = torch.tensor([self.first, *tokens])
        options = {"do_sample": False, "max_new_tokens": most, "pad_token_id": self.first + 1}
        written = self._model.generate(
            ids, attention_mask=(ids != self.first + 1).long(), eos_token_id=stop, bos_token_id=self.first, **options
        )
        appended = written[:, longest + 1 :].tolist()
        layers = self.sizes.layers
        kept = [row[: row.index(stop) + 1] if stop in row else row for row in appended]
        cut = [i for i, row in enumerate(kept) if most < self.max_tokens and len(row) == most and row[-1] != stop]
        again = [i for i in cut if len(inputs[i]) < longest]  # there is more room without the longest inputs
        if not unfinished and len(again) < len(cut):
            raise InputError(
                f"{self.name}: {longest} tokens and their continuation exceed the {self.length:,} of this model; "
                "compile it with a larger length="
            )
        made = [Output(row, layers=layers * len(row), answer=self.decode) for row in kept]
        if again:
            for i, output in zip(again, self._generate([inputs[i] for i in again], unfinished)):
                made[i] = output
        return made

    # --- files ---

    def save(self, folder: str | Path, *, certificate: Any = None) -> None:
        """Write a complete folder of transformers, atomically.

        `certificate`: the result of kl.certify, for the model card.
        """
        from kleene.networks.stock.files import save_stock

        save_stock(self, folder, certificate)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise NotSupported("stock models run in the package transformers; pip install transformers") from None
    return transformers


def _reset_buffers(model: Any) -> None:
    """Compute the unsaved buffers (frequencies of rotary positions), which were made without memory."""
    for module in model.modules():
        if hasattr(module, "inv_freq"):
            module.__init__(module.config)


def load(folder: Path) -> StockModel:
    """Read a saved stock model (through kl.load)."""
    from kleene.networks.stock.files import load_stock

    return load_stock(folder)
