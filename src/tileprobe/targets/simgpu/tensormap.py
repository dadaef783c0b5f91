"""Tensor descriptors that the host makes: 128 bytes in the form that kernels write themselves (see engine/bulk.py)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tileprobe.errors import TileProbeError

BYTES = 128
_IM2COL = 1 << 16
_SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 4, 12: 4}


def encode(
    address: int,
    element_type: int,
    swizzle: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    tile: Sequence[int],
    nan: bool,
) -> bytes:
    """All lists go from the outermost dimension to the innermost, strides in elements."""
    rank, element = len(sizes), _SIZES.get(element_type)
    if element is None or not 1 <= rank <= 5 or any(not 1 <= t <= 256 for t in tile):
        raise TileProbeError(f"a tensor descriptor of type {element_type}, rank {rank}, tile {tuple(tile)}")
    if any(stride * element % 16 for stride in strides[:-1]) or address % 16:
        raise TileProbeError("a tensor descriptor whose address or strides are no multiples of 16 bytes")
    made = bytearray(BYTES)
    struct.pack_into("<Q", made, 0, address)
    struct.pack_into("<I", made, 8, (rank - 1) << 4 | element_type << 7 | swizzle << 13 | int(nan) << 15)
    high = 0
    for n, stride in enumerate(reversed(strides[:-1])):
        units = stride * element >> 4
        struct.pack_into("<I", made, 12 + 4 * n, units & 0xFFFFFFFF)
        high |= (units >> 32 & 15) << 4 * n
    struct.pack_into("<I", made, 28, high)
    for n, (size, wide) in enumerate(zip(reversed(sizes), reversed(tile))):
        struct.pack_into("<I", made, 32 + 4 * n, size - 1)
        made[55 + n] = wide - 1
    return bytes(made)


def _columns(made: bytes, descriptor: Any, pixels: int) -> bytes:
    """A descriptor of columns of pixels. What it is given goes from the outermost dimension to the innermost."""
    out = bytearray(made)
    (head,) = struct.unpack_from("<I", out, 8)
    struct.pack_into("<I", out, 8, head | _IM2COL)
    if not 1 <= pixels <= 1024:
        raise TileProbeError(f"a tensor descriptor of columns of {pixels} pixels; 1 to 1,024 can be had")
    struct.pack_into("<H", out, 60, pixels - 1)
    steps = (descriptor.element_strides or [1] * len(descriptor.shape))[1:-1]
    lower, upper = descriptor.pixel_box_lower_corner, descriptor.pixel_box_upper_corner
    for n, (low, high, step) in enumerate(zip(reversed(lower), reversed(upper), reversed(steps))):
        struct.pack_into("<h", out, 64 + 2 * n, low)
        struct.pack_into("<h", out, 70 + 2 * n, high)
        out[76 + n] = step
    return bytes(out)


def arguments(descriptor: Any, meta: dict[str, Any] | None) -> list[Any]:
    """What a kernel takes in place of a host descriptor: the 128 bytes, then sizes and strides; without `meta` the
    parts that Triton's rewriting pass declares."""
    from triton.backends.driver import decompose_descriptor

    if meta is None:
        return list(decompose_descriptor(descriptor))
    sizes = list(descriptor.shape)
    wide = [*sizes[:-1], sizes[-1] * 2] if meta["fp4_padded"] else sizes
    kind = 11 if descriptor.round_f32_to_tf32 else meta["elem_type"]
    tile = list(meta["block_size"])
    columns = meta.get("is_im2col", False)
    made = encode(
        int(descriptor.base.data_ptr()), kind, meta["swizzle"], wide, list(descriptor.strides),
        [1] * (len(wide) - 1) + tile[1:] if columns else tile, descriptor.padding == "nan",
    )  # fmt: skip
    if columns:
        made = _columns(made, descriptor, tile[0])
    return [made, *sizes, *descriptor.strides]
