"""Sizes that exporters need: the number of layers, and the longest input."""

from __future__ import annotations

from dataclasses import replace

from kleene.errors import InputError
from kleene.files import MAX_PARAMETERS
from kleene.networks.transformer.files import count_parameters
from kleene.networks.transformer.model import Transformer


def number_of_layers(net: Transformer, layers: int | None) -> int:
    """The requested number of layers, or the network's own."""
    if layers is not None and layers < 1:
        raise InputError(f"{net.config.name}: layers={layers}; it should be at least 1")
    if layers is None and (net.config.halts or net.config.layers is None):
        raise InputError(
            f"{net.config.name}: it halts by itself, and this export has a fixed number of layers; give layers="
        )
    return layers or net.config.layers or 1


def longest_input(net: Transformer, length: int | None) -> int:
    """The requested length, or the longest input of the network."""
    limits = [limit for limit in (net.config.positions, net.config.max_length) if limit is not None]
    if length is None and not limits:
        raise InputError(
            f"{net.config.name}: it takes inputs of any length; give length= (--length), the longest to export"
        )
    if length is not None and (length < 1 or length > min([*limits, length])):
        raise InputError(f"{net.config.name}: length={length}; it should be 1 … {min(limits, default=length)}")
    return length if length is not None else min(limits)


def stored_positions(net: Transformer) -> Transformer:
    """The network with a position embedding in place of counted positions, which other tools do not have."""
    if not net.config.counted:
        return net
    config = replace(net.config, counted=(), positions=net.longest)
    count = count_parameters(config)
    if net.longest is None or count > MAX_PARAMETERS:
        raise InputError(
            f"{net.config.name}: it counts positions, and a table of them would make {count:,} parameters, more than "
            f"{MAX_PARAMETERS:,}; compile it for fewer positions"
        )
    made = Transformer(config, net.description, net.dtype)
    made.load_state_dict({**net.state_dict(), "position_embedding": net.places(0, net.longest)})
    return made
