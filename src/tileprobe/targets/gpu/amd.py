"""Records in AMD's terms: the clock is `s_memtime` (20 bits of the shader's cycles on RDNA), the timer that the whole
chip shares `s_memrealtime`.

LLVM's intrinsics, not assembly: LLVM then knows what a record waits for and how it is encoded. LLVM moves matrix
instructions over clocks, and takes two readings for one, so a clock stands between two barriers of its scheduler.
Stores are buffer stores: the hardware drops those that are out of bounds, so threads that do not store need no branch,
only a place that is too far away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tileprobe.ir.accessors import op_name
from tileprobe.ir.layout import BEGIN, EPOCH, GLOBAL_BEGIN, GLOBAL_END, UNIT, Layout
from tileprobe.ir.reader import parse_type
from tileprobe.targets.gpu.amd_buffer import call, descriptor, store
from tileprobe.targets.gpu.emit import Emitter
from tileprobe.targets.gpu.isa import Frame, Reading

# What LLVM may move over a clock: nothing, or matrix instructions end up in another region. Of RDNA's few registers
# fewer are spilled when plain vector arithmetic may (LLVM's AMDGPU guide, llvm.amdgcn.sched.barrier: bit 1).
_CROSSES, _CROSSES_RDNA = 0, 2
# Records that are stored at once. Each holds two scalar registers until then (RDNA: one), of which there are about a
# hundred. RDNA's clock is not waited for, and two are enough to hide a move behind a clock.
_TOGETHER, _TOGETHER_RDNA = 8, 2
# Behind the end of every buffer, in bytes. Offsets of records are added to it, and nothing wraps round below 2^32.
_NOWHERE = -(2**31)
# Behind every work group's shared memory, in bytes; never used as an address (`_within`).
_NOWHERE_SHARED = 2**20
_COMMENT = 'asm_string = "; {}", constraints = "", has_side_effects'
# Hardware registers that name a compute unit, (register, first bit, bits), the finest last.
_UNITS = {
    "gfx9": ((20, 0, 4), (4, 13, 3), (4, 8, 4)),  # XCC_ID; HW_ID: shader engine, compute unit
    "gfx11": ((23, 18, 3), (23, 16, 1), (23, 10, 4)),  # HW_ID1: shader engine, array, work group processor
}


class Amd:
    """What the lowering of records asks of an instruction set."""

    name = "hip"

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.narrow = arch.startswith("gfx11")  # its clock has 20 bits, and registers are few
        self.together = _TOGETHER_RDNA if self.narrow else _TOGETHER

    def check(self, layout: Layout) -> None:
        from tileprobe.targets.gpu.target import HipTarget

        HipTarget.capabilities.check(layout, HipTarget.name)

    def thread(self, emit: Emitter) -> SSAValue:
        """A scalar as Triton sees it, so that records are no tensors: LLVM knows that threads differ."""
        return call(emit, "llvm.amdgcn.workitem.id.x", [], "i32")

    def reach(self, frame: Frame) -> int:
        return 2**16 - 1 if frame.shared else 2**12 - 1

    def table(self, emit: Emitter, address: SSAValue, word: int) -> list[SSAValue]:
        """Two 64-bit words from an even one on."""
        found = []
        for n in (word, word + 1):
            at = emit.add(address, emit.constant(8 * n, "i64"))
            pointer = emit.value("tt.int_to_ptr", [at], parse_type("!tt.ptr<i64>"))
            shape = "isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>"
            found.append(emit.value("tt.load", [pointer], i64, shape))
        return found

    def block(self, emit: Emitter, address: SSAValue, by: SSAValue, far: SSAValue | None) -> Frame:
        base = descriptor(emit, address, rdna=self.narrow)
        return self.only(emit, Frame(emit.constant(0) if far is None else far, base), by)

    def shared_block(
        self, emit: Emitter, address: SSAValue, by: SSAValue, far: SSAValue | None, bin: SSAValue
    ) -> Frame:
        at = address if far is None else emit.add(address, far)
        return self.only(emit, Frame(at, shared=True, bin=bin), by)

    def onward(self, emit: Emitter, frame: Frame, number: SSAValue, pace: int) -> Frame:
        if frame.shared:
            return self.apart(emit, frame, number, pace)
        far = emit.mul(emit.cast(number, 32), emit.constant(pace))
        return self.along(frame, far if frame.far is None else emit.add(frame.far, far))

    def apart(self, emit: Emitter, frame: Frame, number: SSAValue, pace: int) -> Frame:
        far = emit.mul(emit.cast(number, 32), emit.constant(pace))
        return replace(frame, at=emit.add(frame.at, far))

    def along(self, frame: Frame, far: SSAValue) -> Frame:
        return replace(frame, far=far)

    def only(self, emit: Emitter, frame: Frame, hit: SSAValue) -> Frame:
        away = emit.constant(_NOWHERE_SHARED if frame.shared else _NOWHERE)
        return replace(frame, at=emit.select(hit, frame.at, away))

    def header(self, emit: Emitter, frame: Frame, by: SSAValue, epoch: SSAValue) -> None:
        self.put(emit, frame, by, 8 * EPOCH, epoch)
        self.put(emit, frame, by, 8 * UNIT, self._unit(emit))
        self.put(emit, frame, by, 8 * GLOBAL_BEGIN, call(emit, "llvm.readsteadycounter", [], "i64"))
        self.put(emit, frame, by, 8 * BEGIN, call(emit, "llvm.readcyclecounter", [], "i64"))

    def end(self, emit: Emitter, frame: Frame, by: SSAValue) -> None:
        self.put(emit, frame, by, 8 * GLOBAL_END, call(emit, "llvm.readsteadycounter", [], "i64"))

    def beside(self, emit: Emitter, by: SSAValue, epoch: SSAValue) -> SSAValue:
        return epoch

    def stamp(
        self, emit: Emitter, frame: Frame, by: SSAValue, offset: int, epoch: SSAValue, bits: int
    ) -> None:
        """A clock in its place."""
        self.keep(emit, [Reading(self.clock(emit), frame, offset, emit.where)], by, epoch, bits)

    def clock(self, emit: Emitter) -> SSAValue:
        stays = [emit.constant(_CROSSES_RDNA if self.narrow else _CROSSES)]
        around = emit.block.parent_op()
        marked = around is not None and op_name(around) == "scf.if"
        if marked:  # or the clocks with which both branches begin or end would become one
            emit.op("llvm.inline_asm", [], [], _COMMENT.format(emit.own_name()))
        call(emit, "llvm.amdgcn.sched.barrier", stays)
        ticks = call(emit, "llvm.readcyclecounter", [], "i64")
        call(emit, "llvm.amdgcn.sched.barrier", stays)
        if marked:
            emit.op("llvm.inline_asm", [], [], _COMMENT.format(emit.own_name()))
        return ticks

    def keep(
        self, emit: Emitter, readings: Sequence[Reading], by: SSAValue, epoch: SSAValue, bits: int
    ) -> None:
        """All are waited for at once, and neighbours are stored by one instruction."""
        left = list(readings)
        while left:
            first, at = left[0], emit.at(left[0].where)
            if self.narrow and bits == 64 and not first.frame.shared:
                # The other half is zero, and is before: one register less.
                self.put(at, first.frame, by, first.offset, at.cast(first.ticks, 32))
            elif len(left) > 1 and first.beside(left[1]):
                second = left.pop(1)
                other = emit.at(second.where)
                words = [_word(at, first.ticks, epoch, bits), _word(other, second.ticks, epoch, bits)]
                self._put_two(at, first.frame, first.offset, words)
            else:
                self.put(at, first.frame, by, first.offset, _word(at, first.ticks, epoch, bits))
            left.pop(0)

    def put(self, emit: Emitter, frame: Frame, by: SSAValue, offset: int, word: SSAValue) -> None:
        """A word in its place; who does not store is somewhere else already."""
        if frame.shared:
            text = f"ds_write_b64 $1, $2 offset:{offset}"
            emit.scalar_assembly(text, "=v,v,v", [_within(emit, frame, offset), word], ["i32"])
            return
        assert frame.base is not None
        store(emit, [word], frame.base, emit.add(frame.at, emit.constant(offset)), frame.far)

    def _put_two(self, emit: Emitter, frame: Frame, offset: int, words: list[SSAValue]) -> None:
        """Two 64-bit words side by side."""
        assert frame.base is not None
        both = [_moved(emit, word) for word in words]
        store(emit, both, frame.base, emit.add(frame.at, emit.constant(offset)), frame.far)

    def fetch(self, emit: Emitter, frame: Frame, by: SSAValue) -> SSAValue:
        # Assembly is separated by ends of lines; LLVM does not know that there is something to wait for.
        text = "ds_read_b64 $0, $1\\0As_waitcnt lgkmcnt(0)"
        return emit.scalar_assembly(text, "=&v,v", [_within(emit, frame, 0)], ["i64"])[0]

    def settle(self, emit: Emitter) -> None:
        """A wave runs in step and its accesses to shared memory are done in order: nothing may be moved over this."""
        call(emit, "llvm.amdgcn.sched.barrier", [emit.constant(_CROSSES)])

    def _unit(self, emit: Emitter) -> SSAValue:
        """The number of the compute unit, made of the parts that contain it."""
        unit = emit.constant(0)
        for register, first, bits in _UNITS.get(self.arch[:5], _UNITS["gfx9"]):
            which = emit.constant(register | first << 6 | (bits - 1) << 11)
            part = call(emit, "llvm.amdgcn.s.getreg", [which], "i32")
            unit = emit.binary("arith.ori", emit.binary("arith.shli", unit, emit.constant(bits)), part)
        return emit.cast(unit, 64, signed=False)


def _within(emit: Emitter, frame: Frame, offset: int) -> SSAValue:
    """The address in shared memory; for threads that do not store that of a word which nobody reads. Manuals say that
    writes out of range are dropped, and also that addresses have 16 bits (RDNA 3 ISA, 3.3.4.1): none relies on it."""
    assert frame.bin is not None
    return emit.binary("arith.minsi", frame.at, emit.sub(frame.bin, emit.constant(offset)))


def _moved(emit: Emitter, word: SSAValue) -> SSAValue:
    """A word in vector registers by one instruction; LLVM takes two where four registers are to lie side by side."""
    return emit.scalar_assembly("v_mov_b64 $0, $1", "=v,s", [word], ["i64"], pure=True)[0]


def _word(emit: Emitter, ticks: SSAValue, epoch: SSAValue, bits: int) -> SSAValue:
    """A clock as it is stored: all of it, or its low half under the epoch."""
    if bits == 64:
        return ticks
    low = emit.cast(emit.cast(ticks, 32), 64, signed=False)
    high = emit.binary("arith.shli", emit.cast(epoch, 64, signed=False), emit.constant(32, "i64"))
    return emit.binary("arith.ori", high, low)
