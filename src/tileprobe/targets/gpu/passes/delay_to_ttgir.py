"""delay-to-ttgir: delays become Triton's own GPU IR: every warp reads the clock until so many ticks have passed.

In comes final TTGIR with `record.delay` and no other op of ours; out goes TTGIR that Triton compiles on. On NVIDIA's a
delay is one piece of assembly with a loop in it, on AMD's a loop of Triton's IR. A delay of 0 ticks reads the clock all
the same: it is the kernel that others are held against.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr_value
from tileprobe.ir.reader import op_class
from tileprobe.ir.record import DelayOp
from tileprobe.targets.gpu.amd import Amd
from tileprobe.targets.gpu.emit import Emitter, Threads
from tileprobe.targets.gpu.isa import isa_of

_NO_THREADS = Threads(1, 32)  # nothing here is a tensor


@dataclass(frozen=True)
class DelayToTtgirPass(ModulePass):
    """Turns delays into Triton's GPU IR."""

    name = "delay-to-ttgir"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        delays = [inner for inner in op.walk() if isinstance(inner, DelayOp)]
        if not delays:
            return
        isa = isa_of(str(attr_value(op, "ttg.target")))
        if isinstance(isa, Amd) and isa.narrow:
            raise TileProbeError(
                "the clock of gfx11 has 20 bits: a delay on it may never end; delays are for others"
            )
        for delay in delays:
            block = delay.parent
            assert block is not None
            emit = Emitter(block, delay, _NO_THREADS, delay.location)
            if isinstance(isa, Amd):
                _loop(emit, isa, delay)
            else:
                _assembly(emit, delay)
            delay.detach()
            delay.erase()


def _assembly(emit: Emitter, delay: DelayOp) -> None:
    """Labels in braces are nobody else's."""
    text = f"""{{ .reg .b64 begun, now; .reg .pred more; mov.u64 begun, %clock64;
        again: mov.u64 now, %clock64; sub.u64 now, now, begun; setp.lt.u64 more, now, {delay.ticks.data};
        @more bra again; mov.b32 $0, $1; }}"""
    emit.scalar_assembly(text, "=r,r", [emit.constant(0)], ["i32"])


def _loop(emit: Emitter, isa: Amd, delay: DelayOp) -> None:
    begun = isa.clock(emit)
    before, after = Block(), Block()
    inside = Emitter(before, None, _NO_THREADS, emit.where)
    passed = inside.sub(isa.clock(inside), begun)
    more = inside.compare("ult", passed, inside.constant(delay.ticks.data, "i64"))
    inside.op("scf.condition", [more], [])
    Emitter(after, None, _NO_THREADS, emit.where).op("scf.yield", [], [])
    made: Operation = op_class("scf.while").create(
        operands=[], result_types=[], regions=[Region(before), Region(after)], location=emit.where
    )
    assert emit.before is not None
    emit.block.insert_op_before(made, emit.before)
