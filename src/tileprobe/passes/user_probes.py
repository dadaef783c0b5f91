"""user-probes: `tileprobe.language.mark` and `value` in a kernel, from the op that carries them to probes.

In comes instrumented IR. In Triton's IR they are prints with a prefix of ours, because a print stays where it is
written and takes a value; in a GPU's IR they are assembly that is nothing but a comment. Out go `probe.mark` and
`probe.value`, each a region of its own in the region around it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.blocks import insert_first
from tileprobe.ir.locations import source_location
from tileprobe.ir.probe import MarkOp, ProbeOp, RegionOp, StartOp, StopOp, ValueOp
from tileprobe.ir.registry import structure

PREFIX = "tileprobe."


@dataclass(frozen=True)
class UserProbesPass(ModulePass):
    """Turns the user's marks and values into probes."""

    name = "user-probes"

    structure: str = "scf"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in structure(self.structure).kernels(op):
            _place(kernel)


def is_user_probe(op: Operation) -> bool:
    """Whether an op of Triton's IR is a mark or a value of the user's."""
    return _said(op) is not None


def _said(op: Operation) -> tuple[str, str] | None:
    """Kind and name of what an op says for the user."""
    if op_name(op) == "tt.print":
        text = str(attr_value(op, "prefix") or "").strip()
    elif op_name(op) == "tt.elementwise_inline_asm":
        text = str(attr_value(op, "asm_string") or "").removeprefix("// ")
    else:
        return None
    if not text.startswith(PREFIX):
        return None
    kind, _, name = text.removeprefix(PREFIX).rstrip(": ").partition(":")
    return kind, name if op_name(op) == "tt.print" else bytes.fromhex(name).decode()


def drop_user_probes(kernel: Operation) -> None:
    """Takes marks and values out of a kernel that is not instrumented; they are no part of its work."""
    for op in [op for op in kernel.walk() if is_user_probe(op)]:
        op.detach()
        op.erase()


def _place(kernel: Operation) -> None:
    """Replaces the marks and values of a kernel by probes."""
    entry = kernel.regions[0].blocks[0]
    declared = [op for op in entry.ops if isinstance(op, RegionOp)]
    for op, (kind, name) in [(op, said) for op in kernel.walk() if (said := _said(op)) is not None]:
        assert op.parent is not None
        number = len(declared)
        place = source_location(op)
        where = (place.file, place.line, place.line) if place else ("", 0, 0)
        region = RegionOp.of(number, name, kind, _around(op), *where)
        entry.insert_op_after(region, declared[-1]) if declared else insert_first(entry, region)
        declared.append(region)
        made: ProbeOp = ValueOp(number, operands=[op.operands[0]]) if kind == "value" else MarkOp(number)
        op.parent.insert_op_before(made, op)
        op.detach()
        op.erase()


def _around(op: Operation | None) -> int | None:
    """The innermost region that is open before `op`."""
    while op is not None:
        closed = 0
        before = op.prev_op
        while before is not None:
            if isinstance(before, StopOp):
                closed += 1
            elif isinstance(before, StartOp):
                if not closed:
                    return before.region_id
                closed -= 1
            before = before.prev_op
        op = op.parent_op()
    return None
