"""Numba for engines of simulated machines and for executed models: `jit` and `inline`, and where code is kept.

Numba's own cache looks only at the file that a function stands in, keeps code beside the sources, and lets two
processes that save at once exchange their code. Here compiled code lives in the user's cache folder
(`TILEPROBE_CACHE_DIR`, else `tileprobe` in `XDG_CACHE_HOME` or `~/.cache`), below a folder named after all sources
of the package and the version of Numba, one file for each function and signature. Files are written whole, and a
file that cannot be read or written only means compiling again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching
from numba.core.ccallback import CFunc

BORROWING: dict[str, Any] = {"nogil": True, "_nrt": False}  # without Numba's runtime, which counts references


def package_of(function: Callable[..., Any]) -> Path:
    """The folder whose sources decide over a function: the part of a target that it is in (`cambricon/engine`),
    however deep; of a function elsewhere, the folder of its file.
    """
    here, folder = Path(__file__).parent, Path(function.__code__.co_filename).parent
    inside = here in folder.parents
    return here.joinpath(*folder.relative_to(here).parts[:2]) if inside else folder


@lru_cache(maxsize=8)
def sources_hash(package: Path) -> str:
    """A hash of this file, of all sources of a package, and of Numba's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in (Path(__file__), *sorted(package.rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder(package: Path) -> Path:
    """Where compiled code of exactly these sources is kept."""
    home = os.environ.get("TILEPROBE_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tileprobe"
    return (
        Path(home) if home else user
    ) / f"numba-{package.parent.name}-{package.name}-{sources_hash(package)}"


class _Locator(caching._CacheLocator):
    """Numba asks it for the folder of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._folder, self._line = cache_folder(package_of(function)), function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._folder.name

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> _Locator:
        return cls(function)


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _Files(caching.IndexDataCacheFile):
    """One file for each key (signature and processor), named after it, with the key inside."""

    def _name(self, key: Any) -> str:
        return f"{Path(self._index_name).stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def save(self, key: Any, data: Any) -> None:
        self._save_data(self._name(key), (key, data))

    def load(self, key: Any) -> Any:
        try:
            kept, data = self._load_data(self._name(key))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return None
        return data if kept == key else None


class _Cache(caching.FunctionCache):
    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Files(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def _save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # nowhere to write: compile in each process
            super()._save_overload(sig, data)


def jit(function: Callable[..., Any]) -> Any:
    """Compiles `function` on its first call and keeps the machine code for later processes."""
    return _kept(numba.njit(function, nogil=True), function)


def borrowing(function: Callable[..., Any]) -> Any:
    """`jit` for a function that makes no array and keeps none beyond its call. References are not counted then,
    which would take longer than the work where a function is cut into many parts.
    """
    return _kept(numba.njit(function, **BORROWING), function)


def inline(function: Callable[..., Any]) -> Any:
    """A part of a `borrowing` function with a name of its own: copied to where it is called, before compilation."""
    return numba.njit(function, inline="always", **BORROWING)


def part(function: Callable[..., Any]) -> Any:
    """A part of a `borrowing` function that stays a function: compiled with it, not kept on its own, and not to be
    called from Python."""
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **BORROWING}
    return numba.njit(function, **options)


def entry(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """A function that other compiled code calls by its address: `.address`, after `.compile()`. Kept like `jit`'s."""

    def made(function: Callable[..., Any]) -> Any:
        options = {"nopython": True, "no_cpython_wrapper": True, **BORROWING}
        return _kept(CFunc(function, (signature.args, signature.return_type), {}, options), function)

    return made


def _kept(compiled: Any, function: Callable[..., Any]) -> Any:
    setattr(compiled, "_cache", _Cache(function))  # noqa: B010
    return compiled


def is_kept(compiled: Any) -> bool:
    """Whether some code of a `jit` function has been compiled by an earlier process."""
    function = getattr(compiled, "py_func", compiled)
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
    return any(cache_folder(package_of(function)).glob(f"{name}-*.nbc"))
