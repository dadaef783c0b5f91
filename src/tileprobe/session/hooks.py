"""The one file of the session that touches Triton's internals: which variant of a kernel a launch takes.

Triton reads `knobs.compilation.instrumentation_mode` on every launch and keeps it in the kernel's key. While a
session is on, the function below `JITFunction.run` chooses that mode for the launch at hand, for its thread
alone; runs of the autotuner are told apart. Launch hooks, which other profilers share, are left alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tileprobe.errors import TileProbeError

SUPPORTED = (3, 9)

# Called with a JIT function, the arguments of the launch and its mode; returns a mode and what to remember.
Choose = Callable[[Any, tuple[Any, ...], dict[str, Any], str], "tuple[str, Any]"]


class _Local(threading.local):
    mode: str | None = None  # what the launch at hand uses; None: what the knob says
    state: Any = None  # what `choose` remembered of it
    tuning: int = 0


local = _Local()
_installed: _Hooks | None = None


def check_version() -> None:
    import triton

    found = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if found != SUPPORTED:
        wanted = ".".join(map(str, SUPPORTED))
        raise TileProbeError(
            f"profiling hooks into Triton {wanted}, and Triton {triton.__version__} is installed; "
            f"pip install 'triton=={wanted}.*'"
        )


def install(choose: Choose, observe: Callable[..., Any]) -> None:
    """From now on `choose` decides about every launch of a JIT function, `observe` sees those on the CPU."""
    global _installed
    check_version()
    if _installed is None:
        _installed = _Hooks(choose, observe)


def remove() -> None:
    global _installed
    if _installed is not None:
        _installed.remove()
        _installed = None


@contextlib.contextmanager
def tuning() -> Iterator[None]:
    """Launches in this block are no work of the user's."""
    local.tuning += 1
    try:
        yield
    finally:
        local.tuning -= 1


class _Hooks:
    def __init__(self, choose: Choose, observe: Callable[..., Any]) -> None:
        from triton import knobs
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction

        from tileprobe.targets.cpu import launch

        self.choose = choose
        self.on = True
        self.run, self.bench = JITFunction.run, Autotuner._bench
        self.knobs = type(knobs.compilation)
        knobs.compilation.__class__ = _aware(self.knobs)
        self.our_run = JITFunction.run = _run(self, JITFunction.run)
        self.our_bench = Autotuner._bench = _bench(Autotuner._bench)
        launch.observer = observe

    def remove(self) -> None:
        """Puts everything back. What somebody has wrapped meanwhile stays, and passes straight through."""
        from triton import knobs
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction

        from tileprobe.targets.cpu import launch

        self.on = False
        launch.observer = None
        knobs.compilation.__class__ = self.knobs
        if JITFunction.run is self.our_run:
            JITFunction.run = self.run
        if Autotuner._bench is self.our_bench:
            Autotuner._bench = self.bench


def _aware(kind: type) -> type:
    """Triton's compilation knobs, with a mode that a thread can have to itself."""

    def get(knobs: Any) -> str:
        if local.mode is not None:
            return local.mode
        return knobs.__dict__.get("instrumentation_mode", kind.instrumentation_mode)  # type: ignore[attr-defined]

    def put(knobs: Any, value: str) -> None:
        knobs.__dict__["instrumentation_mode"] = value

    return type(kind.__name__, (kind,), {"instrumentation_mode": property(get, put)})


def _run(hooks: _Hooks, original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not hooks.on or local.tuning or warmup:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        from triton import knobs

        before = local.mode, local.state
        asked = knobs.compilation.instrumentation_mode
        local.mode, local.state = hooks.choose(self, (grid, *args), kwargs, asked)
        state = local.state
        try:
            kernel = original(self, *args, grid=grid, warmup=warmup, **kwargs)
        finally:
            local.mode, local.state = before
        if state is not None and kernel is not None:
            state.ran(kernel)
        return kernel

    return run


def _bench(original: Callable[..., Any]) -> Callable[..., Any]:
    def bench(self: Any, *args: Any, **kwargs: Any) -> Any:
        with tuning():
            return original(self, *args, **kwargs)

    return bench
