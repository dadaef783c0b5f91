"""Runs a kernel in Triton's own interpreter, in a process that also compiles.

Triton decides when a function is decorated whether it will be compiled or interpreted. Here a function that was
decorated for compiling is interpreted, and so are the functions it calls, for the time of one launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tileprobe.targets.cpu.tensors import dtype


def run(kernel: Any, grid: Any, args: Sequence[Any], meta: dict[str, Any]) -> None:
    """Launch `kernel` in Triton's interpreter. Needs torch, in whose tensors the interpreter takes memory."""
    named = {key: value for key, value in meta.items() if key in kernel.arg_names}
    with _Interpreting() as interpreting:
        interpreted = interpreting.function(kernel.fn)
        interpreted.run(*map(_as_torch, args), grid=grid, warmup=False, **named)


class _Interpreting:
    """While this is entered, calls of jitted functions go to the interpreter.

    Triton's interpreter leaves traces: names in the globals of the functions it rewrites, and a patched
    `triton.language` after each call of a function. All of it is taken back, as this process goes on compiling.
    """

    def __init__(self) -> None:
        self._globals: dict[int, tuple[dict[str, Any], set[str]]] = {}  # and the names they had
        self._functions: set[Any] = set()
        self._compiled_call: Any = None

    def function(self, fn: Any) -> Any:
        from triton.runtime.interpreter import InterpretedFunction

        if fn not in self._functions:
            self._functions.add(fn)
            self._globals.setdefault(id(fn.__globals__), (fn.__globals__, set(fn.__globals__)))
        return InterpretedFunction(fn)

    def __enter__(self) -> _Interpreting:
        from triton.runtime.interpreter import _patch_lang
        from triton.runtime.jit import JITFunction

        def call(jitted: Any, *args: Any, **kwargs: Any) -> Any:
            rewritten = self.function(jitted.fn).rewrite()
            patched = _patch_lang(jitted.fn)
            try:
                return rewritten(*args, **kwargs)
            finally:
                patched.restore()

        jit_function: Any = JITFunction
        self._compiled_call, jit_function.__call__ = jit_function.__call__, call
        return self

    def __exit__(self, *_: object) -> None:
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction

        jit_function: Any = JITFunction
        jit_function.__call__ = self._compiled_call
        for fn in self._functions:
            InterpretedFunction.rewritten_fn.pop(fn, None)
        for names, before in self._globals.values():
            for added in set(names) - before:
                del names[added]


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
