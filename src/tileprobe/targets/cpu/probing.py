"""Probes in a CPU kernel: the pass pipeline of the instrumentation mode, applied to scheduled tile IR.

Comes in: tile IR and Triton's instrumentation mode. Goes out: the same module with record ops between its
stages, and what a session needs to decode them: regions, record layout, the IR of each level.
"""

from __future__ import annotations

import json
from typing import Any

from xdsl.dialects.builtin import ModuleOp

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
    from tileprobe.ir.rows import changed
    from tileprobe.passes import pipeline
    from tileprobe.passes.user_probes import drop_user_probes
    from tileprobe.targets.cpu.access_forms import places_of
    from tileprobe.targets.cpu.structure import TileStructure

    places = places_of(tile)
    ctx = Context(allow_unregistered=True)
    levels: dict[str, str] = {}
    for step in pipeline(text).passes:
        if (level := getattr(step, "lowers", None)) is not None:
            levels[level] = str(tile)
        step.apply(ctx, tile)
    kernel = TileStructure().kernels(tile)[0]
    drop_user_probes(kernel)
    opened = next((op for op in kernel.walk() if isinstance(op, OpenOp)), None)
    if opened is None or opened.layout is None:
        return None
    return {
        "pipeline": text,
        "regions": [changed(region) for region in regions_of(kernel)],
        "layout": json.loads(opened.layout.data),
        "places": places,
        "unpaired": [note.data for note in opened.unpaired or ()],
        "ir": {**levels, "record": str(tile)},
    }
