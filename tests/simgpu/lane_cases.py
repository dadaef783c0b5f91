"""Inputs for handlers: ordinary numbers and those at the edges, with every modifier and every predicate."""

from __future__ import annotations

import numpy as np
from lane_machine import Given
from lane_references import FLOATS, SPECIAL

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes_float import FLOAT_COMPARE
from tileprobe.targets.simgpu.engine.lanes_integer import COMPARE, UNSIGNED

CASES = 24  # inputs of each handler
MASKS = (0xFFFFFFFF, 0x0F0F3C01)


def _mixed(random, edge, make):
    rows = make(random, (4, 32)).astype(np.uint32)
    chosen = random.random((4, 32)) < 0.4
    rows[chosen] = random.choice(np.array(edge, np.uint32), chosen.sum())
    return rows


def _any(random, shape):
    return random.integers(0, 1 << 32, shape, np.uint64)


def _near(random, shape):
    """Floats of similar size, so that sums cancel and round."""
    return (
        (random.standard_normal(shape) * 2.0 ** random.integers(-14, 14, shape))
        .astype(np.float32)
        .view(np.uint32)
    )


def _pairs(random, shape):
    low, high = (random.standard_normal(shape).astype(np.float16).view(np.uint16) for _ in range(2))
    return low.astype(np.uint32) | high.astype(np.uint32) << 16


def _doubles(random, special=False):
    values = random.standard_normal((2, 32)) * 2.0 ** random.integers(-40, 40, (2, 32))
    values[0, :6] = [0.0, -0.0, np.inf, -np.inf, 1e-310, 1.0]
    values[1, :6] = [-0.0, 1.0, np.inf, 2.0, -1e-310, 1.0]
    if special:
        values[:, 6:24] = random.choice([0.0, -0.0, np.nan, np.inf, 3.0, -3.0], (2, 18))
    rows = np.zeros((4, 32), np.uint32)
    bits = values.view(np.uint64)
    rows[0], rows[1] = bits[0] & 0xFFFFFFFF, bits[0] >> np.uint64(32)
    rows[2], rows[3] = bits[1] & 0xFFFFFFFF, bits[1] >> np.uint64(32)
    return rows


_HALF_EDGES = [
    0x7C00,
    0xFC00,
    0x7E00,
    0x8000,
    0x0001,
    0x03FF,
    0x0400,
    0x7BFF,
    0x3C00,
    0xBC00,
    0x3C003C00,
    0x7F80FF80,
]


def _sources(kind, random):
    if "double" in kind:
        return [_doubles(random, kind == "double_extremes") for _ in range(3)]
    if "half" in kind or kind == "halves":
        return [_mixed(random, _HALF_EDGES, _pairs) for _ in range(3)]
    if kind == "finite":
        edges = [w for w in FLOATS if w & 0x7F800000 != 0x7F800000 and w & 0x7FFFFFFF < 0x7F000000]
        return [_mixed(random, edges, _near) for _ in range(3)]
    if kind == "ordinary":
        return [_mixed(random, [w for w in FLOATS if w & 0x7FFFFFFF <= 0x7F800000], _near) for _ in range(3)]
    if kind in ("floats", "scaled", "float_comparisons"):
        return [_mixed(random, FLOATS, _near) for _ in range(3)]
    rows = [_mixed(random, SPECIAL, _any) for _ in range(3)]
    if kind in ("amounts", "both_amounts"):
        rows[1] = random.choice(
            np.array([0, 1, 5, 31, 32, 33, 63, 64, 65, 200, 0xFFFFFFFF], np.uint32), (4, 32)
        )
    if kind == "small":  # about the ends of numbers of 2, 4, 8 and 16 bits
        ends = [s * 2**bits + d for bits in (1, 2, 3, 4, 7, 8, 15, 16) for s in (-1, 1) for d in (-1, 0, 1)]
        for row in rows[:2]:
            row[0, :24] = random.choice(np.array(ends, np.int64), 24).astype(np.uint32)
    if kind == "both_amounts":
        rows[0] = random.choice(np.array([0, 1, 7, 31, 32, 33, 1000], np.uint32), (4, 32))
    return rows


_TIES = np.array(
    [0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0xBF818000, 0x3F801000, 0x3F803000, 0x3F802FFF, 0x3F801001,
     0x7F7F8000],
    np.uint32,
)  # half way between two bfloat16 or two halves, and beside it  # fmt: skip


def _at_the_edges(sources, random, largest):
    """Lanes 4 to 15: numbers about the smallest normal one, products that come out there, the largest ones, ties."""
    tiny = (
        random.integers(0, 1 << 25, (3, 4)).astype(np.uint32) | random.integers(0, 2, (3, 4), np.uint32) << 31
    )
    for source, row in zip(sources, tiny):
        source[0, 4:8] = row
    exponents = random.integers(40, 88, 2)
    small = np.array(
        [exponents, 127 + 1 - exponents + random.integers(-1, 3, 2)], np.uint32
    )  # product about 2**-126
    for source, row in zip(sources[:2], small):
        source[0, 8:10] = row << 23 | random.integers(0, 1 << 23, 2).astype(np.uint32)
    sources[2][0, 8:10] = 0
    sources[0][0, 12:16] = random.choice(_TIES[:-1], 4)
    if not largest:
        return
    sources[0][0, 10:12], sources[1][0, 10:12] = (
        0x7F7FFFFF,
        random.choice([0x73000000, 0x7F7FFFFF, 0x3F800001]),
    )
    sources[2][0, 10:12] = random.choice([0, 0x73000000, 0xF3000000])
    sources[0][0, 12] = _TIES[-1]


