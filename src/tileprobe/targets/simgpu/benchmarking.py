"""Benchmarks of launches on a simulated GPU take one run of each: the next would take exactly as long.

In comes a function that launches kernels, from Triton's autotuner or from a script that calls `do_bench`; out goes how
long it takes, in the shape in which they want it. Triton's own would run it until 100 ms had passed on the
chip, thousands of times. While another driver is active they do what they always do.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tileprobe.targets.simgpu.device import Counter, around_ns

_NS_PER_MS = 1e6


class _Runs(threading.local):
    count = 0  # benchmarks that a thread has made


_runs = _Runs()


def benchmark(
    call: Callable[[], Any],
    *_: Any,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    grad_to_none: Iterable[Any] | None = None,
    events: bool = True,
    **__: Any,
) -> Any:
    """Milliseconds of one run, with caches full of other memory, as Triton's own has it before each; `events`: and what
    two events measure beyond it."""
    took = _once(call, grad_to_none)
    if took is None:
        took = _once(call, grad_to_none) or 0.0
    around = around_ns() if events else 0.0
    times = [(max(round(took, 3), 1) + around) / _NS_PER_MS]  # the same from wherever the clock stood
    if quantiles is not None:
        found = times * len(quantiles)
        return found[0] if len(found) == 1 else found
    return times if return_mode == "all" else times[0]


def _once(call: Callable[[], Any], grad_to_none: Iterable[Any] | None) -> float | None:
    """Nanoseconds of a run; None where others were made in it, of an autotuner that has chosen by now."""
    from triton.runtime import driver

    for tensor in grad_to_none or ():
        tensor.grad = None
    active: Any = driver.active
    active.clear_cache(None)
    made, before = _runs.count, Counter.passed_ns
    call()
    took = Counter.passed_ns - before
    others = _runs.count != made
    _runs.count += 1
    return None if others else took


def install() -> None:
    """Puts it where scripts find Triton's. Once a process."""
    from triton import testing

    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton"):
        theirs = getattr(testing, name, None)
        if theirs is not None and not getattr(theirs, "_tileprobe", False):
            setattr(testing, name, _either(theirs))


def _either(theirs: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def chosen(fn: Callable[[], Any], *args: Any, **options: Any) -> Any:
        from triton.runtime import driver

        from tileprobe.targets.simgpu.driver import SimDriver

        if not isinstance(driver.active, SimDriver):
            return theirs(fn, *args, **options)
        given = signature.bind(fn, *args, **options).arguments  # a wrong one is refused as always
        return benchmark(given.pop("fn"), events=theirs.__name__ == "do_bench", **given)

    chosen._tileprobe = True  # type: ignore[attr-defined]
    return chosen
