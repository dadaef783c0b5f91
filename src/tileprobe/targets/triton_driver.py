"""Which of Triton's drivers is active: chosen for good or for a `with` block."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from typing import Any

from tileprobe.errors import TileProbeError


class Chosen:
    """Makes a driver Triton's active one; at the end of a `with` block the one before is back, and so is what
    `restore` puts back."""

    def __init__(self, driver: Any, restore: Callable[[], None] | None = None) -> None:
        from triton.runtime import driver as triton_driver

        self._before, self._restore = triton_driver._active, restore
        triton_driver.set_active(driver)
        _latest[:] = [driver]
        _end_quietly()

    def __enter__(self) -> Chosen:
        return self

    def __exit__(self, *_: Any) -> None:
        from triton.runtime import driver as triton_driver

        triton_driver._active = self._before
        if self._restore is not None:
            self._restore()


_latest: list[Any] = []  # the driver that was chosen last


@cache
def _end_quietly() -> None:
    """Kernels that are still there at the end ask Triton for a driver, to be unloaded. Triton would make one then, and
    import torch into a Python that is being taken down: errors on the screen, and a second or two."""

    def have_one() -> None:
        from triton.runtime import driver as triton_driver

        if triton_driver._active is None and triton_driver._default is None:
            triton_driver.set_active(_latest[0])

    atexit.register(have_one)


def driver_of(backend: str, *, must_answer: bool) -> Any:
    """The driver of a Triton backend, the active one if it is of that kind."""
    from triton.backends import backends
    from triton.runtime import driver as triton_driver

    kind = backends[backend].driver
    if isinstance(triton_driver._active, kind):
        return triton_driver._active
    if must_answer and not kind.is_active():
        raise TileProbeError(
            f"no GPU for {backend!r} answers on this machine; `tileprobe doctor` says what is there"
        )
    return kind()


def refuse_settings(target: str, settings: dict[str, Any]) -> None:
    given = [name for name, value in settings.items() if value is not None]
    if given:
        raise TileProbeError(f"{' and '.join(given)}: no setting of the target {target!r}")
