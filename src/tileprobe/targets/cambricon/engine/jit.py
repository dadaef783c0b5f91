"""Numba's decorator for the engine, with a cache that cannot go stale.

Numba's cache does not see edits in another file, so compiled code lives in a folder named after a hash of all
sources of the engine, whoever imports them first.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

SOURCES = ("jit.py", "program.py", "state.py", "channel.py", "run.py")


def cache_folder() -> Path:
    """Where compiled code of exactly these sources is kept."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tileprobe"
    return Path(os.environ.get("TILEPROBE_CACHE_DIR") or home) / f"cambricon-{digest.hexdigest()[:16]}"


def jit(function: Callable) -> Callable:
    """`numba.njit` with the cache of these sources; without one where no folder can be written."""
    import numba
    from numba.core import config

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return numba.njit(nogil=True)(function)
    before = getattr(config, "CACHE_DIR", "")
    setattr(config, "CACHE_DIR", str(folder))  # noqa: B010
    try:
        return numba.njit(cache=True, nogil=True)(function)
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


def is_compiled() -> bool:
    """Whether the folder holds compiled code already."""
    return any(cache_folder().glob("**/run.run_operators*.nbi"))
