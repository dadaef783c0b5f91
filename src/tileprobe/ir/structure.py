"""What the portable passes need to know of an IR: its kernels, loops, stages, their kinds and lines, what is
issued and awaited, what runs side by side.

`Structure` is the whole interface between a target's IR and the passes of `tileprobe.passes`; a target that
implements it is instrumented without a change there. `ScfStructure` serves any IR whose control flow is
`scf`, registered or not, and is the base for targets that differ in details.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, OpResult, Region, SSAValue

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.amounts import Amount
from tileprobe.ir.flows import Flow
from tileprobe.ir.locations import user_frames
from tileprobe.ir.parts import Frame, Spot
from tileprobe.ir.tokens import WAIT, End, Tokens, is_copy


@dataclass(frozen=True)
class Loop:
    """A loop: its body; for a counted one its bounds and induction variable; `trip` when it is constant.
    `beyond` of its iterations were peeled off its end."""

    body: Region
    lower: SSAValue | None = None
    upper: SSAValue | None = None
    step: SSAValue | None = None
    induction: SSAValue | None = None
    trip: int | None = None
    beyond: int = 0

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


@dataclass(frozen=True)
class Shift:
    """To which iteration an op belongs: that of the loop it stands in plus `ahead` (software pipelining). On a
    copy peeled off the loop `peeled` it is `ahead` itself, counted from the end when negative."""

    ahead: int = 0
    peeled: Operation | None = None


@dataclass(frozen=True)
class Pair:
    """One end of an asynchronous operation. Ends with the same key and the same logical iteration belong
    together; `name` is for people, `lines` are those of what is issued."""

    key: Hashable
    name: str
    shift: Shift = Shift()
    lines: Lines | None = None


@dataclass(frozen=True)
class Strand:
    """A region that runs in order, beside others: a kernel, or a partition of one, on so many warps of each of a
    program's CTAs."""

    body: Region
    name: str = ""
    warps: int = 1
    ctas: int = 1


class Structure(Protocol):
    """How passes see an IR. An op with kinds is a stage: it is timed as one and never looked into. What has
    a body here is for IR that knows no such thing; inherit from this class to have it."""

    counts: bool = False  # whether `amount` knows of any op

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
        return None

    def frames(self, op: Operation) -> tuple[Frame, ...]:
        """The line of an op, and those that called the function it stands in; the last is the kernel's own."""
        return ()

    def costs(self, op: Operation) -> Mapping[Spot, float]:
        """What the time of a stage is made of, by kind of operation and line; empty when that is not known."""
        return {}

    def amount(self, op: Operation) -> Amount | None:
        """What one execution of an op computes and moves; None when that is not known."""
        return None

    def flow(self, op: Operation) -> Flow | None:
        """How the operations of a stage depend on each other; None when that is not known."""
        return None

    def is_free(self, op: Operation) -> bool:
        """Whether an op costs nothing worth a clock reading: constants, scalar address arithmetic."""
        ...

    def is_arithmetic(self, op: Operation) -> bool:
        """Whether an op is work on tensors that is no stage of its own."""
        return False

    def issues(self, op: Operation) -> tuple[Pair, ...]:
        """The asynchronous operations that `op` issues."""
        return ()

    def waits(self, op: Operation) -> tuple[Pair, ...]:
        """The asynchronous operations that are over when `op` is."""
        return ()

    def shift(self, op: Operation) -> Shift:
        """To which iteration a stage belongs."""
        return Shift()

    def streams(self, op: Operation) -> tuple[Strand, ...]:
        """The regions of `op` that run in order by themselves. A kernel is such a strand; regions that are not
        named run in order with what is around `op`."""
        return ()


# Triton's ops that cost, by the word a user has for them.
_KINDS = {
    "tt.load": "load", "tt.store": "store", "tt.dot": "dot", "tt.dot_scaled": "dot", "tt.reduce": "reduce",
    "tt.scan": "scan", "tt.atomic_rmw": "atomic", "tt.atomic_cas": "atomic", "tt.gather": "gather",
    "tt.histogram": "histogram", "tt.descriptor_load": "load", "tt.descriptor_store": "store",
    "tt.call": "call", "ttg.local_load": "load", "ttg.local_store": "store", "ttng.warp_group_dot": "dot",
}  # fmt: skip
_FREE = frozenset(["tt.get_program_id", "tt.get_num_programs", "tt.addptr", "tt.make_range"])
_PARTITIONS = "ttg.warp_specialize.partitions"


