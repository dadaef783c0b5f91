"""What the next iteration of a loop will load for a product, so that it can be prefetched during this one.

Follows the address of an operand's source back through the nest that packs it, with the loop's values as they
will be one iteration later. Gives up, without harm, on anything but plain arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.codegen import elementwise
from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.codegen.dot import Ahead
from tileprobe.targets.cpu.codegen.intervals import known_integer
from tileprobe.targets.cpu.codegen.types import I32, Value, bytes_of, pointee_name
from tileprobe.targets.cpu.dialect import DotOp, NestOp, WriteOp
from tileprobe.targets.cpu.schedule.ttir import is_elementwise

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter


# These trap when they divide by zero.
_DIVISIONS = frozenset(f"arith.{n}" for n in ("divsi", "divui", "remsi", "remui", "ceildivsi", "floordivsi"))


class _GiveUpError(Exception):
    """The address depends on more than arithmetic."""


def tiles_ahead(f: FunctionEmitter, dot: DotOp) -> list[Ahead]:
    """The sources of both operands in the next iteration of the loop around `dot`."""
    loop = dot.parent_op()
    if loop is None or op_name(loop) != "scf.for":
        return []
    found = []
    for buffer in (dot.a, dot.b):
        nest = _packing_nest(buffer, dot)
        loads = [op for op in nest.body.block.ops if op_name(op) == "tt.load"] if nest else []
        if nest is None or len(loads) != 1 or len(nest.dims) != 2:
            continue
        try:
            tile = _tile(f, loop, nest, loads[0])
        except _GiveUpError:
            continue
        if tile is not None:
            found.append(tile)
    return found


def _packing_nest(buffer: SSAValue, dot: DotOp) -> NestOp | None:
    for use in buffer.uses:
        nest = use.operation.parent_op()
        if isinstance(use.operation, WriteOp) and isinstance(nest, NestOp) and nest.parent is dot.parent:
            return nest
    return None


def _tile(f: FunctionEmitter, loop: Operation, nest: NestOp, load: Operation) -> Ahead | None:
    facts = BodyFacts(nest)
    pointer = load.operands[0]
    size = bytes_of(pointee_name(pointer.type))
    along = next(
        (axis for axis in (1, 0) if facts.stride(pointer, axis, frozenset(facts.remainders(axis))) == size),
        None,
    )
    if along is None:
        return None
    across = 1 - along
    start = _Follower(f, loop, nest, {0: 0, 1: 0}).value(pointer)
    second = _Follower(f, loop, nest, {along: 0, across: min(1, nest.dims[across] - 1)}).value(pointer)
    b = f.builder
    return Ahead(
        b.inttoptr(start, ir.PointerType()), b.sub(second, start), nest.dims[across], nest.dims[along] * size
    )


class _Follower:
    """Emits a value of a nest at fixed indices, one iteration ahead."""

    def __init__(self, f: FunctionEmitter, loop: Operation, nest: NestOp, indices: dict[int, int]):
        self.f = f
        self.loop = loop
        self.body = loop.regions[0].block
        self.known: dict[SSAValue, Value] = {}
        for axis, arg in enumerate(nest.body.block.args):
            self.known[arg] = ir.Constant(I32, indices[axis])

    def value(self, value: SSAValue) -> Value:
        if value not in self.known:
            self.known[value] = self._follow(value)
        return self.known[value]

    def _follow(self, value: SSAValue) -> Value:
        if not isinstance(value, OpResult):
            return self._argument(value)
        op = value.op
        if not self._inside(op):
            return self.f.value(value)
        if op_name(op) == "arith.constant":
            return elementwise.constant_value(op)
        if not is_elementwise(op_name(op)):
            raise _GiveUpError
        if op_name(op) in _DIVISIONS and not self._safe_divisor(op.operands[1]):
            raise _GiveUpError
        return elementwise.emit(self.f.builder, op, [self.value(v) for v in op.operands])

    def _safe_divisor(self, value: SSAValue) -> bool:
        """One that this iteration divided by as well: the next one's could be zero, of an iteration that never is."""
        return known_integer(value) not in (None, 0, -1) or not (
            (isinstance(value, OpResult) and self._inside(value.op)) or value.owner is self.body
        )

    def _inside(self, op: Operation) -> bool:
        return self.loop.is_ancestor(op)

    def _argument(self, value: SSAValue) -> Value:
        if value.owner is not self.body:
            owner = value.owner
            if isinstance(owner, Block) and self.loop.is_ancestor(owner):
                raise _GiveUpError
            return self.f.value(value)
        number = list(self.body.args).index(value)  # type: ignore[arg-type]
        if number == 0:
            step = self.f.value(self.loop.operands[2])
            return self.f.builder.add(self.f.value(value), step)
        last = self.body.last_op
        assert last is not None
        return _Now(self.f, self.loop).value(last.operands[number - 1])


class _Now(_Follower):
    """Emits a value of the loop's body as it is in this iteration, also one that stands further down."""

    def __init__(self, f: FunctionEmitter, loop: Operation):
        self.f = f
        self.loop = loop
        self.body = loop.regions[0].block
        self.known = {}

    def _follow(self, value: SSAValue) -> Value:
        emitted = self.f.values.get(value)
        return emitted if emitted is not None else super()._follow(value)

    def _argument(self, value: SSAValue) -> Value:
        return self.f.value(value)
