"""The truth beside what was recorded, of kernels that a simulated machine also ran without probes (`--verify`).

In comes a trace; out goes what probes cost a kernel, told apart by where it comes from, and how far the corrected time
of each of its regions is from the time that it takes when records are free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tileprobe.trace import Kernel, Region, Trace


@dataclass(frozen=True)
class RegionTruth:
    region: Region
    count: int
    true_ns: float
    raw_ns: float
    corrected_ns: float
    plain_ns: float | None = None  # in the plain run, by lines; None where it has no such place
    interleaved_percent: float | None = None  # of that, instructions of other regions

    @property
    def code_percent(self) -> float | None:
        """How much longer it is, with records that take no time, than in the plain run."""
        return 100.0 * (self.true_ns / self.plain_ns - 1.0) if self.plain_ns else None

    @property
    def records_percent(self) -> float:
        """How much longer records make it before they are taken out."""
        return 100.0 * (self.raw_ns / self.true_ns - 1.0) if self.true_ns else 0.0

    @property
    def error_percent(self) -> float:
        """How much longer the corrected time is than the true one."""
        return 100.0 * (self.corrected_ns / self.true_ns - 1.0) if self.true_ns else 0.0


@dataclass(frozen=True)
class Truth:
    """`records_percent` is what records take, `code_percent` what the compiler made of the rest of the kernel because
    of them; both are of the plain kernel's time."""

    launches: int
    plain_ns: float
    free_ns: float
    probed_ns: float
    regions: tuple[RegionTruth, ...]

    @property
    def overhead_percent(self) -> float:
        return 100.0 * (self.probed_ns / self.plain_ns - 1.0)

    @property
    def records_percent(self) -> float:
        return 100.0 * (self.probed_ns - self.free_ns) / self.plain_ns

    @property
    def code_percent(self) -> float:
        return 100.0 * (self.free_ns / self.plain_ns - 1.0)

    @property
    def mean_error_percent(self) -> float | None:
        """Of regions, without the kernel as a whole, each by its time."""
        inside = [row for row in self.regions if row.region.kind != "kernel"]
        weight = sum(row.true_ns for row in inside)
        return sum(abs(row.corrected_ns - row.true_ns) for row in inside) / weight * 100.0 if weight else None

    @property
    def worst(self) -> RegionTruth | None:
        inside = [row for row in self.regions if row.region.kind != "kernel"]
        return max(inside, key=lambda row: abs(row.error_percent), default=None)


def verified(trace: Trace, kernel: Kernel) -> Truth | None:
    """What is known for certain of a kernel; None where nobody verified it, or the file says something else."""
    found: Any = kernel.calibration.get("verified")
    regions = sorted((r for r in trace.regions if r.kernel == kernel.id), key=lambda region: region.id)
    try:
        rows = tuple(
            RegionTruth(
                regions[int(row["region"])],
                int(row["count"]),
                float(row["true_ns"]),
                float(row["raw_ns"]),
                float(row["corrected_ns"]),
                *(float(row[name]) if name in row else None for name in ("plain_ns", "interleaved_percent")),
            )
            for row in found["regions"]
        )
        plain, free, probed = (float(found[name]) for name in ("plain_ns", "free_ns", "probed_ns"))
        return Truth(int(found["launches"]), plain, free, probed, rows) if plain > 0 else None
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        return None
