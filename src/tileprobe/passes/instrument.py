"""instrument: turns the marks of `select` into regions with starts and stops.

In comes IR with `probe.select` marks; out goes the same IR with `probe` ops between its ops. A stage is
never split, regions nest by construction, and they are named after the user's source lines. Asynchronous
operations get one region a pair of issue and wait; what software pipelining moved carries its iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass

from tileprobe.ir.accessors import attr_value
from tileprobe.ir.amounts import Amount
from tileprobe.ir.blocks import exits, insert_first
from tileprobe.ir.flows import MOST, Flow, together, written
from tileprobe.ir.parts import Part, Spot, parts_of
from tileprobe.ir.probe import FLOWS, DoneOp, IssueOp, ProbeOp, RegionOp, StartOp, StopOp, WaitOp
from tileprobe.ir.registry import structure
from tileprobe.ir.structure import Lines, Pair, Shift, Structure
from tileprobe.passes.select import MARK, SCOPES, marks

_RANGES = ("kernel", "loop", "iteration", "scope")
CONTROL = 24.0  # what entering a region or one round of a loop costs, in elementary operations of a stage
ROUNDS = 8  # of a loop inside a region, where nobody knows how often it goes round
LOOP = "probe.loop"  # on a loop that something was peeled off: the number by which probes name it


@dataclass(frozen=True)
class InstrumentPass(ModulePass):
    """Turns marks into regions with starts and stops.

    `structure` says how to read the IR: which ops are loops and stages; with `flows` regions tell how their operations
    depend on each other."""

    name = "instrument"

    structure: str = "scf"
    flows: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        how = structure(self.structure)
        for kernel in how.kernels(op):
            if any(MARK in inner.attributes or SCOPES in inner.attributes for inner in kernel.walk()):
                _Instrumenter(how, self.flows).run(kernel)


@dataclass
class _Range:
    """Ops first..last of a block that make one region."""

    first: int
    last: int
    name: str
    kind: str
    lines: Lines | None
    shift: Shift = field(default_factory=Shift)
    op: Operation | None = None  # the one op that it is about


@dataclass
class _Instrumenter:
    how: Structure
    wants_flows: bool = False
    regions: list[RegionOp] = field(default_factory=list)
    named: dict[tuple[int | None, str], int] = field(default_factory=dict)
    paired: dict[Hashable, int] = field(default_factory=dict)  # the region of an asynchronous operation
    peeled: dict[Operation, list[ProbeOp]] = field(default_factory=dict)  # loop -> what was peeled off it
    spent: dict[int, defaultdict[Spot, float]] = field(
        default_factory=dict
    )  # region -> what its own time goes to
    amounts: dict[int, Amount | None] = field(default_factory=dict)  # region -> what it computes and moves
    flows: dict[int, list[Flow] | None] = field(default_factory=dict)  # region -> how its operations depend

    def run(self, kernel: Operation) -> None:
        parent = None
        body = kernel.regions[0]
        blocks = list(body.blocks)
        if "kernel" in marks(kernel):
            symbol = str(attr_value(kernel, "sym_name") or "kernel")
            parent = self._declare(symbol, "kernel", None, self._lines_below(kernel), kernel)
        for block in blocks:
            self._block(block, parent, ())
        for region in self.regions:
            region.set_parts(_worth_saying(region, parts_of(self.spent.get(region.region.data, {}))))
            mine = self.amounts.get(region.region.data, Amount() if self.how.counts else None)
            if mine is not None:
                region.flops, region.bytes = IntAttr(round(mine.flops)), IntAttr(round(mine.bytes))
            flows = self.flows.get(region.region.data)
            if flows:
                region.attributes[FLOWS] = StringAttr(written(flows))
        if parent is not None:
            _enclose(body, parent)
        for region in reversed(self.regions):
            insert_first(blocks[0], region)
        for op in kernel.walk():
            op.attributes.pop(MARK, None)
            op.attributes.pop(SCOPES, None)
        self._number_loops(kernel)

    def _number_loops(self, kernel: Operation) -> None:
        """Copies may stand before their loop, so loops have their numbers only when all are known."""
        loops = [op for op in kernel.walk() if op in self.peeled]
        for number, loop in enumerate(loops):
            loop.attributes[LOOP] = IntAttr(number)
            for probe in self.peeled[loop]:
                probe.peeled = IntAttr(number)

    def _block(
        self,
        block: Block,
        parent: int | None,
        scopes: tuple[str, ...],
        times: int = 1,
        exactly: int | None = 1,
    ) -> None:
        """Wraps the chosen ops of one block, then looks into them. `scopes` are open already; `times` is how often
        the block runs in its region, roughly, and `exactly` that, where it is known."""
        ops = [op for op in block.ops if not isinstance(op, RegionOp)]
        ranges = self._scope_ranges(ops, scopes)
        ranges += [found for n, op in enumerate(ops) if (found := self._own_range(n, op)) is not None]
        # Outer ranges first; of equal ones scopes come first, because they were added first.
        ranges.sort(key=lambda r: (r.first, -r.last))
        around: dict[int, tuple[int | None, tuple[str, ...]]] = dict.fromkeys(
            range(len(ops)), (parent, scopes)
        )
        stops: list[tuple[int, ProbeOp]] = []
        for found in ranges:
            outer, names = around[found.first]
            region = self._declare(found.name, found.kind, outer, found.lines, found.op)
            block.insert_op_before(self._shifted(StartOp, region, found.shift), ops[found.first])
            stops.append((found.last, self._shifted(StopOp, region, found.shift)))
            inside = (*names, found.name) if found.kind == "scope" else names
            around |= dict.fromkeys(range(found.first, found.last + 1), (region, inside))
        for last, stop in reversed(stops):  # inner stops come first
            after = ops[last].next_op
            while isinstance(after, StopOp):
                after = after.next_op
            block.insert_op_before(stop, after) if after else block.add_op(stop)
        for n, op in enumerate(ops):
            self._asynchronous(block, op, around[n][0])
            runs = exactly if around[n][0] == parent else 1
            if self.how.kinds(op):
                self._spend(around[n][0], self.how.costs(op), times)
                self._count(around[n][0], self.how.amount(op), runs)
                if self.wants_flows:
                    self._flow(around[n][0], op, runs)
            else:
                self._inside(op, *around[n], times, runs)

    def _spend(self, region: int | None, costs: Mapping[Spot, float], times: int) -> None:
        """What runs without a probe of its own is a part of the region around it."""
        if region is not None:
            mine = self.spent.setdefault(region, defaultdict(float))
            for spot, cost in costs.items():
                mine[spot] += times * cost

    def _count(self, region: int | None, amount: Amount | None, exactly: int | None) -> None:
        """Adds to what a region computes and moves; once that is not known of a part, it is not of the whole."""
        if region is None:
            return
        known = self.amounts.setdefault(region, Amount())
        if known is None or amount is None or (amount and exactly is None):
            self.amounts[region] = None
        else:
            self.amounts[region] = known + amount * (exactly or 0)

    def _flow(self, region: int | None, op: Operation, exactly: int | None) -> None:
        """Adds to how a region's operations depend on each other; what is not known of a part is not of the whole."""
        if region is None or not self.how.cost(op):
            return
        known, flow = self.flows.setdefault(region, []), self.how.flow(op)
        if known is None or flow is None or exactly is None or len(known) >= MOST:
            self.flows[region] = (
                None if (self.how.cost(op) or 0) > 1 else known
            )  # a single element is no stage
        else:
            self.flows[region] = together([*known, replace(flow, times=float(exactly))])

    def _inside(
        self, op: Operation, parent: int | None, scopes: tuple[str, ...], times: int, exactly: int | None
    ) -> None:
        loop = self.how.loop(op)
        if loop is None:
            for region in op.regions:
                for block in region.blocks:
                    self._block(block, parent, scopes, times, None)  # a condition may not hold
            return
        inner, rounds = parent, times * (ROUNDS if loop.trip is None else loop.trip)
        exactly = None if exactly is None or loop.trip is None else exactly * loop.trip
        if "iteration" in marks(op):
            inner, rounds = self._declare("iteration", "iteration", parent, self._lines_below(op), op), 1
            exactly = 1
        else:
            self._spend(parent, {("loop", self.how.frames(op)): CONTROL}, rounds)
        for block in loop.body.blocks:
            self._block(block, inner, scopes, rounds, exactly)
        if inner is not parent and inner is not None:
            _enclose(loop.body, inner)

    def _own_range(self, n: int, op: Operation) -> _Range | None:
        if "loop" in marks(op):
            own, below = self.how.lines(op), self._lines_below(op)
            line = own.first if own else below.first if below else None
            frames = self.how.frames(op)
            name = "loop" if line is None else f"loop @ {line}"
            if len(frames) > 1:  # in a function that the kernel calls on that line
                name += f" in {frames[0][0].rsplit('/', 1)[-1]}:{frames[0][1]}"
            return _Range(n, n, name, "loop", below, op=op)
        if "stage" in marks(op):
            kinds, lines = self.how.kinds(op), self.how.lines(op)
            name = " + ".join(kinds) + _suffix(lines)
            return _Range(n, n, name, "+".join(kinds), lines, self.how.shift(op), op)
        return None

    def _scope_ranges(self, ops: list[Operation], known: tuple[str, ...]) -> list[_Range]:
        """Runs of neighbours in the same scope. Ops between them that belong nowhere join the run."""
        runs: dict[str, _Range] = {}
        done: list[_Range] = []
        for n, op in enumerate(ops):
            here = [name for name in attr_value(op, SCOPES) or [] if name not in known]
            costs = bool(self.how.kinds(op) or self.how.loop(op) or op.regions)
            for name in [name for name in runs if costs and name not in here]:
                done.append(runs.pop(name))
            for name in here:
                run = runs.setdefault(name, _Range(n, n, name, "scope", None))
                run.last = n
                run.lines = _union(run.lines, self._lines_below(op))
        done += runs.values()
        order = {name: n for n, name in enumerate(name for r in done for name in [r.name])}
        return sorted(done, key=lambda r: (r.first, -r.last, order[r.name]))

    def _asynchronous(self, block: Block, op: Operation, parent: int | None) -> None:
        chosen = marks(op)
        for pair in self.how.issues(op) if "issue" in chosen else ():
            issue = self._shifted(IssueOp, self._region_of(pair, parent), pair.shift)
            block.insert_op_before(issue, op)
        after = op
        for pair in self.how.waits(op) if "wait" in chosen else ():
            region = self._region_of(pair, parent)
            block.insert_op_before(self._shifted(WaitOp, region, pair.shift), op)
            done = self._shifted(DoneOp, region, pair.shift)
            block.insert_op_after(done, after)
            after = done

    def _region_of(self, pair: Pair, parent: int | None) -> int:
        """Issue and wait of one operation share a region, wherever they stand."""
        if pair.key not in self.paired:
            lines = pair.lines
            self.paired[pair.key] = self._declare(pair.name + _suffix(lines), "async", parent, lines)
        return self.paired[pair.key]

    def _shifted(self, kind: type[ProbeOp], region: int, shift: Shift) -> ProbeOp:
        made = kind(region, ahead=shift.ahead)
        if shift.peeled is not None:
            self.peeled.setdefault(shift.peeled, []).append(made)
        return made

    def _declare(
        self, name: str, kind: str, parent: int | None, lines: Lines | None, op: Operation | None = None
    ) -> int:
        if kind == "scope" and (parent, name) in self.named:
            known = self.named[parent, name]  # a scope in pieces is one region
            _widen(self.regions[known], lines)
            return known
        number = len(self.regions)
        self.named[parent, name] = number
        where = (lines.file, lines.first, lines.last) if lines else ("", 0, 0)
        # Of a loop the range says enough; of a stage the lines that went into it are to be known.
        single = lines.scattered if lines and kind not in _RANGES else ()
        self.regions.append(RegionOp.of(number, name, kind, parent, *where, single))
        if op is not None and kind in _RANGES and (frames := self.how.frames(op)):
            self._spend(number, {(kind, frames): CONTROL}, 1)
        return number

    def _lines_below(self, op: Operation) -> Lines | None:
        """The lines of an op and of all in it. Those before its own first line are of functions it calls."""
        own, found = self.how.lines(op), self._all_lines(op)
        if own is None or found is None or own.file != found.file:
            return found
        return Lines(own.file, frozenset(n for n in found.numbers if n >= own.first))

    def _all_lines(self, op: Operation) -> Lines | None:
        found = self.how.lines(op)
        for region in () if self.how.kinds(op) else op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    found = _union(found, self._all_lines(inner))
        return found


