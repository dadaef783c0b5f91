"""Functions without an exact definition (exp, sin, libdevice): the target's own, run over arrays.

How well they approximate is tested where they live. Here both halves share them, so that a difference between
scheduled IR and machine code is never one in the last digit of an exponential.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.interpret.floats import Array, storage
from tileprobe.targets.cpu.vmath.harness import compile_map

Function = Callable[..., Array]


def function(name: str, kinds: tuple[str, ...], result: str) -> Function:
    """`math.<name>` of operands of these element types."""
    return _compiled(name, False, kinds, result)


def extern(symbol: str, kinds: tuple[str, ...], result: str) -> Function:
    """An external function by its symbol, as `tt.extern_elementwise` calls it."""
    return _compiled(symbol, True, kinds, result)


@cache
def _compiled(name: str, external: bool, kinds: tuple[str, ...], result: str) -> Function:
    def emit(builder: ir.IRBuilder, args: list[Any]) -> Any:
        if external:
            return vmath.extern(builder, name, args, list(kinds))
        return vmath.call(builder, f"math.{name}", args, kinds[0])

    wanted = np.dtype(np.uint8) if result == "i1" else storage(result)
    run = compile_map(emit, [storage(kind) for kind in kinds], wanted)

    def call(*args: Array) -> Array:
        given = np.broadcast_arrays(*args)
        out = run(*(np.ravel(a) for a in given)).reshape(given[0].shape)
        return out != 0 if result == "i1" else out

    return call
