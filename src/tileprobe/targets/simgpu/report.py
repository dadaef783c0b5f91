"""What went wrong in a program, in sentences: in come the blocks that the engine left, out go errors to raise."""

from __future__ import annotations

import numpy as np

from tileprobe.targets.simgpu.blocks import Worker
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.copies import COPY, RING
from tileprobe.targets.simgpu.errors import KernelFault

_PAGE = 4096  # what lies below is never memory


def _where(worker: Worker, pc: int) -> str:
    program = worker.image.program
    text = program.texts[pc] if 0 <= pc < len(program.texts) else "?"
    return f"{program.place(pc)} (`{text}`)"


def _who(worker: Worker, warp: int | None = None, lane: int | None = None) -> str:
    x, y, z = (worker.get(place) for place in (at.CTA_X, at.CTA_Y, at.CTA_Z))
    who = f"program ({x}, {y}, {z})"
    if warp is not None:
        who += f", warp {warp}"
    if lane is not None:
        who += f", lane {lane}"
    return who


def fault(worker: Worker) -> KernelFault:
    name = worker.image.program.name
    code, pc, warp, lane, address, more = (
        worker.get(place)
        for place in (
            at.CTA_ERROR, at.CTA_ERROR_PC, at.CTA_ERROR_WARP, at.CTA_ERROR_LANE, at.CTA_ERROR_ADDRESS,
            at.CTA_ERROR_MORE,
        )
    )  # fmt: skip
    where = f"kernel {name}, {_where(worker, pc)}, {_who(worker, warp, lane)}"
    said = {
        at.OUT_OF_BOUNDS: f"{more} bytes at {address:#x}, which {_near(worker, address, more)}",
        at.MISALIGNED: f"{more} bytes at {address:#x}, which is no multiple of {more}",
        at.SHARED_BOUNDS: f"shared memory at {address:#x}; the program has {more} bytes",
        at.LOCAL_BOUNDS: f"local memory at {address:#x}; a thread has {more} bytes",
        at.CONSTANT_BOUNDS: f"a constant at {address:#x}; the bank has {more} bytes",
        at.BAD_PC: f"there is no instruction {pc} to go on with",
        at.BAD_BARRIER: "there is no such barrier",
        at.TRAP: "the kernel stopped itself (a trap)",
        at.NOT_CONVERGED: "lanes of the warp wait for lanes that never come",
        at.UNINITIALISED: f"reads {more} bytes of shared memory at {address:#x} that nobody has written",
        at.TOO_EARLY: f"shared memory at {address:#x} is read before the asynchronous copy into it has arrived",
        at.BAD_MBARRIER: f"there is no barrier in shared memory at {address:#x}",
        at.BAD_DESCRIPTOR: f"the tensor descriptor at {address:#x} makes no sense",
    }.get(code, f"fault {code}")
    if code == at.TOO_EARLY:
        said += _copies(worker, address)
    return KernelFault(f"{where}: {said}")


