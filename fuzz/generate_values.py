"""Productions: leaves, arithmetic, comparisons, conversions, selections."""

from __future__ import annotations

from fuzz import ranges
from fuzz.generator import Generator, production
from fuzz.ops import make
from fuzz.program import Expr, Shape
from fuzz.types import ARITHMETIC, TYPES

INT_SYMBOLS = ("+", "-", "*", "&", "|", "^", "<<", ">>", "//", "%", "maximum", "minimum")
FLOAT_SYMBOLS = ("+", "-", "*", "maximum", "minimum")
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


def constant(value: int | float, dtype: str, shape: Shape = ()) -> Expr:
    bounds = (int(value), int(value)) if value == int(value) else None
    if dtype.startswith("float8"):  # the interpreter takes the number for bits
        return cast(constant(value, "float32", shape), dtype)
    return make("const", value=value, dtype=dtype, shape=shape, range=bounds)


def binary(symbol: str, a: Expr, b: Expr) -> Expr:
    return make("binary", a, b, symbol=symbol, range=ranges.binary(symbol, a.dtype, a.range, b.range))


def cast(value: Expr, to: str) -> Expr:
    return value if value.dtype == to else make("cast", value, to=to, range=ranges.cast(to, value.range))


def iota(shape: Shape, axis: int) -> Expr:
    """The index along an axis, with extents of 1 elsewhere."""
    index = make("arange", n=shape[axis], range=(0, shape[axis] - 1))
    for other in range(len(shape)):
        if other != axis:
            index = make("expand", index, axis=other, range=index.range)
    return index


def spread(value: Expr, shape: Shape) -> Expr:
    """A scalar or a tile with extents of 1, at its full shape."""
    return value if value.shape == shape else make("broadcast", value, shape=shape, range=value.range)


def bounded(value: Expr, low: int, high: int) -> Expr:
    """The value, brought within bounds if it is not known to be. `high - low + 1` is a power of two."""
    if ranges.inside(value.range, low, high):
        return value
    kind = TYPES[value.dtype]
    if kind.kind != "f":
        mask = high - low
        kept = binary("&", value, constant(mask, value.dtype)) if mask <= kind.range[1] else value
        return binary("+", kept, constant(low, value.dtype)) if low else kept
    wide = value if value.dtype in ("float32", "float64") else cast(value, "float32")
    for symbol, limit in (("maximum", low), ("minimum", high)):
        wide = binary(symbol, wide, constant(limit, wide.dtype))
    wide = make("unary", wide, symbol="floor", range=(low, high))
    return cast(wide, value.dtype)


def limits(dtype: str) -> tuple[int, int]:
    """The bounds of values that are kept small in this type."""
    return (0, 15) if TYPES[dtype].kind == "u" else (0, 1) if dtype == "int1" else (-8, 7)


