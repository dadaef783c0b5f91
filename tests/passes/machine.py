"""A machine in Python that runs small kernels at both levels of our IR, with a clock of its own.

At the `probe` level it notes intervals as they happen; at the `record` level it writes words as the ops say.
Stages move the clock by their `ticks`; probes cost nothing, so both levels must tell the same story.
"""

from __future__ import annotations

import numpy as np

from tileprobe.ir import layout as L
from tileprobe.ir import probe, record
from tileprobe.ir import sampling as S
from tileprobe.ir.accessors import attr_value, op_name

ENDS = ("scf.yield", "scf.condition", "cf.", "func.return", "my.end")


class Machine:
    def __init__(self, arguments, clock=1000):
        self.arguments = arguments
        self.clock = clock
        self.intervals = []  # (region, iteration, start, stop)
        self.opened = []
        self.issued, self.waited = {}, {}  # (region, logical iteration) -> clock
        self.asynchronous = []  # as intervals, from issue to the end of the wait
        self.values = {}
        self.iterations = ()

    def run(self, function, block=None, parameters=None):
        self.block, self.parameters = block, parameters
        self.region(function.regions[0], self.arguments)
        return self

    def region(self, region, arguments):
        """Runs a region from its first block on; returns what the op at its end holds."""
        block = region.blocks[0]
        while True:
            self.values.update(zip(block.args, arguments, strict=True))
            for op in block.ops:
                if op is not block.last_op or not op_name(op).startswith(ENDS):
                    self.step(op, op_name(op))
            last = block.last_op
            held = [self.get(v) for v in last.operands]
            if not last.successors:
                return held
            taken = 0
            if op_name(last) == "cf.cond_br":
                taken = 0 if held.pop(0) else 1
                count = len(last.successors[0].args)
                held = held[count:] if taken else held[:count]
            block, arguments = last.successors[taken], held

    def get(self, value):
        return self.values[value]

    def step(self, op, name):
        if isinstance(op, probe.ProbeOp):
            self.probe(op)
        elif name.startswith("record."):
            self.record(op)
        elif name == "arith.constant":
            self.values[op.results[0]] = attr_value(op, "value")
        elif attr_value(op, "ticks"):
            self.clock += attr_value(op, "ticks")
        elif attr_value(op, "streams"):  # one after another
            for region in op.regions:
                self.region(region, [self.get(v) for v in op.operands])
        elif name == "scf.for":
            lower, upper, by, *carried = (self.get(v) for v in op.operands)
            for n, number in enumerate(range(lower, upper, by)):
                carried = self.iteration(op.regions[0], n, [number, *carried])
            self.values.update(zip(op.results, carried, strict=True))
        elif name == "scf.while":  # runs as often as the number it starts with says
            carried = [self.get(v) for v in op.operands]
            for n in range(carried[0]):
                _, *passed = self.region(op.regions[0], carried)
                carried = self.iteration(op.regions[1], n, passed)
            _, *passed = self.region(op.regions[0], carried)
            self.values.update(zip(op.results, passed, strict=True))
        elif name == "scf.if":
            # the branch is taken in odd iterations
            arm = op.regions[0 if sum(self.iterations) % 2 else 1]
            held = self.region(arm, []) if arm.blocks else []
            self.values.update(zip(op.results, held, strict=True))

    def iteration(self, body, number, arguments):
        outside = self.iterations
        self.iterations = (*outside, number)
        held = self.region(body, arguments)
        self.iterations = outside
        return held

    def probe(self, op):
        now = self.iterations[-1] if self.iterations else -1
        if isinstance(op, probe.StartOp):
            self.opened.append(self.clock)
        elif isinstance(op, probe.StopOp):
            self.intervals.append((op.region_id, now, self.opened.pop(), self.clock))
        elif isinstance(op, (probe.MarkOp, probe.ValueOp)):
            self.intervals.append((op.region_id, now, self.clock, self.clock))
        elif isinstance(op, (probe.IssueOp, probe.WaitOp, probe.DoneOp)):
            ahead = op.ahead.data if op.ahead is not None else 0
            logical = ahead if op.peeled is not None else now + ahead
            self.pair(op, (op.region_id, logical))

    def pair(self, op, key):
        if isinstance(op, probe.IssueOp):
            self.issued[key] = self.clock
        elif isinstance(op, probe.WaitOp):
            self.waited[key] = self.clock
        else:
            self.intervals.append((*key, self.waited.pop(key), self.clock))
            if key in self.issued:  # the first wait ends it
                self.asynchronous.append((*key, self.issued.pop(key), self.clock))

    def record(self, op):
        words = None if isinstance(op, record.ClockOp) else self.stream_words(op)
        epoch = int(self.parameters[S.LAUNCH_EPOCH])
        if isinstance(op, record.OpenOp):
            words[[L.EPOCH, L.UNIT, L.PUSHED, L.BEGIN]] = epoch, 0, 0, self.clock
        elif isinstance(op, record.TripOp):
            lower, upper, by = self.get(op.lower), self.get(op.upper), self.get(op.step)
            count = len(range(lower, upper, by))
            self.values[op.count] = count
            indices = [self.get(v) for v in op.indices]
            if op.base is not None and all(i >= 0 for i in indices):
                at = op.base.data + sum(i * s.data for i, s in zip(indices, op.strides))
                words[at] = (epoch << 32) | count
        elif isinstance(op, record.IndexOp):
            number = (self.get(op.induction) - self.get(op.lower)) // self.get(op.step)
            index = self.kept(op.loop.data, number, self.get(op.count), op.within)
            self.values[op.index] = number if op.cursor is not None and index >= 0 else index
        elif isinstance(op, record.EnterOp):
            self.values[op.number] = 0
        elif isinstance(op, record.RanOp):
            count = self.get(op.count)
            self.values[op.total] = self.get(op.before) + count
            self.values[op.runs] = self.get(op.runs_before) + (count > 0)
        elif isinstance(op, record.TotalOp):
            at = op.base.data
            words[at : at + 2] = (epoch << 32) | self.get(op.count), (epoch << 32) | self.get(op.runs)
        elif isinstance(op, record.NextOp):
            number = self.get(op.number)
            self.values[op.following] = number + 1
            self.values[op.index] = number if self.kept(op.loop.data, number, 0, op.within) >= 0 else -1
        elif isinstance(op, record.SlotOp):
            indices = [self.get(v) for v in op.indices]
            live = all(i >= 0 for i in indices)
            self.values[op.place] = (
                op.base.data + sum(i * s.data for i, s in zip(indices, op.strides)) if live else None
            )
        elif isinstance(op, record.ClockOp):
            self.values[op.ticks] = self.clock
        elif isinstance(op, record.StoreOp):
            place = self.get(op.place)
            if place is not None:
                words[place] = self.get(op.ticks)
                if op.payload is not None:
                    words[place + 1] = self.get(op.payload)
        elif isinstance(op, record.CursorOp):
            self.values[op.count] = 0
        elif isinstance(op, record.PushOp):
            iteration = -1 if op.iteration is None else self.get(op.iteration)
            self.values[op.moved] = self.get(op.cursor)
            if op.iteration is None or iteration >= 0:
                self.push(op, (iteration & 0xFFFFFFFF) << 32 | op.slot.data)
        elif isinstance(op, record.FlushOp) and op.cursor is not None:
            words[L.PUSHED] = self.get(op.cursor)

    def stream_words(self, op):
        """The words of the stream that a record op belongs to, an instance of which is all there is."""
        opened = op if isinstance(op, record.OpenOp) else op.operands[0].owner
        if isinstance(op, (record.StoreOp, record.PushOp)):
            opened = op.operands[1].owner
            opened = opened.block.owner if isinstance(opened, record.SlotOp) else opened
        self.stream = self.layout.streams[opened.stream.data]
        return self.block[self.stream.base : self.stream.base + self.stream.words]

    def push(self, op, tag):
        stream, cursor = self.stream, self.get(op.cursor)
        if cursor < stream.cursor_capacity:
            at = stream.base + stream.cursor_base + 2 * cursor
            self.block[at : at + 2] = np.array([tag, self.get(op.ticks)], np.uint64)
        self.values[op.moved] = cursor + 1

    def kept(self, loop, number, count, within):
        if within is not None and self.get(within) < 0:
            return -1
        stride, phase, room = (int(x) for x in self.parameters[S.FIRST_LOOP + S.LOOP_WORDS * loop :][:3])
        first = phase if phase >= 0 else max(0, count + phase)
        index, rest = divmod(number - first, stride)
        return -1 if rest or not 0 <= index < room else index
