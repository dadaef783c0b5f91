"""Records in NVIDIA's terms: a clock is `%clock64`, the timer that all SMs share `%globaltimer`.

A record is one piece of assembly: read the clock, store it where the thread is the one that speaks for its stream.
The store is a strong one of the program's own scope, which no compiler takes out although the next dose writes to the
same place; the clock is read by all threads, since a predicate on it costs more than it saves.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tileprobe.ir.layout import BEGIN, EPOCH, GLOBAL_BEGIN, GLOBAL_END, UNIT, Layout
from tileprobe.targets.gpu.emit import Emitter
from tileprobe.targets.gpu.isa import Frame

_KEEPS = 100  # from here on ptxas keeps such addresses in each thread's registers by itself (benchmarks.gpu_probes)
_UNIFORM_CLOCKS = 120  # from here on ptxas reads clocks into uniform registers (`CS2UR`)
_STORE = "st.relaxed.cta.global"
_SHARED_STORE = "st.relaxed.cta.shared"
_BY = "setp.ne.b32 by, $2, 0;"  # whether this thread stores


class Nvidia:
    """What the lowering of records asks of an instruction set."""

    name = "cuda"
    assert UNIT == EPOCH + 1  # they are written together

    def __init__(self, arch: int) -> None:
        self.spread = arch < _KEEPS
        self.uniform_clocks = arch >= _UNIFORM_CLOCKS

    def check(self, layout: Layout) -> None:
        from tileprobe.targets.gpu.target import CudaTarget

        CudaTarget.capabilities.check(layout, CudaTarget.name)

    def thread(self, emit: Emitter) -> SSAValue:
        return emit.thread()

    def reach(self, frame: Frame) -> int:
        return 2**23 - 1  # 24 bits with a sign

    def table(self, emit: Emitter, address: SSAValue, word: int) -> list[SSAValue]:
        """Two 64-bit words from an even one on. Not by one load: of four registers that belong together ptxas copies
        some at once, and then the program waits for them before it has begun."""
        text = f"ld.global.b64 $0, [$2+{8 * word}];\nld.global.b64 $1, [$2+{8 * word + 8}];"
        return emit.scalar_assembly(text, "=l,=l,l", [address], ["i64", "i64"])

    def block(self, emit: Emitter, address: SSAValue, by: SSAValue, far: SSAValue | None) -> Frame:
        """An address that is the same for all threads would go into uniform registers, out of which every store would
        have to fetch it: it is made each thread's own."""
        if far is not None:
            address = emit.add(address, emit.cast(far, 64, signed=False))
        address = emit.each(address)
        if self.spread:
            address = emit.select(by, address, emit.each(emit.constant(0, "i64")))
        return Frame(address)

    def shared_block(
        self, emit: Emitter, address: SSAValue, by: SSAValue, far: SSAValue | None, bin: SSAValue
    ) -> Frame:
        address = emit.each(address if far is None else emit.add(address, far))
        if self.spread:
            address = emit.select(by, address, emit.each(emit.constant(0)))
        return Frame(address, shared=True)

    def onward(self, emit: Emitter, frame: Frame, number: SSAValue, pace: int) -> Frame:
        if frame.shared:
            far = emit.mul(emit.cast(number, 32), emit.constant(pace))
            return Frame(emit.add(frame.at, far), shared=True)
        far = emit.mul(emit.cast(number, 64, signed=False), emit.constant(pace, "i64"))
        return Frame(emit.add(frame.at, far))

    def apart(self, emit: Emitter, frame: Frame, number: SSAValue, pace: int) -> Frame:
        return self.onward(emit, frame, number, pace)

    def only(self, emit: Emitter, frame: Frame, hit: SSAValue) -> Frame:
        return frame  # stores are predicated

    def header(self, emit: Emitter, frame: Frame, by: SSAValue, epoch: SSAValue) -> None:
        self.late_header(emit, frame, by, epoch, self.begun(emit))

    def begun(self, emit: Emitter) -> list[SSAValue]:
        # The multiprocessor's number takes as long as the way into memory, where the kernel's own loads would be first.
        text = "mov.u64 $0, %globaltimer; mov.u64 $1, %clock64; mov.u32 $2, %smid;"
        return emit.assembly(text, "=l,=l,=r,r", [emit.thread()], ["i64", "i64", "i32"])

    def arrived(self, emit: Emitter, words: list[SSAValue]) -> list[SSAValue]:
        # The same words, behind something that stays where it is: or ptxas would use them where they were asked for.
        return emit.scalar_assembly("mov.b64 $0, $2; mov.b64 $1, $3;", "=l,=l,l,l", words, ["i64", "i64"])

    def late_header(
        self, emit: Emitter, frame: Frame, by: SSAValue, epoch: SSAValue, begun: list[SSAValue]
    ) -> None:
        # All words are zero before; what nobody writes need not be cleared.
        text = f"""{{ .reg .pred by; .reg .b64 unit;
            {_BY} cvt.u64.u32 unit, $6;
            @by {_STORE}.v2.b64 [$1+{8 * EPOCH}], {{$3, unit}};
            @by {_STORE}.b64 [$1+{8 * GLOBAL_BEGIN}], $4; @by {_STORE}.b64 [$1+{8 * BEGIN}], $5; }}"""
        emit.assembly(text, "=r,l,r,l,l,l,r", [frame.at, _number(emit, by), epoch, *begun], ["i32"])

    def clock_now(self, emit: Emitter) -> SSAValue:
        text = f"{{ .reg .b64 {emit.own_name()}; mov.u64 $0, %clock64; }}"
        return emit.assembly(text, "=l,r", [emit.thread()], ["i64"])[0]

    def late(
        self,
        emit: Emitter,
        frame: Frame,
        by: SSAValue,
        offset: int,
        epoch: SSAValue,
        bits: int,
        ticks: SSAValue,
    ) -> None:
        if bits < 64:
            low = emit.cast(emit.cast(ticks, 32), 64, signed=False)
            high = emit.binary("arith.shli", emit.cast(epoch, 64, signed=False), emit.constant(32, "i64"))
            ticks = emit.binary("arith.ori", high, low)
        self.put(emit, frame, by, offset, ticks)

    def end(self, emit: Emitter, frame: Frame, by: SSAValue) -> None:
        text = f"""{{ .reg .pred by; .reg .b64 all; {_BY} mov.u64 all, %globaltimer;
            @by {_STORE}.b64 [$1+{8 * GLOBAL_END}], all; }}"""
        emit.assembly(text, "=r,l,r", [frame.at, _number(emit, by)], ["i32"])

    def beside(self, emit: Emitter, by: SSAValue, epoch: SSAValue) -> SSAValue:
        """Each thread's own, as addresses are."""
        return emit.select(by, epoch, emit.each(emit.constant(0)))

    def stamp(
        self, emit: Emitter, frame: Frame, by: SSAValue, offset: int, epoch: SSAValue, bits: int
    ) -> None:
        """A clock in its place."""
        store, kind = _store(frame)
        if bits == 64:
            text = f"""{{ .reg .pred by; .reg .b64 t, {emit.own_name()}; {_BY} mov.u64 t, %clock64;
                @by {store}.b64 [$1+{offset}], t; }}"""
            emit.assembly(text, f"=r,{kind},r", [frame.at, _number(emit, by)], ["i32"])
            return
        # `%clock`, and the low half of `%clock64` alone, have a slower way through the uniform registers: threads that
        # store nothing keep the high half. Where clocks are always read into those that is only more to do.
        high = "mov.b32 high, $3;" if self.uniform_clocks else "selp.b32 high, $3, high, by;"
        text = f"""{{ .reg .pred by; .reg .b32 low, high; .reg .b64 t, {emit.own_name()}; {_BY} mov.u64 t, %clock64;
            mov.b64 {{low, high}}, t; {high} mov.b64 t, {{low, high}};
            @by {store}.b64 [$1+{offset}], t; }}"""
        emit.assembly(text, f"=r,{kind},r,r", [frame.at, _number(emit, by), epoch], ["i32"])

    def put(self, emit: Emitter, frame: Frame, by: SSAValue, offset: int, word: SSAValue) -> None:
        """A 64-bit word in its place."""
        store, kind = _store(frame)
        text = f"{{ .reg .pred by; {_BY} @by {store}.b64 [$1+{offset}], $3; }}"
        emit.assembly(text, f"=r,{kind},r,l", [frame.at, _number(emit, by), word], ["i32"])

    def fetch(self, emit: Emitter, frame: Frame, by: SSAValue) -> SSAValue:
        _, kind = _store(frame)
        space = "shared" if frame.shared else "global"
        text = f"{{ .reg .pred by; {_BY} mov.b64 $0, 0; @by ld.relaxed.cta.{space}.b64 $0, [$1]; }}"
        return emit.assembly(text, f"=&l,{kind},r", [frame.at, _number(emit, by)], ["i64"])[0]

    def settle(self, emit: Emitter) -> None:
        emit.scalar_assembly("mov.b32 $0, $1; bar.warp.sync 0xffffffff;", "=r,r", [emit.constant(0)], ["i32"])


def _store(frame: Frame) -> tuple[str, str]:
    """How it is stored to a frame, and what an address is in assembly."""
    return (_SHARED_STORE, "r") if frame.shared else (_STORE, "l")


def _number(emit: Emitter, by: SSAValue) -> SSAValue:
    """A truth as assembly takes it."""
    return emit.cast(by, 32, signed=False)
