"""One instruction of a family at a time, without the rest of the engine: a small program's memory in, the same memory
with what the instruction changed out.

`Bench` lays out warps, programs of a cluster, shared, local and global memory in one array, filled with noise.
`Bench.case` keeps that array, the instruction, and the array as it should be afterwards, byte for byte (but for scratch
memory), which a reference writes with NumPy; also what the family should answer, and what it should tell the checks.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numba
import numpy as np

from tileprobe.targets.simgpu.engine import clocks, numbers, table, vectors
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.copies import COPY, RING

FAMILY = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_int64] * 7))
ALL = 0xFFFFFFFF
WARPS, REGISTERS = 3, 72
SHARED, LOCAL, GLOBAL = 12288, 64, 4096  # bytes
LANES = np.arange(32)
LOADS, STORES = ("LDG", "LDS", "LDL", "LD", "LDSM"), ("STG", "STS", "STL", "ST", "STSM")


def R(n: int) -> int:
    """A register as an operand."""
    return at.W_REGISTERS + at.ROW * n


def UR(n: int) -> int:
    return at.W_UNIFORM + at.ROW * n


def K(n: int) -> int:
    """A row of constants, from 1 on."""
    return -at.ROW * n


@dataclass
class Case:
    bench: Bench
    op: str
    uop: np.ndarray
    mask: int
    pc: int
    before: tuple[np.ndarray, np.ndarray]  # bytes that differ from those of a fresh bench
    after: tuple[np.ndarray, np.ndarray]  # bytes that the instruction changes
    answer: int
    told: list[tuple[int, ...]]  # what the checks are told
    says: int  # what the checks answer
    warp: int


_fresh: dict[tuple[int, bool, bool], np.ndarray] = {}  # memory of a bench that nothing was done to


@lru_cache(maxsize=2)
def _arena(arch: int, size: int) -> np.ndarray:
    """Memory of all benches: only one is used at a time."""
    raw = np.zeros(size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + size]


def _difference(new: np.ndarray, old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    places = np.flatnonzero(new != old)
    return places, new[places]


class Bench:
    """`arch` 90: shared memory begins at 0x400 and the program is number 1 of a cluster of two."""

    def __init__(self, arch: int = 80, seed: int = 0, races: bool = False, checks: bool = False) -> None:
        self.arch, self.random = arch, np.random.default_rng(seed)
        self.base = 0x400 if arch >= 90 else 0
        self.warp_bytes = at.W_REGISTERS + at.ROW * REGISTERS
        self.members = 2 if arch >= 90 else 1
        programs = self.members
        self.agents, self.subjects = (
            clocks.agents(WARPS, True, programs),
            clocks.subjects(WARPS, True, programs),
        )
        sizes = {
            "uop": at.UOP, "warps": WARPS * self.warp_bytes, "constants": 24 * at.ROW, "global": GLOBAL,
            "other": 512, "banks": 32 * 16, "bank": 128, "ranges": 2 * at.RANGE, "table": 8 * len(table.table()),
            "cluster": 64, "local": LOCAL * 32, "ring": RING * COPY,
            "clocks": 8 * self.agents * self.subjects, "counters": clocks.counters_bytes(WARPS, programs),
            "gap": 64, "visits": 8 * WARPS,
        }  # fmt: skip
        for n in range(self.members):
            sizes |= {
                f"cta{n}": at.CTA_BYTES,
                f"shared{n}": SHARED,
                f"bulk{n}": at.ASYNC * (at.ASYNC_ROOM + 1),
                f"races{n}": clocks.HEADER_BYTES,
            }
        sizes["scratch"] = at.CTA_SCRATCH_BYTES
        self.places, total = {}, 64
        for name, size in sizes.items():
            self.places[name] = total, size
            total += (size + 127) // 64 * 64  # something between any two
        self.memory, self.me = _arena(arch, total), self.members - 1
        self.kind = arch, races, checks
        if self.kind not in _fresh:
            self.memory[:] = np.random.default_rng(arch).integers(0, 256, total)
            self._fill(races, checks)
            _fresh[self.kind] = self.memory.copy()
        self.memory[:] = _fresh[self.kind]

    def _fill(self, races: bool, checks: bool) -> None:
        self.part("table").view(np.int64)[:] = table.table()
        self._lanes, self._held = vectors.handlers()
        self.part("banks").view(np.int64)[:] = 0
        self.part("banks").view(np.int64).reshape(-1, 2)[3] = self.at("bank"), 120
        self.part("ranges").view(np.int64)[:] = [*self.span("other"), *self.span("global")]
        cluster = self.part("cluster").view(np.int64)
        cluster[:3] = 0, 0, self.members
        cluster[3 : 3 + self.members] = [self.at(f"cta{n}") for n in range(self.members)]
        for name in ("clocks", "counters"):
            self.part(name)[:] = 0
        for n in range(self.members):
            self._races(n)
            self.part(f"cta{n}")[:] = 0
            self.set(
                n,
                CTA_CONSTANTS=self.at("constants"), CTA_WARPS=self.at("warps"), CTA_WARP_BYTES=self.warp_bytes,
                CTA_WARP_COUNT=WARPS, CTA_SHARED=self.at(f"shared{n}"), CTA_SHARED_BASE=self.base,
                CTA_SHARED_BYTES=SHARED, CTA_RANGES=self.at("ranges"), CTA_RANGE_COUNT=2,
                CTA_BANKS=self.at("banks"), CTA_SCRATCH=self.at("scratch"), CTA_TABLE=self.at("table"),
                CTA_ASYNC=self.at(f"bulk{n}"), CTA_CLUSTER=self.at("cluster"), CTA_LIVE=WARPS,
                CTA_CHECKS=int(checks), CTA_RACES=self.at(f"races{n}") if races else 0, CTA_PROGRESS=40 + n,
                CTA_EPOCH=7,
            )  # fmt: skip
        for n in range(WARPS):
            warp = self.warp(n)
            warp[: at.W_SPECIAL] = 0
            warp.view(np.uint32)[[at.PT, at.UPT]] = ALL
            self.put(
                n, W_ACTIVE=ALL, W_NUMBER=n, W_AGENT=n, W_PC=5, W_LOCAL=self.at("local"), W_LOCAL_BYTES=LOCAL,
                W_COPIES=self.at("ring"), W_CYCLE=(3 << 32) + 77 + n, W_CTA=self.at(f"cta{self.me}"),
            )  # fmt: skip

    def _races(self, n: int) -> None:
        """What the checks of a program know: the warps, clocks and counters are those of the cluster."""
        header = self.part(f"races{n}").view(np.int64)
        header[:] = 0
        for place, value in {
            clocks.WARPS: WARPS, clocks.AGENTS: self.agents, clocks.CLOCKS: self.at("clocks"),
            clocks.CLOCKS_BYTES: 8 * self.agents * self.subjects, clocks.COUNTERS: self.at("counters"),
            clocks.VISITS: self.at("visits"), clocks.NAMED_AT: clocks.named_at(WARPS, True, n),
            clocks.COPIES_AT: 3 * WARPS + clocks.COPIES * n,
        }.items():  # fmt: skip
            header[place // 8] = value

    def barrier(self, address: int, member: int = 0) -> int:
        """The clock of a barrier in a program's shared memory."""
        first = clocks.named_at(WARPS, True, member) + clocks.NAMED
        return first + (address >> 3 & clocks.IN_MEMORY - 1)

    # -- where things are --------------------------------------------------------------------------------------------

    def part(self, name: str) -> np.ndarray:
        first, size = self.places[name]
        return self.memory[first : first + size]

    def at(self, name: str) -> int:
        return self.memory.ctypes.data + self.places[name][0]

    def span(self, name: str) -> tuple[int, int]:
        return self.at(name), self.at(name) + self.places[name][1]

    def warp(self, n: int = 0) -> np.ndarray:
        return self.part("warps")[n * self.warp_bytes : (n + 1) * self.warp_bytes]

    def rows(self, operand: int, count: int = 1, warp: int = 0) -> np.ndarray:
        """Rows of an operand (`R`, `UR`, `K`), to be read and written."""
        block = self.warp(warp)[operand:] if operand >= 0 else self.part("constants")[-operand:]
        return block[: count * at.ROW].view(np.uint32).reshape(count, 32)

    def pairs(self, operand: int, values: Any) -> None:
        """64-bit values into two rows."""
        wide = np.broadcast_to(np.asarray(values, np.int64), 32).astype(np.int64).view(np.uint64)
        self.rows(operand, 2)[:] = wide & np.uint64(ALL), wide >> np.uint64(32)

    def predicate(self, n: int, bits: int | None = None, warp: int = 0) -> int:
        words = self.warp(warp).view(np.uint32)
        if bits is not None:
            words[n] = bits & ALL
        return int(words[n])

    @property
    def shared(self) -> np.ndarray:
        return self.part(f"shared{self.me}")

    def put(self, n: int = 0, **values: int) -> None:
        """Fields of a warp, by their names in `layout`."""
        for name, value in values.items():
            wide = name in ("W_LOCAL", "W_LOCAL_BYTES", "W_COPIES", "W_CYCLE", "W_CTA", "W_STEPS")
            place = getattr(at, name)
            kind, size = (np.int64, 8) if wide else (np.uint32, 4)
            self.warp(n)[place : place + size].view(kind)[0] = value if wide else value & ALL

    def word(self, name: str, n: int = 0) -> int:
        place = getattr(at, name)
        return int(self.warp(n)[place : place + 4].view(np.uint32)[0])

    def set(self, member: int | None = None, **values: int) -> None:
        """Fields of a program."""
        block = self.part(f"cta{self.me if member is None else member}").view(np.int64)
        for name, value in values.items():
            block[getattr(at, name) // 8] = value

    def get(self, name: str, member: int | None = None) -> int:
        block = self.part(f"cta{self.me if member is None else member}").view(np.int64)
        return int(block[getattr(at, name) // 8])

    def faulted(self, kind: int, lane: int, address: int, more: int) -> int:
        """What a fault leaves; gives its number."""
        self.set(CTA_ERROR=kind, CTA_ERROR_LANE=lane, CTA_ERROR_ADDRESS=address, CTA_ERROR_MORE=more)
        return kind

    # -- cases -------------------------------------------------------------------------------------------------------

    def case(
        self,
        op: str,
        then: Callable[[], int | None] | None = None,
        mask: int = ALL,
        pc: int = 5,
        told: list[tuple[int, ...]] | None = None,
        says: int = 0,
        warp: int = 0,
        **fields: int,
    ) -> Case:
        """An instruction on the memory as it is now. `then` changes it as the instruction should, and gives what the
        family should answer (nothing: OK). Memory is as before afterwards."""
        held = self.memory.copy()
        before = _difference(held, _fresh[self.kind])
        answer = (then() if then is not None else None) or at.OK
        after = _difference(self.memory, held)
        self.memory[:] = held
        uop = np.zeros(16, np.int64)
        for name, value in fields.items():
            uop[getattr(at, name)] = value
        uop[at.OP] = numbers.NUMBERS.get(op, 0)  # what the loop calls has no number
        if op in STORES:  # results and what is stored are different operands, of which one is used
            uop[at.D] = R(REGISTERS - 4)
        elif op in LOADS:
            uop[at.E] = R(REGISTERS - 4)
        uop = uop.astype(np.uint32).view(np.int32)
        return Case(self, op, uop, mask, pc, before, after, answer, told or [], says, warp)

    def run(self, case: Case, function: Any) -> str:
        """What is wrong with a function of a family on a case; nothing if it is right."""
        wanted = _fresh[self.kind].copy()
        wanted[case.before[0]] = case.before[1]
        self.memory[:] = wanted
        wanted[case.after[0]] = case.after[1]
        self.part("uop").view(np.int32)[:] = case.uop
        heard: list[tuple[int, ...]] = []

        def watch(which: int, a: int, warp: int, cta: int, b: int, c: int, d: int) -> int:
            heard.append((which, *(self._near(x) for x in (a, b, c, d))))
            return case.says

        held = FAMILY(watch)
        if self.get("CTA_CHECKS"):
            entry = self.part("table").view(np.int64)
            entry[numbers.NUMBERS["WATCH"]] = ctypes.cast(held, ctypes.c_void_p).value
        places = self.at("uop"), self.at("warps") + case.warp * self.warp_bytes, self.at(f"cta{self.me}")
        answer = int(function(int(case.uop[at.OP]), *places, self.at("constants"), case.mask, case.pc))
        for name in ("table", "uop"):
            first, size = self.places[name]
            self.memory[first : first + size] = wanted[first : first + size]
        if answer != case.answer:
            return f"{case.op} answers {answer} instead of {case.answer}"
        if self.get("CTA_CHECKS") and heard != case.told:
            return f"{case.op} tells {heard} instead of {case.told}"
        end = self.places["scratch"][0]
        bad = np.flatnonzero(self.memory[:end] != wanted[:end])
        if not len(bad):
            return ""
        where = next((n, int(bad[0] - p)) for n, (p, s) in self.places.items() if bad[0] < p + s)
        return f"{case.op}: {len(bad)} bytes differ, the first in {where[0]} at {where[1]}"

    def _near(self, value: int) -> int:
        """An address as an offset from the area that it is in: cases know no addresses."""
        for n, name in enumerate(("scratch", "ring", f"shared{self.me}", "warps", "global")):
            first, stop = self.span(name)
            if first <= value < stop:
                return near(n, value - first)
        return value


def near(area: int, offset: int = 0) -> int:
    """How an address of scratch memory (0), the ring of copies (1), shared memory (2), a warp (3), global memory (4)
    is told."""
    return -(1 << 40) * (area + 1) - offset


# What the engine's loop calls between instructions: its module, and whether it is of a warp or of a program.
LOOP = {
    "rotate": ("control", "warp"),
    "loaded_last": ("copies", "warp"),
    "arrive_all": ("copies", "cta"),
    "one_less": ("barriers", "cta"),
}
_compiled: dict[str, Any] = {}


def compiled(op: str) -> Any:
    """The engine's own function."""
    if op not in _compiled:
        _compiled[op] = _of_the_loop(op) if op in LOOP else FAMILY(int(table.table()[numbers.NUMBERS[op]]))
    return _compiled[op]


def _of_the_loop(name: str) -> Any:
    """Such a function with the arguments of an instruction's. It is compiled for this alone."""
    module, given = LOOP[name]
    function = getattr(importlib.import_module(f"tileprobe.targets.simgpu.engine.{module}"), name)
    answers = name in ("loaded_last", "arrive_all")

    def called(op, uop, warp, cta, constants, mask, pc):
        if answers:
            return function(warp if given == "warp" else cta)
        function(warp if given == "warp" else cta)
        return 0

    return numba.cfunc("int64(int64, int64, int64, int64, int64, int64, int64)", nopython=True)(called).ctypes


def chosen(mask: int) -> np.ndarray:
    """The lanes of a mask, as a condition."""
    return (mask >> LANES & 1).astype(bool)


def bits(condition: Any) -> int:
    return int(sum(1 << n for n in range(32) if condition[n]))


GROUPS: dict[str, Callable[[], list[Case]]] = {}


def group(function: Callable[[], list[Case]]) -> Callable[[], list[Case]]:
    """Registers a function that makes cases."""
    GROUPS[function.__name__] = function
    return function
