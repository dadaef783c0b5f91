"""Runs the scalar part of a kernel with made-up sizes, to see in which order it issues and awaits.

In comes a kernel of final TTGIR. Integers, tokens and places in shared memory are followed for real, through
iteration arguments, branches and the captures of partitions; partitions run side by side and meet at their barriers;
tensors are not looked at. Out go the events of each stream: which asynchronous op ran, in which iteration, with which
token, and how often its barrier had been completed. Every loop is made to run a few times: sizes that a kernel is
launched with do not change how it was pipelined. For the same reason predicates count as true.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Block, Operation, Region, SSAValue

from tileprobe.ir.accessors import attr_value, is_tensor, op_name
from tileprobe.targets.gpu.events import BARRIER_WAIT, Barriers, Event, Place

PROGRAM, PROGRAMS = 1, 4
_BLOCK_VISITS = 2


@dataclass(frozen=True)
class Sizes:
    """Made-up sizes: of every integer argument; how often a loop runs that would run less than `least` times with it,
    and how often at most."""

    size: int = 512
    few: int = 6
    many: int = 10
    least: int = 4


# Two runs that agree tell what does not depend on sizes.
TWO_SIZES = (Sizes(), Sizes(size=768, few=7, many=13))


@dataclass
class Run:
    """What happened, and how often each loop ran the last time."""

    events: list[Event] = field(default_factory=list)
    trips: dict[Operation, int] = field(default_factory=dict)


def run_scalars(kernel: Operation, wanted: Callable[[Operation], bool], sizes: Sizes) -> Run:
    """The events of the ops that are `wanted`, in the order of each stream."""
    machine = _Machine(wanted, sizes)
    body = kernel.regions[0]
    entry = body.blocks[0]
    values: dict[SSAValue, Any] = {
        argument: sizes.size if str(argument.type) in ("i32", "i64", "i16", "i8") else None
        for argument in entry.args
    }
    machine.start(machine.region(body, values, 0, ()))
    return machine.run


_Around = tuple[tuple[Operation, int], ...]
_Steps = Generator[None, None, list[Any]]  # stops where a barrier is not completed yet
_Values = dict[SSAValue, Any]


class _Machine:
    def __init__(self, wanted: Callable[[Operation], bool], sizes: Sizes) -> None:
        self.wanted, self.sizes = wanted, sizes
        self.run = Run()
        self.barriers = Barriers()
        self.streams = 1
        self.active: list[Generator[None, None, Any]] = []
        self.steps = 0
        self.finished: dict[tuple[int, int], Operation] = {}  # by stream and depth

    def start(self, first: Generator[None, None, Any]) -> None:
        """Runs all streams in turn until none is left, or none gets on: then the rest is not known."""
        self.active = [first]
        while self.active:
            before, count = self.steps, len(self.active)
            for stream in list(self.active):
                try:
                    next(stream)
                except StopIteration:
                    self.active.remove(stream)
            if self.steps == before and len(self.active) == count:
                return

    def region(self, region: Region, values: _Values, stream: int, loops: _Around) -> _Steps:
        """Runs a region from its first block; the operands of the op that leaves it."""
        block: Block | None = region.blocks.first
        visits: dict[Block, int] = {}
        while block is not None:
            visits[block] = visits.get(block, 0) + 1
            last = block.last_op
            for op in block.ops:
                if op is not last:
                    yield from self._op(op, values, stream, loops)
            if last is None:
                return []
            if not last.successors:
                return [values.get(operand) for operand in last.operands]
            block = self._jump(last, values, visits)
        return []

    def _jump(self, last: Operation, values: _Values, visits: dict[Block, int]) -> Block | None:
        """The block after this one: as the condition says, or the one that does more where that is not known or where
        the other does nothing, as an early return; none twice too often."""
        targets = list(last.successors)
        given: list[Sequence[SSAValue]] = [last.operands]
        which = 0
        if len(targets) == 2:
            first = attr_value(last, "operandSegmentSizes")[1]
            given = [last.operands[1 : 1 + first], last.operands[1 + first :]]
            condition = values.get(last.operands[0])
            does = [sum(self._does(block) for block in _reached(target)) for target in targets]
            more = int(does[1] > does[0])
            which = more if condition is None or (not min(does) and max(does)) else int(not condition)
        if visits.get(targets[which], 0) >= _BLOCK_VISITS:
            which = len(targets) - 1 - which
        target = targets[which]
        if visits.get(target, 0) >= _BLOCK_VISITS:
            return None
        values.update((argument, values.get(operand)) for argument, operand in zip(target.args, given[which]))
        return target

    def _does(self, where: Block | Region) -> int:
        """How many ops that are wanted lie there."""
        return sum(self.wanted(op) for op in where.walk())

    def _op(self, op: Operation, values: _Values, stream: int, loops: _Around) -> Generator[None, None, None]:
        name = op_name(op)
        if name in _NESTED:
            yield from getattr(self, _NESTED[name])(op, values, stream, loops)
        elif name == "ttng.init_barrier":
            self.barriers.init(values.get(op.operands[0]), int(attr_value(op, "count") or 1))
        elif self.wanted(op):
            held = tuple(values.get(operand) for operand in op.operands)
            event = Event(op, stream, loops, held, self.finished.get((stream, len(loops))))
            if name == BARRIER_WAIT:
                while not self.barriers.passes(event):
                    yield
            else:
                self.barriers.arrive(event)
            self.run.events.append(event)
            self.steps += 1
            values.update((result, event) for result in op.results)
        else:
            _follow(op, values)

    # -- control flow ----------------------------------------------------------------------------------------

    def _for(
        self, op: Operation, values: _Values, stream: int, loops: _Around
    ) -> Generator[None, None, None]:
        lower, upper, step = (values.get(operand) for operand in op.operands[:3])
        trips = None
        if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int) and step:
            trips = max(0, -(-(upper - lower) // step))
        if trips is None or (trips < self.sizes.least and _made_up(op)):
            trips = self.sizes.few
        trips = min(trips, self.sizes.many)
        self.run.trips[op] = trips
        carried = [values.get(operand) for operand in op.operands[3:]]
        body = op.regions[0]
        arguments = body.blocks[0].args
        for iteration in range(trips):
            known = isinstance(lower, int) and isinstance(step, int)
            values[arguments[0]] = lower + iteration * step if known else None  # type: ignore[operator]
            values.update(zip(arguments[1:], carried))
            carried = yield from self.region(body, values, stream, (*loops, (op, iteration)))
        self.finished[stream, len(loops)] = op
        values.update(zip(op.results, carried))

    def _while(
        self, op: Operation, values: _Values, stream: int, loops: _Around
    ) -> Generator[None, None, None]:
        carried = [values.get(operand) for operand in op.operands]
        self.run.trips[op] = self.sizes.few
        for iteration in range(self.sizes.few):
            values.update(zip(op.regions[0].blocks[0].args, carried))
            after = yield from self.region(op.regions[0], values, stream, loops)
            values.update(zip(op.regions[1].blocks[0].args, after[1:]))
            carried = yield from self.region(op.regions[1], values, stream, (*loops, (op, iteration)))
        values.update(zip(op.results, carried))

    def _if(self, op: Operation, values: _Values, stream: int, loops: _Around) -> Generator[None, None, None]:
        condition = values.get(op.operands[0])
        if condition is None:
            condition = self._does(op.regions[0]) >= self._does(op.regions[1])
        taken = op.regions[0] if condition else op.regions[1]
        if taken.blocks.first is not None:
            given = yield from self.region(taken, values, stream, loops)
            values.update(zip(op.results, given))

    def _specialised(
        self, op: Operation, values: _Values, stream: int, loops: _Around
    ) -> Generator[None, None, None]:
        holders = [
            inner for region in op.regions for block in region.blocks for inner in block.ops
            if op_name(inner) == "ttg.warp_specialize.partitions"
        ]  # fmt: skip
        beside: list[Generator[None, None, Any]] = []
        for holder in holders:
            given = [values.get(operand) for operand in (holder.operands or op.operands)]
            for region in holder.regions:
                held: _Values = dict(zip(region.blocks[0].args, given))
                beside.append(self.region(region, held, self.streams, loops))
                self.streams += 1
        self.active += beside
        given = yield from self.region(op.regions[0], values, stream, loops)
        while any(other in self.active for other in beside):
            yield
        values.update(zip(op.results, given))


_NESTED = {
    "scf.for": "_for",
    "scf.while": "_while",
    "scf.if": "_if",
    "ttg.warp_specialize": "_specialised",
}


def _reached(block: Block) -> set[Block]:
    """A block and those that may come after it."""
    found: set[Block] = set()
    left = [block]
    while left:
        here = left.pop()
        if here not in found:
            found.add(here)
            left += here.last_op.successors if here.last_op is not None else ()
    return found


def _made_up(loop: Operation) -> bool:
    """Whether the bounds of a loop come from outside, so that sizes of ours decide how often it runs."""
    owners = [value.owner for value in loop.operands[:3]]
    return not all(isinstance(owner, Operation) and op_name(owner) == "arith.constant" for owner in owners)


# -- what ops compute -------------------------------------------------------------------------------------------

_SAME_PLACE = frozenset(
    f"ttg.{name}" for name in ("memdesc_subslice", "memdesc_trans", "memdesc_reinterpret", "memdesc_reshape")
) | {"ttng.tmem_subslice"}
# Ops on data that was loaded: who takes their results waits for the load.
_SAME_DATA = frozenset(
    [
        "amdg.in_thread_transpose",
        "ttg.convert_layout",
        "tt.bitcast",
        "tt.fp_to_fp",
        "arith.extf",
        "arith.truncf",
    ]
)
_COMPARE: tuple[Callable[[int, int], bool], ...] = (
    lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b, lambda a, b: a <= b,
    lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: _unsigned(a) < _unsigned(b),
    lambda a, b: _unsigned(a) <= _unsigned(b), lambda a, b: _unsigned(a) > _unsigned(b),
    lambda a, b: _unsigned(a) >= _unsigned(b),
)  # fmt: skip
_TWO: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b,
    "shli": lambda a, b: a << b, "shrui": lambda a, b: _unsigned(a) >> b, "shrsi": lambda a, b: a >> b,
    "divui": lambda a, b: _unsigned(a) // _unsigned(b), "remui": lambda a, b: _unsigned(a) % _unsigned(b),
    "divsi": lambda a, b: int(a / b), "remsi": lambda a, b: a - int(a / b) * b,
    "ceildivsi": lambda a, b: -(-a // b), "floordivsi": lambda a, b: a // b,
    "minsi": min, "maxsi": max, "minui": min, "maxui": max,
}  # fmt: skip


def _unsigned(value: int) -> int:
    return value & 0xFFFFFFFFFFFFFFFF if value < 0 else value


def _follow(op: Operation, values: dict[SSAValue, Any]) -> None:
    """The results of an op, as far as they are known."""
    name = op_name(op)
    if name in _SAME_DATA and isinstance(values.get(op.operands[0]), Event):
        values[op.results[0]] = values[op.operands[0]]
    if not op.results or is_tensor(op.results[0].type):
        return
    held = [values.get(operand) for operand in op.operands]
    found: Any = None
    if name in ("ttg.local_alloc", "ttng.tmem_alloc"):
        found = Place(op)
    elif name == "ttg.memdesc_index":
        base = held[0]
        found = Place(base.root, held[1]) if isinstance(base, Place) else None
    elif name in _SAME_PLACE:
        found = held[0]
    elif name == "tt.get_program_id":
        found = PROGRAM
    elif name == "tt.get_num_programs":
        found = PROGRAMS
    elif name.startswith("arith."):
        found = _arithmetic(op, name[6:], held)
    values[op.results[0]] = found


def _arithmetic(op: Operation, name: str, held: list[Any]) -> Any:
    if name == "constant":
        value = attr_value(op, "value")
        return int(value) if isinstance(value, int) else None
    if name == "select":
        if held[0] is None:
            return held[1] if held[1] == held[2] else None
        return held[1] if held[0] else held[2]
    if not all(isinstance(value, int) for value in held) or not held:
        return None
    if name == "cmpi":
        return int(_COMPARE[attr_value(op, "predicate")](*held))
    if name in ("extsi", "extui", "index_cast", "index_castui"):
        return held[0]
    if name == "trunci":
        return held[0] & 1 if str(op.results[0].type) == "i1" else held[0]
    if name not in _TWO or (name[:3] in ("div", "rem", "cei") and not held[1]):
        return None
    return _TWO[name](*held)
