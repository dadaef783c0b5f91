"""Cases for bulk reductions: tiles that are combined with a tensor, element by element."""

from __future__ import annotations

import numpy as np
from exact_floats import BF16, F16, F32, F64, NAN, added, encoded, flushed, read
from family_lanes import FLOATING, result
from family_machine import Bench, group
from family_memory import found_range
from family_tiles import (
    BF_16,
    DESCRIPTOR,
    F_16,
    F_32,
    F_32_FLUSHED,
    F_64,
    S32,
    S64,
    TF32,
    U8,
    U32,
    U64,
    Tensor,
    operands,
)

from tileprobe.targets.simgpu.engine import clocks, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.atomics import OPERATIONS

NAMES = {U32: "U32", S32: "S32", U64: "U64", S64: "S64", F_32_FLUSHED: "F32", F_64: "F64"}


def combined(old, value, operation, kind):
    """What stands in memory afterwards; nothing where the type cannot be combined so."""
    if kind in (F_16, BF_16):
        form = F16 if kind == F_16 else BF16
        x, y = read(old, form), read(value, form)
        if operation == "ADD":
            return encoded(added(x, y), form)
        if operation not in ("MIN", "MAX"):
            return None
        if NAN in (x[1], y[1]):
            return value if x[1] == NAN else old
        size = [(-1) ** s * 10**60 if v == "inf" else v for s, v in (x, y)]
        return value if (size[1] < size[0] if operation == "MIN" else size[1] > size[0]) else old
    if kind in (F_32, F_32_FLUSHED, F_64):
        if operation != "ADD":
            return None
        form, flush = F64 if kind == F_64 else F32, kind == F_32_FLUSHED
        x, y = (read(flushed(w) if flush else w, form) for w in (old, value))
        return encoded(added(x, y), form, flush=flush)
    return result(old, value, 0, operation, NAMES[kind]) if kind in NAMES else None


@group
def bulk_reductions():
    made = []
    for kind in (U32, S32, U64, S64, F_16, BF_16, F_32, F_32_FLUSHED, F_64, U8, TF32):
        for operation in ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"):
            if operation in ("INC", "DEC") and kind != U32:
                continue
            for shape, tile, start, swizzle in (
                ([24, 4], [16, 3], [10, -1], 1),
                ([8, 2, 3], [4, 2, 2], [-2, 1, 2], 0),
            ):
                b = Bench(90, seed=kind)
                tensor = Tensor(shape, tile, kind, swizzle=swizzle)
                shared = 0x400 + 1024 + (1 << 24)
                given = operands(b, tensor, start, shared)
                kinds = {F_16: "F16x2", BF_16: "BF16x2", F_32: "F32", F_32_FLUSHED: "F32", F_64: "F64"}
                if kind in kinds:
                    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[tensor.element]
                    for area in ("shared1", "global"):
                        words = b.part(area)[: 1024 * 3].view(width)
                        words[:] = b.random.choice(
                            np.array(FLOATING[kinds[kind]], np.uint64), len(words)
                        ).astype(width)

                def then(b=b, tensor=tensor, start=start, shared=shared, operation=operation, kind=kind):
                    found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)
                    found_range(b, b.at("global"), b.at("global") + tensor.reach)
                    size = tensor.element
                    for here, there in tensor.elements(shared & 0xFFFFFF, start):
                        if there is None:
                            continue
                        other = b.part("global")[there : there + size]
                        mine = b.shared[here - b.base : here - b.base + size]
                        new = combined(
                            int.from_bytes(other.tobytes(), "little"),
                            int.from_bytes(mine.tobytes(), "little"),
                            operation,
                            kind,
                        )
                        if new is None:
                            return b.faulted(at.BAD_DESCRIPTOR, 0, b.at("other") + DESCRIPTOR, kind)
                        other[:] = np.frombuffer(int(new).to_bytes(size, "little"), np.uint8)

                made.append(b.case("UTMAREDG", then, I1=OPERATIONS.index(operation), **given))
    return made


@group
def bulk_reductions_told():
    b = Bench(90, checks=True)
    tensor = Tensor([16], [4], U32)
    given = operands(b, tensor, [2], 0x400 + 1024 + (1 << 24))

    def refused(b=b, tensor=tensor):
        found_range(b, b.at("other") + DESCRIPTOR, b.at("other") + DESCRIPTOR + 128)
        found_range(b, b.at("global"), b.at("global") + tensor.reach)
        return at.UNINITIALISED

    told = [(shadow.ENGINE, clocks.STORES, 1024, 16, 0)]
    made = [b.case("UTMAREDG", refused, told=told, says=at.UNINITIALISED, **given)]
    return made
