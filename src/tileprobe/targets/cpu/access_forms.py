"""What the scheduled IR says of each access to memory, before anything runs: its place, its strides, its vectors.

Comes in: scheduled IR, and the lines of its accesses in the order of a walk (`places_of`, asked while these are known).
Goes out: a `Form` for each load, store and atomic operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileprobe.ir.accessors import op_name
from tileprobe.ir.locations import user_frames
from tileprobe.targets.cpu.codegen import shape
from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.codegen.types import bytes_of, pointee_name
from tileprobe.targets.cpu.dialect import NestOp

LINE = 64  # bytes of a cache line; of all x86-64 cores, and of Arm's Neoverse and Cortex-A7x
_WORDS = {"tt.load": "load", "tt.store": "store", "tt.atomic_load": "load", "tt.atomic_store": "store"}
_MASKS = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2, "tt.atomic_cas": 3, "tt.atomic_load": 1}


@dataclass(frozen=True)
class Form:
    """An access in its stage. `axes` are those of the stage that it varies along, the vector's last; `strides` how far
    apart neighbours along them are in bytes, None where the IR does not say."""

    number: int
    file: str
    line: int
    what: str
    size: int
    dims: tuple[int, ...] = ()  # of the stage
    axes: tuple[int, ...] = ()
    strides: tuple[int | None, ...] = ()
    lanes: int = 1  # of a vector
    width: int = field(default=0)  # bytes of an instruction

    @property
    def affine(self) -> bool:
        return None not in self.strides

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(self.dims[axis] for axis in self.axes)

    @property
    def points(self) -> int:
        """Elements that one execution of the stage asks for."""
        return math.prod(self.extents)

    def picked(self, values: np.ndarray) -> np.ndarray:
        """Of values at all points of the stage those that differ, with the vector's axis as the last."""
        if not self.dims:
            return values.reshape(-1)
        whole = values.reshape(self.dims)
        first = whole[tuple(slice(None) if n in self.axes else 0 for n in range(len(self.dims)))]
        kept = sorted(self.axes)
        return first.transpose([kept.index(axis) for axis in self.axes]) if kept else first.reshape(1)


def ops_in(module: ModuleOp) -> Iterator[Operation]:
    """Loads, stores and atomic operations, in the order of a walk."""
    return (op for op in module.walk() if op_name(op) in _WORDS or op_name(op).startswith("tt.atomic"))


def places_of(module: ModuleOp) -> list[tuple[str, int]]:
    """File and line of each; text of the module has them no more."""
    frames = [user_frames(op.location) for op in ops_in(module)]
    return [found[0] if found else ("", 0) for found in frames]


def forms(
    module: ModuleOp, places: list[tuple[str, int]], vector_bytes: int, scalar_only: bool = False
) -> dict[Operation, Form]:
    known: dict[NestOp, tuple[BodyFacts, shape.LoopShape]] = {}
    found: dict[Operation, Form] = {}
    for number, op in enumerate(ops_in(module)):
        file, line = places[number] if number < len(places) else ("", 0)
        element = pointee_name(op.operands[0].type)
        what, size = f"{_WORDS.get(op_name(op), 'atomic')} {element}", bytes_of(element)
        nest = op.parent_op()
        if not isinstance(nest, NestOp):
            found[op] = Form(number, file, line, what, size, width=size)
            continue
        if nest not in known:
            facts = BodyFacts(nest)
            known[nest] = facts, shape.choose(facts, nest, vector_bytes, scalar_only)
        facts, plan = known[nest]
        axes = _axes(op, facts, plan)
        strides = tuple(_stride(op, axis, facts) for axis in axes)
        along = bool(axes) and axes[-1] == plan.axis
        vector = plan.lanes if along and strides[-1] == size else 1
        found[op] = Form(
            number, file, line, what, size, nest.dims, axes, strides, plan.lanes if along else 1,
            min(vector * size, vector_bytes) if vector > 1 else size,
        )  # fmt: skip
    return found


def _axes(op: Operation, facts: BodyFacts, plan: shape.LoopShape) -> tuple[int, ...]:
    """A load that does not vary along an axis is done once for it; what is stored varies with what is stored."""
    looked_at = [
        *op.operands[: 1 + (op_name(op) != "tt.load")],
        *op.operands[_MASKS.get(op_name(op), 99) :][:1],
    ]
    return tuple(
        sorted(
            (n for n in range(len(facts.nest.dims)) if any(facts.depends(value, n) for value in looked_at)),
            key=lambda axis: (axis == plan.axis, plan.order.index(axis)),
        )
    )


def _stride(op: Operation, axis: int, facts: BodyFacts) -> int | None:
    """Remainders are taken for what they are within a tile that does not wrap round."""
    linear = frozenset([*facts.remainders(axis), *facts.unsigned_indices(axis)])
    return facts.stride(op.operands[0], axis, linear)
