"""The one file of the session that touches Triton's internals: it compiles variants and spots tuning runs.

A launch on the CPU passes through our launcher, which asks the session's observer; the observer may answer
with another variant of the same kernel, compiled here with the pass pipeline in its instrumentation mode.
Triton's launch hooks, which other profilers share, and its knobs are left alone.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tileprobe.errors import TileProbeError

SUPPORTED = (3, 9)
_INDUCTOR = "torch._inductor.runtime.triton_heuristics"


class _Local(threading.local):
    tuning: int = 0  # launches now are the autotuner's


local = _Local()
_restore: list[Callable[[], None]] = []
_wrapped: set[str] = set()


def check_version() -> None:
    import triton

    found = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if found != SUPPORTED:
        wanted = ".".join(map(str, SUPPORTED))
        raise TileProbeError(
            f"profiling hooks into Triton {wanted}, and Triton {triton.__version__} is installed; "
            f"pip install 'triton=={wanted}.*'"
        )


def install(observe: Callable[..., Any]) -> None:
    """From now on `observe` sees every launch on the CPU."""
    from tileprobe.targets.cpu import launch

    check_version()
    if launch.observer is None:
        launch.observer = observe
        _restore.append(lambda: setattr(launch, "observer", None))
    watch_tuning()


def remove() -> None:
    while _restore:
        _restore.pop()()
    _wrapped.clear()


def watch_tuning() -> None:
    """Tells the runs of autotuners from the user's: Triton's own, and Inductor's once that is loaded."""
    if len(_wrapped) == 1 + (_INDUCTOR in sys.modules):
        return  # asked before every launch
    from triton.runtime.autotuner import Autotuner

    _wrap(Autotuner, "_bench")
    if _INDUCTOR in sys.modules:
        _wrap(sys.modules[_INDUCTOR].CachingAutotuner, "bench")


def _wrap(kind: Any, name: str) -> None:
    if f"{kind.__name__}.{name}" in _wrapped or not hasattr(kind, name):
        return
    original = getattr(kind, name)

    def bench(*args: Any, **kwargs: Any) -> Any:
        with tuning():
            return original(*args, **kwargs)

    def restore() -> None:
        if (
            getattr(kind, name) is bench
        ):  # somebody may have wrapped it in the meantime; then ours stays inside
            setattr(kind, name, original)

    setattr(kind, name, bench)
    _wrapped.add(f"{kind.__name__}.{name}")
    _restore.append(restore)


@contextlib.contextmanager
def tuning() -> Iterator[None]:
    """Launches in this block are no work of the user's."""
    local.tuning += 1
    try:
        yield
    finally:
        local.tuning -= 1


def compile_variant(launcher: Any, mode: str) -> Any:
    """The kernel of a launcher, compiled with another instrumentation mode."""
    from tileprobe.targets.cpu.variants import recompiled

    return recompiled(launcher, instrumentation_mode=mode)
