"""Which share of a loop's time its records would take: known before anything runs, so that a default plan is no heavier
than it is worth.

In comes a module with `record` ops; out goes, for the loop that would suffer most, the cycles of an iteration's records
against those that its products, copies and arithmetic take at the least on one multiprocessor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import attr_value, dialect_type, elem_type, is_tensor, op_name
from tileprobe.ir.record import IndexOp, NextOp, PushOp, StoreOp
from tileprobe.targets.gpu.structure import DOTS, TtgirStructure, extent, product

# Cycles of a record with its part of an iteration's bookkeeping: 8 to 22 by dose (docs/simgpu-time.md), 33 in
# KPerfIR's paper on an H100.
RECORD_CYCLES = 16.0


@dataclass(frozen=True)
class Rates:
    """What a multiprocessor does in a cycle. `products`: 16-bit multiplications with their additions, `sums`: 32-bit
    operations, `bytes`: from L2."""

    products: float
    sums: float
    bytes: float = 64.0


# NVIDIA: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"; dense FP16 rates of the data
# sheets of A100, A10, L40S, H100 SXM, B200 and RTX 5090, divided by multiprocessors, clock and 2. L1 takes 64 bytes a
# cycle from L2 (A100 whitepaper). AMD: data sheets of MI300X, MI355X and RX 7900 XTX, in the same way.
_RATES = {
    "80": Rates(1024, 64),
    "86": Rates(512, 128),
    "89": Rates(512, 128),
    "90": Rates(2048, 128),
    "100": Rates(4096, 128),
    "120": Rates(512, 128),
    "gfx942": Rates(1024, 128),
    "gfx950": Rates(2048, 128),
    "gfx1100": Rates(256, 128),
}
_COPIES = (
    *("tt.load", "tt.store", "tt.descriptor_load", "tt.descriptor_store", "tt.atomic_rmw"),
    *("ttg.async_copy_global_to_local", "ttng.async_tma_copy_global_to_local"),
    *("ttng.async_tma_copy_local_to_global", "ttng.async_tma_gather", "ttng.async_tma_scatter"),
    *(
        "amdg.buffer_load",
        "amdg.buffer_store",
        "amdg.buffer_load_to_local",
        "amdg.async_copy_global_to_local",
    ),
)


def heaviest(module: ModuleOp) -> float:
    """The share of its time that a loop's records take at the most, of all loops. Loops without records take none, nor
    do those of which nothing is known."""
    rates = _RATES.get(str(attr_value(module, "ttg.target")).partition(":")[2])
    if rates is None:
        return 0.0
    return max((_share(op, rates) for op in module.walk() if isinstance(op, (IndexOp, NextOp))), default=0.0)


def _share(index: IndexOp | NextOp, rates: Rates) -> float:
    loop = index.parent_op()
    assert loop is not None
    records = sum(isinstance(op, (StoreOp, PushOp)) for op in _own(loop))
    cycles = _least_cycles(loop, rates)
    return RECORD_CYCLES * records / cycles if cycles else 0.0


def _own(loop: Operation) -> Iterator[Operation]:
    """The ops of an iteration without those of loops in it, which have iterations of their own."""
    for region in loop.regions:
        for block in region.blocks:
            for op in block.ops:
                yield op
                if not any(isinstance(inner, (IndexOp, NextOp)) for inner in op.walk()):
                    yield from (inner for inner in op.walk() if inner is not op)


def _least_cycles(loop: Operation, rates: Rates) -> float:
    """Of one iteration, with one of each loop in it: products, copies and arithmetic go on at the same time."""
    how = TtgirStructure()
    products = copied = sums = 0.0
    for op in loop.walk():
        name = op_name(op)
        if name in DOTS:
            products += (product(op) or 0.0) * _bytes(op.operands[0]) / 2
        elif name in _COPIES:
            copied += max((_size(value) for value in (*op.operands, *op.results)), default=0.0)
        elif how.is_arithmetic(op):
            sums += math.prod(extent(op.results[0]))
    return max(products / rates.products, copied / rates.bytes, sums / rates.sums)


def _size(value: SSAValue) -> float:
    """Bytes of a tensor of numbers, or of shared memory."""
    return math.prod(extent(value)) * _bytes(value) if extent(value) else 0.0


def _bytes(value: SSAValue) -> float:
    """Of an element; 0 for addresses and what is no number."""
    named = dialect_type(value.type)
    kind = named[1].split(",")[0].rpartition("x")[2] if named and named[0] == "ttg.memdesc" else ""
    if not kind and is_tensor(value.type):
        kind = elem_type(value.type)
    digits = "".join(c for c in kind.partition("E")[0] if c.isdigit())
    return int(digits) / 8 if digits and kind[0] in "ifb" else 0.0
