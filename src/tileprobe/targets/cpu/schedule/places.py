"""Which memory a tile of pointers can reach: the arguments it starts from, and whether two elements can meet.

Asked before a load and a store, or two stores, share a stage: element by element a later one could then see or
undo what an earlier one did, which in Triton happens one whole tile after the other.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tileprobe.targets.cpu.same_memory import representatives
from tileprobe.targets.cpu.schedule.ttir import (
    SHAPE_OPS,
    attr_value,
    constant_of,
    element_of,
    int_attr,
    int_list_attr,
    is_elementwise,
    is_tensor,
    op_name,
    owner_op,
    shape_of,
)

_SAME_BASE = frozenset(
    ["tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.bitcast", "tt.reshape", "tt.trans"]
)


class Places:
    """Whether tiles of pointers can meet, in one kernel. `same` says which arguments are the same tensor."""

    def __init__(self, same: str = ""):
        self.stands = representatives(same)
        self.apart: set[tuple[str, str]] = set()  # arguments that were taken for tensors that do not overlap

    def may_meet(self, first: SSAValue, second: SSAValue) -> bool:
        """May two tiles of pointers reach the same memory?"""
        one, other = self._arguments(first), self._arguments(second)
        if one is None or other is None or one & other:
            return True
        self.apart |= {(min(a, b), max(a, b)) for a in one for b in other}
        return False

    def _arguments(self, pointer: SSAValue) -> set[str] | None:
        found = bases(pointer)
        return None if found is None else {self._argument(value) for value in found}

    def _argument(self, value: SSAValue) -> str:
        """An argument's name, or that of the one it is the same as."""
        name = value.name_hint or f"#{value.index}"  # type: ignore[attr-defined]
        return self.stands.get(name, name)

    def same(self, first: SSAValue, second: SSAValue) -> bool:
        """Are two tiles of pointers element by element the same?"""
        return first is second or (bool(self.stands) and self._same(first, second, {}))

    def _same(self, first: SSAValue, second: SSAValue, known: dict[tuple[SSAValue, SSAValue], bool]) -> bool:
        if first is second:
            return True
        if (first, second) not in known:
            known[first, second] = self._alike(first, second, known)
        return known[first, second]

    def _alike(self, first: SSAValue, second: SSAValue, known: dict[tuple[SSAValue, SSAValue], bool]) -> bool:
        one, other = owner_op(first), owner_op(second)
        if one is None or other is None:
            found = bases(first), bases(second)
            arguments = one is other and found == (frozenset([first]), frozenset([second]))
            return arguments and self._argument(first) == self._argument(second)
        name = op_name(one)
        pure = name in SHAPE_OPS or name == "arith.constant" or is_elementwise(name)
        return (
            pure
            and op_name(other) == name
            and first.type == second.type
            and len(one.operands) == len(other.operands)
            and {**one.attributes, **one.properties} == {**other.attributes, **other.properties}
            and all(self._same(a, b, known) for a, b in zip(one.operands, other.operands))
        )


def bases(pointer: SSAValue) -> frozenset[SSAValue] | None:
    """The arguments of the kernel a pointer may start from; None if it may be any."""
    found: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    todo = [pointer]
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        sources = _sources(value)
        if sources is None:
            return None
        if not sources:
            found.add(value)
        todo.extend(sources)
    return frozenset(found)


def _sources(value: SSAValue) -> list[SSAValue] | None:
    """The pointers that `value` may be an offset of; none for an argument of the kernel, None if unknown."""
    op = owner_op(value)
    if op is None:
        return _argument_sources(value)
    name = op_name(op)
    if name in _SAME_BASE:
        return [op.operands[0]]
    if name == "arith.select":
        return list(op.operands[1:])
    number = list(op.results).index(value)  # type: ignore[arg-type]
    if name == "scf.for":
        return [op.operands[3 + number], _last(op.regions[0].block).operands[number]]
    if name == "scf.if":
        return [_last(region.block).operands[number] for region in op.regions if region.blocks]
    return None


def _argument_sources(value: SSAValue) -> list[SSAValue] | None:
    block = value.owner
    assert isinstance(block, Block)
    parent = block.parent_op()
    if parent is None:
        return None
    if op_name(parent) == "tt.func":
        # A function that is called may be given two pointers into one tensor.
        kernel = attr_value(parent, "sym_visibility") != "private" and block is parent.regions[0].blocks[0]
        return [] if kernel else None
    number = list(block.args).index(value)  # type: ignore[arg-type]
    if op_name(parent) == "scf.for" and number > 0:
        return [parent.operands[2 + number], _last(block).operands[number - 1]]
    return None


def _last(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op


def distinct(pointer: SSAValue) -> bool:
    """Is it known that no two elements of a tile of pointers are the same?"""
    steps = _steps(pointer, {})
    if steps is None:
        return False
    reach = 0
    for step, extent in sorted((abs(s), d) for s, d in zip(steps, shape_of(pointer)) if d > 1):
        if step <= reach:
            return False
        reach += step * (extent - 1)
    return reach < 1 << 31


def _steps(value: SSAValue, known: dict[SSAValue, list[int] | None]) -> list[int] | None:
    """By how much `value` grows along each axis; None where that is no known constant.

    Exact as long as nothing wraps: integers below 32 bits, which do, are not followed.
    """
    if value not in known:
        known[value] = _find_steps(value, known)
    return known[value]


def _find_steps(value: SSAValue, known: dict[SSAValue, list[int] | None]) -> list[int] | None:
    op = owner_op(value)
    if op is None:
        return None if is_tensor(value) else []
    name = op_name(op)
    shape = shape_of(value)
    if name == "tt.splat" or (name == "arith.constant" and constant_of(op).splat):
        return [0] * len(shape)
    if name == "tt.make_range":
        return [1]
    if name not in _FOLLOWED or _narrow(value):
        return None
    steps = [_steps(v, known) for v in op.operands]
    if any(s is None for s in steps):
        return None
    return _FOLLOWED[name](op, [s for s in steps if s is not None])


def _narrow(value: SSAValue) -> bool:
    width = getattr(element_of(value.type), "width", None)
    return width is not None and width.data < 32


def _expand(op: Operation, steps: list[list[int]]) -> list[int]:
    axis = int_attr(op, "axis")
    return [*steps[0][:axis], 0, *steps[0][axis:]]


def _broadcast(op: Operation, steps: list[list[int]]) -> list[int]:
    return [0 if d == 1 else s for d, s in zip(shape_of(op.operands[0]), steps[0])]


def _trans(op: Operation, steps: list[list[int]]) -> list[int]:
    return [steps[0][axis] for axis in int_list_attr(op, "order")]


def _product(op: Operation, steps: list[list[int]]) -> list[int] | None:
    for factor, other in ((op.operands[1], steps[0]), (op.operands[0], steps[1])):
        made = owner_op(factor)
        if made is not None and op_name(made) == "arith.constant" and constant_of(made).splat:
            return [s * int(constant_of(made).scalar()) for s in other]
    return None


_FOLLOWED = {
    "tt.expand_dims": _expand,
    "tt.broadcast": _broadcast,
    "tt.trans": _trans,
    "tt.addptr": lambda op, steps: [a + b for a, b in zip(*steps)],
    "arith.addi": lambda op, steps: [a + b for a, b in zip(*steps)],
    "arith.subi": lambda op, steps: [a - b for a, b in zip(*steps)],
    "arith.muli": _product,
    "arith.extsi": lambda op, steps: steps[0],
}
