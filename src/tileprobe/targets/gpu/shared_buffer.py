"""Records that are collected in shared memory and copied to their block by the warp that wrote them.

In come a stream's shared memory and its block in global memory; out go the loops that clear the one, and that copy it
to the other: where the stream ends, and with the strategy `flush` whenever a window is full. A warp copies what its own
thread stored, so no barrier of the program is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tileprobe.ir.layout import Layout, Loop
from tileprobe.ir.windows import Piece, pieces, shared_word, shared_words
from tileprobe.targets.gpu.carried import Carried
from tileprobe.targets.gpu.emit import Emitter
from tileprobe.targets.gpu.isa import Frame, Isa
from tileprobe.targets.gpu.table import BLOCK, EPOCH_WORD, WORD


@dataclass
class SharedBuffer:
    """The shared memory of a stream: `held` as Triton has it, `address` (i32) of its first word; `entry` is where the
    stream finds its block and epoch; an instance has `part` threads."""

    isa: Isa
    layout: Layout
    stream: int
    part: int
    entry: SSAValue
    held: SSAValue
    address: SSAValue
    bin: SSAValue  # that of the word behind all others

    @staticmethod
    def made(
        emit: Emitter, isa: Isa, layout: Layout, stream: int, part: int, entry: SSAValue
    ) -> SharedBuffer:
        words = shared_words(layout, stream) * layout.streams[stream].in_a_cta
        held, address = emit.shared(words + 1)  # one for threads that have nothing to store
        bin = emit.add(address, emit.constant(WORD * words))
        return SharedBuffer(isa, layout, stream, part, entry, held, address, bin)

    def word(self, word: int) -> int:
        """The word of shared memory for one of the block."""
        return shared_word(self.layout, self.stream, word)

    def far(self, emit: Emitter, words: int) -> SSAValue | None:
        """Bytes to the memory of each thread's instance, which has so many words."""
        if self.layout.streams[self.stream].in_a_cta == 1:
            return None
        instance = emit.binary("arith.divui", self.isa.thread(emit), emit.constant(self.part))
        return emit.mul(instance, emit.constant(WORD * words))

    def frame(self, emit: Emitter, by: SSAValue) -> Frame:
        """Where threads find the first word of their instance."""
        far = self.far(emit, shared_words(self.layout, self.stream))
        return self.isa.shared_block(emit, self.address, by, far, self.bin)

    # -- loops over words ------------------------------------------------------------------------------------

    def clear(self, emit: Emitter) -> None:
        """Words that nobody writes are zero."""
        words = shared_words(self.layout, self.stream)
        lane, speaks = self._lanes(emit)
        frame = self.frame(emit, speaks)

        def one(inside: Emitter, word: SSAValue, within: SSAValue) -> None:
            by = inside.both(speaks, within)
            at = self.isa.only(inside, self.isa.apart(inside, frame, word, WORD), by)
            self.isa.put(inside, at, by, 0, inside.constant(0, "i64"))

        self._each(emit, lane, emit.constant(words), one)
        self.isa.settle(emit)

    def copy_rest(self, emit: Emitter) -> None:
        """At the stream's end: everything but windows."""
        self.isa.settle(emit)
        for piece in pieces(self.layout, self.stream):
            if piece.words:
                self._copy(emit, piece, emit.constant(piece.words), None)
        emit.release(self.held)

    def _copy(self, emit: Emitter, piece: Piece, words: SSAValue, first: SSAValue | None) -> None:
        """Copies words of a piece, and clears them if it is a window: its memory is used again. `first` is how many
        words further on in the block they belong."""
        block, epoch = self.isa.table(emit, self.entry, BLOCK)[:2]
        assert EPOCH_WORD == BLOCK + 1
        lane, speaks = self._lanes(emit)
        speaks = emit.both(speaks, emit.compare("ne", epoch, emit.constant(0, "i64")))
        there = self.isa.block(emit, block, speaks, self.far(emit, self.layout.streams[self.stream].words))
        here = self.frame(emit, speaks)
        there = self.isa.onward(emit, there, emit.constant(1), WORD * piece.block)
        here = self.isa.onward(emit, here, emit.constant(1), WORD * piece.shared)
        if first is not None:
            there = self.isa.onward(emit, there, first, WORD)

        def one(inside: Emitter, word: SSAValue, within: SSAValue) -> None:
            by = inside.both(speaks, within)
            source = self.isa.only(inside, self.isa.apart(inside, here, word, WORD), by)
            target = self.isa.only(inside, self.isa.apart(inside, there, word, WORD), by)
            self.isa.put(inside, target, by, 0, self.isa.fetch(inside, source, by))
            if first is not None:
                self.isa.put(inside, source, by, 0, inside.constant(0, "i64"))

        self._each(emit, lane, words, one)

    def _lanes(self, emit: Emitter) -> tuple[SSAValue, SSAValue]:
        """The number of each thread in its instance, and whether it is one of the warp that writes the records."""
        lane = emit.binary("arith.remui", self.isa.thread(emit), emit.constant(self.part))
        return lane, emit.compare("ult", lane, emit.constant(emit.threads.warp_size))

    def _each(self, emit: Emitter, lane: SSAValue, words: SSAValue, one: object) -> None:
        """Every word once, the threads of a warp side by side; `one` is given the word and whether there is one."""
        size = emit.constant(emit.threads.warp_size)
        more = emit.constant(emit.threads.warp_size - 1)
        turns = emit.binary("arith.divui", emit.add(words, more), size)

        def turn(inside: Emitter, number: SSAValue) -> None:
            word = inside.add(lane, inside.mul(number, size))
            one(inside, word, inside.compare("ult", word, words))  # type: ignore[operator]

        emit.repeat(turns, turn)

    # -- windows ---------------------------------------------------------------------------------------------

    def window(self, carried: Carried, loop: Loop, hit: SSAValue | None, behind: Emitter) -> SSAValue:
        """The place of an iteration in its loop's window, which is copied out when it is full and, `behind` the loop,
        what is left of it. `hit` says whether an iteration is kept at all."""
        number = carried.frame_number(hit, loop.window)
        done = carried.value(carried.before.constant(0))  # iterations that have been copied
        end = carried.behind
        piece = Piece(self.word(loop.trip_base + 1), loop.trip_base + 1, loop.window * loop.stride)
        full = end.compare("eq", number, end.constant(loop.window - 1))
        if hit is not None:
            full = end.both(full, hit)

        def copied(inside: Emitter, frames: SSAValue, first: SSAValue) -> None:
            pace = inside.constant(loop.stride)
            self.isa.settle(inside)
            self._copy(inside, piece, inside.mul(frames, pace), inside.mul(first, pace))
            self.isa.settle(inside)

        end.when(full, lambda inside: copied(inside, inside.constant(loop.window), done))
        carried.turn(done, end.select(full, end.add(done, end.constant(loop.window)), done))
        left, first = carried.final(number), carried.final(done)
        some = behind.compare("ne", left, behind.constant(0))
        behind.when(some, lambda inside: copied(inside, left, first))
        return number
