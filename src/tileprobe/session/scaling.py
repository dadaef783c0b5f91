"""What a launch would take on machines that differ from a simulated one in one thing: asked exactly, one run each.

In comes a launch that can be run again; out goes for each thing how much of the launch's time is gone when it is so
many times faster, a part of the machine or a source line, and for each line what is gone without it and the slope of
the launch's time over a delay of all that it does. Every run begins with empty caches and the same memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.session.relaunching import Relaunch
from tileprobe.session.wanted import is_meant
from tileprobe.tools.slopes import DOSES, slope_of

SHARE = 0.03  # of the launch's time that one dose of a line adds at most
MOST = 8  # lines, those at which warps are longest


@dataclass(frozen=True)
class Scaled:
    """`gain` is the share of the launch's time that is gone."""

    what: str
    ns: float
    gain: float


@dataclass(frozen=True)
class Exposed:
    """A line at which each warp is for `ns`. `slope`: 1 where each delay of it shows in the launch's time, 0 where none
    does, and beyond 1 where warps delay each other. What of the launch is gone, `faster`: if its instructions are so
    many times faster; `gain`: if they take no time."""

    line: str
    ns: float
    slope: float
    faster: float
    gain: float


@dataclass(frozen=True)
class Simulated:
    kernel: str
    took_ns: float
    times: float
    scaled: list[Scaled]
    lines: list[Exposed]
    # What is gone if all of the lines are so many times faster, and if none takes time; None where there is one at most
    together_faster: float | None = None
    together: float | None = None


def simulate(
    launch: Relaunch, target: Any, word: str, times: float, progress: Callable[[str], None]
) -> Simulated:
    """Everything that can be made faster, and the lines of the kernel; or what has `word` in its name."""
    names = [name for name in target.scales() if word.lower() in name.lower()]
    lines: list[Any] = []
    took = _took(launch, target, None, times, lambda: lines.extend(target.lines_of(launch.run)))
    lines = [
        each
        for each in lines
        if is_meant(word, each.text, each.text.rpartition(":")[0], each.line, each.line)
    ]
    lines = lines[:MOST]
    if not names and not lines:
        raise TileProbeError(
            f"nothing called {word!r} can be made faster or delayed; there are {', '.join(target.scales())}, and lines "
            "of the kernel such as script.py:31"
        )
    found: list[Scaled] = []
    for n, name in enumerate(names):
        progress(f"{launch.name}: {name} {times:g} times faster, {n + 1} of {len(names)}")
        ns = _took(launch, target, name, times)
        found.append(Scaled(name, ns, 1 - ns / took))
    found.sort(key=lambda row: -row.gain)
    exposed: list[Exposed] = []
    for n, line in enumerate(lines):
        progress(f"{launch.name}: {line.text} delayed, {n + 1} of {len(lines)}")
        sooner, gain = _faster(launch, target, [line], times, took), _without(launch, target, [line], took)
        exposed.append(Exposed(line.text, line.ns, _slope(launch, target, line, took), sooner, gain))
    exposed.sort(key=lambda row: -row.gain)
    all_of: tuple[float | None, float | None] = (None, None)
    if len(lines) > 1:
        all_of = _faster(launch, target, lines, times, took), _without(launch, target, lines, took)
    return Simulated(launch.name, took, times, found, exposed, *all_of)


def _faster(launch: Relaunch, target: Any, lines: list[Any], times: float, took: float) -> float:
    with target.lines_faster({line.line: times for line in lines}):
        return 1 - _took(launch, target, None, 1.0) / took


def _without(launch: Relaunch, target: Any, lines: list[Any], took: float) -> float:
    with target.without([line.line for line in lines]):
        return 1 - _took(launch, target, None, 1.0) / took


def _slope(launch: Relaunch, target: Any, line: Any, took: float) -> float:
    """By three runs, of one, two and three times a delay of some cycles."""
    cycles = max(1, round(SHARE * took / line.times / line.cycle_ns))
    times = [took]
    for dose in DOSES[1:]:
        with target.delayed({line.line: dose * cycles}):
            times.append(_took(launch, target, None, 1.0))
    return slope_of(np.array([times]), cycles * line.cycle_ns * line.times).value


def _took(
    launch: Relaunch, target: Any, what: str | None, times: float, run: Callable[[], None] | None = None
) -> float:
    """On another machine, or on the declared one; `run` is what launches it, where something else is asked, too."""
    launch.restore()
    with target.running_on(what, times):
        took = target.measured(run or launch.run)
    if took is None:
        raise TileProbeError(f"{launch.name}: its launches are not timed")
    return took
