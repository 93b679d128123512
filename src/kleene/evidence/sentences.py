"""Sentences as explanations see them: tokens or vectors, the names of words, and foci by words, slices or positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from kleene.errors import InputError, a_type


def joined(names: list[str]) -> str:
    """One word of the names of its subwords."""
    return "".join(name.replace("##", "").strip("Ġ▁ ") for name in names)


@dataclass(frozen=True)
class Sentence:
    """One sentence.

    - `tokens`: their numbers (time), or vectors (time, features).
    - `names`: one for each token.
    - `groups`: the positions of each word; special tokens are in none.
    - `arguments`: the token types and the mask of padding that a tokenizer gives, each with a batch axis of one.
    - `join`: makes a word of the names of its tokens.
    """

    tokens: Tensor
    names: list[str]
    groups: list[list[int]]
    arguments: dict[str, Tensor] = field(default_factory=dict)
    join: Callable[[list[str]], str] = joined

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def words(self) -> list[str]:
        """The words, each joined from the names of its tokens."""
        return self._joined(self.groups)

    def _joined(self, groups: Sequence[Sequence[int]]) -> list[str]:
        return [self.join([self.names[place] for place in group]) for group in groups]

    def called(self, mask: Tensor) -> str:
        """The words of a focus."""
        groups = self.groups
        if not mask[[place for group in groups for place in group]].any():
            groups = [[place] for place in range(len(self))]  # special tokens alone
        inside = [[place for place in group if mask[place]] for group in groups if bool(mask[group].any())]
        return " ".join(self._joined(inside)) or "nothing"

    def masks(self, focus: Any) -> list[Tensor]:
        """The foci that a user names, as masks over tokens; by default each word."""
        return [self._mask(entry) for entry in (self.groups if focus is None else _entries(focus))]

    def _mask(self, entry: Any) -> Tensor:
        mask, length = torch.zeros(len(self), dtype=torch.bool), len(self)
        if isinstance(entry, str):
            return self._phrase(entry)
        if isinstance(entry, slice):
            mask[entry] = True
            return mask
        entry = listed(entry)
        places = list(entry) if isinstance(entry, Iterable) else [entry]
        if places and isinstance(entry, Iterable) and _are_bools(places):
            if len(places) != length:
                raise InputError(f"focus: a mask of {len(places)} for {length} tokens")
            return torch.tensor([bool(place) for place in places])
        for place in places:
            if isinstance(place, (str, slice)):
                mask |= self._mask(place)
                continue
            number = place if isinstance(place, bool) else listed(place)
            if isinstance(number, bool) or not isinstance(number, int) or not -length <= number < length:
                raise InputError(f"focus: position {place!r} is outside the sentence; use 0 to {length - 1}")
            mask[number] = True
        return mask

    def _phrase(self, phrase: str) -> Tensor:
        """The first place of words that follow each other, or of a special token."""
        mask, wanted, shown = torch.zeros(len(self), dtype=torch.bool), phrase.split(), self.words
        for start in range(len(shown) - len(wanted) + 1):
            if wanted and shown[start : start + len(wanted)] == wanted:
                for group in self.groups[start : start + len(wanted)]:
                    mask[group] = True
                return mask
        if phrase not in self.names:
            raise InputError(f"focus {phrase!r}: not in the sentence '{' '.join(shown)}'")
        mask[self.names.index(phrase)] = True
        return mask


def read_sentence(given: Any, tokenizer: Any = None, words: Sequence[str] | None = None) -> Sentence:
    """Read what a user gives as a sentence: text, token numbers, vectors, or what a tokenizer returns."""
    made, arguments = given, {}
    if isinstance(given, str):
        made = _tokenized(given, tokenizer)
    if hasattr(made, "keys"):
        if "input_ids" not in made:
            raise InputError("contributions: the tokenizer's result has no input_ids; give token numbers")
        arguments = {name: torch.as_tensor(made[name]) for name in ("token_type_ids", "attention_mask") if name in made}
        arguments = {name: value.reshape(1, -1) for name, value in arguments.items()}
        tokens = _numbers(made["input_ids"])
    else:
        tokens = _numbers(getattr(made, "ids", made))
    groups = _word_groups(made, len(tokens))
    names = _names(given, made, tokens, tokenizer)
    if words is not None:
        if len(words) != len(tokens):
            raise InputError(f"words: {len(words)} names for {len(tokens)} tokens")
        names = [str(word) for word in words]
    found = Sentence(tokens, names, groups or [[place] for place in range(len(tokens))], arguments)
    convert = getattr(tokenizer, "convert_tokens_to_string", None)
    if convert is None or groups is None or words is not None:
        return found
    return replace(found, join=lambda subwords: str(convert(subwords)).strip())


def _tokenized(text: str, tokenizer: Any) -> Any:
    """What a tokenizer makes of text: one that is called, or one with a method `encode`."""
    if tokenizer is None:
        raise InputError("contributions: text needs a tokenizer=; or give token numbers")
    call = tokenizer if callable(tokenizer) else getattr(tokenizer, "encode", None)
    if call is None:
        raise InputError(f"tokenizer: {a_type(tokenizer)} is no function, and has no method encode")
    try:
        return call(text)
    except Exception as error:
        raise InputError(f"tokenizer: fails on {text!r:.60} ({type(error).__name__}: {error})") from error


def _numbers(given: Any) -> Tensor:
    """One sentence of tokens (time), or of vectors (time, features)."""
    try:
        tokens = given if isinstance(given, Tensor) else torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"input {given!r:.60}: needs one sentence of token numbers, or text with a tokenizer= ({error})"
        ) from None
    if tokens.numel() == 0:
        raise InputError("contributions: an empty sentence; give at least one word")
    if tokens.dim() == 3 or (tokens.dim() == 2 and not tokens.is_floating_point()):
        if tokens.shape[0] != 1:
            raise InputError(f"contributions: {tokens.shape[0]} sentences; give one at a time")
        tokens = tokens[0]
    if tokens.dim() != (2 if tokens.is_floating_point() else 1):
        raise InputError(f"input {tuple(tokens.shape)}: needs one sentence of tokens, or of time × features")
    return tokens


def _names(given: Any, made: Any, tokens: Tensor, tokenizer: Any) -> list[str]:
    """A name for each token: the tokenizer's, the words of the text where there are as many, or its number."""
    if tokens.is_floating_point():
        return [str(place) for place in range(len(tokens))]
    convert = getattr(tokenizer, "convert_ids_to_tokens", None)
    known = convert(tokens.tolist()) if convert is not None and made is not None else getattr(made, "tokens", None)
    if known is not None and (callable(known) or len(known) == len(tokens)):
        try:
            return [str(name) for name in (known() if callable(known) else known)]
        except ValueError:  # a slow tokenizer of Hugging Face has no names here
            pass
    if isinstance(given, str) and len(given.split()) == len(tokens):
        return given.split()
    return [str(token) for token in tokens.tolist()]


