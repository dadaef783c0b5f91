"""Cambricon-LLM as a target: simulated, so its intervals are exact and probes cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileprobe.errors import UnsupportedError
from tileprobe.ir.machine import SIMULATED
from tileprobe.targets.base import FixedClock, Level, SimulatedTarget

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

    from tileprobe.ir.structure import Structure

TICKS_PER_US = 1e6  # picoseconds: the engine's times are exact far below that


class CambriconTarget(SimulatedTarget):
    name = "cambricon"
    about = "Cambricon-LLM, simulated: an NPU and flash that computes; `tileprobe llm` runs models on it"
    structure = "cam"
    levels = (Level("cam", "one step, mapped to commands"), Level("probe", "what is measured", shown=True))
    clock = FixedClock(SIMULATED, TICKS_PER_US * 1e6)

    def machines(self) -> tuple[str, ...]:
        from tileprobe.targets.cambricon.device_file import PREFIX, device_names

        return tuple(name.removeprefix(PREFIX) for name in device_names())

    def use(self, machine: str = "", **settings: Any) -> Any:
        raise UnsupportedError(
            "Cambricon-LLM runs models, not Triton kernels: tileprobe llm --model NAME "
            f"--device cambricon:{machine or 's'}"
        )

    def structures(self) -> Mapping[str, Callable[[], Structure]]:
        from tileprobe.targets.cambricon.structure import CamStructure

        return {"cam": CamStructure}

    def dialects(self) -> Sequence[Dialect]:
        from tileprobe.targets.cambricon.dialect import Cam

        return [Cam]

    def passes(self) -> Mapping[str, Callable[[], type[ModulePass]]]:
        from tileprobe.passes import passes_in

        return passes_in("tileprobe.targets.cambricon.passes")