def _halves_at_the_edges(sources, random):
    """Lanes 4 to 15: halves about the smallest normal one, products that come out there, the largest ones."""
    for source in sources:
        pairs = random.integers(0, 0x0C00, (2, 4)) | random.integers(0, 2, (2, 4)) << 15
        source[0, 4:8] = pairs[0] | pairs[1] << 16
    exponents = random.integers(3, 11, (2, 4))
    small = np.array([exponents, 15 + 1 - exponents + random.integers(-8, 3, (2, 4))]).clip(1, 30) << 10
    small |= random.integers(0, 1024, small.shape)
    for source, pairs in zip(sources[:2], small):
        source[0, 8:12] = pairs[0] | pairs[1] << 16
    sources[2][0, 8:12] = random.choice([0, 0x00010001, 0x80008000])
    sources[0][0, 12:14], sources[1][0, 12:14] = (
        0x7BFF7BFF,
        random.choice([0x4C004C00, 0x3C013C01, 0x7BFFFBFF]),
    )
    sources[2][0, 12:14] = random.choice([0, 0x4C004C00])


def _fields(kind, random):
    """Fields of the micro-op, and modifiers."""
    pick = random.choice
    signs = int(random.integers(0, 8))
    sizes = int(random.integers(0, 8)) << at.ABSOLUTE
    if kind in ("integers", "amounts", "both_amounts", "small"):
        return {}
    if kind == "negated":
        return {"mods": int(pick([0, signs, signs << at.INVERT]))}
    if kind == "negated_c":
        return {"mods": int(pick([0, 4]))}
    if kind == "shift31":
        return {"i0": int(random.integers(0, 32)), "mods": int(pick([0, 2, 2 << at.INVERT]))}
    if kind == "signed_shift31":
        return {"i0": int(random.integers(0, 32)), "mods": int(pick([0, 1, 2, 2 << at.INVERT]))}
    if kind in ("table", "tables"):
        return {"i0": int(random.integers(0, 256)), "i1": int(random.integers(0, 256))}
    if kind == "selector":
        return {"i0": int(random.integers(0, 0x8000)) & 0x7777}
    if kind == "comparisons":
        compare = COMPARE[pick(list(COMPARE))] & 7
        return {
            "i0": int(pick([0, 1, 2])),
            "i1": compare | int(pick([0, UNSIGNED])),
            "mods": int(pick([0, signs])),
        }
    if kind == "predicates":
        slots, first = random.random((7, 32)) < 0.5, int(pick([0, at.UP0]))
        return {
            "i0": int(random.integers(1, 128)),
            "i1": int(pick([0, 8, 16, 24])),
            "i2": first,
            "slots": slots,
        }
    mods = signs | sizes
    if "half" in kind or kind == "halves":
        mods |= sum(int(random.integers(0, 4)) << at.HALVES + 2 * n for n in range(3))
        mods |= int(pick([0, int(random.integers(0, 64))])) << at.NEGATE_HALVES
    more = {"mods": mods}
    if kind == "scaled":
        more["i0"] = int(random.integers(-3, 4))
    if kind.endswith("comparisons"):
        compare = FLOAT_COMPARE[pick(list(FLOAT_COMPARE))]
        more |= {"i0": int(pick([0, 1, 2])), "i1": compare, "i2": int(pick([0x3C00, 0x3F80, 0xFFFF]))}
    return more


def cases(kind, count=12, seed=0):
    """Inputs of a kind; the last ones with some lanes only."""
    random = np.random.default_rng(seed)
    for n in range(count):
        sources = _sources(kind, random)
        if kind == "comparisons" or kind.endswith("comparisons"):  # some lanes have equal numbers
            same = random.random(32) < 0.3
            sources[1][:, same] = sources[0][:, same]
        if kind in ("floats", "finite", "ordinary", "scaled", "float_comparisons"):
            _at_the_edges(sources, random, kind != "finite")
        if kind == "halves" or "half" in kind:
            _halves_at_the_edges(sources, random)
        if kind in ("floats", "halves"):  # zeros of both signs meet
            sources[0][0, :4], sources[1][0, :4] = [0, 1 << 31, 0, 1 << 15], [1 << 31, 0, 1 << 15, 0]
        predicates = {f"p{k}": random.random(32) < 0.5 for k in range(3)}
        fields = _fields(kind, random)
        if "slots" in fields:
            predicates = {}
        if "slots" not in fields:
            predicates["turned"] = bool(n & 1), bool(n & 2)
        yield Given(*sources, **fields, **predicates, mask=MASKS[n == count - 1])
