"""Stages over whole buffers: reductions and scans with a combine function, products, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, Region, SSAValue

from tileprobe.ir.accessors import elem_type, op_name
from tileprobe.targets.cpu.dialect import DotOp, HistogramOp, ReduceOp, ScanOp
from tileprobe.targets.cpu.interpret import buffers, control
from tileprobe.targets.cpu.interpret.convert import as_unsigned
from tileprobe.targets.cpu.interpret.errors import OverlapError, describe
from tileprobe.targets.cpu.interpret.float_ops import FLOAT_BINARY
from tileprobe.targets.cpu.interpret.floats import Array, is_float, round_to, storage, widen
from tileprobe.targets.cpu.interpret.machine import Frame
from tileprobe.targets.cpu.schedule.ttir import is_elementwise


class _Combine:
    """A combine function, on whole arrays where it has no control flow of its own."""

    def __init__(self, frame: Frame, region: Region):
        self.frame, self.block = frame, region.block
        ops = list(self.block.ops)
        self.straight = all(_is_straight(op) for op in ops)
        # a running sum or product of small floats is carried in f32, and rounded only where it is stored
        kind = elem_type(ops[0].results[0].type) if ops[0].results else ""
        short = op_name(ops[0]).removeprefix("arith.")
        self.widened = (
            short if len(ops) == 2 and short in ("addf", "mulf") and kind in ("f16", "bf16") else None
        )

    def __call__(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        if self.widened is not None:
            return [FLOAT_BINARY[self.widened](left[0], right[0])]
        if self.straight:
            return self._apply(left, right)
        shape = left[0].shape
        columns = [np.ravel(a) for a in (*left, *right)]
        out = [np.empty(columns[0].size, a.dtype) for a in left]
        for number, items in enumerate(zip(*columns)):
            for held, value in zip(out, self._apply(items[: len(left)], items[len(left) :])):
                held[number] = value
        return [held.reshape(shape) for held in out]

    def _apply(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        self.frame.values.update(zip(self.block.args, (*left, *right)))
        last = control.run_block(self.frame, self.block)
        shape = np.shape(left[0])
        return [np.broadcast_to(self.frame.values[v], shape) for v in last.operands]


def _is_straight(op: Operation) -> bool:
    name = op_name(op)
    return name in control.TERMINATORS or name == "arith.constant" or is_elementwise(name)


def _sources(frame: Frame, op: ReduceOp | ScanOp, combine: _Combine) -> list[np.ndarray]:
    """The tiles with the axis in front."""
    found = []
    for value in op.sources:
        kind = buffers.buffer_type(value)
        tile = buffers.read_tile(frame.memory, frame.values[value], kind, op)
        if combine.widened is not None:
            tile = widen(tile, elem_type(kind.element))
        found.append(np.moveaxis(tile, op.axis.data, 0))
    return found


@control.handler("tile.reduce")
def run_reduce(frame: Frame, op: Operation) -> None:
    assert isinstance(op, ReduceOp)
    _check_apart(frame, op, list(op.into), list(op.sources))
    combine = _Combine(frame, op.combine)
    held = _sources(frame, op, combine)
    while len(held[0]) > 1:  # neighbours first, which keeps their order
        even = len(held[0]) // 2 * 2
        pairs = combine([a[0:even:2] for a in held], [a[1:even:2] for a in held])
        held = [np.concatenate([pair, a[even:]]) for pair, a in zip(pairs, held)]
    names = [elem_type(buffers.buffer_type(v).element) for v in op.sources]
    results = [round_to(a[0], name) if combine.widened is not None else a[0] for a, name in zip(held, names)]
    for target, value in zip(op.into, results):
        buffers.write_tile(frame.memory, frame.values[target], buffers.buffer_type(target), np.asarray(value))
    frame.values.update(zip(op.reduced, results))


@control.handler("tile.scan")
def run_scan(frame: Frame, op: Operation) -> None:
    assert isinstance(op, ScanOp)
    _check_apart(frame, op, list(op.into), list(op.sources))
    combine = _Combine(frame, op.combine)
    items = _sources(frame, op, combine)
    out = [np.empty(a.shape, a.dtype) for a in items]
    places = range(len(items[0]))
    carried: list[Any] = []
    for place in reversed(places) if op.reverse.data else places:
        now = [a[place] for a in items]
        carried = combine(carried, now) if carried else now
        for held, value in zip(out, carried):
            held[place] = value
    for target, value in zip(op.into, out):
        kind = buffers.buffer_type(target)
        result = round_to(value, elem_type(kind.element)) if combine.widened is not None else value
        tile = np.moveaxis(result, 0, op.axis.data)
        buffers.write_tile(frame.memory, frame.values[target], kind, np.ascontiguousarray(tile))


@control.handler("tile.dot")
def run_dot(frame: Frame, op: Operation) -> None:
    """Summed in double, then rounded once: machine code rounds more often, in an order of its own."""
    assert isinstance(op, DotOp)
    _check_apart(frame, op, [op.c], [op.a, op.b])
    a, b = (_factor(frame, value, op) for value in (op.a, op.b))
    place, kind = frame.values[op.c], buffers.buffer_type(op.c)
    name = elem_type(kind.element)
    product = np.matmul(a, b)
    if is_float(name):
        if not op.zero.data:
            product = product + widen(buffers.read_tile(frame.memory, place, kind, op), name)
        result = round_to(product.astype(np.float64), name)
    else:
        held = storage(name)
        result = product.astype(np.int64).astype(held)
        if not op.zero.data:
            result = result + buffers.read_tile(frame.memory, place, kind, op)
    buffers.write_tile(frame.memory, place, kind, result)


def _factor(frame: Frame, value: SSAValue, op: Operation) -> np.ndarray:
    kind = buffers.buffer_type(value)
    name = elem_type(kind.element)
    tile = buffers.read_tile(frame.memory, frame.values[value], kind, op)
    return widen(tile, name).astype(np.float64) if is_float(name) else tile.astype(np.int64)


@control.handler("tile.histogram")
def run_histogram(frame: Frame, op: Operation) -> None:
    assert isinstance(op, HistogramOp)
    read = [v for v in (op.source, op.mask) if v is not None]
    _check_apart(frame, op, [op.into], read)
    values, *masks = (
        buffers.read_tile(frame.memory, frame.values[v], buffers.buffer_type(v), op).reshape(-1) for v in read
    )
    kind = buffers.buffer_type(op.into)
    bins = int(np.prod(kind.dims))
    counted = as_unsigned(values) < bins
    if masks:
        counted = counted & (masks[0] != 0)
    counts = np.bincount(as_unsigned(values)[counted].astype(np.int64), minlength=bins)
    result = counts.astype(storage(elem_type(kind.element)))
    buffers.write_tile(frame.memory, frame.values[op.into], kind, result)


def _check_apart(frame: Frame, op: Operation, written: list[SSAValue], read: list[SSAValue]) -> None:
    """Such a stage writes while it still reads, in an order of its own: the buffers must not overlap."""
    for target in written:
        for source in read:
            a, b = frame.values[target], frame.values[source]
            sizes = [buffers.size_of(buffers.buffer_type(v)) for v in (target, source)]
            if a.address < b.address + sizes[1] and b.address < a.address + sizes[0]:
                raise OverlapError(f"{describe(op)} writes to the memory of a buffer it reads")
