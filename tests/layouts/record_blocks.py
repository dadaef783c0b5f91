"""The words of one program, written by slot, and what is decoded from them."""

import numpy as np

from tileprobe.ir.layout import BEGIN, EPOCH, GLOBAL_BEGIN, GLOBAL_END, UNIT
from tileprobe.trace.decode import decode
from tileprobe.trace.model import KINDS


class Block:
    """One program's words, written by slot."""

    def __init__(self, layout, epoch=1):
        self.layout, self.epoch = layout, epoch
        self.words = np.zeros(layout.block_words, np.uint64)

    def open(self, stream, instance=0, unit=0, begin=0, times=(0, 0)):
        words = self._of(stream, instance)
        words[[EPOCH, UNIT, BEGIN, GLOBAL_BEGIN, GLOBAL_END]] = self.epoch, unit, begin, *times
        return self

    def _of(self, stream, instance):
        this = self.layout.streams[stream]
        return self.words[this.base + instance * this.words :][: this.words]

    def trip(self, loop, count, *indices, instance=0):
        this = self.layout.loops[loop]
        at = this.trip_base + sum(i * s for i, s in zip(indices, this.strides))
        self._of(this.stream, instance)[at] = (self.epoch << 32) | count
        return self

    def put(self, slot, clock, *indices, instance=0):
        this, bits = self.layout.slots[slot], self.layout.clock_bits
        word = clock if bits == 64 else (self.epoch << 32) | (clock & ((1 << bits) - 1))
        self._of(this.stream, instance)[this.place(indices)] = word
        return self

    def decode(self, **more):
        return decode(self.words, self.layout, epochs=[self.epoch], programs=1, **more)


def intervals(decoded, kind=None, *more):
    names = ("iteration", "start", "stop", *more)
    rows = zip(*(decoded.columns[name].tolist() for name in ("kind", *names)))
    return sorted(row[1:] for row in rows if kind is None or row[0] == KINDS.index(kind))