def _worth_saying(region: RegionOp, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """A single part says nothing that the region's own kind and line do not."""
    if len(parts) != 1 or region.file is None or region.first_line is None or region.last_line is None:
        return parts
    kind, only = region.kind.data, ((region.file.data, region.first_line.data),)
    one_line = kind in _RANGES or region.first_line == region.last_line
    return (
        () if parts[0].frames == only and one_line and (kind in _RANGES or parts[0].kind == kind) else parts
    )


def _union(a: Lines | None, b: Lines | None) -> Lines | None:
    if a is None or b is None or a.file != b.file:
        return a or b
    return Lines(a.file, a.numbers | b.numbers)


def _widen(region: RegionOp, lines: Lines | None) -> None:
    """Lines of one more piece of it."""
    if lines is None or region.file is None or region.first_line is None or region.last_line is None:
        return
    if region.file.data == lines.file:
        region.first_line = IntAttr(min(region.first_line.data, lines.first))
        region.last_line = IntAttr(max(region.last_line.data, lines.last))


def _suffix(lines: Lines | None) -> str:
    return "" if lines is None else f" @ {lines}"


def _enclose(body: Region, region: int) -> None:
    """A region from the start of a body to each of its ends."""
    insert_first(body.blocks[0], StartOp(region))
    for last in exits(body):
        assert last.parent is not None
        last.parent.insert_op_before(StopOp(region), last)
