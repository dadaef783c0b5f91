"""Small loops of machine code whose time says what this core can do, and what is kept of that for a day.

Comes in: what one round of a loop does (an emitter). Goes out: nanoseconds of a round, of the quickest try and of the
middle one: how far these lie apart says how far a busy machine spoils them.
"""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from tileprobe.errors import TileProbeError
from tileprobe.files import cache_home, write_json
from tileprobe.targets.cpu.host import host
from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.targets.linker import load_object

DAY_S = 86_400
TRYING_S, TRIES = 0.02, 5
ROUNDS = 100_000  # a call from Python takes a microsecond
I64, PTR = ir.IntType(64), ir.PointerType()
# From the builder, the values that go round and a pointer to memory of ours to the values of the next round.
Round = Callable[[ir.IRBuilder, list[Any], Any], list[Any]]


@dataclass(frozen=True)
class Took:
    """Nanoseconds of a round: the quickest try, and the middle one."""

    best_ns: float
    middle_ns: float

    @property
    def spread(self) -> float:
        """How much longer the middle one took, as a share."""
        return self.middle_ns / self.best_ns - 1 if self.best_ns else 0.0


def vector(kind: str, bytes_: int = 0) -> ir.VectorType:
    types = {
        "f64": ir.DoubleType(), "f32": ir.FloatType(), "f16": ir.HalfType(), "bf16": ir.IntType(16),
        "i8": ir.IntType(8), "i32": ir.IntType(32), "i64": I64,
    }  # fmt: skip
    sizes = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i8": 1}
    return ir.VectorType(types[kind], (bytes_ or host().vector_bytes) // sizes[kind])


def intrinsic(b: ir.IRBuilder, name: str, result: Any, args: Sequence[Any]) -> Any:
    found = b.module.globals.get(name)
    function = found or ir.Function(b.module, ir.FunctionType(result, [a.type for a in args]), name)
    return b.call(function, args)


def timed(kinds: Sequence[Any], body: Round, rounds: int = ROUNDS, memory: np.ndarray | None = None) -> Took:
    """Of a loop around values of these types, which begin with what is in the memory given (or small numbers)."""
    module = ir.Module("measured")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR, I64]), "tp_measured")
    seeds_at, held_at, count = function.args
    entry, loop, done = (function.append_basic_block(name) for name in ("entry", "loop", "done"))
    b = ir.IRBuilder(entry)
    size = max(host().vector_bytes, 8)
    places = [b.gep(seeds_at, [I64(size * n)], source_etype=ir.IntType(8)) for n in range(len(kinds))]
    first = [b.load(place, typ=kind, align=1) for place, kind in zip(places, kinds)]
    b.branch(loop)
    b = ir.IRBuilder(loop)
    turn, values = b.phi(I64), [b.phi(kind) for kind in kinds]
    after = body(b, list(values), held_at)
    more = b.add(turn, I64(1))
    last = b.block
    for phi, begin, then in zip((turn, *values), (I64(0), *first), (more, *after)):
        phi.add_incoming(begin, entry)
        phi.add_incoming(then, last)
    b.cbranch(b.icmp_unsigned("<", more, count), loop, done)
    b = ir.IRBuilder(done)
    for value, place in zip(after, places):
        b.store(value, place, align=1)
    b.ret_void()
    library = load_object(compile_ir(str(module), passes=True, opt=1), ["tp_measured"])
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        library.address("tp_measured")
    )
    seeds = [_ones(kind) for kind in kinds]
    begun = np.frombuffer(b"".join(piece.ljust(size, b"\0") for piece in seeds), np.uint8)
    spare = np.ones((1 << 14) + 64, np.uint8)  # from the beginning of a line on: others take two loads
    held = spare[-spare.ctypes.data % 64 :] if memory is None else memory
    tries: list[float] = []
    end = time.perf_counter() + TRYING_S
    while time.perf_counter() < end or len(tries) < TRIES:
        given = begun.copy()
        start = time.perf_counter_ns()
        run(given.ctypes.data, held.ctypes.data, rounds)
        tries.append((time.perf_counter_ns() - start) / rounds)
    return Took(min(tries), float(np.median(tries)))


def _ones(kind: Any) -> bytes:
    """A value that is one everywhere: no number on the way becomes very small, which some cores are slow with."""
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    types = {ir.DoubleType(): np.float64, ir.FloatType(): np.float32, ir.HalfType(): np.float16}
    held = types.get(element) or np.dtype(f"i{element.width // 8}")
    return np.ones(getattr(kind, "count", 1), held).tobytes()


# -- kept for a day -----------------------------------------------------------------------------------------------


def machine_key() -> str:
    name = "".join(c if c.isalnum() else "-" for c in host().cpu_name)
    return f"{name}-{host().vector_bytes}"


def kept(what: str) -> Path:
    return cache_home() / f"{what}-{machine_key()}.json"


def of_today(path: Path) -> Any:
    """What was kept within a day; None where that is nothing, or nothing that can be read."""
    try:
        return json.loads(path.read_text()) if time.time() - path.stat().st_mtime < DAY_S else None
    except (OSError, ValueError):
        return None


def keep(path: Path, data: Any) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, data)
    except (OSError, TileProbeError):
        pass  # measured again next time
