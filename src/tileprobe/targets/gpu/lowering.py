"""What all parts of the lowering of records share: the module, its streams and iterations, and how a word is put.

Parts are a file each: streams (`lower_streams`), loops (`lower_loops`), records (`lower_records`); the pass
`record-to-ttgir` puts them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileprobe.ir.layout import Layout
from tileprobe.ir.record import AgainOp, IndexOp, NextOp, StoreOp
from tileprobe.targets.gpu.emit import Emitter, location
from tileprobe.targets.gpu.gathered import Group, gathered
from tileprobe.targets.gpu.isa import Frame, Gathers, Isa, Reading
from tileprobe.targets.gpu.streams import Kept, Opened, Stream
from tileprobe.targets.gpu.table import WORD

# Files that locations name: records by slot and dose, what else is added.
RECORD_FILE = "tileprobe.record"
SHARED_RECORD_FILE = "tileprobe.shared_record"
OTHER_FILE = "tileprobe.overhead"
FLUSH_FILE = "tileprobe.flush"
OTHER = location(OTHER_FILE)
FLUSH = location(FLUSH_FILE)


@dataclass
class Lowering:
    module: ModuleOp
    layout: Layout
    isa: Isa
    streams: dict[SSAValue, Stream] = field(default_factory=dict)
    opened: dict[SSAValue, Opened] = field(default_factory=dict)
    kept: dict[SSAValue, Kept] = field(default_factory=dict)
    done: list[Operation] = field(default_factory=list)
    written: Counter[int] = field(default_factory=Counter)  # slot -> how often so far
    sampled: set[int] = field(default_factory=set)  # loops whose iterations are chosen at run time
    groups: dict[StoreOp, Group] = field(default_factory=dict)  # records that are stored together
    read: dict[StoreOp, Reading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.isa, Gathers):
            self.groups = gathered(self.module, self.isa.together)
        for op in self.module.walk():
            if isinstance(op, AgainOp):
                self.sampled.add(op.loop.data)
            if isinstance(op, (IndexOp, NextOp)) and (op.dynamic is not None or self.layout.circular):
                self.sampled.add(op.loop.data)

    def emitter(self, block: Block, op: Operation, stream: Stream) -> Emitter:
        return Emitter(block, op, stream.threads, OTHER)

    def around(self, indices: Iterable[SSAValue], stream: Stream) -> tuple[SSAValue, Frame]:
        """Which threads record in the innermost of these iterations, and its frame."""
        within = list(indices)
        if not within:
            return stream.by, stream.home
        kept = self.kept[within[-1]]
        return kept.by, kept.frame

    def near(self, emit: Emitter, frame: Frame, offset: int) -> tuple[Frame, int]:
        """A frame from which the offset fits into a store."""
        offset -= frame.first
        if offset + WORD <= (reach := self.isa.reach(frame)):
            return frame, offset
        near = offset % (reach + 1) if offset % (reach + 1) + WORD <= reach else 0
        return self.isa.onward(emit, frame, emit.constant(1), offset - near), near

    def put(self, emit: Emitter, frame: Frame, by: SSAValue, offset: int, word: SSAValue) -> None:
        frame, offset = self.near(emit, frame, offset)
        self.isa.put(emit, frame, by, offset, word)
