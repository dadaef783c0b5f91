"""What limits a run and what would help: findings from a `Result` alone, and what-if runs on the engine.

In: a result (and, for what-if, the model and machine). Out: plain text findings and rows; nothing is
printed here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model
from tileprobe.targets.cambricon.precision import precision_of
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
    """The roof of this mode: flash, channels, or both together, at the intensity of the run."""
    flash, mode = machine.flash, result.options.mode
    cores = flash.channels * machine.cores_per_channel
    page_us = max(flash.read_us, machine.core.page_us)
    in_flash = (
        cores * flash.page_bytes / page_us / 1e3 if mode != "npu-only" and not result.options.prefill else 0.0
    )
    wire = (
        min(flash.channel_gb_per_s * flash.channels, machine.link.gb_per_s) if mode != "flash-only" else 0.0
    )
    values_per_byte = 8 / precision_of(result.options.weights).weight_bits
    intensity = 2.0 * values_per_byte * result.tokens
    roof = (in_flash + wire) * intensity
    npu = 2 * machine.npu.macs_per_us / 1e3
    return Roofline(
        ops_per_weight_byte=intensity,
        ops_per_channel_byte=2.0 * result.macs / (result.channel_gb * 1e9),
        flash_gb_per_s=in_flash,
        channel_gb_per_s=wire,
        roof_gops=min(roof, npu) if result.options.prefill else roof,
        reached_gops=2.0 * result.macs / (result.latency_ms * 1e-3) / 1e9,
    )


def bottleneck(result: Result, machine: Machine) -> tuple[str, str]:
    """(what limits the run, what would help), said for a person."""
    units = result.units
    attention = sum(op.share for op in result.operators if op.unit == "npu + dram")
    cores, channels, dram = units["cores"].busy, units["channels"].busy, units["dram"].busy
    if attention > 0.4:
        return (
            f"DRAM: attention over the KV cache takes {attention:.0%} of the time, the DRAM is busy "
            f"{dram:.0%}",
            "a faster DRAM, a shorter context, grouped-query attention or an 8-bit KV cache",
        )
    if units["npu_array"].busy > max(cores, channels, 0.5):
        return f"the NPU's array, busy {units['npu_array'].busy:.0%}", "a larger array or a higher clock"
    both = cores > 0.8 and channels > 0.8
    if both:
        return (
            f"flash and channels alike: cores busy {cores:.0%}, channels {channels:.0%}; the split is "
            f"balanced",
            "more chips a channel (cores) or more channels; neither side alone",
        )
    if channels > 0.8:
        return f"the channels, busy {channels:.0%} (cores {cores:.0%})", "faster or more channels"
    if cores > 0.8:
        return (
            f"the flash cores, busy {cores:.0%} (channels {channels:.0%})",
            "a shorter tR with faster cores, or more chips",
        )
    products = sum(op.share for op in result.operators if op.unit == "flash + npu")
    within = cores / products
    if within > 0.85:
        return (
            f"nothing all the time: products keep the cores busy {within:.0%}, but attention takes {attention:.0%} of "
            f"the step and waits for the DRAM meanwhile",
            "a faster DRAM, a shorter context, or a shorter tR: each helps its share",
        )
    return (
        f"waiting: even during products the cores are busy {within:.0%} only (channels {channels:.0%} overall), "
        f"because matrices do not fill whole requests of {result.tile[0]}x{result.tile[1]} on all channels and cores",
        "tiles that divide the matrices (--tiling best), or a smaller device",
    )


WHAT_IF = (
    ("twice the chips a channel", lambda m: {"chips_per_channel": 2 * m.flash.chips_per_channel}),
    ("twice the channels", lambda m: {"channels": 2 * m.flash.channels}),
    ("twice the channel rate", lambda m: {"channel_gb_per_s": 2 * m.flash.channel_gb_per_s}),
    (
        "half the tR, cores to match",
        lambda m: {"read_us": m.flash.read_us / 2, "page_us": m.core.page_us / 2},
    ),
    ("twice the DRAM bandwidth", lambda m: {"dram_gb_per_s": 2 * m.dram.gb_per_s}),
)


def what_if(model: Model, machine: Machine, options: Options) -> list[tuple[str, float]]:
    """Tokens/s of the same run on machines that differ in one thing, each simulated in full."""
    from tileprobe.targets.cambricon.simulate import simulate

    rows = [
        (name, simulate(model, machine.replace(**change(machine)), options).tokens_per_s)
        for name, change in WHAT_IF
    ]
    if options.tiling == "paper" and not options.tile:
        rows.append(("--tiling best", simulate(model, machine, replace(options, tiling="best")).tokens_per_s))
    return rows
