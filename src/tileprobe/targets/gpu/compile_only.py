"""A driver that compiles what a script launches, for a GPU that need not be there, and runs none of it.

In comes the machine; while the driver is Triton's active one, launches go to it and end here. Out go the kernels, each
once, in the order of their first launch. Tensors may be of any device: only their addresses' alignment is looked at.
"""

from __future__ import annotations

from typing import Any

from triton import knobs
from triton.backends.driver import DriverBase

from tileprobe.errors import TileProbeError
from tileprobe.targets.gpu.compile import most_shared_bytes

_FIRST_DEVICE = 1000  # numbers of devices that are not there; Triton keeps kernels by them
_numbers: dict[str, int] = {}  # of machines


class CompileOnly(DriverBase):
    """Triton's driver for one machine. `kernels` are those that were launched."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.kernels: dict[Any, Any] = {}
        self.grids: dict[Any, tuple[int, int, int]] = {}
        self.utils = _Utilities(str(target.arch))
        self.launcher_cls = self._launcher

    @staticmethod
    def is_active() -> bool:
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> Any:
        return self.target

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_current_device(self) -> int:
        known = _numbers.setdefault(str(self.target.arch), len(_numbers))
        return _FIRST_DEVICE + known

    def set_current_device(self, device: int) -> None: ...

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        """Autotuners take the first configuration: nothing is timed."""
        return lambda call, **_: (call(), [1.0, 1.0, 1.0])[1]

    def get_device_interface(self) -> Any:
        import torch

        return torch.cpu

    def get_empty_cache_for_benchmark(self) -> Any:
        return bytearray(1)

    def clear_cache(self, cache: Any) -> None: ...

    def _launcher(self, source: Any, metadata: Any) -> Any:
        def launch(x: int, y: int, z: int, *_: Any) -> None:
            key = getattr(metadata, "hash", id(metadata))
            if key not in self.kernels:
                self.kernels[key] = (source, metadata)
                self.grids[key] = (x, y, z)

        return launch

    def compiled(self) -> list[Any]:
        """The kernels as Triton compiled them, found again in its cache."""
        return [_found(source, metadata) for source, metadata in self.kernels.values()]


def _found(source: Any, metadata: Any) -> Any:
    """A kernel that was launched. Not compiled anew from its metadata: the warps there are those of all partitions."""
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.cache import get_cache_manager

    files = get_cache_manager(metadata.hash).get_group(f"{source.name[:150]}.json")
    if not files:
        raise TileProbeError(
            f"the kernel {metadata.name} is no longer in Triton's cache ({knobs.cache.dir}); is it cleared meanwhile?"
        )
    return CompiledKernel(source, files, metadata.hash)


class _Utilities:
    """What Triton asks of a device while it loads a kernel: nothing is loaded."""

    def __init__(self, arch: str) -> None:
        self.arch = arch

    def get_device_properties(self, device: int) -> dict[str, Any]:
        return {
            "max_shared_mem": most_shared_bytes(self.arch),
            "multiprocessor_count": 1,
            "warpSize": 32,
            "arch": self.arch,
        }

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        return object(), object(), 0, 0, 1024 * 1024

    def unload_module(self, module: Any) -> None: ...
