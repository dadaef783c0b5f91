"""Autotuning on the CPU: the same code is measured once, and code that takes long is not measured often.

Configurations that differ in warps, stages and the like only are the same code here. Triton measures each of them,
with eight launches at least, however long one takes; a GPU is through with that in a moment, a CPU is not.
"""

from __future__ import annotations

import sys
import time
from functools import wraps
from typing import Any

from tileprobe.imports import AfterImport
from tileprobe.targets.cpu.options import IGNORED

LONG_MS = 100.0  # for how long Triton measures a configuration; a launch of that length says it all by itself


def benchmarker(run: Any, *args: Any, quantiles: Any = None, return_mode: str = "mean", **kwargs: Any) -> Any:
    """`triton.testing.do_bench` for the autotuner, which takes one launch's word (behind a warm one) if it was long."""
    from triton.testing import do_bench

    run()
    start = time.perf_counter()
    run()
    took = (time.perf_counter() - start) * 1e3
    if took < LONG_MS:
        return do_bench(run, *args, quantiles=quantiles, return_mode=return_mode, **kwargs)
    if quantiles is not None:
        return [took] * len(quantiles) if len(quantiles) > 1 else took
    return [took] if return_mode == "all" else took


def install_with_triton() -> None:
    """Behind Triton's import, in the middle of which this is called: a script's first kernel may be one that is tuned,
    and Triton asks for its driver only when it measures."""
    if "triton.testing" in sys.modules:
        return
    later = AfterImport({"triton.testing": lambda: (later.stop(), install())[1]})
    later.watch()


def install() -> None:
    """Once a process. Other targets' tuning is as it was."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.prune_configs
    if getattr(original, "_tileprobe", False):
        return

    @wraps(original)
    def prune_configs(self: Any, kwargs: dict[str, Any]) -> list[Any]:
        configs = original(self, kwargs)
        return _different(self, configs, kwargs) if _on_cpu() else configs

    prune_configs._tileprobe = True  # type: ignore[attr-defined]
    Autotuner.prune_configs = prune_configs


def _on_cpu() -> bool:
    from triton.runtime import driver

    target: Any = driver.active.get_current_target()
    return target.backend == "cpu"


def _different(tuner: Any, configs: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The first of those that are the same code. They are the same where everything is that a kernel is given; what it
    is not given are options that mean nothing here, unless it has an argument of that name or computes one from it."""
    kept: dict[str, Any] = {}
    for config in configs:
        given = {**tuner.nargs, **kwargs, **config.all_kwargs()}
        try:
            computed = _computed(tuner.fn, given)
        except Exception:  # the tuner meets it again, and says what it is
            return configs
        names = set(tuner.arg_names) - tuner.nargs.keys()
        own = {n: v for n, v in {**config.all_kwargs(), **computed}.items() if n in names or n not in IGNORED}
        kept.setdefault(repr((sorted(own.items()), config.pre_hook)), config)
    return list(kept.values())


def _computed(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What heuristics between the tuner and the kernel make of the arguments."""
    found: dict[str, Any] = {}
    while not hasattr(function, "cache_key"):  # a kernel has one
        for name, rule in getattr(function, "values", {}).items():
            found[name] = rule({**given, **found})
        function = function.fn
    return found
