"""What words contribute to the output of a model, any torch model: `kl.contributions`."""

from __future__ import annotations

import csv
import html
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kleene.errors import InputError, KleeneError, NotSupported
from kleene.evidence.parted import RULES, Parted, Rule, RuleName, plain, rule_of, whole_activations
from kleene.evidence.sentences import listed, read_sentence
from kleene.evidence.token_parts import Tokens
from kleene.files import write_text

ROWS = 64  # foci in one run of the model, at most
ENTRIES = 2**23  # of the outputs of one run, about


@dataclass(frozen=True)
class Contributions:
    """The parts of foci in the outputs of a model: `parts` and `base` are (focus, output), `whole` is (output).

    `whole` is the model's output; `base` is the share of its biases. A focus's part, its `rest` and the base sum
    to the whole. All foci share one base, except under the rule "generalised".
    """

    words: list[str]
    foci: list[str]
    outputs: list[str]
    parts: Tensor
    whole: Tensor
    base: Tensor

    @property
    def rest(self) -> Tensor:
        """The contribution of the words out of focus, with all their interactions with the focus: (focus, output)."""
        return self.whole - self.base - self.parts

    def _rows(self) -> list[list[Any]]:
        rows: list[list[Any]] = [[name, *part] for name, part in zip(self.foci, self.parts.tolist())]
        if torch.allclose(self.base, self.base[:1], rtol=1e-4, atol=1e-6):
            rows.append(["base", *self.base[0].tolist()])
        return [*rows, ["whole", *self.whole.tolist()]]

    def to_dataframe(self) -> Any:
        """A pandas frame: one row per focus, then the base and the whole; one column per output."""
        import pandas  # type: ignore[import-untyped]

        rows = self._rows()
        return pandas.DataFrame([row[1:] for row in rows], index=[row[0] for row in rows], columns=self.outputs)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The same rows as CSV; also written to `path` if given."""
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([["focus", *self.outputs], *self._rows()])
        if path is not None:
            write_text(Path(path), text.getvalue())
        return text.getvalue()

    def to_html(self, path: str | Path | None = None) -> str:
        """A page with the table, coloured by sign and size; also written to `path` if given."""
        most = max(1e-12, float(self.parts.abs().max()) if self.parts.numel() else 0.0)

        def cell(value: float, shaded: bool) -> str:
            colour = "200, 60, 40" if value < 0 else "40, 90, 200"
            style = f' style="background: rgba({colour}, {min(1.0, abs(value) / most) * 0.6:.2f})"' if shaded else ""
            return f"<td{style}>{value:+.4f}</td>"

        rows = [
            f"<tr><th>{html.escape(str(row[0]))}</th>{''.join(cell(v, i < len(self.foci)) for v in row[1:])}</tr>"
            for i, row in enumerate(self._rows())
        ]
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in self.outputs)
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>contributions</title>'
            "<style>body{font:16px system-ui;margin:2em}th{text-align:left;padding:.2em 1em .2em 0}"
            "td{text-align:right;padding:.2em .6em}</style>"
            f"<h1>{html.escape(' '.join(self.words))}</h1>"
            f"<table><tr><th>focus</th>{heads}</tr>{''.join(rows)}</table></html>\n"
        )
        if path is not None:
            write_text(Path(path), page)
        return page

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        lines = [f"{'focus':20s}" + "".join(f"{name[:12]:>13s}" for name in self.outputs[:8])]
        for row in self._rows():
            lines.append(f"{str(row[0])[:20]:20s}" + "".join(f"{value:+13.4f}" for value in row[1:9]))
        return "\n".join(lines)


def contributions(
    model: nn.Module,
    input: str | Sequence[int] | Tensor | Mapping[str, Any],
    *,
    focus: Any = None,
    tokenizer: Callable[[str], Any] | None = None,
    target: Any = None,
    read: int = -1,
    rule: RuleName | Rule = "cd",
    output: Callable[[Any], Tensor] | None = None,
    words: Sequence[str] | None = None,
    batch_first: bool = True,
    arguments: Mapping[str, Any] | None = None,
    rows: int | None = None,
) -> Contributions:
    """Return what words contribute to a model's output, by contextual decomposition.

    - `model`: a torch module that takes a batch of token numbers (batch × time), or of vectors (batch × time ×
      features); or a Hugging Face model. It may contain LSTMs and GRUs of any kind, packed or not, attention, norms,
      and any other functions of torch. It runs in evaluation mode, and stays as it was.
    - `input`: one sentence: text (with `tokenizer`), token numbers, what a tokenizer returns, or vectors (time ×
      features).
    - `focus`: the foci, each a position, a slice, words of the sentence, a list of these, or a mask; by default each
      word.
    - `tokenizer`: makes token numbers from text; that of Hugging Face, one with `encode`, or any function. Its subwords
      form words again.
    - `target`: the outputs to keep, by number or label; by default the largest one, "all" for all.
    - `read`: where outputs by position are read; by default at the last.
    - `rule`: "cd", "murdoch", "released", "generalised", "jumelet", "alone", "removed" or "shared"
      (`kleene.evidence.parted`).
    - `output`: takes the tensor of outputs from what the model returns; by default its `logits`, or its first tensor.
    - `words`: the names of the words, one a token.
    - `batch_first`: False for a model that takes time × batch.
    - `arguments`: what else the model's forward takes, by name. A tensor whose first axis is a batch of one serves
      every focus; a function gives the value for a number of sentences: `{"h0": lambda rows: torch.zeros(2, rows, 5)}`.
    - `rows`: how many foci to run at once, which bounds the memory; by default 64, and fewer where outputs are large.

    A model whose output for a sentence depends on the other sentences of a batch, or whose parts do not add up, is an
    error.

    >>> _ = torch.manual_seed(0)
    >>> class Classifier(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.embed, self.rnn, self.out = nn.Embedding(9, 4), nn.GRU(4, 5, bidirectional=True), nn.Linear(10, 2)
    ...     def forward(self, tokens):
    ...         return self.out(self.rnn(self.embed(tokens).transpose(0, 1))[0].mean(0))
    >>> found = contributions(Classifier(), [3, 1, 4], focus=[0, slice(1, 3), [0, 2]], target="all")
    >>> found.parts.shape, found.foci
    (torch.Size([3, 2]), ['3', '1 4', '3 4'])
    """
    chosen = rule_of(rule)
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise InputError(f"contributions: needs a torch.nn.Module of Python, not a {type(model).__name__}")
    sentence = read_sentence(input, tokenizer, words)
    foci = sentence.masks(focus)
    if rows is not None and rows < 1:
        raise InputError(f"rows {rows!r}: must be 1 or more")
    if not foci:
        raise InputError("contributions: an empty list of focuses; give at least one, or omit it for one per word")
    if any(parameter.is_meta for parameter in model.parameters()):
        raise InputError(
            f"contributions: the weights of {type(model).__name__} are on the meta device; load them first"
        )
    known = inspect.signature(model.forward).parameters
    given = {name: value for name, value in sentence.arguments.items() if name in known}
    asked = _Asked(model, sentence.tokens, output, read, batch_first, {**given, **(arguments or {})})
    with torch.no_grad(), _as_it_was(model), whole_activations(model), torch.compiler.set_stance("force_eager"):
        alone, entries = _alone(asked)
        rows = max(1, min(ROWS, ENTRIES // entries)) if rows is None else rows
        runs = [_run(asked, torch.stack(foci[at : at + rows]), chosen, alone) for at in range(0, len(foci), rows)]
        _check_sum(asked, alone)
    whole = runs[0].whole[0]
    kept, labels = _targets(model, target, whole, tokenizer)
    called = [sentence.called(mask) for mask in foci]
    parts, base = (torch.cat(every)[:, kept] for every in ([run.part for run in runs], [run.base for run in runs]))
    return Contributions(sentence.words, called, labels, parts, whole[kept], base)


@dataclass(frozen=True)
class _Asked:
    """A model, a sentence, and how to call the one on the other."""

    model: Any
    tokens: Tensor
    output: Any
    read: int
    batch_first: bool
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        return type(self.model).__name__

    @property
    def embeds(self) -> bool:
        """Whether the model takes embeddings in the place of tokens, as those of Hugging Face do."""
        return hasattr(self.model, "get_input_embeddings") and not self.tokens.is_floating_point()

    def batch(self, sentences: Tensor) -> Tensor:
        """Sentences (batch, time, …) on the model's device."""
        where = next((p.device for p in self.model.parameters()), sentences.device)
        return sentences.to(where)

    def call(self, batch: Tensor, what: str) -> Tensor:
        """The outputs (batch, …) for a batch of sentences, plain or parted."""
        try:
            found = _outputs(self._run(batch), self.output)
        except KleeneError:
            raise
        except Exception as error:
            raise InputError(
                f"contributions: {self.name} fails on {what} ({type(error).__name__}: {error}); wrap it in a module "
                "that does not, or give arguments=, those with a batch axis of their own as functions of its size"
            ) from error
        if not isinstance(found, Tensor):
            raise InputError(
                f"contributions: {self.name} returns no tensor but {type(found).__name__}; take one from it (output=)"
            )
        return found

    def _run(self, batch: Tensor) -> Any:
        rows = len(batch)
        others = {name: self._for(rows, value) for name, value in self.arguments.items()}
        if not self.embeds:
            return self.model(batch if self.batch_first else batch.transpose(0, 1), **others)
        others.setdefault("attention_mask", torch.ones(batch.shape[:2], dtype=torch.long, device=batch.device))
        return self.model(**{"input_ids" if batch.dim() == 2 else "inputs_embeds": batch}, **others)

    def _for(self, rows: int, value: Any) -> Any:
        """An argument for a number of sentences."""
        if callable(value) and not isinstance(value, (Tensor, nn.Module)):
            return value(rows)
        one = isinstance(value, Tensor) and value.shape[:1] == (1,)
        return self.batch(value).expand(rows, *value.shape[1:]) if one else value

    def outputs(self, found: Tensor, rows: int) -> Tensor:
        """What is read of the outputs for some sentences: (sentence, output)."""
        turned = not self.batch_first and found.dim() > 2
        found = found.transpose(0, 1) if turned else found
        if not found.dim() or len(found) != rows:
            raise InputError(
                f"contributions: the output of {self.name} is {tuple(found.shape)} for {rows} sentence"
                f"{'s' * (rows > 1)} of {len(self.tokens)} tokens; its first axis must be the sentence: give "
                "output=, or batch_first=False for a model that takes time × batch"
            )
        if found.dim() > 2:
            if not -found.shape[1] <= self.read < found.shape[1]:
                raise InputError(f"read {self.read!r}: outside the output's {found.shape[1]} positions")
            found = found[:, self.read]
        return found.reshape(rows, -1)


@contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode; afterwards its modules have their attributes and buffers again."""
    kept = [
        (
            module,
            dict(vars(module)),
            dict(module._buffers),
            [(b, b.clone()) for b in module._buffers.values() if b is not None],
        )
        for module in model.modules()
    ]
    model.eval()
    try:
        yield
    finally:
        for module, attributes, buffers, values in kept:
            vars(module).clear()
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(buffers)
            for buffer, value in values:
                buffer.__class__ = Tensor  # a model may have written words into it
                buffer.copy_(value)


def _alone(asked: _Asked) -> tuple[Tensor, int]:
    """The model's outputs for the sentence, (1, output), which must not depend on the rest of a batch.

    And how many entries they had before one position was read.
    """
    one = f"a batch of one sentence of {len(asked.tokens)} tokens"
    alone = plain(asked.call(asked.batch(asked.tokens[None]), one))
    entries = max(1, alone.numel())
    try:
        alone = asked.outputs(alone, 1)
    except InputError as error:  # a model that squeezes its output loses the batch axis of one
        twice = plain(asked.call(asked.batch(torch.stack([asked.tokens] * 2)), "a batch of two sentences"))
        if twice.dim() != alone.dim() + 1:
            raise error
        alone = asked.outputs(twice, 2)[:1]
    if not alone.isfinite().all():
        raise InputError(f"contributions: {asked.name} gives outputs that are not finite numbers")
    turned = asked.tokens.flip(0)
    among = plain(asked.call(asked.batch(torch.stack([turned, asked.tokens, turned])), "a batch of three sentences"))
    found = asked.outputs(among, 3)[1:2]
    if found.shape != alone.shape or not torch.allclose(found, alone, rtol=0, atol=_near(alone)):
        raise NotSupported(
            f"contributions: {asked.name} gives another output for a sentence in a batch than for it alone; it mixes "
            "the sentences of a batch (batch_first=False?), keeps a state, or draws random numbers"
        )
    return alone, entries


def _near(*values: Tensor) -> float:
    """How far rounding may move values of this size."""
    largest = max(float(value.abs().max()) if value.numel() else 0.0 for value in values)
    eps = float(torch.finfo(values[0].dtype).eps)
    return float(eps**0.5 * largest + 16 * eps)


def _run(asked: _Asked, masks: Tensor, rule: Rule, alone: Tensor) -> Parted:
    """The model's outputs for each focus (rows, output), with their parts."""
    if len(masks) == 1:  # two rows, since a model may squeeze a batch of one
        both: Any = _run(asked, torch.cat([masks, masks]), rule, alone)
        return both[:1]  # type: ignore[no-any-return]
    batch, masks = asked.batch(asked.tokens.expand(len(masks), *asked.tokens.shape).contiguous()), asked.batch(masks)
    if asked.tokens.is_floating_point():
        return _run_on(asked, Parted.of(batch, masks[..., None] * batch, None, rule), alone)
    tokens = Tokens.of(batch, masks, rule)
    if not asked.embeds:
        return _run_on(asked, tokens, alone)
    vectors = asked.model.get_input_embeddings()(batch)
    try:
        return _run_on(asked, Parted.of(vectors, masks[..., None] * vectors, None, rule), alone)
    except KleeneError as error:  # a model may look at its tokens, such as for padding or the end
        try:
            return _run_on(asked, tokens, alone)
        except KleeneError:
            raise error from None


def _run_on(asked: _Asked, given: Parted | Tokens, alone: Tensor) -> Parted:
    """The model's outputs for tokens or vectors with owners (rows, output), with their parts."""
    found = asked.call(given, "an input that is taken apart")
    found = found.with_parts() if hasattr(found, "with_parts") else found  # the model ends with a softmax
    if not isinstance(found, Parted):
        raise NotSupported(
            f"contributions: the output of {asked.name} does not come from its input by functions of torch that can "
            "be followed; NumPy, numbers of Python, scripts and torch.vmap cannot"
        )
    made = asked.outputs(found, len(given))
    assert isinstance(made, Parted)
    if made.shape[1] != alone.shape[1] or not torch.allclose(made.whole, alone, rtol=0, atol=_near(alone)):
        raise NotSupported(
            f"contributions: {asked.name} gives another output for its embeddings than for the tokens; padding "
            "tokens in the sentence may be the cause"
            if asked.embeds
            else f"contributions: {asked.name} gives another output where its input is taken apart; it keeps a state "
            "from call to call, or looks at its tokens in a way that is not followed"
        )
    if not (made.part.isfinite().all() and made.base.isfinite().all()):
        raise NotSupported(
            f"contributions: parts in {asked.name} are not finite numbers; a function such as a logarithm "
            "has no value where words are left out"
        )
    return made


def _check_sum(asked: _Asked, alone: Tensor) -> None:
    """All words and the base must be the output, and no words must have nothing."""
    length = len(asked.tokens)
    found = _run(asked, torch.tensor([[True] * length, [False] * length]), RULES["cd"], alone)
    near = _near(alone, found.base)
    missing = found.whole[0] - found.part[0] - found.base[0]
    if not (float(missing.abs().max()) <= near and float(found.part[1].abs().max()) <= near):
        worst = int(missing.abs().nan_to_num(torch.inf).argmax())
        raise NotSupported(
            f"contributions: the parts in {asked.name} do not add up: all words and the base give "
            f"{float(found.part[0, worst] + found.base[0, worst]):.4g}, where the output is "
            f"{float(found.whole[0, worst]):.4g}; it has a function that is not followed, so give it what comes after"
        )


def _outputs(result: Any, output: Any) -> Any:
    """The tensor of outputs in what a model returns."""
    if output is not None:
        return output(result)
    if isinstance(result, Tensor):
        return result
    if isinstance(result, Mapping):
        return result.get("logits", next(iter(result.values()), None))
    if getattr(result, "logits", None) is not None:
        return result.logits
    return result[0] if isinstance(result, (tuple, list)) and result else result


def _targets(model: nn.Module, target: Any, whole: Tensor, tokenizer: Any) -> tuple[list[int], list[str]]:
    """The outputs to keep, and their names."""
    labels = getattr(getattr(model, "config", None), "id2label", None) or {}
    labels = labels if len(labels) == len(whole) else {}
    if target is None:
        wanted: list[Any] = [int(plain(whole).argmax())]
    elif target == "all":
        wanted = list(range(len(whole)))
    else:
        target = listed(target)
        wanted = [listed(one) for one in target] if isinstance(target, (list, tuple)) else [target]
    by_label = {label: number for number, label in labels.items()}
    numbers = [_number(one, by_label, tokenizer, len(whole)) for one in wanted]
    back = getattr(tokenizer, "convert_ids_to_tokens", None)
    lm = back is not None and len(whole) == getattr(getattr(model, "config", None), "vocab_size", None)
    return numbers, [str(labels.get(n, back(n) if lm and back else n)) for n in numbers]


def _number(one: Any, by_label: dict[str, int], tokenizer: Any, count: int) -> int:
    """The index of an output, from its number, label or token."""
    number = one
    if isinstance(one, str):
        number = by_label[one] if one in by_label else _token(one, tokenizer)
    if not isinstance(number, int) or not 0 <= number < count:
        raise InputError(f"target {one!r}: not among the {count} outputs")
    return number


def _token(name: str, tokenizer: Any) -> int | None:
    """The number of a token, from its name or the text that it stands for; None if it has none."""
    convert, cut = (getattr(tokenizer, method, None) for method in ("convert_tokens_to_ids", "tokenize"))
    if convert is None:
        return None
    unknown = getattr(tokenizer, "unk_token_id", None)
    number = convert(name)
    if number in (None, unknown) and name != getattr(tokenizer, "unk_token", None):
        pieces = cut(name) if cut is not None else []
        if len(pieces) > 1:
            raise InputError(f"target {name!r}: {len(pieces)} tokens ({', '.join(pieces)}); name one of them")
        number = convert(pieces[0]) if pieces else None
        number = None if number == unknown else number
    return number  # type: ignore[no-any-return]
