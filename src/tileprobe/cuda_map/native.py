"""A CUDA device for torch's C++ side: a device guard and hooks that answer "one device, number 0".

torch asks two C++ objects what there is: the device guard of a device type (current device, streams, events) and the
CUDA hooks (is there CUDA, pinned memory). A torch without CUDA has no guard for it and hooks that say no. Here both get
a table of functions in which the answers that matter are replaced; `installed()` puts them in place and takes them out
again. The order of the functions in a table is read from the headers that torch brings along, so that it is right for
the torch that is there.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tileprobe.errors import UnsupportedError

_CPU, _CUDA = 0, 1  # c10::DeviceType
_WORD = 8

# Two answers serve nearly all. `one` is true, the count 1, the device type CUDA, and as a device (type in the low byte,
# index in the next) cuda:0; as a stream it is that device's stream 0. `none` is false, or a null pointer. An event is
# the moment at which it is recorded, in nanoseconds, in the place of a pointer.
_CODE = """
define {i64, i64} @one() { ret {i64, i64} {i64 1, i64 0} }
define {i64, i64} @none() { ret {i64, i64} zeroinitializer }
declare i32 @clock_gettime(i32, ptr)
define void @record(ptr %self, ptr %event) {
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time
  %place = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %place
  %whole = mul i64 %s, 1000000000
  %now = add i64 %whole, %ns
  store i64 %now, ptr %event
  ret void
}
define double @elapsed(ptr %self, i64 %start, i64 %end) {
  %ns = sub i64 %end, %start
  %as = sitofp i64 %ns to double
  %ms = fdiv double %as, 1.0e6
  ret double %ms
}
"""

_GUARD = {
    "type": "one", "exchangeDevice": "one", "getDevice": "one", "getStream": "one", "getDefaultStream": "one",
    "getStreamFromGlobalPool": "one", "getNewStream": "one", "exchangeStream": "one", "deviceCount": "one",
    "queryEvent": "one", "queryStream": "one", "getStreamNativeHandle": "none", "record": "record", "block": "none",
    "elapsedTime": "elapsed", "destroyEvent": "none",
    "synchronizeEvent": "none", "synchronizeStream": "none", "synchronizeDevice": "none",
}  # fmt: skip

# Pinned memory is the CPU's own: all of it can be reached by "the GPU".
_HOOKS = {
    "isBuilt": "one", "isAvailable": "one", "hasCUDA": "one", "hasPrimaryContext": "none", "init": "none",
    "deviceCount": "one", "setCurrentDevice": "none", "getCurrentDevice": "none", "exchangeDevice": "none",
    "maybeExchangeDevice": "none", "isPinnedPtr": "one", "getPinnedMemoryAllocator": "pinned",
    "current_device": "none", "deviceSynchronize": "none",
}  # fmt: skip


@contextlib.contextmanager
def installed(torch: Any) -> Iterator[None]:
    """While this is on, C++ code of torch finds a device cuda:0 whose streams and events have nothing to wait for."""
    root = Path(torch.__file__).parent
    c10 = ctypes.CDLL(str(_library(root, "c10")))
    cpu = ctypes.CDLL(str(_library(root, "torch_cpu")))
    answers = _answers() | {"pinned": _pinned(c10)}

    guards = ctypes.c_void_p.in_dll(c10, "_ZN3c104impl26device_guard_impl_registryE")
    slots = (ctypes.c_void_p * 2).from_address(ctypes.addressof(guards))
    source = _header(root, "c10/core/impl/DeviceGuardImplInterface.h", "DeviceGuardImplInterface")
    guard = _Object(slots[_CPU], _order(source), answers, _GUARD)

    get_hooks = cpu._ZN2at6detail12getCUDAHooksEv
    get_hooks.restype = ctypes.c_void_p
    hooks = ctypes.c_void_p.from_address(get_hooks())
    base = _header(root, "ATen/detail/AcceleratorHooksInterface.h", "AcceleratorHooksInterface")
    own = _header(root, "ATen/detail/CUDAHooksInterface.h", "CUDAHooksInterface")
    table = _Object(ctypes.addressof(hooks), _order(base, own), answers, _HOOKS).table

    before = slots[_CUDA], hooks.value
    _keep.append((guard, table))  # C++ may hold on to them: they are never freed
    slots[_CUDA], hooks.value = ctypes.addressof(guard.memory), ctypes.addressof(table)
    try:
        yield
    finally:
        slots[_CUDA], hooks.value = before


_keep: list[Any] = []


class _Object:
    """A C++ object without fields, whose table of functions is another's with some answers replaced."""

    def __init__(
        self, like: int | None, order: Sequence[str], answers: dict[str, int], wanted: dict[str, str]
    ) -> None:
        missing = [name for name in wanted if name not in order]
        if like is None or missing:
            what = ", ".join(missing) or "a device guard"
            raise UnsupportedError(
                f"this version of torch is not known to the map of devices: it has no {what}"
            )
        before = ctypes.c_void_p.from_address(like).value
        assert before is not None
        # Two words stand before the first function: the offset to the top and the type's description.
        whole = (ctypes.c_void_p * (len(order) + 2)).from_address(before - 2 * _WORD)
        self._whole = (ctypes.c_void_p * (len(order) + 2))(*whole)
        for name, answer in wanted.items():
            self._whole[order.index(name) + 2] = answers[answer]
        self.table = (ctypes.c_void_p * len(order)).from_buffer(self._whole, 2 * _WORD)
        self.memory = ctypes.c_void_p(ctypes.addressof(self.table))


def _order(*classes: str) -> list[str]:
    """The functions of a table in order: each class adds those it declares virtual and has not inherited."""
    found: list[str] = []
    for text in classes:
        for name in re.findall(r"\bvirtual\b[^;{=]*?(~?\w+)\(", text):
            # A destructor has two entries, one of which also frees.
            new = ["~", "~delete"] if name.startswith("~") else [name]
            found += [n for n in new if n not in found]
    return found


def _header(root: Path, name: str, kind: str) -> str:
    """The text of one class, without comments."""
    path = root / "include" / name
    if not path.is_file():
        raise UnsupportedError(f"torch has no header {name}, by which the map of devices finds its way")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    start = re.search(rf"struct \w+ {kind}\b[^;{{]*{{", text)
    assert start is not None, f"{name} does not define {kind}"
    return text[start.end() : text.index("\n};", start.end())]


def _library(root: Path, name: str) -> Path:
    found = [p for p in (root / "lib").glob(f"lib{name}.*") if p.suffix in (".so", ".dylib")]
    if not found:
        raise UnsupportedError(f"torch has no library {name}, where the map of devices is put")
    return found[0]


@lru_cache(maxsize=1)
def _answers() -> dict[str, int]:
    """The addresses of the functions of `_CODE`, in machine code, since torch calls them without Python's lock."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_CODE), machine)
    engine.finalize_object()
    _keep.append(engine)
    return {name: engine.get_function_address(name) for name in ("one", "none", "record", "elapsed")}


def _pinned(c10: Any) -> int:
    """A function that answers with the CPU's allocator, which is one of c10's."""
    return ctypes.cast(c10._ZN3c1015GetCPUAllocatorEv, ctypes.c_void_p).value or 0
