"""`tileprobe.use`: choose where Triton kernels run, from Python.

Comes in: a target's name and, for the CPU, how to run. Goes out: Triton's active driver is set; as a context
manager the earlier choice comes back at the end of the block.
"""

from __future__ import annotations

from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu.options import settings

_BACKENDS = {"cpu": "cpu", "cuda": "nvidia", "nvidia": "nvidia", "hip": "amd", "amd": "amd"}


def use(target: str = "cpu", *, threads: int | None = None, check_bounds: bool | None = None) -> _Choice:
    """Runs Triton kernels on a target from now on, or for a `with` block.

    threads: how many threads launches use (default: TILEPROBE_NUM_THREADS, else all CPUs of the process).
    check_bounds: accesses outside the tensors a kernel was given raise a Python error with line and index.

    >>> tileprobe.use("cpu", threads=4)
    >>> with tileprobe.use("cpu", check_bounds=True):
    ...     kernel[grid](x, y, n)
    """
    name = _BACKENDS.get(target)
    if name is None:
        raise TileProbeError(f"there is no target {target!r}; expected one of {', '.join(_BACKENDS)}")
    if name != "cpu" and (threads is not None or check_bounds is not None):
        raise TileProbeError(f"threads and check_bounds are settings of the CPU target, not of {target!r}")
    choice = _Choice()
    choice.apply(name, threads, check_bounds)
    return choice


class _Choice:
    """What was chosen before, to go back to."""

    def __init__(self):
        from triton.runtime import driver

        from tileprobe.targets.cpu import pool

        self._driver = driver._active
        self._check_bounds = settings.check_bounds
        self._threads = pool.wanted_threads()

    def apply(self, name: str, threads: int | None, check_bounds: bool | None) -> None:
        from triton.runtime import driver

        driver.set_active(_driver_of(name))
        if name != "cpu":
            return
        if threads is not None:
            from tileprobe.targets.cpu import pool

            pool.set_threads(threads)
        if check_bounds is not None:
            settings.check_bounds = bool(check_bounds)

    def __enter__(self) -> _Choice:
        return self

    def __exit__(self, *_: Any) -> None:
        from triton.runtime import driver

        from tileprobe.targets.cpu import pool

        driver._active = self._driver
        settings.check_bounds = self._check_bounds
        pool.set_threads(self._threads)


def _driver_of(name: str) -> Any:
    from triton.backends import backends
    from triton.runtime import driver

    cls = backends[name].driver
    if isinstance(driver._active, cls):
        return driver._active
    if name != "cpu" and not cls.is_active():
        raise TileProbeError(
            f"no GPU for {name!r} answers on this machine; `tileprobe doctor` says what is there"
        )
    return cls()
