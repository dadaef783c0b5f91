"""Calls of code by the place of its address in the table, for code that Numba compiles: `execute` a handler over lanes,
`call` a family."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from tileprobe.targets.simgpu.engine.raw import I32, I64, intrinsic

# micro-op, warp, constants, mask, scratch memory
HANDLER = ir.FunctionType(ir.VoidType(), [I64, I64, I64, I32, I64])
_POINTER = ir.PointerType()


@intrinsic
def execute(typing: Any, entry: Any, uop: Any, warp: Any, constants: Any, mask: Any, scratch: Any) -> Any:
    """Calls the handler whose address stands at `entry` for the lanes of `mask`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        entry, uop, warp, constants, mask, scratch = args
        address = builder.load(builder.inttoptr(entry, _POINTER), typ=I64, align=8)
        function = builder.inttoptr(address, ir.PointerType(HANDLER))
        builder.call(function, [uop, warp, constants, builder.trunc(mask, I32), scratch])
        return context.get_dummy_value()

    return types.void(*([types.int64] * 6)), generate


@intrinsic
def call(
    typing: Any, entry: Any, op: Any, uop: Any, warp: Any, cta: Any, constants: Any, mask: Any, pc: Any
) -> Any:
    """Calls the family whose address stands at `entry`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(I64, [I64] * 7)
        address = builder.load(builder.inttoptr(args[0], _POINTER), typ=I64, align=8)
        return builder.call(builder.inttoptr(address, ir.PointerType(kind)), args[1:])

    return types.int64(*([types.int64] * 8)), generate
