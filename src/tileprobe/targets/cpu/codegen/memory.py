"""Loads and stores of scalars and vectors: contiguous, strided by a constant, or lane by lane through addresses.

Addresses are 64-bit integers. A lane whose mask is off never touches memory: scalars are redirected to a dummy
place, vectors use LLVM's masked operations.
"""

from __future__ import annotations

from llvmlite import ir

from tileprobe.targets.cpu.codegen.elementwise import intrinsic, type_suffix
from tileprobe.targets.cpu.codegen.types import (
    I8,
    I32,
    I64,
    PTR,
    Value,
    bytes_of,
    constant,
    lanes_of,
    memory_type,
    register_type,
    vector,
)
from tileprobe.targets.cpu.host import host


def to_register(b: ir.IRBuilder, value: Value, name: str) -> Value:
    """A value as it is computed with, from how it lies in memory."""
    if name == "i1":
        return b.icmp_unsigned("!=", value, constant(I8, 0, lanes_of(value)))
    want = vector(register_type(name), lanes_of(value))
    return value if value.type == want else b.bitcast(value, want)


def to_memory(b: ir.IRBuilder, value: Value, name: str) -> Value:
    if name == "i1":
        return b.zext(value, vector(I8, lanes_of(value)))
    return value


def pointer(b: ir.IRBuilder, address: Value) -> Value:
    return b.inttoptr(address, vector(PTR, lanes_of(address)))


# -- scalars -------------------------------------------------------------------------------------------------


def load_scalar(
    b: ir.IRBuilder, address: Value, name: str, mask: Value | None, other: Value | None, dummy: Value
) -> Value:
    if mask is not None:
        address = b.select(mask, address, dummy)
    loaded = b.load(pointer(b, address), align=bytes_of(name), typ=memory_type(name))
    value = to_register(b, loaded, name)
    if mask is None:
        return value
    return b.select(mask, value, other if other is not None else ir.Constant(value.type, None))


def store_scalar(
    b: ir.IRBuilder, value: Value, address: Value, name: str, mask: Value | None, dummy: Value
) -> None:
    if mask is not None:
        address = b.select(mask, address, dummy)
    b.store(to_memory(b, value, name), pointer(b, address), align=bytes_of(name))


# -- contiguous vectors --------------------------------------------------------------------------------------


def load_vector(
    b: ir.IRBuilder, address: Value, name: str, lanes: int, mask: Value | None, other: Value | None
) -> Value:
    kind = vector(memory_type(name), lanes)
    if mask is None:
        return to_register(b, b.load(pointer(b, address), align=bytes_of(name), typ=kind), name)
    rest = to_memory(b, other, name) if other is not None else ir.Constant(kind, None)
    if lanes * bytes_of(name) > _AVX_BYTES and bytes_of(name) >= 4 and _confuses_halves():
        return to_register(b, _load_by_register(b, address, name, lanes, mask, rest), name)
    return to_register(b, _masked_load(b, address, mask, rest), name)


def _masked_load(b: ir.IRBuilder, address: Value, mask: Value, rest: Value) -> Value:
    # the alignment of a masked operation is an attribute of its pointer; without one it is a single byte
    suffix = f"{type_suffix(rest.type)}.p0"
    return intrinsic(b, "llvm.masked.load", rest.type, [pointer(b, address), mask, rest], suffix)


LINE = 64  # bytes of a cache line, on all machines that there is code for
_AVX_BYTES = 32


def _confuses_halves() -> bool:
    """Does the machine have AVX's masked loads, but not those of AVX-512?

    LLVM 22.1 makes a plain load of one half of a masked load of two registers, if it finds out that none of its lanes
    is on: it reads what must not be read, and keeps it. docs/upstream.md has the smallest case.
    """
    return host().arch == "x86_64" and host().may_have("avx") and not host().has("avx512f")


def _load_by_register(
    b: ir.IRBuilder, address: Value, name: str, lanes: int, mask: Value, rest: Value
) -> Value:
    """A masked load of several registers, each with a mask of its own, of which LLVM knows nothing."""
    size = bytes_of(name)
    count = _AVX_BYTES // size
    signs = ir.VectorType(ir.IntType(8 * size), count)
    result: Value = rest
    for first in range(0, lanes, count):
        part = ir.Constant(ir.VectorType(I32, count), list(range(first, first + count)))
        wide = b.sext(b.shuffle_vector(mask, mask, part), signs)
        hidden = b.asm(ir.FunctionType(signs, [signs]), "", "=x,0", [wide], side_effect=False)
        on = b.icmp_signed("<", hidden, ir.Constant(signs, None))
        place = b.add(address, ir.Constant(I64, first * size))
        piece = _masked_load(b, place, on, b.shuffle_vector(rest, rest, part))
        # a shuffle takes vectors of one length: the piece is spread first, then put in its place
        spread = [min(max(lane - first, 0), count - 1) for lane in range(lanes)]
        spread_piece = b.shuffle_vector(piece, piece, ir.Constant(ir.VectorType(I32, lanes), spread))
        choose = [lanes + lane if first <= lane < first + count else lane for lane in range(lanes)]
        result = b.shuffle_vector(result, spread_piece, ir.Constant(ir.VectorType(I32, lanes), choose))
    return result


