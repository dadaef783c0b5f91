"""`jit`: Numba compilation with a disk cache that notices edits in every file of this package.

Numba's own cache looks only at the file that a function stands in, and serves stale code when a function it
calls in another file has changed. Here the stamp of a cached function is a hash of all sources of the
package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching


@lru_cache(maxsize=1)
def sources_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _stamped(locator: type) -> type:
    """The same cache folder as `locator`, with the package's hash as the stamp."""
    return type(locator.__name__, (locator,), {"get_source_stamp": lambda self: sources_hash()})


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [
        _stamped(caching.UserProvidedCacheLocator),
        _stamped(caching.InTreeCacheLocator),
        _stamped(caching.UserWideCacheLocator),
    ]


class _Cache(caching.FunctionCache):
    _impl_class = _CacheImpl


def jit(function: Callable[..., Any]) -> Any:
    """Compiles `function` on its first call and keeps the machine code for later processes."""
    compiled = numba.njit(function, nogil=True, boundscheck=False)
    with suppress(RuntimeError):  # nowhere to write: compile in each process
        setattr(compiled, "_cache", _Cache(function))  # noqa: B010
    return compiled
