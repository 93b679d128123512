"""Token numbers that know whose they are, the focus's, the rest's or nobody's: embedding them gives parted vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kleene.errors import NotSupported
from kleene.evidence.parted import MOVING, Parted, Rule, any_function, plain, write_over

SCATTERS = (
    "scatter",
    "scatter_",
    "index_put",
    "index_put_",
    "index_copy",
    "index_copy_",
    "masked_scatter",
    "copy_",
    "put_",
)
JOINS = ("cat", "concat", "concatenate", "stack", "hstack", "vstack")
LOOKUPS = ("__getitem__", "index_select", "take", "gather", "take_along_dim")  # in a table of the model
GIVEN = frozenset(
    """zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones new_full new_empty
    new_tensor argsort argmax argmin sort topk nonzero cumsum count_nonzero bincount unique""".split()  # noqa: SIM905
)
MOVES = MOVING | {
    "view",
    "__getitem__",
    "pad",
    "rot90",
    "moveaxis",
    "diagonal",
    "unfold",
    "hsplit",
    "tensor_split",
    *JOINS,
}


REST, FOCUS, NOBODY = 0, 1, 2  # owners of tokens; nobody's are constants of the model, such as a start token


class Tokens(Tensor):
    """Token numbers with the owner of each.

    What a function makes of a token belongs to the token; comparisons (such as masks of padding), lengths, and places
    count as given.
    """

    owner: Tensor
    rule: Rule

    @staticmethod
    def of(tokens: Tensor, owner: Tensor, rule: Rule) -> Tokens:
        """Put tokens and their owners together, of one shape; a mask is True for the focus."""
        made: Tokens = plain(tokens).as_subclass(Tokens)
        made.owner, made.rule = plain(owner).to(torch.uint8), rule
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if name == "__iter__":
                return iter(_moved(torch.unbind, args, {}))
            if name == "__setitem__":
                return _set(*args)
            if name in ("scatter_add", "scatter_add_"):
                return _counted(name, args, kwargs)
            result = func(*_plain(args), **_plain(kwargs))
            if not isinstance(result, (Tensor, tuple, list)) or not _all(args, kwargs):
                return result
            if name in ("embedding", "embedding_bag", "one_hot"):
                return _embedded(name, result, args, kwargs)
            if name == "__get__":
                return _moved(func, args, {}) if func in VIEWS else result
            if name in ("scatter_add", "scatter_add_"):
                return _counted(func, args, kwargs)
            if name in LOOKUPS and not isinstance(args[0], Tokens):
                return _looked_up(name, result, args, kwargs)
            if name in MOVES:
                return _moved(func, args, kwargs)
            return _elementwise(name, result, args, kwargs)


VIEWS = (Tensor.T.__get__, Tensor.mT.__get__, Tensor.data.__get__)  # type: ignore[attr-defined]


def _each(thing: Any, change: Callable[[Tokens], Any]) -> Any:
    """Apply a function to all tokens in nested arguments."""
    if isinstance(thing, Tokens):
        return change(thing)
    if isinstance(thing, (list, tuple)):
        return type(thing)(_each(item, change) for item in thing)
    if isinstance(thing, dict):
        return {key: _each(value, change) for key, value in thing.items()}
    return thing


def _plain(thing: Any) -> Any:
    return _each(thing, plain)


def _all(*things: Any) -> list[Tokens]:
    """All tokens in nested arguments."""
    found: list[Tokens] = []
    _each(list(things), found.append)
    return found


def _own(result: Tensor, owner: Tensor, rule: Rule) -> Any:
    """What belongs to tokens: numbers again, or parted values."""
    if result.is_floating_point():
        return Parted.of(result, (owner == FOCUS) * result, (owner == NOBODY) * result, rule)
    return Tokens.of(result, owner, rule)


def _embedded(name: str, result: Any, args: Any, kwargs: Any) -> Any:
    tokens = _all(args, kwargs)[0]
    if name == "embedding_bag":
        return _bag(tokens, *args[1:], **kwargs)
    return _own(result, tokens.owner.unsqueeze(-1).expand_as(result), tokens.rule)


def _moved(func: Any, args: Any, kwargs: Any) -> Any:
    """A function that moves tokens; constants that it joins with them are nobody's."""
    rule, name = _all(args, kwargs)[0].rule, getattr(func, "__name__", "")
    if name not in JOINS and args and isinstance(args[0], Tensor) and not isinstance(args[0], Tokens):
        return func(*_plain(args), **_plain(kwargs))  # numbers in the shape of the tokens, such as positions

    def owner(thing: Any) -> Any:
        if isinstance(thing, (list, tuple)):
            return type(thing)(owner(item) for item in thing)
        if isinstance(thing, Tokens):
            return thing.owner
        return torch.full_like(thing, NOBODY, dtype=torch.uint8) if isinstance(thing, Tensor) else thing

    if name in JOINS:
        owners = func(*owner(args), **{key: owner(value) for key, value in kwargs.items()})
    elif name == "pad":
        given = dict(zip(("input", "pad", "mode", "value"), args)) | kwargs
        constant = given.get("mode", "constant") == "constant"
        how = {"mode": "constant", "value": NOBODY} if constant else {"mode": given["mode"]}
        owners = func(given["input"].owner, given["pad"], **how)
    else:
        owners = func(*_each(args, _owner_of), **_each(kwargs, _owner_of))
    result = func(*_plain(args), **_plain(kwargs))
    if isinstance(result, Tensor):
        return _own(result, owners, rule)
    return type(result)(_own(one, theirs, rule) for one, theirs in zip(result, owners))


