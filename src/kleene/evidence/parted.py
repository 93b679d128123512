"""Contextual decomposition of any torch model: tensors that carry the part of the words in focus.

A `Parted` tensor has three parts that sum to it: the focus's part r, the base b, which comes from biases and other
constants, and the rest q. Every function φ of torch passes them on. The focus gets

    alone     φ(r + b) − φ(b)                  its effect without the rest
    removed   φ(z) − φ(z − r)                  what goes where it goes
    shared    the mean of both                 Shapley's value of r beside q, above b
    free      Shapley's value of r beside q and b, and the base gets its own, above φ(0)
    even      the same, and each of the three a third of φ(0)

and the base becomes φ(b) but for `free` and `even`. On linear functions all of these are one. An empty focus has
nothing, but for `even`; one of all words has everything but the base. Attention patterns and the scales of layer norms
are those of the whole input: given them, attention and norms are linear. LSTMs and GRUs go gate by gate
(`kleene.evidence.recurrent_parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from kleene.errors import InputError, NotSupported

SHARES = ("alone", "removed", "shared", "free", "even")
PRODUCTS = ("alone", "removed", "shared", "source", "bare")


@dataclass(frozen=True)
class Rule:
    """Who gets what: `unit` is the share at an activation, `product` that at a product of two parted tensors.

    A product's share can also be `source`, the interactions with the focus's part of the second factor alone, or
    `bare`, those with the rest, not those with the base. Both are for gates of LSTMs and GRUs; elsewhere they are
    `removed`.

    `owned_bias`: whether a word in focus gets the product of the gates' biases at its own step of an LSTM or a GRU.
    `but_last`: the last word of a phrase does not.
    """

    unit: str = "shared"
    product: str = "alone"
    owned_bias: bool = True
    but_last: bool = False

    def __post_init__(self) -> None:
        if self.unit not in SHARES or self.product not in PRODUCTS:
            raise InputError(
                f"rule: unit {self.unit!r} and product {self.product!r}; a unit's share is {', '.join(SHARES)}, "
                f"a product's {', '.join(PRODUCTS)}"
            )


RuleName = Literal["cd", "murdoch", "released", "generalised", "jumelet", "alone", "removed", "shared"]
RULES = {
    "cd": Rule(),  # the interdependence paper's
    "murdoch": Rule(owned_bias=False),  # the original
    "released": Rule(but_last=True),  # the original's released code: its range of words ends one word early there
    "generalised": Rule("free", "removed", False),  # interactions and a bias that is a player like the others
    "jumelet": Rule("even", "removed", False),  # the same as diagNNose has it: half of a closed gate is shared, too
    "alone": Rule("alone", "alone", False),
    "removed": Rule("removed", "removed", False),
    "shared": Rule("shared", "shared", False),
}


def rule_of(name: RuleName | Rule) -> Rule:
    """A rule by name."""
    if isinstance(name, Rule):
        return name
    if name not in RULES:
        raise InputError(f"rule {name!r}: unknown; choose one of {', '.join(RULES)}")
    return RULES[name]


def share(kind: str, phi: Callable[[Tensor], Tensor], r: Tensor, z: Tensor, b: Tensor) -> Tensor:
    """The focus's share of φ(z), with r its part of z and b the base."""
    if kind in ("free", "even"):
        q, nothing = z - r - b, phi(torch.zeros_like(z))
        first, last = phi(r) - nothing, phi(z) - phi(z - r)
        value = first / 3 + (phi(r + q) - phi(q)) / 6 + (phi(r + b) - phi(b)) / 6 + last / 3
        return value + nothing / 3 if kind == "even" else value
    parts = []
    if kind in ("alone", "shared"):
        parts.append(phi(r + b) - phi(b))
    if kind in ("removed", "shared"):
        parts.append(phi(z) - phi(z - r))
    return sum(parts[1:], parts[0]) / len(parts)


