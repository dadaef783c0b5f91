"""A tiny interpreter that runs random kernels and writes records as a lowering would.

It reads the parameter block, computes places from the layout and writes words one by one; beside that it
keeps the plain list of everything that happened, which is the truth the decoder is held against.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from tileprobe.ir import layout as L
from tileprobe.ir import sampling as S


@dataclass(frozen=True)
class Stage:
    region: int
    payload: str = ""


@dataclass(frozen=True)
class If:
    salt: int
    body: tuple


@dataclass(frozen=True)
class For:
    loop: int
    region: int
    capacity: int
    trip: int
    vary: int  # trip counts differ by up to this much from run to run
    body: tuple
    counted: bool = True


@st.composite
def kernels(draw, uniform=False, roomy=False, depth=3):
    """A kernel as a tuple of nodes. A uniform one has no branches and constant trip counts;
    in a roomy one everything fits."""
    counter = {"region": 0, "loop": 0}

    def fresh(what):
        counter[what] += 1
        return counter[what] - 1

    def body(level):
        return tuple(node(level) for _ in range(draw(st.integers(1, 3))))

    def node(level):
        kinds = (
            ["stage"] if level == depth else ["stage", "for"] if uniform else ["stage", "for", "while", "if"]
        )
        kind = draw(st.sampled_from(kinds))
        if kind == "stage":
            return Stage(fresh("region"), draw(st.sampled_from(["", "", "i64", "f64"])))
        if kind == "if":
            return If(draw(st.integers(0, 99)), body(level + 1))
        loop, region = fresh("loop"), fresh("region")
        vary = 0 if uniform else draw(st.integers(0, 2))
        capacity, trip = 8 if roomy else draw(st.integers(1, 5)), draw(st.integers(0, 6))
        return For(loop, region, capacity, trip, vary, body(level + 1), kind == "for")

    return body(0)


def lay_out(kernel, clock_bits=64, cursor_capacity=40, all_cursor=False):
    """Two slots a region: 2r is its start, 2r + 1 its stop."""
    spans = []

    def items(nodes):
        for node in nodes:
            if isinstance(node, If):
                yield from items(node.body)
                continue
            payload = getattr(node, "payload", "")
            spans.append(L.Span(node.region, 2 * node.region, 2 * node.region + 1))
            yield L.Stamp(2 * node.region, payload)
            if isinstance(node, For):
                yield L.Body(node.loop, node.capacity, tuple(items(node.body)), node.counted)
            yield L.Stamp(2 * node.region + 1)

    placed = tuple(items(kernel))
    return L.allocate(
        placed, spans=spans, clock_bits=clock_bits, cursor_capacity=cursor_capacity, all_cursor=all_cursor
    )


@dataclass
class Machine:
    """One launch. `intervals` is the truth about what was to be kept, `records` counts all that happened."""

    layout: L.Layout
    parameters: np.ndarray
    words: np.ndarray  # (blocks, words), written in place
    program_map: np.ndarray | None
    clock: int
    rng: np.random.Generator
    big_steps: bool = False
    intervals: list = field(default_factory=list)
    records: int = 0
    kept: int = 0

    def run(self, kernel, programs):
        for program in range(programs):
            self.program, self.block = program, self._block(program)
            self.pushed = 0
            if self.block is not None:
                self.block[[L.EPOCH, L.UNIT, L.PUSHED, L.BEGIN]] = self._epoch, program % 3, 0, self.clock
            self._body(kernel, (), (), True)
            if self.block is not None:
                self.block[L.PUSHED] = self.pushed

    @property
    def _epoch(self):
        return np.uint64(self.parameters[S.LAUNCH_EPOCH])

    def _block(self, program):
        if self.program_map is not None:
            return self.words[self.program_map[program]] if self.program_map[program] >= 0 else None
        stride, phase = self.parameters[S.PROGRAM_STRIDE], self.parameters[S.PROGRAM_PHASE]
        index, rest = divmod(program - phase, stride)
        if rest or not 0 <= index < self.parameters[S.PROGRAM_LIMIT]:
            return None
        return self.words[index]

    def _index(self, loop, iteration, trip):
        """As a lowering computes it, from the parameter block alone."""
        at = S.FIRST_LOOP + S.LOOP_WORDS * loop
        stride, phase, count = (int(x) for x in self.parameters[at : at + 3])
        first = phase if phase >= 0 else max(0, trip + phase)
        index, rest = divmod(iteration - first, stride)
        return -1 if rest or not 0 <= index < count else index

    def _body(self, nodes, indices, iterations, live):
        for node in nodes:
            if isinstance(node, If):
                if (node.salt + self.program + sum(iterations)) % 2:
                    self._body(node.body, indices, iterations, live)
                continue
            payload = getattr(node, "payload", "")
            value = float(self.program * 10 + sum(iterations)) if payload else None
            start = self._stamp(2 * node.region, indices, iterations, live, payload, value)
            if isinstance(node, For):
                self._loop(node, indices, iterations, live)
            stop = self._stamp(2 * node.region + 1, indices, iterations, live, "", None)
            if start is not None and stop is not None:
                iteration = iterations[-1] if iterations else -1
                self.intervals.append((self.program, node.region, iteration, start, stop, value))

    def _loop(self, node, indices, iterations, live):
        trip = node.trip + (self.program + sum(iterations)) % (node.vary + 1)
        loop = self.layout.loops[node.loop]
        if self.block is not None and live and not loop.cursor:
            at = loop.trip_base + sum(i * s for i, s in zip(indices, loop.strides))
            self.block[at] = (self._epoch << np.uint64(32)) | np.uint64(trip)
        for i in range(trip):
            index = self._index(node.loop, i, trip)
            self._body(node.body, (*indices, index), (*iterations, i), live and index >= 0)

    def _stamp(self, slot, indices, iterations, live, payload, value):
        self.clock += int(self.rng.integers(1, 2**31 if self.big_steps else 50))
        self.records += 1
        place = self.layout.slots[slot]
        if self.block is None or not live:
            return None
        bits = np.array([value or 0], np.float64 if payload == "f64" else np.int64).view(np.uint64)[0]
        narrow = self.layout.clock_bits == 32
        if not place.cursor:
            at = place.place(indices)
            low = np.uint64(self.clock & 0xFFFFFFFF)
            self.block[at] = (self._epoch << np.uint64(32)) | low if narrow else np.uint64(self.clock)
            if payload:
                self.block[at + 1] = bits
            self.kept += 1
            return self.clock
        iteration = np.uint64((iterations[-1] if iterations else -1) & 0xFFFFFFFF)
        tag = (iteration << np.uint64(32)) | np.uint64(slot)
        clock = np.uint64(self.clock & 0xFFFFFFFF if narrow else self.clock)
        fits = self._push(tag, clock)
        if payload:
            self._push(tag | np.uint64(L.PAYLOAD_BIT), bits)
        self.kept += fits
        return self.clock if fits else None

    def _push(self, tag, word):
        fits = self.pushed < self.layout.streams[0].cursor_capacity
        if fits:
            at = self.layout.streams[0].cursor_base + 2 * self.pushed
            self.block[at], self.block[at + 1] = tag, word
        self.pushed += 1
        return fits
