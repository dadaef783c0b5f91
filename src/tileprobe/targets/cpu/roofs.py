"""The most that a core does: multiply-adds of f32 in registers, bytes copied from memory and from its first cache.

Measured, not read off a data sheet: three loops of machine code, each run many times for a millisecond or less. The
quickest counts, so that a busy machine spoils little. Kept in the user's cache folder for a day; a later measurement
replaces a lower one. In comes nothing; out go `Roofs` of one core that works alone: where all of them ask for memory,
each gets less.
"""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir

from tileprobe.errors import TileProbeError
from tileprobe.files import cache_home, write_json
from tileprobe.ir.amounts import Roofs
from tileprobe.targets.cpu.host import host
from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.targets.cpu.measuring import DAY_S, machine_key
from tileprobe.targets.linker import load_object

CHAINS = (
    12  # of multiply-adds beside each other: more than two units with a latency of four or five cycles need
)
ROUNDS = 20_000  # of all chains
MEMORY_BYTES, CACHE_BYTES = 64 << 20, 12 << 10  # read and written, half each
TRYING_S = 0.03  # each of them

_I64, _PTR = ir.IntType(64), ir.PointerType()


@lru_cache(maxsize=1)
def roofs() -> Roofs:
    """From the disk where they are of today."""
    path = cache_home() / f"roofs-{machine_key()}.json"
    known: dict[str, float] = {}
    try:
        known = {name: float(value) for name, value in json.loads(path.read_text()).items()}
        fresh = time.time() - path.stat().st_mtime < DAY_S and set(known) == set(_MEASURES)
    except (OSError, ValueError, TypeError, AttributeError):
        fresh = False
    if not fresh:
        known = {name: max(measure(), known.get(name, 0.0)) for name, measure in _MEASURES.items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, known)
        except (OSError, TileProbeError):
            pass  # measured again next time
    return Roofs(
        unit="core",
        flops_per_s=(("f32 multiply-add", known["flops"]),),
        bytes_per_s=(("memory", known["memory"]), ("first cache", known["cache"])),
        said="measured on one core that worked alone",
    )


def _flops() -> float:
    lanes = host().vector_bytes // 4
    seeds = np.full(CHAINS * lanes, 0.5, np.float32)
    return 2.0 * CHAINS * lanes * ROUNDS / _quickest(lambda run: run[0](seeds.ctypes.data, ROUNDS))


def _copied(size: int) -> float:
    """Bytes a second, read and written, of a copy that touches `size` bytes, for at least some hundred microseconds."""
    half = size // 2 // 512 * 512
    source, sink = np.ones(half, np.uint8), np.ones(half, np.uint8)
    times = max(1, (4 << 20) // half)
    arguments = (source.ctypes.data, sink.ctypes.data, half, times)
    return 2.0 * half * times / _quickest(lambda run: run[1](*arguments))


_MEASURES: dict[str, Callable[[], float]] = {
    "flops": _flops,
    "memory": lambda: _copied(MEMORY_BYTES),
    "cache": lambda: _copied(CACHE_BYTES),
}


def copier() -> Any:
    """`(from, to, bytes, times)`: addresses, in vectors; a multiple of eight of these."""
    return _code()[2]


def _quickest(call: Callable[[Any], Any]) -> float:
    """Seconds of the quickest of all tries."""
    code = _code()
    best, end = float("inf"), time.perf_counter() + TRYING_S
    while (start := time.perf_counter()) < end or best == float("inf"):
        call(code[1:])
        best = min(best, time.perf_counter() - start)
    return best


@lru_cache(maxsize=1)
def _code() -> tuple[Any, Any, Any]:
    module = ir.Module("roofs")
    _multiply_add(module)
    _copy(module)
    library = load_object(compile_ir(str(module), passes=False), ["tp_flops", "tp_copy"])
    flops = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address("tp_flops"))
    sizes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    copy = ctypes.CFUNCTYPE(None, *sizes)(library.address("tp_copy"))
    return library, flops, copy


def _multiply_add(module: ir.Module) -> None:
    """`tp_flops(seeds, rounds)`: x = x * y + y in each chain; what comes out is stored, so that all of it is done."""
    vector = ir.VectorType(ir.FloatType(), host().vector_bytes // 4)
    fused = ir.Function(module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{vector.count}f32")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_PTR, _I64]), "tp_flops")
    entry, loop, done = (function.append_basic_block(name) for name in ("entry", "loop", "done"))
    b = ir.IRBuilder(entry)
    places = [b.gep(function.args[0], [ir.Constant(_I64, n)], source_etype=vector) for n in range(CHAINS)]
    first = [b.load(place, typ=vector, align=4) for place in places]
    b.branch(loop)
    b = ir.IRBuilder(loop)
    count, chains = b.phi(_I64), [b.phi(vector) for _ in range(CHAINS)]
    after = [b.call(fused, [chain, first[0], first[0]]) for chain in chains]
    more = b.add(count, ir.Constant(_I64, 1))
    for phi, begin, then in zip((count, *chains), (ir.Constant(_I64, 0), *first), (more, *after)):
        phi.add_incoming(begin, entry)
        phi.add_incoming(then, loop)
    b.cbranch(b.icmp_unsigned("<", more, function.args[1]), loop, done)
    b = ir.IRBuilder(done)
    for chain, place in zip(after, places):
        b.store(chain, place, align=4)
    b.ret_void()


def _copy(module: ir.Module) -> None:
    """`tp_copy(from, to, bytes, times)`, eight vectors at a time."""
    vector = ir.VectorType(ir.IntType(8), host().vector_bytes)
    step = 8 * host().vector_bytes
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_PTR, _PTR, _I64, _I64]), "tp_copy")
    source, sink, size, times = function.args
    entry, again, loop, next_, done = (
        function.append_basic_block(name) for name in ("entry", "again", "loop", "next", "done")
    )
    ir.IRBuilder(entry).branch(again)
    b = ir.IRBuilder(again)
    turn = b.phi(_I64)
    turn.add_incoming(ir.Constant(_I64, 0), entry)
    b.branch(loop)
    b = ir.IRBuilder(loop)
    at = b.phi(_I64)
    at.add_incoming(ir.Constant(_I64, 0), again)
    for n in range(8):
        place = b.add(at, ir.Constant(_I64, n * host().vector_bytes))
        moved = b.load(b.gep(source, [place], source_etype=ir.IntType(8)), typ=vector, align=1)
        b.store(moved, b.gep(sink, [place], source_etype=ir.IntType(8)), align=1)
    further = b.add(at, ir.Constant(_I64, step))
    at.add_incoming(further, loop)
    b.cbranch(b.icmp_unsigned("<", further, size), loop, next_)
    b = ir.IRBuilder(next_)
    turned = b.add(turn, ir.Constant(_I64, 1))
    turn.add_incoming(turned, next_)
    b.cbranch(b.icmp_unsigned("<", turned, times), again, done)
    ir.IRBuilder(done).ret_void()
