"""The order of accesses to the user's memory in scheduled IR, against the order in which the kernel has them.

A load may be evaluated late or several times, as long as nothing in between changes what it reads; stores, atomics
and calls keep their order. Followed along the stages by `verify.py`.
"""

from __future__ import annotations

from typing import NoReturn

from xdsl.ir import Operation

from tileprobe.errors import TileProbeError
from tileprobe.ir.locations import source_location
from tileprobe.targets.cpu.dialect import NestOp
from tileprobe.targets.cpu.schedule.notes import Notes
from tileprobe.targets.cpu.schedule.places import Places, distinct
from tileprobe.targets.cpu.schedule.ttir import is_clobber, op_name


class ScheduleError(TileProbeError):
    """The scheduled IR would not do what the kernel says."""


def complain(kernel: str, op: Operation, what: str) -> NoReturn:
    place = source_location(op)
    parent = op.parent_op()
    if place is None and parent is not None:
        place = source_location(parent)
    where = f"{place.file}:{place.line}" if place else "unknown line"
    raise ScheduleError(
        f"kernel {kernel!r}, {where}: {what}. This is a bug in the CPU compiler, found before it could give a wrong "
        "result; please report it with the kernel"
    )


class MemoryOrder:
    """Which loads may not be evaluated any more, and which were, at one point of a function."""

    def __init__(self, kernel: str, source: Operation, notes: Notes, places: Places):
        self.kernel = kernel
        self.places = places
        self.notes = notes
        self.position = {op: number for number, op in enumerate(source.walk())}
        self.loads = {op for op in notes.accesses.values() if op_name(op) == "tt.load"}
        self.stale: set[Operation] = set()  # loads whose memory has changed since
        self.evaluated: set[Operation] = set()
        self.latest = -1  # position of the last op that changed memory

    def copy(self) -> MemoryOrder:
        other = object.__new__(MemoryOrder)
        other.__dict__.update(self.__dict__)
        other.stale, other.evaluated = set(self.stale), set(self.evaluated)
        return other

    def join(self, other: MemoryOrder) -> None:
        self.stale |= other.stale
        self.evaluated |= other.evaluated
        self.latest = max(self.latest, other.latest)

    def enter_loop(self, loop: Operation) -> None:
        """At the head of a loop: earlier iterations have changed memory, and each starts anew with its own loads."""
        original = self.notes.originals[loop]
        inside = {op for op in original.walk() if op in self.position}
        for change in inside:
            if is_clobber(op_name(change)):
                self._change(change, self.loads - inside)
        self.stale -= inside
        self.evaluated -= inside
        self.latest = min(self.latest, self.position[original])

    def access(self, op: Operation) -> None:
        original = self.notes.accesses[op]
        if is_clobber(op_name(original)):
            if self.position[original] < self.latest:
                complain(self.kernel, op, "two changes of memory have changed places")
            self.latest = self.position[original]
            self._change(original, self.loads)
            early = [load for load in self.evaluated if self._behind(load, original)]
            if early:
                complain(self.kernel, op, "memory is changed after a load that should see it")
        else:
            self.evaluated.add(original)
            if original in self.stale:
                complain(self.kernel, op, "a load is evaluated after the memory it reads was changed")

    def _change(self, original: Operation, loads: set[Operation]) -> None:
        self.stale |= {
            load for load in loads if not self._behind(load, original) and self._meets(load, original)
        }

    def _behind(self, load: Operation, change: Operation) -> bool:
        """Does a load that may see a change come after it in the kernel?"""
        return self.position[load] > self.position[change] and self._meets(load, change)

    def nest(self, nest: NestOp) -> None:
        """Accesses that share a stage run element by element: they may meet only where each has a place of its own."""
        accesses = [op for op in nest.body.block.ops if op in self.notes.accesses]
        for number, op in enumerate(accesses):
            change = self.notes.accesses[op]
            self.access(op)
            if not is_clobber(op_name(change)):
                continue
            for before in accesses[:number]:
                self._check_pair(op, change, before)

    def _check_pair(self, op: Operation, change: Operation, before: Operation) -> None:
        other = self.notes.accesses[before]
        if not self._meets(other, change):
            return
        pointer = change.operands[0]
        plain = op_name(change) == "tt.store" and op_name(other) in ("tt.load", "tt.store")
        in_place = before in self.notes.in_place or op_name(other) == "tt.store"
        if not (plain and in_place and self.places.same(other.operands[0], pointer) and distinct(pointer)):
            complain(self.kernel, op, "a stage changes memory that other elements of it access")

    def _meets(self, access: Operation, change: Operation) -> bool:
        name = op_name(change)
        if name == "tt.call" or name.endswith("barrier"):
            return True
        return self.places.may_meet(access.operands[0], change.operands[0])
