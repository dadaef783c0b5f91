"""The CPU as a target: the default one, on which stock Triton kernels really compile and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileprobe.ir.layout import Capabilities
from tileprobe.ir.machine import Unit
from tileprobe.targets.base import CommonTarget, CudaProperties, Finding, Level
from tileprobe.targets.cpu.clock_source import CpuClock
from tileprobe.targets.cpu.record_memory import CpuMemory

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

    from tileprobe.ir.amounts import Roof, Roofs
    from tileprobe.ir.flows import Costs
    from tileprobe.ir.structure import Structure


class CpuTarget(CommonTarget):
    name = "cpu"
    about = "this machine's CPU; stock Triton kernels compile and run here"
    structure = "tile"
    takes = "record"
    levels = (
        Level("ttir", "Triton's"),
        Level("tile", "scheduled", shown=True),
        Level("probe", "what is measured", shown=True),
        Level("record", "how", shown=True),
        Level("llir", "LLVM"),
        Level("asm", "machine code"),
    )
    capabilities = Capabilities(clock_bits=(64, 32))
    doses = (1, 3)
    hides_records = True  # a core goes on with other work while it reads the counter

    def __init__(self) -> None:
        self.clock = CpuClock()
        self.memory = CpuMemory()

    @property
    def cache_bytes(self) -> int:
        """Of the last cache."""
        from tileprobe.targets.cpu.device import last_level_cache_bytes

        return last_level_cache_bytes()

    def use(self, machine: str = "", *, threads: int | None = None, check_bounds: bool | None = None) -> Any:
        from tileprobe.targets.cpu import pool
        from tileprobe.targets.cpu.options import settings
        from tileprobe.targets.triton_driver import Chosen, driver_of

        checked, wanted = settings.check_bounds, pool.wanted_threads()

        def restore() -> None:
            settings.check_bounds = checked
            pool.set_threads(wanted)

        chosen = Chosen(driver_of("cpu", must_answer=False), restore)
        if threads is not None:
            pool.set_threads(threads)
        if check_bounds is not None:
            settings.check_bounds = bool(check_bounds)
        return chosen

    def array(self, data: Any, dtype: Any = None) -> Any:
        from tileprobe.targets.cpu.tensors import array

        return array(data, dtype)

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        return [Unit(int(n), f"core {n}") for n in numbers]

    def workers(self) -> int:
        from tileprobe.targets.cpu import pool

        return pool.current().threads

    def cuda_properties(self, machine: str = "") -> CudaProperties:
        from tileprobe.targets.cpu.device import last_level_cache_bytes, memory_bytes

        return CudaProperties(
            name="CPU (tileprobe)",
            # Several even where there is one core: a grid of one program would leave the others idle, and programs
            # that are spread unevenly wait for the last.
            multiprocessors=max(2 * self.workers(), 8),
            memory_bytes=memory_bytes(),
            cache_bytes=last_level_cache_bytes(),
        )

    def costs(self, machine: str = "") -> Costs:
        from tileprobe.targets.cpu.latencies import costs

        return costs()

    def roof_table(self) -> list[Roof]:
        from tileprobe.targets.cpu.roof_table import roof_table

        return roof_table()

    def roofs(self, machine: str = "") -> Roofs:
        from tileprobe.targets.cpu.roofs import roofs

        return roofs()

    def text(self, level: str, ir: Mapping[str, str]) -> str | None:
        if level != "asm" or "llir" not in ir:
            return ir.get(level)
        from tileprobe.targets.cpu.loader import assembly

        return assembly(ir["llir"])

    def examine(self) -> Iterable[Finding]:
        from tileprobe.targets.cpu.checkup import examine

        return examine()

    def structures(self) -> Mapping[str, Callable[[], Structure]]:
        from tileprobe.targets.cpu.structure import TileStructure

        return {"tile": TileStructure}

    def dialects(self) -> Sequence[Dialect]:
        from tileprobe.targets.cpu.dialect import Tile

        return [Tile]

    def passes(self) -> Mapping[str, Callable[[], type[ModulePass]]]:
        from tileprobe.passes import passes_in

        return passes_in("tileprobe.targets.cpu.passes")
