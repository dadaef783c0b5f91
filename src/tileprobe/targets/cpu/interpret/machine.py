"""What a run holds: memory, the grid, the functions of the module, and the values of the function being run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr, attr_value, op_name
from tileprobe.targets.cpu.dialect import AllocOp
from tileprobe.targets.cpu.interpret.buffers import Buffer, buffer_type, size_of
from tileprobe.targets.cpu.interpret.elementwise import prepare
from tileprobe.targets.cpu.interpret.float_ops import Evaluate
from tileprobe.targets.cpu.interpret.memory import Extent, Memory, Region, scratch_of

if TYPE_CHECKING:
    from tileprobe.targets.cpu.interpret.checking import OrderCheck
    from tileprobe.targets.cpu.interpret.nest import NestPlan


# An op, the addresses of all its points, and which of them its mask lets through (None: all).
Touched = Callable[[Operation, np.ndarray, np.ndarray | None], None]


class Machine:
    """One run of a module. `check`, if there is one, sees every nest in all orders."""

    def __init__(
        self,
        module: ModuleOp,
        grid: tuple[int, int, int],
        extents: Sequence[Extent],
        order: str,
        lanes: int,
        check: OrderCheck | None = None,
    ):
        self.functions = {name_of(op): op for op in module.ops if op_name(op) == "tt.func"}
        kernel = str(attr_value(module, "tile.kernel"))
        if kernel not in self.functions:
            raise TileProbeError(f"the module has no function {kernel!r}, which tile.kernel names")
        self.kernel = self.functions[kernel]
        self.grid = grid
        self.program: tuple[int, int, int] = (0, 0, 0)
        self.memory = Memory(extents)
        self.scratch: Region = scratch_of(self._scratch_bytes(self.kernel))
        self.order, self.lanes, self.check = order, lanes, check
        self.after: Callable[[Operation], None] | None = None  # called when an op of a function has run
        self.touched: Touched | None = None  # told each access to the caller's memory
        self.prints: list[str] = []
        self.plans: dict[Operation, NestPlan] = {}
        self._evaluators: dict[Operation, Evaluate] = {}
        self._tables: dict[Operation, Buffer] = {}
        self._allocations = 0

    def _scratch_bytes(self, function: Operation) -> int:
        """Of a function and of what it calls, whose scratch begins behind its own."""
        calls = [op for op in function.walk() if op_name(op) == "tt.call"]
        deepest = [self._scratch_bytes(self.functions[str(attr_value(call, "callee"))]) for call in calls]
        return scratch_bytes(function) + max(deepest, default=0)

    def evaluator(self, op: Operation) -> Evaluate:
        known = self._evaluators.get(op)
        if known is None:
            known = self._evaluators[op] = prepare(op)
        return known

    def allocate(self, op: AllocOp, base: int) -> Buffer:
        """The buffer of an alloc: poisoned, and with a number of its own each time."""
        if op.offset is None:
            raise TileProbeError("a tile.alloc has no offset; schedule the module, or write `at <offset>`")
        kind = buffer_type(op.buffer)
        offset = base + op.offset.data
        if offset + size_of(kind) > self.scratch.data.size:
            raise TileProbeError(
                f"a buffer at {offset} reaches beyond the {self.scratch.data.size} bytes of scratch"
            )
        self.memory.poison(self.scratch, offset, size_of(kind))
        self._allocations += 1
        return Buffer(self.scratch, offset, self._allocations)

    def table(self, op: Operation) -> Buffer:
        """The buffer of constants of a `tile.table`."""
        if op not in self._tables:
            held = attr(op, "value")
            assert isinstance(held, DenseIntOrFPElementsAttr)
            data = np.frombuffer(held.data.data, np.uint8).copy()
            self._tables[op] = Buffer(Region("table", data.ctypes.data, data), 0, 0)
        return self._tables[op]


@dataclass
class Frame:
    """One call of a function: its values, and where its scratch begins."""

    machine: Machine
    function: Operation
    base: int = 0
    values: dict[SSAValue, Any] = field(default_factory=dict)

    @property
    def memory(self) -> Memory:
        return self.machine.memory


def name_of(function: Operation) -> str:
    return str(attr_value(function, "sym_name"))


def scratch_bytes(function: Operation) -> int:
    """Bytes of scratch a function itself uses."""
    held = function.attributes.get("tile.scratch", function.properties.get("tile.scratch"))
    if isinstance(held, IntAttr):
        return held.data
    return int(attr_value(function, "tile.scratch", 0))
