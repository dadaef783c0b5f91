"""A compiled CPU kernel as sessions see it: where it comes from, and how it is compiled once more with probes."""

from __future__ import annotations

from typing import Any

from tileprobe.plugins import targets
from tileprobe.targets.base import Source, Target, Variant
from tileprobe.targets.cpu.variants import recompiled

_LEVELS = ("ttir", "tile", "llir")


class CpuKernel:
    """What belongs to one launcher of a kernel without probes."""

    machine = "cpu"

    def __init__(self, launcher: Any) -> None:
        self.launcher = launcher
        self.name: str = launcher.kernel
        function = getattr(launcher.src, "fn", None)
        self.source = Source(
            getattr(function, "file_name", ""),
            getattr(function, "starting_line_number", 0),
            "".join(getattr(function, "raw_src", ())),
        )

    @property
    def target(self) -> Target:
        return targets()["cpu"]

    @property
    def key(self) -> Any:
        return self.launcher  # by identity: Triton makes one a compiled kernel

    def compile(self, pipeline: str) -> Variant:
        from tileprobe.ir.layout import Layout
        from tileprobe.ir.mode import with_pipeline
        from tileprobe.ir.regions import Region
        from tileprobe.ir.rows import with_tuples

        mode = with_pipeline(self.launcher.metadata.instrumentation_mode, pipeline)
        compiled = recompiled(self.launcher, instrumentation_mode=mode)
        probing = compiled.run.probing or {}
        layout = Layout.from_json(probing["layout"]) if probing else None
        regions = tuple(
            Region(**{"id": 0, "name": "", **with_tuples(row)}) for row in probing.get("regions", ())
        )
        levels = {level: compiled.asm[level] for level in _LEVELS if level in compiled.asm}
        notes = tuple(probing.get("unpaired", ()))
        return Variant(compiled.hash, compiled, layout, regions, levels | probing.get("ir", {}), notes)
