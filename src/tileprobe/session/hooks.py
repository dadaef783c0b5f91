"""The one file of the session that touches Triton's internals: it tells tuning runs from the user's, and lets targets
stand in the way of launches that Triton's own launchers make.

Launches pass by their target's launcher, which asks whoever subscribed; Triton's launch hooks, which other profilers
share, and its knobs are left alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.base import Observer, launches
from tileprobe.targets.catalog import AUTO, available, default_target

SUPPORTED = (3, 9)
_TRITON = "triton.runtime.autotuner"
_INDUCTOR = "torch._inductor.runtime.triton_heuristics"
_LAUNCHER = "_tileprobe_launcher"  # of a compiled kernel: Triton's launcher, and what stands in its place
_STATIC = "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER"
_BENCHES = ((_TRITON, "Autotuner", "_bench"), (_INDUCTOR, "CachingAutotuner", "bench"))


class _Local(threading.local):
    tuning: int = 0  # launches now are the autotuner's


local = _Local()
_restore: list[Callable[[], None]] = []
_wrapped: set[str] = set()
_looked = 0  # modules that were loaded when autotuners were last looked for


def check_version() -> None:
    import triton

    wanted = ".".join(map(str, SUPPORTED))
    if triton.__version__.split(".")[:2] != wanted.split("."):
        raise TileProbeError(
            f"profiling hooks into Triton {wanted}, and Triton {triton.__version__} is installed; "
            f"pip install 'triton=={wanted}.*'"
        )


def install(observe: Observer, say: Callable[[str, str], None] | None = None) -> None:
    """From now on `observe` sees every launch, and `say` is told of those that cannot be seen."""
    check_version()
    _restore.append(launches.subscribe(observe, say))
    watch_tuning()
    watch_launches()
    if default_target() == AUTO:
        _launch_by_triton()


def remove() -> None:
    global _looked
    while _restore:
        _restore.pop()()
    _wrapped.clear()
    _looked = 0


def watch_tuning() -> None:
    """Tells the runs of autotuners from the user's: Triton's own and Inductor's, once they are loaded."""
    global _looked
    if _looked == len(sys.modules):  # asked at every launch
        return
    _looked = len(sys.modules)
    for module, kind, name in _BENCHES:
        if module not in _wrapped and module in sys.modules:
            _wrapped.add(module)
            _wrap(getattr(sys.modules[module], kind), name)


def watch_launches() -> None:
    """Kernels are asked for their launcher before each launch: those of a target whose launches Triton makes itself
    give the target's. Kernels that were loaded before are seen as well."""
    from triton.compiler import compiler

    kernels: Any = compiler.CompiledKernel
    original = kernels.run

    def run(kernel: Any) -> Any:
        launcher = original.fget(kernel)
        known = kernel.__dict__.get(_LAUNCHER)
        if known is None or known[0] is not launcher:
            known = kernel.__dict__[_LAUNCHER] = launcher, _launcher_of(kernel, launcher)
        return known[1]

    def restore() -> None:
        if kernels.run is ours:
            kernels.run = original

    ours = kernels.run = property(run)
    _restore.append(restore)


def _launch_by_triton() -> None:
    """Inductor can launch its kernels on a GPU without Triton, past everybody who looks: not while we do."""
    config: Any = sys.modules.get("torch._inductor.config")
    if config is not None:
        before = config.use_static_cuda_launcher
        config.use_static_cuda_launcher = False
        _restore.append(lambda: setattr(config, "use_static_cuda_launcher", before))
    elif _STATIC not in os.environ:  # read when it is loaded
        os.environ[_STATIC] = "0"
        _restore.append(lambda: _forget(_STATIC))


def _forget(variable: str) -> None:
    os.environ.pop(variable, None)


def _launcher_of(kernel: Any, launcher: Any) -> Any:
    for target in available():
        found = target.launcher(kernel, launcher)
        if found is not None:
            return found
    return launcher


def _wrap(kind: Any, name: str) -> None:
    if not hasattr(kind, name):
        return
    original = getattr(kind, name)

    def bench(*args: Any, **kwargs: Any) -> Any:
        with tuning():
            return original(*args, **kwargs)

    def restore() -> None:
        # somebody may have wrapped it in the meantime; then ours stays inside
        if getattr(kind, name) is bench:
            setattr(kind, name, original)

    setattr(kind, name, bench)
    _restore.append(restore)


@contextlib.contextmanager
def tuning() -> Iterator[None]:
    """Launches in this block are no work of the user's."""
    local.tuning += 1
    try:
        yield
    finally:
        local.tuning -= 1
