"""GPUs as targets: kernels run through Triton's own backends. Their records are not lowered yet, so a session leaves
launches on a GPU alone, and a plan for one is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout import Capabilities
from tileprobe.ir.machine import Unit
from tileprobe.targets.base import CommonTarget, FixedClock, Level, NoRecords
from tileprobe.targets.triton_driver import Chosen, driver_of, refuse_settings


class _GpuTarget(CommonTarget):
    backend: str
    structure = "scf"
    takes = "record"
    capabilities = Capabilities((), (), (), (), 0)
    doses = ()
    memory = NoRecords()
    clock = FixedClock("gpu", 1e9)

    def use(self, machine: str = "", **settings: Any) -> Any:
        refuse_settings(self.name, settings)
        return Chosen(driver_of(self.backend, must_answer=True))

    def array(self, data: Any, dtype: Any = None) -> Any:
        raise UnsupportedError(
            f"tensors of the target {self.name!r} are torch's: torch.tensor(..., device=...)"
        )

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        return [Unit(int(n), f"SM {n}", "sm") for n in numbers]


class CudaTarget(_GpuTarget):
    name = "cuda"
    aliases = ("nvidia",)
    about = "an NVIDIA GPU through Triton's backend; kernels run, without probes as yet"
    backend = "nvidia"
    levels = (Level("ttir", "Triton's"), Level("ttgir", "Triton's for GPUs", shown=True), Level("ptx", "PTX"))


class HipTarget(_GpuTarget):
    name = "hip"
    aliases = ("amd",)
    about = "an AMD GPU through Triton's backend; kernels run, without probes as yet"
    backend = "amd"
    levels = (
        Level("ttir", "Triton's"),
        Level("ttgir", "Triton's for GPUs", shown=True),
        Level("amdgcn", "machine code"),
    )
