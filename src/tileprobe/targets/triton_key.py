"""Remembers Triton's own cache key between processes.

Triton hashes its 500 MB library whenever a process compiles its first kernel, which takes longer than loading
a kernel from the cache. Here the key it computed is kept in its cache folder together with the size and time
of every file it depends on, and computed anew when one of them differs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from tileprobe.errors import TileProbeError
from tileprobe.files import write_json

_FILE = "tileprobe-triton-key.json"


def install() -> None:
    """Puts the remembering key in the places where Triton looks it up. Once a process."""
    from triton.runtime import autotuner, cache

    if getattr(cache.triton_key, "_tileprobe", False):
        return
    compute = cache.triton_key

    @lru_cache(maxsize=1)
    def triton_key() -> str:
        return _remembered(compute)

    triton_key._tileprobe = True  # type: ignore[attr-defined]
    cache.triton_key = autotuner.triton_key = triton_key


def _remembered(compute: Callable[[], str]) -> str:
    from triton import knobs

    path = Path(knobs.cache.dir) / _FILE
    state = _state()
    try:
        kept = json.loads(path.read_text())
        if kept["state"] == state:
            return kept["key"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none yet, or damaged: made anew below
    key = compute()
    with contextlib.suppress(TileProbeError):  # a folder that cannot be written to costs time, nothing else
        write_json(path, {"state": state, "key": key}, make_folder=True)
    return key


def _state() -> str:
    """A digest of the names, sizes and times of Triton's files."""
    import triton

    root = os.path.dirname(triton.__file__)
    entries = sorted(_stats(root))
    return hashlib.sha256(repr((triton.__version__, entries)).encode()).hexdigest()


def _stats(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _stats(entry.path)
            elif entry.name.endswith((".py", ".so")):
                stat = entry.stat()
                yield entry.path, stat.st_size, stat.st_mtime_ns
