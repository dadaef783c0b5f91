"""Which copy an asynchronous wait waits for: told by tokens, through the iteration arguments of loops.

In comes a kernel of Triton's GPU IR (`ttg.async_copy*`, `ttg.async_commit_group`, `ttg.async_wait`); out go
the ends that each copy and each wait is. A token that goes round a loop n times before it is awaited was issued n
iterations ago; its initial values are the copies of the prologue, one for each iteration they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileprobe.ir.accessors import op_name

WAIT = "ttg.async_wait"
_COMMIT = "ttg.async_commit_group"


def is_copy(op: Operation) -> bool:
    return op_name(op).startswith("ttg.async_copy")


class End(NamedTuple):
    """An issue or a wait of a copy, by its logical iteration: that of the loop around it plus `ahead`, or
    `ahead` itself for what was peeled off a loop. `copy` is the one in the loop, where there is one."""

    copy: Operation
    ahead: int = 0
    peeled: Operation | None = None


@dataclass(frozen=True)
class _Round:
    """A token on its way round a loop: what it is before the loop, one value for each of the first iterations,
    and the group that is committed in the loop, `len(before)` iterations before the token comes by."""

    loop: Operation
    before: tuple[SSAValue, ...]
    group: Operation


class Tokens:
    """The asynchronous copies of a kernel. Every copy and every wait has an entry."""

    def __init__(self, kernel: Operation) -> None:
        ops = list(kernel.walk())
        self.issues: dict[Operation, tuple[End, ...]] = {}
        self.waits: dict[Operation, tuple[End, ...]] = {op: () for op in ops if op_name(op) == WAIT}
        self._rounds = {
            (wait, token): found
            for wait in self.waits
            for token in wait.operands
            if (found := _round(token, _loop(wait))) is not None
        }
        for found in self._rounds.values():
            self._issue_in(found)
        for op in ops:
            if is_copy(op) and op not in self.issues:
                self.issues[op] = (End(op),)
        for wait in self.waits:
            self.waits[wait] = tuple(end for token in wait.operands for end in self._awaited(wait, token))

    def _issue_in(self, found: _Round) -> None:
        """The copies of a loop run as many iterations ahead as there are copies before the loop."""
        longest = self._ahead(found.group)
        for copy in _copies(found.group):
            self.issues[copy] = (End(copy, longest),)
        for iteration, value in enumerate(found.before, longest - len(found.before)):
            group = _made_by(value, _COMMIT)
            if group is None:
                continue
            for early, copy in zip(_copies(group), _copies(found.group), strict=False):
                self.issues[early] = (End(copy, iteration, found.loop),)

    def _awaited(self, wait: Operation, token: SSAValue) -> list[End]:
        found = self._rounds.get((wait, token))
        if found is not None:
            ahead = self._ahead(found.group) - len(found.before)
            return [End(copy, ahead) for copy in _copies(found.group)]
        group = _made_by(token, _COMMIT)
        if group is not None and _loop(group) is _loop(wait):
            return [end for copy in _copies(group) for end in self.issues[copy]]
        return []  # not followed: the wait is timed, but belongs to no copy

    def _ahead(self, group: Operation) -> int:
        """Of several waits for one copy the one in the loop's own iteration is that with the longest way."""
        return max(len(found.before) for found in self._rounds.values() if found.group is group)


def _loop(op: Operation) -> Operation | None:
    """The innermost loop around an op."""
    above = op.parent_op()
    while above is not None and op_name(above) not in ("scf.for", "scf.while"):
        above = above.parent_op()
    return above


def _round(token: SSAValue, loop: Operation | None) -> _Round | None:
    """Follows a token that is an iteration argument of `loop` back to the group it comes from."""
    before: list[SSAValue] = []
    while isinstance(token, BlockArgument):
        body = token.block
        if loop is None or body.parent_op() is not loop or op_name(loop) != "scf.for":
            return None
        if len(before) >= len(body.args):
            return None  # handed round for ever
        last = body.last_op
        assert last is not None
        before.append(loop.operands[token.index + 2])  # behind the bounds and the step
        token = last.operands[token.index - 1]
    group = _made_by(token, _COMMIT)
    if not before or group is None or loop is None or group.parent_op() is not loop:
        return None
    return _Round(loop, tuple(before), group)


def _made_by(value: SSAValue, name: str) -> Operation | None:
    return value.op if isinstance(value, OpResult) and op_name(value.op) == name else None


def _copies(group: Operation) -> list[Operation]:
    """The copies of a commit group, in order."""
    makers = [value.op for value in group.operands if isinstance(value, OpResult)]
    return [op for op in makers if is_copy(op)]
