"""Source text to a kernel: a file, because Triton reads the source of its functions from one."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_numbers = itertools.count()


@contextmanager
def loaded(source: str) -> Iterator[Any]:
    """The module of a piece of source, for as long as its kernels run."""
    with tempfile.TemporaryDirectory(prefix="tileprobe-fuzz-") as folder:
        name = f"fuzz_kernel_{next(_numbers)}"
        path = Path(folder) / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # inspect looks it up
        try:
            spec.loader.exec_module(module)
            yield module
        finally:
            del sys.modules[name]
            linecache.cache.pop(str(path), None)