def small(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr:
    if TYPES[dtype].kind == "f" and dtype not in ARITHMETIC:
        return cast(small(g, "float32", shape, depth), dtype)
    return bounded(g.value(dtype, shape, depth), *limits(dtype))


def leaf(g: Generator, dtype: str, shape: Shape) -> Expr:
    known = g.find(dtype, shape)
    if g.leaves > 8:
        return constant(g.random.randint(*limits(dtype)), dtype, shape)
    if known and g.chance(0.8):
        return g.read(g.pick(known))
    if dtype == "int1":
        return spread(_compare(g, "int32", shape, 0), shape)
    if dtype == "int32" and shape and g.chance(0.5):
        return spread(iota(shape, g.random.randrange(len(shape))), shape)
    if dtype == "int32" and not shape and not g.pure and g.chance(0.5):
        return g.scalar()
    if not g.pure and shape and g.leaves < 3 and g.chance(0.65):
        from fuzz.generate_memory import load

        return load(g, dtype, shape, 0)
    value = g.random.randint(*limits(dtype))
    if dtype in ARITHMETIC and g.chance(0.3):
        return constant(value / 4, dtype, shape)
    return constant(value, dtype, shape)


def _narrowed(g: Generator, shape: Shape) -> Shape:
    """The shape, or one that broadcasts to it."""
    if not shape or g.chance(0.5):
        return shape
    return tuple(1 if g.chance(0.4) else extent for extent in shape)


def _operands(g: Generator, dtype: str, shape: Shape, depth: int) -> tuple[Expr, Expr]:
    narrow = g.pick([(), _narrowed(g, shape)])
    a, b = g.value(dtype, shape, depth), g.value(dtype, narrow, depth)
    return (a, b) if g.chance(0.5) or not b.shape else (b, a)


@production(6)
def arithmetic(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    kind = TYPES[dtype]
    if kind.kind == "f" and dtype not in ARITHMETIC:
        return cast(small(g, "float32", shape, depth), dtype)
    symbols = ("&", "|", "^") if kind.kind == "b" else INT_SYMBOLS if kind.kind != "f" else FLOAT_SYMBOLS
    symbol = g.pick(symbols if dtype != "bfloat16" else ("+", "-", "*"))  # maximum would widen it
    a, b = _operands(g, dtype, shape, depth)
    if symbol in ("<<", ">>", "//", "%"):
        a, b = g.value(dtype, shape, depth), _second(g, symbol, dtype, shape, depth)
    return binary(symbol, a, b)


def _second(g: Generator, symbol: str, dtype: str, shape: Shape, depth: int) -> Expr:
    """A shift less than the width, or a divisor greater than zero."""
    if g.chance(0.5):
        return constant(g.random.randint(*((0, 7) if symbol in ("<<", ">>") else (1, 12))), dtype)
    amount = bounded(g.value(dtype, _narrowed(g, shape), depth), 0, 7)
    return amount if symbol in ("<<", ">>") else binary("+", amount, constant(1, dtype))


@production(2)
def unary(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    kind = TYPES[dtype].kind
    if kind == "f" and dtype not in ARITHMETIC:
        return None
    if kind == "b":
        return make("unary", g.value(dtype, shape, depth), symbol="~", range=(0, 1))
    value = g.value(dtype, shape, depth)
    symbol = g.pick(("-", "abs") if kind == "f" else ("-", "~", "abs") if kind == "i" else ("~",))
    bounds = ranges.everything(dtype)
    if value.range is not None and symbol != "~":
        size = max(map(abs, value.range))
        bounds = ranges.whole(dtype, -size, size)
    return make("unary", value, symbol=symbol, range=bounds)


@production(1)
def rounding(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if dtype not in ("float32", "float64"):
        return None
    value = g.value(dtype, shape, depth)
    symbol = g.pick(("floor", "ceil"))
    if g.chance(0.2):  # division and roots are rounded once, everywhere
        divisor = binary("+", make("unary", g.value(dtype, shape, depth), symbol="abs"), constant(1, dtype))
        return make("binary", value, divisor, symbol="/")
    if g.chance(0.2):
        return make(
            "unary", make("unary", value, symbol="abs"), symbol="sqrt_rn" if dtype == "float32" else "sqrt"
        )
    return make("unary", value, symbol=symbol, range=value.range)


@production(0.5)
def fused(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    """Operations of several operands or of the upper half of a product."""
    if dtype in ("float32", "float64"):
        return make("fma", *(g.value(dtype, shape, depth) for _ in range(3)))
    if dtype not in ("int32", "uint32") or not shape:
        return None
    bounds = TYPES[dtype].range
    return make(
        "binary", g.value(dtype, shape, depth), g.value(dtype, shape, depth), symbol="umulhi", range=bounds
    )


@production(3)
def select(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    a, b = _operands(g, dtype, shape, depth)
    condition = g.value("int1", _narrowed(g, shape), depth)
    return make("where", condition, a, b, range=ranges.union(a.range, b.range))


def _compare(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr:
    a, b = _operands(g, dtype, shape, depth)
    return make("compare", a, b, symbol=g.pick(COMPARISONS), range=(0, 1))


@production(3)
def comparison(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    if dtype != "int1":
        return None
    return _compare(g, g.pick([t for t in g.types if TYPES[t].kind != "b"]), shape, depth)


@production(3)
def conversion(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    source = g.pick(g.types)
    if dtype == "int1" or source == dtype:
        return None
    value = g.value(source, shape, depth)
    to, of = TYPES[dtype], TYPES[source]
    if to.kind == "f":
        if to.bits >= 32:
            return cast(value, dtype)
        return cast(cast(bounded(value, *limits(source)), "float32"), dtype)
    if of.kind == "f":  # what lies outside of the integers is not defined
        low, high = (0, 15) if to.kind == "u" else (-8, 7)
        if g.chance(0.5) and value.dtype == "float32":
            for symbol, limit in (("maximum", low), ("minimum", high)):
                value = binary(symbol, value, constant(limit, source))
            return make("cast", value, to=dtype, range=(low, high))
        return cast(bounded(value, low, high), dtype)
    return cast(value, dtype)


@production(0.7)
def bitcast(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    kind = TYPES[dtype]
    if kind.kind not in "iu" or not g.wraps:
        return None
    source = ("u" if kind.kind == "i" else "") + f"int{kind.bits}"
    return make("cast", g.value(source, shape, depth), to=dtype, bitcast=True, range=kind.range)


@production(1)
def truth(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    """A condition as a number."""
    if dtype == "int1" or (TYPES[dtype].kind == "f" and dtype not in ARITHMETIC):
        return None
    return cast(g.value("int1", shape, depth), dtype)


@production(1)
def wrapped(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    """Through a narrower or unsigned type and back, which wraps around."""
    if TYPES[dtype].kind not in "iu" or not g.wraps:
        return None
    through = g.pick(("int8", "uint8", "int16", "uint16", "uint32"))
    moved = binary(g.pick("+-*"), g.value(dtype, shape, depth), constant(g.random.randint(0, 40), dtype))
    return cast(cast(moved, through), dtype)
