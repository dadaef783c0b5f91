"""What the body of a nest depends on: which indices a value varies with, and how it moves along one of them.

Asked by the nest emitter to choose the vector axis, to hoist what does not vary, to recognise contiguous
accesses, and to turn masks such as `offsets < n` into ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileprobe.ir.accessors import constant_of, int_attr, op_name
from tileprobe.targets.cpu.codegen.types import bytes_of, pointee_name
from tileprobe.targets.cpu.dialect import WriteOp

_EFFECTS = ("tt.store", "tt.atomic", "tt.print", "tt.assert", "tt.map_elementwise")
# cmpi predicates by number: eq ne slt sle sgt sge ult ule ugt uge
_LESS, _LESS_EQUAL, _GREATER, _GREATER_EQUAL = (2, 6), (3, 7), (4, 8), (5, 9)


@dataclass(frozen=True)
class Bound:
    """A condition that holds for a range of the vector index.

    kind "less": index + left - right < 0, that is index < right - left (+ extra);
    kind "least": index >= right - left (+ extra); kind "uniform": `left` itself, for all or none.
    `unsigned` says how the sides widen.
    """

    kind: str
    left: SSAValue
    right: SSAValue | None = None
    extra: int = 0
    unsigned: bool = False


@dataclass
class BodyFacts:
    """Facts about one body; `block` holds its ops, its arguments are the indices."""

    block: Block
    varies: dict[SSAValue, int] = field(default_factory=dict)  # value -> bit set of indices

    def __post_init__(self) -> None:
        for number, arg in enumerate(self.block.args):
            self.varies[arg] = 1 << number
        for op in self.block.ops:
            bits = 0
            for operand in op.operands:
                bits |= self.varies.get(operand, 0)
            for result in op.results:
                self.varies[result] = bits

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

        For pointers, in bytes. Values in `linear` (remainders that do not wrap) are taken to grow by one.
        """
        if not self.depends(value, axis):
            return 0
        if not isinstance(value, OpResult):
            return 1
        if value in linear:
            return 1
        return self._op_stride(value.op, axis, linear)

    def _op_stride(self, op: Operation, axis: int, linear: frozenset[SSAValue]) -> int | None:
        name = op_name(op)
        if name in ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.bitcast"):
            return self.stride(op.operands[0], axis, linear)
        if name == "arith.ori" and op.operands[0] is op.operands[1]:
            return self.stride(op.operands[0], axis, linear)
        if name not in ("arith.addi", "arith.subi", "arith.muli", "arith.shli", "tt.addptr"):
            return None
        left, right = (self.stride(v, axis, linear) for v in op.operands)
        if left is None or right is None:
            return None
        if name == "arith.addi":
            return left + right
        if name == "arith.subi":
            return left - right
        if name == "tt.addptr":
            return left + right * bytes_of(pointee_name(op.operands[0].type))
        return self._product_stride(op, name, left, right)

    def _product_stride(self, op: Operation, name: str, left: int, right: int) -> int | None:
        if name == "arith.shli":
            amount = _known(op.operands[1])
            return None if right or amount is None else left << amount
        if left and right:
            return None
        factor = _known(op.operands[1] if left else op.operands[0])
        return None if factor is None else (left or right) * factor

    def remainders(self, axis: int) -> list[SSAValue]:
        """Remainders by a uniform number of something that grows by one along `axis`."""
        found = []
        for op in self.block.ops:
            if op_name(op) in ("arith.remsi", "arith.remui"):
                divisor_fixed = not self.depends(op.operands[1], axis)
                if divisor_fixed and self.stride(op.operands[0], axis) == 1:
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
            predicate = {2: 4, 3: 5, 4: 2, 5: 3, 6: 8, 7: 9, 8: 6, 9: 7}.get(predicate, predicate)
        if predicate in _LESS:
            return Bound("less", left, right, 0, unsigned)
        if predicate in _LESS_EQUAL:
            return Bound("less", left, right, 1, unsigned)
        if predicate in _GREATER:
            return Bound("least", left, right, 1, unsigned)
        if predicate in _GREATER_EQUAL:
            return Bound("least", left, right, 0, unsigned)
        return None


def _known(value: SSAValue) -> int | None:
    """The integer a value is known to be."""
    if not isinstance(value, OpResult):
        return None
    name = op_name(value.op)
    if name in ("arith.extsi", "arith.extui"):
        return _known(value.op.operands[0])
    if name != "arith.constant":
        return None
    number = constant_of(value.op).scalar()
    return int(number) if isinstance(number, int) else None
