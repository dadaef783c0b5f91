"""Emits one `tile.nest` as LLVM loops over vectors.

The loops run over the nest's axes, the vector axis in steps of `lanes`. Each value is emitted where its
innermost index becomes known, so what does not vary stays outside. Masks that are ranges (`offsets < n`) cut the
vector loop into a part where they all hold and a masked rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Operation, OpResult, SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.codegen import buffers, effects, elementwise, memory, shape
from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.codegen.intervals import wrapped
from tileprobe.targets.cpu.codegen.loops import counted_loop
from tileprobe.targets.cpu.codegen.ranges import stays_inside, vector_ranges
from tileprobe.targets.cpu.codegen.reducing import Accumulators
from tileprobe.targets.cpu.codegen.transpose import turn
from tileprobe.targets.cpu.codegen.types import I32, Value, bytes_of, elem_type, splat, vector
from tileprobe.targets.cpu.dialect import NestOp, ReadOp, WriteOp, YieldOp

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter

# A value is wanted as a scalar of the first lane, as a vector, or as it is where the vector index is 0.
FIRST, ALL, ORIGIN = "first", "all", "origin"
# From this many plain loops inside each other they become one.
DEEP = 4


class NestEmitter:
    """One nest being emitted. Values are looked up with `get`, which emits them at the right depth."""

    def __init__(self, function: FunctionEmitter, nest: NestOp):
        self.function = function
        self.nest = nest
        self.b = function.builder
        self.dims = nest.dims
        self.facts = BodyFacts(nest)
        plan = shape.choose(self.facts, nest, function.vector_bytes, function.scalar_only)
        self.order, self.axis, self.lanes, self.turn = plan.order, plan.axis, plan.lanes, plan.turn
        # Remainders such as `offsets % n` are followed without division where the tile does not wrap round, and
        # so are unsigned indices; that is known at run time only, so the vector loops then exist twice.
        self.wrapping = self._may_wrap() if self.lanes > 1 else frozenset()
        self.variant = bool(self.wrapping)
        self.body_level = len(self.order) + int(self.variant)
        self.linear: frozenset[SSAValue] = frozenset()
        self.true_masks: frozenset[SSAValue] = frozenset()
        self.level = -1
        self._cache: list[dict[tuple[SSAValue, str], Value]] = []
        self._prologues: list[ir.Block] = []
        self._index: dict[int, Value] = {}
        self._results: dict[SSAValue, Value] = {}  # of ops with effects; such nests have no vectors
        self.accumulators = Accumulators(self) if nest.reduce is not None else None

    # -- emitting the loops ----------------------------------------------------------------------------------

    def emit(self) -> list[Value]:
        """Emit the nest; returns its scalar results."""
        with self._deeper():
            self._emit_axis(0)
        if any(effects.streams(op) for op in self.nest.body.block.ops):
            memory.fence_stores(self.b)
        return self.accumulators.results if self.accumulators else []

    def _emit_axis(self, depth: int) -> None:
        if depth == len(self.order):
            self._emit_body()
            return
        axis = self.order[depth]
        opens = self.accumulators is not None and self.accumulators.depth == depth
        if opens and self.accumulators:
            self.accumulators.open()
        if axis == self.axis:
            self._emit_vector_axis(depth)
        elif axis == self.turn:
            self._emit_turned(axis)
        else:
            self._emit_scalar_axis(axis, depth)
        if opens and self.accumulators:
            self.accumulators.close()

    def _emit_scalar_axis(self, axis: int, depth: int) -> None:
        run = self._scalar_run(depth)
        if len(run) >= DEEP:
            self._emit_joined(run, depth)
            return

        def body(index: Value) -> None:
            self._index[axis] = index
            with self._deeper():
                self._emit_axis(depth + 1)

        if self.dims[axis] == 1:
            body(ir.Constant(I32, 0))
        else:
            counted_loop(self.b, ir.Constant(I32, 0), ir.Constant(I32, self.dims[axis]), 1, body)

    def _scalar_run(self, depth: int) -> list[int]:
        """The axes from `depth` on that are plain loops with nothing between them."""
        run = []
        for place, axis in enumerate(self.order[depth:], depth):
            opens = self.accumulators is not None and self.accumulators.depth == place
            if axis in (self.axis, self.turn) or (opens and run):
                break
            run.append(axis)
        return run

    def _emit_joined(self, run: list[int], depth: int) -> None:
        """Many short axes (a sorting network has one for each bit of the index) as one loop over all of them.

        LLVM's analysis of induction variables takes time that grows steeply with the depth of a nest.
        """

        def body(index: Value) -> None:
            below = 1
            with ExitStack() as levels:
                for axis in reversed(run):
                    size = self.dims[axis]
                    shifted = self.b.udiv(index, ir.Constant(I32, below)) if below > 1 else index
                    self._index[axis] = self.b.urem(shifted, ir.Constant(I32, size))
                    below *= size
                for _ in run:
                    levels.enter_context(self._deeper())
                self._emit_axis(depth + len(run))

        count = prod(self.dims[axis] for axis in run)
        counted_loop(self.b, ir.Constant(I32, 0), ir.Constant(I32, count), 1, body)

    def _emit_turned(self, axis: int) -> None:
        """Squares of vectors, turned in registers, for a buffer that lies along `axis`."""
        write = self.facts.effects()[0]
        assert isinstance(write, WriteOp)

        def body(index: Value) -> None:
            rows = []
            for row in range(self.lanes):
                self._index[axis] = self.b.add(index, ir.Constant(I32, row))
                with self._deeper():
                    rows.append(self.get(write.value))
            size = bytes_of(elem_type(write.value.type))
            for lane, column in enumerate(turn(self.b, rows, size)):
                point = [self._index.get(d, ir.Constant(I32, 0)) for d in range(len(self.dims))]
                point[axis] = index
                point[self.axis] = self.b.add(point[self.axis], ir.Constant(I32, lane))
                buffers.store_column(self, column, write, point)

        counted_loop(self.b, ir.Constant(I32, 0), ir.Constant(I32, self.dims[axis]), self.lanes, body)

    def _emit_vector_axis(self, depth: int) -> None:
        if not self.variant:
            self._emit_ranges(depth)
            return
        straight = self._none_wraps()
        with self.b.if_else(straight) as (then, otherwise):
            with then:
                self.linear = self.wrapping
                with self._deeper():
                    self._emit_ranges(depth)
                self.linear = frozenset()
            with otherwise, self._deeper():
                self._emit_ranges(depth)

    def _may_wrap(self) -> frozenset[SSAValue]:
        """Remainders and unsigned indices along the vector axis that are known before its loop starts."""
        later = sum(1 << axis for axis in self.order[self.order.index(self.axis) + 1 :])
        found = [*self.facts.remainders(self.axis), *self.facts.unsigned_indices(self.axis)]
        return frozenset(value for value in found if not self.facts.varies[value] & later)

    def _none_wraps(self) -> Value:
        """Does no remainder start anew within the tile, and no unsigned index pass its largest value?"""
        b, result = self.b, ir.Constant(ir.IntType(1), 1)
        for value in [v for v in self.facts.varies if v in self.wrapping]:
            assert isinstance(value, OpResult)
            whole = self.get(value.op.operands[0], ORIGIN)
            extent = self.dims[self.axis]
            if op_name(value.op) == "arith.extui":
                way = (self.facts.stride(value.op.operands[0], self.axis) or 0) * (extent - 1)
                result = b.and_(result, stays_inside(b, whole, way, unsigned=True))
                continue
            start, divisor = self.get(value, ORIGIN), self.get(value.op.operands[1], ORIGIN)
            kind = start.type
            fits = b.icmp_signed("<=", start, b.sub(divisor, ir.Constant(kind, extent)))
            # neither negative nor so large that the number itself wraps
            room = ir.Constant(kind, (1 << (kind.width - 1)) - extent)
            small = b.icmp_unsigned("<=", whole, room)
            result = b.and_(result, b.and_(fits, small))
        return result

    def _emit_ranges(self, depth: int) -> None:
        for piece in vector_ranges(self):
            saved, self.true_masks = self.true_masks, piece.true_masks

            def body(index: Value) -> None:
                self._index[self.axis] = index
                with self._deeper():
                    self._emit_axis(depth + 1)

            counted_loop(self.b, piece.start, piece.stop, self.lanes, body)
            self.true_masks = saved

    def _emit_body(self) -> None:
        for op in self.nest.body.block.ops:
            if isinstance(op, YieldOp):
                if self.accumulators:
                    self.accumulators.combine(list(op.values))
            elif isinstance(op, WriteOp):
                buffers.emit_write(self, op)
            elif effects.is_effect(op):
                effects.emit(self, op)
            elif (isinstance(op, ReadOp) or op_name(op) == "tt.load") and op.results[0].uses:
                self._emit_in_place(op.results[0])

    def _emit_in_place(self, value: SSAValue) -> None:
        """Loads happen before the stores that follow them."""
        if self._level_of(value, ALL) == self.level and not self._unused(value):
            self.get(value, ALL)

    def _unused(self, value: SSAValue) -> bool:
        """Is `value` only the other side of a choice that is already made?"""
        return all(
            op_name(use.operation) == "arith.select"
            and use.index == 2
            and use.operation.operands[0] in self.true_masks
            for use in value.uses
        )

    # -- depth -----------------------------------------------------------------------------------------------

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Enter a loop body: values that become known here are emitted in a block of their own in front of it."""
        prologue = self.b.append_basic_block("at")
        self.b.branch(prologue)
        main = self.b.append_basic_block("do")
        self.b.position_at_end(prologue)
        self.b.branch(main)
        self.b.position_at_end(main)
        self._prologues.append(prologue)
        self._cache.append({})
        self.level += 1
        yield
        self._prologues.pop()
        self._cache.pop()
        self.level -= 1

    @contextmanager
    def _at(self, level: int) -> Iterator[None]:
        """Emit at `level`: in place in the innermost body, in its prologue anywhere else.

        Outside of the vector loop no mask is known to hold: what is emitted there serves all of its ranges.
        """
        if level == self.body_level or self.b.block is self._prologues[level]:
            yield
            return
        block, anchor = self.b._block, self.b._anchor
        self.b.position_before(self._prologues[level].terminator)  # type: ignore[arg-type]
        saved, self.level = self.level, level
        masks = self.true_masks
        if level <= self.order.index(self.axis) + int(self.variant):
            self.true_masks = frozenset()
        yield
        self.level, self.true_masks = saved, masks
        self.b._block, self.b._anchor = block, anchor

    def _level_of(self, value: SSAValue, form: str) -> int:
        bits = self.facts.varies.get(value, 0)
        if form == ORIGIN:
            bits &= ~(1 << self.axis)
        deepest = 0
        for depth, axis in enumerate(self.order):
            if bits >> axis & 1:
                deepest = depth + 1
        # within the straight-line variant of the vector loop everything is one level deeper
        if self.variant and deepest > self.order.index(self.axis):
            deepest += 1
        return min(deepest, self.level)

    # -- values ----------------------------------------------------------------------------------------------

    def get(self, value: SSAValue, form: str = ALL) -> Value:
        """`value` for the current point(s) of the nest."""
        if value not in self.facts.varies:
            return self._outer(value, form)
        if value in self._results:
            return self._results[value]
        if not self.facts.depends(value, self.axis):
            scalar = self._cached(value, FIRST)
            return scalar if form != ALL or self.lanes == 1 else self._cached(value, ALL)
        if self.lanes == 1 and form == ALL:
            form = FIRST
        return self._cached(value, form)

    def define(self, value: SSAValue, emitted: Value) -> None:
        """Record the result of an op with effects, emitted in the body."""
        self._results[value] = emitted

    def uniform(self, value: SSAValue) -> bool:
        return not self.facts.depends(value, self.axis)

    def stride(self, value: SSAValue) -> int | None:
        return self.facts.stride(value, self.axis, self.linear)

    def _outer(self, value: SSAValue, form: str) -> Value:
        scalar = self.function.value(value)
        if form != ALL or self.lanes == 1:
            return scalar
        return self._memo(value, ALL, 0, lambda: splat(self.b, scalar, self.lanes))

    def _cached(self, value: SSAValue, form: str) -> Value:
        level = self._level_of(value, form)
        return self._memo(value, form, level, lambda: self._emit_value(value, form))

    def _memo(self, value: SSAValue, form: str, level: int, make: Callable[[], Value]) -> Value:
        key = (value, form)
        known = self._cache[level].get(key)
        if known is None:
            with self._at(level):
                known = make()
            self._cache[level][key] = known
        return known

    def _emit_value(self, value: SSAValue, form: str) -> Value:
        if form == ALL and not self.facts.depends(value, self.axis):
            return splat(self.b, self.get(value, FIRST), self.lanes)
        if not isinstance(value, OpResult):
            return self._emit_index(value, form)
        op = value.op
        name = op_name(op)
        if name == "arith.constant":
            return self._emit_constant(op, form)
        if value in self.linear and form != ORIGIN and name != "arith.extui":
            return self._emit_linear(value, form)
        if name == "arith.select" and op.operands[0] in self.true_masks and form != ORIGIN:
            return self.get(op.operands[1], form)
        if name == "arith.andi" and form == ALL:
            for one, rest in (op.operands, reversed(op.operands)):
                if one in self.true_masks:
                    return self.get(rest, ALL)
        if name == "tt.load":
            return effects.emit_load(self, op, form)
        if isinstance(op, ReadOp):
            return buffers.emit_read(self, op, form)
        if form == ALL and name in ("arith.addi", "arith.muli", "arith.subi"):
            known = self._affine(value)
            if known is not None:
                return known
        args = [self.get(v, form) for v in op.operands]
        return elementwise.emit(self.b, op, args, self.function.fuse)

    def _affine(self, value: SSAValue) -> Value | None:
        """An index expression as its first lane plus a known step."""
        stride = self.stride(value)
        kind = self.get(value, FIRST).type if stride is not None else None
        if stride is None or not isinstance(kind, ir.IntType):
            return None
        offsets = [wrapped(lane * stride, kind.width) for lane in range(self.lanes)]
        steps = ir.Constant(ir.VectorType(kind, self.lanes), offsets)
        return self.b.add(splat(self.b, self.get(value, FIRST), self.lanes), steps)

    def _emit_index(self, value: SSAValue, form: str) -> Value:
        axis = list(self.nest.body.block.args).index(value)  # type: ignore[arg-type]
        if axis != self.axis:
            return self._index[axis]
        if form == ORIGIN:
            return ir.Constant(I32, 0)
        if form == FIRST:
            return self._index[axis]
        steps = ir.Constant(vector(I32, self.lanes), list(range(self.lanes)))
        return self.b.add(splat(self.b, self._index[axis], self.lanes), steps)

    def _emit_linear(self, value: SSAValue, form: str) -> Value:
        """A remainder known not to wrap within the tile."""
        start = self.get(value, ORIGIN)
        index = self._index[self.axis]
        first = self.b.add(start, index if start.type == I32 else self.b.zext(index, start.type))
        if form == FIRST:
            return first
        steps = ir.Constant(ir.VectorType(start.type, self.lanes), list(range(self.lanes)))
        return self.b.add(splat(self.b, first, self.lanes), steps)

    def _emit_constant(self, op: Operation, form: str) -> Value:
        scalar = elementwise.constant_value(op)
        return splat(self.b, scalar, self.lanes) if form == ALL else scalar

    def element(self, value: SSAValue) -> str:
        return elem_type(value.type)
