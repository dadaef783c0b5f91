"""Something to be done once a program has imported a module: at no cost, and never, where it does not.

In come names of modules with functions; each function is called behind its module's first import.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a module has been imported; `watch` from now on."""

    def __init__(self, calls: dict[str, Callable[[], None]]) -> None:
        self.calls = calls

    def watch(self) -> None:
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        call = self.calls.pop(fullname, None)
        if call is None:
            return None
        spec = importlib.util.find_spec(fullname)  # the others find it; we are asked again and know nothing
        if spec is not None and spec.loader is not None:
            _then(spec.loader, call)
        return spec


def _then(loader: Any, call: Callable[[], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        execute(module)
        call()

    loader.exec_module = exec_module
