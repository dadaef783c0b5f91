"""The same kernel compiled once more with other options: with probes, or for arguments that are the same tensor."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tileprobe.targets.cpu.options import CpuOptions


def recompiled(launcher: Any, **changes: Any) -> Any:
    """The kernel of a launcher as Triton compiles it with some options changed."""
    import triton

    metadata = launcher.metadata
    known = {f.name: getattr(metadata, f.name) for f in fields(CpuOptions) if hasattr(metadata, f.name)}
    options = {name: _hashable(value) for name, value in known.items() if value is not None}
    return triton.compile(launcher.src, target=metadata.target, options={**options, **changes})


def _hashable(value: Any) -> Any:
    """Metadata has been through JSON, which knows no tuples."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
