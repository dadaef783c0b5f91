"""Memory for the checks of races: what `engine/clocks.py`, `races.py` and `between.py` work on.

In come a decoded kernel, the memory it was given and how thorough the checks are to be; out go a `Watch` for a launch
and, for each thread of it, a block whose address the engine gets. Words about global memory are kept for later
launches: a stamp says which launch they are of.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence

import numpy as np

from tileprobe.targets.simgpu.arguments import Named
from tileprobe.targets.simgpu.engine import between, clocks, findings, races, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.numbers import NUMBERS
from tileprobe.targets.simgpu.program import Program

OFF, ON, ALL = range(3)  # no checks; all that do not need much memory; all
_MOST = {ON: 256 << 20, ALL: 4 << 30}  # bytes for words about global memory; more are not spent
_GENERIC = ("LD", "ST", "ATOM")
_SHARED = ("LDS", "STS", "ATOMS", "LDGSTS", "STAS", *_GENERIC)
_GLOBAL = ("LDG", "STG", "ATOMG", "LDGSTS", *_GENERIC)
_BULK = ("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP")
_ENGINES = (*_BULK, "STAS", "HGMMA", "SYNCS_ARRIVE", "SYNCS_PHASE", "ARRIVES", "ATOMS_ARRIVE")
_WIDEST = 16
_MOST_WARPS, _MOST_PROGRAMS = 32, 8  # of a cluster: bits of `races.py` and `between.py`


def _has(program: Program, names: Sequence[str]) -> bool:
    return bool(np.isin(program.uops[:, at.OP], [NUMBERS[name] for name in names]).any())


def not_followed(warps: int, cluster: int) -> str:
    """Why the accesses of a kernel cannot be followed; nothing if they can."""
    if cluster > 1 and cluster * warps > _MOST_WARPS:
        return f"clusters of {cluster} programs have {cluster * warps} warps, of which {_MOST_WARPS} can be followed"
    if cluster > _MOST_PROGRAMS:
        return f"its clusters of {cluster} programs are more than {_MOST_PROGRAMS}"
    return ""


_told: set[tuple[str, str]] = set()


def tell_unwatched(kernel: str, what: str, why: str) -> None:
    """Says on the standard error, once, what is not looked for in a kernel: no report does not mean no race there."""
    if (kernel, why) not in _told:
        _told.add((kernel, why))
        print(f"tileprobe: kernel {kernel}: {what} are not looked for: {why}", file=sys.stderr, flush=True)


def _too_much(words: int, most: int, programs: int, codes: int) -> str:
    """Why global memory is not watched; nothing if it is."""
    if 16 * words > most:
        more = '; --check (check="all") spends more' if most < _MOST[ALL] else ""
        return f"that would take {16 * words >> 20:,} MB, and {most >> 20:,} MB are spent{more}"
    if programs > between.PROGRAMS:
        return f"{programs:,} programs are more than {between.PROGRAMS:,}"
    if codes > between.CODES:
        return f"its {codes:,} instructions are more than {between.CODES:,}"
    return ""


def _narrowest(program: Program, names: Sequence[str]) -> int:
    """As a number of bits to shift by: the narrowest access of these instructions."""
    ops = program.uops[:, at.OP]
    touching = np.isin(ops, [NUMBERS[name] for name in names])
    widths = program.uops[touching, at.I2] & 0xFF
    width = int(widths.min()) if len(widths) else _WIDEST
    if _has(program, _BULK):
        width = min(width, 4)
    return min(width, _WIDEST).bit_length() - 1


def merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of memory without overlaps."""
    out: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if out and start < out[-1][1]:
            out[-1] = out[-1][0], max(stop, out[-1][1])
        elif stop > start:
            out.append((start, stop))
    return out


class _Pool:
    """Buffers of words about global memory that no launch uses at the moment."""

    def __init__(self) -> None:
        self._lock, self._free, self._stamp = threading.Lock(), [], 0

    def take(self, words: int) -> tuple[np.ndarray, int]:
        """A buffer of at least so many words, and the stamp of a launch."""
        with self._lock:
            self._stamp = self._stamp % (between.STAMPS - 1) + 1
            if self._stamp == 1:  # stamps begin anew: what is left of old ones must go
                self._free = []
            fitting = [held for held in self._free if len(held) >= words]
            if not fitting:
                self._free = []
                return np.zeros(words, np.int64), self._stamp
            chosen = min(fitting, key=len)
            self._free = [held for held in self._free if held is not chosen]
            return chosen, self._stamp

    def give(self, buffer: np.ndarray, stamp: int) -> None:
        with self._lock:
            if stamp <= self._stamp:
                self._free.append(buffer)


_pool = _Pool()


