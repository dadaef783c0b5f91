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

from tileprobe.targets.immediate import interface

Interface = interface(time.perf_counter_ns, 1e6, "cpu")


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
