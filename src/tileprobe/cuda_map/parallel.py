"""What `torch.nn.parallel` moves tensors between GPUs with, for one GPU: by the names of `torch._C`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def functions() -> dict[str, Callable[..., Any]]:
    return {
        "_broadcast": lambda tensor, devices: [tensor.cuda(device) for device in devices],
        "_broadcast_out": lambda tensor, out: [one.copy_(tensor) for one in out],
        "_broadcast_coalesced": lambda tensors, devices, size: [
            [t.cuda(d) for t in tensors] for d in devices
        ],
        "_scatter": _scatter,
        "_scatter_out": lambda tensor, out, dim, streams: [
            one.copy_(part) for one, part in zip(out, tensor.chunk(len(out), dim))
        ],
        "_gather": _gather,
        "_gather_out": lambda tensors, out, dim: out.copy_(_gather(tensors, dim, 0)),
    }


def _scatter(tensor: Any, devices: Sequence[int], sizes: Any, dim: int, streams: Any) -> list[Any]:
    parts = tensor.split(sizes, dim) if sizes else tensor.chunk(len(devices), dim)
    return [part.cuda(device) for part, device in zip(parts, devices)]


def _gather(tensors: Sequence[Any], dim: int, device: int | None) -> Any:
    """`device` is -1 for the CPU, None for the current GPU."""
    import torch

    whole = torch.cat([tensor.cuda() for tensor in tensors], dim)
    return whole.cpu() if device == -1 else whole
