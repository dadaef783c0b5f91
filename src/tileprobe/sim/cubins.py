"""Kernels of cubins that Triton did not make: CUDA C++ compiled elsewhere, PTX that was written by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileprobe.errors import TileProbeError
from tileprobe.sim.results import Result
from tileprobe.sim.running import TARGET, measure
from tileprobe.targets import catalog

if TYPE_CHECKING:
    from tileprobe.targets.simgpu.program import Program

_FATBIN = b"\x50\xed\x55\xba"
_MACHINES = {80: "a100", 90: "h100"}  # where none is named


def load(
    cubin: str | os.PathLike[str] | bytes,
    name: str | None = None,
    machine: str | None = None,
    timed: bool = False,
) -> Kernel:
    """A kernel of a cubin, to be run on a simulated GPU.

    `name` is the kernel's, or a part of it that no other has; it may be left out where there is one kernel. The machine
    is that of the cubin's architecture unless it is named: `"a100"`, `"h100"`.

    >>> saxpy = tileprobe.sim.load("saxpy.cubin", timed=True)
    >>> result = saxpy[64, 128](n, 2.0, x, y)
    """
    from tileprobe.targets.simgpu.program import decode

    data, what = (cubin, "the cubin") if isinstance(cubin, bytes) else (_read(cubin), os.fspath(cubin))
    _check_kind(data, what)
    program = decode(data, name)
    chosen = (machine or _MACHINES[program.arch]).removeprefix(f"{TARGET}:")
    catalog.find(f"{TARGET}:{chosen}")
    _check_machine(program, chosen)
    if program.cubin.cluster is not None:
        raise TileProbeError(
            f"kernel {program.name} is compiled for clusters of {program.cubin.cluster} programs, which are run for"
            " Triton's kernels only"
        )
    return Kernel(program, chosen, timed)


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TileProbeError(f"cannot read {os.fspath(path)}: {error.strerror}") from error


def _check_kind(data: bytes, what: str) -> None:
    """What is no cubin, but near to one, with what to do."""
    if data[:4] == _FATBIN:
        raise TileProbeError(f"{what} is a fat binary; `cuobjdump -xelf all` takes the cubins out of it")
    near = data[:4096] if data[:4] != b"\x7fELF" else b""  # a cubin may hold its PTX
    if b".version" in near and b".target" in near:
        raise TileProbeError(f"{what} is PTX; `ptxas -arch=sm_80 -o kernel.cubin` makes a cubin of it")


def _check_machine(program: Program, name: str) -> None:
    from tileprobe.targets.simgpu.machine import machine

    if machine(name).arch != program.arch:
        raise TileProbeError(
            f"kernel {program.name} is compiled for sm_{program.arch}, and {TARGET}:{name} is sm_{machine(name).arch}"
        )


@dataclass(frozen=True)
class Kernel:
    """A kernel that was loaded. `kernel[grid, block](*args, shared=0)` runs it: `grid` and `block` are numbers of
    programs and threads, or up to three along x, y and z; `shared` are bytes of dynamic shared memory.

    Arguments are NumPy arrays, torch tensors of the CPU, `tileprobe.array` and None as addresses; numbers. A cubin
    knows its parameters by size alone: whole numbers are passed as such, floats as single or double precision by that
    size. A NumPy scalar, bytes and structures of ctypes are passed as they are."""

    program: Program
    machine: str
    timed: bool = False

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def parameter_bytes(self) -> tuple[int, ...]:
        return tuple(parameter.size for parameter in self.program.cubin.parameters)

    def __getitem__(self, shape: Any) -> Callable[..., Result]:
        if not isinstance(shape, tuple) or len(shape) != 2:
            raise TileProbeError(f"kernel {self.name}: write kernel[grid, block](...), not kernel[{shape!r}]")
        grid, block = (_three(self.name, given) for given in shape)
        if min(grid) < 1:
            raise TileProbeError(f"kernel {self.name}: a grid of {grid} has no programs")

        def launch(*args: Any, shared: int = 0) -> Result:
            return self._launch(grid, block, args, shared)

        return launch

    def __call__(self, *args: Any, **more: Any) -> Result:
        raise TileProbeError(f"kernel {self.name}: write kernel[grid, block](...)")

    def _launch(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], args: Sequence[Any], shared: int
    ) -> Result:
        from tileprobe.targets.simgpu.foreign import ForeignLauncher
        from tileprobe.targets.simgpu.machine import machine

        launcher = ForeignLauncher(self.program, machine(self.machine), block, shared)
        with measure(f"{TARGET}:{self.machine}", timed=self.timed) as launches:
            launcher.run(self.program, grid, args)
        return launches[-1]

    def __repr__(self) -> str:
        return f"<kernel {self.name} for {TARGET}:{self.machine}, parameters of {self.parameter_bytes} bytes>"


def _three(kernel: str, given: Any) -> tuple[int, int, int]:
    """Extents along x, y and z."""
    words = list(given) if isinstance(given, tuple | list) else [given]
    if not 1 <= len(words) <= 3 or not all(hasattr(word, "__index__") for word in words):
        raise TileProbeError(
            f"kernel {kernel}: {given!r} is no extent; write 64, or up to three such as (8, 8)"
        )
    x, y, z = (*(int(word) for word in words), 1, 1)[:3]
    return x, y, z
