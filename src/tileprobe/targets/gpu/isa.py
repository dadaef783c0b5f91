"""What the lowering of records asks of an instruction set, and which one a target has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue

from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout import Layout
from tileprobe.targets.gpu.emit import Emitter
from tileprobe.targets.gpu.table import WORD


@dataclass(frozen=True)
class Frame:
    """Where the records of an iteration lie: an address of each thread, or bytes from a `base` that all share, and
    `far` further on, the same for all. In `shared` memory it is an address of 32 bits, and `bin` that of the word
    behind all records. It is `first` bytes into the block, so that is to be taken off from offsets."""

    at: SSAValue
    base: SSAValue | None = None
    far: SSAValue | None = None
    first: int = 0
    shared: bool = False
    bin: SSAValue | None = None


@dataclass(frozen=True)
class Reading:
    """A clock that was read and is not stored yet: where it belongs, and the location of its record."""

    ticks: SSAValue
    frame: Frame
    offset: int
    where: LocationAttr

    def beside(self, other: Reading) -> bool:
        """Whether another one follows in global memory."""
        return not self.frame.shared and self.frame == other.frame and other.offset == self.offset + WORD


class Isa(Protocol):
    """The instructions of records. `by` is an i1 of each thread: whether it stores; offsets are bytes."""

    def thread(self, emit: Emitter) -> SSAValue:
        """The number of each thread in its stream, an i32."""
        ...

    def reach(self, frame: Frame) -> int:
        """The largest offset from a frame that an instruction can have."""
        ...

    def check(self, layout: Layout) -> None:
        """Refuses a layout that cannot be written here."""
        ...

    def table(self, emit: Emitter, address: SSAValue, word: int) -> list[SSAValue]:
        """Two 64-bit words from an even one on, scalars."""
        ...

    def block(self, emit: Emitter, address: SSAValue, by: SSAValue, far: SSAValue | None) -> Frame:
        """The frame of a stream: its block at an address, or so many bytes further on, an i32 of each thread."""
        ...

    def shared_block(
        self, emit: Emitter, address: SSAValue, by: SSAValue, far: SSAValue | None, bin: SSAValue
    ) -> Frame:
        """The same in shared memory, at an address of 32 bits. Nobody reads the word at `bin`, behind all others."""
        ...

    def onward(self, emit: Emitter, frame: Frame, number: SSAValue, pace: int) -> Frame:
        """The frame that is `number` times `pace` bytes on, the same for all threads."""
        ...

    def apart(self, emit: Emitter, frame: Frame, number: SSAValue, pace: int) -> Frame:
        """The same where each thread has a number of its own."""
        ...

    def only(self, emit: Emitter, frame: Frame, hit: SSAValue) -> Frame:
        """The same frame for threads for which `hit` is true as well; others store nothing there."""
        ...

    def header(self, emit: Emitter, frame: Frame, by: SSAValue, epoch: SSAValue) -> None:
        """Where the stream runs, its clock and the machine's; the epoch is an i64."""
        ...

    def end(self, emit: Emitter, frame: Frame, by: SSAValue) -> None:
        """The machine's clock where the stream ends."""
        ...

    def beside(self, emit: Emitter, by: SSAValue, epoch: SSAValue) -> SSAValue:
        """The epoch as it stands beside narrow clocks, an i32."""
        ...

    def stamp(
        self, emit: Emitter, frame: Frame, by: SSAValue, offset: int, epoch: SSAValue, bits: int
    ) -> None:
        """A clock in its place."""
        ...

    def put(self, emit: Emitter, frame: Frame, by: SSAValue, offset: int, word: SSAValue) -> None:
        """A 64-bit word in its place."""
        ...

    def fetch(self, emit: Emitter, frame: Frame, by: SSAValue) -> SSAValue:
        """The 64-bit word where a frame of shared memory begins; of NVIDIA's, which alone has streams that are
        started again, of any frame."""
        ...

    def settle(self, emit: Emitter) -> None:
        """From here on the threads of a warp see what others of it stored."""
        ...


@runtime_checkable
class Paces(Isa, Protocol):
    """An instruction set in which a store adds a number that all threads share: loops carry that, in bytes."""

    def along(self, frame: Frame, far: SSAValue) -> Frame:
        """The frame that is so many bytes on."""
        ...


@runtime_checkable
class Gathers(Isa, Protocol):
    """An instruction set in which several clocks are stored at once: records read theirs, and the last of about so many
    (`together`) stores them all."""

    together: int

    def clock(self, emit: Emitter) -> SSAValue:
        """A clock, an i64."""
        ...

    def keep(
        self, emit: Emitter, readings: Sequence[Reading], by: SSAValue, epoch: SSAValue, bits: int
    ) -> None:
        """Clocks that were read, in their places."""
        ...


@runtime_checkable
class Postpones(Isa, Protocol):
    """An instruction set in which a clock that was read can be stored later, where its address is known: what a program
    finds in its table comes from memory, and nothing at a program's start waits for memory but probes."""

    def begun(self, emit: Emitter) -> list[SSAValue]:
        """The machine's clock and the stream's, where it starts."""
        ...

    def arrived(self, emit: Emitter, words: list[SSAValue]) -> list[SSAValue]:
        """The words of the table, waited for here and not before."""
        ...

    def late_header(
        self, emit: Emitter, frame: Frame, by: SSAValue, epoch: SSAValue, begun: list[SSAValue]
    ) -> None:
        """The header with clocks that were read before."""
        ...

    def clock_now(self, emit: Emitter) -> SSAValue:
        """A clock, an i64."""
        ...

    def late(
        self,
        emit: Emitter,
        frame: Frame,
        by: SSAValue,
        offset: int,
        epoch: SSAValue,
        bits: int,
        ticks: SSAValue,
    ) -> None:
        """A clock that was read before, in its place."""
        ...


def isa_of(target: str) -> Isa:
    """The instruction set of Triton's `ttg.target`: "cuda:90", "hip:gfx942"."""
    from tileprobe.targets.gpu.amd import Amd
    from tileprobe.targets.gpu.nvidia import Nvidia

    backend, _, arch = target.partition(":")
    if backend == "cuda":
        return Nvidia(int(arch))
    if backend == "hip":
        return Amd(arch)
    raise UnsupportedError(f"records are not written for {target}")
