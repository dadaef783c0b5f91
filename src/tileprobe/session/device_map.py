"""`--device-map cuda=cpu`: a script that was written for CUDA runs on the CPU, as it is.

While the map is on, torch takes tensors meant for the mapped device to the CPU and answers questions about
CUDA as a machine with one GPU would: streams and events that do nothing or read the clock, plausible
properties. Without torch in the process there is nothing to map.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.catalog import find


@contextlib.contextmanager
def device_map(text: str | None) -> Iterator[None]:
    """Maps devices for the block; `text` is `cuda=cpu` (or another GPU type in place of cuda)."""
    if not text:
        yield
        return
    source, _, target = text.partition("=")
    if target != "cpu" or source not in ("cuda", "hip", "xpu"):
        raise TileProbeError(f"cannot map {text!r}; the map is cuda=cpu")
    try:
        import torch
    except ImportError:
        yield
        return
    kind = "cuda" if source == "hip" else source
    with contextlib.ExitStack() as stack:
        for owner, name, value in _patches(torch, kind):
            stack.enter_context(_replaced(owner, name, value))
        stack.enter_context(_mode(torch, kind))
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


def _mapped(torch: Any, kind: str, value: Any) -> Any:
    """`value` with the mapped device replaced, if it is one."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == kind else value
    if isinstance(value, str) and (value == kind or value.startswith(f"{kind}:")):
        return "cpu"
    return value


def _mode(torch: Any, kind: str) -> Any:
    """A mode that sees every call of torch: factories with a device, `.to`, `.cuda`, `is_cuda`."""
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    same = {getattr(tensor, kind), tensor.pin_memory} if hasattr(tensor, kind) else {tensor.pin_memory}
    is_there = getattr(tensor, f"is_{kind}").__get__

    class Mapped(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in same:
                return args[0]
            if func == is_there:
                return True
            if "device" in kwargs:
                kwargs = {**kwargs, "device": _mapped(torch, kind, kwargs["device"])}
            if func is tensor.to:
                args = tuple(_mapped(torch, kind, value) for value in args)
            kwargs.pop("pin_memory", None)
            return func(*args, **kwargs)

    return Mapped()


def _patches(torch: Any, kind: str) -> list[tuple[Any, str, Any]]:
    module = getattr(torch, kind)
    found: list[tuple[Any, str, Any]] = [(module, name, value) for name, value in _answers(torch).items()]
    to, generator, default = torch.nn.Module.to, torch.Generator, torch.set_default_device

    def module_to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = _mapped(torch, kind, kwargs["device"])
        return to(self, *(_mapped(torch, kind, value) for value in args), **kwargs)

    class Generator(generator):  # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator.__new__(cls, _mapped(torch, kind, device))

    found += [
        (torch.nn.Module, "to", module_to),
        (torch.nn.Module, kind, lambda self, device=None: self),
        (torch, "Generator", Generator),
        (torch, "set_default_device", lambda device: default(_mapped(torch, kind, device))),
    ]
    return found


class _Stream:
    """Launches on the CPU are over when they return: a stream has nothing to wait for."""

    cuda_stream = 0
    stream_id = 0
    priority = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: Any) -> None: ...
    def synchronize(self) -> None: ...
    def wait_stream(self, stream: Any) -> None: ...
    def wait_event(self, event: Any) -> None: ...
    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> _Event:
        event = event or _Event()
        event.record(self)
        return event


class _Event:
    """A moment in time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.ns = 0

    def record(self, stream: Any = None) -> None:
        self.ns = time.perf_counter_ns()

    def elapsed_time(self, end: _Event) -> float:
        return (end.ns - self.ns) * 1e-6

    def synchronize(self) -> None: ...
    def wait(self, stream: Any = None) -> None: ...
    def query(self) -> bool:
        return True


def _answers(torch: Any) -> dict[str, Any]:
    """What `torch.cuda` says of the CPU."""
    cores = find("cpu")[0].workers()
    memory = _memory()
    properties = SimpleNamespace(
        name="CPU (mapped by tileprobe)", major=9, minor=0, total_memory=memory,
        multi_processor_count=cores, warp_size=32, max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536, shared_memory_per_multiprocessor=228 * 1024,
        shared_memory_per_block_optin=227 * 1024, gcnArchName="", is_integrated=True,
        L2_cache_size=32 * 2**20,
    )  # fmt: skip
    stream = _Stream()
    nothing = ("synchronize", "empty_cache", "set_device", "init", "manual_seed", "manual_seed_all",
               "reset_peak_memory_stats", "ipc_collect", "set_stream")  # fmt: skip
    zero = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: properties.name,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_properties": lambda device=None: properties,
        "mem_get_info": lambda device=None: (memory // 2, memory),
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "stream": lambda stream: contextlib.nullcontext(stream),
        "device": lambda device=None: contextlib.nullcontext(),
        "Stream": _Stream,
        "Event": _Event,
        **dict.fromkeys(nothing, lambda *_, **__: None),
        **dict.fromkeys(zero, lambda *_, **__: 0),
    }


def _memory() -> int:
    import os

    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 2**33