def _copies(worker: Worker, offset: int) -> str:
    """Where the copies that are under way to a byte of shared memory were issued."""
    found: set[int] = set()
    shared = worker.current.shared.ctypes.data
    for n in range(worker.image.warps if worker.image.program.copies else 0):
        words = worker.warp(n).view(np.int32)
        done, made = (int(words[place // 4]) for place in (at.W_COPIES_DONE, at.W_COPIES_MADE))
        for k in range(done, made):
            entry = worker.current.copies[(n * RING + k % RING) * COPY :][:COPY]
            size, mask = int(entry[8:12].view(np.int32)[0]), int(entry[0:4].view(np.uint32)[0])
            targets = entry[272:528].view(np.int64) - shared
            if any(mask >> lane & 1 and 0 <= offset - target < size for lane, target in enumerate(targets)):
                found.add(int(entry[528:532].view(np.int32)[0]))
    for n in range(worker.get(at.CTA_ASYNC_COUNT)):
        found.add(int(worker.current.bulk[at.ASYNC * n + at.ASYNC_PC :][:4].view(np.int32)[0]))
    return "".join(f"; issued at {_where(worker, pc)}" for pc in sorted(found))


def _near(worker: Worker, address: int, size: int) -> str:
    """How so many bytes lie to the nearest memory that the kernel was given."""
    ranges = worker.image.ranges
    if 0 <= address < _PAGE:
        return "is no memory: an argument was None, or its address 0"
    for start, stop in ranges.tolist():
        if start <= address < stop:
            return f"end {address + size - stop} bytes behind the end of a tensor of {stop - start} bytes"
    below = [(address - stop, start, stop) for start, stop in ranges.tolist() if address >= stop > start]
    above = [(start - address, start, stop) for start, stop in ranges.tolist() if address < start < stop]
    if not below and not above:
        return "belongs to no tensor that the kernel was given"
    distance, start, stop = min(below + above)
    side = "behind the end" if address >= stop else "before the start"
    called = {
        (one.name, one.element(address))
        for one in worker.image.names
        if (one.start, one.stop) == (start, stop)
    }
    if len(called) == 1:
        name, place = called.pop()
        return f"would be {place}: {distance} bytes {side} of {name}, a tensor of {stop - start} bytes"
    if worker.image.searches:  # it got addresses as numbers, or from a tensor
        return (
            "is in no tensor that the kernel was given, nor in a living one: memory is known by torch tensors and by "
            "`tileprobe.array`, which have to live as long; the address of a NumPy array alone says nothing"
        )
    return f"is {distance} bytes {side} of a tensor of {stop - start} bytes"


def _missing(worker: Worker, number: int) -> str:
    """The warps that have not come to a barrier."""
    away = []
    for n in range(worker.image.warps):
        words = worker.warp(n).view(np.int32)
        waits = words[at.W_STATUS // 4] == at.AT_BARRIER and words[at.W_WAIT_AT // 4] == number
        if words[at.W_STATUS // 4] != at.EXITED and not waits:
            away.append(str(n))
    return f" (for warp{'s' * (len(away) > 1)} {', '.join(away)})" if away else ""


def _state(worker: Worker, place: int) -> str:
    """What a barrier in shared memory still waits for, as `engine/mbarriers.py` keeps it."""
    offset = (place & 0xFFFFFF) - worker.get(at.CTA_SHARED_BASE)
    shared = worker.current.shared
    if not 0 <= offset <= len(shared) - 8:
        return ""
    word = int(shared[offset : offset + 8].view(np.int64)[0])
    missing, size = word & ((1 << 20) - 1), ((word >> 40) & ((1 << 21) - 1)) - (1 << 20)
    return f" ({missing} arrival{'s' * (missing != 1)} and {size} bytes are missing)"


def _waits(worker: Worker) -> list[str]:
    """What each warp that has not exited is doing."""
    found = []
    for n in range(worker.image.warps):
        words = worker.warp(n).view(np.int32)
        status, pc = words[at.W_STATUS // 4], int(words[at.W_PC // 4])
        if status == at.EXITED:
            continue
        before = _where(worker, max(pc - 1, 0))
        if status == at.AT_BARRIER:
            number = int(words[at.W_WAIT_AT // 4])
            place = (at.CTA_BARRIERS + at.BARRIER * number) // 8
            expected, there, _ = worker.current.cta.view(np.int64)[place : place + 3]
            expected = int(expected) or at.LANES * worker.get(at.CTA_LIVE)
            whom = _missing(worker, number) if there < expected else ""
            found.append(
                f"warp {n} waits at barrier {number} with {there} of {expected} threads{whom}, {before}"
            )
        elif status == at.AT_MBARRIER:
            place = int(words[at.W_WAIT_AT // 4])
            found.append(f"warp {n} waits for the barrier in shared memory at {place:#x}{_state(worker, place)}, "
                         f"{_where(worker, pc)}")  # fmt: skip
        elif status == at.AT_CLUSTER:
            found.append(f"warp {n} waits for the other programs of its cluster, {_where(worker, pc)}")
        else:
            found.append(f"warp {n} runs, {_where(worker, pc)}")
    return found


def deadlock(worker: Worker) -> KernelFault:
    lines = "\n  ".join(_waits(worker))
    return KernelFault(f"kernel {worker.image.program.name}, {_who(worker)}: deadlock\n  {lines}")


def endless(worker: Worker, limit: int) -> KernelFault:
    return _unfinished(
        worker,
        f"not finished after {limit:,} instructions; an endless loop? A larger `step_limit` (`--step-limit` of "
        "commands) lets it go on",
    )


def in_circles(worker: Worker, after: int, programs: int = 1) -> KernelFault:
    """Where everything is as it was so many instructions before."""
    whom = "it" if programs == 1 else f"it and {programs - 1} more that run with it"
    return _unfinished(
        worker,
        f"an endless loop; {whom} will never end: registers and memory are what they were {after:,} instructions "
        "before",
    )


def _unfinished(worker: Worker, why: str) -> KernelFault:
    lines = "\n  ".join(_waits(worker))
    return KernelFault(f"kernel {worker.image.program.name}, {_who(worker)}: {why}\n  {lines}")
