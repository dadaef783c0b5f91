"""Actions that random statements seldom arrive at: what people write, and what compilers get wrong in it."""

from __future__ import annotations

import math

from fuzz import ranges
from fuzz.generate_control import repeat, show, steps
from fuzz.generate_index import linear
from fuzz.generate_memory import apart, from_pointer, offset, room_of, stored
from fuzz.generate_values import binary, bounded, cast, constant, limits
from fuzz.generator import Generator, Variable, action
from fuzz.ops import make
from fuzz.program import Assign, Do, Expr, If, Shape
from fuzz.types import TYPES


def plain(g: Generator, dtype: str, shape: Shape, values: str) -> tuple[Expr, Expr]:
    """A tile loaded from memory, and the places it came from."""
    pointer = g.tensor(dtype, max(math.prod(shape), 16), values=values)
    places = offset(pointer, linear(shape, list(range(len(shape)))))
    return make("load", places, first=1, range=pointer.attrs["bounds"]), places


@action(1)
def dot_loop(g: Generator) -> None:
    """Products whose result is their next operand: every way to take a place that is still read."""
    extent = g.pick((1, 2, 4, 8, 16, 16, 32, 64))
    shape, dtype = (extent, extent), g.pick(("float32", "float32", "float64", "int8"))
    loaded, places = plain(g, dtype, shape, "unit")
    a = g.declare(loaded, prefix="a")
    first, _ = plain(g, dtype, shape, "unit")
    x = g.declare(first, ranges.everything(dtype), prefix="x")
    y = g.declare(g.read(x), ranges.everything(dtype), prefix="x")
    g.scope = [
        v for v in g.scope if v not in (x, y)
    ]  # other statements might make them too large to be exact

    def build() -> None:
        for _ in range(g.random.randint(1, 2)):
            _dot_step(g, a, x, y, places)
        steps(g, 0, 1)

    repeat(g, build, g.random.randint(0, 2))
    show(g, x)
    if g.chance(0.5):
        show(g, y)


def _dot_step(g: Generator, a: Variable, x: Variable, y: Variable, places: Expr) -> None:
    """One assignment of a product, or of a tile, or a store over an operand's memory."""
    out = "int32" if a.dtype == "int8" else a.dtype

    def turned(e: Expr) -> Expr:
        return make("trans", e, order=(1, 0)) if g.chance(0.25) else e

    left, right = g.pick(((a, x), (x, a), (a, y), (y, a), (a, a)))
    args = [turned(g.read(left)), turned(g.read(right))]
    if g.chance(0.4):
        args.append(cast(g.read(g.pick((x, y, a))), out))
    product = cast(make("dot", *args, out=out), a.dtype)
    choice = g.random.random()
    if choice < 0.5:
        g.emit(Assign((g.pick((x, y)).name,), product))
    elif choice < 0.65:
        target, source = g.pick(((x, y), (y, x)))
        g.emit(Assign((target.name,), turned(g.read(source))))
    elif choice < 0.8:
        g.emit(Do(make("store", places, turned(g.read(a)), first=2)))
        g.emit(Assign((x.name,), product))
    else:
        g.emit(Assign((x.name,), product))
        show(g, g.pick((x, a)))


@action(1)
def base_by_branch(g: Generator) -> None:
    """A pointer that an `if` chooses, loaded from and stored to beside the ones it was chosen from."""
    dtype = g.pick([t for t in g.types if TYPES[t].kind in "iu"] or ["int32"])
    a, b = (g.tensor(dtype, 300, values="any") for _ in range(2))
    room = (0, min(room_of(a)[1], room_of(b)[1]))
    base = g.declare(a, room, "base")
    g.emit(If(g.value("int1", (), 1), (Assign((base.name,), b),)))
    shape = g.shape((1, 1, 2))
    if math.prod(shape) > 256:
        return
    chosen = make("var", name=base.name, dtype=base.dtype, shape=(), range=room)
    old = g.declare(from_pointer(g, offset(chosen, apart(g, shape, room)), 1), prefix="old")
    stored(g, offset(g.pick((a, b, chosen)), apart(g, shape, room)), 1)
    show(g, old)


