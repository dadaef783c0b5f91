"""Puts the map into torch and takes it out again.

In this order: a device for torch's C++ side (`native`), kernels for it (`kernels`), the functions that `torch.cuda` is
made of (`answers`), and the few places of torch's Python that were decided when it was imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from tileprobe.cuda_map import (
    answers,
    autograd,
    cublas,
    graphs,
    has_gpu,
    inductor,
    kernels,
    native,
    nvml,
    random_numbers,
    streams,
)
from tileprobe.cuda_map.memory import Memory
from tileprobe.errors import TileProbeError, UnsupportedError
from tileprobe.targets.base import CudaProperties, host_devices


@contextlib.contextmanager
def installed(given: CudaProperties) -> Iterator[None]:
    """For the block, torch finds one GPU with these properties. Without torch there is nothing to map."""
    try:
        import torch
    except ImportError:
        yield
        return
    if has_gpu(torch):
        raise TileProbeError(
            f"torch {torch.__version__} is built for CUDA, and its own kernels stand where the map would go; install "
            "torch for the CPU: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        )
    autograd.rest_at_exit()
    with contextlib.ExitStack() as stack:
        stack.enter_context(native.installed(torch))
        memory = Memory(torch)
        generator_type = random_numbers.make(torch)
        generator = generator_type("cuda")
        generator.manual_seed(torch.initial_seed())
        stack.enter_context(kernels.registered(torch, memory, generator))
        for owner, name, value in _places(torch, given, memory, generator_type, generator):
            stack.enter_context(_replaced(owner, name, value))
        stack.enter_context(inductor.redirected())
        stack.enter_context(cublas.installed())
        stack.enter_context(nvml.installed(given, memory.usage.count))
        host_devices.add("cuda")
        stack.callback(host_devices.discard, "cuda")
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    missing = object()
    before = owner.__dict__.get(name, missing)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def _places(
    torch: Any, given: CudaProperties, memory: Memory, generator_type: Any, generator: Any
) -> Iterator[tuple[Any, str, Any]]:
    """(owner, name, value) of all that is replaced in torch's Python."""
    import torch.cuda.graphs
    import torch.cuda.nvtx
    import torch.cuda.streams
    import torch.version

    cuda = torch.cuda
    functions = answers.functions(given, memory.usage)
    yield from ((torch._C, name, value) for name, value in functions.items())
    found = answers.properties(given)
    kinds = streams.make(torch)
    graph = graphs.make(torch, memory, generator)
    yield torch._C, "_has_cuda", True
    yield torch._C, "_cuda_CUDAAllocator_AllocatorState", answers.AllocatorState
    yield torch._C, "_CudaDeviceProperties", SimpleNamespace
    yield cuda, "_CudaDeviceProperties", SimpleNamespace
    yield torch.version, "cuda", answers.VERSION
    yield torch._C, "_cuda_getDeviceProperties", lambda device: found
    for name, value in {
        "_initialized": True,
        "_cached_device_count": None,
        "_cudart": answers.Runtime(given, memory.usage),
        "_is_in_bad_fork": functions["_cuda_isInBadFork"],
        "_exchange_device": functions["_cuda_exchangeDevice"],
        "_maybe_exchange_device": functions["_cuda_maybeExchangeDevice"],
        "_get_device_properties": lambda device: found,
        "default_generators": (generator,),
        "Stream": kinds.Stream,
        "ExternalStream": kinds.ExternalStream,
        "Event": kinds.Event,
        "CUDAGraph": graph,
    }.items():
        yield cuda, name, value
    for name in ("Stream", "ExternalStream", "Event"):
        yield cuda.streams, name, getattr(kinds, name)
    yield cuda.graphs, "CUDAGraph", graph
    yield cuda.graphs.graph, "default_capture_stream", None
    yield cuda.graphs, "_cuda_isCurrentStreamCapturing", functions["_cuda_isCurrentStreamCapturing"]
    yield cuda.graphs, "_graph_pool_handle", functions["_graph_pool_handle"]
    yield cuda.nvtx, "_nvtx", answers.Ranges()
    yield torch._C._dynamo.guards, "_empty_strided_cuda", _empty_strided(torch)
    for name, dtype in _LEGACY.items():
        yield cuda, name, _legacy(torch, name, getattr(torch, dtype))
    yield torch, "Generator", generator_type
    yield torch.UntypedStorage, "__new__", _storages(torch, memory)
    yield torch.UntypedStorage, "_share_cuda_", _unshared


def _unshared(*_: Any) -> Any:
    raise UnsupportedError(
        "a tensor on the mapped cuda device cannot be shared with another process, which needs CUDA; send .cpu()"
    )


def _empty_strided(torch: Any) -> Any:
    """What Inductor's code makes its buffers with."""

    def empty_strided(size: Any, stride: Any, dtype: Any) -> Any:
        return torch.empty_strided(size, stride, dtype=dtype, device="cuda")

    return empty_strided


# `torch.cuda.FloatTensor` and its like, which old scripts call
_LEGACY = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16", "IntTensor": "int32",
    "LongTensor": "int64", "BoolTensor": "bool",
}  # fmt: skip


def _legacy(torch: Any, name: str, dtype: Any) -> Any:
    class Kind(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is dtype

        def __call__(
            cls, *args: Any
        ) -> Any:  # `FloatTensor(2, 3)` is a shape, `FloatTensor([2, 3])` are values
            if len(args) == 1 and not isinstance(args[0], int):
                return torch.as_tensor(args[0], dtype=dtype, device="cuda")
            return torch.empty(args, dtype=dtype, device="cuda")

    return Kind(name, (), {"__module__": "torch.cuda", "dtype": dtype, "is_cuda": True})


def _storages(torch: Any, memory: Memory) -> Any:
    """Storages are made by no operator: `UntypedStorage(size, device="cuda")`, as loading and copying do."""
    plain = torch.UntypedStorage.__new__

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != "cuda":
            return plain(cls, *args, **({} if device is None else {"device": device}), **kwargs)
        if args and not isinstance(args[0], int):
            return memory.cuda(torch.tensor(args[0], dtype=torch.uint8, device="cpu")).untyped_storage()
        return memory.empty_bytes(args[0] if args else kwargs.get("size", 0)).untyped_storage()

    return new
