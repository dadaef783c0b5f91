"""NVML, the library that programs ask what NVIDIA GPUs a machine has: one, with the properties of the target.

Its Python bindings (`pynvml`, and the copies that libraries bring) load it by name through ctypes. While the map is on
and there is no such library, that name gives one whose functions are these; others of it are not found.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from tileprobe.targets.base import CudaProperties

_NAME = "nvidia-ml"
_SUCCESS, _NOT_SUPPORTED = 0, 3  # NVML_SUCCESS, NVML_ERROR_NOT_SUPPORTED
_HANDLE = 1
_UUID = b"GPU-00000000-0000-0000-0000-000000000000"


@contextlib.contextmanager
def installed(given: CudaProperties, used: Callable[[], int]) -> Iterator[None]:
    """For the block; `used` tells how many bytes tensors hold."""
    functions = _functions(given, used)
    plain = ctypes.CDLL.__init__

    def init(self: Any, name: Any = None, *args: Any, **kwargs: Any) -> None:
        try:
            plain(self, name, *args, **kwargs)
        except OSError:
            if _NAME not in str(name):
                raise
            self._name, self._handle = name, 0

            def find(of: tuple[str, Any]) -> Any:
                if of[0] not in functions:
                    raise AttributeError(f"{name}: undefined symbol: {of[0]}")
                return functions[of[0]]

            self._FuncPtr = find

    ctypes.CDLL.__init__ = init
    try:
        yield
    finally:
        ctypes.CDLL.__init__ = plain


def _functions(given: CudaProperties, used: Callable[[], int]) -> dict[str, Callable[..., int]]:
    """By their names in the library. Results go where the last arguments point."""

    def memory(handle: Any, into: Any) -> int:
        found, now = _target(into), used()
        found.total, found.used, found.free = given.memory_bytes, now, max(given.memory_bytes - now, 0)
        return _SUCCESS

    def capability(handle: Any, major: Any, minor: Any) -> int:
        _target(major).value, _target(minor).value = given.capability
        return _SUCCESS

    def text(value: bytes) -> Callable[..., int]:
        def tell(*args: Any) -> int:
            buffer, size = args[-2], args[-1]
            buffer.value = value[: getattr(size, "value", size) - 1]
            return _SUCCESS

        return tell

    def number(value: int) -> Callable[..., int]:
        def tell(*args: Any) -> int:
            _target(args[-1]).value = value
            return _SUCCESS

        return tell

    version = text(b"570.00")
    named: dict[str, Callable[..., int]] = {
        "nvmlInit_v2": _nothing, "nvmlInitWithFlags": _nothing, "nvmlShutdown": _nothing,
        "nvmlDeviceGetCount_v2": number(1), "nvmlDeviceGetIndex": number(0),
        "nvmlDeviceGetHandleByIndex_v2": number(_HANDLE), "nvmlDeviceGetHandleByUUID": number(_HANDLE),
        "nvmlDeviceGetHandleByPciBusId_v2": number(_HANDLE), "nvmlDeviceGetName": text(given.name.encode()),
        "nvmlDeviceGetUUID": text(_UUID), "nvmlDeviceGetMemoryInfo": memory, "nvmlDeviceGetMemoryInfo_v2": memory,
        "nvmlDeviceGetCudaComputeCapability": capability, "nvmlSystemGetDriverVersion": version,
        "nvmlSystemGetNVMLVersion": version, "nvmlSystemGetCudaDriverVersion_v2": number(12080),
        "nvmlDeviceGetP2PStatus": lambda *_: _NOT_SUPPORTED,
    }  # fmt: skip
    return named | {name.removesuffix("_v2"): function for name, function in named.items()}


def _nothing(*_: Any) -> int:
    return _SUCCESS


def _target(reference: Any) -> Any:
    """What `byref` or `pointer` refers to."""
    return reference._obj if hasattr(reference, "_obj") else reference.contents
