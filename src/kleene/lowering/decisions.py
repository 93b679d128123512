"""Decision trees: what a variable or a local variable holds, where that depends on the branches that `step` has taken.

A node tests a form, and each of its children stands for some values of the form. The leaves are values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from kleene.lowering.forms import Form, Number


@dataclass(frozen=True)
class Branch:
    """A fork: the classes of values of a form, and the class that this path took."""

    form: Form
    classes: tuple[frozenset[Number], ...]  # the feasible ones
    taken: int
    line: int | None


@dataclass(frozen=True)
class Leaf:
    """What a variable holds. Leaves with the same key are equal."""

    key: Hashable
    value: Any = field(compare=False)  # what `step` reads
    assignment: Any = field(default=None, compare=False)  # of a variable: the assignment, with its line


class Node(NamedTuple):
    """A test of a form: the values that lead to each child."""

    form: Form
    children: tuple[tuple[frozenset[Number], Tree], ...]


Tree = Any  # Leaf, Node, or None: the variable keeps the value that it had before `step`
Way = tuple[Sequence[Branch], Tree]  # the forks of one path, and its result


def decision_tree(ways: Sequence[Way], depth: int = 0) -> Tree:
    """The tree of all paths, without branches whose outcomes are equal."""
    branches, outcome = ways[0]
    if depth == len(branches):
        return outcome
    branch = branches[depth]
    by_class: list[list[Way]] = [[] for _ in branch.classes]
    for way in ways:
        by_class[way[0][depth].taken].append(way)
    return node(branch.form, [(branch.classes[i], decision_tree(some, depth + 1)) for i, some in enumerate(by_class)])


def node(form: Form, children: Sequence[tuple[frozenset[Number], Tree]]) -> Tree:
    """A node, or its child where all children are equal."""
    different: dict[Tree, frozenset[Number]] = {}
    for allowed, child in children:
        different[child] = different.get(child, frozenset()) | allowed
    if len(different) == 1:
        return children[0][1]
    return Node(form, tuple((allowed, child) for child, allowed in different.items()))


def endings(tree: Tree) -> Iterator[Tree]:
    """The leaves of a tree, and None for each place where the variable keeps its value."""
    if isinstance(tree, Node):
        for _, child in tree.children:
            yield from endings(child)
    else:
        yield tree


def separable(tree: Tree, of_leaf: Any, known: Any) -> Form | None:
    """The form that has the value of the tree everywhere; None if there is no such form, or it is not found.

    - `of_leaf`: gives the form of a leaf, or None.
    - `known`: gives the number of values of a variable, or None where a form cannot mention it.
    """
    if not isinstance(tree, Node):
        found: Form | None = of_leaf(tree)
        return found
    if len(tree.form.terms) != 1 or known(tree.form.variables[0]) is None:
        return None
    ((name, entries),) = tree.form.terms
    forms = [separable(child, of_leaf, known) for _, child in tree.children]
    rests = {None if form is None else _without(form, name) for form in forms}
    rest = rests.pop()
    if rests or rest is None:  # the children differ in more than this variable and a constant
        return None
    values: list[Number] = []
    for index, entry in enumerate(entries):
        value = tree.form.constant + entry
        place = next((i for i, (allowed, _) in enumerate(tree.children) if value in allowed), 0)
        own = forms[place]
        assert own is not None
        values.append(own.constant + own.tables.get(name, (0,) * len(entries))[index])
    return rest.plus(Form.of(0, {name: tuple(values)}))


def _without(form: Form, name: str) -> Form:
    """The other terms of a form."""
    return Form(0, tuple(term for term in form.terms if term[0] != name))


def exact_number(value: Any) -> bool:
    return type(value) in (int, Fraction)
