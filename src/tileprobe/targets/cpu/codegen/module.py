"""Emits a module of tile IR: the functions, the kernel's entry that runs a range of programs, and its error sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import FunctionType, IntAttr, ModuleOp
from xdsl.ir import Operation

from tileprobe.ir.accessors import attr, attr_value, op_name
from tileprobe.ir.layout import Layout
from tileprobe.ir.locations import source_location
from tileprobe.targets.cpu.codegen import record_blocks, records
from tileprobe.targets.cpu.codegen.function import FunctionEmitter
from tileprobe.targets.cpu.codegen.types import (
    F32,
    F64,
    I1,
    I32,
    I64,
    PTR,
    Kind,
    Value,
    elem_type,
    register_type,
)
from tileprobe.targets.cpu.dialect import BufferType

# Slots of the launch block (8 bytes each)
_ERRORS, _BOUNDS, _ARGUMENTS = 3, 6, 8


class ModuleEmitter:
    def __init__(self, tile: ModuleOp, options: Any, vector_bytes: int):
        self.tile = tile
        self.options = options
        self.vector_bytes = vector_bytes
        self.llvm = ir.Module(str(tile.attributes["tile.kernel"]).strip('"'))
        self.functions: dict[str, ir.Function] = {}
        self.sites: list[dict[str, Any]] = []
        self.prints = False
        self._ops = [op for op in tile.ops if op_name(op) == "tt.func"]
        self._scratch: dict[str, int] = {}
        self.layout: Layout | None = None  # of the kernel's records, if it has any

    def emit(self) -> dict[str, Any]:
        """Emit everything; returns what the launcher has to know."""
        kernel = next(op for op in self._ops if _name(op) == self.llvm.name)
        self.layout = records.layout_in(kernel)
        for op in self._ops:
            block = [I64] if op is kernel and self.layout is not None else []
            self.functions[_name(op)] = self._declare(op, block)
        for op in self._ops:
            layout = self.layout if op is kernel else None
            FunctionEmitter(self, op, self.functions[_name(op)], layout).emit_function()
        symbol = self._entry(kernel)
        return {
            "symbol": symbol,
            "scratch_bytes": self._total_scratch(kernel),
            "args": [
                {"name": a.name_hint or "", "type": str(a.type)} for a in kernel.regions[0].blocks[0].args
            ],
            "sites": self.sites,
            "prints": self.prints,
            "apart": self._apart(),
        }

    def _apart(self) -> list[list[str]]:
        """Pairs of arguments that the code takes for tensors that do not overlap."""
        pairs = self.tile.attributes.get("tile.apart")
        return [] if pairs is None else [pair.data.split(" ") for pair in pairs]  # type: ignore[attr-defined]

    def _declare(self, op: Operation, more: Sequence[Kind] = ()) -> ir.Function:
        inputs = [_llvm_type(a.type) for a in op.regions[0].blocks[0].args]
        kind = attr(op, "function_type")
        outputs = [_llvm_type(t) for t in kind.outputs] if isinstance(kind, FunctionType) else []
        result = ir.LiteralStructType([I32, *outputs]) if outputs else I32
        kind = ir.FunctionType(result, [PTR, PTR, I32, I32, I32, *inputs, *more])
        function = ir.Function(self.llvm, kind, f"tile.{_name(op)}")
        function.linkage = "internal"
        function.args[1].add_attribute("noalias")
        return function

    # -- scratch ---------------------------------------------------------------------------------------------

    def scratch_of(self, op: Operation) -> int:
        """Bytes of scratch a function itself uses."""
        held = op.attributes.get("tile.scratch")
        return held.data if isinstance(held, IntAttr) else 0

    def _total_scratch(self, op: Operation) -> int:
        """Bytes of a function and of what it calls, which stand behind its own."""
        name = _name(op)
        if name not in self._scratch:
            deepest = 0
            for inner in op.walk():
                if op_name(inner) == "tt.call":
                    callee = str(attr_value(inner, "callee"))
                    deepest = max(
                        deepest, self._total_scratch(next(o for o in self._ops if _name(o) == callee))
                    )
            self._scratch[name] = self.scratch_of(op) + deepest
        return self._scratch[name]

    # -- the entry -------------------------------------------------------------------------------------------

    def _entry(self, kernel: Operation) -> str:
        """`i32 kernel(launch, scratch, first, last)`: runs programs first to last - 1."""
        symbol = _name(kernel)
        function = ir.Function(self.llvm, ir.FunctionType(I32, [PTR, PTR, I64, I64]), symbol)
        launch, scratch, first, last = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        grid = [self._slot(b, launch, n, I64) for n in range(2)]
        args = [
            self._argument(b, launch, _ARGUMENTS + n, a.type)
            for n, a in enumerate(kernel.regions[0].blocks[0].args)
        ]
        loop, body, step, done, bad = (
            function.append_basic_block(n) for n in ("loop", "body", "step", "done", "bad")
        )
        entry = b.block
        b.branch(loop)
        b.position_at_end(loop)
        program = b.phi(I64)
        program.add_incoming(first, entry)
        b.cbranch(b.icmp_signed("<", program, last), body, done)
        b.position_at_end(body)
        x, rest = b.urem(program, grid[0]), b.udiv(program, grid[0])
        y, z = b.urem(rest, grid[1]), b.udiv(rest, grid[1])
        passed = [launch, scratch, *(b.trunc(v, I32) for v in (x, y, z)), *args]
        after = None
        if self.layout is None:
            status = b.call(self.functions[symbol], passed)
        else:
            status, after = record_blocks.call_program(
                b, self.functions[symbol], self.layout, program, last, passed
            )
        if self.options.check_bounds:
            status = b.or_(status, self._error_state(b, launch))
        b.cbranch(b.icmp_signed("==", status, ir.Constant(I32, 0)), step, bad)
        b.position_at_end(step)
        program.add_incoming(after or b.add(program, ir.Constant(I64, 1)), step)
        b.branch(loop)
        b.position_at_end(done)
        b.ret(ir.Constant(I32, 0))
        b.position_at_end(bad)
        b.ret(ir.Constant(I32, 1))
        return symbol

    def _slot(self, b: ir.IRBuilder, launch: Value, number: int, kind: Kind) -> Value:
        return b.load(b.gep(launch, [ir.Constant(I64, number)], source_etype=I64), typ=kind, align=8)

    def _argument(self, b: ir.IRBuilder, launch: Value, number: int, kind: object) -> Value:
        name = elem_type(kind)  # type: ignore[arg-type]
        want = register_type(name)
        if want in (F32, F64):
            return self._slot(b, launch, number, want)
        held = self._slot(b, launch, number, I64)
        if name == "f16":
            return b.bitcast(b.trunc(held, ir.IntType(16)), want)
        return held if want == I64 else b.trunc(held, want)

    # -- errors ----------------------------------------------------------------------------------------------

    def site(self, kind: str, op: Operation, message: str, **more: Any) -> int:
        place = source_location(op)
        entry = {
            "kind": kind,
            "message": message,
            "file": place.file if place else "",
            "line": place.line if place else 0,
            "function": "",
            **more,
        }
        if entry not in self.sites:
            self.sites.append(entry)
        return self.sites.index(entry)

    def linear_program(self, f: FunctionEmitter) -> Value:
        b = f.builder
        x, y, z = (b.zext(p, I64) for p in f.program)
        gx, gy = (self._slot(b, f.launch, n, I64) for n in range(2))
        return b.add(x, b.mul(gx, b.add(y, b.mul(gy, z))))

    def record_failure(self, f: FunctionEmitter, site: int, values: list[Value]) -> None:
        """Fill the launch's error block, if this is the first failure."""
        b = f.builder
        wide = [b.sext(v, I64) if v.type != I64 else v for v in values][:6]
        wide += [ir.Constant(I64, 0)] * (6 - len(wide))
        b.call(self._record_function(), [f.launch, ir.Constant(I32, site), self.linear_program(f), *wide])

    def _record_function(self) -> ir.Function:
        known = self.llvm.globals.get("tile.record_error")
        if known is not None:
            return known
        function = ir.Function(
            self.llvm, ir.FunctionType(ir.VoidType(), [PTR, I32, I64] + [I64] * 6), "tile.record_error"
        )
        function.linkage = "internal"
        function.attributes.add("noinline")
        launch, site, program, *values = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        block = b.inttoptr(self._slot(b, launch, _ERRORS, I64), PTR)
        pair = b.cmpxchg(block, ir.Constant(I32, 0), ir.Constant(I32, 1), "acq_rel", "monotonic")
        with b.if_then(b.extract_value(pair, 1)):
            b.store(site, b.gep(block, [ir.Constant(I64, 1)], source_etype=I32))
            b.store(program, b.gep(block, [ir.Constant(I64, 1)], source_etype=I64))
            for number, value in enumerate(values):
                b.store(value, b.gep(block, [ir.Constant(I64, 2 + number)], source_etype=I64))
        b.ret_void()
        return function

    def _error_state(self, b: ir.IRBuilder, launch: Value) -> Value:
        block = b.inttoptr(self._slot(b, launch, _ERRORS, I64), PTR)
        return b.load_atomic(block, "monotonic", 4, typ=I32)

    def bounds_function(self) -> ir.Function:
        """Searches the table of known tensors for an access."""
        known = self.llvm.globals.get("tile.checked")
        if known is not None:
            return known
        function = ir.Function(
            self.llvm, ir.FunctionType(I64, [PTR, I64, I64, I32, I64, I1, I64]), "tile.checked"
        )
        function.linkage = "internal"
        function.attributes.add("noinline")
        launch, address, size, site, program, active, dummy = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        good, bad = function.append_basic_block("good"), function.append_basic_block("bad")
        search, test, next_, have = (
            function.append_basic_block(n) for n in ("search", "test", "next", "have")
        )
        b.cbranch(active, have, good)
        b.position_at_end(have)
        raw = self._slot(b, launch, _BOUNDS, I64)
        b.cbranch(b.icmp_unsigned("==", raw, ir.Constant(I64, 0)), good, search)
        b.position_at_end(search)
        index = b.phi(I64)
        index.add_incoming(ir.Constant(I64, 0), have)
        table = b.inttoptr(raw, PTR)
        b.cbranch(b.icmp_unsigned("<", index, b.load(table, typ=I64)), test, bad)
        b.position_at_end(test)
        entry = b.add(b.shl(index, ir.Constant(I64, 1)), ir.Constant(I64, 1))
        begin = b.load(b.gep(table, [entry], source_etype=I64), typ=I64)
        end = b.load(b.gep(table, [b.add(entry, ir.Constant(I64, 1))], source_etype=I64), typ=I64)
        inside = b.and_(
            b.icmp_unsigned(">=", address, begin), b.icmp_unsigned("<=", b.add(address, size), end)
        )
        b.cbranch(inside, good, next_)
        b.position_at_end(next_)
        index.add_incoming(b.add(index, ir.Constant(I64, 1)), next_)
        b.branch(search)
        b.position_at_end(bad)
        zeros = [ir.Constant(I64, 0)] * 4
        b.call(self._record_function(), [launch, site, program, address, size, *zeros])
        b.ret(dummy)
        b.position_at_end(good)
        b.ret(address)
        return function


def _name(op: Operation) -> str:
    return str(attr_value(op, "sym_name"))


def _llvm_type(kind: object) -> Kind:
    if isinstance(kind, BufferType):
        return I64
    return register_type(elem_type(kind))  # type: ignore[arg-type]
