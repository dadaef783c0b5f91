"""Small pieces of LLVM IR that the pool's code is made of: constants, fields of the shared block, atomics."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir.instructions import StoreAtomicInstr

from tileprobe.targets.cpu.pool_layout import OFFSETS

# not from codegen.types: every process that launches needs these, and it would load xDSL for them
I1, I8, I32, I64 = (ir.IntType(n) for n in (1, 8, 32, 64))
PTR, VOID = ir.PointerType(), ir.VoidType()
Value = Any


def i32(number: int) -> ir.Constant:
    return ir.Constant(I32, number)


def i64(number: int) -> ir.Constant:
    return ir.Constant(I64, number)


def at(b: ir.IRBuilder, base: Value, offset: int) -> Value:
    return b.gep(base, [i64(offset)], source_etype=I8)


def fields(b: ir.IRBuilder, pool: Value, *names: str) -> list[Value]:
    """Addresses of fields of the shared block."""
    return [at(b, pool, OFFSETS[name]) for name in names]


def parts(b: ir.IRBuilder, time: Value) -> list[Value]:
    """Addresses of a time's seconds and nanoseconds."""
    return [b.gep(time, [i32(0), i32(n)]) for n in (0, 1)]


def blocks(function: ir.Function, names: str) -> list[ir.Block]:
    return [function.append_basic_block(name) for name in names.split()]


def load(b: ir.IRBuilder, address: Value, ordering: str, kind: ir.IntType = I32) -> Value:
    return b.load_atomic(address, ordering, kind.width // 8, typ=kind)


def store(b: ir.IRBuilder, value: Value, address: Value) -> None:
    # not b.store_atomic, which asks an opaque pointer for the type it points to
    b._insert(StoreAtomicInstr(b.block, value, address, "seq_cst", value.type.width // 8))
