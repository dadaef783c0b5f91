"""GPUs as targets: kernels run through Triton's own backends. Their records are not lowered yet, so a session leaves
launches on a GPU alone, and a plan for one is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout import Capabilities
from tileprobe.ir.machine import Unit
from tileprobe.targets.base import Finding, FixedClock, Level, NoRecords
from tileprobe.targets.triton_driver import Chosen, driver_of, refuse_settings

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

    from tileprobe.ir.structure import Structure


class _GpuTarget:
    name: str
    backend: str
    structure = "scf"
    takes = "record"
    capabilities = Capabilities((), (), (), (), 0)
    doses = ()
    memory = NoRecords()
    clock = FixedClock("gpu", 1e9)

    def machines(self) -> tuple[str, ...]:
        return ()

    def use(self, machine: str = "", **settings: Any) -> Any:
        refuse_settings(self.name, settings)
        return Chosen(driver_of(self.backend, must_answer=True))

    def array(self, data: Any, dtype: Any = None) -> Any:
        raise UnsupportedError(
            f"tensors of the target {self.name!r} are torch's: torch.tensor(..., device=...)"
        )

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        return [Unit(int(n), f"SM {n}", "sm") for n in numbers]

    def workers(self) -> int:
        return 1

    def text(self, level: str, ir: Mapping[str, str]) -> str | None:
        return ir.get(level)

    def examine(self) -> Iterable[Finding]:
        return ()

    def structures(self) -> Mapping[str, Callable[[], Structure]]:
        return {}

    def dialects(self) -> Sequence[Dialect]:
        return []

    def passes(self) -> Mapping[str, Callable[[], type[ModulePass]]]:
        return {}


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
