"""What the portable passes need to know of an IR: its kernels, loops, stages, their kinds and lines.

`Structure` is the whole interface between a target's IR and the passes of `tileprobe.passes`; a target that
implements it is instrumented without a change there. `ScfStructure` serves any IR whose control flow is
`scf`, registered or not, and is the base for targets that differ in details.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.locations import source_location


@dataclass(frozen=True)
class Loop:
    """A loop: its body; for a counted one its bounds and induction variable; `trip` when it is constant."""

    body: Region
    lower: SSAValue | None = None
    upper: SSAValue | None = None
    step: SSAValue | None = None
    induction: SSAValue | None = None
    trip: int | None = None

    @property
    def counted(self) -> bool:
        return self.induction is not None


@dataclass(frozen=True)
class Lines:
    """Lines of one source file."""

    file: str
    numbers: frozenset[int]

    @property
    def first(self) -> int:
        return min(self.numbers)

    @property
    def last(self) -> int:
        return max(self.numbers)

    @property
    def scattered(self) -> tuple[int, ...]:
        """The lines one by one; empty when they are all from first to last."""
        whole = self.last - self.first + 1 == len(self.numbers)
        return () if whole else tuple(sorted(self.numbers))

    def __str__(self) -> str:
        """`41`, `41-44`, `41, 60-63`."""
        runs: list[list[int]] = []
        for number in sorted(self.numbers):
            if runs and runs[-1][-1] == number - 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


class Structure(Protocol):
    """How passes see an IR. An op with kinds is a stage: it is timed as one and never looked into."""

    def kernels(self, module: ModuleOp) -> list[Operation]:
        """The functions that run as programs, each with a body."""
        ...

    def loop(self, op: Operation) -> Loop | None:
        """The loop that `op` is, if it is one."""
        ...

    def kinds(self, op: Operation) -> tuple[str, ...]:
        """What a stage does: ("load", "mul"); empty for an op that is no stage."""
        ...

    def lines(self, op: Operation) -> Lines | None:
        """The user's source lines that went into an op."""
        ...

    def cost(self, op: Operation) -> float | None:
        """Roughly how many elementary operations a stage runs; None when it is not known."""
        ...

    def is_free(self, op: Operation) -> bool:
        """Whether an op costs nothing worth a clock reading: constants, scalar address arithmetic."""
        ...

    def issues(self, op: Operation) -> str | None:
        """The name of the asynchronous operation that `op` issues, None if it issues none."""
        ...

    def waits(self, op: Operation) -> tuple[str, int] | None:
        """The name of the operation `op` waits for, and how many iterations ago it was issued."""
        ...


# Triton's ops that cost, by the word a user has for them.
_KINDS = {
    "tt.load": "load", "tt.store": "store", "tt.dot": "dot", "tt.dot_scaled": "dot", "tt.reduce": "reduce",
    "tt.scan": "scan", "tt.atomic_rmw": "atomic", "tt.atomic_cas": "atomic", "tt.gather": "gather",
    "tt.histogram": "histogram", "tt.descriptor_load": "load", "tt.descriptor_store": "store",
    "tt.call": "call", "ttg.local_load": "load", "ttg.local_store": "store", "ttng.warp_group_dot": "dot",
}  # fmt: skip
_FREE = frozenset(["tt.get_program_id", "tt.get_num_programs", "tt.addptr", "tt.make_range"])


class ScfStructure:
    """Any IR over `scf`: ops are known by name, so that unregistered ones do as well.

    A stage is an op of Triton's that costs, or any op with a `kinds` attribute ("load+mul"); its lines are
    those of a `lines` attribute ("kernel.py:41,42") or of its location.
    """

    def kernels(self, module: ModuleOp) -> list[Operation]:
        return [
            op
            for op in module.ops
            if op_name(op).endswith(".func")
            and op.regions
            and op.regions[0].blocks.first is not None
            and attr_value(op, "sym_visibility") != "private"
        ]

    def loop(self, op: Operation) -> Loop | None:
        name = op_name(op)
        if name == "scf.while":
            return Loop(op.regions[1])
        if name != "scf.for":
            return None
        lower, upper, step = op.operands[:3]
        body = op.regions[0]
        return Loop(body, lower, upper, step, body.blocks[0].args[0], _trip(lower, upper, step))

    def kinds(self, op: Operation) -> tuple[str, ...]:
        written = attr_value(op, "kinds")
        if isinstance(written, str):
            return tuple(written.split("+"))
        word = _KINDS.get(op_name(op))
        return () if word is None else (word,)

    def lines(self, op: Operation) -> Lines | None:
        written = attr_value(op, "lines")
        if isinstance(written, str) and ":" in written:
            file, numbers = written.rsplit(":", 1)
            return Lines(file, frozenset(int(n) for n in numbers.split(",")))
        place = source_location(op)
        return None if place is None else Lines(place.file, frozenset([place.line]))

    def cost(self, op: Operation) -> float | None:
        return None

    def is_free(self, op: Operation) -> bool:
        name = op_name(op)
        if op.regions or not (name.startswith("arith.") or name in _FREE):
            return False
        return not any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results))

    def issues(self, op: Operation) -> str | None:
        return "async copy" if op_name(op).startswith("ttg.async_copy") else None

    def waits(self, op: Operation) -> tuple[str, int] | None:
        return ("async copy", 0) if op_name(op) == "ttg.async_wait" else None


def constant(value: SSAValue) -> int | None:
    """The integer that `value` is at compile time, if it is one."""
    if isinstance(value, OpResult) and op_name(value.op) == "arith.constant":
        found = attr_value(value.op, "value")
        return int(found) if isinstance(found, int) else None
    return None


def _trip(lower: SSAValue, upper: SSAValue, step: SSAValue) -> int | None:
    first, last, by = constant(lower), constant(upper), constant(step)
    if first is None or last is None or not by:
        return None
    return max(0, -(-(last - first) // by))


def blocks_of(op: Operation) -> list[Block]:
    return [block for region in op.regions for block in region.blocks]
