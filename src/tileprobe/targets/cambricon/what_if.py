"""What a step would take on devices that have one thing so many times faster: each compiled for and simulated in full.

In: a model, a device, options, and how many times. Out: a row for each unit, rate and latency of the device, the one
that brings most first. Nothing is estimated; a device on which the model cannot run has a row that says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model

# What is faster -> its constants; a rate or a count is that many times as much, a time that part of it.
_MORE: dict[str, tuple[str, ...]] = {
    "channel bandwidth": ("flash.channel_gb_per_s",),
    "DRAM bandwidth": ("dram.gb_per_s",),
    "link bandwidth": ("link.gb_per_s",),
    "channel and link bandwidth": ("flash.channel_gb_per_s", "link.gb_per_s"),
    "NPU array": ("npu.macs_per_pe",),
    "special functions": ("npu.sfu_lanes",),
    "channels": ("flash.channels",),
    "chips of a channel": ("flash.chips_per_channel",),
}
_LESS: dict[str, tuple[str, ...]] = {
    "array reads": ("flash.read_us", "flash.register_copy_us"),
    "cores in the flash": ("core.page_us",),
    "array reads and cores": ("flash.read_us", "flash.register_copy_us", "core.page_us"),
    "commands": ("flash.command_us", "flash.slice_command_us"),
    "DRAM latency": ("dram.latency_us",),
    "link latency": ("link.latency_us",),
}
_BETWEEN = {
    "bandwidth between packages": "packages.gb_per_s",
    "latency between packages": "packages.latency_us",
}
_AS_MANY = ("channels", "chips of a channel")  # there are more of them, and they are as fast


@dataclass(frozen=True)
class Faster:
    """`gain` is the share of the step's time that is gone, None where the step cannot run there, which `why` says."""

    what: str
    latency_ms: float | None
    tokens_per_s: float | None
    gain: float | None
    why: str = ""


def named(what: str, times: float) -> str:
    return f"{times:g} times as many {what}" if what in _AS_MANY else f"{what} {times:g} times faster"


def faster(machine: Machine, what: str, times: float) -> Machine:
    """The device with one thing so many times faster, or so many times as many of it."""
    if not 0 < times < math.inf:
        raise TileProbeError(f"something can be 2 times faster, or 0.5 times, not {times:g} times")
    factors = dict.fromkeys(_MORE.get(what, ()), times) | dict.fromkeys(_LESS.get(what, ()), 1 / times)
    if what in _BETWEEN:
        factors = {_BETWEEN[what]: times if "bandwidth" in what else 1 / times}
    if not factors:
        raise TileProbeError(f"a device has no {what!r}; it has {', '.join((*_MORE, *_LESS, *_BETWEEN))}")
    changes: dict[str, float] = {}
    for name, factor in factors.items():
        section, _, constant = name.partition(".")
        value = getattr(getattr(machine, section), constant)
        changes[f"{section}_{constant}"] = (
            max(1, round(value * factor)) if isinstance(value, int) else value * factor
        )
    return machine.replace(**changes)


def what_if(
    model: Model, machine: Machine, options: Options, times: float = 2.0, word: str = ""
) -> list[Faster]:
    """All that has `word` in its name, and what the compiler could do otherwise."""
    from tileprobe.targets.cambricon.simulate import simulate

    before = simulate(model, machine, options).latency_ms

    def tried(name: str, made: Callable[[], Machine], changed: Options = options) -> Faster:
        try:
            result = simulate(model, made(), changed)
        except TileProbeError as error:
            return Faster(name, None, None, None, str(error))
        return Faster(name, result.latency_ms, result.tokens_per_s, 1 - result.latency_ms / before)

    parts = [*_MORE, *_LESS, *(_BETWEEN if options.packages > 1 else ())]
    if machine.link.gb_per_s >= machine.wire_gb_per_s * max(times, 1.0):  # the link is in nobody's way
        parts.remove("channel and link bandwidth")
    rows = [
        tried(named(what, times), lambda what=what: faster(machine, what, times))
        for what in parts
        if word in what
    ]
    otherwise = {}
    if not options.slicing:
        otherwise["slice control"] = replace(options, slicing=True)
    if options.tiling == "paper" and not options.tile:
        otherwise["--tiling best"] = replace(options, tiling="best")
    rows += [tried(name, lambda: machine, changed) for name, changed in otherwise.items() if word in name]
    if not rows:
        raise TileProbeError(
            f"nothing called {word!r} can be made faster; there are {', '.join((*parts, *otherwise))}"
        )
    return sorted(rows, key=lambda row: (row.gain is None, -(row.gain or 0.0)))
