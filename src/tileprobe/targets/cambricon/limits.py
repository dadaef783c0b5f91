"""What limits a run: findings from a `Result` alone. In: a result and its device. Out: plain text; nothing is printed
here. What would help is tried in `what_if.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tileprobe.ir.machine import ALIKE, ALWAYS, limiting
from tileprobe.targets.cambricon.compile import mode_of
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.packages import PIPELINE, TENSOR
from tileprobe.targets.cambricon.pagemap import SPLIT, geometry_of
from tileprobe.targets.cambricon.result import Result


@dataclass(frozen=True)
class Roofline:
    """Weights are used once a token, so the rate at which they can be met bounds the operations a second."""

    ops_per_weight_byte: float
    ops_per_channel_byte: float
    flash_gb_per_s: float  # what the cores can consume where it lies
    channel_gb_per_s: float  # what the channels can bring to the NPU
    roof_gops: float
    reached_gops: float

    @property
    def reached(self) -> float:
        return self.reached_gops / self.roof_gops


def roofline(result: Result, machine: Machine) -> Roofline:
    """The roof of this mode: flash, channels, or both together, at the intensity of the run. Packages that have a part
    of every matrix raise it; in a pipeline a token is in one of them at a time.
    """
    flash, mode = machine.flash, result.options.mode
    together = result.options.packages if result.options.split == TENSOR else 1
    cores = flash.channels * machine.cores_per_channel
    in_flash = (
        cores * flash.page_bytes / max(flash.read_us, machine.core.page_us * result.tokens) / 1e3
        if mode != "npu-only" and not result.options.prefill
        else 0.0
    )
    wire = min(machine.wire_gb_per_s, machine.link.gb_per_s) if mode != "flash-only" else 0.0
    in_flash, wire = in_flash * together, wire * together
    intensity = 2.0 * result.macs / result.weight_bytes
    roof = (in_flash + wire) * intensity
    npu = 2 * machine.npu.macs_per_us / 1e3 * together
    return Roofline(
        ops_per_weight_byte=intensity,
        ops_per_channel_byte=2.0 * result.macs / max(result.channel_gb * 1e9, 1.0),
        flash_gb_per_s=in_flash,
        channel_gb_per_s=wire,
        roof_gops=min(roof, npu) if result.options.prefill else roof,
        reached_gops=2.0 * result.macs / (result.latency_ms * 1e-3) / 1e9,
    )


# kind of unit (as in a trace) -> its counter in a result, what it is called, what would help
KINDS = {
    "core": ("cores", "the flash cores", "a shorter tR with faster cores, or more chips"),
    "channel": ("channels", "the channels", "faster or more channels"),
    "plane": ("planes", "the flash planes", "a shorter tR, or more chips"),
    "npu": ("npu_array", "the NPU's array", "a larger array or a higher clock"),
    "sfu": ("npu_sfu", "the NPU's special functions", "a wider unit for special functions"),
    "dram": (
        "dram",
        "the DRAM",
        "a faster DRAM, a shorter context, grouped-query attention or an 8-bit KV cache",
    ),
}


def busy_kinds(result: Result) -> dict[str, float]:
    """The share of the step in which each kind of unit is busy, by the names that its units have in a trace; in a
    pipeline, of the time in which its package has the token.
    """
    turns = result.options.packages if result.options.split == PIPELINE else 1
    return {kind: result.units[counter].busy * turns for kind, (counter, _, _) in KINDS.items()}


def bottleneck(result: Result, machine: Machine) -> tuple[str, str]:
    """(what limits the run, what would help), said for a person. The rule is that of the tool `units`."""
    busy = busy_kinds(result)
    kinds = limiting(busy)
    told = {kind: words[1:] for kind, words in KINDS.items()} | {"channel": _wire(machine)}
    said = " and ".join(f"{told[kind][0]}, busy {busy[kind]:.0%}" for kind in kinds)
    reading = _reading(result, machine, busy["plane"])
    if kinds == ["channel"] and busy["channel"] >= ALWAYS and reading >= ALIKE * busy["channel"]:
        return (
            f"{said} and the planes that read for them, busy {reading:.0%}, alike",
            f"{told['channel'][1]}, and a shorter tR or more chips: neither side alone",
        )
    if busy[kinds[0]] >= ALWAYS:
        if len(kinds) > 1:
            balanced = ": the split is balanced" if set(kinds) == {"core", "channel"} else ""
            return f"{said}, alike{balanced}", "more of both; neither side alone"
        return said, told[kinds[0]][1]
    return _in_part(result, busy, kinds, said)


def _wire(machine: Machine) -> tuple[str, str]:
    """What is busy when channels are, and what would help: all of them meet at the link to the NPU."""
    if math.isclose(machine.link.gb_per_s, machine.wire_gb_per_s):
        return "the channels and the link to the NPU", "faster channels with a faster link"
    if machine.link.gb_per_s < machine.wire_gb_per_s:
        return "the link to the NPU", "a faster link"
    return KINDS["channel"][1:]


def _reading(result: Result, machine: Machine, busy: float) -> float:
    """The busy share of planes that serve reads, which are some of all."""
    planes = geometry_of(machine, mode_of(result.options)).stream_planes
    share = result.page_reads / max(result.page_commands, 1)
    return busy * share * machine.flash.planes_per_die / planes if planes else 0.0


def _in_part(result: Result, busy: dict[str, float], kinds: list[str], said: str) -> tuple[str, str]:
    """Nothing is busy all the time: units take turns, or wait."""
    attention, products = (
        sum(op.share for op in result.operators if op.unit == unit) for unit in ("npu + dram", "flash + npu")
    )
    within = busy["core"] / products if products else 0.0
    turns = f"{said}; products take {products:.0%} of the step and keep the cores busy {within:.0%}, attention takes "
    turns += f"{attention:.0%} and waits for the DRAM (busy {busy['dram']:.0%})"
    if within > 0.85 or kinds[0] == "dram":
        helps = (
            KINDS["dram"][2] if kinds[0] == "dram" else "a faster DRAM, a shorter context, or a shorter tR"
        )
        return f"{turns}: they take turns", f"{helps}: each helps its share"
    if not result.options.slicing and result.options.mode == SPLIT and not result.options.prefill:
        each = (result.units["channels"].parts or {}).get("wait_us", 0.0)
        return (
            f"{said}, and by waiting: without slice control a page holds its channel whole, inputs and results wait "
            f"{each:.1f} us each for it",
            "slice control (leave out --no-slicing)",
        )
    return (
        f"{said}, and by waiting: even during products the cores are busy {within:.0%} only, because matrices do not "
        f"fill whole requests of {result.tile[0]}x{result.tile[1]} on all channels and cores",
        "tiles that divide the matrices (--tiling best), or a smaller device",
    )
