"""A small machine that runs programs on a virtual clock and writes records as a lowering would.

It reads the parameter block, computes places from the layout and writes words one by one. Beside that it keeps
what happened, record by record: the truth that decoding and replay are held against.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from record_programs import For, If, Pipe, Receive, Send, Stage

from tileprobe.ir import layout as L
from tileprobe.ir import sampling as S
from tileprobe.trace.model import KINDS


@dataclass(eq=False)
class Record:
    """A record that was written; `alive` until something else lies in its place."""

    clock: int
    where: tuple  # program, stream instance, unit
    alive: bool = True
    value: float | None = None


@dataclass
class Launch:
    """Everything that one launch did. Intervals are (where, region, kind, iteration, start, stop, outer)."""

    laid: object
    parameters: np.ndarray
    words: np.ndarray  # (blocks, words), written in place
    table: np.ndarray | None
    seed: int = 0
    begin: int = 2**40
    step: int = 50  # the most ticks of a piece of work
    cost: int = 0  # ticks of a record
    latency: int = 0  # the most ticks of an asynchronous operation
    counter: int = 64  # bits of the machine's own counter
    intervals: list = field(default_factory=list)
    sent: dict = field(default_factory=dict)  # by program, region, (outer, logical iteration)
    received: dict = field(default_factory=dict)
    records: list = field(default_factory=list)
    happened: int = 0
    margins: list = field(default_factory=list)  # arrival at a wait less the end of what it waits for

    def run(self, programs):
        for program in range(programs):
            block = self._block(program)
            instance = 0
            for stream, part in zip(self.laid.layout.streams, self.laid.program):
                for n in range(part.instances):
                    Instance(self, program, stream, n, instance, block).run(part.nodes)
                    instance += 1
        self._across()
        return self

    def _block(self, program):
        if self.table is not None:
            return self.words[self.table[program]] if self.table[program] >= 0 else None
        stride, phase = self.parameters[S.PROGRAM_STRIDE], self.parameters[S.PROGRAM_PHASE]
        index, rest = divmod(program - phase, stride)
        return None if rest or not 0 <= index < self.parameters[S.PROGRAM_LIMIT] else self.words[index]

    def _across(self):
        """Producers meet consumers: instance by instance where both have several, else each meets all."""
        several = [part.instances > 1 for part in self.laid.program]
        for (program, region, key), starts in self.sent.items():
            for n, start in starts:
                for m, stop in self.received.get((program, region, key), []):
                    if n == m or not (several[0] and several[1]):
                        self.intervals.append((start, stop, region, "async", key[1], key[0]))

    def truth(self):
        """The intervals of which both records are left: (program, stream, region, kind, iteration, start, stop,
        value), and for each the outer iteration, or None where that has no simple meaning."""
        found = []
        for start, stop, region, kind, iteration, outer in self.intervals:
            if start is not None and stop is not None and start.alive and stop.alive:
                row = (*start.where[:2], region, KINDS.index(kind), iteration, start.clock, stop.clock)
                found.append(((*row, start.value), outer, (stop.where, start.where)))
        return sorted(found, key=lambda one: str(one[0]))

    def kept(self):
        return sum(record.alive for record in self.records)


class Instance:
    """One stream instance of one program."""

    def __init__(self, launch, program, stream, number, instance, block):
        self.launch, self.layout, self.slots = launch, launch.laid.layout, launch.laid.slots
        self.program, self.stream, self.number = program, stream, number
        self.rng = np.random.default_rng((launch.seed, program, instance))
        self.clock = launch.begin + int(self.rng.integers(0, 1000))
        self.where = (program, instance, (program + 5 * instance) % 7)
        self.block, self.pushed, self.holds = None, 0, {}
        self.totals = {loop.id: (0, 0) for loop in self.layout.pushed_loops(stream.id)}
        self.recorded = False  # the first record costs nothing: time begins with it
        if block is not None:
            base = stream.base + number * stream.words
            self.block = block[base : base + stream.words]
            header = self._epoch, self.where[2], 0, self.clock
            self.block[[L.EPOCH, L.UNIT, L.PUSHED, L.BEGIN]] = header

    def run(self, nodes):
        self._body(nodes, (), (), self.block is not None)
        if self.block is not None:
            self.block[L.PUSHED] = self.pushed
            for loop, (total, runs) in self.totals.items():
                at = self.layout.loops[loop].trip_base
                self.block[at : at + 2] = self._count(total), self._count(runs)

    @property
    def _epoch(self):
        return np.uint64(self.launch.parameters[S.LAUNCH_EPOCH])

    # -- loops -----------------------------------------------------------------------------------------------

    def _index(self, loop, iteration, trip):
        """As a lowering computes it, from the parameter block alone."""
        at = S.FIRST_LOOP + S.LOOP_WORDS * loop
        stride, phase, count = (int(x) for x in self.launch.parameters[at : at + 3])
        first = phase if phase >= 0 else max(0, trip + phase)
        index, rest = divmod(iteration - first, stride)
        return -1 if rest or not 0 <= index < count else index

    def _loop(self, number, trip, indices, live):
        """Yields (iteration, indices, live) of each iteration; stores the trip count."""
        loop = self.layout.loops[number]
        if live and not loop.cursor:
            at = loop.trip_base + sum(i * s for i, s in zip(indices, loop.strides))
            self.block[at] = self._count(trip)
        if loop.cursor:
            total, runs = self.totals[number]
            self.totals[number] = total + trip, runs + (trip > 0)
        for i in range(trip):
            index = self._index(number, i, trip)
            keeps = live and index >= 0
            if keeps and self.layout.circular and not loop.cursor:
                index %= loop.capacity
                self._forget(loop, (*indices, index))
            yield i, (*indices, index), keeps

    def _count(self, number):
        return (self._epoch << np.uint64(32)) | np.uint64(number)

    def _forget(self, loop, indices):
        """A circular place is taken again: nothing of the older iteration counts any more."""
        base = loop.trip_base + 1 + sum(i * s for i, s in zip(indices, (*loop.strides, loop.stride)))
        for word in range(base, base + loop.stride):
            if word in self.holds:
                self.holds.pop(word).alive = False

    # -- nodes -----------------------------------------------------------------------------------------------

    def _body(self, nodes, indices, iterations, live):
        for node in nodes:
            match node:
                case Stage() | For():
                    self._region(node, indices, iterations, live)
                case If() if (node.salt + self.program + sum(iterations)) % 2:
                    self._body(node.body, indices, iterations, live)
                case Pipe():
                    self._pipe(node, indices, iterations, live)
                case Send() | Receive():
                    self._across(node, live)

    def _trip(self, node, iterations):
        return node.trip + (self.program + sum(iterations)) % (node.vary + 1)

    def _add(self, start, stop, region, kind, iteration, outers):
        outer = outers[0] if len(outers) == 1 else 0 if not outers else None
        self.launch.intervals.append((start, stop, region, kind, iteration, outer))

    def _region(self, node, indices, iterations, live):
        payload = getattr(node, "payload", "")
        value = float(self.program * 10 + sum(iterations)) if payload else None
        start = self._stamp(node.region, "start", indices, iterations, live, payload, value)
        if isinstance(node, For):
            for i, inner, keeps in self._loop(node.loop, self._trip(node, iterations), indices, live):
                self._body(node.body, inner, (*iterations, i), keeps)
        stop = self._stamp(node.region, "stop", indices, iterations, live)
        iteration = iterations[-1] if iterations else -1
        self._add(start, stop, node.region, "region", iteration, iterations[:-1])

    def _pipe(self, node, indices, iterations, live):
        trip = self._trip(node, iterations)
        ops = {}  # logical iteration -> (issue, end of the operation)

        def issue(n, role, indices, iterations, live):
            record = self._stamp(node.region, role, indices, iterations, live)
            long = 0 if self.layout.loops[node.loop].cursor else self.launch.latency
            takes = int(self.rng.integers(0, long + 1)) if self.rng.integers(0, 2) else 0
            if n < trip:
                ops[n] = record, self.clock + takes

        def wait(n, roles, indices, iterations, live):
            first = self._stamp(node.region, roles[0], indices, iterations, live)
            issued, end = ops.get(n, (None, self.clock))
            self.launch.margins.append(self.clock - end)
            self.clock = max(self.clock, end)
            last = self._stamp(node.region, roles[1], indices, iterations, live, free=True)
            around = iterations[: len(self.layout.loops[node.loop].loops)]
            self._add(first, last, node.wait_region, "wait", max(n, -1), around)  # below 0: of no iteration
            self._add(issued, last, node.region, "async", n, around)

        for n in range(node.before):
            issue(n, ("issue", n), indices, iterations, live)
        for i, inner, keeps in self._loop(node.loop, trip, indices, live):
            here = (inner, (*iterations, i), keeps)
            if node.issue_first:
                issue(i + node.before, "issue", *here)
            wait(i - node.behind, ("wait", "done"), *here)
            self._body(node.body, *here)
            if not node.issue_first:
                issue(i + node.before, "issue", *here)
        for n in range(-node.behind, 0):
            wait(trip + n, (("wait", n), ("done", n)), indices, iterations, live)

    def _across(self, node, live):
        if node.outer < 0:
            self._half(node, (), (), live)
            return
        for i, inner, keeps in self._loop(node.outer, node.rounds, (), live):
            self._half(node, inner, (i,), keeps)

    def _half(self, node, indices, iterations, live):
        sends = isinstance(node, Send)
        notes = self.launch.sent if sends else self.launch.received

        def note(n, record):
            key = (self.program, node.region, (iterations[0] if iterations else 0, n))
            if record is not None and not (sends and n >= node.trip):  # the loop has no such iteration
                notes.setdefault(key, []).append((self.number, record))

        for n in range(node.copies if sends else 0):
            note(n, self._stamp(node.region, ("issue", n), indices, iterations, live))
        for i, inner, keeps in self._loop(node.loop, node.trip, indices, live):
            role = "issue" if sends else "done"
            note(
                i + node.ahead, self._stamp(node.region, role, inner, (*iterations, i), keeps, free=not sends)
            )

    # -- records ---------------------------------------------------------------------------------------------

    def _stamp(self, region, role, indices, iterations, live, payload="", value=None, free=False):
        """A piece of work, and a record behind it; `free` ones end a wait."""
        if not free:
            self.clock += int(self.rng.integers(1, self.launch.step))
        self.launch.happened += 1
        slot = self.layout.slots[self.slots[region, role]]
        if not live:
            return None
        place = self.stream.cursor_base + 2 * self._cursor() if slot.cursor else slot.place(indices)
        if place is None or (slot.cursor and not self._fits()):
            self.pushed += 2 if payload else 1
            return None
        self.clock += 0 if free or not self.recorded else self.launch.cost
        self.recorded = True
        self.clock += self.launch.counter < 64 and not self._counted()  # a zero is not told from nothing
        record = Record(self.clock, self.where, value=value)
        self.launch.records.append(record)
        if slot.cursor:
            self._push(slot.id, iterations, record, payload, value)
        else:
            self._hold(place, record)
            self.block[place] = self._word()
            if payload:
                self.block[place + 1] = _bits(payload, value)
        return record

    def _counted(self):
        return self.clock & ((1 << self.launch.counter) - 1)

    def _word(self):
        bits = self.layout.clock_bits
        if bits == 64:
            return np.uint64(self._counted())
        return (self._epoch << np.uint64(32)) | np.uint64(self._counted() & ((1 << bits) - 1))

    def _hold(self, place, record):
        if place in self.holds:
            self.holds[place].alive = False
        self.holds[place] = record

    def _fits(self):
        return self.layout.circular or self.pushed < self.stream.cursor_capacity

    def _cursor(self):
        return self.pushed % self.stream.cursor_capacity if self.layout.circular else self.pushed

    def _push(self, slot, iterations, record, payload, value):
        iteration = np.uint64((iterations[-1] if iterations else -1) & 0xFFFFFFFF)
        tag = (iteration << np.uint64(32)) | np.uint64(slot)
        self._pair(tag, self._word(), record)
        if payload:
            if self._fits():
                self._pair(tag | np.uint64(L.PAYLOAD_BIT), _bits(payload, value), None)
            else:
                record.value, self.pushed = None, self.pushed + 1

    def _pair(self, tag, word, record):
        at = self.stream.cursor_base + 2 * self._cursor()
        self.block[at], self.block[at + 1] = tag, word
        if at in self.holds:
            self.holds.pop(at).alive = False
        if record is not None:
            self.holds[at] = record
        self.pushed += 1


def _bits(payload, value):
    return np.array([value], np.float64 if payload == "f64" else np.int64).view(np.uint64)[0]


def launch(laid, sampling, programs, blocks, *, epoch=7, words=None, **how):
    """Runs one launch; its words are in `Launch.words`."""
    if words is None:
        words = np.zeros((blocks, laid.layout.block_words), np.uint64)
    table = sampling.program_map(programs, blocks)
    parameters = sampling.parameters(laid.layout, buffer=1, epoch=epoch, programs=programs, blocks=blocks)
    return Launch(laid, parameters, words, table, **how).run(programs)


def decoded_rows(decoded, corrected=False):
    """What was decoded, as `Launch.truth` gives it."""
    ends = ("start_corrected", "stop_corrected") if corrected else ("start", "stop")
    names = ("program", "stream", "region", "kind", "iteration", *ends, "value", "outer")
    rows = zip(*(decoded.columns[name].tolist() for name in names)) if decoded.columns else ()
    rows = [((*row[:-2], None if np.isnan(row[-2]) else row[-2]), row[-1]) for row in rows]
    return sorted(rows, key=lambda one: str(one[0]))
