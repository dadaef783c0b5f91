"""What the operations of a stage cost beside each other, so that its time can be told apart by line and by kind.

In comes a stage of the scheduled IR; out go costs, in units of 0.03 ns on the core they were measured on. They are no
forecast of a time: the stage as a whole is measured, and these say what each operation has of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from xdsl.dialects.builtin import FusedLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileprobe.ir.accessors import attr_value, elem_type, op_name
from tileprobe.ir.locations import user_frames
from tileprobe.ir.parts import Frame, Spot
from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.codegen.types import bytes_of, pointee_name
from tileprobe.targets.cpu.dialect import NestOp, ReadOp, WriteOp, YieldOp
from tileprobe.targets.cpu.schedule.origin import kind_of

# In units of 0.03 ns an element, measured on a Zen 3 core (f32, 8 lanes): functions with benchmarks/vmath.py, the
# rest as the time that one more operation adds to a stage that loads and stores tiles in the first-level cache, between
# what it adds alone and what it adds to others where these differ, so that eleven planted operations came out best.
# `python -m benchmarks.costs` prints each beside what is measured; docs/reports.md has the table and how well it does.
_FUNCTIONS = {
    "sqrt": 4, "rsqrt": 8, "exp": 12, "exp2": 10, "exp10": 12, "expm1": 14, "log": 27, "log2": 27, "log10": 28,
    "log1p": 24, "sin": 28, "cos": 28, "tan": 38, "sinpi": 30, "cospi": 30, "tanh": 27, "sinh": 22, "cosh": 20,
    "asin": 11, "acos": 16, "atan": 15, "atan2": 76, "asinh": 128, "acosh": 120, "atanh": 113, "cbrt": 70,
    "rcbrt": 71, "erf": 38, "erfc": 104, "erfcx": 99, "erfinv": 240, "erfcinv": 275, "normcdf": 160,
    "normcdfinv": 283, "lgamma": 660, "tgamma": 2870, "j0": 2440, "j1": 2870, "y0": 2050, "y1": 1920,
    "cyl_bessel_i0": 245, "cyl_bessel_i1": 310, "pow": 122, "powf": 122, "hypot": 22, "rhypot": 34,
}  # fmt: skip
_FUNCTION = 30  # of any other
_CHEAP = frozenset(["absf", "absi", "fma", "floor", "ceil", "rint", "round", "trunc", "copysign"])
_DIVISION = frozenset(["divf", "remf", "precise_divf", "approx_divf"])
_INTEGER_DIVISION = frozenset(["divsi", "divui", "remsi", "remui", "ceildivsi", "floordivsi"])
SIMPLE = 0.4  # additions and the like mostly hide beside loads and stores
DIVIDE, SQUARE_ROOT = 2.0, 4.0
DIVIDE_INTEGERS = 32.0  # there is no vector instruction for it
BESIDE = 1.5  # a load or store of neighbours
APART = 12.0  # elements that are not side by side are gathered one by one
SCRATCH = 0.7  # a tile in scratch memory
ATOMIC = 200.0  # a locked instruction takes about 20 cycles, for one element
SCALAR = 8.0  # an operation on one element takes as long as one on a vector


def function_cost(name: str) -> float:
    return _FUNCTIONS.get(name, _FUNCTION)


def nest_costs(nest: NestOp) -> defaultdict[Spot, float]:
    """By kind and line, over all points of a nest. What does not vary along an axis is computed once for it."""
    facts = BodyFacts(nest)
    found: defaultdict[Spot, float] = defaultdict(float)
    for op in nest.body.block.ops:
        if isinstance(op, YieldOp):
            _add_reductions(found, nest, op, facts)
        elif isinstance(op, WriteOp):
            frames = _made_at(op)
            found[("buffer", frames)] += SCRATCH * points(nest, facts, op) if frames else 0.0
        elif frames := user_frames(op.location):
            cost = _element_cost(op, facts) * points(nest, facts, op)
            found[(_word(op), frames)] += cost
    return defaultdict(float, {spot: cost for spot, cost in found.items() if cost > 0})


def _add_reductions(found: defaultdict[Spot, float], nest: NestOp, last: YieldOp, facts: BodyFacts) -> None:
    location = last.location
    places = location.locations if isinstance(location, FusedLoc) else ()
    for value, place in zip(last.values, places):  # type: ignore[arg-type]
        points = extent(nest, facts.varies.get(value, 0))
        found[("reduce", user_frames(place))] += SIMPLE * _width(value.type) * points


def _made_at(write: WriteOp) -> tuple[Frame, ...]:
    """A tile is kept for the line that computes it."""
    owner = write.value.owner
    return user_frames(owner.location) if isinstance(owner, Operation) else ()


def points(nest: NestOp, facts: BodyFacts, op: Operation) -> float:
    bits = 0
    for value in (*op.operands, *op.results):
        bits |= facts.varies.get(value, 0)
    return extent(nest, bits)


def extent(nest: NestOp, bits: int) -> float:
    return float(math.prod(extent for n, extent in enumerate(nest.dims) if bits >> n & 1))


def _element_cost(op: Operation, facts: BodyFacts) -> float:
    name = op_name(op)
    if name in ("tt.load", "tt.store"):
        return BESIDE if _side_by_side(op, facts) else APART
    if name.startswith("tt.atomic"):
        return ATOMIC
    if isinstance(op, ReadOp) or name in ("arith.constant", "tt.addptr") or _is_index(op, facts):
        return 0.0
    return operation_cost(op)


def operation_cost(op: Operation) -> float:
    """One element of an operation that computes."""
    short = op_name(op).split(".")[-1]
    width = _width(op.results[0].type) if op.results else 1.0
    if short in _DIVISION:
        return DIVIDE * width
    if short in _INTEGER_DIVISION:
        return DIVIDE_INTEGERS * width
    if short == "precise_sqrt":
        return SQUARE_ROOT * width
    if op_name(op).startswith("math."):
        return width * (SIMPLE if short in _CHEAP else function_cost(short))
    if short == "extern_elementwise":
        return width * function_cost(_libdevice(op))
    if op.regions:
        return sum(operation_cost(inner) for region in op.regions for inner in _inner(region.blocks))
    return SIMPLE * width


def combine_costs(
    kind: str, block: Block, frames: tuple[Frame, ...], size: float
) -> defaultdict[Spot, float]:
    """Of a reduction or scan over so many elements. A combine function of the user's has its own lines, and is called
    at the line of the stage."""
    found: defaultdict[Spot, float] = defaultdict(float, {(kind, frames): 2 * SCRATCH * size})
    for op in _inner([block]):
        own = user_frames(op.location)
        inside = own if not own or own[-len(frames) :] == frames else (*own, *frames)
        found[(kind, inside or frames)] += operation_cost(op) * size
    return found


def _inner(blocks: Iterable[Block]) -> list[Operation]:
    return [op for block in blocks for op in block.ops if op.results]


def _libdevice(op: Operation) -> str:
    """`exp` of `__nv_expf` and of `__nv_fast_expf`."""
    symbol = str(attr_value(op, "symbol") or "").removeprefix("__nv_").removeprefix("fast_")
    return symbol if symbol in _FUNCTIONS else symbol.removesuffix("f")


def _side_by_side(op: Operation, facts: BodyFacts) -> bool:
    """Whether neighbours along some axis are neighbours in memory, or all are the same."""
    pointer = op.operands[0]
    axes = [axis for axis in range(len(facts.nest.dims)) if facts.depends(pointer, axis)]
    size = bytes_of(pointee_name(pointer.type))
    return not axes or any(_stride(pointer, axis, facts) == size for axis in axes)


def _stride(value: SSAValue, axis: int, facts: BodyFacts) -> int | None:
    """How a value moves along an axis. Remainders are followed without dividing, so they count as if they did not
    wrap."""
    return facts.stride(value, axis, frozenset([*facts.remainders(axis), *facts.unsigned_indices(axis)]))


def _is_index(op: Operation, facts: BodyFacts) -> bool:
    """Integers that only count along the tile, and masks of them, are ranges of the loop and cost nothing in it."""
    if not op.results or op_name(op) == "tt.map_elementwise":
        return False
    kinds = [elem_type(value.type) for value in (*op.operands, *op.results)]
    if any(kind[0] not in "ip" for kind in kinds):
        return False
    if kinds[-1] == "i1":
        return all(kind == "i1" or _counts(op, facts) for kind in kinds[:-1])
    return all(_stride(op.results[0], axis, facts) is not None for axis in range(len(facts.nest.dims)))


def _counts(op: Operation, facts: BodyFacts) -> bool:
    axes = range(len(facts.nest.dims))
    return all(_stride(value, axis, facts) is not None for value in op.operands for axis in axes)


def _width(kind: Attribute) -> float:
    """Vectors of wider elements hold fewer of them; narrow floats are computed as f32."""
    name = elem_type(kind)
    return bytes_of(name) / 4 if name in ("f64", "i64") else 1.0


def _word(op: Operation) -> str:
    return kind_of(op) or "integers"
