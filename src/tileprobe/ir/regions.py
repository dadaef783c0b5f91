"""The regions that a kernel's IR declares: the named pieces of which records, and a trace, speak.

Comes in: a kernel with `probe.region` ops. Goes out: a table of `Region`, which every level to the right shares.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tileprobe.ir.parts import Part, read_parts
from tileprobe.ir.probe import FLOWS, RegionOp


@dataclass(frozen=True)
class Region:
    """A named piece of a kernel. `parent` is the id of the region around it in the kernel's tree."""

    id: int
    name: str
    kind: str = "stage"  # kernel, loop, iteration, scope, or the kinds of operations in it: "load+dot"
    parent: int | None = None
    kernel: int = 0
    file: str = ""
    first_line: int = 0
    last_line: int = 0
    depth: int = 0
    lines: tuple[int, ...] = ()  # one by one, when they are not all from first to last
    estimate: bool = False  # its share of a fused stage is an estimate, not a measurement
    moved: float = 0.0  # the share of its instructions that the compiler put outside of its records
    parts: tuple[Part, ...] = ()  # what its own time is made of, by line and kind of operation: an estimate

    flops: int | None = None  # of one execution, but for regions inside it; None where that is not known
    bytes: int | None = None  # that one execution asks memory for, likewise
    flows: str = ""  # how its operations depend on each other (`ir.flows.read`), where that was asked

    def __post_init__(self) -> None:
        if self.parts and not isinstance(self.parts[0], Part):
            object.__setattr__(self, "parts", read_parts(self.parts))

    @property
    def all_lines(self) -> tuple[int, ...]:
        """Every line that went into the region; empty when its place is not known."""
        if self.lines or not self.first_line:
            return self.lines
        return tuple(range(self.first_line, max(self.first_line, self.last_line) + 1))

    @property
    def source(self) -> str:
        """`file.py:first-last`, `file.py:line`, or the empty string when the region has no place in a source file."""
        if not self.first_line:
            return ""
        last = max(self.first_line, self.last_line)
        lines = f"{self.first_line}-{last}" if last > self.first_line else f"{self.first_line}"
        return f"{self.file.rsplit('/', 1)[-1]}:{lines}"

    @property
    def remark(self) -> str:
        """Its source, and what is to be known of its times."""
        return "; ".join(filter(None, (self.source, moved_out(self.moved))))


def moved_out(share: float | None) -> str:
    """That so much of a region's instructions is not in its times; nothing where all are."""
    return f"{share:.0%} moved out by the compiler" if share else ""


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
                parts=op.own_parts,
                flops=op.flops.data if op.flops is not None else None,
                bytes=op.bytes.data if op.bytes is not None else None,
                flows=flows.data if isinstance(flows := op.attributes.get(FLOWS), StringAttr) else "",
            )
        )
    return found
