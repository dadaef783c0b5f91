"""Indices into memory and masks over them: affine, permuted, wrapped round in narrow types, from loaded data."""

from __future__ import annotations

import math

from fuzz.generate_values import COMPARISONS, binary, bounded, cast, constant, iota, spread
from fuzz.generator import Generator
from fuzz.ops import make
from fuzz.program import Expr, Shape


def linear(shape: Shape, order: list[int]) -> Expr:
    """Every place of a dense tile once; `order` lists the axes from the slowest to the fastest."""
    total: Expr | None = None
    stride = 1
    for axis in reversed(order):
        part = iota(shape, axis)
        if stride > 1:
            part = binary("*", part, constant(stride, "int32"))
        total = part if total is None else binary("+", part, total)
        stride *= shape[axis]
    return constant(0, "int32") if total is None else total


def _twisted(g: Generator, index: Expr, total: int, room: int) -> Expr:
    """A permutation of the places 0 .. total - 1, a power of two, or a move within `room`."""
    c = g.random.randint(1, max(1, total - 1))
    kinds = ("reverse", "xor", "rotate", "multiply", "divide")
    choice = g.pick((*kinds, "narrow", "unsigned", "signed") if g.wraps else kinds)
    if choice == "reverse":
        return make(
            "binary", constant(total - 1, index.dtype, index.shape), index, symbol="-", range=(0, total - 1)
        )
    if choice == "xor":
        return make("binary", index, constant(min(c, total - 1), "int32"), symbol="^", range=(0, total - 1))

    def wrap(e: Expr) -> Expr:
        symbol, second = g.pick((("%", total), ("&", total - 1)))
        return binary(symbol, e, constant(second, "int32"))

    if choice == "rotate":
        return wrap(binary("+", index, constant(c, "int32")))
    if choice == "multiply":
        return wrap(binary("*", index, constant(c | 1, "int32")))
    if choice == "narrow" and total <= 256 <= room:
        return cast(binary("+", index, constant(c, "int32")), "uint8")
    if choice == "signed" and total <= 256 <= room:
        moved = cast(binary(g.pick("+-"), index, constant(c, "int32")), "int8")
        return binary("+", cast(moved, "int32"), constant(128, "int32"))
    if choice == "divide" and total >= 4:
        step = g.pick([s for s in (2, 4, 8, 16) if s <= total])
        low = binary("%", index, constant(step, "int32"))
        return binary(
            "+",
            binary("*", low, constant(total // step, "int32")),
            binary("//", index, constant(step, "int32")),
        )
    if choice == "unsigned":
        # x - c + c in unsigned numbers: wraps below zero, and back
        moved = make("binary", cast(index, "uint32"), constant(c, "uint32"), symbol="-")
        return make("binary", moved, constant(c, "uint32"), symbol="+", range=index.range)
    return index


def apart(g: Generator, shape: Shape, room: tuple[int, int]) -> Expr:
    """An index that no two elements share, within `room`."""
    total = math.prod(shape)
    order = list(range(len(shape)))
    if g.chance(0.4):
        g.random.shuffle(order)
    index = linear(shape, order)
    size = room[1] - room[0] + 1
    if g.chance(0.4):
        index = _twisted(g, index, total, size)
    assert index.range is not None
    spare = size - 1 - index.range[1]
    if 2 * index.range[1] < size and index.dtype != "uint8" and g.chance(0.2):
        index = binary("*", index, constant(2, index.dtype))
        assert index.range is not None
        spare = size - 1 - index.range[1]
    return _moved(g, index, room[0], spare)


def _moved(g: Generator, index: Expr, low: int, spare: int) -> Expr:
    """The index and an offset: a number, an argument, or something computed."""
    offset = low + (g.random.randint(0, spare) if g.chance(0.5) else g.pick([0, min(1, spare)]))
    if spare >= 1 and g.chance(0.15):
        step = 1 << (spare.bit_length() - 1)
        if 1 <= step - 1 <= spare:
            moving = bounded(g.value("int32", (), 1), 0, step - 1)
            index = binary("+", cast(index, "int32"), moving)
            offset = low
    if offset:
        index = cast(index, "int32") if index.dtype in ("uint8", "uint32") else index
        index = binary("+", index, constant(offset, index.dtype))
    return cast(index, "int64") if g.chance(0.1) else index


def anywhere(g: Generator, shape: Shape, room: tuple[int, int], depth: int) -> Expr:
    """An index into `room`; elements may share places."""
    size = room[1] - room[0] + 1
    if g.chance(0.35):
        return apart(g, shape, room) if math.prod(shape) <= size else _arbitrary(g, shape, room, depth)
    if shape and g.chance(0.6):
        index = _strided(g, shape)
        assert index.range is not None
        if index.range[1] < size:
            return _moved(g, spread(index, shape), room[0], size - 1 - index.range[1])
    return _arbitrary(g, shape, room, depth)


def _strided(g: Generator, shape: Shape) -> Expr:
    """A sum of indices, each times any stride."""
    parts = []
    for axis, extent in enumerate(shape):
        stride = g.pick([0, 1, 1, 2, 3, extent, extent + 1, 16])
        part = iota(shape, axis)
        parts.append(part if stride == 1 else binary("*", part, constant(stride, "int32")))
    total = parts[0]
    for part in parts[1:]:
        total = binary("+", total, part)
    return total


def _arbitrary(g: Generator, shape: Shape, room: tuple[int, int], depth: int) -> Expr:
    size = room[1] - room[0] + 1
    mask = (1 << (size.bit_length() - 1)) - 1
    dtype = g.pick(["int32", "int32", "int64", *(t for t in g.integers if t in ("uint8", "uint16", "int16"))])
    value = g.value(dtype, shape, depth)
    if value.range is not None and value.range[0] >= 0 and value.range[1] < size:
        return binary("+", cast(value, "int32"), constant(room[0], "int32")) if room[0] else value
    index = binary("&", cast(value, "int32"), constant(mask, "int32"))
    return binary("+", index, constant(room[0], "int32")) if room[0] else index


def mask(g: Generator, shape: Shape, depth: int) -> Expr:
    """A condition over a tile, of one axis, of several, or of anything."""
    known = g.find("int1", shape)
    if known and g.chance(0.4):
        return g.read(g.pick(known))
    if not shape or g.chance(0.2):
        return g.value("int1", shape, depth)
    axes = [a for a in range(len(shape)) if g.chance(0.6)] or [g.random.randrange(len(shape))]
    made = _axis_mask(g, shape, axes[0])
    for axis in axes[1:]:
        made = make("binary", made, _axis_mask(g, shape, axis), symbol=g.pick("&&&|^"), range=(0, 1))
    if g.chance(0.1):
        made = make("unary", made, symbol="~", range=(0, 1))
    return spread(made, shape) if g.chance(0.5) else made


def _axis_mask(g: Generator, shape: Shape, axis: int) -> Expr:
    """A condition on one index, with extents of 1 elsewhere."""
    lone = g.find("int1", (shape[axis],)) if len(shape) > 1 else []
    if lone and g.chance(0.5):
        made = g.read(g.pick(lone))
        for other in range(len(shape)):
            if other != axis:
                made = make("expand", made, axis=other, range=(0, 1))
        return made
    index = iota(shape, axis)
    extent = shape[axis]
    limit = g.random.randint(-1, extent + 1)
    choice = g.random.random()
    if choice < 0.35:
        return make("compare", index, constant(limit, "int32"), symbol=g.pick(COMPARISONS), range=(0, 1))
    if choice < 0.55:
        return make("compare", index, g.scalar() if not g.pure else constant(limit, "int32"),
                    symbol=g.pick(COMPARISONS), range=(0, 1))  # fmt: skip
    moved = binary(g.pick("+-*"), index, constant(g.random.randint(1, extent + 3), "int32"))
    if choice < 0.8 and g.wraps:
        narrow = g.pick(("uint32", "uint8", "int8", "uint16", "int16", "uint64"))
        limit = abs(limit) if narrow.startswith("u") else limit
        limit = max(-128, min(limit, 100))
        return make(
            "compare", cast(moved, narrow), constant(limit, narrow), symbol=g.pick(COMPARISONS), range=(0, 1)
        )
    other = binary(g.pick(("%", "//", ">>", "&")), moved, constant(g.random.randint(1, 7), "int32"))
    return make(
        "compare", other, constant(g.random.randint(0, 4), "int32"), symbol=g.pick(COMPARISONS), range=(0, 1)
    )
