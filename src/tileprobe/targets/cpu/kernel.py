"""A compiled CPU kernel as sessions see it: where it comes from, and how it is compiled once more with probes."""

from __future__ import annotations

from functools import cached_property
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
        self.target: Target = targets()["cpu"]
        function = getattr(launcher.src, "fn", None)
        self.source = Source(
            getattr(function, "file_name", ""),
            getattr(function, "starting_line_number", 0),
            "".join(getattr(function, "raw_src", ())),
        )

        self.arguments: tuple[tuple[str, str], ...] = launcher.arguments

    @cached_property
    def signature(self) -> str:
        """How it was specialised: "x: *fp32, n: i32 %16, BLOCK=128, num_warps=4"."""
        source = self.launcher.src
        constants, attributes = getattr(source, "constants", {}), getattr(source, "attrs", {})
        parts = [
            f"{name}={_constant(constants.get((n,)))}" if kind == "constexpr"
            else f"{name}: {kind}{_known(str(kind), attributes.get((n,)))}"
            for n, (name, kind) in enumerate(source.signature.items())
        ]  # fmt: skip
        return ", ".join([*parts, f"num_warps={getattr(self.launcher.metadata, 'num_warps', 1)}"])

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


def _constant(value: Any) -> str:
    """A constant in short: a number, or the name of a function or a type."""
    return getattr(value, "__name__", None) or str(value)


def _known(kind: str, attributes: Any) -> str:
    """What the code assumes of an argument: most pointers are aligned, most numbers are not divisible."""
    by = dict(attributes or ()).get("tt.divisibility")
    if kind.startswith("*"):
        return "" if by else " unaligned"
    return f" %{by}" if by else ""
