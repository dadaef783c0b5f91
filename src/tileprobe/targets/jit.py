"""Numba for engines of simulated machines and for executed models: `jit` and `inline`, and where code is kept.

Numba's own cache looks only at the file that a function stands in, keeps code beside the sources, and lets two
processes that save at once exchange their code. Here compiled code lives in the user's cache folder
(`TILEPROBE_CACHE_DIR`, else `tileprobe` in `XDG_CACHE_HOME` or `~/.cache`), below a folder named after the sources of
its module, of all that this imports, and the version of Numba, one file for each function and signature. Files are
written whole, and a file that cannot be read or written only means compiling again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching
from numba.core.ccallback import CFunc

_ROOT = Path(__file__).parent.parent  # of the package
_IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([^\n]*))", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
BORROWING: dict[str, Any] = {"nogil": True, "_nrt": False}  # without Numba's runtime, which counts references


def package_of(function: Callable[..., Any]) -> Path:
    """What decides over a function: its file, in a target of this package; elsewhere the folder of its file."""
    path = Path(function.__code__.co_filename)
    return path if _ROOT in path.parents else path.parent


@lru_cache(maxsize=256)
def imported_by(path: Path) -> tuple[Path, ...]:
    """The modules of this package that a module imports, wherever it does."""
    found: set[Path] = set()
    for source, names, plain in _IMPORT.findall(_COMMENT.sub("", path.read_text())):
        if source.startswith("."):
            return (*found, *path.parent.rglob("*.py"))
        named = [f"{source}.{name.split()[0]}" for name in names.strip("()").split(",") if name.strip()]
        for module in (source, *named, *plain.replace(",", " ").split()):
            at = _ROOT.parent.joinpath(*module.split("."))
            found.update(
                p for p in (at.with_suffix(".py"), at / "__init__.py") if _ROOT in p.parents and p.exists()
            )
    return tuple(found)


@lru_cache(maxsize=64)
def sources_of(path: Path) -> tuple[Path, ...]:
    """All that a module, or the modules of a folder, are made of: themselves, what they import of this package, what
    that imports.
    """
    found = set(path.rglob("*.py")) if path.is_dir() else {path}
    left = list(found)
    while left:
        new = set(imported_by(left.pop())) - found
        found |= new
        left += new
    return tuple(sorted(found))


@lru_cache(maxsize=64)
def sources_hash(path: Path) -> str:
    """A hash of this file, of all sources that a module or a folder is made of, and of Numba's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for each in (Path(__file__), *sources_of(path)):
        digest.update(each.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder(path: Path) -> Path:
    """Where compiled code of exactly these sources is kept."""
    home = os.environ.get("TILEPROBE_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tileprobe"
    name = f"numba-{path.parent.name}-{path.stem}-{sources_hash(path)}"
    return (Path(home) if home else user) / name


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
    """Whether some code of a function is kept, by this process or an earlier one."""
    function = getattr(compiled, "py_func", None) or getattr(compiled, "__wrapped__", compiled)
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
    return any(cache_folder(package_of(function)).glob(f"{name}-*.nbc"))
