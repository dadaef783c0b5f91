"""Carries a value through control flow, from the op that makes it, link by link, to the one that reads it last.

In comes IR in which every link, an op that takes the value and may give the next one, takes the first value.
Out goes IR in which each link takes what the one before it gave, on every path: through the iteration
arguments of loops, the results of branches and the arguments of blocks. Ops are known by name, so that
unregistered ones do as well; those without a link in them stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue, SSAValues

from tileprobe.errors import UnsupportedError
from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.blocks import exits, in_order, predecessors, successors

_SIZES = "operandSegmentSizes"


def carry(first: SSAValue, given: Callable[[Operation], OpResult | None]) -> None:
    """Threads `first` through all ops that use it, in the order in which they run. `given` is the next value
    that such an op makes, None when it only reads."""
    maker = first.owner
    if not isinstance(maker, Operation) or maker.parent is None or maker.parent.parent is None:
        raise UnsupportedError("a carried value is made by an op of a kernel")
    carrier = _Carrier(first, given)
    home, region = maker.parent, maker.parent.parent
    if carrier.only_in(home):
        carrier.block(home, first)
    elif region.blocks.first is home:
        carrier.region(region, first)
    else:
        raise UnsupportedError(f"{op_name(maker)} must stand in the first block of its function")


class _Carrier:
    def __init__(self, first: SSAValue, given: Callable[[Operation], OpResult | None]) -> None:
        self.first, self.given = first, given
        self.links = {use.operation: use.index for use in first.uses}
        self.around: set[Operation] = set()  # ops with a link somewhere in them
        for link in self.links:
            above = link.parent_op()
            while above is not None and above not in self.around:
                self.around.add(above)
                above = above.parent_op()

    def only_in(self, block: Block) -> bool:
        """Whether no other block of the same region holds a link."""
        region = block.parent
        assert region is not None
        other = [op for b in region.blocks if b is not block for op in b.ops]
        return not any(op in self.links or op in self.around for op in other)

    def block(self, block: Block, value: SSAValue) -> SSAValue:
        """The value after a block, given that before it."""
        for op in list(block.ops):
            if op in self.links:
                op.operands[self.links[op]] = value
                value = self.given(op) or value
            elif op in self.around:
                value = self._through(op, value)
        return value

    def region(self, region: Region, value: SSAValue) -> dict[Operation, SSAValue]:
        """For each op with which control leaves a region the value there."""
        leading = predecessors(region)
        order = in_order(region)
        entering = {order[0]: value}
        joined = [block for block in order[1:] if len(leading[block]) > 1]
        for block in joined:
            entering[block] = self._argument(block)
        leaving: dict[Block, SSAValue] = {}
        for block in order:
            if block not in entering:
                (only,) = leading[block]
                entering[block] = leaving[only]
            leaving[block] = self.block(block, entering[block])
        for block in region.blocks:
            # What cannot be reached must still be well formed: there any value will do.
            self._jump(block, leaving.get(block, value), joined)
        return {op: leaving.get(block, value) for op in exits(region) if (block := op.parent) is not None}

    def _jump(self, block: Block, value: SSAValue, joined: list[Block]) -> None:
        """Hands a value over to those blocks after this one that take it."""
        after = list(successors(block))
        if not any(target in joined for target in after):
            return
        jump = block.last_op
        assert jump is not None
        name = op_name(jump)
        if name == "cf.br":
            jump.operands = [*jump.operands, value]
        elif name == "cf.cond_br":
            sizes = list(attr_value(jump, _SIZES))
            groups = [list(jump.operands[1 : 1 + sizes[1]]), list(jump.operands[1 + sizes[1] :])]
            for group, target in zip(groups, after, strict=True):
                group += [value] if target in joined else []
            jump.operands = [jump.operands[0], *groups[0], *groups[1]]
            kept = jump.properties if _SIZES in jump.properties else jump.attributes
            kept[_SIZES] = DenseArrayBase.from_list(i32, [1, *map(len, groups)])
        else:
            raise UnsupportedError(f"records behind {name}: only cf.br and cf.cond_br are understood")

    # -- structured control flow -----------------------------------------------------------------------------

    def _through(self, op: Operation, value: SSAValue) -> SSAValue:
        """The value after an op with links in it."""
        name = op_name(op)
        if name == "scf.for":
            op.operands = [*op.operands, value]
            self._loop_body(op.regions[0])
        elif name == "scf.while":
            op.operands = [*op.operands, value]
            for part in op.regions:
                self._loop_body(part)
        elif name in ("scf.if", "scf.index_switch", "scf.execute_region"):
            self._branches(op, value)
        elif name == "ttg.warp_specialize":  # its first region runs in order, the others beside it
            self._yield(op.regions[0], value)
        else:
            raise UnsupportedError(
                f"there are records in {name}, and nothing is known of how it runs: the cursor cannot pass it"
            )
        return _add_result(op, value)

    def _loop_body(self, body: Region) -> None:
        first = body.blocks.first
        assert first is not None
        self._yield(body, self._argument(first))

    def _argument(self, block: Block) -> SSAValue:
        made = block.insert_arg(self.first.type, len(block.args))
        made.name_hint = self.first.name_hint
        return made

    def _branches(self, op: Operation, value: SSAValue) -> None:
        if op_name(op) == "scf.if":
            _add_else(op)
        for branch in op.regions:
            self._yield(branch, value)

    def _yield(self, region: Region, value: SSAValue) -> None:
        for last, here in self.region(region, value).items():
            last.operands = [*last.operands, here]


def _add_else(op: Operation) -> None:
    """Without a second branch there is nothing to yield from when the first is not taken."""
    first, *others = op.regions
    if not others:
        others = [Region()]
        op.add_region(others[0])
    if others[0].blocks.first is None:
        last = first.blocks[0].last_op
        assert last is not None
        end = type(last).create(attributes=last.attributes, location=last.location)
        others[0].add_block(Block([end]))


def _add_result(op: Operation, like: SSAValue) -> SSAValue:
    result = OpResult(like.type, op, len(op.results))
    result.name_hint = like.name_hint
    op.results = SSAValues((*op.results, result))
    return result
