"""Smaller programs from a program: every edit the shrinker may try, the ones that cut most first.

An edit keeps types, or fails to; whether the result still means something is for the oracle to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fuzz.generate_values import constant
from fuzz.ops import OPS, rebuild
from fuzz.program import (
    Assign,
    Expr,
    For,
    If,
    Program,
    Scalar,
    Statement,
    all_nodes,
    map_statement,
    nodes,
)
from fuzz.types import TYPES

Body = tuple[Statement, ...]


def edits(program: Program) -> Iterator[Callable[[], Program]]:
    """Candidates, each made only when it is tried. One that cannot be made raises IllTyped."""
    yield from _fewer_statements(program)
    yield from _flatter(program)
    if program.grid > 1:
        yield lambda: replace(program, grid=1)
    yield from _smaller_expressions(program)
    yield from _smaller_shapes(program)
    yield from _plainer_types(program)
    yield from _plainer_scalars(program)


def _edit_bodies(body: Body, change: Callable[[Body], Iterator[Body]]) -> Iterator[Body]:
    """The body with a change at one place: here, or in one of the statements' own bodies."""
    yield from change(body)
    for i, statement in enumerate(body):
        for part in ("body", "orelse"):
            for inner in _edit_bodies(getattr(statement, part, ()), change):
                yield (*body[:i], replace(statement, **{part: inner}), *body[i + 1 :])


