"""Checks scheduled IR against what the lowering meant by it: every kernel that is compiled, before code is made.

Follows the stages in the order in which they run and keeps account of which tile each buffer holds by then: buffers
that share scratch memory, views and places overwritten in between included. A read of anything else than the tile it
stands for is an error, and so is an access to memory out of order (`verify_memory.py`). docs/scheduled-ir.md states
the rules.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.targets.cpu.dialect import (
    AllocOp,
    BufferType,
    DotOp,
    NestOp,
    ReadOp,
    ReduceOp,
    ScanOp,
    ViewOp,
    WriteOp,
)
from tileprobe.targets.cpu.schedule.nest import same_memory, viewed
from tileprobe.targets.cpu.schedule.notes import Merged, Notes
from tileprobe.targets.cpu.schedule.places import Places
from tileprobe.targets.cpu.schedule.scratch import buffer_bytes
from tileprobe.targets.cpu.schedule.ttir import is_tensor, numel
from tileprobe.targets.cpu.schedule.verify_memory import MemoryOrder, ScheduleError, complain


class _State:
    """What is known at one point of the function."""

    def __init__(self, holds: dict[SSAValue, SSAValue], memory: MemoryOrder):
        self.holds = holds  # buffer (never a view) -> the tile that lies in it
        self.memory = memory

    def copy(self) -> _State:
        return _State(dict(self.holds), self.memory.copy())

    def join(self, other: _State) -> None:
        """What is known where two ways meet."""
        self.holds = {b: t for b, t in self.holds.items() if other.holds.get(b) is t}
        self.memory.join(other.memory)


class Verifier:
    """One function. `source` is the TTIR function, `function` what became of it."""

    def __init__(self, kernel: str, source: Operation, function: Operation, notes: Notes, places: Places):
        self.kernel = kernel
        self.function = function
        self.notes = notes
        self.memory = MemoryOrder(kernel, source, notes, places)
        self.written = _buffers_written(function, notes)

    def run(self) -> None:
        blocks = list(self.function.regions[0].blocks)
        ends: dict[Block, _State] = {}
        for block in _in_order(blocks):
            before = [ends[b] for b in blocks if b in ends and _jumps(b, block)]
            state = before[0].copy() if before else _State(dict(self.notes.arguments), self.memory)
            for other in before[1:]:
                state.join(other)
            self._block(block, state)
            self._leave(block, state)
            ends[block] = state

    # -- blocks and control flow -----------------------------------------------------------------------------

    def _block(self, block: Block, state: _State) -> None:
        for op in block.ops:
            self._op(op, state)

    def _leave(self, block: Block, state: _State) -> None:
        """The tiles that a block hands on are where they are said to be."""
        merges = self.notes.merges.get(block, [])
        last = block.last_op or self.function
        for merged in merges:
            self._expect(last, merged.buffer, merged.given, state)
        self._rename(merges, state)

    def _rename(self, merges: list[Merged], state: _State) -> None:
        state.holds.update((viewed(m.buffer), m.becomes) for m in merges)

    def _op(self, op: Operation, state: _State) -> None:
        name = op_name(op)
        if isinstance(op, AllocOp):
            state.holds.pop(op.buffer, None)
        elif isinstance(op, ViewOp) or name == "tile.table":
            pass
        elif isinstance(op, NestOp):
            self._nest(op, state)
        elif name in ("scf.for", "scf.while"):
            self._loop(op, state)
        elif name == "scf.if":
            self._branches(op, state)
        elif op in self.notes.stages:
            self._stage(op, state)
        elif isinstance(op, ReadOp):
            self._expect(op, op.buffer, self.notes.holds[op], state)
        elif op in self.notes.accesses:
            state.memory.access(op)

    def _loop(self, op: Operation, state: _State) -> None:
        carried = self.notes.loops[op]
        for tile in carried:
            self._expect(op, tile.buffer, tile.first, state)
        for buffer in self.written[op]:
            self._overwrite(buffer, None, state)
        state.holds.update((viewed(tile.buffer), tile.inside) for tile in carried)
        state.memory.enter_loop(op)
        inside = state.copy()
        blocks = [region.block for region in op.regions]
        self._block(blocks[0], inside)
        if len(blocks) > 1:  # a while loop: behind the condition the tiles it passes on, then the body
            self._leave(blocks[0], inside)
            passed = self.notes.merges.get(blocks[0], [])
            body = inside.copy()
            self._rename(self.notes.merges.get(blocks[1], []), body)
            self._block(blocks[1], body)
            state.memory.join(inside.memory)
            self._rename(passed, state)
            inside = body
        for tile in carried:
            self._expect(blocks[-1].last_op or op, tile.buffer, tile.next, inside)
        state.memory.join(inside.memory)
        if len(blocks) == 1:
            state.holds.update((viewed(t.buffer), t.behind) for t in carried if t.behind is not None)

    def _branches(self, op: Operation, state: _State) -> None:
        ends = []
        for region in op.regions:
            end = state.copy()
            if region.blocks:
                self._block(region.block, end)
                self._leave(region.block, end)
            ends.append(end)
        if len(ends) == 1:
            ends.append(state.copy())
        ends[0].join(ends[1])
        state.holds, state.memory = ends[0].holds, ends[0].memory

    # -- stages ----------------------------------------------------------------------------------------------

    def _nest(self, op: NestOp, state: _State) -> None:
        """The points of a nest run in any order: what it writes, it may read only at the same point, before."""
        block = op.body.block
        writes: dict[SSAValue, list[WriteOp]] = {}
        for inner in block.ops:
            if isinstance(inner, WriteOp):
                writes.setdefault(viewed(inner.buffer), []).append(inner)
        into = {viewed(b) for b in op.into}
        done: set[SSAValue] = set()
        for inner in block.ops:
            if isinstance(inner, ReadOp):
                self._expect(inner, inner.buffer, self.notes.holds[inner], state)
                buffer = viewed(inner.buffer)
                if buffer in writes or buffer in into:
                    same = [
                        w.buffer is inner.buffer and w.indices == inner.indices
                        for w in writes.get(buffer, [])
                    ]
                    if buffer in done or buffer in into or not same or not all(same):
                        complain(self.kernel, inner, "a stage reads a tile that it overwrites")
            elif isinstance(inner, WriteOp):
                done.add(viewed(inner.buffer))
        state.memory.nest(op)
        for buffer, found in writes.items():
            self._check_covered(op, found)
            tiles = {self.notes.holds[w] for w in found}
            if len(tiles) > 1:
                complain(self.kernel, op, "a stage writes two tiles into one buffer")
            self._overwrite(buffer, tiles.pop(), state)
        for buffer, tile in zip(op.into, self.notes.stages.get(op, [])):
            self._overwrite(viewed(buffer), tile, state)

    def _check_covered(self, op: NestOp, writes: list[WriteOp]) -> None:
        kind = writes[0].buffer.type
        assert isinstance(kind, BufferType)
        if numel(op.dims) * len({tuple(w.indices) for w in writes}) != numel(kind.dims):
            complain(self.kernel, op, "a stage writes a part of a tile only")

    def _stage(self, op: Operation, state: _State) -> None:
        tiles = self.notes.stages[op]
        buffers = [v for v in op.operands if isinstance(v.type, BufferType)]
        targets = _targets(op, self.notes)
        sources = buffers[: len(buffers) - len(targets)]
        reads = list(zip(sources, tiles))
        if isinstance(op, DotOp) and not op.zero.data:
            reads.append((op.c, tiles[2]))
        for buffer, tile in reads:
            self._expect(op, buffer, tile, state)
        for buffer, tile in zip(targets, tiles[len(tiles) - len(targets) :]):
            if any(same_memory(buffer, source) for source in sources):
                complain(self.kernel, op, "a stage overwrites its own operand")
            self._overwrite(viewed(buffer), tile, state)
        if op in self.notes.accesses:
            state.memory.access(op)

    # -- buffers ---------------------------------------------------------------------------------------------

    def _expect(self, op: Operation, buffer: SSAValue, tile: SSAValue, state: _State) -> None:
        root = viewed(buffer)
        if isinstance(root.owner, Operation) and op_name(root.owner) == "tile.table":
            return  # a constant
        held = state.holds.get(root)
        if held is not tile:
            found = "nothing that is known" if held is None else f"%{held.name_hint or '?'}"
            complain(self.kernel, op, f"%{tile.name_hint or '?'} is read from a buffer that holds {found}")

    def _overwrite(self, buffer: SSAValue, tile: SSAValue | None, state: _State) -> None:
        begin, end = _extent(buffer)
        for other in [b for b in state.holds if b is not buffer]:
            start, stop = _extent(other)
            if begin < stop and start < end:
                del state.holds[other]
        if tile is None:
            state.holds.pop(buffer, None)
        else:
            state.holds[buffer] = tile


def _extent(buffer: SSAValue) -> tuple[int, int]:
    """Where a buffer lies in scratch memory; nowhere, for one that the caller owns."""
    owner = buffer.owner
    if not isinstance(owner, AllocOp) or owner.offset is None:
        return 0, 0
    assert isinstance(buffer.type, BufferType)
    return owner.offset.data, owner.offset.data + buffer_bytes(buffer.type)


def _targets(op: Operation, notes: Notes) -> list[SSAValue]:
    """The buffers an op writes."""
    if isinstance(op, WriteOp):
        return [op.buffer]
    if isinstance(op, NestOp | ReduceOp | ScanOp):
        return list(op.into)
    if isinstance(op, DotOp):
        return [op.c]
    if op not in notes.stages:
        return []
    # a histogram or a call: the last ones
    buffers = [v for v in op.operands if isinstance(v.type, BufferType)]
    original = notes.accesses.get(op)
    count = 1 if original is None else sum(map(is_tensor, original.results))
    return buffers[len(buffers) - count :]


def _buffers_written(function: Operation, notes: Notes) -> dict[Operation, set[SSAValue]]:
    """For each loop, the buffers that are written inside of it."""
    found: dict[Operation, set[SSAValue]] = {loop: set() for loop in notes.loops}
    for op in function.walk():
        targets = {viewed(b) for b in _targets(op, notes)}
        around = op.parent_op() if targets else None
        while around is not None:
            if around in found:
                found[around] |= targets
            around = around.parent_op()
    return found


def _jumps(block: Block, target: Block) -> bool:
    return block.last_op is not None and target in block.last_op.successors


def _in_order(blocks: list[Block]) -> list[Block]:
    """Every block behind those it is reached from. Triton's functions have no loops of blocks."""
    order: list[Block] = []
    seen: set[Block] = set()

    def visit(block: Block) -> None:
        if block in seen:
            return
        seen.add(block)
        for successor in block.last_op.successors if block.last_op is not None else ():
            visit(successor)
        order.append(block)

    visit(blocks[0])
    return order[::-1]


__all__ = ["ScheduleError", "Verifier"]
