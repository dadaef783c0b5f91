"""The CPU as Triton's benchmarking sees a device: events, streams and properties.

Launches return when they are finished, so synchronising is nothing and an event is a reading of the clock.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np


class Event:
    """A point in time, in the manner of `torch.cuda.Event`."""

    def __init__(self, enable_timing: bool = True, **_: Any):
        self._ns = 0

    def record(self, stream: Any = None) -> None:
        self._ns = time.perf_counter_ns()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another. At least a nanosecond, as callers divide by it."""
        return max(end._ns - self._ns, 1) / 1e6

    def synchronize(self) -> None: ...

    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True


class Interface:
    """What `triton.testing` uses of a module such as `torch.cuda`."""

    Event = Event

    @staticmethod
    def synchronize(device: Any = None) -> None: ...

    @staticmethod
    def current_device() -> str:
        return "cpu"

    @staticmethod
    def set_device(device: Any) -> None: ...

    @staticmethod
    def current_stream(device: Any = None) -> int:
        return 0

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True


def properties() -> dict[str, Any]:
    """Device properties by the names Triton's drivers use."""
    return {
        # Launch code works out from these how many programs fit on a GPU; here they bound nothing, and must
        # not come out as none. Tiles live in scratch that grows.
        "max_shared_mem": 2**31 - 1,
        "max_num_regs": 65536,
        "multiprocessor_count": len(os.sched_getaffinity(0)),
        "warpSize": 32,
        "sm_clock_rate": _clock_khz(),
        "mem_clock_rate": 0,
        "mem_bus_width": 0,
        "arch": os.uname().machine,
    }


class FlushBuffer:
    """Memory of the size of the last-level cache; writing it pushes everything else out."""

    def __init__(self):
        self._memory = np.zeros(last_level_cache_bytes(), dtype=np.uint8)

    def zero_(self) -> None:
        self._memory.fill(0)


@lru_cache(maxsize=1)
def last_level_cache_bytes() -> int:
    """From the kernel's description of the first CPU; 32 MiB where there is none."""
    sizes = [
        int(text[:-1]) * {"K": 1024, "M": 1024**2}[text[-1]]
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
        if (text := path.read_text().strip())[-1:] in ("K", "M")
    ]
    return max(sizes, default=32 * 1024**2)


def memory_bytes() -> int:
    """Of the whole machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _clock_khz() -> int:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
