"""What the body of a nest depends on: which indices a value varies with, and how it moves along one of them.

Asked by the nest emitter to choose the vector axis, to hoist what does not vary, to recognise contiguous
accesses, and to turn masks such as `offsets < n` into ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileprobe.ir.accessors import int_attr, op_name
from tileprobe.targets.cpu.codegen.intervals import Intervals, known_integer, width_of, wrapped
from tileprobe.targets.cpu.codegen.types import bytes_of, elem_type, pointee_name
from tileprobe.targets.cpu.dialect import NestOp, WriteOp

_EFFECTS = ("tt.store", "tt.atomic", "tt.print", "tt.assert", "tt.map_elementwise")
_REMAINDERS = ("arith.remsi", "arith.remui")
# cmpi predicates by number: eq ne slt sle sgt sge ult ule ugt uge
_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL = (2, 6), (3, 7), (4, 8), (5, 9)


@dataclass(frozen=True)
class Bound:
    """A condition that holds for a range of the vector index.

    kind "less": index + left - right < 0, that is index < right - left (+ extra);
    kind "least": index >= right - left (+ extra); kind "uniform": `left` itself, for all or none.
    `unsigned` says how the sides are read. All of this holds as long as neither side wraps on the way along the
    tile: `slopes` says by how much each grows, for whoever has to make sure.
    """

    kind: str
    left: SSAValue
    right: SSAValue | None = None
    extra: int = 0
    unsigned: bool = False
    slopes: tuple[int, int] = (0, 0)


@dataclass
class BodyFacts:
    """Facts about the body of one nest; the arguments of its block are the indices."""

    nest: NestOp
    varies: dict[SSAValue, int] = field(default_factory=dict)  # value -> bit set of indices
    _strides: dict[tuple[SSAValue, int, frozenset[SSAValue]], int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.block: Block = self.nest.body.block
        self.intervals = Intervals(dict(zip(self.block.args, self.nest.dims)))
        self._closed: set[SSAValue] = set(
            self.block.args
        )  # what depends on nothing but indices and constants
        for number, arg in enumerate(self.block.args):
            self.varies[arg] = 1 << number
        for op in self.block.ops:
            bits = 0
            for operand in op.operands:
                bits |= self.varies.get(operand, 0)
            closed = all(v in self._closed or known_integer(v) is not None for v in op.operands)
            for result in op.results:
                self.varies[result] = bits
                if closed:
                    self._closed.add(result)

    def depends(self, value: SSAValue, axis: int) -> bool:
        return bool(self.varies.get(value, 0) >> axis & 1)

    def effects(self) -> list[Operation]:
        return [op for op in self.block.ops if isinstance(op, WriteOp) or op_name(op).startswith(_EFFECTS)]

    def masks(self, axis: int) -> list[SSAValue]:
        """Masks and conditions that vary along `axis`."""
        found: dict[SSAValue, None] = {}
        for op in self.block.ops:
            name = op_name(op)
            if name == "tt.load" and len(op.operands) > 1:
                found[op.operands[1]] = None
            elif name == "tt.store" and len(op.operands) > 2:
                found[op.operands[2]] = None
            elif name == "arith.select":
                found[op.operands[0]] = None
        return [mask for mask in found if self.depends(mask, axis)]

    def stride(self, value: SSAValue, axis: int, linear: frozenset[SSAValue] = frozenset()) -> int | None:
        """By how much `value` grows when the index of `axis` grows by one; None if it is no known constant.

        For pointers, in bytes. Integers grow as their own width has it: round the end of it, too, where they wrap.
        Values in `linear` are known not to wrap within the tile, for a reason that only shows at run time.
        """
        if not self.depends(value, axis):
            return 0
        if not isinstance(value, OpResult):
            return 1
        key = (value, axis, linear)
        if key not in self._strides:
            found = self._op_stride(value.op, axis, linear)
            if found is not None and elem_type(value.type)[0] == "i":
                found = wrapped(found, width_of(value))
            self._strides[key] = found
        return self._strides[key]

    def _op_stride(self, op: Operation, axis: int, linear: frozenset[SSAValue]) -> int | None:
        name = op_name(op)
        if name in _REMAINDERS:
            return 1 if op.results[0] in linear else None
        if name in ("arith.extsi", "arith.index_cast"):
            return self._widened(op.operands[0], axis, linear)
        if name == "arith.extui":
            known = self.intervals.unsigned(op.operands[0]) is not None or op.results[0] in linear
            return self.stride(op.operands[0], axis, linear) if known else None
        if name in ("arith.trunci", "tt.bitcast"):
            return self.stride(op.operands[0], axis, linear)
        if name == "arith.ori" and op.operands[0] is op.operands[1]:
            return self.stride(op.operands[0], axis, linear)
        if name == "tt.addptr":
            left, right = (
                self.stride(op.operands[0], axis, linear),
                self._widened(op.operands[1], axis, linear),
            )
            size = bytes_of(pointee_name(op.operands[0].type))
            return None if left is None or right is None else left + right * size
        if name not in ("arith.addi", "arith.subi", "arith.muli", "arith.shli"):
            return None
        left, right = (self.stride(v, axis, linear) for v in op.operands)
        if left is None or right is None:
            return None
        if name == "arith.addi":
            return left + right
        if name == "arith.subi":
            return left - right
        return self._product_stride(op, name, left, right)

    def _widened(self, value: SSAValue, axis: int, linear: frozenset[SSAValue]) -> int | None:
        """The stride of `value` when it is sign-extended: its own, if it does not wrap along the tile.

        Of 32 bits and more that is taken for granted where the tile is short of a full turn and where it starts
        is not known: an index that passes 2**31 in the middle of a tile is an error to Triton, too.
        """
        stride = self.stride(value, axis, linear)
        if stride is None or width_of(value) == 64 or self.intervals.signed(value) is not None:
            return stride
        # Of a closed expression the interval would be known: it does wrap.
        reach = abs(stride) * (self.nest.dims[axis] - 1)
        granted = width_of(value) == 32 and reach < 1 << 31 and value not in self._closed
        return stride if granted else None

    def _product_stride(self, op: Operation, name: str, left: int, right: int) -> int | None:
        if name == "arith.shli":
            amount = known_integer(op.operands[1])
            if right or amount is None or not 0 <= amount < width_of(op.operands[0]):
                return None
            return left << amount
        if left and right:
            return None
        factor = known_integer(op.operands[1] if left else op.operands[0])
        return None if factor is None else (left or right) * factor

    def remainders(self, axis: int) -> list[SSAValue]:
        """Remainders by a uniform number of something that grows by one along `axis`."""
        found = []
        for op in self.block.ops:
            if op_name(op) in _REMAINDERS and width_of(op.results[0]) >= 32:
                divisor_fixed = not self.depends(op.operands[1], axis)
                if divisor_fixed and self.stride(op.operands[0], axis) == 1:
                    found.append(op.results[0])
        return found

    def unsigned_indices(self, axis: int) -> list[SSAValue]:
        """Unsigned integers of 32 bits that move along `axis` and are widened, and may wrap for all that is known."""
        found = []
        for op in self.block.ops:
            if op_name(op) == "arith.extui" and width_of(op.operands[0]) == 32:
                moves = self.stride(op.operands[0], axis)
                if moves and self.intervals.unsigned(op.operands[0]) is None:
                    found.append(op.results[0])
        return found

    def bound(self, condition: SSAValue, axis: int, linear: frozenset[SSAValue]) -> Bound | None:
        """`condition` as a bound on the index of `axis`; None if it is something else."""
        if not self.depends(condition, axis):
            return Bound("uniform", condition)
        if not isinstance(condition, OpResult) or op_name(condition.op) != "arith.cmpi":
            return None
        return self._comparison(condition.op, axis, linear)

    def _comparison(self, op: Operation, axis: int, linear: frozenset[SSAValue]) -> Bound | None:
        left, right = op.operands
        slopes = [self.stride(v, axis, linear) for v in op.operands]
        if slopes[0] is None or slopes[1] is None or abs(slopes[0] - slopes[1]) != 1:
            return None
        predicate = int_attr(op, "predicate")
        unsigned = predicate >= 6
        if slopes[0] - slopes[1] < 0:  # turn it round: the left side grows
            left, right = right, left
            slopes.reverse()
            predicate = {2: 4, 3: 5, 4: 2, 5: 3, 6: 8, 7: 9, 8: 6, 9: 7}.get(predicate, predicate)
        found = {**dict.fromkeys(_LESS, ("less", 0)), **dict.fromkeys(_LESS_EQUAL, ("less", 1)),
                 **dict.fromkeys(_GREATER, ("least", 1)), **dict.fromkeys(_GREATER_EQUAL, ("least", 0))}  # fmt: skip
        if predicate not in found:
            return None
        kind, extra = found[predicate]
        return Bound(kind, left, right, extra, unsigned, (slopes[0], slopes[1]))
