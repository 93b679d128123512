"""`step`, rewritten so that paths meet again after each statement.

Operator overloading sees values, not statements. A rewritten function runs each of its statements for every path
through that statement, and then goes on once, with what the paths have come to (`merging.py`). So statements that do
not depend on each other add up, where their paths would multiply. A function whose source is not at hand stays as it
is, and so does one whose bytecode is not that of the source: its paths multiply, and the result is the same.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import textwrap
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from types import CellType, CodeType, FunctionType
from typing import Any

MERGER, LOCALS = "kleene_merger_", "kleene_locals_"  # names that rewritten functions use
DEEPEST = 14  # loops around each other; Python allows 20
FUTURE = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
ASKS_THE_FRAME = {"locals", "vars", "eval", "exec", "super", "globals", "dir"}
LOOKS_ONLY = {"len", "max", "min", "sum", "sorted", "any", "all", "zip", "enumerate", "range", "list", "tuple", "set"}
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
COMPOUND = (ast.If, ast.For, ast.While, ast.Match, ast.Try, ast.With)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def rewritten(function: FunctionType, merger: Any) -> FunctionType | None:
    """The function with regions around its statements, tied to a merger; None where it cannot be rewritten."""
    code = _rewritten_code(function.__code__)
    if code is None:
        return None
    known = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    known |= {MERGER: CellType(merger), LOCALS: CellType(locals)}
    made = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(known[name] for name in code.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


_codes: dict[CodeType, CodeType | None] = {}


def _rewritten_code(code: CodeType) -> CodeType | None:
    if code not in _codes:
        _codes[code] = _rewrite(code)
    return _codes[code]


def _rewrite(code: CodeType) -> CodeType | None:
    definition = _definition(code)
    if definition is None or not _plain(definition):
        return None
    before = _compiled(definition, code)
    if before is None or not _same_code(before, code):
        return None
    body = _Body(definition)
    definition.body = body.statements(definition.body, 0)
    return _compiled(ast.fix_missing_locations(definition), code)


def _definition(code: CodeType) -> ast.FunctionDef | None:
    """The syntax tree of a function, with the lines of its file."""
    try:
        lines, start = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, IndentationError, ValueError):
        return None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    definition = tree.body[0]
    ast.increment_lineno(tree, max(start, 1) - 1)
    definition.decorator_list, definition.returns = [], None
    for argument in ast.walk(definition.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    definition.args.defaults = [ast.Constant(None) for _ in definition.args.defaults]
    definition.args.kw_defaults = [default and ast.Constant(None) for default in definition.args.kw_defaults]
    return definition


def _plain(definition: ast.FunctionDef) -> bool:
    """Whether the function does nothing that a rewritten one would do differently."""
    for found in ast.walk(definition):
        if isinstance(found, ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom | ast.Await | ast.Delete):
            return False
        if isinstance(found, ast.MatchSingleton):  # `case True` asks with `is`
            return False
        if isinstance(found, ast.Name) and (found.id in ASKS_THE_FRAME or found.id in (MERGER, LOCALS)):
            return False
    return True


def _compiled(definition: ast.FunctionDef, code: CodeType) -> CodeType | None:
    """The code of a function with these free variables."""
    free = [ast.arg(name) for name in (*code.co_freevars, MERGER, LOCALS)]
    arguments = ast.arguments(posonlyargs=[], args=free, kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef("outer", arguments, [definition], [], None, lineno=1, col_offset=0)
    if "type_params" in ast.FunctionDef._fields:
        outer.type_params = []  # type: ignore[attr-defined, unused-ignore]
    imports: list[ast.stmt] = [ast.Import([ast.alias("module", name)]) for name in _imported(code)]
    module = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    try:
        made = compile(module, code.co_filename, "exec", flags=code.co_flags & FUTURE, dont_inherit=True)
    except (SyntaxError, RecursionError, ValueError):
        return None
    return _inner(_inner(made, "outer"), code.co_name)


def _imported(code: CodeType) -> list[str]:
    """The names that the module of a function imports. Python compiles `name.function(…)` differently for these."""
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return []
    names: dict[str, None] = {}
    todo: list[ast.AST] = list(tree.body)
    while todo:
        found = todo.pop()
        if isinstance(found, ast.Import | ast.ImportFrom):
            names |= dict.fromkeys((one.asname or one.name).partition(".")[0] for one in found.names)
        elif not isinstance(found, SCOPES):
            todo += ast.iter_child_nodes(found)
    return [name for name in names if name.isidentifier()]


def _inner(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _same_code(one: CodeType, two: CodeType) -> bool:
    alike = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount")
    if any(getattr(one, part) != getattr(two, part) for part in alike) or len(one.co_consts) != len(two.co_consts):
        return False
    return all(
        _same_code(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else type(a) is type(b) and a == b
        for a, b in zip(one.co_consts, two.co_consts)
    )


def _asked(method: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(MERGER, ast.Load()), method, ast.Load()), list(arguments), [])


class _Expressions(ast.NodeTransformer):
    """Reads of merged local variables, calls, and `is`, through the merger."""

    def __init__(self, merged: set[str]) -> None:
        self.merged = merged

    def visit_Name(self, found: ast.Name) -> ast.expr:
        if isinstance(found.ctx, ast.Load) and found.id in self.merged:
            return ast.copy_location(_asked("read", found), found)
        return found

    def visit_Call(self, found: ast.Call) -> ast.expr:
        self.generic_visit(found)
        found.func = ast.copy_location(_asked("callee", found.func), found.func)
        return found

    def visit_Subscript(self, found: ast.Subscript) -> ast.expr:
        self.generic_visit(found)
        if isinstance(found.ctx, ast.Load) and not any(isinstance(part, ast.Slice) for part in ast.walk(found.slice)):
            return ast.copy_location(_asked("item", found.value, found.slice), found)
        return found

    def visit_Compare(self, found: ast.Compare) -> ast.expr:
        self.generic_visit(found)
        if len(found.ops) == 1 and isinstance(found.ops[0], ast.In | ast.NotIn):
            inside: ast.expr = _asked("contained", found.left, found.comparators[0])
            absent = isinstance(found.ops[0], ast.NotIn)
            return ast.copy_location(_asked("negated", inside) if absent else inside, found)
        if len(found.ops) == 1 and isinstance(found.ops[0], ast.Is | ast.IsNot):
            same: ast.expr = _asked("identical", found.left, found.comparators[0])
            made = _asked("negated", same) if isinstance(found.ops[0], ast.IsNot) else same
            return ast.copy_location(made, found)
        return found


class _Body:
    """The statements of one function, with a region around each that can fork."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self.regions = 0
        self.expressions = _Expressions(set(_stored(definition.body)))

    def statements(self, body: Iterable[ast.stmt], depth: int) -> list[ast.stmt]:
        return [made for one in body for made in self.statement(one, depth)]

    def statement(self, found: ast.stmt, depth: int) -> list[ast.stmt]:
        if isinstance(found, SIMPLE + COMPOUND) and depth < DEEPEST and not _leaves(found):
            return self.region(found, depth)
        return [self.inside(found, depth)]

    def inside(self, found: ast.stmt, depth: int) -> ast.stmt:
        """The statement with its parts rewritten."""
        if isinstance(found, ast.If):
            found.test = self.expressions.visit(found.test)
            found.body = self.statements(found.body, depth)
            if len(found.orelse) == 1 and isinstance(found.orelse[0], ast.If):
                found.orelse = [self.inside(found.orelse[0], depth)]  # an elif belongs to the same region
            else:
                found.orelse = self.statements(found.orelse, depth)
            return found
        if isinstance(found, ast.For | ast.While):
            if isinstance(found, ast.For):
                found.iter = self.expressions.visit(found.iter)
            else:
                found.test = self.expressions.visit(found.test)
            found.body = self.statements(_without_continue(found.body), depth + 1)
            found.orelse = self.statements(found.orelse, depth)
            return found
        if isinstance(found, ast.Match):
            found.subject = self.expressions.visit(found.subject)
            for case in found.cases:
                case.guard = case.guard and self.expressions.visit(case.guard)
                case.body = self.statements(case.body, depth)
            return found
        if isinstance(found, ast.AugAssign) and isinstance(found.target, ast.Name):
            operation = ast.Constant(type(found.op).__name__)
            read = ast.copy_location(ast.Name(found.target.id, ast.Load()), found.target)
            value = _asked("in_place", operation, self.expressions.visit(read), self.expressions.visit(found.value))
            return ast.copy_location(ast.Assign([found.target], ast.copy_location(value, found)), found)
        made: ast.stmt = self.expressions.visit(found)
        for part in ast.walk(made):
            if isinstance(part, ast.Try | ast.With):  # what `with` enters may catch errors
                trying = ast.With([ast.withitem(_asked("trying"), None)], part.body)
                part.body = [ast.copy_location(trying, part.body[0])]
        return made

    def region(self, found: ast.stmt, depth: int) -> list[ast.stmt]:
        """`while region.another(): (restore local variables) (the statement) region.end(locals())`."""
        self.regions += 1
        region, names = f"kleene_region_{self.regions}_", sorted(set(_stored([found])))
        touched, seen = _mentioned(found)
        inside = self.inside(found, depth + 1)
        given: list[ast.expr] = [ast.Call(ast.Name(LOCALS, ast.Load()), [], [])]
        given += [_parsed(repr(tuple(sorted(some)))).value for some in (names, touched, seen)]
        begin = _parsed(f"{region} = 0")
        begin.value = _asked("region", *given)
        loop = _parsed(f"while {region}.another():\n pass")
        loop.body = [
            *(_parsed(_RESTORE.format(region=region, name=name)) for name in names),
            inside,
            _parsed(f"{region}.end({LOCALS}())"),
        ]
        after = [_parsed(f"if {name!r} in {region}.after:\n {name} = {region}.after[{name!r}]") for name in names]
        made: list[ast.stmt] = [begin, loop, *after]
        own = {id(part) for part in ast.walk(inside)}
        for statement in made:
            for part in ast.walk(statement):
                if id(part) not in own and isinstance(part, ast.stmt | ast.expr):
                    ast.copy_location(part, found)
        return made


