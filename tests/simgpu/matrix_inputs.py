"""Inputs of tensor cores' handlers, as their tests have them, and handlers of blocks run on matrices in memory."""

from __future__ import annotations

import ctypes

import numpy as np
from lane_machine import Given

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes_matrix import M_A, M_B, M_C

_CALL = ctypes.CFUNCTYPE(None, *([ctypes.c_int64] * 3), ctypes.c_int32, ctypes.c_int64)
SOME = 0x0F0F3C01  # lanes that execute in the last of the inputs
EIGHT_BITS = ("e4m3", "e5m2", "e4m3e5m2", "e5m2e4m3")
DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, **dict.fromkeys(EIGHT_BITS, 32)}


def floats(form: str, seed: int) -> Given:
    random = np.random.default_rng(seed)
    values = random.standard_normal((2, 4, 32, 2)) * 2.0 ** random.integers(-9, 5, (2, 4, 32, 2))
    values[random.random(values.shape) < 0.1] = 0
    if form == "f16":
        rows = values.astype(np.float16).view(np.uint16)
    else:
        rows = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    rows = rows[..., 0].astype(np.uint32) | rows[..., 1].astype(np.uint32) << 16
    if form == "tf32":
        rows = values[..., 0].astype(np.float32).view(np.uint32)
    sums = (random.standard_normal((4, 32)) * 2.0 ** random.integers(-20, 8, (4, 32))).astype(np.float32)
    return Given(rows[0], rows[1], sums.view(np.uint32))


def half_sums(seed: int) -> Given:
    """As `floats`, with sums of two halves a register."""
    given = floats("f16", seed)
    random = np.random.default_rng(seed + 100)
    halves = random.standard_normal((4, 32, 2)).astype(np.float16).view(np.uint16).astype(np.uint32)
    given.c[:] = halves[..., 0] | halves[..., 1] << 16
    return given


def strange(form: str) -> Given:
    """With what is no number, infinite or subnormal."""
    given = floats(form, 1)
    given.a[0, 0] = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F800000}[form]
    one = {"f16": 0x3C003C00, "bf16": 0x3F803F80, "tf32": 0x3F800000}[form]
    given.b[0, :4], given.b[0, 4:8] = one, 0
    given.a[1, 5] = {"f16": 0x00010400, "bf16": 0x00010080, "tf32": 0x00002000}[form]
    return given


ENCODED = {  # one, infinity, 63, 65, 2^63 and 2^64, 2^-75 and 2^-76, by the form
    "f16": (0x3C00, 0x7C00, 0x53E0, 0x5410, 0, 0, 0, 0),
    "bf16": (0x3F80, 0x7F80, 0x427C, 0x4282, 0x5F00, 0x5F80, 0x1A00, 0x1980),
    "tf32": (0x3F800000, 0x7F800000, 0x427C0000, 0x42820000, 0x5F000000, 0x5F800000, 0x1A000000, 0x19800000),
}