def store_vector(b: ir.IRBuilder, value: Value, address: Value, name: str, mask: Value | None) -> None:
    raw = to_memory(b, value, name)
    if mask is None:
        b.store(raw, pointer(b, address), align=bytes_of(name))
        return
    suffix = f"{type_suffix(raw.type)}.p0"
    if isinstance(raw.type.element, ir.IntType) and raw.type.element.width < 64 and _merges_truncation():
        mask = _opaque(b, mask)
    intrinsic(b, "llvm.masked.store", ir.VoidType(), [raw, pointer(b, address), mask], suffix)


def stream_vector(b: ir.IRBuilder, value: Value, address: Value, name: str, mask: Value | None) -> None:
    """A store past the caches, of whole lines that begin where one does; else it is a store like any. Others see it
    behind a fence (`fence_stores`)."""
    raw = to_memory(b, value, name)
    whole = lanes_of(raw) * bytes_of(name)
    if whole % LINE:
        store_vector(b, value, address, name, mask)
        return
    at_line = b.icmp_unsigned("==", b.and_(address, ir.Constant(I64, LINE - 1)), ir.Constant(I64, 0))
    if mask is not None:
        bits = ir.IntType(lanes_of(mask))
        at_line = b.and_(at_line, b.icmp_unsigned("==", b.bitcast(mask, bits), ir.Constant(bits, -1)))
    with b.if_else(at_line) as (past, through):
        with past:
            stored = b.store(raw, pointer(b, address), align=LINE)
            stored.set_metadata("nontemporal", b.module.add_metadata([ir.Constant(I32, 1)]))
        with through:
            store_vector(b, value, address, name, mask)


def fence_stores(b: ir.IRBuilder) -> None:
    """Stores past the caches are seen by others before what follows. On other machines than x86 they are ordered as
    others are."""
    if host().arch in ("x86_64", "amd64"):
        b.asm(ir.FunctionType(ir.VoidType(), []), "sfence", "~{memory}", [], side_effect=True)


def _merges_truncation() -> bool:
    """Can the machine truncate and store in one instruction, as AVX-512 can?

    LLVM 22.1 gets that wrong for a constant mask with a single lane on: it stores the lane before truncation, over
    its neighbours. docs/upstream.md has the smallest case.
    """
    return host().arch == "x86_64" and host().may_have("avx512f")


def _opaque(b: ir.IRBuilder, mask: Value) -> Value:
    """The same mask, of which LLVM cannot know that it is constant. Costs a move to a register and back."""
    bits = ir.IntType(lanes_of(mask))
    wide = b.bitcast(mask, bits)
    wide = wide if bits.width == 64 else b.zext(wide, I64)
    hidden = b.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [wide], side_effect=False)
    return b.bitcast(hidden if bits.width == 64 else b.trunc(hidden, bits), mask.type)


# -- vectors of addresses ------------------------------------------------------------------------------------


def gather(b: ir.IRBuilder, addresses: Value, name: str, mask: Value | None, other: Value | None) -> Value:
    lanes = lanes_of(addresses)
    kind = vector(memory_type(name), lanes)
    if mask is None:
        return _gather_all(b, addresses, name, lanes)
    rest = to_memory(b, other, name) if other is not None else ir.Constant(kind, None)
    pointers = pointer(b, addresses)
    suffix = f"{type_suffix(kind)}.v{lanes}p0"
    return to_register(b, intrinsic(b, "llvm.masked.gather", kind, [pointers, mask, rest], suffix), name)


def _gather_all(b: ir.IRBuilder, addresses: Value, name: str, lanes: int) -> Value:
    result: Value = ir.Constant(vector(memory_type(name), lanes), ir.Undefined)
    for lane in range(lanes):
        place = ir.Constant(I32, lane)
        one = b.load(
            pointer(b, b.extract_element(addresses, place)), align=bytes_of(name), typ=memory_type(name)
        )
        result = b.insert_element(result, one, place)
    return to_register(b, result, name)


def scatter(b: ir.IRBuilder, value: Value, addresses: Value, name: str, mask: Value | None) -> None:
    lanes = lanes_of(addresses)
    raw = to_memory(b, value, name)
    if mask is None:
        for lane in range(lanes):
            place = ir.Constant(I32, lane)
            target = pointer(b, b.extract_element(addresses, place))
            b.store(b.extract_element(raw, place), target, align=bytes_of(name))
        return
    suffix = f"{type_suffix(raw.type)}.v{lanes}p0"
    intrinsic(b, "llvm.masked.scatter", ir.VoidType(), [raw, pointer(b, addresses), mask], suffix)


# -- vectors with a constant stride --------------------------------------------------------------------------


def load_strided(b: ir.IRBuilder, address: Value, name: str, lanes: int, stride: int) -> Value:
    """Lane l from `address + l * stride` (bytes)."""
    result: Value = ir.Constant(vector(memory_type(name), lanes), ir.Undefined)
    for lane in range(lanes):
        place = b.add(address, ir.Constant(I64, lane * stride))
        one = b.load(pointer(b, place), align=bytes_of(name), typ=memory_type(name))
        result = b.insert_element(result, one, ir.Constant(I32, lane))
    return to_register(b, result, name)


def store_strided(b: ir.IRBuilder, value: Value, address: Value, name: str, stride: int) -> None:
    raw = to_memory(b, value, name)
    for lane in range(lanes_of(raw)):
        place = b.add(address, ir.Constant(I64, lane * stride))
        b.store(b.extract_element(raw, ir.Constant(I32, lane)), pointer(b, place), align=bytes_of(name))
