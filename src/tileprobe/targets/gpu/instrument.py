"""A pass pipeline on the final TTGIR of a kernel, down to Triton's own IR, and what has to be known of it afterwards.

In comes a bridged module; it is changed in place. Out go the regions, the layout, the IR of each level, the records
that the machine code must have, and which ops stand between which of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from tileprobe.ir.accessors import op_name
from tileprobe.ir.layout import Layout
from tileprobe.ir.locations import call_chain
from tileprobe.ir.record import OpenOp, slot_of
from tileprobe.ir.regions import Region, regions_of
from tileprobe.ir.registry import context
from tileprobe.ir.writer import attribute_text
from tileprobe.passes import pipeline as passes_of
from tileprobe.targets.gpu.compile import Site
from tileprobe.targets.gpu.idle import idle_loops
from tileprobe.targets.gpu.machine_ops import EXCHANGES, OPCODES
from tileprobe.targets.gpu.passes.record_to_ttgir import RecordToTtgirPass
from tileprobe.targets.gpu.structure import TtgirStructure
from tileprobe.targets.gpu.waits import behind_barriers
from tileprobe.targets.gpu.worth import heaviest

_LEAVE = {*OPCODES, *EXCHANGES}


@dataclass(frozen=True)
class Instrumented:
    layout: Layout
    regions: tuple[Region, ...]
    levels: dict[str, str]
    notes: tuple[str, ...]
    records: tuple[int, ...]
    sites: tuple[Site, ...]
    share: float  # of a loop's time that its records take, of the loop that suffers most
    idle: tuple[frozenset[int], ...]  # records of each loop that never runs


def instrument(module: ModuleOp, pipeline: str) -> Instrumented | None:
    """Runs a pipeline and lowers its records; None when there are none."""
    ctx = context()
    levels: dict[str, str] = {}
    for step in passes_of(pipeline).passes:
        if (level := getattr(step, "lowers", None)) is not None:
            levels[level] = str(module)
        step.apply(ctx, module)
    opened = [op for op in module.walk() if isinstance(op, OpenOp)]
    whole = next((op for op in opened if op.layout is not None), None)
    if whole is None or whole.layout is None:
        return None
    behind_barriers(module)
    levels["record"] = str(module)
    kernel = TtgirStructure().kernels(module)[0]
    made = Instrumented(
        Layout.from_json(json.loads(whole.layout.data)),
        tuple(regions_of(kernel)),
        levels,
        tuple(note.data for note in whole.unpaired or ()),
        tuple(slot for op in module.walk() if (slot := slot_of(op)) is not None),
        tuple(
            site for op in module.walk() for region in op.regions for b in region.blocks for site in _sites(b)
        ),
        heaviest(module),
        idle_loops(module),
    )
    RecordToTtgirPass().apply(ctx, module)
    return made


def _sites(block: Block) -> list[Site]:
    """The ops of a block that leave instructions of their own, each with the records before and after it, or -1.
    Control flow, in which others may lie, parts them."""
    found: list[tuple[Operation, int]] = []
    made: list[Site] = []
    before = -1
    for op in block.ops:
        slot = slot_of(op)
        if slot is not None or op_name(op).startswith(("scf.", "ttg.warp_specialize")):
            made += [site for inner, first in found if (site := _site(inner, first, slot)) is not None]
            found, before = [], -1 if slot is None else slot
        elif op_name(op) in _LEAVE and (op.operands or not op_name(op).endswith("_alloc")):
            found.append((op, before))
    return made + [site for inner, first in found if (site := _site(inner, first, None)) is not None]


def _site(op: Operation, before: int, after: int | None) -> Site | None:
    frames = call_chain(op)
    if not frames:
        return None
    types = [attribute_text(value.type) for value in (*op.operands, *op.results)]
    kind = f"{op_name(op)} {', '.join(types)}"
    ends = (before, after) if before >= 0 and after is not None else (-1, -1)
    return Site(op_name(op), frames[0].file, frames[0].line, *ends, kind)