class ScfStructure(Structure):
    """Any IR over `scf`: ops are known by name, so that unregistered ones do as well.

    What the names do not tell, attributes may: `kinds = "load+mul"` makes an op a stage, `lines =
    "kernel.py:41,42"` gives its lines; `issues = "A"` and `waits = "A+B"` make it an end of asynchronous
    operations; `ahead = 2` and `peeled = "main"` say to which iteration it belongs, `loop = "main"` names a
    loop for that; `streams = "load:1,mma:4"` says of each region that it runs beside the others, under a name
    and on so many warps (no name: in order with what is around).
    """

    def __init__(self) -> None:
        self._tokens: dict[Operation, Tokens] = {}

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
        name = op_name(op)
        if name == WAIT and not self.waits(op):
            return ("wait",)  # for whatever is under way: a stage by itself
        word = _KINDS.get(name)
        return () if word is None else (word,)

    def lines(self, op: Operation) -> Lines | None:
        written = attr_value(op, "lines")
        if isinstance(written, str) and ":" in written:
            file, numbers = written.rsplit(":", 1)
            return Lines(file, frozenset(int(n) for n in numbers.split(",")))
        frames = user_frames(op.location)  # the kernel's own line, where it calls a function
        return Lines(frames[-1][0], frozenset([frames[-1][1]])) if frames else None

    def frames(self, op: Operation) -> tuple[Frame, ...]:
        found = user_frames(op.location)
        lines = None if found else self.lines(op)
        return found if lines is None else ((lines.file, lines.first),)

    def costs(self, op: Operation) -> Mapping[Spot, float]:
        frames = user_frames(op.location)
        if not frames or not self.kinds(op):
            return {}  # its lines, if it has any written at it, are all that is known
        return {("+".join(self.kinds(op)), frames): self.cost(op) or 1.0}

    def is_free(self, op: Operation) -> bool:
        name = op_name(op)
        if op.regions or not (name.startswith("arith.") or name in _FREE):
            return False
        return not any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results))

    # -- asynchronous operations and pipelined loops ---------------------------------------------------------

    def issues(self, op: Operation) -> tuple[Pair, ...]:
        if is_copy(op):
            return self._pairs(self._kernel_tokens(op).issues[op])
        return self._written(op, "issues")

    def waits(self, op: Operation) -> tuple[Pair, ...]:
        if op_name(op) == WAIT:
            return self._pairs(self._kernel_tokens(op).waits[op])
        return self._written(op, "waits")

    def shift(self, op: Operation) -> Shift:
        ahead, name = attr_value(op, "ahead", 0), attr_value(op, "peeled")
        if not isinstance(name, str):
            return Shift(ahead) if ahead else Shift()
        found = [other for other in _kernel(op).walk() if attr_value(other, "loop") == name]
        if len(found) != 1 or self.loop(found[0]) is None:
            raise TileProbeError(
                f"{op_name(op)} is peeled off {name!r}, and {len(found)} loops have that name"
            )
        return Shift(ahead, found[0])

    def _pairs(self, ends: tuple[End, ...]) -> tuple[Pair, ...]:
        return tuple(
            Pair(end.copy, "async copy", Shift(end.ahead, end.peeled), self.lines(end.copy)) for end in ends
        )

    def _written(self, op: Operation, key: str) -> tuple[Pair, ...]:
        names = attr_value(op, key)
        if not isinstance(names, str):
            return ()
        lines = self.lines(op) if key == "issues" else None
        return tuple(Pair(name, name, self.shift(op), lines) for name in names.split("+"))

    def _kernel_tokens(self, op: Operation) -> Tokens:
        kernel = _kernel(op)
        if kernel not in self._tokens:
            self._tokens[kernel] = Tokens(kernel)
        return self._tokens[kernel]

    # -- what runs side by side ------------------------------------------------------------------------------

    def streams(self, op: Operation) -> tuple[Strand, ...]:
        above = op.parent_op()
        if isinstance(above, ModuleOp):
            warps = attr_value(op, "warps") or attr_value(above, "ttg.num-warps") or 1
            return tuple(Strand(region, warps=warps, ctas=_ctas(above)) for region in op.regions[:1])
        if above is not None and op_name(op) == _PARTITIONS:
            counts = attr_value(above, "partitionNumWarps")
            return tuple(
                Strand(region, f"partition {n}", warps, _ctas(op))
                for n, (region, warps) in enumerate(zip(op.regions, counts, strict=True))
            )
        written = attr_value(op, "streams")
        if not isinstance(written, str):
            return ()
        found: list[Strand] = []
        for region, text in zip(op.regions, written.split(","), strict=True):
            name, _, warps = text.partition(":")
            found += [Strand(region, name, int(warps or 1))] if name else []
        return tuple(found)


def _ctas(op: Operation) -> int:
    """The CTAs that run a program together (`num_ctas`)."""
    while (above := op.parent_op()) is not None:
        op = above
    return attr_value(op, "ttg.num-ctas") or 1


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


def _kernel(op: Operation) -> Operation:
    """The function around an op."""
    while (above := op.parent_op()) is not None and not isinstance(above, ModuleOp):
        op = above
    return op
