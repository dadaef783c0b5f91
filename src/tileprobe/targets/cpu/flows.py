"""How the operations of a stage of the scheduled IR depend on each other, in instructions of this core.

Comes in: a stage. Goes out: a `Flow`: its vectors are strands, of which each is a chain from its loads to its stores or
to what it is reduced to. A product and a sum that round once are one operation, as the compiler makes of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from xdsl.ir import Operation, OpResult, SSAValue

from tileprobe.ir.accessors import elem_type, op_name
from tileprobe.ir.flows import Flow
from tileprobe.ir.locations import user_frames
from tileprobe.targets.cpu.codegen import shape
from tileprobe.targets.cpu.codegen.body import BodyFacts
from tileprobe.targets.cpu.codegen.types import bytes_of, is_float, pointee_name
from tileprobe.targets.cpu.costs import extent, function_cost, points
from tileprobe.targets.cpu.dialect import BufferType, DotOp, NestOp, ReadOp, WriteOp, YieldOp
from tileprobe.targets.cpu.host import host

FUNCTION, EXP = "exp f32", function_cost("exp")  # functions are measured by this one
_SUMS = ("arith.addf", "arith.subf")
_SIMPLE = ("fp_to_fp", "absf", "negf", "maxnumf", "minnumf", "maximumf", "minimumf", "select", "cmpf")


def flow(op: Operation) -> Flow | None:
    """Of one execution; None where it is not known."""
    if isinstance(op, DotOp):
        a, c = op.a.type, op.c.type
        assert isinstance(a, BufferType)
        assert isinstance(c, BufferType)
        kind = "f64" if elem_type(c.element) == "f64" else "f32"
        count = math.prod(c.dims) * a.dims[-1] * bytes_of(kind) / host().vector_bytes
        name = f"fma {kind}"
        # a block of accumulators is as wide as the core needs
        return _flow({(name, _line(op)): count}, {(name, _line(op)): 1.0}, max(1.0, count))
    return _Nest(op).flow() if isinstance(op, NestOp) else None


Key = tuple[str, int]  # a class of operations, and the line they come from
Sums = defaultdict[Key, float]
Chain = Mapping[Key, float]


def _line(op: Operation) -> int:
    frames = user_frames(op.location)
    return frames[0][1] if frames else 0


def _flow(work: Chain, chain: Chain, strands: float) -> Flow:
    """With the parts of each line."""
    numbers = sorted({line for _, line in (*work, *chain)})
    lines = {n: (_classes(work, n), _classes(chain, n)) for n in numbers}
    return Flow(_classes(work), _classes(chain), strands, lines=lines)


def _classes(counts: Chain, line: int | None = None) -> dict[str, float]:
    """By class alone: of a line, or of all."""
    found: defaultdict[str, float] = defaultdict(float)
    for (name, place), count in counts.items():
        if line is None or place == line:
            found[name] += count
    return dict(found)


class _Nest:
    def __init__(self, nest: NestOp) -> None:
        self.nest, self.facts = nest, BodyFacts(nest)
        self.plan = shape.choose(self.facts, nest, host().vector_bytes, False)

    def flow(self) -> Flow | None:
        work: Sums = defaultdict(float)
        chains: dict[SSAValue, Chain] = {}
        longest: Chain = {}
        for op in self.nest.body.block.ops:
            if _unknown(op):
                return None
            if isinstance(op, YieldOp):
                continue
            classes = self._classes(op)
            vectors = self._vectors(op)
            line = _line(op)
            for name, count in classes.items():
                work[name, line] += count * vectors
            before = _longest(chains.get(v, {}) for v in op.operands)
            mine = _added(before, {(name, line): n for name, n in self._latencies(classes).items()})
            chains.update((result, mine) for result in op.results)
            longest = _longest([longest, mine])
        strands = math.prod(self.nest.dims) / self.plan.lanes
        if self.nest.reduce is not None and self.nest.axis is not None:
            longest, strands = self._reduced(longest, work)
        return _flow(work, longest, max(1.0, strands)) if work else None

    def _reduced(self, body: Chain, work: Sums) -> tuple[Chain, float]:
        """Steps along the reduced axis are one by one, each of them one operation; what stands before it is not."""
        assert self.nest.axis is not None
        axis = self.nest.axis.data
        steps = self.nest.dims[axis] / (self.plan.lanes if axis == self.plan.axis else 1)
        last = self.nest.body.block.last_op
        assert last is not None
        value = last.operands[0]
        element = elem_type(value.type)
        name = f"add {'f64' if element == 'f64' else 'f32'}" if is_float(element) else "integer"
        for held in last.operands:
            work[name, _line(last)] += (
                extent(self.nest, self.facts.varies.get(held, 0)) * self._registers(held) / self.plan.lanes
            )
        strands = math.prod(self.nest.dims) / self.plan.lanes / steps
        return _added(body, {(name, _line(last)): steps}), strands

    def _vectors(self, op: Operation) -> float:
        """How often it is done: once for all points along what it does not vary with."""
        bits = 0
        for value in (*op.operands, *op.results):
            bits |= self.facts.varies.get(value, 0)
        along = bits >> self.plan.axis & 1
        return points(self.nest, self.facts, op) / (self.plan.lanes if along else 1)

    def _registers(self, value: SSAValue) -> float:
        """That a vector of so many elements takes."""
        name = elem_type(value.type)
        size = bytes_of(name) if name in ("f64", "i64", "f32", "i32") else 4
        return max(1.0, self.plan.lanes * size / host().vector_bytes)

    def _width(self) -> float:
        """Registers of f32 that a vector takes."""
        return max(1.0, self.plan.lanes * 4 / host().vector_bytes)

    def _classes(self, op: Operation) -> dict[str, float]:
        """What an operation is for one vector, in instructions; nothing for what the loop itself does."""
        name = op_name(op)
        if isinstance(op, ReadOp):
            return {"load": self._registers(op.value)}
        if isinstance(op, WriteOp):
            return {"store": self._registers(op.value)}
        if name in ("tt.load", "tt.store"):
            word = name[3:]
            size = bytes_of(pointee_name(op.operands[0].type))
            if not self.facts.depends(op.operands[0], self.plan.axis):
                return {word: 1.0}
            if self.facts.stride(op.operands[0], self.plan.axis) == size:
                return {word: max(1.0, self.plan.lanes * size / host().vector_bytes)}
            return {
                word: float(self.plan.lanes),
                "integer": float(self.plan.lanes),
            }  # one by one, put together
        if not op.results or name in ("arith.constant", "tt.addptr", "tt.bitcast", "arith.bitcast"):
            return {}
        kinds = [elem_type(value.type) for value in (*op.operands, *op.results)]
        if not any(map(is_float, kinds)):
            follows = all(self.facts.stride(r, self.plan.axis) is not None for r in op.results)
            return (
                {} if follows or kinds[-1] in ("i1", "ptr") else {"integer": self._registers(op.results[0])}
            )
        return _computing(op, self._registers(op.results[0]))

    def _latencies(self, classes: Mapping[str, float]) -> Mapping[str, float]:
        """Of registers side by side each is a link of a chain of its own."""
        links = {name: 1.0 for name in classes if name != "store"}
        if FUNCTION in links:
            links[FUNCTION] = classes[FUNCTION] / self._width()
        return links


def _unknown(op: Operation) -> bool:
    """What is somebody else's code, is locked, or becomes more than an instruction that nobody measured."""
    name = op_name(op)
    if name == "tt.fp_to_fp":
        return any(bytes_of(elem_type(value.type)) < 2 for value in (*op.operands, *op.results))
    return name in ("tt.call", "tt.elementwise_inline_asm", "tt.map_elementwise") or name.startswith(
        "tt.atomic"
    )


