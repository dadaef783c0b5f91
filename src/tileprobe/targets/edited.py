"""Kernels with passes run over Triton's own IR, as if somebody had edited them, on all targets that Triton compiles to.

Comes in: a pipeline. Triton's hook for stages runs it behind those that make TTIR, and tells its caches of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import tileprobe


@contextmanager
def edited(pipeline: str, level: str = "ttir") -> Iterator[None]:
    """Kernels that are compiled in the block have passes run over their IR of a level (`ttir`, on GPUs `ttgir`) when it
    is made, and caches know them apart."""
    if not pipeline:
        yield
        return
    from triton import knobs

    runtime: Any = knobs.runtime
    before = runtime.add_stages_inspection_hook

    def hook(*stages: Any) -> tuple[str, str] | None:
        if not stages:
            others = ("", "") if before is None else before()
            mine = f"{level}:{pipeline};{_passes_digest()}"
            return f"{others[0]};{mine}", f"{others[1]};{mine}"
        if before is not None:
            before(*stages)
        steps: dict[str, Callable[[Any, Any], Any]] = stages[1]
        plain = steps[level]
        steps[level] = lambda source, metadata: _edit(plain(source, metadata), pipeline)
        return None

    runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        runtime.add_stages_inspection_hook = before


@cache
def _passes_digest() -> str:
    """Of the code of the passes: what another version of them made must not be found in a cache."""
    folder = Path(tileprobe.__file__).parent
    return hashlib.sha256(
        b"".join(path.read_bytes() for path in sorted(folder.rglob("passes/*.py")))
    ).hexdigest()


def _edit(module: Any, pipeline: str) -> Any:
    from tileprobe.ir.bridge import from_xdsl, to_xdsl
    from tileprobe.ir.registry import context
    from tileprobe.passes import pipeline as passes_of

    made, ctx = to_xdsl(module), context()
    for step in passes_of(pipeline).passes:
        step.apply(ctx, made)
    return from_xdsl(made, module.context)
