"""Waits among records: Triton puts a barrier behind the last wait of a row, and none where a partition ends with one.

In comes a module with `record` ops; out goes the same with records and waits where they bring no barrier of their own.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region

from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.targets.gpu.emit import Emitter, Threads

# What Triton's analysis of shared memory looks for one after another.
_WAITS = (
    "ttg.async_wait",
    "ttng.async_tma_store_wait",
    "ttng.warp_group_dot_wait",
    "amdg.async_wait",
    "amdg.async_tdm_wait",
)
_STORE_WAIT = "ttng.async_tma_store_wait"
_BARRIERS = ("ttg.barrier", "gpu.barrier", "ttng.cluster_barrier")


def behind_barriers(module: ModuleOp) -> None:
    """Moves records behind waits and barriers that stand in a row: Triton puts a barrier behind the last wait of a row,
    and would take a record for its end."""
    for wait in [op for op in module.walk() if op_name(op) in _WAITS]:
        block, records = wait.parent, []
        after = wait.next_op
        while after is not None and after.name.startswith("record."):
            records.append(after)
            after = after.next_op
        if block is None or not records or after is None or op_name(after) not in (*_WAITS, *_BARRIERS):
            continue
        for record in records:
            record.detach()
        behind = after.next_op
        assert behind is not None  # a block ends with a terminator
        block.insert_ops_before(records, behind)


def last_waits(module: ModuleOp) -> None:
    """A partition whose last op is a wait for its stores needs no barrier behind it, as its end is one. With a record
    in between Triton would add one, so the wait becomes the instruction that Triton makes of it."""
    for wait in [op for op in module.walk() if op_name(op) == _STORE_WAIT]:
        block, after = wait.parent, wait.next_op
        while after is not None and after.name.startswith("record."):
            after = after.next_op
        if block is None or after is None or after is wait.next_op or op_name(after) != "ttg.warp_return":
            continue
        threads = Threads(warps_of(block), 32, attr_value(module, "ttg.num-ctas") or 1)
        emit = Emitter(block, wait, threads, wait.location)
        zero = [emit.constant(0)]
        read = ".read" if attr_value(wait, "read_only") else ""
        text = f"mov.b32 $0, $1; cp.async.bulk.wait_group{read} {attr_value(wait, 'pendings')};"
        emit.assembly(text, "=r,r", zero, ["i32"])
        drop([wait])


def drop(ops: list[Operation]) -> None:
    """Erases ops that use each other, the last ones first."""
    for op in reversed(ops):
        op.detach()
        op.erase()


def warps_of(block: Block) -> int:
    """The warps that run a stream: those of the kernel, or of the partition it is."""
    region: Region | None = block.parent
    assert region is not None
    above = region.parent
    assert above is not None
    if op_name(above) == "ttg.warp_specialize.partitions":
        holder = above.parent_op()
        assert holder is not None
        return int(attr_value(holder, "partitionNumWarps")[above.regions.index(region)])
    module = above
    while (outer := module.parent_op()) is not None:
        module = outer
    return int(attr_value(module, "ttg.num-warps"))
