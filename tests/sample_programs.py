"""Programs that several tests use, as classes and as the text of a user's file."""

from __future__ import annotations

import kleene as kl


class Parity(kl.Program):
    """The paper's Figure 2."""

    tokens = 3
    parity = kl.cat(2, token=lambda t: 0 if t == 2 else t)
    done = kl.cat(2, token=lambda t: t == 2)
    parity_left = kl.relative(parity, -1)
    done_left = kl.relative(done, -1)
    output = parity
    halt = {done: 1}

    def step(z):
        if not z.done and z.done_left:
            z.parity = z.parity_left ^ z.parity
            z.done = 1


COPY = """
import kleene as kl

class Copy(kl.Program):
    tokens = 2
    x = kl.cat(2, token=lambda t: t)
    left = kl.relative(x, -1, default=0)
    output = x
    layers = 1
    def step(z):
        z.x = z.left
"""
