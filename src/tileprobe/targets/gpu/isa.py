"""What the lowering of records asks of an instruction set, and which one a target has."""

from __future__ import annotations

from typing import Protocol

from xdsl.ir import SSAValue

from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout import Layout
from tileprobe.targets.gpu.emit import Emitter


class Isa(Protocol):
    """The instructions of records. `by` is an i1 of each thread: whether it stores; offsets are bytes."""

    largest_offset: int
    # Whether an address that all threads share has to be made each one's own: it would go into uniform registers
    # otherwise, out of which every store would fetch it.
    spread: bool

    def check(self, layout: Layout) -> None:
        """Refuses a layout that cannot be written here."""
        ...

    def table(self, emit: Emitter, address: SSAValue, word: int) -> list[SSAValue]:
        """Two 64-bit words from an even one on, scalars."""
        ...

    def header(self, emit: Emitter, block: SSAValue, by: SSAValue, epoch: SSAValue) -> None:
        """Where the stream runs, its clock and the machine's; the epoch is an i64."""
        ...

    def end(self, emit: Emitter, block: SSAValue, by: SSAValue) -> None:
        """The machine's clock where the stream ends."""
        ...

    def stamp(
        self, emit: Emitter, address: SSAValue, by: SSAValue, offset: int, epoch: SSAValue, bits: int
    ) -> None:
        """A clock in its place."""
        ...

    def put(self, emit: Emitter, address: SSAValue, by: SSAValue, offset: int, word: SSAValue) -> None:
        """A 64-bit word in its place."""
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
