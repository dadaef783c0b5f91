"""What programs compute for nothing: of each stage the operations on elements that a mask keeps out, or nobody stores.

Told by the interpreter what it does (`touched`, `after`), this follows which elements of each tile are there at all:
those that a load's mask lets through, those made of them, and of a stage that only stores, those that are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tileprobe.ir.accesses import COMPUTING, ELEMENTS, SAMPLED, Access
from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.amounts import amount, flops_of
from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.costs import extent
from tileprobe.targets.cpu.dialect import (
    AllocOp,
    BufferType,
    DotOp,
    NestOp,
    ReadOp,
    ReduceOp,
    ScanOp,
    WriteOp,
    YieldOp,
)

_STORES = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store")


@dataclass
class _Done:
    """Operations of one stage: all of them, and those on elements that are there."""

    whole: float = 0.0
    kept: float = 0.0


class Computed:
    def __init__(self, module: ModuleOp) -> None:
        self._flops: dict[Operation, float] = {}
        self._stages: dict[Operation, _Done] = {}
        for op in module.walk():
            if isinstance(op, NestOp | DotOp | ReduceOp | ScanOp) and op.lines is not None:
                found = amount(op)
                if found is not None and found.flops:
                    self._flops[op], self._stages[op] = found.flops, _Done()
        self._there: dict[SSAValue, np.ndarray] = {}  # of buffers; all of one that is not known
        self._facts: dict[NestOp, BodyFacts] = {}
        self._masks: dict[Operation, np.ndarray] = {}  # of the accesses of the stage that runs

    def touched(self, op: Operation, mask: np.ndarray | None) -> None:
        """A load or a store of the stage that runs."""
        nest = op.parent_op()
        if isinstance(nest, NestOp):
            on = np.ones(nest.dims, bool) if mask is None else np.asarray(mask, bool).reshape(nest.dims)
            self._masks[op] = on

    def after(self, op: Operation) -> None:
        """An operation of the function is done."""
        if isinstance(op, AllocOp):
            self._there.pop(op.results[0], None)
        elif isinstance(op, NestOp):
            self._nest(op)
        elif isinstance(op, DotOp):
            self._dot(op)
        elif isinstance(op, ReduceOp | ScanOp):
            self._count(op, float(np.mean([self._of(source).mean() for source in op.sources])))
            for value in op.into:
                self._there.pop(value, None)

    def rows(self, programs: int, grid: int, first: int) -> list[Access]:
        """Of each stage that computed: `lanes` of its operations, of which `active` were on elements that are there."""
        found: list[Access] = []
        for number, (op, done) in enumerate(self._stages.items(), first):
            if done.whole:
                figures = {"programs": programs, "grid": grid, "lanes": done.whole, "active": done.kept}
                kinds, lines = (getattr(op, name) for name in ("kinds", "lines"))
                file, _, numbers = lines.data.rpartition(":")
                line = min((int(n) for n in numbers.split(",") if n.isdigit()), default=0)
                what = COMPUTING + (kinds.data if kinds is not None else "")
                found.append(Access(file, line, what, ELEMENTS, number, SAMPLED, figures))
        return found

    def _of(self, buffer: SSAValue) -> np.ndarray:
        known = self._there.get(buffer)
        if known is not None:
            return known
        assert isinstance(buffer.type, BufferType)
        return np.ones(buffer.type.dims, bool)

    def _count(self, op: Operation, share: float) -> None:
        done = self._stages.get(op)
        if done is not None:
            done.whole += self._flops[op]
            done.kept += self._flops[op] * share

    def _nest(self, nest: NestOp) -> None:
        """Each value is there where one that it is made of is, and without any of these everywhere."""
        masks, self._masks = self._masks, {}
        there: dict[SSAValue, np.ndarray] = {}
        everywhere = np.ones(nest.dims, bool)
        ops = list(nest.body.block.ops)
        stored = [masks[op] for op in ops if op in masks and op_name(op) in _STORES]
        alone = stored and not any(
            isinstance(op, WriteOp) or (isinstance(op, YieldOp) and op.values) for op in ops
        )
        wanted = np.logical_or.reduce(stored) if alone else everywhere  # of a stage that only stores
        facts, whole, kept = self._facts.get(nest) or BodyFacts(nest), 0.0, 0.0
        self._facts[nest] = facts
        for op in ops:
            if isinstance(op, ReadOp):
                there[op.results[0]] = self._read(nest, op)
                continue
            known = [there[value] for value in op.operands if value in there]
            made = np.logical_or.reduce(known) if known else everywhere
            if isinstance(op, WriteOp):
                self._write(nest, op, made)
            elif isinstance(op, YieldOp):
                combined = float(sum(extent(nest, facts.varies.get(value, 0)) for value in op.values))
                whole, kept = whole + combined, kept + combined * float(made.mean())
            elif op in masks:
                there |= dict.fromkeys(op.results, masks[op])
            else:
                if known:
                    there |= dict.fromkeys(op.results, made)
                flops = flops_of(nest, facts, op)
                whole, kept = whole + flops, kept + flops * float((made & wanted).mean())
        self._count(nest, kept / whole if whole else 1.0)

    def _write(self, nest: NestOp, op: WriteOp, there: np.ndarray) -> None:
        places = self._axes(nest, op.indices)
        self._there.pop(op.buffer, None)
        if places is None or sorted(places) != list(range(len(nest.dims))):
            return
        made = there.transpose(places) if places else there
        if made.shape == tuple(op.buffer.type.dims):  # type: ignore[attr-defined]
            self._there[op.buffer] = made

    def _read(self, nest: NestOp, op: ReadOp) -> np.ndarray:
        """Which points of a nest read an element that is there."""
        there, places = self._of(op.buffer), self._axes(nest, op.indices)
        if places is None or len(set(places)) != len(places):
            return np.ones(nest.dims, bool)
        shape = [nest.dims[axis] for axis in places]
        if list(there.shape) != shape:
            return np.ones(nest.dims, bool)
        order = sorted(range(len(places)), key=places.__getitem__)
        wide = [nest.dims[n] if n in places else 1 for n in range(len(nest.dims))]
        return np.broadcast_to(there.transpose(order).reshape(wide), nest.dims)

    def _axes(self, nest: NestOp, indices: object) -> list[int] | None:
        """Along which axis of the nest each axis of a buffer goes; None where it goes otherwise."""
        found: list[int] = []
        for value in indices:  # type: ignore[attr-defined]
            if not isinstance(value, BlockArgument) or value.owner is not nest.body.block:
                return None
            found.append(value.index)
        return found

    def _dot(self, op: DotOp) -> None:
        a, b = self._of(op.a), self._of(op.b)
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            self._count(op, 1.0)
            self._there.pop(op.c, None)
            return
        pairs = a.astype(np.float32) @ b.astype(np.float32)
        self._count(op, float(pairs.sum()) / (a.shape[0] * a.shape[1] * b.shape[1]))
        self._there[op.c] = pairs > 0
