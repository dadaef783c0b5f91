"""The thread pool's machine code, as LLVM IR: claiming, running and waiting, with no Python in the loop.

Comes in: the architecture (for its pause instruction and its futex number). Goes out: a module with `tp_run`,
`tp_resume`, `tp_cancel`, `tp_stop` (called from Python) and `tp_worker` (a thread's main function).

How a job is handed out. `ticket` holds `generation << 32 | granules left`. A thread claims by
compare-and-swap, so a late thread can never claim from the next job with the sizes of the last one, and a
ticket with nothing left needs no other field to be understood. Only after a claim succeeded are the job's
fields read; they cannot change until the claimed granules are counted in `done`. A granule is one program, or
more if 32 bits cannot count them. A claim takes a share of what is left, so that few claims are made and the
last ones are small, and no more than a few milliseconds of work, so that a job can be given up soon.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tileprobe.targets.cpu.pool_clocks import TIMESPEC, Clocks
from tileprobe.targets.cpu.pool_emit import (
    I1,
    I32,
    I64,
    PTR,
    VOID,
    Value,
    at,
    blocks,
    fields,
    i32,
    i64,
    load,
    parts,
    store,
)
from tileprobe.targets.cpu.pool_layout import OFFSETS, SLOT

STATUS_ERROR = 1  # a kernel recorded an error
STATUS_MEMORY = 2  # scratch could not be allocated
STATUS_MORE = 4  # not finished: let Python look at its signals, then resume

# A claim is 1 / (SHARE * threads) of what is left.
_SHARE = 4
# How long idle threads spin before they sleep: longer than Python needs from one launch to the next.
_SPINS = 3000
# How long the launching thread stays away from Python (and so from Ctrl-C).
_SLICE_NS = 50_000_000
# A thread's next claim may be twice as large while its claims take less than this.
_CLAIM_NS = 2_000_000
# What the system took is asked for, which costs a microsecond, after a claim that took so long: a thread that has to
# leave its core is away for longer.
_LONG_NS = 300_000

FUTEX_WAIT, FUTEX_WAKE = 128, 129  # the private variants: one process
EXPORTS = ("tp_run", "tp_resume", "tp_cancel", "tp_stop", "tp_worker")

_KERNEL = ir.PointerType(ir.FunctionType(I32, [PTR, PTR, I64, I64]))  # launch block, scratch, first, last
_NULL = ir.Constant(PTR, None)
_GENERATION = 1 << 32  # of a ticket
_ALL_SLEEPERS = (1 << 31) - 1


@dataclass(frozen=True)
class _Arch:
    """What differs between processors: the number of the futex call, and how a spinning thread yields."""

    futex: int
    pause: str
    pause_args: tuple[int, ...] = ()


_ARCHS = {
    "x86_64": _Arch(202, "llvm.x86.sse2.pause"),
    "aarch64": _Arch(98, "llvm.aarch64.hint", (1,)),
}


def module_text(arch: str) -> str:
    """The pool's module for an architecture (`x86_64` or `aarch64`)."""
    return str(_Pool(_ARCHS[arch]).module)


