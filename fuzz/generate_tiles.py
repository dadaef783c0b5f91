"""Productions: shapes, order, reductions, scans and products of tiles."""

from __future__ import annotations

import math

from fuzz import ranges
from fuzz.generate_values import bounded, limits, small, spread
from fuzz.generator import Generator, production
from fuzz.ops import make
from fuzz.program import Expr, Range, Shape
from fuzz.tile_ops import BITS, COMMUTING
from fuzz.types import FLOATS, TYPES

SLOW = 128  # elements; the interpreter combines them one by one in Python


def ordinary(g: Generator, value: Expr) -> Expr:
    """The value without NaN: what order has is not defined for it."""
    special = g.specials and TYPES[value.dtype].kind == "f"
    return bounded(value, *limits(value.dtype)) if special else value


@production(3)
def expanded(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    """A tile of one axis less, repeated along a new one."""
    if len(shape) < 2:
        return None
    axis = g.random.randrange(len(shape))
    inner = g.value(dtype, shape[:axis] + shape[axis + 1 :], depth)
    made = make("expand", inner, axis=axis, function=g.chance(0.3), range=inner.range)
    return spread(made, shape)


@production(1)
def repeated(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    return spread(g.value(dtype, (), depth), shape) if shape else None


@production(2)
def permuted(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if len(shape) < 2:
        return None
    order = list(range(len(shape)))
    g.random.shuffle(order)
    before = [0] * len(shape)
    for place, axis in enumerate(order):
        before[axis] = shape[place]
    inner = g.value(dtype, tuple(before), depth)
    return make("trans", inner, order=tuple(order), range=inner.range)


def factors(g: Generator, total: int, rank: int) -> Shape:
    """A random shape of so many elements, all extents powers of two."""
    extents = [1] * rank
    while math.prod(extents) < total:
        extents[g.random.randrange(rank)] *= 2
    return tuple(extents)


@production(2)
def reshaped(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if not shape:
        return None
    inner = g.value(dtype, factors(g, math.prod(shape), g.random.randint(1, 3)), depth)
    return make("reshape", inner, shape=shape, range=inner.range)


@production(1)
def joined(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if not shape or shape[-1] < 2:
        return None
    if shape[-1] == 2 and len(shape) > 1 and g.chance(0.6):
        inner, op = shape[:-1], "join"
    else:
        inner, op = (*shape[:-1], shape[-1] // 2), g.pick(("interleave", "cat"))
    a, b = g.value(dtype, inner, depth), g.value(dtype, inner, depth)
    return make(op, a, b, range=ranges.union(a.range, b.range))


@production(1)
def split(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if not shape or not g.cost((*shape, 2)):
        return None
    inner = g.value(dtype, (*shape, 2), depth)
    return make("split", inner, which=g.random.randrange(2), range=inner.range)


@production(1)
def flipped(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    # Triton has no flip of a single element.
    if not 2 <= math.prod(shape) <= 256:
        return None
    inner = g.value(dtype, shape, depth)
    return make("flip", inner, axis=g.random.randrange(len(shape)), range=inner.range)


@production(0.5)
def ordered(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if not shape or math.prod(shape) > 64 or not 2 <= shape[-1] <= 16 or dtype == "int1":
        return None
    if TYPES[dtype].kind == "f" and dtype not in FLOATS:
        return None
    inner = ordinary(g, g.value(dtype, shape, depth))
    return make("sort", inner, axis=len(shape) - 1, descending=g.chance(0.5), range=inner.range)


@production(1.5)
def gathered(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if not shape:
        return None
    axis = g.random.randrange(len(shape))
    extent = g.pick([shape[axis], *g.extents])
    source = (*shape[:axis], extent, *shape[axis + 1 :])
    if not g.cost(source):
        return None
    index = bounded(g.value("int32", shape, depth), 0, extent - 1)
    inner = g.value(dtype, source, depth)
    return make("gather", inner, index, axis=axis, range=inner.range)


def _reducible(g: Generator, shape: Shape) -> tuple[Shape, int | None, bool] | None:
    """A shape that reduces to the wanted one: (shape, axis, keep_dims)."""
    units = [i for i, extent in enumerate(shape) if extent == 1]
    if not shape and g.chance(0.6):
        return g.shape((1, 2, 2)), None, False
    if units and g.chance(0.5):
        axis = g.pick(units)
        return (*shape[:axis], g.pick(g.extents), *shape[axis + 1 :]), axis, True
    if len(shape) >= 3:
        return None
    axis = g.random.randint(0, len(shape))
    return (*shape[:axis], g.pick(g.extents), *shape[axis:]), axis, False


def _summed(dtype: str, bounds: Range, count: int) -> Range:
    return (
        None if bounds is None else ranges.whole(dtype, min(0, bounds[0] * count), max(0, bounds[1] * count))
    )


@production(3)
def reduction(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    chosen = _reducible(g, shape)
    if chosen is None or not g.cost(chosen[0]) or (TYPES[dtype].kind == "f" and dtype not in FLOATS):
        return None
    source, axis, keep = chosen
    count = math.prod(source) if axis is None else source[axis]
    integer = TYPES[dtype].kind in "iu"
    if dtype == "int1":
        return None
    function = g.pick(("sum", "max", "min", "xor_sum" if integer else "max"))
    slow = math.prod(source) <= SLOW
    if slow and g.chance(0.4):
        function = g.pick([c for c in COMMUTING if integer or c not in (*BITS, "c_mul")])
    elif function == "xor_sum" and not slow:
        function = "sum"
    inner = ordinary(g, g.value(dtype, source, depth))
    if function in ("sum", "c_add"):
        if not integer:
            inner = bounded(inner, *limits(dtype))
        bounds = _summed(dtype, inner.range, count)
        if not integer and bounds is None:
            return None
    else:
        bounds = inner.range if function in ("max", "min", "c_max", "c_min") else ranges.everything(dtype)
    return make("reduce", inner, function=function, axis=axis, keep=keep, dtype=dtype, range=bounds)


@production(1)
def position(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    """argmax and argmin, ties broken to the left."""
    chosen = _reducible(g, shape)
    if dtype != "int32" or chosen is None or not g.cost(chosen[0]):
        return None
    source, axis, keep = chosen
    if axis is None:
        return None
    inner = ordinary(g, g.value(g.pick([t for t in g.types if t != "bfloat16"]), source, depth))
    function = g.pick(("argmax", "argmin"))
    bounds = (0, source[axis] - 1)
    return make("reduce", inner, function=function, axis=axis, keep=keep, dtype=dtype, range=bounds)


@production(0.7)
def tuple_reduction(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    chosen = _reducible(g, shape)
    if dtype not in ("int32", "int64", "int16") or chosen is None or not g.cost(chosen[0], SLOW):
        return None
    source, axis, keep = chosen
    if axis is None:
        return None
    pair = [g.value(dtype, source, depth), g.value(dtype, source, depth)]
    function = g.pick(("c_both", "c_best"))
    which = g.random.randrange(2)
    bounds = pair[which].range if function == "c_best" else ranges.everything(dtype)
    return make(
        "reduce", *pair, function=function, axis=axis, keep=keep, which=which, dtype=dtype, range=bounds
    )


@production(2)
def scan(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    kind = TYPES[dtype].kind
    if not shape or dtype == "int1" or (kind == "f" and dtype not in FLOATS):
        return None
    axis, reverse = g.random.randrange(len(shape)), g.chance(0.4)
    function = g.pick(("cumsum", "cumprod")) if kind != "f" else "cumsum"
    if math.prod(shape) <= SLOW and g.chance(0.5):
        wanted = (*COMMUTING, "c_last", "c_first", "c_affine")
        function = g.pick([c for c in wanted if kind != "f" or c not in (*BITS, "c_mul", "c_affine")])
    values = [ordinary(g, g.value(dtype, shape, depth)) for _ in range(2 if function == "c_affine" else 1)]
    bounds = (
        values[0].range if function in ("c_max", "c_min", "c_last", "c_first") else ranges.everything(dtype)
    )
    if function in ("cumsum", "c_add"):
        if kind == "f":
            values = [bounded(values[0], *limits(dtype))]
        bounds = _summed(dtype, values[0].range, shape[axis])
        if kind == "f" and bounds is None:
            return None
    which = g.random.randrange(len(values))
    return make("scan", *values, function=function, axis=axis, reverse=reverse, which=which, range=bounds)


@production(0.5)
def histogram(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if dtype != "int32" or len(shape) != 1 or shape[0] > 64:
        return None
    count = g.pick([16, 32, 64])
    inner = bounded(g.value("int32", (count,), depth), 0, shape[0] - 1)
    return make("histogram", inner, bins=shape[0], range=(0, count))


# accumulator -> operands it is the sum of products of
DOT_TYPES = {
    "float32": ("float32", "float32", "float16", "bfloat16", "float8e5", "float8e4nv"),
    "float64": ("float64",),
    "int32": ("int8",),
}


@production(3)
def product(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if dtype not in DOT_TYPES or len(shape) not in (2, 3) or math.prod(shape) > 1024:
        return None
    depth_of_sum = g.pick([*shape[-2:], *g.extents])
    of = g.pick(DOT_TYPES[dtype])
    before, (rows, columns) = shape[:-2], shape[-2:]
    if not g.cost((*before, rows, depth_of_sum)) or not g.cost((*before, depth_of_sum, columns)):
        return None
    a = small(g, of, (*before, rows, depth_of_sum), depth)
    b = small(g, of, (*before, depth_of_sum, columns), depth)
    args = [a, b]
    bounds = ranges.whole(dtype, -64 * depth_of_sum, 64 * depth_of_sum)
    if g.chance(0.6):
        accumulator = g.value(dtype, shape, depth)
        if TYPES[dtype].kind == "f":
            accumulator = bounded(accumulator, -(2**15), 2**15 - 1)
        args.append(accumulator)
        bounds = ranges.binary("+", dtype, bounds, accumulator.range)
    return make("dot", *args, out=dtype, range=bounds)
