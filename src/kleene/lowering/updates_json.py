"""Conversion of guarded updates to plain data and back."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from kleene.lowering.bit_functions import BitFunction
from kleene.lowering.forms import Form, Number
from kleene.lowering.updates import GuardedUpdate, ReadGuard, Test, Updates, WordUpdate
from kleene.lowering.words import Terms, WordAssignment, WordPredicate
from kleene.machines.kinds import number_from_json as _number
from kleene.machines.spec import Spec, second_spec


def updates_to_json(updates: Updates) -> dict[str, Any]:
    """Convert to plain data. Each form is stored once and referred to by number."""
    forms: dict[Form, int] = {}

    def tests(guard: Iterable[Test]) -> list[Any]:
        return [[forms.setdefault(test.form, len(forms)), [_plain(v) for v in sorted(test.allowed)]] for test in guard]

    listed_updates = [
        {
            "variable": update.variable,
            "guard": tests(update.guard),
            "form": forms.setdefault(update.form, len(forms)),
            "table": [[_plain(value), index] for value, index in update.table],
            "line": update.line,
        }
        for update in updates.updates
    ]
    reads = [{"head": read.head, "guard": tests(read.guard)} for read in updates.reads]
    words = [
        {
            "variable": word.variable,
            "guard": tests(word.guard),
            "terms": word.assignment.terms,
            "constant": word.assignment.constant,
            "modulus": word.assignment.modulus,
            "line": word.assignment.line,
            **_functions_to_json(word.assignment),
        }
        for word in updates.words
    ]
    predicates = [[p.terms, p.relation, p.threshold] for p in updates.predicates]
    listed = [[_plain(f.constant), {name: [_plain(v) for v in table] for name, table in f.terms}] for f in forms]
    second = {} if updates.second is None else {"second": updates_to_json(updates.second)}
    made = {"forms": listed, "updates": listed_updates, "reads": reads, "words": words, "predicates": predicates}
    return {**made, **second}


def _functions_to_json(made: WordAssignment) -> dict[str, Any]:
    if made.functions is None:
        return {}
    return {"functions": [[list(function.atoms), function.table] for function in made.functions]}


def _functions_from_json(entry: Any) -> tuple[BitFunction, ...] | None:
    if "functions" not in entry:
        return None
    return tuple(BitFunction(tuple(map(str, atoms)), int(table)) for atoms, table in entry["functions"])


def updates_from_json(spec: Spec, content: Any) -> Updates:
    """Rebuild the updates from plain data."""
    forms = [
        Form(_number(constant), tuple((name, tuple(_number(v) for v in table)) for name, table in terms.items()))
        for constant, terms in content["forms"]
    ]

    def tests(listed: Any) -> tuple[Test, ...]:
        return tuple(Test(forms[form], frozenset(_number(v) for v in allowed)) for form, allowed in listed)

    updates = tuple(
        GuardedUpdate(
            entry["variable"],
            tests(entry["guard"]),
            forms[entry["form"]],
            tuple((_number(value), int(index)) for value, index in entry["table"]),
            entry["line"],
        )
        for entry in content["updates"]
    )
    words = tuple(
        WordUpdate(
            entry["variable"],
            tests(entry["guard"]),
            WordAssignment(
                _terms(entry["terms"]),
                int(entry["constant"]),
                entry["modulus"],
                entry["line"],
                _functions_from_json(entry),
            ),
        )
        for entry in content["words"]
    )
    predicates = tuple(WordPredicate(_terms(t), str(relation), int(at)) for t, relation, at in content["predicates"])
    reads = tuple(ReadGuard(entry["head"], tests(entry["guard"])) for entry in content["reads"])
    second = updates_from_json(second_spec(spec), content["second"]) if "second" in content else None
    return Updates(spec, updates, reads, words, predicates, second=second)


def _terms(listed: Any) -> Terms:
    return tuple((str(name), int(coefficient)) for name, coefficient in listed)


def _plain(value: Number) -> int | str:
    return int(value) if Fraction(value).denominator == 1 else str(value)
