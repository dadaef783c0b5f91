"""Area and cost of a device, from what the user says its parts take: nothing is known of them here but the compute
cores' area, which has its source in the device's file.

    --area die=66 --area npu=4.5     square millimetres of each
    --cost die=3.1 --cost dram_gb=2  in whatever the user counts

Packages that share a model have all of it each, so area and cost are so many times those of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import Machine

PARTS = {
    "device": "1 a package",
    "channel": "channels",
    "chip": "flash chips",
    "die": "flash dies",
    "core": "compute cores, one or more on a die",
    "npu": "1 a package",
    "pe": "processing elements of the NPU's array",
    "sram_mib": "MiB of the NPU's SRAM",
    "dram_gb": "GB of DRAM",
}


def counts(machine: Machine) -> dict[str, float]:
    """How many of each part a package has."""
    flash, npu = machine.flash, machine.npu
    return {
        "device": 1, "channel": flash.channels, "chip": flash.channels * flash.chips_per_channel, "die": machine.dies,
        "core": flash.channels * machine.cores_per_channel, "npu": 1, "pe": npu.array_rows * npu.array_cols,
        "sram_mib": npu.sram_bytes / 2**20, "dram_gb": machine.dram.capacity_bytes / 1e9,
    }  # fmt: skip


@dataclass(frozen=True)
class Prices:
    """What a part takes, of area and of cost."""

    area: Mapping[str, float]
    cost: Mapping[str, float]

    def mm2(self, machine: Machine, packages: int = 1) -> float:
        """All areas that were given; the cores' own from the device's file where none was given for them."""
        cores = 0.0 if "core" in self.area else machine.core_area_mm2
        return packages * (cores + self._sum(self.area, machine))

    def price(self, machine: Machine, packages: int = 1) -> float:
        return packages * self._sum(self.cost, machine)

    def _sum(self, each: Mapping[str, float], machine: Machine) -> float:
        there = counts(machine)
        return sum(there[part] * value for part, value in each.items())

    def told(self) -> str:
        """What area and cost count, for people."""
        areas = [f"{part} {value:g}" for part, value in self.area.items()]
        if "core" not in self.area:
            areas = ["compute cores (the device's file)", *areas]
        said = f"mm2 counts {', '.join(areas)}"
        return said + (
            f"; cost counts {', '.join(f'{p} {v:g}' for p, v in self.cost.items())}" if self.cost else ""
        )


def parse_prices(areas: Sequence[str], costs: Sequence[str]) -> Prices:
    return Prices(_parse("--area", areas), _parse("--cost", costs))


def _parse(option: str, texts: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        part, _, said = text.partition("=")
        if part not in PARTS:
            raise TileProbeError(f"{option} {text}: no part {part!r}; the parts are {', '.join(PARTS)}")
        try:
            value = float(said)
        except ValueError:
            value = math.nan
        if not (value >= 0 and math.isfinite(value)):
            raise TileProbeError(f"{option} {text!r}: write PART=NUMBER, zero or more, such as die=66")
        if part in found:
            raise TileProbeError(f"{option} {part} is given twice")
        found[part] = value
    return found
