"""Productions and actions that touch memory: loads, stores, atomics, in place, through chosen pointers."""

from __future__ import annotations

import math

from fuzz import ranges
from fuzz.generate_index import anywhere, apart, mask
from fuzz.generate_values import bounded, constant, limits
from fuzz.generator import Generator, Variable, action, production
from fuzz.ops import make
from fuzz.program import Do, Expr, Range, Shape
from fuzz.types import FLOATS, INTEGERS, TYPES


def room_of(pointer: Expr) -> tuple[int, int]:
    assert pointer.range is not None
    return pointer.range


def bounds_of(pointer: Expr) -> Range:
    """What the memory behind a pointer holds."""
    return pointer.attrs.get("bounds", ranges.everything(pointer.dtype[1:]))


def offset(pointer: Expr, index: Expr) -> Expr:
    return make("addptr", pointer, index, range=None, bounds=bounds_of(pointer))


def size_for(g: Generator, shape: Shape) -> int:
    return max(math.prod(shape), 16) + g.pick([0, 0, 1, 5, math.prod(shape), 256])


def base(g: Generator, dtype: str, shape: Shape) -> Expr:
    """A pointer with room for a tile: an argument, or one of the pointers in scope."""
    known = [v for v in g.find("*" + dtype, ()) if v.bounds and v.bounds[1] - v.bounds[0] >= math.prod(shape)]
    if known and g.chance(0.5):
        return read_pointer(g, g.pick(known))
    return g.tensor(dtype, size_for(g, shape))


def read_pointer(g: Generator, variable: Variable) -> Expr:
    return make("var", name=variable.name, dtype=variable.dtype, shape=variable.shape, range=variable.bounds)


def from_pointer(g: Generator, places: Expr, depth: int) -> Expr:
    """A load, masked or not."""
    dtype, shape = places.dtype[1:], places.shape
    bounds = bounds_of(places)
    if g.chance(0.5):
        return make("load", places, first=1, range=bounds)
    condition = mask(g, shape, depth)
    if g.chance(0.4):
        bounds = ranges.union(bounds, (0, 0))
        return make("load", places, condition, first=1, range=bounds)
    low, high = limits(dtype)
    other = constant(g.random.randint(low, high), dtype)
    if shape and g.chance(0.3) and (dtype in FLOATS or TYPES[dtype].kind in "iub"):
        other = g.value(dtype, shape, depth)
    return make("load", places, condition, other, first=1, range=ranges.union(bounds, other.range))


