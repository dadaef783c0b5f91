"""The loop that every matrix product is: tiles walk along two tensors, a product gathers in a third.

Compilers know it and do much to it (packing, prefetching, accumulating in place), so it comes with what they must
not be misled by: masks, tiles the other way round, stores into the tensors that are still read.
"""

from __future__ import annotations

from fuzz.generate_control import repeat, show, steps
from fuzz.generate_index import mask
from fuzz.generate_tiles import DOT_TYPES
from fuzz.generate_values import binary, constant, iota
from fuzz.generator import Generator, action
from fuzz.ops import make
from fuzz.program import Assign, Do, Expr, Shape


def _tile(g: Generator, dtype: str, shape: Shape, along: int, trips: int) -> tuple[str, Expr, int]:
    """A tile of pointers that has room for `trips` steps along an axis: its name, itself and the step."""
    rows, columns = shape
    stride = columns * (trips if along == 1 else 1) + g.pick([0, 0, 1, 8])
    size = stride * rows * (trips if along == 0 else 1) + columns * trips
    pointer = g.tensor(dtype, size, values="unit")
    index = binary("+", binary("*", iota(shape, 0), constant(stride, "int32")), iota(shape, 1))
    places = make("addptr", pointer, index, bounds=(-1, 1))
    name = g.declare(places, prefix="w").name
    g.scope.pop()
    here = make("var", name=name, dtype=places.dtype, shape=shape, bounds=(-1, 1))
    return name, here, columns if along == 1 else stride * rows


def _loaded(g: Generator, here: Expr) -> Expr:
    if g.chance(0.6):
        return make("load", here, first=1)
    condition = mask(g, here.shape, 1)
    if g.chance(0.3):
        return make("load", here, condition, first=1)
    return make("load", here, condition, constant(g.pick([0, 1]), here.dtype[1:]), first=1)


@action(0.8)
def matmul(g: Generator) -> None:
    if g.loops:
        return
    out = g.pick(("float32", "float32", "float32", "float64", "int32"))
    of = g.pick(DOT_TYPES[out])
    rows, columns, depth = (g.pick((1, 4, 8, 16, 16, 32, 64)) for _ in range(3))
    turned_a, turned_b = g.chance(0.25), g.chance(0.25)
    a_shape, b_shape = (rows, depth), (depth, columns)
    a = _tile(g, of, a_shape[::-1] if turned_a else a_shape, 0 if turned_a else 1, 3)
    b = _tile(g, of, b_shape[::-1] if turned_b else b_shape, 1 if turned_b else 0, 3)
    total = g.declare(make("const", value=g.pick([0, 0, 1]), dtype=out, shape=(rows, columns)), prefix="acc")
    g.scope.pop()

    def build() -> None:
        tiles = []
        for (_, here, _), turned in ((a, turned_a), (b, turned_b)):
            tile = g.declare(_loaded(g, here), (-1, 1), prefix="a")
            g.scope.pop()
            value = g.read(tile)
            tiles.append(make("trans", value, order=(1, 0)) if turned else value)
        if g.chance(0.3):
            _spoil(g, g.pick((a, b)))
        current = make("var", name=total.name, dtype=out, shape=total.shape)
        product = make("dot", *tiles, *([current] if g.chance(0.6) else []), out=out)
        if len(product.args) == 2 and g.chance(0.8):
            product = make("binary", current, product, symbol="+")
        g.emit(Assign((total.name,), product))
        if g.chance(0.2):
            _spoil(g, g.pick((a, b)))
        steps(g, 0, 1)
        for name, here, step in (a, b):
            if g.chance(0.9):
                g.emit(Assign((name,), make("addptr", here, constant(step, "int32"))))

    repeat(g, build)
    show(g, total)


def _spoil(g: Generator, walker: tuple[str, Expr, int]) -> None:
    """Store over the tile that is loaded now."""
    _, here, _ = walker
    dtype = here.dtype[1:]
    value = make("binary", iota(here.shape, 0), constant(1, "int32"), symbol="&")
    spread = make("broadcast", value, shape=here.shape)
    through = spread if dtype in ("int8",) else make("cast", spread, to="float32")
    stored = through if through.dtype == dtype else make("cast", through, to=dtype)
    g.emit(Do(make("store", here, stored, *([mask(g, here.shape, 1)] if g.chance(0.5) else []), first=2)))