def _rows(form: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Given:
    """Registers of A (16 x depth) and B (depth x 8) of encoded elements and sums of 16 x 8 floats, or of halves."""
    width = DEPTHS[form] // 2
    kind = np.uint32 if form == "tf32" else np.uint16
    given = Given(*(np.zeros((4, 32), np.uint32) for _ in range(3)))
    for n in range(4):
        first, column = 8 * (n % 2), width * (n // 2)
        given.a[n] = a[first : first + 8, column : column + width].astype(kind).reshape(-1).view(np.uint32)
    for n in range(2):
        given.b[n] = b[width * n : width * (n + 1)].T.astype(kind).reshape(-1).view(np.uint32)
    for n in range(2):
        block = c[8 * n : 8 * n + 8].reshape(-1)
        if c.dtype == np.float16:
            given.c[n] = block.view(np.uint32)
        else:
            words = block.astype(np.float32).view(np.uint32)
            given.c[2 * n], given.c[2 * n + 1] = words[::2], words[1::2]
    return given


def one_in_each_row(name: str) -> list[Given]:
    """Row i has one product, at place i: an infinite one; 63 x 65, which is between two halves, and a sum that is just
    too small to count beside it."""
    _, form, *rest = name.split("_")
    depth, one = DEPTHS[form], ENCODED[form]
    sums = np.float16 if rest[0] == "half" else np.float32
    tiny = -(2.0 ** (11 - {"a100": 24, "h100": 25}[rest[-1]] - 1))
    places = np.arange(16), np.arange(16) % depth
    made = []
    for value, other, c in ((one[1], one[0], 0.0), (one[2], one[3], tiny)):
        a = np.zeros((16, depth), np.uint32)
        a[places] = value
        made.append(_rows(form, a, np.full((depth, 8), other), np.full((16, 8), c, sums)))
    return made


def at_the_ends(name: str) -> list[Given]:
    """A sum of 2^128, and one of four products of 2^-151: what single precision no more holds, and just holds."""
    form = name.split("_")[1]
    codes, depth = ENCODED[form], DEPTHS[form]
    a, b = np.zeros((16, depth), np.uint32), np.full((depth, 8), codes[5])
    a[:, 0] = codes[4]
    small = np.zeros((16, depth), np.uint32)
    small[:, :4] = codes[6]
    return [
        _rows(form, a, b, np.full((16, 8), 2.0**127)),
        _rows(form, small, np.full((depth, 8), codes[7]), np.zeros((16, 8))),
    ]


def integers(limit: bool) -> Given:
    random = np.random.default_rng(3)
    given = Given(*(random.integers(0, 1 << 32, (4, 32), np.uint64).astype(np.uint32) for _ in range(3)))
    given.c[:] = random.integers(-(2**20), 2**20, (4, 32)).astype(np.int32).view(np.uint32)
    if limit:
        given.c[:, ::2], given.c[:, 1::2] = 0x7FFFFFFF, 0x80000000
    return given


def doubles() -> Given:
    random = np.random.default_rng(4)
    rows = [np.zeros((4, 32), np.uint32) for _ in range(3)]
    for row in rows:
        bits = random.standard_normal((2, 32)).view(np.uint64)
        row[0::2], row[1::2] = bits & 0xFFFFFFFF, bits >> np.uint64(32)
    return Given(*rows)


def matrix_inputs(name: str) -> list[Given]:
    kind, *rest = name.split("_")
    if kind == "dmma":
        made = [doubles(), doubles()]
    elif kind == "imma":
        made = [integers(False), integers(True), integers(False)]
    elif rest[1] == "half":
        made = [half_sums(0), *(one_in_each_row(name) if rest[2] != "fast" else ()), half_sums(1)]
    else:
        made = [floats(rest[0], 0), floats(rest[0], 1), strange(rest[0]), floats(rest[0], 0)]
        if rest[-1] != "fast":
            made[:0] = one_in_each_row(name) + (at_the_ends(name) if rest[0] != "f16" else [])
    made[-1].mask = SOME
    return made


def blocks(form: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A of 16 x depth, B of depth x 8, sums of 16 x 8, as 32-bit words; fp8: numbers that it can hold."""
    random, depth = np.random.default_rng(seed), DEPTHS[form]
    shapes = (16, depth), (depth, 8), (16, 8)
    if form == "s8":
        return tuple(random.integers(-128, 128, shape).astype(np.int32).view(np.uint32) for shape in shapes)  # type: ignore[return-value]
    made = []
    for shape in shapes:
        values = random.choice([1.0, 1.25, 1.5, 1.75, -1.0, -1.5, 0.0], shape) * 2.0 ** random.integers(
            -6, 5, shape
        )
        if form in ("f16", "bf16", "tf32"):
            values = values * (1 + random.integers(0, 8, shape) / 128)
        made.append(values.astype(np.float32).view(np.uint32))
    return tuple(made)  # type: ignore[return-value]


def small_blocks() -> tuple[np.ndarray, ...]:
    """For fp8: rows that are subnormal as e4m3, columns that are as e5m2, and small sums."""
    random = np.random.default_rng(5)
    a, b, c = (words.view(np.float32) for words in blocks("e4m3", 9))
    a[:2] = random.integers(-7, 8, (2, 32)) * 2.0**-9
    b[:, :2] = random.integers(-3, 4, (32, 2)) * 2.0**-16
    c[:2, :2] = 3 * 2.0**-20
    a[5], b[:, 3], c[5, 3] = (
        2.0**-9,
        1.25 * 2.0**-9,
        0,
    )  # beside them a zero with a sign, which has no exponent
    a[5, 0], b[0, 3] = -0.0, 2.0**8
    return tuple(made.view(np.uint32) for made in (a, b, c))


def infinite_blocks(form: str) -> list[tuple[np.ndarray, ...]]:
    """Row i has an infinite product at place i, at 16 + i in the second: all of the rest are ones and sums of 0."""
    made = []
    for first in range(0, DEPTHS[form], 16):
        a, b, c = (np.ones(s, np.float32) for s in ((16, DEPTHS[form]), (DEPTHS[form], 8), (16, 8)))
        a[np.arange(16), first + np.arange(16) % min(16, DEPTHS[form])] = np.inf
        made.append(tuple(x.view(np.uint32) for x in (a, b, 0 * c)))
    return made


def run_block(address: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    scratch = np.zeros(at.CTA_SCRATCH_BYTES, np.uint8)
    words, uop = scratch.view(np.uint32), np.zeros(16, np.int32)
    for place, value in ((M_A, a), (M_B, b), (M_C, c)):
        words[place // 4 : place // 4 + value.size] = value.reshape(-1)
    warp = np.zeros(at.W_REGISTERS, np.uint8)
    _CALL(address)(uop.ctypes.data, warp.ctypes.data, warp.ctypes.data, -1, scratch.ctypes.data)
    return words[M_C // 4 : M_C // 4 + 128].reshape(16, 8).copy()


def block_results(name: str, address: int) -> list[np.ndarray]:
    form = name.split("_")[1]
    made = [blocks(form, seed) for seed in range(3)]
    if form in EIGHT_BITS:
        made.append(small_blocks())
    if form != "s8":
        made += infinite_blocks(form)
    return [run_block(address, *given) for given in made]
