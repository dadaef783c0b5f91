"""What operations of this core cost: from operands to result, and one behind another; how far it looks ahead.

Measured, not read off a table: each class of operations in a loop of machine code, once as one chain and once as many
side by side. Kept in the user's cache folder for a day, as roofs are. The window is that of operations that wait for
others: chains that stand one behind the other in the code run at the same time as long as all of them fit into it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir

from tileprobe.ir.flows import Cost, Costs
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.measuring import I64, ROUNDS, intrinsic, keep, kept, of_today, timed, vector

CHAINS = 16  # side by side: more than two units with a latency of four or five cycles need
LINKS = 8  # of a chain in a round
CHAIN = 96  # operations of a chain by which the window is measured
_UNITS = {
    "fma": "floating point", "add": "floating point", "mul": "floating point", "div": "divider", "sqrt": "divider",
    "exp": "floating point", "integer": "integers",
}  # fmt: skip
Link = Callable[[ir.IRBuilder, Any, Any], Any]  # from a chain so far, and a constant, to what comes next


@lru_cache(maxsize=1)
def costs() -> Costs:
    """From the disk where they are of today."""
    path = kept("latencies")
    known = Costs.of(of_today(path))
    if known is None or set(known.classes) != {*_LINKS, "load", "store"}:
        known = measured()
        keep(path, known.to_json())
    return known


def measured() -> Costs:
    found: dict[str, Cost] = {}
    for name, (kind, link) in _LINKS.items():
        alone, many = (_chains(kind, link, count) for count in (1, CHAINS))
        found[name] = Cost(alone, min(alone, many / CHAINS), _UNITS[name.split()[0]])
    found["load"] = Cost(_loaded_address(), _accesses(_loads), "loads")
    found["store"] = Cost(0.0, _accesses(_stores), "stores")
    fma = found["fma f32"].latency_ns
    return Costs(found, _issue(), _window(fma), "measured on one core that worked alone")


def _fma(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    return intrinsic(b, f"llvm.fma.{_suffix(x)}", x.type, [x, y, y])


def _sqrt(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    return intrinsic(b, f"llvm.sqrt.{_suffix(x)}", x.type, [x])


def _negative(b: ir.IRBuilder, x: Any) -> Any:
    """So that a chain of exponentials stays where it is."""
    return b.fneg(x)


def _suffix(x: Any) -> str:
    return f"v{x.type.count}{'f64' if isinstance(x.type.element, ir.DoubleType) else 'f32'}"


_LINKS: dict[str, tuple[str, Link]] = {
    **{f"fma {k}": (k, _fma) for k in ("f32", "f64")},
    **{f"add {k}": (k, lambda b, x, y: b.fadd(x, y)) for k in ("f32", "f64")},
    **{f"mul {k}": (k, lambda b, x, y: b.fmul(x, y)) for k in ("f32", "f64")},
    **{f"div {k}": (k, lambda b, x, y: b.fdiv(y, x)) for k in ("f32", "f64")},
    **{f"sqrt {k}": (k, _sqrt) for k in ("f32", "f64")},
    "exp f32": ("f32", lambda b, x, y: vmath.call(b, "exp", [_negative(b, x)], "f32")),
    "integer": ("i32", lambda b, x, y: b.xor(b.add(x, y), y)),  # two, that cannot be made one
}


def _chains(kind: str, link: Link, count: int) -> float:
    """Nanoseconds of a round of so many chains, each one link longer."""

    def body(b: ir.IRBuilder, values: list[Any], _: Any) -> list[Any]:
        for _ in range(LINKS):
            values = [*(link(b, value, values[-1]) for value in values[:-1]), values[-1]]
        return values

    each = LINKS * (2 if kind == "i32" else 1)
    return timed([vector(kind)] * (count + 1), body, rounds=ROUNDS // LINKS).best_ns / each


def _loaded_address() -> float:
    """What is loaded says where the next load is: memory of zeros, at which they all stay."""

    def body(b: ir.IRBuilder, values: list[Any], held: Any) -> list[Any]:
        b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)
        at = values[0]
        for _ in range(16):
            at = b.load(b.gep(held, [at], source_etype=ir.IntType(8)), typ=I64, align=1)
        return [at]

    return timed([I64], body, memory=np.zeros(4096, np.uint8)).best_ns / 16


def _accesses(emit: Callable[[ir.IRBuilder, Any, Any], Any]) -> float:
    def body(b: ir.IRBuilder, values: list[Any], held: Any) -> list[Any]:
        kind = vector("i32")
        for n in range(16):
            place = b.gep(held, [I64(n % 8)], source_etype=kind)
            values = [emit(b, place, values[0])]
        return values

    return timed([vector("i32")], body).best_ns / 16


def _loads(b: ir.IRBuilder, place: Any, value: Any = None) -> Any:
    """By inline assembly: a load that nobody needs would be left out."""
    kind = vector("i32")
    loaded = b.load(place, typ=kind, align=4)
    b.asm(ir.FunctionType(ir.VoidType(), [kind]), "", "x", [loaded], side_effect=True)
    return value


def _stores(b: ir.IRBuilder, place: Any, value: Any) -> Any:
    b.store(value, place, align=4)
    b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)
    return value


def _issue() -> float:
    """Nanoseconds from one operation to the next where nothing holds them up: a mixture for all units."""

    def body(b: ir.IRBuilder, values: list[Any], held: Any) -> list[Any]:
        floats, whole = values[:8], values[8:]
        floats = [_fma(b, x, floats[-1]) for x in floats]
        for n in range(8):
            _loads(b, b.gep(held, [I64(n)], source_etype=vector("i32")))
        return [*floats, *(_opaque(b, b.add(x, I64(n + 3))) for n, x in enumerate(whole))]

    return timed([*[vector("f32")] * 8, *[I64] * 16], body).best_ns / 32


def _opaque(b: ir.IRBuilder, x: Any) -> Any:
    """Of which the compiler knows nothing, so that it does not put several into one."""
    return b.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [x], side_effect=True)


def _window(latency_ns: float) -> float:
    """How many multiply-adds that wait are looked at: chains of so many, one behind the other in the code, run at once
    as many as fit."""

    def body(b: ir.IRBuilder, values: list[Any], held: Any) -> list[Any]:
        kind = vector("f32")
        x = b.load(held, typ=kind, align=4)
        b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)
        y = x
        for _ in range(CHAIN):
            y = _fma(b, y, values[0])
        b.asm(ir.FunctionType(ir.VoidType(), [kind]), "", "x", [y], side_effect=True)
        return values

    took = timed([vector("f32")], body, rounds=5_000).best_ns
    return max(1.0, CHAIN * CHAIN * latency_ns / took)
