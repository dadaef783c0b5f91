"""Loop-carried tiles that only advance: `a_ptrs += BLOCK_K * stride` carries a scalar, not a tile of pointers.

Comes in: a TTIR function. Goes out: the same function, in which an iteration argument that is advanced by the
same amount in each lane, or by the same tile in each iteration, is an expression of its first value and a scalar.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileprobe.targets.cpu.schedule.ttir import (
    I64,
    attr,
    constant,
    element_of,
    is_elementwise,
    is_tensor,
    make,
    op_name,
    owner_op,
    shape_of,
)


def simplify_carried(root: Operation) -> None:
    """Rewrite every `scf.for` below `root`, the inner ones first."""
    loops = [op for op in root.walk() if op_name(op) == "scf.for"]
    for loop in reversed(loops):
        _simplify(loop)


def _simplify(loop: Operation) -> None:
    block = loop.regions[0].block
    last = block.last_op
    assert last is not None
    advances: dict[int, _Advance] = {}
    for k, arg in enumerate(block.args[1:]):
        if not is_tensor(arg):
            continue
        if last.operands[k] is arg:  # never changed
            arg.replace_all_uses_with(loop.operands[3 + k])
            loop.results[k].replace_all_uses_with(loop.operands[3 + k])
            last.operands[k] = arg
            continue
        steps = _steps(last.operands[k], arg)
        if steps is None:
            continue
        scalar = all(_splat_source(step) is not None for step, _ in steps)
        if scalar or (len(steps) == 1 and _invariant(steps[0][0], loop)):
            advances[k] = _Advance(loop.operands[3 + k], steps, scalar)
    if advances:
        _carry_scalars(loop, advances)


@dataclass
class _Advance:
    """How an iteration argument moves: its first value, the tiles added to it, and whether these are all splats."""

    init: SSAValue
    steps: list[tuple[SSAValue, int]]
    scalar: bool

    @property
    def pointer(self) -> bool:
        return not isinstance(element_of(self.init.type), IntegerType)

    @property
    def kind(self) -> Attribute:
        """Type of the scalar that is carried."""
        return I64 if self.pointer else element_of(self.init.type)

    def at(self, counter: SSAValue, like: Operation) -> list[Operation]:
        """Ops for the tile as it is when the scalar is `counter`; the last one gives it."""
        tile = TensorType(self.kind, shape_of(self.init))
        ops = [make("tt.splat", [counter], [tile], like=like)]
        if not self.scalar:
            step, sign = self.steps[0]
            ops.append(_widened(step, tile, like))
            ops.append(make("arith.muli", [ops[0].results[0], ops[1].results[0]], [tile], like=like))
            if sign < 0:
                return [
                    *ops,
                    make("arith.subi", [self.init, ops[-1].results[0]], [self.init.type], like=like),
                ]
        add = "tt.addptr" if self.pointer else "arith.addi"
        return [*ops, make(add, [self.init, ops[-1].results[0]], [self.init.type], like=like)]

    def next(self, counter: SSAValue, like: Operation) -> list[Operation]:
        """Ops for the scalar's value in the next iteration."""
        if not self.scalar:
            one = constant(1, self.kind)
            return [one, make("arith.addi", [counter, one.results[0]], [self.kind], like=like)]
        ops: list[Operation] = []
        for step, sign in self.steps:
            source = _splat_source(step)
            if isinstance(source, int):
                ops.append(constant(source, self.kind))
            else:
                assert source is not None
                ops.append(_widened(source, self.kind, like))
            ops.append(
                make(
                    "arith.addi" if sign > 0 else "arith.subi",
                    [counter, ops[-1].results[0]],
                    [self.kind],
                    like=like,
                )
            )
            counter = ops[-1].results[0]
        return ops


