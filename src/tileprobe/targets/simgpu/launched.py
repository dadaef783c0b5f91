"""Whoever wants to know what launches on simulated GPUs took is told here, behind each of them.

`observing(list.append)` for a block; out goes one `Launched` a launch, in the order in which they ended.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tileprobe.targets.gpu.occupancy import Occupancy, occupancy

if TYPE_CHECKING:
    from tileprobe.targets.simgpu.blocks import Image
    from tileprobe.targets.simgpu.machine import Machine
    from tileprobe.targets.simgpu.program import Program
    from tileprobe.targets.simgpu.timing.chip import Timed


@dataclass(frozen=True)
class Launched:
    kernel: str
    file: str  # that it was written in; the machine code may name one that it was compiled from before
    constants: Mapping[str, Any]  # that it was compiled with
    machine_name: str  # "a100"
    machine: Machine
    program: Program
    grid: tuple[int, int, int]
    warps: int  # of a program
    shared_bytes: int  # of a program
    instructions: int  # of all warps
    occupancy: Occupancy
    took: Timed | None  # where it was timed
    races: tuple[str, ...]  # each pair of accesses in sentences

    @property
    def spill_bytes(self) -> int:
        """Local memory of a thread, where the code uses any."""
        spilled = any(word in text for text in self.program.texts for word in ("STL", "LDL"))
        return self.program.cubin.stack_bytes if spilled else 0


_observers: list[Callable[[Launched], Any]] = []
_lock = threading.Lock()


@contextlib.contextmanager
def observing(observer: Callable[[Launched], Any]) -> Iterator[None]:
    with _lock:
        _observers.append(observer)
    try:
        yield
    finally:
        with _lock:
            _observers.remove(observer)


def tell(
    kernel: str, file: str, constants: Mapping[str, Any], made: Image, grid: tuple[int, int, int], issued: int
) -> None:
    """A launch has ended."""
    if not _observers:
        return
    from triton.runtime import driver

    active: Any = driver.active
    told = Launched(
        kernel, file, constants, active.name, active.machine, made.program, grid, made.warps, made.shared_bytes, issued,
        limits(made), made.took, tuple(made.races),
    )  # fmt: skip
    for observer in list(_observers):
        observer(told)


def limits(made: Image) -> Occupancy:
    """How many warps of a kernel a multiprocessor holds, whatever the grid."""
    found = occupancy(
        str(made.program.arch),
        registers=made.program.cubin.registers,
        warps=made.warps,
        shared_bytes=made.shared_bytes,
    )
    assert found is not None  # other architectures are not decoded
    return found
