"""Which emitter serves which function: the table behind `call`, and the functions it puts into a module.

An emitter is a Python function from values to a value, registered under a name and element types. Short ones
are emitted in place; long ones become one internal function a type and lane count, which `call` calls. Such a
function returns the type of its first floating argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from .values import Val, element, short

Emitter = Callable[..., Val]


@dataclass(frozen=True)
class Entry:
    emit: Emitter
    place: str  # "inline": in place; "function": an internal function that is always inlined; "call": never


_ENTRIES: dict[tuple[str, str], Entry] = {}


def register(*names: str, types: tuple[str, ...] = ("f32", "f64"), place: str = "inline"):
    """Register an emitter under names, for element types."""

    def decorate(emit: Emitter) -> Emitter:
        for name in names:
            for t in types:
                _ENTRIES[name, t] = Entry(emit, place)
        return emit

    return decorate


def lookup(name: str, dtype: str) -> Entry | None:
    return _ENTRIES.get((name, dtype))


def names(dtype: str) -> list[str]:
    """Every function registered for an element type."""
    return sorted(n for n, t in _ENTRIES if t == dtype)


def emit(builder: ir.IRBuilder, name: str, entry: Entry, args: list[Any]) -> Any:
    """The value of an entry applied to arguments."""
    if entry.place == "inline":
        return entry.emit(*(Val(builder, a) for a in args)).v
    types = [a.type for a in args]
    symbol = "tp.{}.{}".format(name, ".".join(short(t) for t in types))
    f = builder.module.globals.get(symbol) or _define(builder.module, symbol, entry, types)
    return builder.call(f, args)


def _define(module: ir.Module, symbol: str, entry: Entry, types: list[ir.Type]) -> ir.Function:
    result = next(t for t in types if not isinstance(element(t), ir.IntType))
    f = ir.Function(module, ir.FunctionType(result, types), symbol)
    f.linkage = "internal"
    f.attributes.add("alwaysinline" if entry.place == "function" else "noinline")
    f.attributes.add("nounwind")
    builder = ir.IRBuilder(f.append_basic_block("entry"))
    builder.ret(entry.emit(*(Val(builder, a) for a in f.args)).v)
    return f


def apply(name: str, *args: Val) -> Val:
    """Another registered function, for emitters built on it; chosen by the first argument's type."""
    entry = lookup(name, short(element(args[0].type)))
    assert entry is not None, name
    return Val(args[0].b, emit(args[0].b, name, entry, [a.v for a in args]))
