"""What integers a value of a nest's body can be, as far as that is known without running it.

Asked wherever an integer is widened or compared: `x + 1` in 8 bits is one more than `x` only as long as it does not
wrap. An interval is given only for values of which none has wrapped on the way, so that within it the arithmetic of
the machine is the arithmetic of the integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, OpResult, SSAValue

from tileprobe.ir.accessors import constant_of, op_name

Interval = tuple[int, int]


def width_of(value: SSAValue) -> int:
    """Bits of an integer; an index has 64."""
    return value.type.width.data if isinstance(value.type, IntegerType) else 64


def wrapped(number: int, width: int) -> int:
    """`number` as a signed integer of that width shows it."""
    half = 1 << (width - 1)
    return (number + half) % (1 << width) - half


def known_integer(value: SSAValue) -> int | None:
    """The integer a value is known to be, read as signed."""
    if not isinstance(value, OpResult):
        return None
    name = op_name(value.op)
    if name == "arith.extsi":
        return known_integer(value.op.operands[0])
    if name == "arith.extui":
        inner = known_integer(value.op.operands[0])
        return None if inner is None else inner % (1 << width_of(value.op.operands[0]))
    if name != "arith.constant":
        return None
    number = constant_of(value.op).scalar()
    return wrapped(int(number), width_of(value)) if isinstance(number, int) else None


@dataclass
class Intervals:
    """The intervals of one body. `extents` are those of its indices."""

    extents: dict[SSAValue, int]
    _signed: dict[SSAValue, Interval | None] = field(default_factory=dict)
    _unsigned: dict[SSAValue, Interval | None] = field(default_factory=dict)

    def signed(self, value: SSAValue) -> Interval | None:
        """Smallest and largest value, read as signed; None if it may be anything or may have wrapped."""
        if value not in self._signed:
            self._signed[value] = _within(self._find(value, self.signed), _signed_limits(width_of(value)))
        return self._signed[value]

    def unsigned(self, value: SSAValue) -> Interval | None:
        """The same, read as unsigned."""
        if value not in self._unsigned:
            found = self.signed(value)
            if found is None or found[0] < 0:
                found = self._find(value, self.unsigned)
            self._unsigned[value] = _within(found, (0, (1 << width_of(value)) - 1))
        return self._unsigned[value]

    def _find(self, value: SSAValue, read: Callable[[SSAValue], Interval | None]) -> Interval | None:
        if value in self.extents:
            return 0, self.extents[value] - 1
        number = known_integer(value)
        if number is not None:
            return number, number
        if not isinstance(value, OpResult) or not isinstance(value.type, IntegerType):
            return None
        op = value.op
        name = op_name(op)
        if name == "arith.extsi":
            return self.signed(op.operands[0])
        if name == "arith.extui":
            return self.unsigned(op.operands[0])
        if name == "arith.trunci":
            return self.signed(op.operands[0])
        rule = _RULES.get(name)
        if name in _SIGNED_OPS:
            read = self.signed
        elif name in _UNSIGNED_OPS:
            read = self.unsigned
        return rule(op, [read(v) for v in op.operands]) if rule is not None else None


def _signed_limits(width: int) -> Interval:
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _within(found: Interval | None, limits: Interval) -> Interval | None:
    if found is None or found[0] < limits[0] or found[1] > limits[1]:
        return None
    return found


Rule = Callable[[Operation, list[Interval | None]], Interval | None]


def _corners(combine: Callable[[int, int], int]) -> Rule:
    """A rule for an operation that is largest and smallest at the ends of its operands."""

    def rule(op: Operation, operands: list[Interval | None]) -> Interval | None:
        left, right = operands
        if left is None or right is None:
            return None
        ends = [combine(a, b) for a in left for b in right]
        return min(ends), max(ends)

    return rule


def _shift_left(op: Operation, operands: list[Interval | None]) -> Interval | None:
    amount, left = known_integer(op.operands[1]), operands[0]
    if left is None or amount is None or not 0 <= amount < width_of(op.operands[0]):
        return None
    return left[0] << amount, left[1] << amount


def _and(op: Operation, operands: list[Interval | None]) -> Interval | None:
    known = [i[1] for i in operands if i is not None and i[0] >= 0]
    return (0, min(known)) if known else None


def _remainder(op: Operation, operands: list[Interval | None]) -> Interval | None:
    whole, divisor = operands[0], known_integer(op.operands[1])
    if whole is None or divisor is None or divisor <= 0 or whole[0] < 0:
        return None
    return 0, min(whole[1], divisor - 1)


def _quotient(op: Operation, operands: list[Interval | None]) -> Interval | None:
    whole, divisor = operands[0], known_integer(op.operands[1])
    if whole is None or divisor is None or divisor <= 0 or whole[0] < 0:
        return None
    return whole[0] // divisor, whole[1] // divisor


# Sums and products are the same however their operands are read; these are not.
_SIGNED_OPS = ("arith.divsi", "arith.remsi")
_UNSIGNED_OPS = ("arith.divui", "arith.remui")
_RULES: dict[str, Rule] = {
    "arith.addi": _corners(lambda a, b: a + b),
    "arith.subi": _corners(lambda a, b: a - b),
    "arith.muli": _corners(lambda a, b: a * b),
    "arith.shli": _shift_left,
    "arith.andi": _and,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
}
