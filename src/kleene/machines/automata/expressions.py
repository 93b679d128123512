"""Regular expressions as terms: constructors that simplify, derivatives (Brzozowski), inclusion, and text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

INCLUSION_BUDGET = 60  # the most pairs of terms that one inclusion test visits

UNION, CONCAT, STAR, SYMBOLS, EMPTY_SET = "|", ".", "*", "s", "0"


@dataclass(frozen=True, eq=False)
class Term:
    """A term. Equal terms of one `Algebra` are the same object."""

    kind: str
    parts: tuple[Term, ...]
    symbols: frozenset[str]  # of a SYMBOLS term; the empty word is a CONCAT of nothing
    nullable: bool
    number: int  # in the order of creation, which does not depend on hashing


class Algebra:
    """Makes each term once, and answers questions about terms.

    >>> k = Algebra()
    >>> a, b = k.symbol("a"), k.symbol("b")
    >>> k.show(k.star(k.union(k.star(a), k.concat(b, k.star(b)))))
    '[ab]*'
    """

    def __init__(self) -> None:
        self._terms: dict[tuple[str, tuple[int, ...], frozenset[str]], Term] = {}
        self._derivatives: dict[tuple[int, str], Term] = {}
        self._included: dict[tuple[int, int], bool] = {}
        self._lengths: dict[tuple[int, int], int] = {}
        self._sets: dict[int, frozenset[frozenset[str]]] = {}
        self.nothing = self._make(EMPTY_SET, (), False)
        self.empty = self._make(CONCAT, (), True)

    def _make(self, kind: str, parts: tuple[Term, ...], nullable: bool, symbols: frozenset[str] = frozenset()) -> Term:
        key = (kind, tuple(part.number for part in parts), symbols)
        if key not in self._terms:
            self._terms[key] = Term(kind, parts, symbols, nullable, len(self._terms))
        return self._terms[key]

    # Constructors

    def symbol(self, *symbols: str) -> Term:
        """The term for one of some symbols."""
        return self._make(SYMBOLS, (), False, frozenset(symbols)) if symbols else self.nothing

    def concat(self, *terms: Term) -> Term:
        """The concatenation of terms."""
        parts: list[Term] = []
        for term in terms:
            for part in term.parts if term.kind == CONCAT else (term,):
                if part is self.nothing:
                    return part
                self._append(parts, part)
        return parts[0] if len(parts) == 1 else self._make(CONCAT, tuple(parts), all(p.nullable for p in parts))

    def _append(self, parts: list[Term], part: Term) -> None:
        """Add a factor. Both x*x* and x*x? become x*."""
        if parts:
            before = parts[-1]
            if part.kind == STAR and (before is part or before is self.option(part.parts[0])):
                parts[-1] = part
                return
            if before.kind == STAR and part is self.option(before.parts[0]):
                return
        parts.append(part)

    def option(self, term: Term) -> Term:
        """The term x?: once or not at all."""
        return self.union(term, self.empty)

    def star(self, term: Term) -> Term:
        """The term x*: any number of times."""
        if term in (self.nothing, self.empty):
            return self.empty
        if term.kind == STAR:
            return term
        inside = list(term.parts if term.kind == UNION else (term,))
        changed = True
        while changed:
            changed = False
            for i, part in enumerate(inside):
                simpler = self._under_star(part)
                if simpler is not None:
                    inside[i : i + 1] = simpler
                    changed = True
                    break
        body = self.union(*inside)
        body = self._without_empty(body)
        if body.kind == STAR:
            return body
        return self.empty if body in (self.nothing, self.empty) else self._make(STAR, (body,), True)

    def _under_star(self, part: Term) -> list[Term] | None:
        """Return what a part of a starred union can be replaced by: x* and xx* by x, x?y* by x and y."""
        if part.kind == STAR:
            return [part.parts[0]]
        if part.kind == CONCAT and part.parts and part.nullable:
            return list(part.parts)
        plus = self._plus(part)
        if plus is not None:
            return [plus]
        return list(part.parts) if part.kind == UNION else None

    def _plus(self, term: Term) -> Term | None:
        """x where the term is xx* or x*x."""
        if term.kind != CONCAT or len(term.parts) < 2:
            return None
        for star, rest in ((term.parts[-1], term.parts[:-1]), (term.parts[0], term.parts[1:])):
            if star.kind == STAR and self.concat(*rest) is star.parts[0]:
                return star.parts[0]
        return None

    def _without_empty(self, term: Term) -> Term:
        if term.kind == UNION and self.empty in term.parts:
            return self.union(*(part for part in term.parts if part is not self.empty))
        return term

    def union(self, *terms: Term) -> Term:
        """The union of terms."""
        parts: dict[Term, None] = {}
        symbols: set[str] = set()
        for term in terms:
            for part in term.parts if term.kind == UNION else (term,):
                if part.kind == SYMBOLS:
                    symbols |= part.symbols
                elif part is not self.nothing:
                    parts[part] = None
        if symbols:
            parts[self.symbol(*symbols)] = None
        self._absorb(parts)
        if self.empty in parts and any(p.nullable for p in parts if p is not self.empty):
            del parts[self.empty]
        if self.empty in parts:  # an option of xx* is x*
            for part in list(parts):
                plus = self._plus(part)
                if plus is not None:
                    del parts[part], parts[self.empty]
                    return self.union(*parts, self.star(plus))
        return self._factored(list(parts))

    def _absorb(self, parts: dict[Term, None]) -> None:
        """Drop what a starred part contains: x* holds x, xx* and the empty word."""
        for part in list(parts):
            if part.kind == STAR:
                body = part.parts[0]
                inside = set(body.parts) if body.kind == UNION else {body}
                for other in list(parts):
                    if other in inside or other is self.empty or self._plus(other) is body:
                        parts.pop(other, None)

    def _factored(self, parts: list[Term]) -> Term:
        """A union with its common first or last factors factored out."""
        if not parts:
            return self.nothing
        if len(parts) == 1:
            return parts[0]
        for first in (True, False):
            groups: dict[Term, list[Term]] = {}
            for part in parts:
                if part is not self.empty:
                    groups.setdefault(self._factor(part, first), []).append(part)
            group = next((g for g in groups.items() if len(g[1]) > 1), None)
            if group is not None:
                factor, shared = group
                rest = self.union(*(self._rest(part, first) for part in shared))
                joined = self.concat(factor, rest) if first else self.concat(rest, factor)
                return self.union(joined, *(p for p in parts if p not in shared))
        ordered = tuple(sorted(parts, key=lambda part: part.number))
        return self._make(UNION, ordered, any(part.nullable for part in ordered))

    def _factor(self, term: Term, first: bool) -> Term:
        return term.parts[0 if first else -1] if term.kind == CONCAT else term

    def _rest(self, term: Term, first: bool) -> Term:
        if term.kind != CONCAT:
            return self.empty
        return self.concat(*(term.parts[1:] if first else term.parts[:-1]))

    # Derivatives and inclusion

    def derivative(self, term: Term, symbol: str) -> Term:
        """The words w with symbol·w in the term's language."""
        key = (term.number, symbol)
        found = self._derivatives.get(key)
        if found is not None:
            return found
        if term.kind == SYMBOLS:
            result = self.empty if symbol in term.symbols else self.nothing
        elif term.kind == UNION:
            result = self.union(*(self.derivative(part, symbol) for part in term.parts))
        elif term.kind == STAR:
            result = self.concat(self.derivative(term.parts[0], symbol), term)
        else:
            choices = []
            for i, part in enumerate(term.parts):
                choices.append(self.concat(self.derivative(part, symbol), *term.parts[i + 1 :]))
                if not part.nullable:
                    break
            result = self.union(*choices)
        self._derivatives[key] = result
        return result

    def symbol_sets(self, term: Term) -> frozenset[frozenset[str]]:
        """The sets of symbols that a term names."""
        if term.number not in self._sets:
            own = {term.symbols} if term.kind == SYMBOLS else set()
            self._sets[term.number] = frozenset(own.union(*(self.symbol_sets(part) for part in term.parts)))
        return self._sets[term.number]

    def representatives(self, *terms: Term) -> list[str]:
        """One symbol of each group that the terms cannot tell apart."""
        sets = sorted(frozenset().union(*(self.symbol_sets(term) for term in terms)), key=sorted)
        groups: dict[tuple[bool, ...], str] = {}
        for symbol in sorted(set().union(*sets)) if sets else []:
            groups.setdefault(tuple(symbol in s for s in sets), symbol)
        return list(groups.values())

    def included(self, small: Term, large: Term) -> bool:
        """Whether the words of one term are words of the other. False also means that the test took too long."""
        key = (small.number, large.number)
        if key in self._included:
            return self._included[key]
        symbols = self.representatives(small, large)
        seen, queue = {key}, [(small, large)]
        answer = True
        for left, right in queue:
            if (left.nullable and not right.nullable) or len(seen) > INCLUSION_BUDGET:
                answer = False
                break
            for symbol in symbols:
                pair = (self.derivative(left, symbol), self.derivative(right, symbol))
                numbers = (pair[0].number, pair[1].number)
                if pair[0] is not self.nothing and pair[0] is not pair[1] and numbers not in seen:
                    seen.add(numbers)
                    queue.append(pair)
        self._included[key] = answer
        return answer

    # Simplification: each step keeps the language, as an inclusion test shows

    def simplify(self, term: Term) -> Term:
        """A shorter term of the same language, from the inside out."""
        memo: dict[Term, Term] = {}

        def visit(t: Term) -> Term:
            if t not in memo:
                memo[t] = self._shorter(t, [visit(part) for part in t.parts])
            return memo[t]

        return visit(term)

    def _shorter(self, term: Term, parts: list[Term]) -> Term:
        if term.kind == UNION:
            return self._universal(self._union_of_incomparable(parts))
        if term.kind == STAR:
            return self._universal(self._star_of_needed(parts[0]))
        if term.kind == CONCAT:
            return self._universal(self._concat_of_needed(parts))
        return term

    def _universal(self, term: Term) -> Term:
        """Replace a term by S* if it holds every word over its symbols S."""
        if term.kind == SYMBOLS or not term.nullable:
            return term
        symbols = frozenset().union(*self.symbol_sets(term)) if self.symbol_sets(term) else frozenset()
        whole = self.star(self.symbol(*symbols)) if symbols else self.empty
        return whole if self.length(whole) < self.length(term) and self.included(whole, term) else term

    def _union_of_incomparable(self, parts: list[Term]) -> Term:
        kept = list(dict.fromkeys(parts))
        for part in sorted(kept, key=self.length, reverse=True):
            rest = [other for other in kept if other is not part]
            if rest and self.included(part, self.union(*rest)):
                kept = rest
        return self.union(*kept)

    def _star_of_needed(self, body: Term) -> Term:
        kept = list(body.parts) if body.kind == UNION else [body]
        for part in sorted(kept, key=self.length, reverse=True):
            rest = [other for other in kept if other is not part]
            if rest and self.included(part, self.star(self.union(*rest))):
                kept = rest
        return self.star(self.union(*kept))

    def _concat_of_needed(self, parts: list[Term]) -> Term:
        """Drop factors that add nothing to a neighbour: a*·[ab]* is [ab]*."""
        kept = list(parts)
        i = 0
        while i < len(kept) - 1:
            left, right = kept[i], kept[i + 1]
            both = self.concat(left, right)
            if left.nullable and self.included(both, right):
                del kept[i]
                i = max(i - 1, 0)
            elif right.nullable and self.included(both, left):
                del kept[i + 1]
                i = max(i - 1, 0)
            else:
                i += 1
        return self.concat(*kept)

    # Text, as Python's `re` reads it

    def reverse(self, term: Term) -> Term:
        """The term of the reversed words."""
        memo: dict[Term, Term] = {}

        def visit(t: Term) -> Term:
            if t not in memo:
                parts = [visit(part) for part in t.parts]
                if t.kind == UNION:
                    memo[t] = self.union(*parts)
                elif t.kind == CONCAT:
                    memo[t] = self.concat(*reversed(parts))
                else:
                    memo[t] = self.star(parts[0]) if t.kind == STAR else t
            return memo[t]

        return visit(term)

    def length(self, term: Term, level: int = 0) -> int:
        """How many characters `show` writes, without writing them."""
        key = (term.number, level)
        if key not in self._lengths:
            self._lengths[key] = sum(
                len(piece) if isinstance(piece, str) else self.length(*piece) for piece in self._pieces(term, level)
            )
        return self._lengths[key]

    def show(self, term: Term, level: int = 0) -> str:
        """The term as a pattern. `level`: 0 anywhere, 1 as a factor, 2 before a repeat."""
        return "".join(p if isinstance(p, str) else self.show(*p) for p in self._pieces(term, level))

    def _pieces(self, term: Term, level: int) -> list[str | tuple[Term, int]]:
        if term is self.nothing:
            return ["(?!)"]
        if term.kind == SYMBOLS:
            return [symbol_class(term.symbols)]
        if term.kind == STAR:
            return self._grouped([(term.parts[0], 2), "*"], level == 2)
        if term.kind == CONCAT:
            return self._grouped(self._factors(term), level == 2)
        plain = [part for part in term.parts if part is not self.empty]
        if len(plain) < len(term.parts):
            body = plain[0] if len(plain) == 1 else self._make(UNION, tuple(plain), any(p.nullable for p in plain))
            return self._grouped([(body, 2), "?"], level == 2)
        pieces: list[str | tuple[Term, int]] = []
        for part in plain:
            pieces += ["|", (part, 0)] if pieces else [(part, 0)]
        return self._grouped(pieces, level >= 1)

    def _grouped(self, pieces: list[str | tuple[Term, int]], needed: bool) -> list[str | tuple[Term, int]]:
        return ["(", *pieces, ")"] if needed else pieces

    def _factors(self, term: Term) -> list[str | tuple[Term, int]]:
        """A concatenation's factors; xx* is written x+, and a long run of one factor with a number."""
        parts = list(term.parts)
        pieces: list[str | tuple[Term, int]] = []
        i = 0
        while i < len(parts):
            plus = self._plus_at(parts, i)
            if plus is not None:
                body, width = plus
                pieces += [(body, 2), "+"]
                i += width
                continue
            run = 1
            while i + run < len(parts) and parts[i + run] is parts[i]:
                run += 1
            if run > 1 and self._plus_at(parts, i + run - 1) is not None:
                run -= 1
            once, bare = self.length(parts[i], 2), self.length(parts[i], 1)
            if run > 1 and once + 2 + len(str(run)) < run * bare:
                pieces += [(parts[i], 2), f"{{{run}}}"]
            else:
                pieces += [(parts[i], 1)] * run
            i += run
        return pieces

    def _plus_at(self, parts: list[Term], i: int) -> tuple[Term, int] | None:
        """x, and the number of factors of an xx* or x*x that begins at i."""
        if parts[i].kind == STAR:
            body = parts[i].parts[0]
            inner = body.parts if body.kind == CONCAT else (body,)
            if tuple(parts[i + 1 : i + 1 + len(inner)]) == inner:
                return body, 1 + len(inner)
        for star in parts[i + 1 : i + 9]:
            if star.kind == STAR:
                body = star.parts[0]
                inner = body.parts if body.kind == CONCAT else (body,)
                if tuple(parts[i : i + len(inner)]) == inner and parts[i + len(inner) : i + len(inner) + 1] == [star]:
                    return body, 1 + len(inner)
        return None


def symbol_class(symbols: Iterable[str]) -> str:
    """A set of characters as a pattern: `a`, `[ab]`, `[a-z]`."""
    ordered = sorted(symbols)
    if len(ordered) == 1:
        return re.escape(ordered[0])
    text, run = "", [ordered[0]]
    for symbol in [*ordered[1:], ""]:
        if symbol and ord(symbol) == ord(run[-1]) + 1:
            run.append(symbol)
            continue
        escaped = [_in_class(s) for s in (run[0], run[-1])]
        text += "-".join(escaped) if len(run) > 2 else "".join(_in_class(s) for s in run)
        run = [symbol]
    return f"[{text}]"


def _in_class(symbol: str) -> str:
    return "\\" + symbol if symbol in "\\]^-[&~|" else re.escape(symbol) if symbol.isspace() else symbol
