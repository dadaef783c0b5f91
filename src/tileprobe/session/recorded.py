"""One observed launch: the buffer its programs record into, and what is left of it afterwards.

A `Watch` goes along with a launch: it owns the parameter block and the buffer while the kernel runs. What it
leaves is a `Recorded`: the words that were written, with all that decoding needs.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.ir.layout import Layout
from tileprobe.ir.sampling import Sampling
from tileprobe.targets.cpu import pool
from tileprobe.targets.cpu.codegen.record_blocks import PLAIN

_epochs = itertools.count(1)
_EPOCH_BITS = 31  # an epoch shares a word with a trip count
_buffers: list[np.ndarray] = []
_buffers_lock = threading.Lock()


@dataclass
class Recorded:
    """A launch that is over. Without probes there are no words, only a duration."""

    name: str
    grid: tuple[int, ...]
    start_ns: int
    duration_ns: int
    layout: Layout | None = None
    sampling: Sampling | None = None
    words: np.ndarray | None = None  # (blocks, words); of the words only those in `used`, if that is given
    used: np.ndarray | None = None
    epoch: int = 0
    dose: int = 0  # how often each record was written; 0 without probes

    @property
    def programs(self) -> int:
        return int(np.prod(self.grid))

    def full_words(self) -> np.ndarray:
        """The blocks as the kernel wrote them, with zeros where it did not."""
        assert self.words is not None
        assert self.layout is not None
        if self.used is None:
            return self.words
        blocks = np.zeros((len(self.words), self.layout.block_words), np.uint64)
        blocks[:, self.used] = self.words
        return blocks

    def kept(self) -> int:
        """How many records there are."""
        if self.words is None or self.layout is None:
            return 0
        clocks = self.layout.clock_words(cursor=True)
        mine = clocks if self.used is None else clocks[self.used]
        return int(np.count_nonzero(self.words[:, mine]))


class Watch:
    """Handed to the launcher: what to run, where its parameters are, and when it starts and stops."""

    def __init__(
        self,
        launcher: Any,
        function: Any,
        grid: tuple[int, int, int],
        done: Callable[[Recorded], None],
        layout: Layout | None = None,
        sampling: Sampling | None = None,
        dose: int = 0,
        plain: int = 0,
        keep: Any = None,
    ) -> None:
        """`plain` is the address of the kernel without records, where programs go that are left out; `keep` is
        whatever must stay loaded until the launch is over."""
        self.keep = keep
        self.launcher, self.function, self.parameters = launcher, function, 0
        self.recorded = Recorded(launcher.kernel, grid, 0, 0, layout, sampling, dose=dose)
        self._done = done
        if layout is not None and sampling is not None:
            self._open(layout, sampling, plain)

    def _open(self, layout: Layout, sampling: Sampling, plain: int) -> None:
        programs = self.recorded.programs
        blocks = max(1, sampling.wanted(programs))
        self.recorded.epoch = next(_epochs) & ((1 << _EPOCH_BITS) - 1)
        self._buffer = take(blocks * layout.block_words)
        self._blocks = self._buffer[: blocks * layout.block_words].reshape(blocks, layout.block_words)
        self._map = sampling.program_map(programs, blocks)
        self._parameters = sampling.parameters(
            layout,
            buffer=self._blocks.ctypes.data,
            epoch=self.recorded.epoch,
            programs=programs,
            blocks=blocks,
            program_map=0 if self._map is None else self._map.ctypes.data,
        )
        self._parameters[PLAIN] = plain
        self.parameters = self._parameters.ctypes.data

    def start(self) -> None:
        pool.current()  # its threads are no part of the first launch
        self.recorded.start_ns = time.perf_counter_ns()

    def stop(self) -> None:
        recorded = self.recorded
        recorded.duration_ns = time.perf_counter_ns() - recorded.start_ns
        if self.parameters:
            recorded.used = used_words(self._blocks)
            recorded.words = self._blocks[:, recorded.used]
            self._blocks[:, recorded.used] = 0  # the next launch finds it as it was found
            give_back(self._buffer)
        self._done(recorded)


def used_words(blocks: np.ndarray) -> np.ndarray:
    """The words of a block that hold something in any of the blocks: most loops run less often than there is
    room for, and a session keeps the records of many launches."""
    return np.flatnonzero((blocks != 0).any(axis=0))


def take(words: int) -> np.ndarray:
    """A buffer of at least that many words, all zero, on a cache line of its own and with its pages in place:
    a page fault in the kernel would be measured."""
    with _buffers_lock:
        fitting = [n for n, held in enumerate(_buffers) if len(held) >= words]
        if fitting:
            return _buffers.pop(min(fitting, key=lambda n: len(_buffers[n])))
    raw = np.ones(words + 8, np.uint64)
    skip = (-raw.ctypes.data % 64) // 8
    buffer = raw[skip : skip + words]
    buffer.fill(0)
    return buffer


def give_back(buffer: np.ndarray) -> None:
    """Takes back a buffer that is all zero again."""
    with _buffers_lock:
        _buffers.append(buffer)
        _buffers.sort(key=len)
        del _buffers[:-4]