def _fewer_statements(program: Program) -> Iterator[Callable[[], Program]]:
    size = max(1, len(program.body) // 2)
    while size >= 1:
        for body in _edit_bodies(program.body, lambda b, size=size: _without(b, size)):
            yield lambda body=body: replace(program, body=body)
        size //= 2


def _without(body: Body, size: int) -> Iterator[Body]:
    if len(body) >= size:
        for start in range(len(body) - size, -1, -size):
            yield body[:start] + body[start + size :]


def _flatter(program: Program) -> Iterator[Callable[[], Program]]:
    """Loops run once, branches taken."""
    for body in _edit_bodies(program.body, _unwrapped):
        yield lambda body=body: replace(program, body=body)


def _unwrapped(body: Body) -> Iterator[Body]:
    for i, statement in enumerate(body):
        if isinstance(statement, For):
            counter = Assign((statement.name,), constant(0, "int32"))
            yield (*body[:i], counter, *statement.body, *body[i + 1 :])
            if (statement.how, statement.first, statement.step) != ("range", 0, 1):
                yield (*body[:i], replace(statement, how="range", first=0, step=1), *body[i + 1 :])
            if not isinstance(statement.count, int):
                for count in (1, 2, 0, 3):
                    yield (*body[:i], replace(statement, count=count), *body[i + 1 :])
        elif isinstance(statement, If):
            for taken in (statement.body, statement.orelse):
                yield (*body[:i], *taken, *body[i + 1 :])


def _smaller_expressions(program: Program) -> Iterator[Callable[[], Program]]:
    targets = sorted(set(all_nodes(program)), key=lambda e: -sum(1 for _ in nodes(e)))
    for target in targets:
        for new in _replacements(target):
            yield lambda target=target, new=new: substitute(program, target, new)


def _replacements(e: Expr) -> Iterator[Expr]:
    if e.op in ("load", "store", "atomic") and len(e.args) > e.attrs["first"]:
        yield replace(e, args=e.args[:-1])
    if e.op == "dot" and len(e.args) > 2:
        yield replace(e, args=e.args[:2])
    if e.dtype not in TYPES:  # pointers, stores
        return
    for part in nodes(e):
        if part is not e and part.dtype == e.dtype and part.shape == e.shape and part.op != "const":
            yield part
    if e.op != "const":
        yield constant(1, e.dtype, e.shape)
        yield constant(0, e.dtype, e.shape)
    elif e.attrs["value"] not in (0, 1):
        yield constant(0, e.dtype, e.shape)
        yield constant(1, e.dtype, e.shape)


def substitute(program: Program, target: Expr, new: Expr) -> Program:
    """The program with one expression (the same object) put in place of another."""

    def change(e: Expr) -> Expr:
        if e is target:
            return new
        args = tuple(change(a) for a in e.args)
        return e if all(a is b for a, b in zip(args, e.args)) else rebuild(e, args)

    return _mapped(program, change)


def _mapped(program: Program, change: Callable[[Expr], Expr]) -> Program:
    body = tuple(map_statement(s, change) for s in program.body)
    functions = tuple(replace(f, result=change(f.result)) for f in program.functions)
    return replace(program, body=body, functions=functions)


def _rewritten(program: Program, attribute: Callable[[str, Any], Any]) -> Program:
    """All attributes of all expressions changed; everything is typed anew."""

    def change(e: Expr) -> Expr:
        attrs = {key: attribute(key, value) for key, value in e.attrs.items()}
        args = tuple(change(a) for a in e.args)
        dtype, shape = OPS[e.op].infer(args, attrs)
        return Expr(e.op, args, attrs, dtype, shape, e.range)

    made = _mapped(program, change)
    functions = tuple(
        replace(f, parameters=tuple(attribute("parameters", p) for p in f.parameters)) for f in made.functions
    )
    return replace(made, functions=functions)


def _smaller_shapes(program: Program) -> Iterator[Callable[[], Program]]:
    extents = {extent for e in all_nodes(program) for extent in e.shape}
    for extent in sorted(extents, reverse=True):
        for smaller in sorted({extent // 8, extent // 4, extent // 2} - {0}):
            yield lambda a=extent, b=smaller: _rewritten(program, lambda key, v: _resized(key, v, a, b))


def _resized(key: str, value: Any, old: int, new: int) -> Any:
    if key in ("n", "bins"):
        return new if value == old else value
    if key in ("shape", "block"):
        return tuple(new if extent == old else extent for extent in value)
    if key == "takes":
        return tuple((dtype, _resized("shape", shape, old, new)) for dtype, shape in value)
    if key == "parameters":
        return (*value[:2], _resized("shape", value[2], old, new))
    return value


def _plainer_types(program: Program) -> Iterator[Callable[[], Program]]:
    used = {e.dtype for e in all_nodes(program)} & set(TYPES)
    for dtype in sorted(used - {"int1", "int32", "float32"}):
        plain = "float32" if TYPES[dtype].kind == "f" else "int32"
        yield lambda old=dtype, new=plain: _retyped(program, old, new)


def _retyped(program: Program, old: str, new: str) -> Program:
    def swap(name: str) -> str:
        plain = name.removeprefix("*").removeprefix("desc:")
        return name[: len(name) - len(plain)] + (new if plain == old else plain)

    def attribute(key: str, value: Any) -> Any:
        if key in ("dtype", "to", "out"):
            return swap(value)
        if key == "takes":
            return tuple((swap(dtype), shape) for dtype, shape in value)
        return (value[0], swap(value[1]), value[2]) if key == "parameters" else value

    made = _rewritten(program, attribute)
    arguments = tuple(a if isinstance(a, Scalar) else replace(a, dtype=swap(a.dtype)) for a in made.arguments)
    return replace(made, arguments=arguments)


def _plainer_scalars(program: Program) -> Iterator[Callable[[], Program]]:
    for i, argument in enumerate(program.arguments):
        if isinstance(argument, Scalar):
            for value in (0, 1, 2):
                if abs(value) < abs(argument.value):
                    plain = replace(argument, value=value)
                    arguments = (*program.arguments[:i], plain, *program.arguments[i + 1 :])
                    yield lambda arguments=arguments: replace(program, arguments=arguments)


def pruned(program: Program) -> Program:
    """The program without arguments and functions that nothing names."""
    named = {e.attrs["name"] for e in all_nodes(program) if e.op in ("var", "call")}
    shared = {a.same_as for a in program.tensors() if a.name in named}
    arguments = tuple(a for a in program.arguments if a.name in named | shared)
    functions = tuple(f for f in program.functions if f.name in named)
    return replace(program, arguments=arguments, functions=functions)
