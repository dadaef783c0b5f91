"""Places buffers in the scratch memory of a program: buffers that do not live at the same time share space."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from tileprobe.targets.cpu.codegen.dot_layout import Panel
from tileprobe.targets.cpu.dialect import AllocOp, BufferType, ViewOp
from tileprobe.targets.cpu.schedule.ttir import numel

_ALIGN = 64
# Room behind each buffer: vectors may run over the end of a short row, and neighbours keep out of one cache set.
_GAP = 64
_BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i1": 8, "tf32": 32}


def element_bytes(kind: object) -> int:
    text = str(kind)
    if text in _BITS:
        return _BITS[text] // 8
    if text.startswith("f8"):
        return 1
    if text.startswith("i") and text[1:].isdigit():
        return max(1, int(text[1:]) // 8)
    return 8  # pointers


def buffer_elements(kind: BufferType) -> int:
    """Elements of memory a buffer takes, the unused ends of panels included."""
    if kind.panel is None:
        return numel(kind.dims)
    axis, width = kind.panel
    return numel(kind.dims[:-2]) * Panel((kind.dims[-2], kind.dims[-1]), axis, width).elems


def buffer_bytes(kind: BufferType) -> int:
    size = buffer_elements(kind) * element_bytes(kind.element) + _GAP
    return -(-size // _ALIGN) * _ALIGN


def assign_scratch(function: Operation) -> int:
    """Give each `tile.alloc` its offset; returns the bytes a program of this function needs."""
    position: dict[Operation, int] = {}
    end: dict[Operation, int] = {}
    _number(function, position, end)
    placed: list[tuple[int, int, int, int]] = []  # start and stop in time, offset and bytes in memory
    total = 0
    allocs = [op for op in function.walk() if isinstance(op, AllocOp)]
    for op in allocs:
        start, stop = position[op], _last_use(op, position, end, function)
        size = buffer_bytes(op.buffer.type)  # type: ignore[arg-type]
        offset = _first_gap([(o, s) for b, e, o, s in placed if b < stop and start < e], size)
        placed.append((start, stop, offset, size))
        op.properties["offset"] = IntAttr(offset)
        total = max(total, offset + size)
    function.attributes["tile.scratch"] = IntAttr(total)
    return total


def _number(op: Operation, position: dict[Operation, int], end: dict[Operation, int]) -> None:
    position[op] = len(position)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                _number(inner, position, end)
    end[op] = len(position)


def _last_use(
    op: AllocOp, position: dict[Operation, int], end: dict[Operation, int], function: Operation
) -> int:
    """The end of the last op of the buffer's own block that uses it, itself or further inside."""
    if len(function.regions[0].blocks) > 1:
        return end[function]  # unstructured control flow: it lives throughout
    stop = position[op] + 1
    todo: list[SSAValue] = [op.buffer]
    while todo:
        for use in todo.pop().uses:
            user = use.operation
            if isinstance(user, ViewOp):
                todo.append(user.buffer)
            while user.parent is not op.parent:
                parent = user.parent_op()
                assert parent is not None
                user = parent
            stop = max(stop, end[user])
    return stop


def _first_gap(taken: list[tuple[int, int]], size: int) -> int:
    offset = 0
    for start, length in sorted(taken):
        if offset + size <= start:
            break
        offset = max(offset, start + length)
    return offset
