"""A compiled CPU kernel as sessions see it: where it comes from, and how it is compiled once more with probes."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tileprobe.plugins import targets
from tileprobe.targets.base import Target, Variant
from tileprobe.targets.cpu.variants import recompiled
from tileprobe.targets.specialised import signature_of, source_of

_LEVELS = ("ttir", "tile", "llir")


class CpuKernel:
    """What belongs to one launcher of a kernel without probes."""

    machine = "cpu"

    def __init__(self, launcher: Any) -> None:
        self.launcher = launcher
        self.name: str = launcher.kernel
        self.target: Target = targets()["cpu"]
        function = getattr(launcher.src, "fn", None)
        self.source = source_of(function)
        self.arguments: tuple[tuple[str, str], ...] = launcher.arguments

    @cached_property
    def signature(self) -> str:
        return signature_of(self.launcher.src, getattr(self.launcher.metadata, "num_warps", 1))

    @property
    def key(self) -> Any:
        """By its code: threads that launch a kernel for the first time at the same moment each compile it."""
        code = getattr(self.launcher.metadata, "hash", None)
        return self.launcher if code is None else (code, self.source.file, self.source.first_line)

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
