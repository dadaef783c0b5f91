"""A kernel as a tree: typed, shaped expressions in statements. The generator builds it, the shrinker cuts it.

An expression knows the name of its operation (`fuzz.ops` says what type it has and how it is written), so a
tree that was edited is rebuilt through `make` and is well typed again, or refuses with `IllTyped`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Range = tuple[int, int] | None
Shape = tuple[int, ...]


class IllTyped(Exception):
    """An operation was given operands it does not take."""


@dataclass(frozen=True, eq=False)
class Expr:
    op: str
    args: tuple[Expr, ...]
    attrs: dict[str, Any]
    dtype: str  # a name of `fuzz.types`, "*name" for pointers, "void" for stores
    shape: Shape
    # Integers, and floats known to be whole: bounds of the value. Pointers: which offsets may still be added.
    range: Range = None


@dataclass(frozen=True, eq=False)
class Assign:
    targets: tuple[str, ...]
    value: Expr


@dataclass(frozen=True, eq=False)
class Do:
    """A store or an atomic whose result is not used."""

    value: Expr


@dataclass(frozen=True, eq=False)
class For:
    name: str  # the counter, an int32
    count: Expr | int
    body: tuple[Any, ...]
    how: str = "range"  # or tl.range, tl.static_range, while
    first: int = 0
    step: int = 1


@dataclass(frozen=True, eq=False)
class If:
    condition: Expr
    body: tuple[Any, ...]
    orelse: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Return:
    """Leave the kernel here if a condition holds."""

    condition: Expr


Statement = Assign | Do | For | If | Return


@dataclass(frozen=True)
class Tensor:
    """An argument that points to memory."""

    name: str
    dtype: str
    size: int  # elements of one program
    values: str  # what it holds at first; see `fuzz.data`
    bounds: Range  # of what it ever holds
    apart: bool = False  # each program has a part of its own
    ulps: int = 0  # by which floats in it may be off
    same_as: str = ""  # the argument whose memory this one shares


@dataclass(frozen=True)
class Scalar:
    name: str
    value: int


@dataclass(frozen=True, eq=False)
class Function:
    """A device function: parameters (name, dtype, shape) and what it returns."""

    name: str
    parameters: tuple[tuple[str, str, Shape], ...]
    result: Expr
    noinline: bool


@dataclass(frozen=True, eq=False)
class Program:
    seed: int
    grid: int
    arguments: tuple[Tensor | Scalar, ...]
    body: tuple[Statement, ...]
    functions: tuple[Function, ...] = ()
    features: tuple[str, ...] = field(default=())

    def tensors(self) -> list[Tensor]:
        return [a for a in self.arguments if isinstance(a, Tensor)]


def nodes(expression: Expr) -> Iterator[Expr]:
    """An expression and all its parts."""
    yield expression
    for arg in expression.args:
        yield from nodes(arg)


def expressions(statement: Statement) -> list[Expr]:
    """The expressions a statement holds itself, without those of its body."""
    if isinstance(statement, Assign | Do):
        return [statement.value]
    if isinstance(statement, For):
        return [statement.count] if isinstance(statement.count, Expr) else []
    return [statement.condition]


def bodies(statement: Statement) -> list[tuple[Statement, ...]]:
    if isinstance(statement, For):
        return [statement.body]
    return [statement.body, statement.orelse] if isinstance(statement, If) else []


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, those of loops and branches too."""
    for statement in body:
        yield statement
        for inner in bodies(statement):
            yield from walk(inner)


def all_nodes(program: Program) -> Iterator[Expr]:
    for statement in walk(program.body):
        for expression in expressions(statement):
            yield from nodes(expression)
    for function in program.functions:
        yield from nodes(function.result)


def map_statement(statement: Statement, change: Callable[[Expr], Expr]) -> Statement:
    """The statement with each of its expressions changed, those of its body too."""

    def inner(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(map_statement(s, change) for s in body)

    if isinstance(statement, Assign | Do):
        return replace(statement, value=change(statement.value))
    if isinstance(statement, For):
        count = change(statement.count) if isinstance(statement.count, Expr) else statement.count
        return replace(statement, count=count, body=inner(statement.body))
    if isinstance(statement, If):
        return If(change(statement.condition), inner(statement.body), inner(statement.orelse))
    return Return(change(statement.condition))
