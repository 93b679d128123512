"""Traces, guarded updates and rules as text and terminal tables."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from kleene.lowering.forms import Form, Number
from kleene.lowering.layout import show_value
from kleene.lowering.rules import Rules
from kleene.lowering.updates import GuardedUpdate, Test, Updates, WordUpdate
from kleene.machines.kinds import Categorical, Kind, Numerical, Subset
from kleene.machines.spec import Spec
from kleene.machines.trace import Trace
from kleene.machines.written_rules import Rule
from kleene.show.labels import Labels

UNDEFINED = "∅"
TEXT_WIDTH = 110
MAX_LISTED = 8  # values or entries of a table that are written out
BIT = Categorical(2)
MAX_RULES_SHOWN = 200

Value = Any

# --- traces -----------------------------------------------------------------------------------------------


def plain(value: Value) -> Any:
    """Convert a value to JSON: a fraction to "1/3", a set to a sorted list."""
    if isinstance(value, frozenset):
        return sorted(value)
    return str(value) if isinstance(value, Fraction) and value.denominator != 1 else int(value)


def trace_json(trace: Trace) -> dict[str, Any]:
    """A trace as plain data: `states[k]` is after k layers, `heads[k]` is what layer k + 1 reads."""
    return {
        "program": trace.spec.name,
        "tokens": list(trace.tokens),
        "layers": trace.layers,
        "output": trace.spec.output,
        "outputs": list(trace.outputs),
        "states": [
            [{name: plain(value) for name, value in state.items()} for state in states] for states in trace.states
        ],
        "heads": [
            {
                name: [
                    {"selected": list(at.selected), "value": None if at.value is None else plain(at.value)}
                    for at in outputs
                ]
                for name, outputs in heads.items()
            }
            for heads in trace.heads
        ],
    }


def trace_text(trace: Trace) -> str:
    """Format a trace as plain text, at most `TEXT_WIDTH` wide. A change reads `old→new`."""
    return as_text(TraceTables(trace))


def trace_table(trace: Trace) -> RenderableType:
    """Format a trace as terminal tables, one a layer, with changes highlighted."""
    return TraceTables(trace)


def as_text(renderable: RenderableType, width: int = TEXT_WIDTH) -> str:
    """Render for the terminal, without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(renderable)
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def trace_svg(trace: Trace, title: str, width: int = 64) -> str:
    """Draw the tables of a trace as a self-contained SVG, in the reader's own fonts."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(TraceTables(trace))
    picture = console.export_svg(title=title, unique_id="trace")
    return re.sub(r"@font-face\s*{.*?}\s*", "", picture, flags=re.DOTALL)


class TraceTables:
    """The tables of a trace.

    A variable that never changes is shown only at the start. A long input is split into groups of positions that fit
    the terminal.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.spec, self.label = trace, trace.spec, Labels(trace).label
        self.moving = [
            name
            for name in self.spec.variables
            if any(len({state[at][name] for state in trace.states}) > 1 for at in range(len(trace.tokens)))
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        tables = [self._cells(layer) for layer in range(self.trace.layers + 1)]
        widths = [
            max(len(str(place)), *(row[place].cell_len for cells in tables for row in cells.values()))
            for place in range(len(self.trace.tokens))
        ]
        groups = list(self._groups(widths, options.max_width))
        yield Text(
            f"{self.spec.name}, tokens {' '.join(self.label('tokens', token) for token in self.trace.tokens)}",
            style="bold",
        )
        for layer, cells in enumerate(tables):
            for places in groups:
                title = f"layer {layer}" if layer else "start"
                if len(groups) > 1:
                    title += f", positions {_range_text(places[0], places[-1])}"
                yield Text(f"\n{title}", style="bold")
                yield self._table(cells, places, widths)
        still = [name for name in self.spec.variables if name not in self.moving]
        if still:
            yield Text(f"\nnever changed: {', '.join(still)}", style="dim")

    @property
    def _name_width(self) -> int:
        return max(len(name) for name in ["position", *self.spec.kinds])

    def _cells(self, layer: int) -> dict[str, list[Text]]:
        """The rows of a layer: what its heads read, then the variables after it."""
        states = self.trace.states
        if layer == 0:
            return {name: [Text(self.label(name, state[name])) for state in states[0]] for name in self.spec.variables}
        heads = self.trace.heads[layer - 1].items()
        rows = {name: [_head_text(at.value, self._named(name)) for at in row] for name, row in heads}
        for name in self.moving:
            both = zip(states[layer - 1], states[layer])
            rows[name] = [_change_text(old[name], new[name], self._named(name)) for old, new in both]
        return rows

    def _named(self, name: str) -> Callable[[Value], str]:
        """The text of a variable's or head's values."""
        return lambda value: self.label(name, value)

    def _groups(self, widths: Sequence[int], room: int) -> Iterator[range]:
        """Split the positions into ranges that fit beside the names."""
        start, used = 0, self._name_width
        for place, width in enumerate(widths):
            if used + 2 + width > room and place > start:
                yield range(start, place)
                start, used = place, self._name_width
            used += 2 + width
        yield range(start, len(widths))

    def _table(self, cells: dict[str, list[Text]], places: range, widths: Sequence[int]) -> Table:
        table = Table(box=None, padding=(0, 1), pad_edge=False)
        table.add_column("position", header_style="dim", no_wrap=True, min_width=self._name_width)
        for place in places:
            name, width = str(place), widths[place]
            table.add_column(name, justify="right", header_style="dim", no_wrap=True, min_width=width)
        for name, row in cells.items():
            label = Text(name, style="cyan italic" if name in self.spec.heads else "bold")
            table.add_row(label, *(row[place] for place in places))
        return table


def _head_text(value: Value | None, text: Callable[[Value], str]) -> Text:
    return Text(UNDEFINED, style="dim") if value is None else Text(text(value), style="cyan")


def _change_text(old: Value, new: Value, text: Callable[[Value], str]) -> Text:
    if old == new:
        return Text(text(new))
    return Text(f"{text(old)}→{text(new)}", style="bold black on yellow")


# --- guarded updates --------------------------------------------------------------------------------------


def updates_text(updates: Updates) -> str:
    """Format guarded updates, one a line: `value_out := (carry + a + b) % 10   if stage = 1, a ≠ 11`."""
    spec = updates.spec
    lines = [(assignment_text(spec, one), guard_text(spec, one.guard)) for one in (*updates, *updates.words)]
    after = () if updates.second is None else (*updates.second, *updates.second.words)
    lines += [(f"then {assignment_text(spec, one)}", guard_text(spec, one.guard)) for one in after]
    width = min(60, max((len(left) for left, _ in lines), default=0))
    variables = {one.variable for one in (*updates, *updates.words, *after)}
    counts = _counted(len(lines), "guarded update"), _counted(len(variables), "variable")
    head = f"{spec.name}: {counts[0]} of {counts[1]}"
    return "\n".join([head, *(f"  {left:<{width}}  {right}".rstrip() for left, right in lines)])


def assignment_text(spec: Spec, update: GuardedUpdate | WordUpdate) -> str:
    """The text of what an update writes: `value_out := (carry + a + b) % 10`."""
    made = update.assignment.describe() if isinstance(update, WordUpdate) else _result_text(spec, update)
    return f"{update.variable} := {made}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def guard_text(spec: Spec, guard: Sequence[Test]) -> str:
    """When an update applies: `if stage = 1, a ≠ 11`, or `always`."""
    return f"if {', '.join(_test_text(spec, test) for test in guard)}" if guard else "always"


def _test_text(spec: Spec, test: Test) -> str:
    if test.variable is not None and test.variable.startswith("["):  # a comparison of words
        return test.variable.strip("[]") if test.indices == {1} else f"not {test.variable.strip('[]')}"
    if test.variable is not None:
        kind = _kind(spec, test.variable)
        return _choice_text(test.variable, [kind.values[i] for i in sorted(test.indices)], kind.values, kind)
    every = test.form.values
    allowed = [value for value in every if value in test.allowed]
    sides, right = _sides(spec, test.form)
    compared = _compared(sides, {value + right for value in allowed}, {value + right for value in every})
    return compared or _choice_text(_form_text(spec, test.form), allowed, every)


def _kind(spec: Spec, name: str) -> Kind:
    """The kind of a variable or head; a bit of a word, and a comparison of words, is 0 or 1."""
    return spec.kinds.get(name, BIT)


def as_plain_number(value: Number) -> Number:
    return int(value) if Fraction(value).denominator == 1 else value


def _sides(spec: Spec, form: Form) -> tuple[tuple[str, str] | None, Number]:
    """Split a form a − b + c into ((a, b), −c), so that a test of it is a comparison of two variables."""
    slopes = {name: _slope(_kind(spec, name), table) for name, table in form.terms}
    plus = [name for name, slope in slopes.items() if slope == 1]
    minus = [name for name, slope in slopes.items() if slope == -1]
    if len(form.terms) != 2 or len(plus) != 1 or len(minus) != 1:
        return None, 0
    (a,), (b,) = plus, minus
    return (a, b), -(form.constant - _kind(spec, a).values[0] + _kind(spec, b).values[0])


def _compared(sides: tuple[str, str] | None, allowed: set[Number], every: set[Number]) -> str | None:
    """Write `a < b` if the allowed differences a − b are all the negative ones, and so on."""
    if sides is None:
        return None
    signs = {"<": {-1}, "≤": {-1, 0}, "=": {0}, "≥": {0, 1}, ">": {1}, "≠": {-1, 1}}
    for symbol, wanted in signs.items():
        if allowed == {d for d in every if (d > 0) - (d < 0) in wanted}:
            return f"{sides[0]} {symbol} {sides[1]}"
    return None


def _choice_text(name: str, allowed: Sequence[Value], every: Sequence[Value], kind: Kind | None = None) -> str:
    """Write a set of values as `= 3`, `≠ 3`, `≥ 3`, `in 3 … 5` or `in {1, 4}`."""
    count, total = len(allowed), len(every)
    if count == 1:
        return f"{name} = {show_value(allowed[0])}"
    if count == total - 1 and total > 2:
        (missing,) = set(every) - set(allowed)
        return f"{name} ≠ {show_value(missing)}"
    if not isinstance(kind, Subset) and count:
        first, last = list(every).index(allowed[0]), list(every).index(allowed[-1])
        if last - first + 1 == count:
            if last == total - 1:
                return f"{name} ≥ {show_value(allowed[0])}"
            if first == 0:
                return f"{name} ≤ {show_value(allowed[-1])}"
            return f"{name} in {show_value(allowed[0])} … {show_value(allowed[-1])}"
    return f"{name} in {{{_listed(show_value(value) for value in allowed)}}}"


def _listed(shown: Iterable[str]) -> str:
    every = list(shown)
    return ", ".join(every if len(every) <= MAX_LISTED else [*every[: MAX_LISTED - 2], "…", every[-1]])


def _slope(kind: Kind, table: Sequence[Number]) -> Number | None:
    """The factor of a term; None if the term is not a multiple of its variable."""
    if isinstance(kind, Subset):
        return None
    values = kind.values
    slope = as_plain_number(Fraction(table[1]) / Fraction(values[1] - values[0]))
    return slope if all(entry == slope * (value - values[0]) for entry, value in zip(table, values)) else None


def _form_text(spec: Spec, form: Form) -> str:
    """Write a form as a reader would: `carry + a − b + 3`, and `f(a)` for a term that is not a multiple."""
    constant, terms = form.constant, []
    for name, table in form.terms:
        kind, slope = _kind(spec, name), _slope(_kind(spec, name), table)
        if slope is None:
            entries = _listed(f"{show_value(value)}→{entry}" for value, entry in zip(kind.values, table))
            terms.append((False, f"{name}[{entries}]"))
        else:
            constant -= slope * kind.values[0]
            terms.append((slope < 0, name if abs(slope) == 1 else f"{abs(slope)}·{name}"))
    if constant or not terms:
        terms.append((constant < 0, str(abs(constant))))
    terms.sort(key=lambda term: term[0])  # positive terms first
    text = " ".join(f"{'−' if negative else '+'} {shown}" for negative, shown in terms)
    return text.removeprefix("+ ")


def _result_text(spec: Spec, update: GuardedUpdate) -> str:
    """Write the right-hand side of an update, for the values that its guard allows."""
    target = spec.kinds[update.variable]
    domains = {t.variable: t.indices for t in update.guard if t.variable in update.form.variables}
    reached = set(update.form.values_on({name: allowed for name, allowed in domains.items() if name is not None}))
    table = {value: target.values[index] for value, index in update.table if value in reached}
    if not update.form.terms or len(set(table.values())) == 1:
        return show_value(next(iter(table.values()), target.values[update.table[0][1]]))
    if len(update.form.terms) == 1:
        return _of_one(spec, update.form, domains, table)
    return _of_form(_form_text(spec, update.form), table)


def _of_one(spec: Spec, form: Form, domains: Mapping[Any, Iterable[int]], table: Mapping[Number, Value]) -> str:
    """Write a function of one variable."""
    ((name, entries),) = form.terms
    kind = _kind(spec, name)
    places = sorted(domains.get(name, range(len(kind))))
    mapping = {kind.values[i]: table[form.constant + entries[i]] for i in places if form.constant + entries[i] in table}
    if all(value == result for value, result in mapping.items()):
        return name
    numbers = not isinstance(kind, Subset) and not any(isinstance(result, frozenset) for result in mapping.values())
    if numbers and not isinstance(kind, Numerical):
        return _of_form(name, mapping)
    return _mapping_text(name, mapping)


def _of_form(text: str, table: Mapping[Number, Value]) -> str:
    """Write a function of a number: shifted, negated, `% n`, `// n`, or as a table."""
    inside = _grouped(text)
    if not all(isinstance(found, int | Fraction) for found in table.values()):
        return _mapping_text(inside, table)
    first, result = next(iter(table.items()))
    if all(found - value == result - first for value, found in table.items()):
        return _moved(text, result - first)
    if all(found + value == result + first for value, found in table.items()):
        return f"{as_plain_number(result + first)} − {inside}"
    modulus = max(table.values()) + 1
    for shift in sorted(((result - first) % modulus, (result - first) % modulus - modulus), key=abs):
        if all((value + shift) % modulus == found for value, found in table.items()):
            return f"{_grouped(_moved(text, shift))} % {modulus}"
    steps = [(b, table[b]) for a, b in zip(sorted(table), sorted(table)[1:]) if table[a] != table[b]]
    if len(steps) > 1:
        divisor = steps[1][0] - steps[0][0]
        shift = steps[0][1] * divisor - steps[0][0]
        if all((value + shift) // divisor == found for value, found in table.items()):
            return f"{_grouped(_moved(text, shift))} // {divisor}"
    return _mapping_text(inside, table)


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text


def _moved(text: str, by: Number) -> str:
    return text if by == 0 else f"{text} {'−' if by < 0 else '+'} {abs(by)}"


def _mapping_text(text: str, mapping: Mapping[Value, Value]) -> str:
    """Write a table, with neighbours of equal result joined: `a [0 … 4 → 0, 5 … 9 → 1]`."""
    runs: list[tuple[Value, Value, Value]] = []
    ordered = any(isinstance(value, frozenset) for value in mapping)
    for value, result in mapping.items() if ordered else sorted(mapping.items()):
        if runs and runs[-1][2] == result:
            runs[-1] = (runs[-1][0], value, result)
        else:
            runs.append((value, value, result))
    shown = [f"{_range_text(low, high)} → {show_value(result)}" for low, high, result in runs]
    return f"{text} [{_listed(shown)}]"


def _range_text(low: Value, high: Value) -> str:
    return show_value(low) if low == high else f"{show_value(low)} … {show_value(high)}"


# --- rules ------------------------------------------------------------------------------------------------


def rules_text(rules: Rules) -> str:
    """Format transition rules, one a line; count those that clear a head."""
    updating = [rule for rule in rules if rule.new is not None]
    cleared: dict[str, int] = {}
    for rule in rules:
        if rule.new is None:
            cleared[rule.variable] = cleared.get(rule.variable, 0) + 1
    lines = [f"{rules.spec.name}: {_counted(len(rules), 'transition rule')}"]
    lines += [f"  {_rule_text(rules.spec, rule)}" for rule in updating[:MAX_RULES_SHOWN]]
    if len(updating) > MAX_RULES_SHOWN:
        lines.append(f"  … and {len(updating) - MAX_RULES_SHOWN:,} more (all are in .rules and .to_json())")
    lines += [f"  {head}: any value → {UNDEFINED}  ({_counted(count, 'rule')})" for head, count in cleared.items()]
    return "\n".join(lines)


def _rule_text(spec: Spec, rule: Rule) -> str:
    def shown(name: str, index: int) -> str:
        return show_value(spec.kinds[name].values[index])

    new = UNDEFINED if rule.new is None else shown(rule.variable, rule.new)
    rest = [f"{name} = {shown(name, index)}" for name, index in rule.antecedent if name != rule.variable]
    guard = f"  if {', '.join(rest)}" if rest else ""
    return f"{rule.variable}: {shown(rule.variable, rule.old)} → {new}{guard}"
