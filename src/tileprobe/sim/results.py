"""What a launch on a simulated GPU took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tileprobe.errors import TileProbeError

if TYPE_CHECKING:
    from tileprobe.targets.simgpu.launched import Launched


@dataclass(frozen=True)
class Result:
    """One launch. Cycles, stalls and counters are there where it was timed; asking for them is an error otherwise."""

    kernel: str
    machine: str  # "sim:a100"
    grid: tuple[int, int, int]
    constants: Mapping[str, Any]  # that it was compiled with; of an autotuned kernel, what was chosen
    instructions: int  # of all warps
    warps: int  # of a program
    registers: int  # of a thread
    spill_bytes: int  # local memory of a thread
    shared_bytes: int  # of a program
    occupancy_warps: int  # that a multiprocessor has room for
    occupancy_limiter: str  # "registers", "shared memory", "programs", "warps"
    occupancy: float  # the same as a share of what the multiprocessor could hold
    races: tuple[str, ...]  # each pair of accesses that nothing orders, in sentences
    model: str  # a key of the model: figures may differ where it does
    clock_mhz: int
    estimate: str = ""  # where a part of the launch was timed (`waves`, `sms`): what that was
    _cycles: int | None = None
    _counters: Mapping[str, int] = field(default_factory=dict)
    _stalls: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, launch: Launched) -> Result:
        from tileprobe.targets.simgpu.model import fingerprint

        took, held = launch.took, launch.occupancy
        return cls(
            kernel=launch.kernel,
            machine=f"sim:{launch.machine_name}",
            grid=launch.grid,
            constants=launch.constants,
            instructions=launch.instructions,
            warps=launch.warps,
            registers=launch.program.cubin.registers,
            spill_bytes=launch.spill_bytes,
            shared_bytes=launch.shared_bytes,
            occupancy_warps=held.warps,
            occupancy_limiter=held.limiter,
            occupancy=held.warps / launch.machine.warps_multiprocessor,
            races=launch.races,
            model=fingerprint(launch.machine_name),
            clock_mhz=launch.machine.clock_mhz,
            estimate="" if took is None or took.part is None else took.part.said(),
            _cycles=None if took is None else took.cycles,
            _counters={} if took is None else dict(took.counters),
            _stalls={} if took is None else took.reasons(),
        )

    @property
    def timed(self) -> bool:
        return self._cycles is not None

    @property
    def cycles(self) -> int:
        """From the launch to the end of the last program."""
        self._must_be_timed("cycles")
        return self._cycles or 0

    @property
    def microseconds(self) -> float:
        """The same at the machine's nominal clock."""
        return self.cycles / self.clock_mhz

    @property
    def counters(self) -> Mapping[str, int]:
        """Sectors, bank conflicts, bytes of DRAM."""
        self._must_be_timed("counters")
        return self._counters

    @property
    def stalls(self) -> Mapping[str, int]:
        """Cycles that warps lost, by reason in Nsight Compute's words."""
        self._must_be_timed("stalls")
        return self._stalls

    @property
    def conflicts(self) -> int:
        """Passes through shared memory beyond those that were needed."""
        return self.counters["bank_conflicts"]

    @property
    def dram_bytes(self) -> int:
        """Read and written."""
        return self.counters["dram_bytes_read"] + self.counters["dram_bytes_written"]

    def _must_be_timed(self, what: str) -> None:
        if not self.timed:
            raise TileProbeError(f"kernel {self.kernel} has no {what}: it was run without time (timed=True)")

    def __repr__(self) -> str:
        cycles = f"cycles={self._cycles}, " if self.timed else ""
        return f"Result({self.kernel} on {self.machine}: {cycles}instructions={self.instructions})"
