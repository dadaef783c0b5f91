"""Runs a kernel in Triton's own interpreter, in a process that also compiles.

Triton decides when a function is decorated whether it will be compiled or interpreted. Here a function that was
decorated for compiling is interpreted, and so are the functions it calls, for the time of one launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tileprobe.targets.cpu.tensors import dtype


def run(kernel: Any, grid: Any, args: Sequence[Any], meta: dict[str, Any]) -> None:
    """Launch `kernel` in Triton's interpreter. Needs torch, in whose tensors the interpreter takes memory."""
    from triton.runtime.interpreter import InterpretedFunction

    named = {key: value for key, value in meta.items() if key in kernel.arg_names}
    with _interpreted_calls():
        interpreted = InterpretedFunction(kernel.fn)
        interpreted.run(*map(_as_torch, args), grid=grid, warmup=False, **named)


@contextmanager
def _interpreted_calls() -> Iterator[None]:
    """Calls of jitted functions go to the interpreter."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    compiled = JITFunction.__call__
    JITFunction.__call__ = lambda self, *args, **kwargs: InterpretedFunction(self.fn)(*args, **kwargs)
    try:
        yield
    finally:
        JITFunction.__call__ = compiled


def _as_torch(value: Any) -> Any:
    """A torch tensor over the memory of any tensor Triton takes."""
    import torch

    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, tuple):
        return tuple(map(_as_torch, value))
    if hasattr(value, "block_shape"):  # a tensor descriptor
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(
            _as_torch(value.base), value.shape, value.strides, value.block_shape, value.padding
        )
    if not hasattr(value, "data_ptr"):
        return value
    kind = dtype(value.dtype)
    strides = value.stride()
    reach = 1 + sum((n - 1) * s for n, s in zip(value.shape, strides)) if value.numel() else 0
    held = (ctypes.c_uint8 * (reach * kind.itemsize)).from_address(value.data_ptr())
    flat = torch.from_numpy(np.ctypeslib.as_array(held)).view(getattr(torch, kind.name))
    return flat.as_strided(tuple(value.shape), strides)
