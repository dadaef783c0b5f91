"""The time-stamp counter as Python sees it: its value, its rate, and what a bare record costs.

In comes nothing; out go ticks, hertz, and the floor of a record's cost: one counter read and one store in a
loop. All three use the same instructions that a probed kernel runs.
"""

from __future__ import annotations

import ctypes
import time
from functools import lru_cache

BASELINE_S = 0.05  # a shorter one would leave the rate uncertain by more than a part in ten thousand
_FLOOR_RECORDS = 4096


@lru_cache(maxsize=1)
def _code():
    from llvmlite import ir

    from tileprobe.targets.cpu.codegen import clock
    from tileprobe.targets.cpu.codegen.types import I64, PTR
    from tileprobe.targets.cpu.loader import compile_ir
    from tileprobe.targets.linker import load_object

    module = ir.Module("clock_source")
    now = ir.Function(module, ir.FunctionType(I64, []), "tp_ticks")
    b = ir.IRBuilder(now.append_basic_block("entry"))
    b.ret(clock.read(b))
    floor = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, I64]), "tp_floor")
    entry, loop, done = (floor.append_basic_block(n) for n in ("entry", "loop", "done"))
    ir.IRBuilder(entry).branch(loop)
    b = ir.IRBuilder(loop)
    index = b.phi(I64)
    clock.barrier(b)
    b.store(clock.read(b), b.gep(floor.args[0], [index], source_etype=I64), align=8)
    clock.barrier(b)
    after = b.add(index, ir.Constant(I64, 1))
    index.add_incoming(ir.Constant(I64, 0), entry)
    index.add_incoming(after, loop)
    b.cbranch(b.icmp_unsigned("<", after, floor.args[1]), loop, done)
    ir.IRBuilder(done).ret_void()
    library = load_object(compile_ir(str(module)), ["tp_ticks", "tp_floor"])
    ticks = ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("tp_ticks"))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address("tp_floor"))
    return library, ticks, run


def ticks() -> int:
    """The counter now."""
    return _code()[1]()


def _pair() -> tuple[int, int]:
    """Counter and nanoseconds at one moment, as close together as a few tries get."""
    best: tuple[int, int, int] | None = None
    for _ in range(5):
        before = time.perf_counter_ns()
        now = ticks()
        after = time.perf_counter_ns()
        if best is None or after - before < best[0]:
            best = (after - before, now, (before + after) // 2)
    assert best is not None
    return best[1], best[2]


@lru_cache(maxsize=1)
def _origin() -> tuple[int, int]:
    return _pair()


def start() -> None:
    """Notes where the rate is measured from. The first call counts."""
    _origin()


def rate_hz() -> float:
    """Ticks a second, over all the time since `start`."""
    first_tick, first_ns = _origin()
    wait = BASELINE_S - (time.perf_counter_ns() - first_ns) * 1e-9
    if wait > 0:
        time.sleep(wait)
    tick, ns = _pair()
    return (tick - first_tick) * 1e9 / (ns - first_ns)


@lru_cache(maxsize=1)
def floor_ticks() -> float:
    """What one record costs by itself: the best of a few loops of counter reads and stores."""
    run = _code()[2]
    buffer = (ctypes.c_int64 * _FLOOR_RECORDS)()
    best = float("inf")
    for _ in range(8):
        run(ctypes.addressof(buffer), _FLOOR_RECORDS)
        best = min(best, (buffer[-1] - buffer[1]) / (_FLOOR_RECORDS - 2))
    return best


@lru_cache(maxsize=1)
def floor_ns() -> float:
    """The same in nanoseconds, by the system's clock: the counter's rate is not known in the first moments."""
    run = _code()[2]
    buffer = (ctypes.c_int64 * _FLOOR_RECORDS)()
    best = float("inf")
    for _ in range(8):
        began = time.perf_counter_ns()
        run(ctypes.addressof(buffer), _FLOOR_RECORDS)
        best = min(best, (time.perf_counter_ns() - began) / _FLOOR_RECORDS)
    return best


class CpuClock:
    """The protocol's view of the counter."""

    name = "tsc"
    bits = 64
    timer = None  # the counters of all cores are one

    def start(self) -> None:
        start()

    def hz(self) -> float:
        return rate_hz()

    def floor_ticks(self) -> float:
        return floor_ticks()

    def floor_ns(self) -> float:
        return floor_ns()
