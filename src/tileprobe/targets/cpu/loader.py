"""Puts object code into this process: one LLJIT for all kernels, libc and libm found in the process.

Comes in: the bytes of an object file and the symbols wanted. Goes out: a `Library` whose addresses are valid
as long as it is referenced.
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

from tileprobe.targets.cpu.host import Host, host

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
    """Links an object file. A symbol neither in it nor in the process raises RuntimeError, naming it."""
    from llvmlite.binding.orcjit import JITLibraryBuilder

    builder = JITLibraryBuilder().add_object_img(data).add_current_process()
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        return Library(builder.link(_jit(), f"tileprobe{next(_names)}"))


def compile_ir(text: str, machine_host: Host | None = None, opt: int = 2, passes: bool = True) -> bytes:
    """LLVM IR text to an object file, with LLVM's usual passes at that level or as it stands."""
    machine, module = _prepared(text, machine_host, opt, passes)
    return machine.emit_object(module)


def assembly(text: str, opt: int = 2) -> str:
    """The instructions that `compile_ir` makes of the same text, to read."""
    machine, module = _prepared(text, None, opt, True)
    return machine.emit_assembly(module)


def _prepared(text: str, machine_host: Host | None, opt: int, passes: bool) -> tuple[Any, Any]:
    import llvmlite.binding as llvm

    machine = (machine_host or host()).target_machine(opt)
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    if passes:
        options = llvm.create_pipeline_tuning_options(speed_level=opt)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    return machine, module


def _new_lock() -> None:
    """In a forked child: a thread that does not exist there may have held it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


@lru_cache(maxsize=1)
def _jit() -> Any:
    from llvmlite.binding import load_library_permanently
    from llvmlite.binding.orcjit import create_lljit_compiler

    # Kernels call the math library, which Python's own executable may not have loaded.
    with contextlib.suppress(RuntimeError):
        load_library_permanently("libm.so.6")
    jit = create_lljit_compiler(host().target_machine())
    # Workers may still run this code while the interpreter tears itself down: it must never be freed.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(jit))
    return jit
