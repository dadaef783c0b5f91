"""Probes in a CPU kernel: the pass pipeline of the instrumentation mode, applied to scheduled tile IR.

Comes in: tile IR and Triton's instrumentation mode. Goes out: the same module with record ops between its
stages, and what a session needs to decode them: regions, record layout, the IR of each level.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileprobe.ir.mode import pipeline_in


def add_probes(tile: ModuleOp, mode: str) -> dict[str, Any] | None:
    """Runs the pipeline that `mode` asks for on `tile`, in place. None when it asks for none or finds nothing
    to probe; then the module does what it did before."""
    text = pipeline_in(mode or "")
    if text is None:
        return None
    from xdsl.context import Context

    from tileprobe.ir.record import OpenOp
    from tileprobe.ir.regions import regions_of
    from tileprobe.ir.registry import pipeline
    from tileprobe.ir.rows import changed
    from tileprobe.targets.cpu.structure import TileStructure
    from tileprobe.targets.cpu.user_probes import drop_user_probes, place_user_probes

    ctx = Context(allow_unregistered=True)
    kernel = TileStructure().kernels(tile)[0]
    found: dict[str, Any] = {"pipeline": text, "ir": {}}
    for step in pipeline(text).passes:
        if step.name == "select":
            step = replace(step, scopes=(*step.scopes, *_scopes(kernel)))  # type: ignore[attr-defined]
        if step.name == "assign-slots":
            found["regions"] = [changed(region) for region in regions_of(kernel)]
            found["ir"]["probe"] = str(tile)
        step.apply(ctx, tile)
        if step.name == "instrument":
            place_user_probes(kernel)
    drop_user_probes(kernel)
    opened = next((op for op in kernel.walk() if isinstance(op, OpenOp)), None)
    if opened is None or opened.layout is None:
        return None
    found["layout"] = json.loads(opened.layout.data)
    found["ir"]["record"] = str(tile)
    return found


def _scopes(kernel: Operation) -> list[str]:
    """The user's scopes in the files that the kernel's stages come from."""
    from tileprobe.ir.scopes import scopes_in
    from tileprobe.targets.cpu.structure import TileStructure

    how = TileStructure()
    files = {lines.file for op in kernel.walk() if (lines := how.lines(op)) is not None}
    return [str(scope) for file in sorted(files) for scope in scopes_in(file)]