_RESTORE = """
if {name!r} in {region}.before:
    {name} = {region}.before[{name!r}]
elif {region}.begun:
    {name} = None
    del {name}
"""


def _parsed(text: str) -> Any:
    return ast.parse(text).body[0]


def _stored(body: Iterable[ast.AST]) -> Iterator[str]:
    """The local variables that statements assign; those of inner scopes are not theirs."""
    for found in body:
        if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store):
            yield found.id
        elif isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield found.name
            continue
        elif isinstance(found, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and found.name:
            yield found.name
        elif isinstance(found, ast.MatchMapping) and found.rest:
            yield found.rest
        elif isinstance(found, ast.alias):
            yield (found.asname or found.name).partition(".")[0]
        elif isinstance(found, ast.Lambda):
            continue
        if isinstance(found, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            inner = [part for part in ast.walk(found) if isinstance(part, ast.NamedExpr)]
            yield from _stored(inner)
            continue
        yield from _stored(ast.iter_child_nodes(found))


def _leaves(found: ast.AST, loops: int = 0) -> bool:
    """Whether a statement can leave the place where it stands: it returns, or ends or continues a loop around it."""
    if isinstance(found, ast.Return) or (isinstance(found, ast.Break | ast.Continue) and not loops):
        return True
    if isinstance(found, SCOPES):
        return False
    inside = loops + isinstance(found, ast.For | ast.AsyncFor | ast.While)
    return any(_leaves(part, inside) for part in ast.iter_child_nodes(found))


def _without_continue(body: list[ast.stmt]) -> list[ast.stmt]:
    """`if …: … continue` and what follows it, as `if …: … else: …`: then the statement stays in its place."""
    for place, found in enumerate(body):
        if isinstance(found, ast.If) and isinstance(found.body[-1], ast.Continue):
            rest = [*found.orelse, *body[place + 1 :]]
            made = ast.If(found.test, found.body[:-1] or [ast.Pass()], _without_continue(rest))
            return [*body[:place], ast.copy_location(made, found)]
    if body and isinstance(body[-1], ast.Continue) and len(body) > 1:
        return body[:-1]
    return body


def _mentioned(found: ast.AST) -> tuple[set[str], set[str]]:
    """The names that a statement may change the objects of, and those whose objects it only looks at."""
    touched: set[str] = set()
    seen: set[str] = set()

    def visit(part: ast.AST, looked_at: bool) -> None:
        if isinstance(part, ast.Name):
            (seen if looked_at else touched).add(part.id)
            return
        for name, child in ast.iter_fields(part):
            for one in child if isinstance(child, list) else [child]:
                if isinstance(one, ast.AST):
                    visit(one, _looked_at(part, name))

    visit(found, looked_at=False)
    return touched, seen - touched


def _looked_at(part: ast.AST, field: str) -> bool:
    """Whether an object in this place of an expression cannot be changed there."""
    if isinstance(part, ast.Subscript):
        return isinstance(part.ctx, ast.Load)
    if isinstance(part, ast.For | ast.comprehension):
        return field == "iter"
    if isinstance(part, ast.Call):
        known = isinstance(part.func, ast.Name) and part.func.id in LOOKS_ONLY
        return known and field == "args"
    return isinstance(part, ast.Compare | ast.BinOp)
