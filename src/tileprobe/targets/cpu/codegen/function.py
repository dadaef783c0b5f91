"""Emits one function of tile IR as LLVM: scalars, control flow, and stages through their own emitters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, Operation, SSAValue

from tileprobe.ir.accessors import attr, int_attr, op_name
from tileprobe.ir.record import DelayOp, FenceOp
from tileprobe.targets.cpu.codegen import control, elementwise, memory, records, scalar_effects, stages
from tileprobe.targets.cpu.codegen.origins import Origins, origin
from tileprobe.targets.cpu.codegen.types import (
    I8,
    I32,
    I64,
    Kind,
    Value,
    bytes_of,
    elem_type,
    pointee_name,
    register_type,
)
from tileprobe.targets.cpu.dialect import AllocOp, BufferType, ReadOp, ViewOp

if TYPE_CHECKING:
    from tileprobe.ir.layout import Layout
    from tileprobe.targets.cpu.codegen.module import ModuleEmitter


class FunctionEmitter:
    """State of one function: values by SSA value, the builder, where buffers lie."""

    def __init__(
        self, module: ModuleEmitter, op: Operation, function: ir.Function, layout: Layout | None = None
    ):
        self.module = module
        self.op = op
        self.function = function
        self.vector_bytes: int = module.vector_bytes
        self.scalar_only: bool = module.options.check_bounds
        self._makes_pointers = any(op_name(inner) == "tt.int_to_ptr" for inner in op.walk())
        self.fuse: bool = module.options.enable_fp_fusion
        self.values: dict[SSAValue, Value] = {}
        self.blocks: dict[Block, ir.Block] = {}
        self.entry = function.append_basic_block("entry")
        self.builder = ir.IRBuilder(self.entry)
        self.launch, self.scratch, *ids = function.args[: 2 + 3]
        self.program = ids
        self.base = self.builder.ptrtoint(self.scratch, I64)
        # where accesses go whose mask is off: as long as the longest vector
        self.dummy = self.builder.ptrtoint(self.local(ir.ArrayType(I64, 64)), I64)
        self.failed: ir.Block | None = None
        self.origins = Origins(function)
        # With a layout the function records, into the block that is its last argument.
        self.recorder = records.Recorder(self, layout, function.args[-1]) if layout is not None else None

    # -- values ----------------------------------------------------------------------------------------------

    def value(self, value: SSAValue) -> Value:
        return self.values[value]

    def buffer_address(self, buffer: SSAValue) -> Value:
        """Address (i64) of a buffer's first element."""
        return self.values[buffer]

    def local(self, kind: Kind) -> Value:
        """A stack slot, allocated once on entry however often the code around runs."""
        with self.builder.goto_entry_block():
            slot: Any = self.builder.alloca(kind)
            slot.align = 64
        return slot

    def checked(self, address: Value, op: Operation, mask: Value | None) -> Value:
        """The address, or that of a dummy if it is outside every known tensor (then the error is recorded)."""
        if not self.module.options.check_bounds:
            return address
        if self._makes_pointers and not self._of_argument(op.operands[0]):
            return address  # made from an integer: it may well point to a tensor nobody told us of
        return scalar_effects.checked_address(self, address, op, mask)

    def _of_argument(self, pointer: SSAValue) -> bool:
        while isinstance(pointer.owner, Operation):
            if op_name(pointer.owner) not in ("tt.addptr", "tt.bitcast"):
                return False
            pointer = pointer.owner.operands[0]
        return pointer.owner is self.op.regions[0].blocks[0]

    # -- ops -------------------------------------------------------------------------------------------------

    def emit_function(self) -> None:
        region = self.op.regions[0]
        for arg, value in zip(region.blocks[0].args, self.function.args[5:]):
            self.values[arg] = value
        blocks = list(region.blocks)
        for block in blocks[1:]:
            self.blocks[block] = self.function.append_basic_block("bb")
        for block in blocks[1:]:
            self.builder.position_at_end(self.blocks[block])
            for arg in block.args:
                self.values[arg] = self.builder.phi(register_type(elem_type(arg.type)))
        body = self.function.append_basic_block("start")
        self.builder.position_at_end(body)
        self.emit_block(blocks[0])
        for block in blocks[1:]:
            self.builder.position_at_end(self.blocks[block])
            self.emit_block(block)
        self.builder.position_at_end(self.entry)
        self.builder.branch(body)
        if self.failed is not None:
            self.builder.position_at_end(self.failed)
            self.builder.ret(self._failure())
        self.origins.write()

    def _failure(self) -> Value:
        kind = self.function.function_type.return_type
        if isinstance(kind, ir.IntType):
            return ir.Constant(kind, 1)
        return self.builder.insert_value(ir.Constant(kind, None), ir.Constant(I32, 1), 0)

    def fail_block(self) -> ir.Block:
        """Where a program goes whose assertion failed."""
        if self.failed is None:
            self.failed = self.function.append_basic_block("failed")
        return self.failed

    def emit_block(self, block: Block) -> None:
        for op in block.ops:
            self.emit_op(op)

    def emit_op(self, op: Operation) -> None:
        said = origin(op)
        before = self.origins.begin(self.builder, said)
        self._emit(op)
        self.origins.end(said, before)

    def _emit(self, op: Operation) -> None:
        name = op_name(op)
        if isinstance(op, AllocOp):
            assert op.offset is not None
            self.values[op.buffer] = self.builder.add(self.base, ir.Constant(I64, op.offset.data))
        elif isinstance(op, ViewOp):
            self.values[op.buffer] = self.values[op.source]
        elif name == "tile.table":
            self.values[op.results[0]] = self._table(op)
        elif name in control.EMITTERS:
            control.EMITTERS[name](self, op)
        elif name in stages.EMITTERS:
            stages.EMITTERS[name](self, op)
        elif name == "arith.constant":
            self.values[op.results[0]] = elementwise.constant_value(op)
        elif name in ("llvm.intr.assume", "probe.region"):
            return  # a hint of tl.assume, the name of a region: nothing to run
        elif isinstance(op, DelayOp):
            records.delay(self, op)
        elif isinstance(op, FenceOp):
            records.fence(self)
        elif name.startswith("record."):
            if self.recorder is not None:
                self.recorder.emit(op)
        else:
            self._emit_scalar(op, name)

    def _emit_scalar(self, op: Operation, name: str) -> None:
        args = [self.value(v) for v in op.operands]
        if name in ("tt.get_program_id", "tt.get_num_programs"):
            axis = int_attr(op, "axis")
            source = self.program[axis] if name == "tt.get_program_id" else self._grid(axis)
            self.values[op.results[0]] = source
        elif name == "tt.load":
            self.values[op.results[0]] = self._load(op, args)
        elif name == "tt.store":
            element = pointee_name(op.operands[0].type)
            mask = args[2] if len(args) > 2 else None
            address = self.checked(args[0], op, mask)
            memory.store_scalar(self.builder, args[1], address, element, mask, self.dummy)
        elif isinstance(op, ReadOp):
            self.values[op.results[0]] = self._read(op, args)
        elif scalar_effects.handles(name):
            results = self.effect(op, args)
            self.values.update(zip(op.results, results))
        else:
            self.values[op.results[0]] = elementwise.emit(self.builder, op, args, self.fuse)

    def effect(self, op: Operation, args: list[Value]) -> list[Value]:
        return scalar_effects.emit(self, op, args)

    def _load(self, op: Operation, args: list[Value]) -> Value:
        element = pointee_name(op.operands[0].type)
        rest: list[Any] = [*args[1:], None, None]
        address = self.checked(args[0], op, rest[0])
        return memory.load_scalar(self.builder, address, element, rest[0], rest[1], self.dummy)

    def _read(self, op: ReadOp, args: list[Value]) -> Value:
        from tileprobe.targets.cpu.codegen import buffers

        kind = op.buffer.type
        assert isinstance(kind, BufferType)
        name = elem_type(kind.element)
        offset = buffers.linear(self.builder, kind, args[1:])
        address = self.builder.add(args[0], self.builder.mul(offset, ir.Constant(I64, bytes_of(name))))
        return memory.load_scalar(self.builder, address, name, None, None, self.dummy)

    def _grid(self, axis: int) -> Value:
        slot = self.builder.gep(self.launch, [ir.Constant(I64, axis)], source_etype=I64)
        return self.builder.trunc(self.builder.load(slot, typ=I64), I32)

    def _table(self, op: Operation) -> Value:
        data = attr(op, "value")
        assert isinstance(data, DenseIntOrFPElementsAttr)
        raw = data.data.data
        kind = ir.ArrayType(I8, len(raw))
        held: Any = ir.GlobalVariable(self.module.llvm, kind, self.module.llvm.get_unique_name("table"))
        held.global_constant, held.linkage, held.align = True, "internal", 64
        held.initializer = ir.Constant(kind, bytearray(raw))
        return self.builder.ptrtoint(held, I64)
