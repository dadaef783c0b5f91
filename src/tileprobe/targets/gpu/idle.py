"""Loops that never run, whatever a kernel is given: what AMD's pipelines leave of a loop of two iterations.

In comes a module with records; out go the records of each such loop. Compilers find them, too, and take the loop out
with its records: these are not lost, and what was to be measured between them was not moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.ir.record import slot_of
from tileprobe.ir.structure import constant

_DEEP = 32  # ops that a bound is followed through


def idle_loops(module: ModuleOp) -> tuple[frozenset[int], ...]:
    """The slots of all records inside of each loop that has no iteration."""
    loops = [op for op in module.walk() if op_name(op) == "scf.for" and _never_runs(op)]
    found = [{slot for inner in loop.walk() if (slot := slot_of(inner)) is not None} for loop in loops]
    return tuple(frozenset(slots) for slots in found if slots)


def gone_with_their_loops(idle: Sequence[frozenset[int]], there: Container[int]) -> set[int]:
    """The records of loops that never run and are not in the machine code: none of their records is `there`."""
    return {slot for slots in idle if not any(slot in there for slot in slots) for slot in slots}


def _never_runs(loop: Operation) -> bool:
    """Whether the bounds, as sums of values, are a number apart, and the upper one is not above the lower."""
    apart: Counter[SSAValue | None] = Counter()
    _sum(loop.operands[1], 1, apart)
    _sum(loop.operands[0], -1, apart)
    return apart.pop(None, 0) <= 0 and not any(apart.values())


def _sum(value: SSAValue, times: int, total: Counter[SSAValue | None], deep: int = _DEEP) -> None:
    """Adds a value so many times: values that are no sums, and under None a number."""
    op = value.owner
    name = op_name(op) if isinstance(op, Operation) and deep else ""
    if (number := constant(value)) is not None:
        total[None] += times * number
    elif isinstance(op, Operation) and name in ("arith.addi", "arith.subi"):
        _sum(op.operands[0], times, total, deep - 1)
        _sum(op.operands[1], times if name == "arith.addi" else -times, total, deep - 1)
    elif (
        isinstance(op, Operation)
        and name == "arith.muli"
        and (number := constant(op.operands[1])) is not None
    ):
        _sum(op.operands[0], times * number, total, deep - 1)
    else:
        total[value] += times
