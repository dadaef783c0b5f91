"""Values that records carry through a counted loop: the number of its frame, and when the next one is due.

In comes an `scf.for` of a bridged module; out goes the same loop with more iteration arguments. Nothing here divides:
what an iteration is, is told by comparing the induction variable with the next one that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, SSAValues

from tileprobe.ir.record import IndexOp
from tileprobe.targets.gpu.emit import Emitter


@dataclass(frozen=True)
class Sampling:
    """Of a loop's kept iterations, all i32: the way from one to the next, the first (from the end if negative), the
    way from it to the last, how many have a place."""

    stride: SSAValue
    phase: SSAValue
    extent: SSAValue
    count: SSAValue

    def keeps(self, emit: Emitter, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Whether the iteration with this number is kept, of a loop of which nobody knows the end, and how far it is
        from the first one. A phase from the end keeps nothing."""
        offset = emit.sub(number, self.phase)
        exact = emit.compare("eq", emit.binary("arith.remui", offset, self.stride), emit.constant(0))
        hit = emit.both(exact, emit.compare("ule", offset, self.extent))
        return emit.both(hit, emit.compare("sge", self.phase, emit.constant(0))), offset


class Carried:
    """Iteration arguments of one loop. `before` emits in front of it."""

    def __init__(self, loop: Operation, before: Emitter) -> None:
        self.loop, self.before = loop, before
        self.body: Block = loop.regions[0].blocks[0]
        last = self.body.last_op
        assert last is not None
        self.last = last
        self.behind = Emitter(self.body, last, before.threads, before.where)

    def value(self, first: SSAValue) -> SSAValue:
        """A value that goes round, `first` to begin with; `turn` says what it is next."""
        self.loop.operands = [*self.loop.operands, first]
        made = self.body.insert_arg(first.type, len(self.body.args))
        self.loop.results = SSAValues(
            (*self.loop.results, OpResult(first.type, self.loop, len(self.loop.results)))
        )
        made.name_hint = first.name_hint
        self.last.operands = [*self.last.operands, made]
        return made

    def turn(self, value: SSAValue, following: SSAValue) -> None:
        """What a value that goes round is in the next iteration."""
        place = list(self.body.args).index(value) - 1  # type: ignore[arg-type]
        self.last.operands[place] = following

    def final(self, value: SSAValue) -> SSAValue:
        """What a value that goes round is behind the loop."""
        return self.loop.results[list(self.body.args).index(value) - 1]  # type: ignore[arg-type]

    # -- which iterations ------------------------------------------------------------------------------------

    def first_ones(self, emit: Emitter, op: IndexOp, capacity: int) -> SSAValue | None:
        """Whether this is one of the first iterations, those that have a place; None when all have."""
        from tileprobe.ir.structure import ScfStructure

        found = ScfStructure().loop(self.loop)
        if found is not None and found.trip is not None and found.trip <= capacity:
            return None
        before, wide = self.before, self._wide
        room = before.mul(wide(op.step), before.constant(capacity, "i64"))
        limit = before.add(wide(op.lower), room)
        upper = wide(self.loop.operands[1])
        limit = before.select(before.compare("slt", limit, upper), limit, upper)
        return emit.compare("slt", op.induction, self._narrow(limit, op.induction.type))

    def sampled(self, emit: Emitter, op: IndexOp, sampling: Sampling) -> SSAValue:
        """Whether this iteration is kept, by the sampling in force."""
        before, kind = self.before, op.induction.type
        first, start, hop = self._first_and_hop(op, sampling)
        extent, trip, lower, step = self._alike(kind, sampling.extent, op.count, op.lower, op.step)
        one = before.constant(1, str(extent.type))
        ends = before.binary("arith.minui", before.add(first, extent), before.sub(trip, one))
        final = self._narrow(before.add(lower, before.mul(ends, step)), kind)
        due = self.value(start)
        hit = emit.both(emit.compare("eq", op.induction, due), emit.compare("sle", op.induction, final))
        self.turn(due, self.behind.select(hit, self.behind.add(due, hop), due))
        return hit

    def sampled_by_number(self, emit: Emitter, op: IndexOp, sampling: Sampling) -> tuple[SSAValue, SSAValue]:
        """The same, and the number of the iteration's frame. It is all that goes round: when the next one is due
        follows from it, and when the last one was."""
        _, start, hop = self._first_and_hop(op, sampling)
        number = self.value(self.before.constant(0))
        frames = emit.value("arith.index_cast", [number], hop.type) if str(hop.type) == "index" else number
        due = emit.add(start, emit.mul(emit.cast(frames, 64) if hop.type == i64 else frames, hop))
        hit = emit.both(emit.compare("eq", op.induction, due), emit.compare("ult", number, sampling.count))
        following = self.behind.add(number, self.behind.constant(1))
        self.turn(number, self.behind.select(hit, following, number))
        return hit, number

    def _first_and_hop(self, op: IndexOp, sampling: Sampling) -> tuple[SSAValue, SSAValue, SSAValue]:
        """The first kept iteration, its induction variable, and how far the next one is from it. A phase behind the
        end, or a stride that is longer than the loop, is cut to it: nothing wraps round."""
        before, kind = self.before, op.induction.type
        stride, phase, trip, lower, step = self._alike(
            kind, sampling.stride, sampling.phase, op.count, op.lower, op.step
        )
        none = before.constant(0, str(phase.type))
        back = before.binary("arith.maxsi", before.add(trip, phase), none)
        first = before.select(before.compare("slt", phase, none), back, phase)
        first = before.binary("arith.minui", first, trip)
        hop = self._narrow(before.mul(before.binary("arith.minui", stride, trip), step), kind)
        return first, self._narrow(before.add(lower, before.mul(first, step)), kind), hop

    def _alike(self, kind: Attribute, *values: SSAValue) -> list[SSAValue]:
        """Values as wide as an induction variable of this type."""
        width = 64 if str(kind) in ("i64", "index") else 32
        return [self.before.cast(value, width) for value in values]

    def number(self) -> SSAValue:
        """The number of the iteration, i64."""
        counted = self.value(self.before.constant(0, "i64"))
        self.turn(counted, self.behind.add(counted, self.behind.constant(1, "i64")))
        return counted

    # -- frames ----------------------------------------------------------------------------------------------

    def frame_number(
        self, moves: SSAValue | None, turns: int = 0, first: SSAValue | None = None, step: int = 1
    ) -> SSAValue:
        """The number of the iteration's frame: it goes on with every iteration, or with those that `moves` says; with
        `turns` frames are used again when so many are full. The number is carried, not an address: one multiplication
        then gives an address whose halves lie side by side, as a store needs them. Where that is not so it can be
        bytes from `first` on, with a `step` from one frame to the next."""
        first = self.before.constant(0) if first is None else first
        number, behind = self.value(first), self.behind
        following = behind.add(number, behind.constant(step))
        if turns:
            end = self.before.add(first, self.before.constant(turns * step))
            full = behind.compare("eq", following, end)
            following = behind.select(full, first, following)
        self.turn(number, following if moves is None else behind.select(moves, following, number))
        return number

    # -- widths ----------------------------------------------------------------------------------------------

    def _wide(self, value: SSAValue) -> SSAValue:
        return self.before.cast(value, 64)

    def _narrow(self, value: SSAValue, kind: Attribute) -> SSAValue:
        if kind == i64:
            return value
        if str(kind) == "index":
            return self.before.value("arith.index_cast", [value], kind)
        return self.before.cast(value, int(str(kind)[1:]))
