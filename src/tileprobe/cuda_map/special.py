"""Operators of `cuda:0` that are not the CPU's on the same memory: those that only make another shape, that go between
devices, that change the size of memory, and those that torch has for GPUs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tileprobe.cuda_map import graphs
from tileprobe.cuda_map.calls import Call
from tileprobe.cuda_map.cells import cells
from tileprobe.cuda_map.products import products

if TYPE_CHECKING:
    from tileprobe.cuda_map.kernels import Kernels

# The CPU's kernels for these only make another tensor of the same storage, on whatever device.
_SHAPES = (
    "as_strided", "as_strided_", "view", "view.dtype", "view_as_real", "view_as_complex", "_reshape_alias", "unfold",
    "set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor", "set_",
)  # fmt: skip


def kernels(of: Kernels) -> dict[str, Callable[..., Any]]:
    """By their names in `aten`."""
    has = of.torch._C._dispatch_has_kernel_for_dispatch_key
    shapes = {name: of.op(name) for name in _SHAPES}
    plain = 0  # attention by plain operators: torch has fused ones for real GPUs only
    return {
        **{name: _direct(of, op) for name, op in shapes.items() if has(op.name(), "CPU")},
        "copy_": lambda *args: _copy(of, *args),
        "_to_copy": lambda tensor, **options: _to_copy(of, tensor, **options),
        "resize_": lambda tensor, size, memory_format=None: resize_(of, tensor, size, memory_format),
        "record_stream": lambda tensor, stream: None,
        "_fused_sdp_choice": lambda *_, **__: plain,
        **dict.fromkeys(_named(of, "_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"), _no),
        **{name: _outside(of, run) for name, run in (cells(of.torch) | products(of.torch)).items()},
    }


def _no(*_: Any, **__: Any) -> bool:
    return False


def _named(of: Kernels, *packets: str) -> list[str]:
    """All operators of these names, as far as this torch has them."""
    found = (getattr(of.torch.ops.aten, name, None) for name in packets)
    return [str(getattr(p, o)._schema.name).removeprefix("aten::") + ("" if o == "default" else f".{o}")
            for p in found if p is not None for o in p.overloads()]  # fmt: skip


def _direct(of: Kernels, op: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: op.redispatch(of.direct, *args, **kwargs)


def _outside(of: Kernels, function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that is a function of ours, on the CPU's tensors. With `out`, the result goes there."""

    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        with of.plainly():
            call = Call(of.torch.Tensor, of.memory)
            given = [call.to_host(value) for value in args]
            named = {name: call.to_host(value) for name, value in kwargs.items()}
            made = function(*given, **named)
            if out is not None:
                _before(out)
                if out.size() != made.size():
                    resize_(of, out, made.size())
                of.memory.host(out).copy_(made)
            made = call.to_cuda(made) if out is None else out
            _after(lambda: function(*given, **named), made, args, kwargs)
            return made

    return run


def _before(written: Any) -> None:
    if graphs.now.recording is not None:
        graphs.now.recording.keep(written)


def _after(compute: Callable[[], Any], made: Any, *alive: Any) -> None:
    if graphs.now.recording is not None:
        graphs.now.recording.add(compute, made, *alive)


def _copy(of: Kernels, to: Any, source: Any, non_blocking: bool = False) -> Any:
    with of.plainly():
        if to.is_cpu and not non_blocking:
            graphs.forbid_waiting("a copy to the CPU")
        _before(to)
        call = Call(of.torch.Tensor, of.memory)
        host, given = call.to_host(to), call.to_host(source)
        copy = of.torch.ops.aten.copy_.default
        copy(host, given)
        _after(lambda: copy(host, given), to, source)
        return to


def _to_copy(
    of: Kernels,
    tensor: Any,
    *,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    **options: Any,
) -> Any:
    with of.plainly():
        kind = "cuda" if device is None else device.type
        if kind == "cpu" and not non_blocking:
            graphs.forbid_waiting("a copy to the CPU")
        host = of.memory.host(tensor)
        copy = of.torch.ops.aten._to_copy.default
        made = copy(host, **options)
        if kind == "cuda":
            made = of.memory.cuda(made)
        elif kind != "cpu":
            return made.to(device)
        _after(lambda: copy(host, **options), made, tensor)
        return made


def resize_(of: Kernels, tensor: Any, size: Any, memory_format: Any = None) -> Any:
    torch, memory = of.torch, of.memory
    with of.plainly():
        if memory_format is torch.preserve_format or memory_format is None:
            memory_format = torch.contiguous_format
        shape = torch.empty(size, dtype=tensor.dtype, device="meta", memory_format=memory_format)
        storage, offset = tensor.untyped_storage(), tensor.storage_offset()
        needed = (offset + shape.numel()) * tensor.element_size() if shape.numel() else 0
        if needed > storage.nbytes():
            bigger = memory.empty_bytes(needed)
            if storage.nbytes():
                old = torch._C._construct_storage_from_data_pointer(
                    storage.data_ptr(), memory.cpu, storage.nbytes()
                )
                whole = torch.empty(0, dtype=torch.uint8, device=memory.cpu)
                memory.host(bigger)[: storage.nbytes()].copy_(whole.set_(old))
            storage = bigger.untyped_storage()
        set_ = torch.ops.aten.set_.source_Storage_storage_offset
        return set_.redispatch(of.direct, tensor, storage, offset, shape.size(), shape.stride())
