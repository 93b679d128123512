"""Number formats: refuse to run a network in a format without a proof.

A format holds whole numbers exactly up to 2 to the power of its precision. Compiled networks rely on that. A
conversion (`net.half()`), an autocast region and TF32 products change the format without changing the network.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kleene.errors import NotExact

PRECISION = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
TF32_PRECISION = 11


def running_format(parameter: Tensor) -> str:
    """The format of matrix products with a parameter here and now: its own, autocast's, or "tf32"."""
    device = parameter.device.type
    if parameter.dtype in (torch.float32, torch.float16, torch.bfloat16) and _autocast(device):
        return _name(torch.get_autocast_dtype(device))
    if device == "cuda" and parameter.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32:
        return "tf32"
    return _name(parameter.dtype)


def _autocast(device: str) -> bool:
    return bool(torch.is_autocast_enabled(device))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_format(name: str, parameter: Tensor, made: torch.dtype) -> None:
    """Raise NotExact if a network made for one format would run in a format that does not contain it."""
    now = running_format(parameter)
    if now == _name(made) or now == "float64":
        return
    raise NotExact(f"{name}: it was made for {_name(made)} and would run in {now}, without a proof")


def check_transformer(net: Any) -> None:
    """Raise NotExact if a compiled transformer would run in a format without a certificate."""
    now, made = running_format(net.token_embedding), net.made_for
    if now == _name(made) or (now in ("float32", "float64") and PRECISION[getattr(torch, now)] >= PRECISION[made]):
        return
    if now == "tf32":
        if why := not_in_tf32(net):
            raise NotExact(
                f"{net.config.name}: TF32 products keep {TF32_PRECISION} bits, and {why}; "
                "set torch.backends.cuda.matmul.allow_tf32 = False"
            )
        return
    if not net.certified_in(now):
        ask = f"kl.certify(net, dtype={now!r}) proves that it is exact there, or says why not"
        raise NotExact(f"{net.config.name}: it was made for {_name(made)} and has no certificate in {now}; {ask}")


def not_in_tf32(net: Any) -> str | None:
    """Why TF32 products could round: None if every factor of every product has at most 11 significant bits.

    Factors are weights, codes (0 and 1), outputs of units (0 and 1), queries and keys. Sums are float32.
    """
    stamp = net.stamp()
    if net.tf32 is None or net.tf32[0] != stamp:
        net.tf32 = stamp, _not_in_tf32(net)
    found: str | None = net.tf32[1]
    return found


def _not_in_tf32(net: Any) -> str | None:
    if any(segment.coding == "scalar" for segment in net.layout):
        return "averages need more"
    for name, parameter in net.named_parameters():
        mantissa, _ = torch.frexp(parameter.double())
        scaled = mantissa * 2**TF32_PRECISION
        if not torch.equal(scaled, scaled.round()):
            return f"{name} has an entry that needs more"
    for number, block in enumerate(net.blocks):
        for side in ("query", "key"):
            weight, bias = getattr(block, side).double(), getattr(block, f"{side}_bias").double()
            entries = torch.cat([weight.flatten(), bias.flatten()])
            entries = entries[entries != 0].abs()
            if len(entries):
                unit = _common_power(entries)
                reach = (weight.abs().sum(dim=-1) + bias.abs()).max() / unit
                if reach > 2**TF32_PRECISION:
                    return f"a {side} of block {number} can need more"
    return None


def _common_power(entries: Tensor) -> float:
    """The largest power of two that divides every entry."""
    unit = 2.0 ** int(torch.frexp(entries.max()).exponent)
    while not bool((entries / unit == (entries / unit).round()).all()):
        unit /= 2
    return unit
