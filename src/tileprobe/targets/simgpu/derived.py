"""Machines that differ from a declared one in one thing that is so many times faster, for the time of a block.

What a question changes are numbers of the machine's file (`machines/`). Latencies of dependent arithmetic are in the
machine code, where the compiler has put them: of arithmetic units only the rate can change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.simgpu.launch import listening
from tileprobe.targets.simgpu.launched import observing
from tileprobe.targets.simgpu.machine import Machine, Timing
from tileprobe.targets.simgpu.settings import settings
from tileprobe.targets.simgpu.timing.chip import firsts_of

_MORE = {  # numbers that a faster machine has more of
    "DRAM bandwidth": ("dram_bytes_second",),
    "L2 bandwidth": ("l2_bytes_cycle",),
    "tensor cores": ("tensor_fma", "tensor_fma_double"),
}
_LESS = {  # cycles that a faster machine has fewer of
    "shared memory": ("shared_interval", "latency_shared"),
    "memory instructions": ("address_interval",),
    "tensor cores": ("latency_tensor", "latency_product"),
    "float and integer units": ("fma_interval", "alu_interval", "half_interval"),
    "special functions": ("xu_interval", "latency_xu"),
    "barriers": ("latency_barrier", "latency_arrive", "latency_wait"),
    "bulk copies (TMA)": ("latency_tma", "tma_gap"),
    "L1 latency": ("latency_l1", "latency_copy"),
    "launching": ("launch_cycles",),
}
_BEYOND_L2, _COUNT = "DRAM latency", "multiprocessors"
NAMES = tuple(dict.fromkeys([*_MORE, _BEYOND_L2, *_LESS, _COUNT]))


def faster(machine: Machine, what: str, times: float) -> Machine:
    """The machine with one thing so many times faster, or so many times as many multiprocessors."""
    if what not in NAMES:
        raise TileProbeError(f"a simulated GPU has no {what!r}; it has {', '.join(NAMES)}")
    if not times > 0:
        raise TileProbeError(f"something can be 2 times faster, or 0.5 times, not {times:g} times")
    if what == _COUNT:
        return replace(machine, multiprocessors=max(1, round(machine.multiprocessors * times)))
    timing = machine.timing
    if what == _BEYOND_L2:
        beyond = round((timing.latency_dram - timing.latency_l2) / times)
        return replace(machine, timing=replace(timing, latency_dram=timing.latency_l2 + beyond))
    changes = {name: _like(timing, name, times) for name in _MORE.get(what, ())}
    changes |= {name: _like(timing, name, 1 / times) for name in _LESS.get(what, ())}
    return replace(machine, timing=replace(timing, **changes))


def _like(timing: Timing, name: str, factor: float) -> float | int:
    """Whole numbers stay whole."""
    value = getattr(timing, name)
    return value * factor if isinstance(value, float) else round(value * factor)


@contextmanager
def running_on(what: str | None, times: float) -> Iterator[None]:
    """Launches of the block run on the derived machine, with empty caches; `None`: on the declared one."""
    from triton.runtime import driver

    from tileprobe.targets.simgpu.timing.chip import Chip

    active: Any = driver.active
    machine, chip, cold = active.machine, active.chip, settings.cold
    active.machine = machine if what is None else faster(machine, what, times)
    vars(active)["chip"] = Chip(active.machine)
    settings.cold = True
    try:
        yield
    finally:
        active.machine, settings.cold = machine, cold
        vars(active)["chip"] = chip


@contextmanager
def delayed(lines: Mapping[int, int]) -> Iterator[None]:
    """In launches of the block a warp stands still for so many cycles behind the first of each row of instructions of a
    line, which is where it has waited for what the row needs."""
    before, listening.delays = listening.delays, lines
    try:
        yield
    finally:
        listening.delays = before


@contextmanager
def lines_faster(lines: Mapping[int, float]) -> Iterator[None]:
    """In launches of the block the instructions of lines take so many times less: what they keep their warp from going
    on for, how long they hold their unit and the multiprocessor's ways into memory, and until what they make is there,
    counted from their issue. What is left of less than a cycle adds up. L2 and DRAM move as many bytes as before, and
    an access to memory takes a cycle to issue."""
    for line, times in lines.items():
        if not times > 0:
            raise TileProbeError(f"line {line} can be 2 times faster, or 0.5 times, not {times:g} times")
    before, listening.faster = listening.faster, lines
    try:
        yield
    finally:
        listening.faster = before


@contextmanager
def without(lines: Sequence[int]) -> Iterator[None]:
    """In launches of the block the instructions of lines take no time: they wait for what they need, and what they make
    is there at once. Those that decide where to go on take a cycle, and wait at barriers as before."""
    before, listening.without = listening.without, tuple(lines)
    try:
        yield
    finally:
        listening.without = before


@dataclass(frozen=True)
class Line:
    """Of the warps that run side by side: how long each was at a line, how often it would be delayed there, and how
    long a cycle is."""

    line: int
    text: str
    ns: float
    times: float
    cycle_ns: float


def lines_of(run: Callable[[], None]) -> list[Line]:
    """Of the launch that `run` makes; those that take the most time first."""
    found: list[Any] = []
    with observing(found.append):
        run()
    if not found or found[-1].took is None:
        return []
    told, program = found[-1], found[-1].program
    statistics, cycle = told.took.statistics, 1e3 / told.machine.clock_mhz
    programs = int(np.prod(told.grid))
    beside = min(programs, told.machine.multiprocessors * told.took.occupancy) * told.warps
    file, rows = program.files[0], []
    mine, name = program.files == file, program.file_names[file].rpartition("/")[2]
    for line in sorted(set(program.lines[mine].tolist()) - {0}):
        there = float(statistics[mine & (program.lines == line)].sum()) / beside
        times = float(statistics[firsts_of(program, line), 0].sum()) / beside
        rows.append(Line(line, f"{name}:{line}", there * cycle, times, cycle))
    return sorted((row for row in rows if row.times), key=lambda row: -row.ns)


def measured(run: Callable[[], None]) -> float | None:
    """How long the launch that `run` makes takes, in nanoseconds; None where it is not timed."""
    found: list[Any] = []
    with observing(found.append):
        run()
    took = found[-1].took if found else None
    return None if took is None else took.cycles * 1e3 / found[-1].machine.clock_mhz
