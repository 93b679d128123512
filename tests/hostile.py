"""A program whose labels and source try to break out of a page."""

from __future__ import annotations

import kleene as kl

HOSTILE = '</script><img src=x onerror="window.hacked=1">{{script}}\'&'


class Hostile(kl.Program):
    tokens = 2
    x = kl.cat(2, token=lambda t: t)
    output = x
    layers = 1
    labels = {"tokens": (HOSTILE, "b"), "x": (HOSTILE, "b")}

    def step(z):
        z.x = 1 - z.x  # </script><script>window.hacked=1</script>
