"""Which programs and iterations of a launch are recorded, chosen at run time without compiling again.

A `Sampling` turns into the parameter block that a probed kernel reads, and tells the decoder which program
and which iteration a place in the buffer stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, overload

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Layout

# The parameter block, in 64-bit words; then LOOP_WORDS for each loop of the layout.
BUFFER, LAUNCH_EPOCH, PROGRAM_STRIDE, PROGRAM_PHASE, PROGRAM_LIMIT, PROGRAM_MAP, PLAIN = range(7)
FIRST_LOOP = 8
LOOP_STRIDE, LOOP_PHASE, LOOP_COUNT = range(3)
LOOP_WORDS = 4

ALL = 2**31 - 1


@dataclass(frozen=True)
class Every:
    """Every `stride`-th from `phase` on, at most `count` of them. A negative phase counts from the end:
    `Every(phase=-3)` is the last three."""

    stride: int = 1
    phase: int = 0
    count: int = ALL

    def __post_init__(self) -> None:
        if self.stride < 1 or self.count < 0:
            raise TileProbeError(f"sampling needs a stride of at least 1 and a count, got {self}")

    @overload
    def first(self, total: int) -> int: ...
    @overload
    def first(self, total: np.ndarray) -> np.ndarray: ...
    def first(self, total: np.ndarray | int) -> np.ndarray | int:
        """The first one that is recorded out of `total`."""
        if isinstance(total, int):  # asked around every launch: no arrays
            return self.phase if self.phase >= 0 else max(total + self.phase, 0)
        return np.where(self.phase >= 0, self.phase, np.maximum(total + self.phase, 0))

    @overload
    def selected(self, total: int) -> int: ...
    @overload
    def selected(self, total: np.ndarray) -> np.ndarray: ...
    def selected(self, total: np.ndarray | int) -> np.ndarray | int:
        """How many of `total` are chosen."""
        if isinstance(total, int):
            return min(-(-max(total - self.first(total), 0) // self.stride), self.count)
        rest = np.maximum(total - self.first(total), 0)
        return np.minimum(-(-rest // self.stride), self.count)

    def index(self, number: int, total: int) -> int:
        """The place of `number` among the recorded ones, or -1: the arithmetic a lowering emits."""
        offset = number - self.first(total)
        if offset < 0 or offset % self.stride or offset // self.stride >= self.count:
            return -1
        return offset // self.stride


_EACH = Every()


@dataclass(frozen=True)
class Sampling:
    """What is recorded of one launch. `chosen` programs, when given, replace `programs`."""

    programs: Every = Every()
    loops: Mapping[int, Every] = field(default_factory=dict)  # loop id -> iterations; -1 is every other loop
    chosen: tuple[int, ...] | None = None

    def loop(self, loop: int) -> Every:
        return self.loops.get(loop) or self.loops.get(-1, _EACH)

    def recorded(self, programs: int, blocks: int) -> np.ndarray:
        """The programs that have a block, in the order of the blocks."""
        if self.chosen is not None:
            return np.array([p for p in self.chosen if 0 <= p < programs][:blocks], np.int64)
        count = min(self.programs.selected(programs), blocks)
        return self.programs.first(programs) + np.arange(count, dtype=np.int64) * self.programs.stride

    def wanted(self, programs: int) -> int:
        """How many programs would be recorded with a large enough buffer."""
        if self.chosen is not None:
            return sum(0 <= p < programs for p in self.chosen)
        return self.programs.selected(programs)

    def program_map(self, programs: int, blocks: int) -> np.ndarray | None:
        """For each program its block or -1; None when stride and phase say it all."""
        if self.chosen is None:
            return None
        table = np.full(programs, -1, np.int32)
        chosen = self.recorded(programs, blocks)
        table[chosen] = np.arange(len(chosen), dtype=np.int32)
        return table

    def parameters(
        self,
        layout: Layout,
        *,
        buffer: int,
        epoch: int,
        programs: int,
        blocks: int,
        program_map: int = 0,
        plain: int = 0,
    ) -> np.ndarray:
        """The parameter block of a launch. `buffer` and `program_map` are addresses; without a buffer nothing
        is recorded. `plain` is the entry of the same kernel without records, where programs go that are left
        out, or 0."""
        block = [0] * (FIRST_LOOP + LOOP_WORDS * len(layout.loops))
        block[BUFFER], block[LAUNCH_EPOCH], block[PROGRAM_MAP], block[PLAIN] = (
            buffer,
            epoch,
            program_map,
            plain,
        )
        block[PROGRAM_STRIDE] = self.programs.stride
        block[PROGRAM_PHASE] = self.programs.first(programs)
        block[PROGRAM_LIMIT] = min(self.wanted(programs), blocks)
        for loop in layout.loops:
            at, every = FIRST_LOOP + LOOP_WORDS * loop.id, self.loop(loop.id)
            endless = loop.cursor or layout.circular
            count = every.count if endless else min(every.count, loop.capacity)
            block[at : at + 3] = every.stride, every.phase, count  # LOOP_STRIDE, LOOP_PHASE, LOOP_COUNT
        return np.array(block, np.int64)

    def within(self, programs: int, blocks: int) -> Sampling:
        """The same sampling with as many programs left out, evenly, as have no block."""
        wanted = self.wanted(programs)
        if wanted <= blocks:
            return self
        step = -(-wanted // blocks)
        if self.chosen is not None:
            return replace(self, chosen=self.chosen[::step])
        return replace(self, programs=replace(self.programs, stride=self.programs.stride * step))

    @staticmethod
    def random(programs: int, count: int, seed: int = 0) -> Sampling:
        """`count` programs of `programs` at random, the same ones for the same seed."""
        count = min(count, programs)
        picked = np.random.default_rng(seed).choice(programs, count, replace=False)
        return Sampling(chosen=tuple(sorted(int(p) for p in picked)))

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"loops": {str(k): asdict(v) for k, v in self.loops.items()}}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Sampling:
        chosen = data.get("chosen")
        return Sampling(
            Every(**data.get("programs", {})),
            {int(k): Every(**v) for k, v in data.get("loops", {}).items()},
            None if chosen is None else tuple(chosen),
        )
