"""Stores to AMD's buffers by LLVM's intrinsics: a descriptor in registers of its own, an offset of each thread, and one
that all threads share.

Triton's own buffer stores have neither: LLVM makes their descriptor anew where it is used, and puts what is the same
for all threads into each thread's offset. Both are instructions of every iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileprobe.ir.reader import parse_type
from tileprobe.targets.gpu.emit import Emitter

# What Triton's buffers have: the hardware drops stores from here on.
BYTES = 2**31 - 2
# The last word of a descriptor, "word 3" of the buffer resource: a format, which must not be 0 and is not used (CDNA 3
# ISA, table 39); of RDNA bit 24 is set and offsets are compared with the size (RDNA 3 ISA, table 37, OOB_SELECT = 3).
_WORD_3 = 7 << 12 | 4 << 15
_WORD_3_RDNA = _WORD_3 | 1 << 24 | 3 << 28


def descriptor(emit: Emitter, address: SSAValue, *, rdna: bool) -> SSAValue:
    """Of a buffer at an address, an i64 that all threads share. It goes through an empty piece of assembly, or LLVM
    would know its parts and put them together wherever it is used."""
    high = emit.cast(emit.binary("arith.shrui", address, emit.constant(32, "i64")), 32)
    parts = [
        emit.cast(address, 32),
        emit.both(high, emit.constant(0xFFFF)),
        emit.constant(BYTES),
        emit.constant(_WORD_3_RDNA if rdna else _WORD_3),
    ]
    kind = parse_type("vector<4xi32>")
    how = 'asm_string = "", constraints = "=s,0"'
    return emit.value("llvm.inline_asm", [_together(emit, parts, "i32")], kind, how)


def store(
    emit: Emitter, words: Sequence[SSAValue], buffer: SSAValue, at: SSAValue, far: SSAValue | None
) -> None:
    """One or two words side by side, `at` of each thread and `far` bytes on; the latter is not held against the
    buffer's size on all machines, so it must be one of a place that there is."""
    kind = str(words[0].type)
    data = words[0]
    if kind == "i64":  # there is no such store of 64-bit words
        data = _together(emit, words, kind) if len(words) > 1 else words[0]
        data = emit.value("llvm.bitcast", [data], parse_type(f"vector<{2 * len(words)}xi32>"))
    none = emit.constant(0)
    call(emit, "llvm.amdgcn.raw.buffer.store", [data, buffer, at, none if far is None else far, none])


def call(emit: Emitter, name: str, operands: Sequence[SSAValue], result: str = "") -> SSAValue:
    """An intrinsic of LLVM's; what has no result gives its operand back."""
    sizes = f"op_bundle_sizes = array<i32>, operandSegmentSizes = array<i32: {len(operands)}, 0>"
    how = f'fastmathFlags = #llvm.fastmath<none>, intrin = "{name}", {sizes}'
    made = emit.op("llvm.call_intrinsic", operands, [parse_type(result)] if result else [], how)
    return made.results[0] if result else operands[0]


def _together(emit: Emitter, parts: Sequence[SSAValue], kind: str) -> SSAValue:
    """A vector of LLVM's, of these parts."""
    whole = parse_type(f"vector<{len(parts)}x{kind}>")
    made = emit.value("llvm.mlir.poison", [], whole)
    for n, part in enumerate(parts):
        made = emit.value("llvm.insertelement", [made, part, emit.constant(n)], whole)
    return made