class _Pool(Clocks):
    """Builds the module, callees first."""

    def __init__(self, arch: _Arch) -> None:
        self.arch, self.module = arch, ir.Module("tileprobe.pool")
        self.pause_function = self._declare(arch.pause, VOID, [I32] * len(arch.pause_args))
        self.syscall = self._declare("syscall", I64, [I64], var_arg=True)
        self.memalign = self._declare("posix_memalign", I32, [PTR, I64, I64])
        self.free = self._declare("free", VOID, [PTR])
        self.clock = self._declare("clock_gettime", I32, [I32, PTR])
        self.now = self._private("now", I64, [I32])
        self.away = self._private("away", I64, [PTR])
        self.account = self._private("account", I64, [PTR, I64])
        self.stamp = self._private("stamp", VOID, [PTR, I64])
        self.scratch = self._private("scratch", PTR, [PTR, I64])
        self.finish = self._private("finish", VOID, [PTR, I32])
        self.abandon = self._private("abandon", VOID, [PTR])
        self.work = self._private("work", I1, [PTR, PTR, I64])
        self.worker = self._declare("tp_worker", PTR, [PTR])
        self.resume = self._declare("tp_resume", I32, [PTR])
        self.run = self._declare("tp_run", I32, [PTR, _KERNEL, PTR, I64, I64])
        self.cancel = self._declare("tp_cancel", VOID, [PTR])
        self.stop = self._declare("tp_stop", VOID, [PTR])
        for fill in (
            self._now,
            self._away,
            self._account,
            self._stamp,
            self._scratch,
            self._finish,
            self._abandon,
            self._work,
        ):
            fill()
        for fill in (self._worker, self._resume, self._run, self._cancel, self._stop):
            fill()

    def _futex(self, b: ir.IRBuilder, word: Value, what: int, value: Value, timeout: Value = _NULL) -> None:
        b.call(self.syscall, [i64(self.arch.futex), word, i64(what), value, timeout])

    def _pause(self, b: ir.IRBuilder) -> None:
        b.call(self.pause_function, [i32(n) for n in self.arch.pause_args])

    def _scratch(self) -> None:
        """`ptr scratch(slot, bytes)`: scratch of at least that size for the thread that owns the slot, or null."""
        slot, size = self.scratch.args
        entry, keep, grow, none, ok = blocks(self.scratch, "entry keep grow none ok")
        b = ir.IRBuilder(entry)
        place, have = at(b, slot, SLOT["scratch"]), at(b, slot, SLOT["scratch_bytes"])
        memory = b.load(place, typ=PTR)
        b.cbranch(b.icmp_unsigned(">=", b.load(have, typ=I64), size), keep, grow)
        b.position_at_end(keep)
        b.ret(memory)
        b.position_at_end(grow)
        b.call(self.free, [memory])
        b.store(_NULL, place)
        b.store(i64(0), have)
        rounded = b.and_(b.add(size, i64(4095)), i64(-4096))
        failed = b.call(self.memalign, [place, i64(4096), rounded])
        b.cbranch(b.icmp_unsigned("!=", failed, i32(0)), none, ok)
        b.position_at_end(none)
        b.store(_NULL, place)
        b.ret(_NULL)
        b.position_at_end(ok)
        b.store(rounded, have)
        b.ret(b.load(place, typ=PTR))

    def _finish(self) -> None:
        """`finish(pool, granules)`: counts them as finished; the last one wakes a launching thread that sleeps."""
        pool, granules = self.finish.args
        entry, last, wake, out = blocks(self.finish, "entry last wake out")
        b = ir.IRBuilder(entry)
        done, count, waiting = fields(b, pool, "done", "count", "waiting")
        all_of_them = b.load(count, typ=I32)
        self._note(b, pool, "ended")  # before it counts: who waits for the last one reads what that one wrote
        before = b.atomic_rmw("add", done, granules, "seq_cst")
        b.cbranch(b.icmp_unsigned("==", b.add(before, granules), all_of_them), last, out)
        b.position_at_end(last)
        b.cbranch(b.icmp_unsigned("!=", load(b, waiting, "seq_cst"), i32(0)), wake, out)
        b.position_at_end(wake)
        self._futex(b, done, FUTEX_WAKE, i64(1))
        b.branch(out)
        b.position_at_end(out)
        b.ret_void()

    def _abandon(self) -> None:
        """`abandon(pool)`: gives up what nobody has claimed of the current job."""
        (pool,) = self.abandon.args
        entry, retry, attempt, drop, out = blocks(self.abandon, "entry retry try drop out")
        ir.IRBuilder(entry).branch(retry)
        b = ir.IRBuilder(retry)
        ticket = load(b, pool, "acquire", I64)
        left = b.trunc(ticket, I32)
        b.cbranch(b.icmp_unsigned("==", left, i32(0)), out, attempt)
        b.position_at_end(attempt)
        nothing_left = b.and_(ticket, i64(-_GENERATION))
        swapped = b.cmpxchg(pool, ticket, nothing_left, "seq_cst", "seq_cst")
        b.cbranch(b.extract_value(swapped, 1), drop, retry)
        b.position_at_end(drop)
        b.call(self.finish, [pool, left])
        b.branch(out)
        b.position_at_end(out)
        b.ret_void()

    def _work(self) -> None:
        """`i1 work(pool, slot, deadline)`: claims and runs until nothing is left; true when the deadline has passed
        before that.
        """
        pool, slot, deadline = self.work.args
        names = "entry next idle claim mine first go oom call error stop good long counted paced away"
        (
            entry,
            next_,
            idle,
            claim,
            mine,
            first,
            go,
            oom,
            call,
            error,
            stop,
            good,
            long,
            counted,
            paced,
            away,
        ) = blocks(self.work, names)
        b = ir.IRBuilder(entry)
        job = fields(b, pool, "kernel", "launch", "programs", "granule", "scratch", "count")
        status, threads, spent, began = fields(b, pool, "status", "threads", "spent", "began")
        shares = b.mul(b.load(threads, typ=I32), i32(_SHARE))
        off_core = b.call(self.away, [pool])
        begin = self._time(b)
        b.branch(next_)

        b.position_at_end(next_)
        limit, then, before = b.phi(I32), b.phi(I64), b.phi(I64)
        ticket = load(b, pool, "acquire", I64)
        left = b.trunc(ticket, I32)
        b.cbranch(b.icmp_unsigned("==", left, i32(0)), idle, claim)
        ir.IRBuilder(idle).ret(ir.Constant(I1, 0))

        b.position_at_end(claim)
        part = b.udiv(left, shares)
        fair = b.select(b.icmp_unsigned("==", part, i32(0)), i32(1), part)
        take = b.select(b.icmp_unsigned(">", fair, limit), limit, fair)
        take64 = b.zext(take, I64)
        swapped = b.cmpxchg(pool, ticket, b.sub(ticket, take64), "seq_cst", "seq_cst")
        b.cbranch(b.extract_value(swapped, 1), mine, next_)

        # A job begins with its first program, not when it was handed in: a thread may have to wake or to get a core.
        b.position_at_end(mine)
        b.cbranch(b.icmp_unsigned("==", left, b.load(job[-1], typ=I32)), first, go)
        b.position_at_end(first)
        b.store(then, began)
        b.branch(go)
        b.position_at_end(go)
        self._run_claim(b, job, (left, take64), slot, (oom, call, error, good))
        for block, bit in ((oom, STATUS_MEMORY), (error, STATUS_ERROR)):
            failed = ir.IRBuilder(block)
            failed.atomic_rmw("or", status, i32(bit), "seq_cst")
            failed.branch(stop)
        b.position_at_end(stop)
        b.call(self.abandon, [pool])
        b.branch(good)

        b.position_at_end(good)
        now = self._time(b)
        b.cbranch(b.icmp_unsigned(">", b.sub(now, then), i64(_LONG_NS)), long, counted)
        b.position_at_end(long)
        accounted = b.call(self.account, [pool, before])
        later = self._time(b)
        b.branch(counted)
        b.position_at_end(counted)
        so_far, since = b.phi(I64), b.phi(I64)
        for phi, short, looked_at in ((so_far, before, accounted), (since, now, later)):
            phi.add_incoming(short, good)
            phi.add_incoming(looked_at, long)
        b.atomic_rmw("add", spent, b.sub(since, then), "seq_cst")
        b.call(self.finish, [pool, take])
        quick = b.icmp_unsigned("<", b.sub(now, then), i64(_CLAIM_NS))
        twice, half = b.shl(take, i32(1)), b.or_(b.lshr(take, i32(1)), i32(1))
        paced_limit = b.select(quick, twice, half)
        b.cbranch(b.icmp_unsigned(">", now, deadline), away, paced)
        ir.IRBuilder(paced).branch(next_)
        ir.IRBuilder(away).ret(ir.Constant(I1, 1))
        for phi, first, later in (
            (limit, i32(1), paced_limit),
            (then, begin, since),
            (before, off_core, so_far),
        ):
            phi.add_incoming(first, entry)
            phi.add_incoming(phi, claim)
            phi.add_incoming(later, paced)

    def _run_claim(self, b: ir.IRBuilder, job: list, claim: tuple, slot: Value, to: tuple) -> None:
        """Runs the programs of the granules that were claimed; only now may the job's fields be read."""
        left, take = claim
        oom, call, error, good = to
        kinds = (_KERNEL, PTR, I64, I64, I64, I32)
        kernel, launch, programs, granule, size, count = (b.load(f, typ=k) for f, k in zip(job, kinds))
        first = b.mul(b.zext(b.sub(count, left), I64), granule)
        end = b.add(first, b.mul(take, granule))
        last = b.select(b.icmp_unsigned(">", end, programs), programs, end)
        memory = self._scratch_or(b, slot, size, oom, call)
        b.position_at_end(call)
        failed = b.call(kernel, [launch, memory, first, last])
        b.cbranch(b.icmp_unsigned("!=", failed, i32(0)), error, good)

    def _scratch_or(self, b: ir.IRBuilder, slot: Value, size: Value, oom: ir.Block, there: ir.Block) -> Value:
        """The slot's scratch, with a branch to `oom` when it is needed and not there."""
        memory = b.call(self.scratch, [slot, size])
        none = b.icmp_unsigned("==", memory, _NULL)
        needed = b.icmp_unsigned("!=", size, i64(0))
        b.cbranch(b.and_(none, needed), oom, there)
        return memory

    def _spin(self, b: ir.IRBuilder, start: ir.Block, blocks: tuple, sleep: ir.Block) -> Value:
        """Counts turns of a spinning loop of two blocks: after too many it sleeps. Returns the counter, which the
        first block begins with.
        """
        spin, again = blocks
        b.position_at_end(spin)
        turns = b.phi(I32)
        after = ir.IRBuilder(again)
        self._pause(after)
        more = after.add(turns, i32(1))
        after.cbranch(after.icmp_unsigned(">", more, i32(_SPINS)), sleep, spin)
        turns.add_incoming(i32(0), start)
        turns.add_incoming(more, again)
        return turns

    def _worker(self) -> None:
        """`ptr tp_worker(slot)`: look for work, spin, sleep. The epoch is read before looking, so no job is slept
        through.
        """
        (slot,) = self.worker.args
        entry, look, job, spin, again, sleep, leave = blocks(
            self.worker, "entry look job spin again sleep leave"
        )
        b = ir.IRBuilder(entry)
        pool = b.load(slot, typ=PTR)
        epoch, sleepers, stop = fields(b, pool, "epoch", "sleepers", "stop")
        b.branch(look)
        b.position_at_end(look)
        seen = load(b, epoch, "seq_cst")
        b.cbranch(b.icmp_unsigned("!=", load(b, stop, "seq_cst"), i32(0)), leave, job)
        b.position_at_end(job)
        b.call(self.work, [pool, slot, i64(-1)])
        b.branch(spin)
        self._spin(b, job, (spin, again), sleep)
        b.cbranch(b.icmp_unsigned("!=", load(b, epoch, "acquire"), seen), look, again)
        b.position_at_end(sleep)
        b.atomic_rmw("add", sleepers, i32(1), "seq_cst")
        self._futex(b, epoch, FUTEX_WAIT, b.zext(seen, I64))
        b.atomic_rmw("sub", sleepers, i32(1), "seq_cst")
        b.branch(look)
        b.position_at_end(leave)
        place = at(b, slot, SLOT["scratch"])
        b.call(self.free, [b.load(place, typ=PTR)])
        b.store(_NULL, place)
        b.ret(_NULL)

    def _resume(self) -> None:
        """`i32 tp_resume(pool)`: takes part in the current job and waits for its end, or for the end of this slice
        of time.
        """
        (pool,) = self.resume.args
        names = "entry spin again sleep futex woke more unfinished finished"
        entry, spin, again, sleep, futex, woke, more, unfinished, finished = blocks(self.resume, names)
        b = ir.IRBuilder(entry)
        done, waiting, count, status, slot = fields(b, pool, "done", "waiting", "count", "status", "slots")
        timeout = b.alloca(TIMESPEC)
        granules = b.load(count, typ=I32)
        deadline = b.add(self._time(b), i64(_SLICE_NS))
        b.cbranch(b.call(self.work, [pool, slot, deadline]), more, spin)

        def unless_done(ordering: str, otherwise: ir.Block, when: ir.Block = finished) -> Value:
            so_far = load(b, done, ordering)
            b.cbranch(b.icmp_unsigned("==", so_far, granules), when, otherwise)
            return so_far

        self._spin(b, entry, (spin, again), sleep)
        unless_done("acquire", again)
        b.position_at_end(sleep)
        seconds, nanoseconds = parts(b, timeout)
        b.store(i64(0), seconds)
        b.store(i64(_SLICE_NS), nanoseconds)
        store(b, i32(1), waiting)
        seen = unless_done("seq_cst", futex, when=woke)
        b.position_at_end(futex)
        self._futex(b, done, FUTEX_WAIT, b.zext(seen, I64), timeout)
        b.branch(woke)
        b.position_at_end(woke)
        store(b, i32(0), waiting)
        unless_done("seq_cst", more)
        b.position_at_end(more)
        unless_done("seq_cst", unfinished)
        ir.IRBuilder(unfinished).ret(i32(STATUS_MORE))
        b.position_at_end(finished)
        b.ret(load(b, status, "seq_cst"))

    def _run(self) -> None:
        """`i32 tp_run(pool, kernel, launch, programs, bytes)`: starts a job of programs > 0. One program needs no
        other thread to know.
        """
        pool, kernel, launch, programs, size = self.run.args
        entry, alone, oom, call, share, wake, go = blocks(self.run, "entry alone oom call share wake go")
        b = ir.IRBuilder(entry)
        job = fields(b, pool, "kernel", "launch", "programs", "granule", "scratch", "count", "status")
        done, epoch, sleepers, slot = fields(b, pool, "done", "epoch", "sleepers", "slots")
        b.cbranch(b.icmp_unsigned("==", programs, i64(1)), alone, share)

        b.position_at_end(alone)
        memory = self._scratch_or(b, slot, size, oom, call)
        ir.IRBuilder(oom).ret(i32(STATUS_MEMORY))
        b.position_at_end(call)
        (spent,) = fields(b, pool, "spent")
        away = b.call(self.away, [pool])
        self._note(b, pool, "began")
        begin = self._time(b)
        failed = b.call(kernel, [launch, memory, i64(0), i64(1)])
        b.call(self.account, [pool, away])
        b.store(b.sub(self._time(b), begin), spent)
        self._note(b, pool, "ended")
        b.ret(b.select(b.icmp_unsigned("!=", failed, i32(0)), i32(STATUS_ERROR), i32(0)))

        b.position_at_end(share)
        high = b.lshr(programs, i64(31))
        granule = b.add(high, i64(1))
        count64 = b.udiv(b.add(programs, high), granule)
        count = b.trunc(count64, I32)
        for value, place in zip((kernel, launch, programs, granule, size, count, i32(0)), job):
            b.store(value, place)
        store(b, i32(0), done)
        generation = b.and_(load(b, pool, "seq_cst", I64), i64(-_GENERATION))
        store(b, b.or_(b.add(generation, i64(_GENERATION)), count64), pool)
        b.atomic_rmw("add", epoch, i32(1), "seq_cst")
        asleep = load(b, sleepers, "seq_cst")
        b.cbranch(b.icmp_unsigned("!=", asleep, i32(0)), wake, go)
        b.position_at_end(wake)
        others = b.sub(count, i32(1))
        needed = b.select(b.icmp_unsigned("<", others, asleep), others, asleep)
        self._futex(b, epoch, FUTEX_WAKE, b.zext(needed, I64))
        b.branch(go)
        b.position_at_end(go)
        b.ret(b.call(self.resume, [pool]))

    def _cancel(self) -> None:
        """`tp_cancel(pool)`: gives up a job after an exception in Python. The caller resumes until it is over."""
        b = ir.IRBuilder(self.cancel.append_basic_block("entry"))
        b.call(self.abandon, [self.cancel.args[0]])
        b.ret_void()

    def _stop(self) -> None:
        """`tp_stop(pool)`: lets the workers end, and frees the launching thread's scratch."""
        (pool,) = self.stop.args
        b = ir.IRBuilder(self.stop.append_basic_block("entry"))
        place = at(b, pool, OFFSETS["slots"] + SLOT["scratch"])
        have = at(b, pool, OFFSETS["slots"] + SLOT["scratch_bytes"])
        b.call(self.free, [b.load(place, typ=PTR)])
        b.store(_NULL, place)
        b.store(i64(0), have)
        stop, epoch = fields(b, pool, "stop", "epoch")
        store(b, i32(1), stop)
        b.atomic_rmw("add", epoch, i32(1), "seq_cst")
        self._futex(b, epoch, FUTEX_WAKE, i64(_ALL_SLEEPERS))
        b.ret_void()
