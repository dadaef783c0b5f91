"""TileProbe: a compiler-centric profiler for tile kernels.

Importing this package is cheap and never imports Triton: Triton itself imports it while it looks for
backends. Public names are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it
_PUBLIC = {
    "TileProbeError": "tileprobe.errors",
    "Trace": "tileprobe.trace",
    "array": "tileprobe.targets.catalog",
    "profile": "tileprobe.profiling",
    "profiled": "tileprobe.profiling",
    "use": "tileprobe.cuda_map",
}

_MODULES = ("language", "sim")

__all__ = ["__version__", *sorted((*_PUBLIC, *_MODULES))]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tileprobe.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tileprobe' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def html_of(shown: Any) -> str:
    """What a notebook shows of a trace, a result or a table: these stand left of the views and name none of them."""
    return import_module("tileprobe.views.notebook").html_of(shown)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_MODULES})
