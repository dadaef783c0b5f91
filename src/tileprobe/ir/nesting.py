"""The rule that starts and stops nest: in every block, and along every path of unstructured control flow.

In comes any op of a body and the two classes to match; a body that breaks the rule raises a VerifyException
that names the region.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region
from xdsl.utils.exceptions import VerifyException


def check_nesting(op: Operation, start: type[Operation], stop: type[Operation]) -> None:
    """Checks the body that `op` stands in, once: when `op` is its first start or stop."""
    body = op.parent_region()
    if body is None:
        return
    first = next(o for block in body.blocks for o in block.ops if isinstance(o, (start, stop)))
    if first is op:
        _check(body, start, stop)


def _check(body: Region, start: type[Operation], stop: type[Operation]) -> None:
    entry = body.blocks.first
    assert entry is not None
    open_at: dict[Block, tuple[int, ...]] = {entry: ()}
    todo = [entry]
    while todo:
        block = todo.pop()
        left = _walk(block, open_at[block], start, stop)
        successors = block.last_op.successors if block.last_op is not None else ()
        if not successors and left:
            raise VerifyException(f"region {left[-1]} is started and not stopped on every path")
        for after in successors:
            if after not in open_at:
                open_at[after] = left
                todo.append(after)
            elif open_at[after] != left:
                raise VerifyException(
                    "a block is reached with different regions open; stop them before the branch"
                )


def _walk(
    block: Block, entered: tuple[int, ...], start: type[Operation], stop: type[Operation]
) -> tuple[int, ...]:
    """The regions open at the end of a block, given those open at its start."""
    stack = list(entered)
    for op in block.ops:
        if isinstance(op, start):
            stack.append(op.region_id)  # pyright: ignore[reportAttributeAccessIssue]
        elif isinstance(op, stop):
            region = op.region_id  # pyright: ignore[reportAttributeAccessIssue]
            if not stack:
                raise VerifyException(f"region {region} is stopped but was not started in this body")
            if stack[-1] != region:
                raise VerifyException(
                    f"region {region} is stopped while region {stack[-1]} inside it is open"
                )
            stack.pop()
    return tuple(stack)