def _widened(value: SSAValue, kind: Attribute, like: Operation) -> Operation:
    """`value` extended to `kind`; adding zero where it has that type already."""
    if value.type == kind:
        return make("arith.ori", [value, value], [kind], like=like)
    return make("arith.extsi", [value], [kind], like=like)


def _carry_scalars(loop: Operation, advances: dict[int, _Advance]) -> None:
    block, parent = loop.regions[0].block, loop.parent
    assert parent is not None
    operands, types = list(loop.operands), [r.type for r in loop.results]
    for k, advance in advances.items():
        zero = constant(0, advance.kind)
        parent.insert_op_before(zero, loop)
        operands[3 + k], types[k] = zero.results[0], advance.kind
        last = block.last_op
        assert last is not None
        arg = block.args[1 + k]
        counter = block.insert_arg(advance.kind, 1 + k)
        ops = advance.next(counter, last)
        block.insert_ops_before(ops, last)
        last.operands[k] = ops[-1].results[0]
        ops = advance.at(counter, loop)
        first = block.first_op
        assert first is not None
        block.insert_ops_before(ops, first)
        arg.replace_all_uses_with(ops[-1].results[0])
        block.erase_arg(arg)
    region = loop.detach_region(loop.regions[0])
    fresh = make("scf.for", operands, types, {**loop.attributes, **loop.properties}, [region], like=loop)
    parent.insert_op_before(fresh, loop)
    for k, (old, new) in enumerate(zip(loop.results, fresh.results)):
        if k not in advances:
            old.replace_all_uses_with(new)
        elif old.uses:
            ops = advances[k].at(new, loop)
            parent.insert_ops_before(ops, loop)
            old.replace_all_uses_with(ops[-1].results[0])
    loop.detach()
    loop.erase()


def _steps(value: SSAValue, arg: SSAValue) -> list[tuple[SSAValue, int]] | None:
    """The tiles added to `arg` to give `value`, each with its sign; None when it is no such sum."""
    steps: list[tuple[SSAValue, int]] = []
    while value is not arg:
        op = owner_op(value)
        if op is None or len(steps) > 8:
            return None
        name = op_name(op)
        if name == "tt.addptr":
            steps.append((op.operands[1], 1))
            value = op.operands[0]
        elif name == "arith.addi":
            # the operand that leads back to the argument is the one that is not a plain splat
            left = _splat_source(op.operands[0]) is None
            step, value = (op.operands[1], op.operands[0]) if left else (op.operands[0], op.operands[1])
            steps.append((step, 1))
        elif name == "arith.subi":
            steps.append((op.operands[1], -1))
            value = op.operands[0]
        else:
            return None
    return steps or None


def _splat_source(value: SSAValue) -> SSAValue | int | None:
    """The scalar of which `value` is a splat: an SSA value or a known integer."""
    op = owner_op(value)
    if op is None:
        return None
    name = op_name(op)
    if name == "tt.splat":
        return op.operands[0]
    if name in ("tt.broadcast", "tt.expand_dims", "tt.reshape"):
        return _splat_source(op.operands[0])
    if name == "arith.constant":
        data = attr(op, "value")
        if isinstance(data, DenseIntOrFPElementsAttr) and data.is_splat():
            number = data.get_values()[0]
            return int(number) if isinstance(number, int) else None
        if isinstance(data, IntegerAttr):
            return data.value.data
    return None


def _invariant(value: SSAValue, loop: Operation) -> bool:
    op = owner_op(value)
    if op is None:
        return isinstance(value.owner, Block) and not loop.is_ancestor(value.owner)
    if not loop.is_ancestor(op):
        return True
    name = op_name(op)
    pure = is_elementwise(name) or name in (
        "arith.constant",
        "tt.splat",
        "tt.broadcast",
        "tt.expand_dims",
        "tt.make_range",
    )
    if not pure or not all(_invariant(operand, loop) for operand in op.operands):
        return False
    op.detach()
    assert loop.parent is not None
    loop.parent.insert_op_before(op, loop)
    return True