def _word_groups(made: Any, length: int) -> list[list[int]] | None:
    """The positions of each word, if the tokenizer tells them; special tokens are not words."""
    numbers = getattr(made, "word_ids", None)
    if numbers is None:
        return None
    try:
        numbers = numbers() if callable(numbers) else numbers
    except (ValueError, IndexError):
        return None
    sequences = getattr(made, "sequence_ids", None)  # each of two texts counts its words from 0
    sequences = (sequences() if callable(sequences) else sequences) or [0] * len(numbers)
    groups: dict[tuple[Any, int], list[int]] = {}
    for place, (sequence, number) in enumerate(zip(sequences[:length], numbers)):
        if number is not None:
            groups.setdefault((sequence, number), []).append(place)
    return list(groups.values())


def _entries(focus: Any) -> list[Any]:
    """The foci in what the user gives: one, or several of them."""
    if isinstance(focus, Mapping):
        raise InputError("focus: a mapping; give a list of foci")
    if isinstance(focus, (str, slice)):
        return [focus]
    focus = listed(focus)
    entries = list(focus) if isinstance(focus, Iterable) else [focus]
    return [entries] if entries and _are_bools(entries) else entries


def listed(thing: Any) -> Any:
    """Arrays, tensors and their numbers as plain Python."""
    return thing.tolist() if hasattr(thing, "tolist") else thing


def _are_bools(things: Sequence[Any]) -> bool:
    return all(isinstance(listed(thing), bool) for thing in things)
