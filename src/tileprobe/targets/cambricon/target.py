"""Cambricon-LLM as a target: simulated, so its intervals are exact and probes cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout import Capabilities
from tileprobe.ir.machine import Unit
from tileprobe.targets.base import Finding, FixedClock, Level, NoRecords

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

    from tileprobe.ir.structure import Structure

TICKS_PER_US = 1e6  # picoseconds: the engine's times are exact far below that


class CambriconTarget:
    name = "cambricon"
    aliases = ()
    about = "Cambricon-LLM, simulated: an NPU and flash that computes; `tileprobe llm` runs models on it"
    structure = "cam"
    takes = "probe"
    levels = (Level("cam", "one step, mapped to commands"), Level("probe", "what is measured", shown=True))
    capabilities = Capabilities((), (), (), (), 0)
    doses = ()
    memory = NoRecords()
    clock = FixedClock("simulated", TICKS_PER_US * 1e6)

    def machines(self) -> tuple[str, ...]:
        devices = Path(__file__).parent / "devices"
        return tuple(sorted(path.stem for path in devices.glob("?.toml")))

    def use(self, machine: str = "", **settings: Any) -> Any:
        raise UnsupportedError(
            "Cambricon-LLM runs models, not Triton kernels: tileprobe llm --model NAME "
            f"--device cambricon:{machine or 's'}"
        )

    def array(self, data: Any, dtype: Any = None) -> Any:
        raise UnsupportedError("Cambricon-LLM runs models; it takes no tensors")

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        return [Unit(int(n), f"unit {n}", "unit") for n in numbers]

    def workers(self) -> int:
        return 1

    def text(self, level: str, ir: Mapping[str, str]) -> str | None:
        return ir.get(level)

    def examine(self) -> Iterable[Finding]:
        return ()

    def structures(self) -> Mapping[str, Callable[[], Structure]]:
        from tileprobe.targets.cambricon.structure import CamStructure

        return {"cam": CamStructure}

    def dialects(self) -> Sequence[Dialect]:
        from tileprobe.targets.cambricon.dialect import Cam

        return [Cam]

    def passes(self) -> Mapping[str, Callable[[], type[ModulePass]]]:
        from tileprobe.passes import passes_in

        return passes_in("tileprobe.targets.cambricon.passes")
