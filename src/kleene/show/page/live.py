"""What a page needs to run a network on other inputs, and to say in the program's words what happened."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

from kleene.machines.kinds import Numerical, Word
from kleene.machines.spec import Spec
from kleene.show.page import Numbered
from kleene.show.page.writers import named
from kleene.show.terminal import assignment_text, guard_text

MAX_NAMES = 20_000  # texts of values in a page
EXACT_BITS = 53  # of a word that a number of the page holds exactly


def kinds_data(spec: Spec, label: Any) -> dict[str, Any] | None:
    """How the values of each variable and head are written; None where there are too many, or words too long.

    label: the text of a value of a variable or head.
    """
    heads = {**spec.heads, **spec.moves}
    if any(isinstance(v.kind, Word) and v.kind.bits > EXACT_BITS for v in spec.variables.values()):
        return None
    every = {**{name: v.kind for name, v in spec.variables.items()}, **{name: h.kind for name, h in heads.items()}}
    if sum(0 if isinstance(kind, Word) else len(kind) for kind in every.values()) > MAX_NAMES:
        return None
    found = {}
    for name, kind in every.items():
        head = heads.get(name)
        found[name] = {
            "word": kind.bits if isinstance(kind, Word) else 0,
            "texts": None
            if isinstance(kind, Word) and not _named(name, kind, label)
            else [label(name, v) for v in kind.values],
            "numbers": [float(value) for value in kind.values] if isinstance(kind, Numerical) else None,
            "average": head is not None and isinstance(kind, Numerical),
            "default": head is not None and head.default is not None,
        }
    return found


def _named(name: str, kind: Word, label: Any) -> bool:
    """Whether the values of a word have other names than their numbers."""
    return len(kind) <= MAX_NAMES and any(label(name, value) != str(value) for value in kind.values)


def updates_data(updates: Any, sources: list[dict[str, Any]]) -> list[Any] | None:
    """The guards of all updates, by layer of the cycle, for the page to say which update fired; None if it cannot.

    An update is its writer, as for a recorded run, and its tests: the form, and the values that pass. A layer with two
    steps is None: the page does not see the values between them.
    """
    if updates is None:
        return None
    parts: list[dict[str, Any] | None] = []
    for part, one in enumerate(updates.by_layer):
        if one.second is not None:
            parts.append(None)
            continue
        forms, predicates = Numbered(), {}
        for predicate in one.predicates:
            if getattr(predicate, "relation", None) not in ("≥", "="):
                return None
            predicates[predicate.name] = [predicate.terms, predicate.relation, predicate.threshold]
        listed = []
        for update in (*one, *one.words):
            tests = [_test(test, forms) for test in update.guard]
            told = {
                "how": "update",
                "variable": update.variable,
                "part": part,
                "text": assignment_text(one.spec, update),
                "guard": guard_text(one.spec, update.guard),
                "reads": sorted(named(one, update.reads)),
                "line": update.line if sources[part]["lines"] else None,
            }
            listed.append([told, tests])
        parts.append({"forms": forms.items, "predicates": predicates, "updates": listed})
    return parts


def _test(test: Any, forms: Numbered) -> list[Any]:
    """A test as whole numbers: everything is multiplied by the common denominator."""
    form = test.form
    entries = [form.constant, *(entry for _, table in form.terms for entry in table), *test.allowed]
    scale = lcm(*(Fraction(entry).denominator for entry in entries))
    terms = tuple((name, tuple(int(entry * scale) for entry in table)) for name, table in form.terms)
    return [forms((int(form.constant * scale), terms)), sorted(int(value * scale) for value in test.allowed)]
