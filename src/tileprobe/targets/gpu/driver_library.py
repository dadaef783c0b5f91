"""NVIDIA's and AMD's drivers, called directly: they are there with torch and without, and both have the same calls
under other names. Keeps the protocol of `device.py`.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from functools import cache, cached_property
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.gpu.device import Properties

# What is called, in NVIDIA's and in AMD's words.
_CALLS: dict[str, tuple[str, str, list[Any]]] = {
    "allocate": ("cuMemAlloc_v2", "hipMalloc", [POINTER(c_uint64), c_size_t]),
    "free": ("cuMemFree_v2", "hipFree", [c_uint64]),
    "zero": ("cuMemsetD8Async", "hipMemsetD8Async", [c_uint64, ctypes.c_ubyte, c_size_t, c_void_p]),
    "write": ("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", [c_uint64, c_void_p, c_size_t, c_void_p]),
    "read": ("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", [c_void_p, c_uint64, c_size_t, c_void_p]),
    "synchronise": ("cuStreamSynchronize", "hipStreamSynchronize", [c_void_p]),
    "capturing": ("cuStreamIsCapturing", "hipStreamIsCapturing", [c_void_p, POINTER(c_int)]),
    "event": ("cuEventCreate", "hipEventCreateWithFlags", [POINTER(c_void_p), ctypes.c_uint]),
    "record": ("cuEventRecord", "hipEventRecord", [c_void_p, c_void_p]),
    "elapsed": ("cuEventElapsedTime", "hipEventElapsedTime", [POINTER(c_float), c_void_p, c_void_p]),
    "end_event": ("cuEventDestroy_v2", "hipEventDestroy", [c_void_p]),
    "context": ("cuCtxGetCurrent", "", [POINTER(c_void_p)]),
    "retain": ("cuDevicePrimaryCtxRetain", "", [POINTER(c_void_p), c_int]),
    "set_context": ("cuCtxSetCurrent", "", [c_void_p]),
    "name": ("cuDeviceGetName", "hipDeviceGetName", [ctypes.c_char_p, c_int, c_int]),
}
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory
_NAME_BYTES = 256


class DriverLibrary:
    """One of the two drivers; the GPU is that on which the thread launches."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._properties: dict[int, Properties] = {}

    @cached_property
    def _library(self) -> ctypes.CDLL:
        return load_library(self.backend)

    @cache  # noqa: B019 (there are two of these objects in a process)
    def _function(self, what: str) -> Any:
        nvidia, amd, arguments = _CALLS[what]
        found = getattr(self._library, nvidia if self.backend == "cuda" else amd)
        found.argtypes, found.restype = arguments, c_int
        return found

    def _call(self, what: str, *arguments: Any) -> None:
        code = self._function(what)(*arguments)
        if code == _OUT_OF_MEMORY:
            raise MemoryError("the GPU has no memory left for records")
        if code:
            raise TileProbeError(f"the GPU's driver cannot {what.replace('_', ' ')}: {self._error(code)}")

    def _error(self, code: int) -> str:
        if self.backend == "hip":
            self._library.hipGetErrorString.restype = ctypes.c_char_p
            text = self._library.hipGetErrorString(code)
        else:
            found = ctypes.c_char_p()
            self._library.cuGetErrorString(code, byref(found))
            text = found.value
        return f"{(text or b'unknown error').decode(errors='replace')} ({code})"

    # -- the device ------------------------------------------------------------------------------------------

    def number(self) -> int:
        from triton.runtime import driver

        active: Any = driver.active
        number = active.get_current_device()
        if self.backend == "cuda":  # a new thread has no context; AMD's runtime gives it one
            context = c_void_p()
            self._call("context", byref(context))
            if not context:
                self._call("retain", byref(context), number)
                self._call("set_context", context)
        return number

    def properties(self) -> Properties:
        number = self.number()
        if number not in self._properties:
            from triton.runtime import driver

            active: Any = driver.active
            held = active.utils.get_device_properties(number)
            text = ctypes.create_string_buffer(_NAME_BYTES)
            self._call("name", text, _NAME_BYTES, number)
            self._properties[number] = Properties(
                text.value.decode(errors="replace"),
                held["multiprocessor_count"],
                held["sm_clock_rate"] * 1e3,  # both drivers say kHz
            )
        return self._properties[number]

    # -- memory ----------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        address = c_uint64()
        try:
            self._call("allocate", byref(address), size)
        except MemoryError:
            _empty_cache()
            self._call("allocate", byref(address), size)
        return address.value

    def free(self, address: int) -> None:
        self._call("free", address)

    def zero(self, address: int, size: int, stream: int) -> None:
        self._call("zero", address, 0, size, stream)

    def write(self, address: int, words: np.ndarray, stream: int) -> None:
        self._call("write", address, words.ctypes.data, words.nbytes, stream)

    def read(self, address: int, words: np.ndarray, stream: int) -> None:
        self._call("read", words.ctypes.data, address, words.nbytes, stream)
        self.synchronise(stream)

    # -- time ------------------------------------------------------------------------------------------------

    def record(self, stream: int) -> Any:
        event = c_void_p()
        self._call("event", byref(event), 0)
        self._call("record", event, stream)
        return event

    def elapsed_ns(self, first: Any, last: Any) -> float:
        milliseconds = c_float()
        self._call("elapsed", byref(milliseconds), first, last)
        for event in (first, last):
            self._call("end_event", event)
        return milliseconds.value * 1e6

    def synchronise(self, stream: int) -> None:
        self._call("synchronise", stream)

    def capturing(self, stream: int) -> bool:
        status = c_int()
        self._call("capturing", stream, byref(status))
        return bool(status.value)


def load_library(backend: str) -> ctypes.CDLL:
    """The library that Triton's driver of this backend uses."""
    if backend == "hip":
        from triton.backends.amd.driver import _get_path_to_hip_runtime_dylib

        return ctypes.CDLL(_get_path_to_hip_runtime_dylib())
    from triton.backends.nvidia.driver import libcuda_dirs

    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ctypes.CDLL(f"{libcuda_dirs()[0]}/libcuda.so.1")


def _empty_cache() -> None:
    """torch keeps memory that it has freed; some of that may be had."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
