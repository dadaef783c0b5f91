"""Puts object code into this process: one LLJIT for all that targets compile, libc and libm found in the process.

Comes in: the bytes of an object file and the symbols wanted. Goes out: a `Library` whose addresses are valid
as long as it is referenced. JITLink puts all sections of an object into one piece of memory. LLVM's older linker, which
is llvmlite's default, asks for each section by itself and aborts the process where two of them are more than 2 GB
apart, as they are sooner or later in a process that has many large arrays.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_names = itertools.count()
# LLJIT is created once, and forgetting a library while another is linked is not safe.
_lock = threading.RLock()


class Library:
    """Loaded object code. `address(name)` of an exported symbol; unloaded when dropped."""

    def __init__(self, tracker: Any):
        self._tracker: Any = tracker

    def address(self, name: str) -> int:
        return self._tracker[name]

    def unload(self) -> None:
        if _lock is None:  # the interpreter is on its way out and has taken its modules apart
            return
        with _lock:
            if self._tracker is not None:
                self._tracker.close()
                self._tracker = None


def load_object(data: bytes, exports: Iterable[str]) -> Library:
    """Links an object file. A symbol neither in it nor in the process raises RuntimeError; LLVM names it on stderr."""
    from llvmlite.binding.orcjit import JITLibraryBuilder

    builder = JITLibraryBuilder().add_object_img(data).add_current_process()
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        return Library(builder.link(_jit(), f"tileprobe{next(_names)}"))


def _new_lock() -> None:
    """In a forked child: a thread that does not exist there may have held it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


@lru_cache(maxsize=1)
def _jit() -> Any:
    import llvmlite.binding as llvm
    from llvmlite.binding.orcjit import create_lljit_compiler

    # Kernels call the math library, which Python's own executable may not have loaded.
    with contextlib.suppress(RuntimeError):
        llvm.load_library_permanently("libm.so.6")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    jit = create_lljit_compiler(use_jit_link=True)
    # Workers may still run this code while the interpreter tears itself down: it must never be freed.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(jit))
    return jit