class Watch:
    """The checks of one launch. `given` is the memory of its arguments, `fresh` what nobody has written before it."""

    def __init__(
        self, program: Program, programs: int, warps: int, shared_bytes: int, level: int,
        given: Sequence[tuple[int, int]], fresh: Sequence[tuple[int, int]] = (), cluster: int = 1,
    ) -> None:  # fmt: skip
        self.program, self.shared_bytes, self.cluster = program, shared_bytes, cluster
        self.each, self.warps = warps, warps * cluster  # warps of a program, and of its cluster
        self.strict = level == ALL
        self.names: Sequence[Named] = ()
        self.shift = _narrowest(program, _SHARED)
        self.engines = _has(program, _ENGINES)
        self.global_shift = _narrowest(program, _GLOBAL)
        self.spans, self.buffer, self.stamp = np.zeros((1, 5), np.int64), np.zeros(1, np.int64), 0
        self.blocks: list[Block] = []
        spans = merged([*given, *fresh])
        words = [((stop - start) >> self.global_shift) + 2 for start, stop in spans]
        self.skipped = _too_much(sum(words), _MOST[level], programs, len(program.uops))
        self.atomics = np.zeros(0, np.int32)
        if self.skipped or not spans:
            return
        self.buffer, self.stamp = _pool.take(2 * sum(words))
        self.spans = self._spans(spans, words, set(fresh))
        if program.atomic or (program.uops[:, at.I2] & shadow.STRONG).any():
            self.atomics = np.zeros(between.SLOTS + programs, np.int32)
            self.atomics[: between.SLOTS] = np.arange(between.SLOTS)

    def _spans(
        self, spans: list[tuple[int, int]], words: list[int], fresh: set[tuple[int, int]]
    ) -> np.ndarray:
        places = itertools.accumulate([2 * count for count in words], initial=0)
        base = self.buffer.ctypes.data
        rows = []
        for (start, stop), count, place in zip(spans, words, places):
            first = start >> self.global_shift << self.global_shift
            rows.append(
                (first, stop, base + 8 * place, base + 8 * (place + count), int((start, stop) in fresh))
            )
        return np.array(rows, np.int64)

    def of_programs(self) -> list[Block]:
        """A block for each program of a cluster, with clocks that they share."""
        common = Clocks(self)
        made = [Block(self, common, rank) for rank in range(self.cluster)]
        self.blocks += made
        return made

    def close(self) -> None:
        if self.stamp:
            _pool.give(self.buffer, self.stamp)
            self.stamp = 0


class Clocks:
    """Those of a program that runs, or of a cluster of them."""

    def __init__(self, watch: Watch) -> None:
        warps, engines, programs = watch.warps, watch.engines, watch.cluster
        self.agents = clocks.agents(warps, engines, programs)
        self.clocks = np.zeros(8 * self.agents * clocks.subjects(warps, engines, programs), np.uint8)
        self.counters = np.zeros(clocks.counters_bytes(warps, programs), np.uint8)


class Block:
    """The memory of the checks of one program that runs."""

    def __init__(self, watch: Watch, shared: Clocks, rank: int) -> None:
        warps = watch.warps
        entry = races.entry_bytes(warps)
        self.rank, self.shared = rank, shared
        self.shadow = np.zeros(entry * ((watch.shared_bytes >> watch.shift) + 1), np.uint8)
        self.visits = np.zeros(warps, np.int64)
        self.table = np.zeros((findings.ROOM, findings.ENTRY // 8), np.int64)
        self.header = np.zeros(clocks.HEADER_BYTES // 8, np.int64)
        tracked = bool(watch.stamp)
        values = {
            clocks.WARPS: warps, clocks.AGENTS: shared.agents, clocks.SHIFT: watch.shift, clocks.ENTRY: entry,
            clocks.SHADOW: self.shadow.ctypes.data, clocks.SHADOW_BYTES: len(self.shadow),
            clocks.CLOCKS: shared.clocks.ctypes.data, clocks.CLOCKS_BYTES: len(shared.clocks),
            clocks.COUNTERS: shared.counters.ctypes.data, clocks.COUNTERS_BYTES: len(shared.counters),
            clocks.NAMED_AT: clocks.named_at(warps, watch.engines, rank),
            clocks.COPIES_AT: 3 * warps + clocks.COPIES * rank, clocks.FIRST_WARP: watch.each * rank,
            clocks.VISITS: self.visits.ctypes.data if watch.cluster > 1 else 0, clocks.FOUND: self.table.ctypes.data,
            clocks.SPANS: watch.spans.ctypes.data, clocks.SPAN_COUNT: len(watch.spans) if tracked else 0,
            clocks.GLOBAL_SHIFT: watch.global_shift, clocks.STAMP: watch.stamp,
            clocks.ATOMICS: watch.atomics.ctypes.data if len(watch.atomics) else 0,
        }  # fmt: skip
        for place, value in values.items():
            self.header[place // 8] = value

    @property
    def address(self) -> int:
        return self.header.ctypes.data

    def found(self) -> tuple[np.ndarray, int]:
        """The entries of the table, and how many pairs had no room in it."""
        count, lost = (int(self.header[place // 8]) for place in (clocks.FOUND_COUNT, clocks.LOST))
        return self.table[:count], lost
