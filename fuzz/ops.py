"""The operations of generated kernels: what type each has, and how it is written.

`make` is the only way to build an expression. Both operands of an operation have the same type (the generator
converts), so Triton's promotion rules do not show; shapes broadcast as in Triton (same rank, or a scalar).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuzz.program import Expr, IllTyped, Range, Shape
from fuzz.types import TYPES

Infer = Callable[[tuple[Expr, ...], dict[str, Any]], tuple[str, Shape]]
Text = Callable[[Expr, list[str]], str]


@dataclass(frozen=True)
class Op:
    infer: Infer
    text: Text


OPS: dict[str, Op] = {}


def make(op: str, *args: Expr, range: Range = None, **attrs: Any) -> Expr:
    """An expression, typed. Raises IllTyped when the operands do not fit."""
    dtype, shape = OPS[op].infer(args, attrs)
    return Expr(op, args, attrs, dtype, shape, range)


def rebuild(expression: Expr, args: tuple[Expr, ...]) -> Expr:
    """The same operation on other operands."""
    dtype, shape = OPS[expression.op].infer(args, expression.attrs)
    return Expr(expression.op, args, expression.attrs, dtype, shape, expression.range)


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise IllTyped(what)


def broadcast(a: Shape, b: Shape) -> Shape:
    if not a or not b:
        return a or b
    expect(len(a) == len(b), f"ranks of {a} and {b}")
    expect(all(x == y or 1 in (x, y) for x, y in zip(a, b)), f"{a} with {b}")
    return tuple(max(x, y) for x, y in zip(a, b))


def literal(value: Any, dtype: str) -> str:
    return repr(float(value)) if TYPES[dtype].kind == "f" else repr(value)


def tl_type(dtype: str) -> str:
    return f"tl.{dtype}"


def shape_text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# Leaves
def _typed(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    return attrs["dtype"], tuple(attrs["shape"])


OPS["var"] = Op(_typed, lambda e, a: e.attrs["name"])
OPS["arange"] = Op(
    lambda args, attrs: ("int32", (attrs["n"],)),
    lambda e, a: f"tl.arange({e.attrs.get('start', 0)}, {e.attrs.get('start', 0) + e.attrs['n']})",
)


def _constant(e: Expr, a: list[str]) -> str:
    return f"tl.full({shape_text(e.shape)}, {literal(e.attrs['value'], e.dtype)}, {tl_type(e.dtype)})"


OPS["const"] = Op(_typed, _constant)


# Elementwise
def _same(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    shape: Shape = ()
    for arg in args:
        expect(arg.dtype == args[0].dtype, f"{arg.dtype} with {args[0].dtype}")
        shape = broadcast(shape, arg.shape)
    return args[0].dtype, shape


def _operand(e: Expr, text: str) -> str:
    """A scalar constant beside a tensor is written as a plain number, as people do."""
    return literal(e.attrs["value"], e.dtype) if e.op == "const" and not e.shape else text


def _binary(e: Expr, a: list[str]) -> str:
    left, right = e.args
    if right.op == "const" and (left.op != "const" or left.shape):
        a = [a[0], _operand(right, a[1])]
    symbol = e.attrs["symbol"]
    return f"tl.{symbol}({a[0]}, {a[1]})" if symbol.isalpha() else f"({a[0]} {symbol} {a[1]})"


OPS["binary"] = Op(_same, _binary)
OPS["compare"] = Op(lambda args, attrs: ("int1", _same(args, attrs)[1]), _binary)


def _unary(e: Expr, a: list[str]) -> str:
    symbol = e.attrs["symbol"]
    return f"tl.{symbol}({a[0]})" if symbol[0].isalpha() else f"({symbol}{a[0]})"


OPS["unary"] = Op(_same, _unary)


def _where(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    condition, *values = args
    expect(condition.dtype == "int1", "where needs a condition")
    dtype, shape = _same(tuple(values), attrs)
    return dtype, broadcast(condition.shape, shape)


OPS["where"] = Op(_where, lambda e, a: f"tl.where({a[0]}, {a[1]}, {a[2]})")
OPS["fma"] = Op(_same, lambda e, a: f"tl.fma({a[0]}, {a[1]}, {a[2]})")


def _cast(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    if attrs.get("bitcast"):
        expect(TYPES[args[0].dtype].bits == TYPES[attrs["to"]].bits, "bitcast of another width")
    return attrs["to"], args[0].shape


OPS["cast"] = Op(
    _cast,
    lambda e, a: f"{a[0]}.to({tl_type(e.dtype)}{', bitcast=True' if e.attrs.get('bitcast') else ''})",
)


# Memory
def _addptr(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    expect(args[0].dtype.startswith("*") and TYPES[args[1].dtype].kind in "iu", "pointer + integer")
    return args[0].dtype, broadcast(args[0].shape, args[1].shape)


def _masked(e: Expr, a: list[str]) -> str:
    """`, mask=...` and `, other=...` from the operands that follow `attrs["first"]` others."""
    rest = a[e.attrs["first"] :]
    names = ["mask", "other"][: len(rest)]
    return "".join(f", {name}={text}" for name, text in zip(names, rest))


def _check_mask(args: tuple[Expr, ...], first: int, shape: Shape) -> None:
    if len(args) > first:
        mask = args[first]
        expect(mask.dtype == "int1" and broadcast(mask.shape, shape) == shape, "mask")


def _load(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    pointer = args[0]
    expect(pointer.dtype.startswith("*"), "load of no pointer")
    _check_mask(args, 1, pointer.shape)
    if len(args) > 2:
        expect(args[2].dtype == pointer.dtype[1:] and args[2].shape in ((), pointer.shape), "other")
    return pointer.dtype[1:], pointer.shape


def _load_text(e: Expr, a: list[str]) -> str:
    if len(a) > 2:
        a = [*a[:2], _operand(e.args[2], a[2])]
    return f"tl.load({a[0]}{_masked(e, a)})"


def _store(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    pointer, value = args[:2]
    expect(pointer.dtype == "*" + value.dtype, "store of another type")
    expect(broadcast(pointer.shape, value.shape) == pointer.shape, "store of another shape")
    _check_mask(args, 2, pointer.shape)
    return "void", ()


def _atomic(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    values = 2 if attrs["symbol"] == "cas" else 1
    for value in args[1 : 1 + values]:
        expect(args[0].dtype == "*" + value.dtype and value.shape == args[0].shape, "atomic")
    _check_mask(args, 1 + values, args[0].shape)
    return args[0].dtype[1:], args[0].shape


OPS["addptr"] = Op(_addptr, lambda e, a: f"({a[0]} + {_operand(e.args[1], a[1])})")
OPS["load"] = Op(_load, _load_text)
OPS["store"] = Op(_store, lambda e, a: f"tl.store({a[0]}, {a[1]}{_masked(e, a)})")
OPS["atomic"] = Op(
    _atomic,
    lambda e, a: (
        f"tl.atomic_{e.attrs['symbol']}({', '.join(a[: e.attrs['first']])}{_masked(e, a)}, sem='relaxed')"
    ),
)


def _call(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    expect([(a.dtype, a.shape) for a in args] == list(attrs["takes"]), "arguments")
    return attrs["dtype"], tuple(attrs["shape"])


OPS["call"] = Op(_call, lambda e, a: f"{e.attrs['name']}({', '.join(a)})")