def base_share(kind: str, phi: Callable[[Tensor], Tensor], r: Tensor, z: Tensor, b: Tensor) -> Tensor:
    """The base's share of φ(z); φ(0) belongs to the base, but for `even`."""
    if kind == "even":
        return share(kind, phi, b, z, r)
    return phi(b) if kind != "free" else share(kind, phi, b, z, r) + phi(torch.zeros_like(z))


def product_share(kind: str, one: tuple[Tensor, Tensor, Tensor], two: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """The focus's share of a product, each factor as (part, whole, base). Shapley's two are `shared` here."""
    (r, z, b), (s, y, c) = one, two
    alone, removed = (r + b) * (s + c) - b * c, z * y - (z - r) * (y - s)
    if kind == "source":
        return z * s + r * c
    if kind == "bare":
        return removed - r * c - b * s
    return {"alone": alone, "removed": removed}.get(kind, (alone + removed) / 2)


class Parted(Tensor):
    """A tensor with the part of the focus and the base; functions of torch pass them on."""

    part: Tensor
    base: Tensor
    rule: Rule
    origin: tuple[Parted, Callable[[Tensor], Tensor]] | None  # the tensor that this one is a view of, and the view
    owned: bool  # whether no other tensor has the memory of part and base

    @staticmethod
    def of(whole: Tensor, part: Tensor, base: Tensor | None, rule: Rule) -> Parted:
        """Put the parts together."""
        made: Parted = plain(whole).as_subclass(Parted)
        made.part, made.rule, made.origin, made.owned = plain(part), rule, None, False
        made.base = torch.zeros_like(made.part) if base is None else plain(base)
        return made

    @property
    def whole(self) -> Tensor:
        """The tensor without its parts."""
        whole: Tensor = plain(self)
        return whole

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if name in ("__get__", "__set__"):  # properties: shape, dtype, .T and such
                return _property(func, args)
            if name == "__setitem__":
                return _set(*args)
            if name in ("numpy", "__array__"):
                raise NotSupported(
                    "decompose: the model makes NumPy arrays of words, which cannot be followed; use torch"
                )
            in_place = name.endswith("_") and (not name.startswith("__") or name.startswith("__i"))
            plainly = name.replace("__i", "__") if name.endswith("__") else name.removesuffix("_")
            handler = HANDLERS.get(plainly if in_place else name, any_function)
            if in_place:
                return _in_place(handler, func, args, kwargs or {})
            return handler(func, args, kwargs or {})


class Given(Tensor):
    """A tensor that counts as given where it meets words, such as an attention pattern.

    It remembers how its parts are computed, for a model that ends with it, or with what it makes of it alone.
    """

    compute: Callable[[], Any]
    parts: Any

    @staticmethod
    def of(whole: Tensor, compute: Callable[[], Any]) -> Given:
        """Put a tensor and the function that computes it with its parts together."""
        made: Given = plain(whole).as_subclass(Given)
        made.compute, made.parts = compute, None
        return made

    def with_parts(self) -> Any:
        """The tensor with its parts, computed once."""
        if self.parts is None:
            self.parts = self.compute()
        return self.parts

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__") and func not in MOVING_PROPERTIES:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args)

        def call(view: Callable[[Given], Any]) -> Any:
            change = lambda x: view(x) if isinstance(x, Given) else x  # noqa: E731
            return func(*_map(args, change), **_map(kwargs or {}, change))

        found = call(plain)
        if type(found) is Tensor and _floating(found):
            return Given.of(found, lambda: call(Given.with_parts))
        if isinstance(found, tuple) and all(type(one) is Tensor for one in found):
            return type(found)(
                Given.of(one, partial(lambda k: call(Given.with_parts)[k], k)) for k, one in enumerate(found)
            )
        return found


def plain(tensor: Any) -> Any:
    """A tensor without parts."""
    if not isinstance(tensor, Tensor):
        return tensor
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


MOVING_PROPERTIES = tuple(getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "real", "imag", "data"))


def _property(func: Any, args: Any) -> Any:
    return _linear(func, args, {}) if func in MOVING_PROPERTIES else func(*args)


