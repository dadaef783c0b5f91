"""The blocks of a region as a graph: their order of execution, their predecessors, cycles among them."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, Region


def successors(block: Block) -> Iterable[Block]:
    return block.last_op.successors if block.last_op is not None else ()


def in_order(region: Region) -> list[Block]:
    """The blocks that can be reached, each after one that leads to it. Their order in the text may differ."""
    seen: set[Block] = set()
    finished: list[Block] = []

    def visit(block: Block) -> None:
        seen.add(block)
        for after in reversed(list(successors(block))):
            if after not in seen:
                visit(after)
        finished.append(block)

    if region.blocks.first is not None:
        visit(region.blocks.first)
    return finished[::-1]


def predecessors(region: Region) -> dict[Block, set[Block]]:
    """For each block of a region those that lead to it, reachable or not."""
    found: dict[Block, set[Block]] = {block: set() for block in region.blocks}
    for block in region.blocks:
        for after in successors(block):
            found[after].add(block)
    return found


def has_cycle(region: Region) -> bool:
    """Whether control can come back to a block of this region. Without that each block runs at most once, and
    its records have fixed places, early return or not."""
    done: set[Block] = set()
    path: set[Block] = set()

    def visit(block: Block) -> bool:
        if block in path:
            return True
        if block in done:
            return False
        path.add(block)
        found = any(visit(successor) for successor in successors(block))
        path.discard(block)
        done.add(block)
        return found

    return region.blocks.first is not None and visit(region.blocks.first)


def exits(region: Region) -> list[Operation]:
    """The ops with which control leaves a region."""
    last = [block.last_op for block in region.blocks]
    return [op for op in last if op is not None and not op.successors]


def insert_first(block: Block, op: Operation) -> None:
    """Puts an op before all others of a block."""
    if block.first_op is None:
        block.add_op(op)
    else:
        block.insert_op_before(op, block.first_op)
