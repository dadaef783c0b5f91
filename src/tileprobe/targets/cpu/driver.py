"""The driver half of Triton's backend plugin `cpu`: what Triton asks when it loads and launches a kernel.

Triton finds the one class here. It is active by itself where no GPU is; with a GPU it stays out of the way
until `TRITON_DEFAULT_BACKEND=cpu` or `tileprobe.use("cpu")` chooses it.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from tileprobe.targets.base import host_devices
from tileprobe.targets.cpu import tuning
from tileprobe.targets.cpu.options import settings

tuning.install_with_triton()

# Keys of Triton's per-device caches. Kernels compiled with bounds checks live in a cache of their own, since
# Triton's key of a launch does not see the setting. "cpu" is also what torch.cpu.current_device() answers.
_PLAIN, _CHECKED = "cpu", "cpu:checked"

_C_TYPES = {
    "i1": "int8_t",
    "u1": "uint8_t",
    "fp16": "double",
    "bf16": "double",
    "fp32": "double",
    "f32": "double",
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    "fp64": "double",
}


class CpuDriver(DriverBase):
    def __init__(self):
        from tileprobe.targets import explain, triton_key

        explain.install(CpuDriver)
        triton_key.install()
        tuning.install()
        self.utils = _Utils()
        super().__init__()

    @staticmethod
    def is_active() -> bool:
        if os.environ.get("TRITON_DEFAULT_BACKEND") == "cpu":
            return True
        from triton.backends import backends

        return not any(b.driver.is_active() for name, b in backends.items() if name != "cpu")

    @property
    def launcher_cls(self) -> Any:
        from tileprobe.targets.cpu.launch import Launcher

        return Launcher

    def get_current_device(self) -> str:
        return _CHECKED if settings.check_bounds else _PLAIN

    def set_current_device(self, device: Any) -> None:
        """There is one CPU."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        # There are no warps; 32 is what launch code that computes with them expects.
        return GPUTarget("cpu", platform.machine(), 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0) if "cuda" in host_devices else torch.device("cpu")

    def get_device_interface(self) -> Any:
        from tileprobe.targets.cpu.device import Interface

        return Interface

    def get_benchmarker(self) -> Any:
        return tuning.benchmarker

    def get_empty_cache_for_benchmark(self) -> Any:
        from tileprobe.targets.cpu.device import FlushBuffer

        return FlushBuffer()

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "void*" if ty.startswith("*") else _C_TYPES[ty]


class _Utils:
    """Loading and unloading, by the names Triton calls them."""

    # Launch code divides by the registers a thread uses, and Triton compares threads with their limit. Neither
    # means anything here: an ordinary number, and no limit.
    _REGISTERS, _MAX_THREADS = 32, 2**31 - 1

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: Any
    ) -> tuple[Any, int, int, int, int]:
        from tileprobe.targets.linker import load_object

        library = load_object(kernel, [name])
        return library, library.address(name), self._REGISTERS, 0, self._MAX_THREADS

    def unload_module(self, module: Any) -> None:
        if hasattr(module, "unload"):  # else a GPU's, freed after the CPU was chosen
            module.unload()

    def get_device_properties(self, device: Any = None) -> dict[str, Any]:
        from tileprobe.targets.cpu.device import properties

        return properties()