def _in_place(handler: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """`x.add_(…)` and such: run the function on copies, and put the results in the place of x."""
    x = _writable(args[0], first_parted((args, kwargs)).rule)

    def on_copies(first: Tensor, *others: Any, **named: Any) -> Any:
        return func(first.clone(), *others, **named)

    return write_over(x, handler(on_copies, args, kwargs))


def write_over(target: Tensor, made: Parted) -> Parted:
    """Put values with parts in the place of a tensor's."""
    x = _writable(target, made.rule)
    x.whole.copy_(plain(made))
    x.part, x.base, x.owned = made.part, made.base, False
    _write_back(x)
    return x


def _own(x: Parted) -> None:
    """Give the parts memory of their own."""
    if not x.owned:
        x.part, x.base, x.owned = x.part.clone(), x.base.clone(), True


def _write_back(x: Parted) -> None:
    """Put the parts of a view into the tensor that it is a view of."""
    if x.origin is None:
        return
    source, view = x.origin
    _own(source)
    view(source.part).copy_(x.part)
    view(source.base).copy_(x.base)
    _write_back(source)


def _writable(target: Tensor, rule: Rule) -> Parted:
    """The tensor that words are written into; a plain one becomes parted, and what it has is nobody's."""
    if isinstance(target, Parted):
        return target
    if target._is_view() or type(target) not in (Tensor, Given) or not target.is_floating_point():
        raise NotSupported(
            "decompose: the model writes words into a part of a plain tensor, or into a parameter; write into the "
            "tensor itself, out[:, t] = h, or use torch.stack"
        )
    target.__class__ = Parted
    assert isinstance(target, Parted)
    target.base, target.rule, target.origin = target.whole.clone(), rule, None
    target.part, target.owned = torch.zeros_like(target.base), True
    return target


def _set(target: Any, where: Any, value: Any) -> None:
    """`x[where] = value`."""
    target = _writable(target, (target if isinstance(target, Parted) else first_parted(value)).rule)
    target.whole[where] = plain(value)
    _own(target)
    target.part[where] = value.part if isinstance(value, Parted) else 0.0
    target.base[where] = value.base if isinstance(value, Parted) else value
    _write_back(target)


def _map(thing: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to all tensors in nested arguments."""
    if isinstance(thing, Tensor):
        return change(thing)
    if isinstance(thing, (list, tuple)):
        kind = type(thing)
        items = [_map(item, change) for item in thing]
        return kind(*items) if hasattr(thing, "_fields") else kind(items)
    if isinstance(thing, dict):
        return {key: _map(value, change) for key, value in thing.items()}
    return thing


def first_parted(thing: Any) -> Any:
    """The first parted tensor of nested arguments, or None."""
    if isinstance(thing, Parted):
        return thing
    items = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else ()
    return next((found for item in items if (found := first_parted(item)) is not None), None)


def _count(thing: Any) -> int:
    if isinstance(thing, Parted):
        return 1
    items = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else ()
    return sum(_count(item) for item in items)


def _call(func: Any, args: Any, kwargs: Any, view: Callable[[Parted], Tensor]) -> Any:
    """The function with each parted tensor replaced by one view of it."""
    change = lambda x: view(x) if isinstance(x, Parted) else x  # noqa: E731
    return func(*_map(args, change), **_map(kwargs, change))


def _join(whole: Any, part: Any, base: Any, rule: Rule) -> Any:
    """Results with their parts. Anything but a floating-point tensor stays unchanged."""
    if isinstance(whole, (tuple, list)):
        items = [_join(z, r, b, rule) for z, r, b in zip(whole, part, base)]
        return type(whole)(items) if not hasattr(whole, "_fields") else type(whole)(*items)
    return Parted.of(whole, part, base, rule) if isinstance(whole, Tensor) and _floating(whole) else whole


def _linear(func: Any, args: Any, kwargs: Any) -> Any:
    """A function that moves, sums or scales numbers. Constants that it joins with them belong to the base."""
    parted = first_parted((args, kwargs))
    assert parted is not None
    whole = _call(func, args, kwargs, plain)
    if not _floating(whole):
        return whole
    base = _call(func, args, kwargs, lambda x: x.base)
    nothing = _map((args, kwargs), lambda x: x if isinstance(x, Parted) or not _floating(x) else torch.zeros_like(x))
    part = _call(func, nothing[0], nothing[1], lambda x: x.part)
    made = _join(whole, part, base, parted.rule)
    if isinstance(made, Parted) and args and isinstance(args[0], Parted) and _share_memory(whole, args[0].whole):
        made.origin = args[0], lambda values: func(values, *args[1:], **kwargs)
    return made


def _share_memory(one: Tensor, two: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr()


def _affine(func: Any, args: Any, kwargs: Any) -> Any:
    """A sum, or a choice between numbers: constants belong to the base."""
    parted = first_parted((args, kwargs))
    if parted is None:
        return _call(func, args, kwargs, plain)

    def nothing(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x if isinstance(x, Parted) or x.dtype == torch.bool else torch.zeros_like(x)
        return 0.0 if isinstance(x, (int, float)) and not isinstance(x, bool) else x

    without = [nothing(x) for x in args], {k: x if k == "alpha" else nothing(x) for k, x in kwargs.items()}
    whole, base = _call(func, args, kwargs, plain), _call(func, args, kwargs, lambda x: x.base)
    return _join(whole, _call(func, *without, lambda x: x.part), base, parted.rule)


def _floating(thing: Any) -> bool:
    if isinstance(thing, (tuple, list)):
        return any(_floating(item) for item in thing)
    return isinstance(thing, Tensor) and (thing.is_floating_point() or thing.is_complex())


def _view(func: Any, args: Any, kwargs: Any) -> Any:
    """`x.view(…)`: the parts may lie otherwise in memory than the tensor that the model expects."""
    numbers = len(args) > 1 and not isinstance(args[1], torch.dtype) and not kwargs
    return _linear(Tensor.reshape if numbers else func, args, kwargs)


def any_function(func: Any, args: Any, kwargs: Any) -> Any:
    """Any other function: the share of the rule, on all arguments at once."""
    parted = first_parted((args, kwargs))
    whole = _call(func, args, kwargs, plain)
    if parted is None or not _floating(whole):
        return whole
    rule = parted.rule
    kind = rule.unit if _count((args, kwargs)) == 1 else rule.product
    kind = "removed" if kind in ("source", "bare") else kind
    base = _call(func, args, kwargs, lambda x: x.base)

    def at(view: Callable[[Parted], Tensor]) -> Any:
        return _call(func, args, kwargs, view)

    def difference(one: Any, two: Any) -> Any:
        if isinstance(one, (tuple, list)):
            return tuple(difference(a, b) for a, b in zip(one, two))
        return one - two if _floating(one) else one

    def mean(weights: list[float], parts: list[Any]) -> Any:
        if isinstance(parts[0], (tuple, list)):
            return tuple(mean(weights, list(column)) for column in zip(*parts))
        return sum(w * p for w, p in zip(weights, parts)) if _floating(parts[0]) else parts[0]

    def alone() -> Any:
        return difference(at(lambda x: x.part + x.base), base)

    def removed() -> Any:
        return difference(whole, at(lambda x: x.whole - x.part))

    if kind == "alone":
        part = alone()
    elif kind == "removed":
        part = removed()
    elif kind == "shared":
        part = mean([0.5, 0.5], [alone(), removed()])
    else:  # Shapley among r, q and b
        zero = at(lambda x: torch.zeros_like(x.part))
        focus, rest = at(lambda x: x.part), at(lambda x: x.whole - x.base - x.part)
        without = at(lambda x: x.whole - x.base)
        sixths, own = [1 / 3, 1 / 6, 1 / 6, 1 / 3], 1 / 3 if kind == "even" else 0.0  # of φ(0)
        part = mean([*sixths, own], [difference(focus, zero), difference(without, rest), alone(), removed(), zero])
        with_focus, with_rest = at(lambda x: x.part + x.base), at(lambda x: x.whole - x.part)
        owns = [difference(base, zero), difference(with_focus, focus), difference(with_rest, rest)]
        base = mean([*sixths, own or 1.0], [*owns, difference(whole, without), zero])
    return _join(whole, part, base, rule)


def _frozen(func: Any, args: Any, kwargs: Any) -> Any:
    """A function whose result counts as given: attention patterns, and the scales of norms."""
    found = _call(func, args, kwargs, plain)
    return Given.of(found, lambda: any_function(func, args, kwargs)) if _floating(found) else found


def _rms_norm(func: Any, args: Any, kwargs: Any) -> Any:
    """RMS norm with the scale of the whole input."""
    given = {"weight": None, "eps": None, **dict(zip(("input", "normalized_shape", "weight", "eps"), args)), **kwargs}
    x, axes = given["input"], tuple(range(-len(given["normalized_shape"]), 0))
    if not isinstance(x, Parted):
        return any_function(func, args, kwargs)
    eps = torch.finfo(x.dtype).eps if given["eps"] is None else given["eps"]
    scale = (x.whole.square().mean(axes, keepdim=True) + eps).rsqrt()
    if given["weight"] is not None:
        scale = scale * plain(given["weight"])
    return Parted.of(_call(func, args, kwargs, plain), x.part * scale, x.base * scale, x.rule)


def _log_softmax(func: Any, args: Any, kwargs: Any) -> Any:
    """The logarithm of a softmax, with the sum of the whole input."""
    x = args[0] if args else kwargs["input"]
    whole = _call(func, args, kwargs, plain)
    return Parted.of(whole, x.part.to(whole.dtype), x.base.to(whole.dtype) + whole - x.whole, x.rule)


def _layer_norm(func: Any, args: Any, kwargs: Any) -> Any:
    """Layer norm with the scale of the whole input."""
    names = ("input", "normalized_shape", "weight", "bias", "eps")
    given = {"weight": None, "bias": None, "eps": 1e-5, **dict(zip(names, args)), **kwargs}
    x, axes = given["input"], tuple(range(-len(given["normalized_shape"]), 0))
    if not isinstance(x, Parted):
        return any_function(func, args, kwargs)
    whole = x.whole
    scale = (whole.var(axes, keepdim=True, unbiased=False) + given["eps"]).rsqrt()
    if given["weight"] is not None:
        scale = scale * given["weight"]
    part, base = ((view - view.mean(axes, keepdim=True)) * scale for view in (x.part, x.base))
    if given["bias"] is not None:
        base = base + given["bias"]
    return Parted.of(_call(func, args, kwargs, plain), part, base, x.rule)


def _group_norm(func: Any, args: Any, kwargs: Any) -> Any:
    """Group norm and instance norm with the scale of the whole input."""
    x = first_parted((args, kwargs))
    if _count((args, kwargs)) != 1 or not (args and args[0] is x):
        return any_function(func, args, kwargs)
    whole = _call(func, args, kwargs, plain)
    size = (1,) * (x.dim() - 2)
    given = dict(zip(NORMS[func.__name__], args[1:])) | kwargs
    groups = given.get("num_groups", x.shape[1])
    weight, bias = given.get("weight"), given.get("bias")
    if func.__name__ == "instance_norm" and given.get("running_mean") is not None:
        return any_function(func, args, kwargs)  # in evaluation mode these are constants

    def centred(values: Tensor) -> Tensor:
        grouped = values.unflatten(1, (groups, -1)).flatten(2)
        made: Tensor = (grouped - grouped.mean(-1, keepdim=True)).reshape(values.shape)
        return made

    spread = x.whole.unflatten(1, (groups, -1)).flatten(2).var(-1, keepdim=True, unbiased=False)
    scale = (spread + given.get("eps", 1e-5)).rsqrt().expand(-1, -1, x.shape[1] // groups)
    scale = scale.reshape(len(x), -1, *size) * (1.0 if weight is None else weight.reshape(-1, *size))
    base = centred(x.base) * scale
    return Parted.of(whole, centred(x.part) * scale, base if bias is None else base + bias.reshape(-1, *size), x.rule)


NORMS = {
    "group_norm": ("num_groups", "weight", "bias", "eps"),
    "instance_norm": ("running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"),
}


def _divide(func: Any, args: Any, kwargs: Any) -> Any:
    """A quotient; a divisor that is 0 without words, such as a sum of weights of words, counts as given."""
    one, two = args[:2] if len(args) > 1 else (args[0], kwargs["other"])
    if not isinstance(two, Parted) or kwargs.get("rounding_mode") is not None or bool((two.base != 0).all()):
        return any_function(func, args, kwargs)
    whole = _call(func, args, kwargs, plain)
    if not isinstance(one, Parted):
        return Parted.of(whole, torch.zeros_like(whole), whole, two.rule)
    return Parted.of(whole, one.part / two.whole, one.base / two.whole, two.rule)


def _normalize(func: Any, args: Any, kwargs: Any) -> Any:
    """`F.normalize` with the length of the whole input."""
    given = {"p": 2.0, "dim": 1, "eps": 1e-12, **dict(zip(("input", "p", "dim", "eps"), args)), **kwargs}
    x = given["input"]
    scale = 1 / x.whole.norm(given["p"], given["dim"], keepdim=True).clamp_min(given["eps"])
    return Parted.of(x.whole * scale, x.part * scale, x.base * scale, x.rule)


def _cosine(func: Any, args: Any, kwargs: Any) -> Any:
    """`F.cosine_similarity` with the lengths of the whole inputs."""
    given = {"dim": 1, "eps": 1e-8, **dict(zip(("x1", "x2", "dim", "eps"), args)), **kwargs}
    dim, eps = given["dim"], given["eps"]

    def unit(x: Any) -> Any:
        if isinstance(x, Parted):
            return _normalize(func, (x,), {"dim": dim, "eps": eps})
        return torch.nn.functional.normalize(x, dim=dim, eps=eps)

    pair = (unit(given["x1"]), unit(given["x2"]))
    return _linear(torch.sum, (any_function(torch.mul, pair, {}), dim), {})


def _iterator(func: Any, args: Any, kwargs: Any) -> Any:
    return iter(_linear(torch.unbind, args, {}))


def _attention(func: Any, args: Any, kwargs: Any) -> Any:
    """Scaled dot-product attention with the pattern of the whole input."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = {"attn_mask": None, "is_causal": False, "scale": None, "enable_gqa": False}
    given |= {**dict(zip(names, args)), **kwargs}
    q, k, v = (plain(given[name]) for name in ("query", "key", "value"))
    whole = func(q, k, v, **{n: given[n] for n in ("attn_mask", "is_causal", "scale", "enable_gqa")})
    value = given["value"]
    if not isinstance(value, Parted):
        return whole
    part, base = value.part, value.base
    if given["enable_gqa"]:
        times = q.shape[-3] // k.shape[-3]
        k, part, base = (x.repeat_interleave(times, -3) for x in (k, part, base))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if given["scale"] is None else given["scale"])
    if given["is_causal"]:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(ahead, -torch.inf)
    mask = given["attn_mask"]
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    pattern = scores.softmax(-1).nan_to_num(0.0)
    return Parted.of(whole, pattern @ part, pattern @ base, value.rule)


MULTI_HEAD = """query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v add_zero_attn
dropout_p out_proj_weight out_proj_bias training key_padding_mask need_weights attn_mask use_separate_proj_weight
q_proj_weight k_proj_weight v_proj_weight static_k static_v average_attn_weights is_causal""".split()  # noqa: SIM905


def _multi_head(func: Any, args: Any, kwargs: Any) -> Any:
    """The attention of `torch.nn.MultiheadAttention`, with the patterns of the whole input."""
    given = {**dict(zip(MULTI_HEAD, args)), **kwargs}
    value, heads = given["value"], given["num_heads"]
    if not isinstance(value, Parted) or given["bias_v"] is not None or given["add_zero_attn"]:
        return any_function(func, args, kwargs)
    whole, shown = _call(func, args, kwargs, plain)
    asked = {**given, "need_weights": True, "average_attn_weights": False}
    _, pattern = _call(func, (), asked, plain)  # (batch, head, to, from)
    weight, bias = given["v_proj_weight"], given["in_proj_bias"]
    if not given.get("use_separate_proj_weight"):
        weight = given["in_proj_weight"].chunk(3)[2]

    def mixed(x: Tensor, constant: Any) -> Tensor:
        read = x @ weight.T if constant is None else x @ weight.T + constant.chunk(3)[2]
        read = read.unflatten(-1, (heads, -1)).movedim(
            -2, 0
        )  # (head, from, batch, entry), without batches (head, from, …)
        read = read.movedim(-2, 0) if read.dim() == 4 else read  # (batch, head, from, entry)
        found = (pattern @ read).transpose(-3, -2).flatten(-2)  # (batch, to, features)
        made: Tensor = (found.transpose(0, 1) if found.dim() == 3 else found) @ given["out_proj_weight"].T
        return made

    part, base = mixed(value.part, None), mixed(value.base, bias)
    if given["out_proj_bias"] is not None:
        base = base + given["out_proj_bias"]
    return Parted.of(whole, part, base, value.rule), shown


def _recurrent(func: Any, args: Any, kwargs: Any) -> Any:
    from kleene.evidence.recurrent_parts import recurrent, recurrent_cell

    return (recurrent_cell if func.__name__.endswith("_cell") else recurrent)(func.__name__, args)


def _dropout(func: Any, args: Any, kwargs: Any) -> Any:
    return args[0] if args else kwargs["input"]  # explanations are of the model in evaluation mode


MOVING = frozenset(
    """reshape transpose permute contiguous flatten unflatten expand expand_as squeeze unsqueeze cat stack concat
    getitem __getitem__ select narrow split chunk unbind sum mean neg __neg__ swapaxes movedim repeat to float double
    half clone detach index_select gather flip roll tile view_as reshape_as type type_as repeat_interleave
    _pad_packed_sequence take_along_dim t""".split()  # noqa: SIM905
)

COMPLEX = """real imag conj resolve_conj view_as_real view_as_complex fft_fft fft_ifft fft_rfft fft_irfft fft_fft2
fft_ifft2 fft_fftn fft_ifftn fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft fft_ihfft fft_fftshift
fft_ifftshift""".split()  # noqa: SIM905

AFFINE = ("add", "__add__", "__radd__", "sub", "__sub__", "rsub", "__rsub__", "masked_fill", "where")

HANDLERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **dict.fromkeys((*MOVING, *COMPLEX), _linear),
    "view": _view,
    **dict.fromkeys(AFFINE, _affine),
    **dict.fromkeys(("softmax", "rsqrt", "sqrt", "var", "std", "norm", "vector_norm", "linalg_vector_norm"), _frozen),
    "rms_norm": _rms_norm,
    "log_softmax": _log_softmax,
    "multi_head_attention_forward": _multi_head,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "instance_norm": _group_norm,
    **dict.fromkeys(("div", "divide", "true_divide", "__truediv__"), _divide),
    "normalize": _normalize,
    "cosine_similarity": _cosine,
    "__iter__": _iterator,
    "scaled_dot_product_attention": _attention,
    "dropout": _dropout,
    **{name + form: _recurrent for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("", "_cell")},
}


@contextmanager
def whole_activations(model: torch.nn.Module) -> Iterator[None]:
    """Inside, activation modules written in Python (GELU's approximations) count as one function each."""
    swapped = []
    for module in model.modules():
        leaf = not any(True for _ in module.children()) and not any(True for _ in module.parameters())
        if leaf and "activation" in type(module).__module__ and "forward" not in vars(module):
            original = module.forward
            module.forward = lambda *a, _f=original, **k: _unit(_f, a, k)
            swapped.append(module)
    try:
        yield
    finally:
        for module in swapped:
            del module.forward


def _unit(func: Any, args: Any, kwargs: Any) -> Any:
    if first_parted((args, kwargs)) is None:
        return func(*args, **kwargs)
    with torch._C.DisableTorchFunctionSubclass():
        return any_function(func, args, kwargs)