def _computing(op: Operation, registers: float) -> dict[str, float]:
    name, short = op_name(op), op_name(op).split(".")[-1]
    kind = "f64" if "f64" in [elem_type(v.type) for v in (*op.operands, *op.results)] else "f32"
    if name == "arith.mulf" and _fused_into(op.results[0]):
        return {}
    if name in _SUMS and any(_is_product(v) for v in op.operands):
        return {f"fma {kind}": registers}
    if name == "math.fma":
        return {f"fma {kind}": registers}
    if short in ("divf", "precise_divf", "remf"):
        return {f"div {kind}": registers}
    if short in ("sqrt", "precise_sqrt"):
        return {f"sqrt {kind}": registers}
    if name == "arith.mulf":
        return {f"mul {kind}": registers}
    if name in _SUMS or short in _SIMPLE or not name.startswith(("math.", "tt.")):
        return {f"add {kind}": registers}
    if short in ("floor", "ceil", "rint", "round", "trunc", "copysign"):
        return {f"add {kind}": registers}
    return {FUNCTION: registers * function_cost(short) / EXP * (2.0 if kind == "f64" else 1.0)}


def _is_product(value: SSAValue) -> bool:
    return isinstance(value, OpResult) and op_name(value.op) == "arith.mulf" and _fused_into(value)


def _fused_into(product: SSAValue) -> bool:
    """Whether a product is used by one sum alone, which takes it in."""
    uses = list(product.uses)
    if len(uses) != 1 or op_name(uses[0].operation) not in _SUMS:
        return False
    first = next(
        v for v in uses[0].operation.operands if isinstance(v, OpResult) and op_name(v.op) == "arith.mulf"
    )
    return first is product  # a sum takes one


def _added(first: Chain, second: Chain) -> Chain:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in (*first, *second)}


def _longest(chains: Iterable[Chain]) -> Chain:
    return max(chains, key=_length, default={})


# Latencies in those of a multiply-add, as `latencies.py` measured them on a Zen 5 core: to find the longest chain.
_LONG = {"div": 2.5, "sqrt": 3.5, "exp": 12.0, "load": 1.0}


def _length(chain: Chain) -> float:
    return sum(_LONG.get(name.split()[0], 1.0) * count for (name, _), count in chain.items())
