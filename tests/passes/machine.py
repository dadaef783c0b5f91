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


class Machine:
    def __init__(self, arguments, clock=1000):
        self.arguments = arguments
        self.clock = clock
        self.intervals = []  # (region, iteration, start, stop)
        self.opened = []
        self.values = {}
        self.iterations = ()

    def run(self, function, block=None, parameters=None):
        self.block, self.parameters, self.pushed, self.counters = block, parameters, 0, {}
        body = function.regions[0]
        self.values.update(zip(body.blocks[0].args, self.arguments))
        current = body.blocks[0]
        while current is not None:
            current = self.block_of(current)
        return self

    def block_of(self, block):
        for op in block.ops:
            name = op_name(op)
            if name == "cf.cond_br":
                return op.successors[0 if self.get(op.operands[0]) else 1]
            if name == "cf.br":
                return op.successors[0]
            self.step(op, name)
        return None

    def get(self, value):
        return self.values[value]

    def step(self, op, name):
        if isinstance(op, probe.ProbeOp):
            self.probe(op)
        elif name.startswith("record."):
            self.record(op)
        elif name == "arith.constant":
            self.values[op.results[0]] = attr_value(op, "value")
        elif name == "my.stage":
            self.clock += attr_value(op, "ticks")
        elif name == "scf.for":
            lower, upper, by = (self.get(v) for v in op.operands[:3])
            self.loop(op.regions[0].blocks[0], range(lower, upper, by))
        elif name == "scf.while":  # runs as often as the number it starts with says
            body = op.regions[1].blocks[0]
            self.loop(body, range(self.get(op.operands[0])))
        elif name == "scf.if":
            # the branch is taken in odd iterations
            if sum(self.iterations) % 2:
                self.block_of(op.regions[0].blocks[0])

    def loop(self, body, numbers):
        outside = self.iterations
        for n, number in enumerate(numbers):
            self.iterations = (*outside, n)
            if body.args:
                self.values[body.args[0]] = number
            self.block_of(body)
        self.iterations = outside

    def probe(self, op):
        now = self.iterations[-1] if self.iterations else -1
        if isinstance(op, probe.StartOp):
            self.opened.append(self.clock)
        elif isinstance(op, probe.StopOp):
            self.intervals.append((op.region_id, now, self.opened.pop(), self.clock))
        elif isinstance(op, (probe.MarkOp, probe.ValueOp)):
            self.intervals.append((op.region_id, now, self.clock, self.clock))

    def record(self, op):
        words = self.block
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
            self.counters[op.loop.data] = 0
        elif isinstance(op, record.NextOp):
            number = self.counters[op.loop.data]
            self.counters[op.loop.data] += 1
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
        elif isinstance(op, record.PushOp):
            iteration = -1 if op.iteration is None else self.get(op.iteration)
            if op.iteration is None or iteration >= 0:
                self.push(op, (iteration & 0xFFFFFFFF) << 32 | op.slot.data)
        elif isinstance(op, record.FlushOp):
            words[L.PUSHED] = self.pushed

    def push(self, op, tag):
        stream = self.layout.streams[0]
        if self.pushed < stream.cursor_capacity:
            at = stream.cursor_base + 2 * self.pushed
            self.block[at : at + 2] = np.array([tag, self.get(op.ticks)], np.uint64)
        self.pushed += 1

    def kept(self, loop, number, count, within):
        if within is not None and self.get(within) < 0:
            return -1
        stride, phase, room = (int(x) for x in self.parameters[S.FIRST_LOOP + S.LOOP_WORDS * loop :][:3])
        first = phase if phase >= 0 else max(0, count + phase)
        index, rest = divmod(number - first, stride)
        return -1 if rest or not 0 <= index < room else index
