"""GPUs as targets: Triton's own NVIDIA and AMD backends compile and launch, records are lowered into their IR.

Compiling needs no GPU; the machine after the colon (`cuda:90`, `hip:gfx942`) is the one to compile for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileprobe.errors import TileProbeError, UnsupportedError
from tileprobe.ir.layout import Capabilities
from tileprobe.ir.machine import Unit
from tileprobe.targets.base import CommonTarget, FixedClock, Level, NoRecords
from tileprobe.targets.triton_driver import Chosen, driver_of, refuse_settings

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from tileprobe.ir.structure import Structure
    from tileprobe.targets.gpu.static import Static

_OURS = (
    Level("ttir", "Triton's"),
    Level("ttgir", "Triton's for GPUs", shown=True),
    Level("probe", "what is measured", shown=True),
    Level("record", "how", shown=True),
    Level("probed", "records in Triton's IR"),
)


class _GpuTarget(CommonTarget):
    backend: str
    architectures: tuple[str, ...]
    structure = "ttgir"
    takes = "record"
    doses = ()
    memory = NoRecords()
    clock = FixedClock("gpu", 1e9)

    def machines(self) -> tuple[str, ...]:
        return self.architectures

    def use(self, machine: str = "", **settings: Any) -> Any:
        refuse_settings(self.name, settings)
        chosen = Chosen(driver_of(self.backend, must_answer=True))
        self._check_machine(machine)
        return chosen

    def _check_machine(self, machine: str) -> None:
        from triton.runtime import driver

        active: Any = driver.active
        there = str(active.get_current_target().arch)
        if machine and machine != there:
            raise TileProbeError(
                f"the GPU here is {self.name}:{there}; kernels for {self.name}:{machine} can be inspected here, "
                f"but not run: tileprobe inspect --target {self.name}:{machine}"
            )

    def static(self, machine: str = "") -> Static:
        """Compiles what a script launches for a machine that need not be there, and runs none of it: static evidence,
        for `tileprobe inspect`."""
        from tileprobe.targets.gpu.static import Static

        if not machine:
            raise TileProbeError(
                f"name the machine to compile for: {', '.join(f'{self.name}:{m}' for m in self.architectures)}"
            )
        return Static(self.name, machine)

    def array(self, data: Any, dtype: Any = None) -> Any:
        raise UnsupportedError(
            f"tensors of the target {self.name!r} are torch's: torch.tensor(..., device=...)"
        )

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        return [Unit(int(n), f"SM {n}", "sm") for n in numbers]

    def structures(self) -> Mapping[str, Callable[[], Structure]]:
        from tileprobe.targets.gpu.structure import TtgirStructure

        return {"ttgir": TtgirStructure}

    def passes(self) -> Mapping[str, Callable[[], type[ModulePass]]]:
        from tileprobe.passes import passes_in

        return passes_in("tileprobe.targets.gpu.passes")


class CudaTarget(_GpuTarget):
    name = "cuda"
    aliases = ("nvidia",)
    about = "an NVIDIA GPU through Triton's backend; without one, kernels can be compiled and inspected"
    backend = "nvidia"
    architectures = ("80", "86", "89", "90", "100", "120")
    levels = (*_OURS, Level("ptx", "PTX"), Level("sass", "machine code"))
    capabilities = Capabilities(
        ("program", "warp", "warp_group"), ("global",), ("exact", "circular"), (64, 32), streams=64
    )


class HipTarget(_GpuTarget):
    name = "hip"
    aliases = ("amd",)
    about = "an AMD GPU through Triton's backend; without one, kernels can be compiled and inspected"
    backend = "amd"
    architectures = ("gfx942", "gfx950", "gfx1100")
    levels = (*_OURS, Level("amdgcn", "machine code"))
    capabilities = Capabilities(
        ("program", "warp", "warp_group"), ("global",), ("exact", "circular"), (64, 32), streams=64
    )
