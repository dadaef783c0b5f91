"""Builds one loop nest: evaluates tile expressions at a point of its domain, as scalar ops.

Comes in: TTIR values and the indices at which they are wanted. Goes out: a `tile.nest` whose body computes,
stores, writes buffers and yields what is reduced. A value wanted twice at the same point is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, IntAttr, LocationAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileprobe.targets.cpu.dialect import BufferType, NestOp, ReadOp, ViewOp, WriteOp, YieldOp
from tileprobe.targets.cpu.schedule.origin import Origin
from tileprobe.targets.cpu.schedule.ttir import (
    I1,
    I32,
    constant,
    element_of,
    int_attr,
    int_list_attr,
    is_elementwise,
    is_tensor,
    make,
    op_name,
    owner_op,
    parse_attribute,
    shape_of,
)

if TYPE_CHECKING:
    from tileprobe.targets.cpu.schedule.lower import FunctionLowering

Index = SSAValue | int
Indices = tuple[Index, ...]


class NeedsClose(Exception):
    """A value is wanted that the nest under construction is still to produce."""


class NestBuilder:
    """A nest under construction. `lowering` knows the buffers and scalars of the function."""

    def __init__(self, lowering: FunctionLowering, domain: tuple[int, ...]):
        self.lowering = lowering
        self.domain = domain
        self.block = Block(arg_types=[I32] * len(domain))
        self.identity: Indices = tuple(0 if d == 1 else arg for d, arg in zip(domain, self.block.args))
        self.memo: dict[tuple[SSAValue, Indices], SSAValue] = {}
        self._constants: dict[int, SSAValue] = {}
        self.written: dict[SSAValue, SSAValue] = {}  # value kept by this nest -> its buffer
        self.pending: dict[SSAValue, int] = {}  # reduction result -> number of the reduction
        self.axis: int | None = None
        self.reductions: list[tuple[str, SSAValue, SSAValue | None]] = []  # combination, value, buffer
        self.reduced_at: list[LocationAttr] = []  # where each of them stands in the source
        self.stores = False
        self.loaded: list[tuple[SSAValue, bool]] = []  # pointers loaded from; at the nest's own point?
        self.stored: list[SSAValue] = []  # and those that were stored to
        self.origin = Origin()

    # -- evaluating ------------------------------------------------------------------------------------------

    def value(self, value: SSAValue, indices: Indices | None = None) -> SSAValue:
        """The element of `value` at `indices` (the point of the nest if not given)."""
        indices = self.identity if indices is None else indices
        if not is_tensor(value):
            return self.scalar(value)
        key = (value, indices)
        known = self.memo.get(key)
        if known is None:
            known = self._evaluate(value, indices)
            self.memo[key] = known
        return known

    def scalar(self, value: SSAValue) -> SSAValue:
        if value in self.pending:
            raise NeedsClose
        return self.lowering.scalar(value)

    def index(self, index: Index) -> SSAValue:
        if isinstance(index, SSAValue):
            return index
        if index not in self._constants:
            self._constants[index] = self.emit(constant(index))
        return self._constants[index]

    def emit(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def _evaluate(self, value: SSAValue, indices: Indices) -> SSAValue:
        buffer = self.lowering.buffers.get(value)
        if buffer is not None:
            if value in self.written:
                raise NeedsClose
            return self.read(buffer, indices, of=value)
        if value in self.pending:
            raise NeedsClose
        op = owner_op(value)
        assert op is not None, "a tile argument without a buffer"
        name = op_name(op)
        if is_elementwise(name):
            operands = [self.value(v, indices) for v in op.operands]
            return self.clone(op, operands)
        rule = _RULES.get(name)
        assert rule is not None, f"no rule to evaluate {name}"
        self.lowering.refuse_if_unsupported(op)
        return rule(self, op, value, indices)

    def clone(self, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        """The scalar version of an elementwise op."""
        self.origin.add(op)
        attributes = {**op.attributes, **op.properties}
        attributes.pop("op_name__", None)
        types = [element_of(r.type) for r in op.results]
        return self.emit(make(op_name(op), operands, types, attributes, like=op))

    def read(self, buffer: SSAValue, indices: Indices, *, of: SSAValue) -> SSAValue:
        """An element of `buffer`, which holds the tile `of`."""
        assert isinstance(buffer.type, BufferType)
        operands = [self.index(i) for i in indices]
        op = ReadOp.create(operands=[buffer, *operands], result_types=[buffer.type.element])
        self.lowering.notes.holds[op] = of
        return self.emit(op)

    def binary(self, name: str, left: Index, right: Index) -> Index:
        """Index arithmetic, folded where both sides are known."""
        if isinstance(left, int) and isinstance(right, int):
            return _FOLD[name](left, right)
        if (name == "addi" and right == 0) or (name in ("muli", "divui") and right == 1):
            return left
        if name == "addi" and left == 0:
            return right
        return self.emit(make(f"arith.{name}", [self.index(left), self.index(right)], [I32]))

    # -- effects ---------------------------------------------------------------------------------------------

    def write(
        self, value: SSAValue, buffer: SSAValue, indices: Indices | None = None, *, of: SSAValue
    ) -> None:
        """Set an element of `buffer`, which is to hold the tile `of`."""
        operands = [self.index(i) for i in (self.identity if indices is None else indices)]
        op = WriteOp.create(operands=[value, buffer, *operands])
        self.lowering.notes.holds[op] = of
        self.block.add_op(op)

    def reads_elsewhere(self, buffer: SSAValue) -> bool:
        """Does the body read `buffer`, by whatever name, at another point than its own?"""
        point = [self.index(i) for i in self.identity]
        return any(
            isinstance(op, ReadOp)
            and same_memory(op.buffer, buffer)
            and (op.buffer is not buffer or list(op.indices) != point)
            for op in self.block.ops
        )

    # -- transactions ----------------------------------------------------------------------------------------

    def attempt(self, work: Callable[[], None]) -> bool:
        """Run `work`; if it needs a value this nest is to produce, undo it and say so."""
        mark, memo, constants = self.block.last_op, dict(self.memo), dict(self._constants)
        loaded = len(self.loaded)
        try:
            work()
        except NeedsClose:
            while self.block.last_op is not mark:
                last = self.block.last_op
                assert last is not None
                last.detach()
                last.erase()
            self.memo, self._constants = memo, constants
            del self.loaded[loaded:]
            return False
        return True

    def finish(self) -> NestOp:
        last = YieldOp.create(operands=[value for _, value, _ in self.reductions])
        last.location = FusedLoc(tuple(self.reduced_at), NoneAttr())
        self.block.add_op(last)
        into = [buffer for _, _, buffer in self.reductions if buffer is not None]
        scalars = [value.type for _, value, buffer in self.reductions if buffer is None]
        properties: dict[str, Attribute] = {"shape": ArrayAttr([IntAttr(d) for d in self.domain])}
        if self.axis is not None:
            properties["axis"] = IntAttr(self.axis)
            properties["reduce"] = ArrayAttr([StringAttr(kind) for kind, _, _ in self.reductions])
        copies = any(isinstance(op, ReadOp) for op in self.block.ops)
        properties.update(self.origin.properties("copy" if copies else "fill"))
        nest = NestOp.create(
            operands=into, result_types=scalars, properties=properties, regions=[Region(self.block)]
        )
        self.origin.locate(nest)
        tiles = {number: value for value, number in self.pending.items()}
        self.lowering.notes.stages[nest] = [
            tiles[n] for n, (_, _, buffer) in enumerate(self.reductions) if buffer is not None
        ]
        return nest


def same_memory(first: SSAValue, second: SSAValue) -> bool:
    """Are two buffers views of one?"""
    return viewed(first) is viewed(second)


def viewed(buffer: SSAValue) -> SSAValue:
    """The buffer itself, for one that is a view."""
    while isinstance(buffer.owner, ViewOp):
        buffer = buffer.owner.source
    return buffer


# -- how each shape op finds its element ---------------------------------------------------------------------

Rule = Callable[[NestBuilder, Operation, SSAValue, Indices], SSAValue]


def _constant(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    return nest.lowering.constant(op, nest, indices)


def _splat(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    return nest.scalar(op.operands[0])


def _make_range(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    nest.origin.add(op, kind=None)
    return nest.index(nest.binary("addi", indices[0], int_attr(op, "start")))


def _expand_dims(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    axis = int_attr(op, "axis")
    return nest.value(op.operands[0], indices[:axis] + indices[axis + 1 :])


def _broadcast(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    source = op.operands[0]
    return nest.value(source, tuple(0 if d == 1 else i for d, i in zip(shape_of(source), indices)))


def _trans(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    where: list[Index] = [0] * len(indices)
    for result_axis, source_axis in enumerate(int_list_attr(op, "order")):
        where[source_axis] = indices[result_axis]
    return nest.value(op.operands[0], tuple(where))


def _reshape(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    source = op.operands[0]
    buffer = nest.lowering.buffers.get(source)
    if buffer is not None and source not in nest.written:
        return nest.read(nest.lowering.view(buffer, shape_of(value)), indices, of=source)
    return nest.value(source, reshaped(nest, shape_of(value), shape_of(source), indices))


def reshaped(nest: NestBuilder, shape: Sequence[int], source: Sequence[int], indices: Indices) -> Indices:
    """Indices into `source` of the element that has `indices` in `shape`."""
    inner = [d for d in source if d != 1]
    if inner == [d for d in shape if d != 1]:
        used = iter([i for d, i in zip(shape, indices) if d != 1])
        return tuple(0 if d == 1 else next(used) for d in source)
    flat: Index = 0
    for extent, index in zip(shape, indices):
        flat = nest.binary("addi", nest.binary("muli", flat, extent), index)
    where: list[Index] = []
    for position, extent in enumerate(reversed(source)):
        last = position == len(source) - 1
        where.append(flat if last else nest.binary("remui", flat, extent))
        flat = nest.binary("divui", flat, extent)
    return tuple(reversed(where))


def _join(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    which = indices[-1]
    if isinstance(which, int):
        return nest.value(op.operands[which], indices[:-1])
    first, second = (nest.value(v, indices[:-1]) for v in op.operands)
    return select(nest, compare(nest, "eq", which, 0), first, second)


def _split(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    which = next(number for number, result in enumerate(op.results) if result is value)
    return nest.value(op.operands[0], (*indices, which))


def _cat(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    extent = shape_of(op.operands[0])[0]
    # An index that is valid in both halves: neither side may be evaluated outside its tile.
    inside = nest.binary("remui", indices[0], extent)
    first, second = (nest.value(v, (inside, *indices[1:])) for v in op.operands)
    return select(nest, compare(nest, "ult", indices[0], extent), first, second)


def _gather(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    nest.origin.add(op)
    source, axis = op.operands[0], int_attr(op, "axis")
    where = nest.value(op.operands[1], indices)
    if where.type != I32:
        # an index is never negative: whether a narrow one is signed, which TTIR does not say, does not matter
        where = nest.emit(make("arith.trunci" if _wider(where) else "arith.extui", [where], [I32]))
    return nest.value(source, (*indices[:axis], where, *indices[axis + 1 :]))


def _wider(value: SSAValue) -> bool:
    return value.type.width.data > 32  # pyright: ignore[reportAttributeAccessIssue]


def _load(nest: NestBuilder, op: Operation, value: SSAValue, indices: Indices) -> SSAValue:
    if nest.stores:
        raise NeedsClose
    nest.loaded.append((op.operands[0], indices == nest.identity))
    loaded = nest.clone(op, [nest.value(v, indices) for v in op.operands])
    notes, copy = nest.lowering.notes, owner_op(loaded)
    assert copy is not None
    notes.accesses[copy] = op
    if indices == nest.identity:
        notes.in_place.add(copy)
    return loaded


def compare(nest: NestBuilder, predicate: str, left: Index, right: Index) -> SSAValue:
    code = {"eq": 0, "slt": 2, "ult": 6}[predicate]
    attributes = {"predicate": parse_attribute(f"{code} : i64")}
    return nest.emit(make("arith.cmpi", [nest.index(left), nest.index(right)], [I1], attributes))


def select(nest: NestBuilder, condition: SSAValue, first: SSAValue, second: SSAValue) -> SSAValue:
    return nest.emit(make("arith.select", [condition, first, second], [first.type]))


_RULES: dict[str, Rule] = {
    "arith.constant": _constant,
    "tt.splat": _splat,
    "tt.make_range": _make_range,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.trans": _trans,
    "tt.reshape": _reshape,
    "tt.join": _join,
    "tt.split": _split,
    "tt.cat": _cat,
    "tt.gather": _gather,
    "tt.load": _load,
}
_FOLD = {
    "addi": lambda a, b: a + b,
    "muli": lambda a, b: a * b,
    "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b,
}
