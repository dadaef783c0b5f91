"""The regions declared in a kernel's IR as the trace's table of regions."""

from __future__ import annotations

from xdsl.ir import Operation

from tileprobe.ir.probe import RegionOp
from tileprobe.trace.model import Region


def regions_of(kernel: Operation, kernel_id: int = 0, first_id: int = 0) -> list[Region]:
    """The regions of an instrumented kernel. `first_id` is added to their numbers, for traces of several
    kernels; a decoder's `region` column needs the same."""
    block = kernel.regions[0].blocks.first
    found: list[Region] = []
    depth: dict[int, int] = {}
    for op in block.ops if block is not None else ():
        if not isinstance(op, RegionOp):
            continue
        number, parent = op.region.data, None if op.within is None else op.within.data
        depth[number] = 0 if parent is None else depth.get(parent, 0) + 1
        found.append(
            Region(
                id=first_id + number,
                name=op.label.data,
                kind=op.kind.data,
                parent=None if parent is None else first_id + parent,
                kernel=kernel_id,
                file=op.file.data if op.file is not None else "",
                first_line=op.first_line.data if op.first_line is not None else 0,
                last_line=op.last_line.data if op.last_line is not None else 0,
                depth=depth[number],
                lines=tuple(line.data for line in op.lines) if op.lines is not None else (),
                estimate=op.estimate is not None,
            )
        )
    return found
