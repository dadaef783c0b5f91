"""Clocks of the thread pool, as LLVM IR: how long a job took, and what the operating system took from its threads.

`Clocks` is the part of the pool's module that others build on: `now`, `away`, `account` and `stamp`. A job that nobody
watches asks for none of them but the first.
"""

from __future__ import annotations

from llvmlite import ir

from tileprobe.targets.cpu.pool_emit import I8, I32, I64, Value, blocks, fields, i32, i64, parts
from tileprobe.targets.cpu.pool_layout import OFFSETS

CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME = 1, 3
TIMESPEC = ir.LiteralStructType([I64, I64])


class Clocks:
    """Functions that the pool declares and these methods fill."""

    module: ir.Module
    clock: ir.Function  # clock_gettime
    now: ir.Function
    away: ir.Function
    account: ir.Function
    stamp: ir.Function

    def _declare(self, name: str, result: ir.Type, args: list, var_arg: bool = False) -> ir.Function:
        return ir.Function(self.module, ir.FunctionType(result, args, var_arg=var_arg), name)

    def _private(self, name: str, result: ir.Type, args: list) -> ir.Function:
        function = self._declare(name, result, args)
        function.linkage = "private"
        return function

    def _now(self) -> None:
        """`i64 now(clock)`: nanoseconds of a clock that only goes forward."""
        b = ir.IRBuilder(self.now.append_basic_block("entry"))
        time = b.alloca(TIMESPEC)
        b.call(self.clock, [self.now.args[0], time])
        seconds, nanoseconds = (b.load(part) for part in parts(b, time))
        b.ret(b.add(b.mul(seconds, i64(1_000_000_000)), nanoseconds))

    def _note(self, b: ir.IRBuilder, pool: Value, field: str) -> None:
        b.call(self.stamp, [pool, i64(OFFSETS[field])])

    def _time(self, b: ir.IRBuilder) -> Value:
        return b.call(self.now, [i32(CLOCK_MONOTONIC)])

    def _away(self) -> None:
        """`i64 away(pool)`: for how long this thread has not been on a core so far; 0 in a job that is
        not watched. A thread that runs programs never sleeps of its own accord, so that the difference of two calls
        is what the system took from them. The call that asks for the CPU time is where a busy system puts a thread
        aside: other clocks that go with it are read behind it.
        """
        entry, read, nothing = blocks(self.away, "entry read nothing")
        b = ir.IRBuilder(entry)
        (watched,) = fields(b, self.away.args[0], "watched")
        b.cbranch(b.icmp_unsigned("!=", b.load(watched, typ=I32), i32(0)), read, nothing)
        b.position_at_end(read)
        ran = b.call(self.now, [i32(CLOCK_THREAD_CPUTIME)])
        b.ret(b.sub(self._time(b), ran))
        ir.IRBuilder(nothing).ret(i64(0))

    def _account(self) -> None:
        """`i64 account(pool, before)`: adds what the system took since `away` said `before`, and returns what it says
        now. Called before programs are counted as finished: who waits for them reads the sum then.
        """
        pool, before = self.account.args
        b = ir.IRBuilder(self.account.append_basic_block("entry"))
        (taken,) = fields(b, pool, "taken")
        after = b.call(self.away, [pool])
        b.atomic_rmw("add", taken, b.sub(after, before), "seq_cst")
        b.ret(after)

    def _stamp(self) -> None:
        """`stamp(pool, offset)`: notes the time there if the job is watched. Not left to Python: between the last
        program and the next line of Python lie the wait for the interpreter's lock and a thread that wakes late.
        """
        pool, offset = self.stamp.args
        entry, note, out = blocks(self.stamp, "entry note out")
        b = ir.IRBuilder(entry)
        (watched,) = fields(b, pool, "watched")
        b.cbranch(b.icmp_unsigned("!=", b.load(watched, typ=I32), i32(0)), note, out)
        b.position_at_end(note)
        b.store(self._time(b), b.gep(pool, [offset], source_etype=I8))
        b.branch(out)
        ir.IRBuilder(out).ret_void()