def load(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr:
    tiles = g.find("*" + dtype, shape) if shape else []
    if tiles and g.chance(0.5):
        return from_pointer(g, read_pointer(g, g.pick(tiles)), depth)
    pointer = base(g, dtype, shape)
    return from_pointer(g, offset(pointer, anywhere(g, shape, room_of(pointer), depth)), depth)


@production(3)
def loaded(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    return None if g.pure else load(g, dtype, shape, depth)


def keep(value: Expr, pointer: Expr) -> Expr:
    """The value, within what the memory behind a pointer is known to hold."""
    bounds = bounds_of(pointer)
    if bounds is None or ranges.inside(value.range, *bounds):
        return value
    return bounded(value, *limits(value.dtype))


def stored(g: Generator, places: Expr, depth: int) -> None:
    value = keep(g.value(places.dtype[1:], places.shape, depth), places)
    condition = [mask(g, places.shape, depth)] if g.chance(0.5) else []
    g.emit(Do(make("store", places, value, *condition, first=2)))


def stored_types(g: Generator) -> list[str]:
    return [*g.types, *g.types, "int1", "bfloat16", "float8e5"]


@action(3)
def store(g: Generator) -> None:
    dtype, shape = g.pick(stored_types(g)), g.shape()
    tiles = [v for v in g.scope if v.dtype.startswith("*") and v.shape and v.name.startswith("u")]
    if tiles and g.chance(0.5):
        stored(g, read_pointer(g, g.pick(tiles)), g.depth)
        return
    pointer = base(g, dtype, shape)
    stored(g, offset(pointer, apart(g, shape, room_of(pointer))), g.depth)


@action(2)
def in_place(g: Generator) -> None:
    """Load a tile, store over the places it came from (moved, transposed), and use the old values afterwards."""
    shape = g.shape((1, 1, 2, 2, 3))
    dtype = g.pick(g.types)
    pointer = base(g, dtype, shape)
    source = anywhere(g, shape, room_of(pointer), 1)
    old = g.declare(from_pointer(g, offset(pointer, source), 1), prefix="old")
    value: Expr = g.read(old)
    if len(shape) == 2 and shape[0] == shape[1] and g.chance(0.5):
        value = make("trans", value, order=(1, 0), range=value.range)
    elif g.chance(0.5):
        value = keep(g.value(dtype, shape, g.depth), pointer)
    places = offset(pointer, apart(g, shape, room_of(pointer)))
    g.emit(Do(make("store", places, keep(value, pointer), first=2)))
    if g.chance(0.5):
        from fuzz.generate_control import show

        show(g, old)


@action(1)
def pointer_tile(g: Generator) -> None:
    """A tile of pointers with a name, for loads and stores through it."""
    dtype, shape = g.pick(g.types), g.shape((1, 1, 2, 2, 3))
    pointer = base(g, dtype, shape)
    if bounds_of(pointer) != ranges.everything(dtype):
        pointer = g.tensor(dtype, size_for(g, shape), values="any", apart=True)
    if g.chance(0.5):
        g.declare(offset(pointer, apart(g, shape, room_of(pointer))), prefix="u")
    else:
        g.declare(offset(pointer, anywhere(g, shape, room_of(pointer), 1)), prefix="q")


@action(1)
def chosen_pointer(g: Generator) -> None:
    """A pointer picked by a condition, scalar or by element."""
    dtype = g.pick([t for t in g.types if TYPES[t].kind in "iu"] or ["int32"])
    a, b = (g.tensor(dtype, 300, values="any") for _ in range(2))
    if g.chance(0.5):
        low, high = room_of(a)
        room = (low, min(high, room_of(b)[1]))
        chosen = make("where", g.value("int1", (), 1), a, b, range=room)
        g.declare(chosen, prefix="base")
        return
    shape = g.shape((1, 2))
    if math.prod(shape) > 256:
        return
    places = [offset(p, apart(g, shape, room_of(p))) for p in (a, b)]
    g.declare(make("where", g.value("int1", shape, 1), *places), prefix="q")


ATOMICS = ("add", "max", "min", "and", "or", "xor", "xchg")


@action(1)
def atomic(g: Generator) -> None:
    """Where places are shared the result must not depend on the order; only where they are not is it used."""
    dtype = g.pick(("int32", "int32", "int64", "uint32", "uint64", "float32"))
    symbol = g.pick(ATOMICS) if dtype != "float32" else "add"
    shape = g.shape((1, 1, 2))
    values = "any" if dtype in INTEGERS else "small"
    pointer = g.tensor(dtype, size_for(g, shape), values=values, apart=True)
    alone = symbol == "xchg" or dtype == "float32" or g.chance(0.5)
    index = apart(g, shape, room_of(pointer)) if alone else anywhere(g, shape, room_of(pointer), 1)
    value = keep(g.value(dtype, shape, g.depth), pointer)
    condition = [mask(g, shape, 1)] if g.chance(0.5) else []
    made = make(
        "atomic",
        offset(pointer, index),
        value,
        *condition,
        symbol=symbol,
        first=2,
        range=ranges.everything(dtype),
    )
    if alone and not condition and g.chance(0.5) and dtype != "float32":
        g.declare(made)
    else:
        g.emit(Do(made))


@action(0.4)
def compare_and_swap(g: Generator) -> None:
    dtype, shape = g.pick(("int32", "int64")), g.shape((1, 1, 2))
    pointer = g.tensor(dtype, size_for(g, shape), values="any", apart=True)
    places = offset(pointer, apart(g, shape, room_of(pointer)))
    value, expected = g.value(dtype, shape, g.depth), g.value(dtype, shape, 1)
    g.declare(make("atomic", places, expected, value, symbol="cas", first=3, range=ranges.everything(dtype)))
