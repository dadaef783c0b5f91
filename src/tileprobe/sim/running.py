"""Runs Triton kernels on a simulated GPU and hands back what each launch took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.sim.results import Result
from tileprobe.targets import catalog

TARGET = "sim"


@contextmanager
def measure(
    on: str = "sim:a100", *, timed: bool = True, cold: bool = True, **settings: Any
) -> Iterator[list[Result]]:
    """Runs the kernels that are launched in the block on a simulated GPU. What it gives is filled, launch by launch;
    configurations that an autotuner tries are launches, too.

    With `cold` each launch finds empty caches, so that it takes the same whatever was launched before. The settings are
    those of `tileprobe.use`: `check`, `threads`, `fast_sums`, `step_limit`."""
    from tileprobe.targets.simgpu.launched import observing

    check_target(on)
    found: list[Result] = []
    with (
        catalog.use(on, timed=timed, cold=cold, **settings),
        observing(lambda launch: found.append(Result.of(launch))),
    ):
        yield found


def run(kernel: Any, grid: Any, /, *args: Any, on: str = "sim:a100", **options: Any) -> Result:
    """Launches `kernel[grid](*args, **options)` on a simulated GPU, with time and empty caches. NumPy arrays are taken
    as tensors over the same memory. Of a kernel that is autotuned it is the launch with the configuration that won."""
    if not hasattr(kernel, "__getitem__"):
        raise TileProbeError(
            f"{kernel!r} is no Triton kernel; functions that launch kernels run in a `with measure(...)` block"
        )
    grid = (grid,) if isinstance(grid, int) else grid
    with measure(on) as launches:
        kernel[grid](*map(taken, args), **{name: taken(value) for name, value in options.items()})
    if not launches:
        raise TileProbeError(f"nothing was launched on {on}: the grid {grid} has no programs?")
    return launches[-1]


def taken(value: Any) -> Any:
    """NumPy's values as Triton takes them."""
    if isinstance(value, np.ndarray):
        return catalog.array(value)
    return value.item() if isinstance(value, np.generic) else value


def check_target(on: str) -> None:
    if catalog.find(on)[0].name != TARGET:
        names = ", ".join(f"sim:{name}" for name in catalog.find(TARGET)[0].machines())
        raise TileProbeError(f"{on!r} is no simulated GPU; there are {names}")