@action(0.7)
def walking_base(g: Generator) -> None:
    """A scalar pointer that a loop moves along."""
    if g.loops:
        return
    dtype, shape = g.pick(g.types), g.shape((1, 1, 2))
    step = g.pick([1, 3, 4, 16])
    pointer = g.tensor(dtype, max(math.prod(shape), 16) + 3 * step)
    low, high = room_of(pointer)
    base = g.declare(pointer, prefix="w")
    g.scope.pop()
    here = make("var", name=base.name, dtype=base.dtype, shape=(), bounds=pointer.attrs["bounds"])
    total = g.declare(bounded(g.value(dtype, shape, 1), *limits(dtype)), limits(dtype))

    def build() -> None:
        index = apart(g, shape, (low, high - 3 * step))
        value = g.declare(from_pointer(g, offset(here, index), 1))
        if g.chance(0.6):
            stored(g, offset(g.pick((here, here, pointer)), apart(g, shape, (low, high - 3 * step))), 1)
        sum_of = binary("+", g.read(total), g.read(value)) if dtype != "int1" else g.read(value)
        g.emit(Assign((total.name,), bounded(sum_of, *limits(dtype))))
        g.emit(Assign((base.name,), make("addptr", here, constant(step, "int32"))))

    repeat(g, build)


@action(0.3)
def chain(g: Generator) -> None:
    """Each value uses the one before twice: what is computed again for each use takes exponential time."""
    shape = g.shape((1, 2))
    dtype = g.pick(("int32", "float32", "uint8"))
    value = g.declare(g.value(dtype, shape, 1))
    for _ in range(g.random.randint(4, 10)):
        before = g.read(value)
        symbol = g.pick(("maximum", "minimum", "-", "+"))
        made = binary(symbol, binary("*", before, before), before)
        if dtype == "float32":
            made = binary("-", bounded(made, -(2**10), 2**10 - 1), before)
        value = g.declare(made)
    show(g, value)


FUNCTIONS = ("exp", "exp2", "sin", "cos", "log", "log2", "erf", "rsqrt")


@action(0.4)
def function_of(g: Generator) -> None:
    """A transcendental function, straight to memory: its last bits may differ, and must not spread."""
    dtype, shape = g.pick(("float32", "float64")), g.shape((1, 2))
    symbol = g.pick(FUNCTIONS)
    value = bounded(g.value(dtype, shape, g.depth), -8, 7)
    if symbol in ("log", "log2", "rsqrt"):
        value = binary("+", make("unary", value, symbol="abs"), constant(1.5, dtype))
    made = g.declare(make("unary", value, symbol=symbol), prefix="e")
    g.scope.pop()
    show(g, made, ulps=8)


@action(1)
def descriptor(g: Generator) -> None:
    """A tensor descriptor; blocks may reach over every edge."""
    dtype = g.pick([t for t in g.types if t != "int1"])
    least = 128 // TYPES[dtype].bits
    block = (g.pick([1, 2, 4, 8]), g.pick([e for e in (4, 8, 16, 32) if e >= least] or [least]))
    rows, stride = g.random.randint(1, 9), g.pick([16, 32, 48])
    columns = g.random.randint(1, stride)
    tensor = g.aligned(dtype, rows * stride)
    made = make("descriptor", tensor, rows=(rows, columns), stride=stride, block=block)
    name = g.declare(made, prefix="d").name
    g.scope.pop()
    handle = make("var", name=name, dtype=made.dtype, shape=block)

    def corner() -> list[Expr]:
        row = g.random.randint(-2, rows)
        first = constant(row, "int32") if g.chance(0.5) else bounded(g.value("int32", (), 1), 0, 3)
        return [first, constant(g.pick([0, 0, 16, 32]), "int32")]

    def build() -> None:
        bounds = ranges.union(tensor.attrs["bounds"], (0, 0))
        old = g.declare(make("block_load", handle, *corner(), range=bounds), prefix="old")
        if g.chance(0.7):
            value = g.value(dtype, block, g.depth)
            if tensor.attrs["bounds"] is not None:
                value = value if TYPES[dtype].kind in "iu" else bounded(value, *limits(dtype))
            g.emit(Do(make("block_store", handle, value, *corner())))
        if g.chance(0.7):
            show(g, old)

    if g.loops or g.chance(0.6):
        build()
    else:
        repeat(g, build)
