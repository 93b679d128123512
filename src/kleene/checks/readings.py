"""Decompile a transformer: read its updates from the weights, or prove that the weights compute the saved ones.

The reader in `decompilers` asks the units for sums and comparisons of whole words. Where a program works on bits and
slices of words, on limbs of wide sums, or in two steps a layer, the updates that are saved with the network are proved
unit by unit instead. The result is the same kind of statement: these updates are what the weights compute.
"""

from __future__ import annotations

import contextlib
from typing import Any

from kleene import checker
from kleene.checks.certificates import as_saved, saved_updates
from kleene.decompilers.transformer_to_updates import decompile_transformer
from kleene.errors import KleeneError, NotExact
from kleene.lowering.updates import Cycle, Updates
from kleene.lowering.words import WIDEST_SUM
from kleene.machines.bitwords import part_of_name
from kleene.machines.kinds import Word
from kleene.networks.transformer.model import Transformer


def decompile_network(net: Transformer, *, blind: bool = False, to: str = "updates") -> Any:
    """The guarded updates that the weights implement, with a Spec that is also read from the weights.

    blind: use no saved description; variables, heads and their values get new names (see blind.py).
    to: "updates"; "dfa" or "regex" for the words of a network that holds an automaton; "turing" for the machine of one
        that was compiled from a Turing machine.
    """
    if blind or to != "updates" or (saved := _beyond_the_reader(net)) is None:
        return decompile_transformer(net, blind=blind, to=to)
    verdict = checker.check(as_saved(net), str(net.dtype).removeprefix("torch."))
    if not verdict.holds:
        raise NotExact(
            f"{net.config.name}: the weights do not compute the saved updates ({verdict.reason}); decompile reads no "
            "others of a program that works on bits of words or on wide words"
        )
    return saved


def _beyond_the_reader(net: Transformer) -> Updates | Cycle | None:
    """The saved updates, where they are of a kind that is proved instead of read."""
    with contextlib.suppress(KleeneError, KeyError, IndexError, TypeError, ValueError):  # the reader says what is wrong
        saved = saved_updates(net)
        if saved.spec.parts or any(map(_on_parts, saved.by_layer)) or saved.spec.clears:
            return saved
    return None


def _on_parts(updates: Updates) -> bool:
    """Whether some update depends on parts of words, on bits one by one, or on a sum in limbs."""
    forms = [form for u in updates.updates for form in (u.form, *(test.form for test in u.guard))]
    forms += [test.form for u in updates.words for test in u.guard]
    named = {name for form in forms for name in form.variables}
    named |= {name for p in updates.predicates for name, _ in p.terms}
    named |= {name for u in updates.words for name in u.assignment.reads}
    wide = (kind.bits for u in updates.words if isinstance(kind := updates.spec.kinds[u.variable], Word))
    by_bits = any(u.assignment.functions is not None for u in updates.words)
    return (
        by_bits
        or updates.second is not None
        or any(map(part_of_name, named))
        or any(bits > WIDEST_SUM for bits in wide)
    )
