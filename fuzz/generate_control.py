"""Actions: assignments, loops, branches, early returns, device functions. And the program as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable

from fuzz import generate_memory, ranges
from fuzz.generate_index import linear, mask
from fuzz.generate_values import bounded, limits
from fuzz.generator import Generator, Variable, action, production
from fuzz.ops import make
from fuzz.program import Assign, Do, Expr, For, Function, If, Return, Shape
from fuzz.types import FLOATS, TYPES


def within(value: Expr, variable: Variable) -> Expr:
    """The value, as the variable promises it."""
    if variable.bounds is None or ranges.inside(value.range, *variable.bounds):
        return value
    return bounded(value, *variable.bounds)


@action(5)
def compute(g: Generator) -> None:
    dtype, shape = g.pick([*g.types, "int1"]), g.shape()
    value = g.value(dtype, shape, g.depth)
    if g.loops or g.chance(0.5):  # a variable that loops may assign needs bounds that last
        whole = dtype == "int1" or (TYPES[dtype].kind in "iu" and g.chance(0.5))
        bounds = ranges.everything(dtype) if whole else limits(dtype)
        value = value if whole else bounded(value, *bounds)
        g.declare(value, bounds)
    else:
        g.declare(value, ranges.everything(dtype) if TYPES[dtype].kind == "f" else None)


def assignable(g: Generator) -> list[Variable]:
    return [v for v in g.scope if not v.fixed and not v.dtype.startswith("*") and (v.bounds or _free(v))]


def _free(v: Variable) -> bool:
    return TYPES[v.dtype].kind == "f"


@action(4)
def update(g: Generator) -> None:
    """A new value for a variable; in a loop this is what makes it carried."""
    known = assignable(g)
    if not known:
        return
    target = g.pick(known)
    if not _keeps(target):
        return
    value = within(g.value(target.dtype, target.shape, g.depth), target)
    g.emit(Assign((target.name,), value))


def _keeps(v: Variable) -> bool:
    """Whether any value can be brought within the variable's bounds."""
    return v.bounds in (None, limits(v.dtype), ranges.everything(v.dtype))


@action(1)
def swap(g: Generator) -> None:
    known = [v for v in assignable(g) if _keeps(v)]
    pairs = [(a, b) for a in known for b in known if a is not b and _alike(a, b)]
    if not pairs:
        return
    a, b = g.pick(pairs)
    third = g.fresh("t")
    for target, source in ((third, a), (a.name, b)):
        g.emit(Assign((target,), g.read(source)))
    g.emit(Assign((b.name,), make("var", name=third, dtype=a.dtype, shape=a.shape, range=a.bounds)))


def _alike(a: Variable, b: Variable) -> bool:
    return (a.dtype, a.shape, a.bounds) == (b.dtype, b.shape, b.bounds)


def steps(g: Generator, low: int, high: int) -> None:
    if len(g.block) > 25:  # actions that add many statements may follow each other
        return
    for _ in range(g.random.randint(low, high)):
        g.weighted(g.actions or {"compute": (1, compute)})(g)


def _count(g: Generator) -> Expr | int:
    if g.chance(0.3):
        return g.random.randint(0, 3)
    value = g.scalar() if g.chance(0.4) else g.value("int32", (), 1)
    return bounded(value, 0, 3)


def repeat(g: Generator, build: Callable[[], None], trips: int | None = None) -> None:
    """A loop of up to three trips around what `build` adds."""
    how = g.pick(("range", "range", "range", "tl.range", "while", "tl.static_range"))
    count = _count(g) if trips is None and how != "tl.static_range" else trips
    if count is None:
        count = g.random.randint(0, 3)
    first, step = (
        (0, 1) if how == "while" or g.chance(0.7) else (g.random.randint(-2, 5), g.pick([1, 2, 3, -1, -2]))
    )
    bounds = (min(first, first + 3 * step), max(first, first + 3 * step))
    counter = Variable(g.fresh("i"), "int32", (), bounds, fixed=True)

    def with_counter() -> None:
        g.scope.append(counter)
        build()

    g.loops += 1
    body = g.nested(with_counter)
    g.loops -= 1
    g.emit(For(counter.name, count, body, how, first, step))


