"""What `torch._C` says of CUDA: the functions that a torch built for CUDA has, for a machine with one GPU.

`torch.cuda` is Python over these; with them in place most of it works as it is. In come the target's properties and
the memory of the map; out go functions by their names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tileprobe.cuda_map import graphs, parallel, streams
from tileprobe.cuda_map.memory import Usage
from tileprobe.targets.base import CudaProperties

_CUDA = 1  # c10::DeviceType
# Figures of an H100 that no target declares: code divides by them, and must not come out with nothing.
_THREADS_PER_MULTIPROCESSOR, _THREADS_PER_BLOCK, _REGISTERS = 2048, 1024, 65536
VERSION = "12.8"  # the CUDA that Triton 3.9 comes with


def properties(given: CudaProperties) -> SimpleNamespace:
    """What `torch.cuda.get_device_properties` returns."""
    major, minor = given.capability
    return SimpleNamespace(
        name=given.name, major=major, minor=minor, total_memory=given.memory_bytes,
        multi_processor_count=given.multiprocessors, warp_size=given.warp_size,
        shared_memory_per_block=min(given.shared_bytes, 48 * 1024),
        shared_memory_per_block_optin=given.shared_bytes,
        shared_memory_per_multiprocessor=given.shared_bytes + 1024,
        max_threads_per_multi_processor=_THREADS_PER_MULTIPROCESSOR, max_threads_per_block=_THREADS_PER_BLOCK,
        regs_per_multiprocessor=_REGISTERS, L2_cache_size=given.cache_bytes, clock_rate=1_000_000,
        memory_clock_rate=1_000_000, memory_bus_width=64, is_integrated=1, is_multi_gpu_board=0, gcnArchName="",
        uuid="00000000-0000-0000-0000-000000000000", pci_bus_id=0, pci_device_id=0, pci_domain_id=0,
    )  # fmt: skip


def functions(given: CudaProperties, usage: Usage) -> dict[str, Callable[..., Any]]:
    """By the names they have in `torch._C`. Each is its own function: torch keeps some in sets and dictionaries."""

    def exchange(device: int) -> int:
        _check(device)
        return 0 if device >= 0 else -1

    def arch_flags() -> str:
        major, minor = given.capability
        return f"sm_{major}{minor}"

    def stream_of(device: int) -> tuple[int, int, int]:
        return streams.current(), 0, _CUDA

    state: dict[str, Any] = {"fraction": 1.0, "sync": 0, "workspace": 0}
    blocks = Blocks()
    return {
        **parallel.functions(),
        "_cuda_init": lambda: None,
        "_cuda_getDeviceCount": lambda: 1,
        "_cuda_getDevice": lambda: 0,
        "_cuda_setDevice": lambda device: _check(device),
        "_cuda_exchangeDevice": exchange,
        "_cuda_maybeExchangeDevice": lambda device: exchange(device),
        "_cuda_canDeviceAccessPeer": lambda device, peer: False,
        "_cuda_isInBadFork": lambda: False,
        "_cuda_synchronize": lambda: None,
        "_cuda_sleep": lambda cycles: None,
        "_cuda_getArchFlags": arch_flags,
        "_cuda_getCompiledVersion": lambda: 12080,
        "_cuda_getCurrentStream": stream_of,
        "_cuda_getDefaultStream": lambda device: (0, 0, _CUDA),
        "_cuda_getCurrentRawStream": lambda device: streams.current(),
        "_cuda_setStream": lambda stream_id, device_index, device_type: streams.choose(stream_id),
        "_cuda_isCurrentStreamCapturing": lambda: graphs.now.recording is not None,
        "_cuda_get_sync_debug_mode": lambda: state["sync"],
        "_cuda_set_sync_debug_mode": lambda mode: state.update(sync=mode),
        "_cuda_getMemoryFraction": lambda device: state["fraction"],
        "_cuda_setMemoryFraction": lambda fraction, device: state.update(fraction=fraction),
        "_cuda_emptyCache": lambda: None,
        "_cuda_ipc_collect": lambda: None,
        "_cuda_memoryStats": lambda device: _statistics(usage),
        "_cuda_hostMemoryStats": lambda: _statistics(usage),
        "_cuda_resetPeakMemoryStats": lambda device: usage.reset_peak(),
        "_cuda_resetAccumulatedMemoryStats": lambda device: None,
        "_cuda_resetPeakHostMemoryStats": lambda: None,
        "_cuda_resetAccumulatedHostMemoryStats": lambda: None,
        "_cuda_memorySnapshot": lambda *_: {"segments": [], "device_traces": [], "allocator_settings": {}},
        "_cuda_record_memory_history": lambda *_, **__: None,
        "_cuda_isHistoryEnabled": lambda: False,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_clearCublasWorkspaces": lambda: None,
        "_host_emptyCache": lambda: None,
        "_cuda_getCurrentBlasHandle": lambda: 0,
        "_cuda_getCurrentSolverHandle": lambda: 0,
        "_cuda_getStreamFromExternal": lambda pointer, device: (pointer, 0, _CUDA),
        "_cuda_hasPrimaryContext": lambda device: True,
        "_cuda_getCublasWorkspaceSize": lambda: state["workspace"],
        "_cuda_setCublasWorkspaceSize": lambda size: state.update(workspace=size),
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
        "_cuda_cudaCachingAllocator_enable": lambda enabled: None,
        "_cuda_cudaCachingAllocator_raw_alloc": blocks.take,
        "_cuda_cudaCachingAllocator_raw_delete": blocks.give_back,
        "_cuda_lock_mutex": lambda: None,
        "_cuda_unlock_mutex": lambda: None,
        "_graph_pool_handle": graphs.pool_handle,
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_emptyCache": lambda: None,
        "_accelerator_getDeviceStats": lambda device: _statistics(usage),
        "_accelerator_resetPeakStats": lambda device: usage.reset_peak(),
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_getMemoryInfo": lambda device: (given.memory_bytes - usage.count(), given.memory_bytes),
        "_accelerator_resetAccumulatedStats": lambda device: None,
    }


class Blocks:
    """Memory by address, for other frameworks and for `torch.cuda.caching_allocator_alloc`."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}

    def take(self, size: int, stream: int) -> int:
        block = ctypes.create_string_buffer(max(size, 1))
        self._held[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def give_back(self, address: int) -> None:
        if self._held.pop(address, None) is None:
            raise RuntimeError(f"invalid device pointer: {address:#x}")


class AllocatorState:
    """Inductor looks for the name when it is loaded; its trees of graphs are not used here."""


def _check(device: int) -> None:
    if device > 0:
        raise RuntimeError(f"CUDA error: invalid device ordinal: {device}, and there is one device")


def _statistics(usage: Usage) -> dict[str, Any]:
    """As the caching allocator nests them. Memory is given back at once, so what is reserved is what is used."""
    now = usage.count()
    zero = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    held = {"current": now, "peak": usage.peak, "allocated": now, "freed": 0}
    counts = {"current": 0, "peak": 0, "allocated": usage.allocations, "freed": 0}

    def pools(row: dict[str, int]) -> dict[str, dict[str, int]]:
        return {"all": dict(row), "large_pool": dict(row), "small_pool": dict(zero)}

    size = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
    number = ("allocation", "segment", "active", "inactive_split")
    return {
        **{name: pools(held) for name in size},
        "inactive_split_bytes": pools(zero),
        **{name: pools(counts) for name in number},
        "oversize_allocations": dict(zero), "oversize_segments": dict(zero), "num_alloc_retries": 0, "num_ooms": 0,
        "num_sync_all_streams": 0, "num_device_alloc": usage.allocations, "num_device_free": 0, "max_split_size": -1,
    }  # fmt: skip


class Runtime:
    """The parts of CUDA's runtime library that `torch.cuda.cudart()` offers."""

    class cudaError:
        success = 0

    class cudaOutputMode:
        KeyValuePair = 0
        CSV = 1

    def __init__(self, given: CudaProperties, usage: Usage) -> None:
        self._total, self._usage = given.memory_bytes, usage

    def cudaMemGetInfo(self, device: int = 0) -> tuple[int, int]:
        return max(self._total - self._usage.count(), 0), self._total

    def cudaGetErrorString(self, code: int) -> str:
        return f"error {code}"

    def cudaProfilerStart(self) -> int:
        return 0

    def cudaProfilerStop(self) -> int:
        return 0

    def cudaHostRegister(self, *_: Any) -> int:
        return 0

    def cudaHostUnregister(self, *_: Any) -> int:
        return 0


class Ranges:
    """NVTX without anybody who looks."""

    def __init__(self) -> None:
        self.depth = 0

    def rangePushA(self, message: str) -> int:
        self.depth += 1
        return self.depth - 1

    def rangePop(self) -> int:
        self.depth = max(self.depth - 1, 0)
        return self.depth

    def rangeStartA(self, message: str) -> int:
        return 0

    def rangeEnd(self, number: int) -> None: ...
    def markA(self, message: str) -> None: ...
    def deviceRangeStart(self, message: str, stream: Any) -> object:
        return object()

    def deviceRangeEnd(self, handle: Any, stream: Any) -> None: ...
