"""The clock of a GPU's multiprocessors: its rate changes with load and temperature, so it is learnt from the records.

Each stream notes the machine's timer at both ends, and its own clock at the first and in its last record: what passed
on the one while so much passed on the other is the rate. In come the words of launches; out go hertz, and the timer
with the step in which it is seen to move.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import gcd, sqrt

import numpy as np

from tileprobe.ir.layout import BEGIN, EPOCH, GLOBAL_BEGIN, GLOBAL_END, Layout
from tileprobe.ir.machine import GlobalTimer
from tileprobe.targets.gpu.device import Device

_SURE = 0.005  # the rate is that of the records once the timer's steps leave it this uncertain; before, the nominal one
_SEEN = 32  # readings of the timer whose greatest common divisor is its step
# What a record costs at the least, cycles: the two issue slots of CS2R and STG at 4 cycles each, as ptxas's own control
# codes have them (docs/gpu.md); a measured one replaces it as soon as launches of two doses have run.
FLOOR_TICKS = 8.0


class GpuClock:
    """`timer` is the machine's as far as the maker says: the step may be shorter."""

    name = "multiprocessor"

    def __init__(
        self, device: Callable[[], Device], timer: GlobalTimer, bits: Callable[[], int] = lambda: 64
    ) -> None:
        self._device, self._stated, self._width = device, timer, bits
        self._nominal_hz, self.bits = 1e9, 64  # until a session starts
        self._lock = threading.Lock()
        self._ticks = self._passed = 0.0
        self._streams = self._seen = self._step = 0

    @property
    def timer(self) -> GlobalTimer:
        if self._seen < _SEEN or not self._step:
            return self._stated
        return GlobalTimer(self._stated.hz, min(self._stated.step, float(self._step)))

    def start(self) -> None:
        """Asked when a kernel is launched: at the end of a session another driver may be Triton's."""
        self._nominal_hz, self.bits = self._device().properties().clock_hz, self._width()

    def hz(self) -> float:
        with self._lock:
            error = self.timer.step * sqrt(self._streams)
            if self._passed and error <= _SURE * self._passed:
                return self._ticks * self._stated.hz / self._passed
        return self._nominal_hz

    def floor_ticks(self) -> float:
        return FLOOR_TICKS

    def learn(self, blocks: np.ndarray, layout: Layout, epoch: int) -> None:
        """From the blocks of a launch. Narrow clocks turn over: streams of less than half a turn tell."""
        stream = layout.streams[0]
        words = blocks[:, stream.base : stream.base + stream.words]
        words = words[words[:, EPOCH] == np.uint64(epoch)]
        self._learn_step(words[:, GLOBAL_BEGIN])
        clocks = layout.clock_words()[stream.base : stream.base + stream.words]
        if not len(words) or not clocks.any():
            return
        bits = min(layout.clock_bits, self.bits)
        ticks = _last_ticks(words[:, clocks], words[:, BEGIN], layout.clock_bits, bits, epoch)
        passed = words[:, GLOBAL_END].astype(np.float64) - words[:, GLOBAL_BEGIN].astype(np.float64)
        whole = (words[:, GLOBAL_END] > 0) & (ticks > 0) & (passed >= 0)
        if bits < 64:
            whole &= (passed + self.timer.step) * (self._nominal_hz / self._stated.hz) < 1 << (bits - 1)
        with self._lock:
            self._ticks += float(ticks[whole].sum())
            self._passed += float(passed[whole].sum())
            self._streams += int(whole.sum())

    def _learn_step(self, readings: np.ndarray) -> None:
        known = np.unique(readings[readings > 0]).astype(np.int64)
        if len(known):
            with self._lock:
                self._step = gcd(self._step, int(np.gcd.reduce(known)))
                self._seen += len(known)


def _last_ticks(clocks: np.ndarray, begin: np.ndarray, room: int, bits: int, epoch: int) -> np.ndarray:
    """Ticks from the beginning of each stream to its last record, of clocks of `bits` in words with `room`."""
    written = clocks != 0 if room == 64 else (clocks >> np.uint64(32)) == np.uint64(epoch)
    since = (clocks - begin[:, None]) & np.uint64((1 << bits) - 1)
    return np.where(written, since, np.uint64(0)).max(axis=1).astype(np.float64)