def _owner_of(tokens: Tokens) -> Tensor:
    return tokens.owner


def _set(target: Any, where: Any, value: Any) -> None:
    """`x[where] = value`: tokens keep their words, and constants are nobody's."""
    known = isinstance(target, Tokens)
    if not known and not isinstance(value, Tokens):  # a place among tokens is given
        target[_plain(where)] = value
        return
    if not known:
        if target._is_view() or isinstance(target, torch.nn.Parameter):
            raise NotSupported(
                "decompose: the model writes tokens into a part of a tensor; write out[:, 1:] = tokens, or torch.cat"
            )
        target.__class__ = Tokens
        target.owner, target.rule = torch.full_like(plain(target), NOBODY, dtype=torch.uint8), value.rule
    plain(target)[_plain(where)] = plain(value)
    target.owner = target.owner.clone()
    target.owner[_plain(where)] = value.owner if isinstance(value, Tokens) else NOBODY


def _counted(name: str, args: Any, kwargs: Any) -> Any:
    """`counts.scatter_add(dim, tokens, values)`: what is added at the number of a token belongs to the token."""
    given = dict(zip(("self", "dim", "index", "src"), args)) | kwargs
    counts, dim, index, values = given["self"], given["dim"], given["index"], given["src"]
    if not isinstance(index, Tokens) or isinstance(counts, Tokens) or not values.is_floating_point():
        raise NotSupported("decompose: the model counts tokens in a way that is not followed; use F.one_hot(tokens, n)")
    if isinstance(values, Parted):
        raise NotSupported("decompose: the model adds parts of words at the numbers of tokens, which is not followed")
    values = values[tuple(slice(size) for size in index.shape)]

    def added(target: Tensor, what: Tensor) -> Tensor:
        return target.scatter_add(dim, plain(index), what)

    before = counts if isinstance(counts, Parted) else None
    base = plain(counts) if before is None else before.base
    part = torch.zeros_like(base) if before is None else before.part
    made = Parted.of(
        added(plain(counts), values),
        added(part, values * (index.owner == FOCUS)),
        added(base, values * (index.owner == NOBODY)),
        index.rule,
    )
    return made if name == "scatter_add" else write_over(counts, made)


def _looked_up(name: str, result: Any, args: Any, kwargs: Any) -> Any:
    """Rows of a table by token."""
    tokens = _all(args, kwargs)
    shape = tokens[0].shape
    first = not isinstance(args[1], tuple) or isinstance(args[1][0], Tokens)
    along = name != "index_select" or kwargs.get("dim", args[1] if len(args) > 1 else None) == 0
    if isinstance(args[0], Parted) or len(tokens) > 1 or not first or not along or result.shape[: len(shape)] != shape:
        raise NotSupported(
            f"decompose: the model looks up tokens by {name} in a way that is not followed; use table[tokens] or "
            "torch.nn.Embedding"
        )
    owner = tokens[0].owner.reshape(*shape, *[1] * (result.dim() - len(shape))).expand_as(result)
    return _own(result, owner, tokens[0].rule)


def _elementwise(name: str, result: Any, args: Any, kwargs: Any) -> Any:
    """Numbers made of tokens, one by one; what else is made of tokens counts as given."""
    tokens = _all(args, kwargs)
    if name in SCATTERS:
        raise NotSupported(
            f"decompose: the model moves tokens by {name}, which is not followed; use tokens[…] or torch.cat"
        )
    if name in GIVEN or not isinstance(result, Tensor) or result.dtype == torch.bool:
        return result
    own, size = tokens[0], result.shape
    if not any(_fits(one.shape, size) for one in tokens):
        return result
    if any(other.shape != own.shape or not torch.equal(other.owner, own.owner) for other in tokens):
        raise NotSupported(
            f"decompose: the model makes one number of several tokens ({name}), which then belongs to no word; "
            "look them up one by one"
        )
    return _own(result, own.owner.expand(size), own.rule)


def _fits(shape: torch.Size, size: torch.Size) -> bool:
    """Whether a tensor of a shape has an entry for each of a result."""
    return len(shape) <= len(size) and all(a in (1, b) for a, b in zip(shape[::-1], size[::-1]))


def _bag(tokens: Tokens, weight: Tensor, offsets: Any = None, **options: Any) -> Parted:
    """The sum, mean or maximum of embeddings; tokens are (batch, time)."""
    mode, pad = options.get("mode", "mean"), options.get("padding_idx")
    if offsets is not None or options.get("per_sample_weights") is not None or tokens.dim() != 2:
        raise NotSupported("decompose: an EmbeddingBag with offsets or weights; give it tokens as (batch, time)")
    vectors = torch.nn.functional.embedding(plain(tokens), weight)
    kept = torch.ones_like(plain(tokens), dtype=torch.bool) if pad is None else plain(tokens) != pad

    def pooled(x: Tensor) -> Tensor:
        if mode == "max":
            return x.masked_fill(~kept.unsqueeze(-1), -torch.inf).amax(1)
        total = (x * kept.unsqueeze(-1)).sum(1)
        return total / kept.sum(1, keepdim=True).clamp(min=1) if mode == "mean" else total

    found = any_function(pooled, (_own(vectors, tokens.owner.unsqueeze(-1), tokens.rule),), {})
    assert isinstance(found, Parted)
    return found
