"""Intervals and strides of a nest's body, against every point of it evaluated with Python's integers.

Random expressions in random widths: where an interval or a stride is claimed, all points have to agree with it.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerType
from xdsl.ir import Block, Operation, Region, SSAValue

from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.codegen.intervals import width_of, wrapped
from tileprobe.targets.cpu.dialect import NestOp, YieldOp
from tileprobe.targets.cpu.schedule.ttir import I32, constant, make

EXTENTS = (2, 256)  # as far as 8 bits reach
COLUMNS = (*range(6), *range(124, 132), *range(250, 256))  # the points to look at
WIDTHS = (8, 8, 8, 16, 32, 64)
NUMBERS = (1, 2, 3, 5, 16, 100, -1, -7)


def unsigned(number: int, width: int) -> int:
    return number % (1 << width)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# name -> result from signed operands and their width; None where it is not defined
BINARY = {
    "arith.addi": lambda a, b, w: a + b,
    "arith.subi": lambda a, b, w: a - b,
    "arith.muli": lambda a, b, w: a * b,
    "arith.andi": lambda a, b, w: a & b,
    "arith.shli": lambda a, b, w: a << b if 0 <= b < w else None,
    "arith.divsi": lambda a, b, w: truncated(a, b) if b else None,
    "arith.remsi": lambda a, b, w: a - b * truncated(a, b) if b else None,
    "arith.divui": lambda a, b, w: unsigned(a, w) // unsigned(b, w) if b else None,
    "arith.remui": lambda a, b, w: unsigned(a, w) % unsigned(b, w) if b else None,
}


@st.composite
def bodies(draw):
    """The ops of a body in order; each operand is one of the values before it."""
    block = Block(arg_types=[I32, I32])
    values: list[SSAValue] = list(block.args)

    def add(op: Operation) -> SSAValue:
        block.add_op(op)
        values.append(op.results[0])
        return op.results[0]

    def some(width: int) -> SSAValue:
        if draw(st.booleans()):
            return draw(st.sampled_from([v for v in values if width_of(v) == width]))
        numbers = st.sampled_from(NUMBERS) | st.integers(-(1 << (width - 1)), (1 << (width - 1)) - 1)
        number = constant(wrapped(draw(numbers), width), IntegerType(width))
        block.add_op(number)
        return number.results[0]

    for _ in range(draw(st.integers(2, 6))):
        if draw(st.integers(0, 2)) == 0:
            value = draw(st.sampled_from(values))
            kind = IntegerType(draw(st.sampled_from([w for w in WIDTHS if w != width_of(value)])))
            names = ["arith.trunci"] if kind.width.data < width_of(value) else ["arith.extsi", "arith.extui"]
            add(make(draw(st.sampled_from(names)), [value], [kind]))
        else:
            width = width_of(draw(st.sampled_from(values)))
            left = draw(st.sampled_from([v for v in values if width_of(v) == width]))
            right = some(width)
            add(make(draw(st.sampled_from(list(BINARY))), [left, right], [IntegerType(width)]))
    block.add_op(YieldOp.create())
    return block, values


def evaluate(block: Block, point: tuple[int, int]) -> dict[SSAValue, int | None]:
    """Every value at one point, read as signed; None where something undefined went into it."""
    found: dict[SSAValue, int | None] = dict(zip(block.args, point))
    for op in block.ops:
        if not op.results:
            continue
        name, width = (
            op.name if op.name != "builtin.unregistered" else op.op_name.data,
            width_of(op.results[0]),
        )
        operands = [found[v] for v in op.operands]
        if name == "arith.constant":
            found[op.results[0]] = op.properties["value"].value.data
        elif any(o is None for o in operands):
            found[op.results[0]] = None
        elif name in BINARY:
            made = BINARY[name](*operands, width)
            found[op.results[0]] = None if made is None else wrapped(made, width)
        else:
            number = unsigned(operands[0], width_of(op.operands[0])) if name == "arith.extui" else operands[0]
            found[op.results[0]] = wrapped(number, width)
    return found


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(bodies())
def test_claims(body):
    block, values = body
    shape = {"shape": ArrayAttr([IntAttr(d) for d in EXTENTS])}
    nest = NestOp.create(operands=[], result_types=[], properties=shape, regions=[Region(block)])
    facts = BodyFacts(nest)
    table = {(i, j): evaluate(block, (i, j)) for i in range(EXTENTS[0]) for j in COLUMNS}
    for value in values:
        width = width_of(value)
        at = {point: row[value] for point, row in table.items()}
        if any(number is None for number in at.values()):
            continue
        for claim, read in (
            (facts.intervals.signed(value), lambda n: n),
            (facts.intervals.unsigned(value), lambda n, w=width: unsigned(n, w)),
        ):
            if claim is not None:
                assert all(claim[0] <= read(n) <= claim[1] for n in at.values()), (claim, value)
        for axis in (0, 1):
            stride = facts.stride(value, axis)
            if stride is None:
                continue
            for (i, j), number in at.items():
                after = at.get((i + 1, j) if axis == 0 else (i, j + 1))
                if after is not None:
                    assert after == wrapped(number + stride, width), (stride, value)
