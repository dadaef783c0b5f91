"""Does a combine function give the same whichever of its two sides comes first?

Elements of a reduction may then be folded in any order, as they come in vectors. Answered for functions that only
compare and choose (`argmax` and its kind), by trying every order their operands can have.
"""

from __future__ import annotations

from itertools import product

from xdsl.ir import Block, Operation, SSAValue

from tileprobe.ir.accessors import constant_of, int_attr, op_name

# cmpi: eq ne slt sle sgt sge ult ule ugt uge
_INTEGERS = ["==", "!=", *["<", "<=", ">", ">="] * 2]
# cmpf: false, six ordered, ordered at all, six unordered, unordered at all, true; no NaN is tried
_FLOATS = ["no", *["==", ">", ">=", "<", "<=", "!="], "yes", *["==", ">", ">=", "<", "<=", "!="], "no", "yes"]
_COMPARE = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "no": lambda a, b: False, "yes": lambda a, b: True,
}  # fmt: skip
_LOGIC = {
    "arith.andi": lambda a, b: a and b,
    "arith.ori": lambda a, b: a or b,
    "arith.xori": lambda a, b: a != b,
}
_MOST_OPERANDS = 4
_ORDERS = ((0, 1), (1, 0), (0, 0))


class _UnknownError(Exception):
    """The function does more than compare and choose."""


def commutes(block: Block) -> bool:
    """Is `block`, a combine function of left and right operands, known to commute?"""
    count = len(block.args) // 2
    if count > _MOST_OPERANDS:
        return False
    # Of numbers only their order matters; a truth value is chosen by, too, so that all four cases differ.
    orders = [_ORDERS + ((1, 1),) * (str(arg.type) == "i1") for arg in block.args[:count]]
    try:
        _check_signs(block)
        for chosen in product(*orders):
            left, right = zip(*chosen)
            if _apply(block, left, right) != _apply(block, right, left):
                return False
    except _UnknownError:
        return False
    return True


def _check_signs(block: Block) -> None:
    """An operand has one order: it is not compared as signed here and as unsigned there."""
    signs: dict[SSAValue, set[bool]] = {}
    for op in block.ops:
        if op_name(op) == "arith.cmpi" and int_attr(op, "predicate") >= 2:
            for value in op.operands:
                signs.setdefault(value, set()).add(int_attr(op, "predicate") >= 6)
    if any(len(found) > 1 for found in signs.values()):
        raise _UnknownError


def _apply(block: Block, left: tuple[int, ...], right: tuple[int, ...]) -> list[object]:
    values: dict[SSAValue, object] = dict(zip(block.args, (*left, *right)))
    for op in block.ops:
        if not op.results:
            return [values[v] for v in op.operands]
        values[op.results[0]] = _evaluate(op, values, block)
    raise _UnknownError


def _evaluate(op: Operation, values: dict[SSAValue, object], block: Block) -> object:
    name = op_name(op)
    if name == "arith.constant" and str(op.results[0].type) == "i1":
        return bool(constant_of(op).scalar())
    operands = [values.get(v) for v in op.operands]
    if name in ("arith.cmpi", "arith.cmpf"):
        _check_sides(op, block)
        sign = (_INTEGERS if name == "arith.cmpi" else _FLOATS)[int_attr(op, "predicate")]
        return _COMPARE[sign](*operands)
    if name == "arith.select":
        return operands[1] if operands[0] else operands[2]
    if name in _LOGIC and str(op.results[0].type) == "i1":
        return _LOGIC[name](*operands)
    raise _UnknownError


def _check_sides(op: Operation, block: Block) -> None:
    """Only the left and the right of one operand are compared: nothing else has an order that was tried."""
    args = list(block.args)
    if not all(v in args for v in op.operands):
        raise _UnknownError
    first, second = (args.index(v) for v in op.operands)  # type: ignore[arg-type]
    if abs(first - second) != len(args) // 2:
        raise _UnknownError
