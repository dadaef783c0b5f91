"""User scopes as ranges of source lines: `with scope("softmax"):` and Proton's `enter_scope` / `exit_scope`.

In comes the path of a source file; out go the names and the lines of the scopes written in it. The compiler
never sees a scope: which operations lie in one is decided from their locations, after optimisation.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class SourceScope:
    name: str
    first: int
    last: int

    def __str__(self) -> str:
        """As the `select` pass takes it."""
        return f"{self.name}@{self.first}-{self.last}"


def scopes_in(file: str) -> tuple[SourceScope, ...]:
    """The scopes of a file, outermost first. A file that cannot be read or parsed has none."""
    return _scopes("".join(linecache.getlines(file)))


@lru_cache(maxsize=64)
def _scopes(text: str) -> tuple[SourceScope, ...]:
    if "scope" not in text:
        return ()
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    found: list[SourceScope] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            names = [name for item in node.items if (name := _called(item.context_expr, "scope"))]
            found += [SourceScope(name, node.body[0].lineno, _end(node)) for name in names]
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                found += _pairs(statements)
    return tuple(sorted(found, key=lambda s: (s.first, -s.last)))


def _pairs(statements: list[ast.stmt]) -> list[SourceScope]:
    """`enter_scope("x")` to `exit_scope("x")` in one list of statements."""
    opened: dict[str, int] = {}
    found = []
    for statement in statements:
        if not isinstance(statement, ast.Expr):
            continue
        if name := _called(statement.value, "enter_scope"):
            opened[name] = _end(statement) + 1
        elif (name := _called(statement.value, "exit_scope")) in opened and name:
            found.append(SourceScope(name, opened.pop(name), max(statement.lineno - 1, 1)))
    return [scope for scope in found if scope.first <= scope.last]


def _called(node: ast.expr, function: str) -> str | None:
    """The name given to a call of `function` or `anything.function`, when it is written there."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0]
    if called != function or not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return None
    return first.value


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