@action(2)
def loop(g: Generator) -> None:
    if g.loops >= 2:
        return

    def build() -> None:
        update(g)
        steps(g, 1, 3)
        if g.chance(0.5):
            update(g)

    repeat(g, build)


@action(0.7)
def walking_pointer(g: Generator) -> None:
    """A tile of pointers that a loop moves along, loaded from and perhaps stored to."""
    if g.loops:
        return
    dtype, shape = g.pick(g.types), g.shape((1, 1, 2))
    step = g.pick([1, 2, 4, 16, 32])
    pointer = g.tensor(dtype, generate_memory.size_for(g, shape) + 3 * step)
    low, high = generate_memory.room_of(pointer)
    index = generate_memory.apart(g, shape, (low, high - 3 * step))
    places = g.declare(generate_memory.offset(pointer, index), prefix="w")
    g.scope.pop()
    here = make("var", name=places.name, dtype=places.dtype, shape=shape, bounds=pointer.attrs["bounds"])
    total = g.declare(bounded(g.value(dtype, shape, 1), *limits(dtype)), limits(dtype))

    def build() -> None:
        here_now = g.declare(generate_memory.from_pointer(g, here, 1))
        if g.chance(0.5):
            generate_memory.stored(g, here, 1)
        symbol = "+" if dtype == "bfloat16" else g.pick(("+", "maximum"))
        sum_of = make("binary", g.read(total), g.read(here_now), symbol=symbol)
        g.emit(Assign((total.name,), within(sum_of, total)))
        steps(g, 0, 1)
        moved = make("addptr", here, make("const", value=step, dtype="int32", shape=()))
        g.emit(Assign((places.name,), moved))

    repeat(g, build)


@action(1.5)
def branch(g: Generator) -> None:
    if g.nesting >= 3:
        return
    condition = g.value("int1", (), 2)

    def build() -> None:
        update(g)
        steps(g, 0, 2)

    body = g.nested(build)
    orelse = g.nested(build) if g.chance(0.5) else ()
    g.emit(If(condition, body, orelse))


@action(0.3)
def leave(g: Generator) -> None:
    if not g.loops and len(g.block) > 2:
        g.emit(Return(g.value("int1", (), 2)))


@production(1)
def called(g: Generator, dtype: str, shape: Shape, depth: int) -> Expr | None:
    """A device function of this kernel, inlined or not."""
    if g.pure or dtype not in (*FLOATS, "int32", "int64", "int1", "uint8", "int16"):
        return None
    noinline = g.chance(0.5)  # Triton refuses tiles as arguments of such a function
    shapes = [()] if noinline else [shape, shape, ()]
    takes = [(g.pick(g.types), g.pick(shapes)) for _ in range(g.random.randint(1, 2))]
    names = [f"x{i}" for i in range(len(takes))]
    scope, g.pure = g.scope, True
    g.scope = [Variable(n, d, s, ranges.everything(d)) for n, (d, s) in zip(names, takes)]
    result = g.value(dtype, shape, 2)
    g.scope, g.pure = scope, False
    function = Function(g.fresh("f"), tuple((n, d, s) for n, (d, s) in zip(names, takes)), result, noinline)
    g.functions.append(function)
    args = [g.value(d, s, depth) for d, s in takes]
    return make(
        "call",
        *args,
        name=function.name,
        takes=tuple(takes),
        dtype=dtype,
        shape=shape,
        range=ranges.everything(dtype),
    )


@action(1)
def named_mask(g: Generator) -> None:
    shape = g.shape((1, 1, 2))
    made = mask(g, shape, g.depth)
    g.declare(
        made if made.shape == shape else make("broadcast", made, shape=shape, range=(0, 1)), (0, 1), "m"
    )


@action(1)
def output(g: Generator) -> None:
    known = [v for v in g.scope if not v.dtype.startswith("*")]
    if known:
        show(g, g.pick(known))


def show(g: Generator, variable: Variable, ulps: int = 0) -> None:
    """Store a variable where nothing else is stored."""
    pointer = g.output(variable.dtype, math.prod(variable.shape), ulps)
    places = make("addptr", pointer, linear(variable.shape, list(range(len(variable.shape)))))
    g.emit(Do(make("store", places, g.read(variable), first=2)))
