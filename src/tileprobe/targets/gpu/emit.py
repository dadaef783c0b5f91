"""Makes ops of Triton's GPU IR, one after another, in front of an op.

In comes a place in a bridged module and a location; out go unregistered ops there, which Triton's parser takes back.
Values are scalars, the same for all threads, or one element a thread of a stream (`Threads`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileprobe.ir.accessors import is_tensor
from tileprobe.ir.reader import op_class, parse_attributes, parse_type

_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_PIECE = 16  # words of shared memory
_WITH_FLAGS = frozenset(["arith.addi", "arith.subi", "arith.muli", "arith.shli"])


@dataclass(frozen=True)
class Threads:
    """The threads of a stream: tensors with one element for each."""

    warps: int
    warp_size: int
    ctas: int = 1  # each of which has all of them

    @property
    def count(self) -> int:
        return self.warps * self.warp_size

    def of(self, element: str) -> Attribute:
        """The type of a tensor with one element of a type for each thread."""
        parts = f"sizePerThread = [1], threadsPerWarp = [{self.warp_size}], warpsPerCTA = [{self.warps}]"
        return parse_type(
            f"tensor<{self.count}x{element}, #ttg.blocked<{{{parts}, order = [0]{self.alike()}}}>>"
        )

    def alike(self, rank: int = 1) -> str:
        """That all CTAs of a program have the same: a zero for each bit of a CTA's number, if there are several."""
        zeros = ", ".join([f"[{', '.join(['0'] * rank)}]"] * (self.ctas.bit_length() - 1))
        return f", CGALayout = [{zeros}]" if zeros else ""


def location(file: str, line: int = 1, column: int = 1) -> LocationAttr:
    """A location that reaches the machine code: Triton keeps the file of what is called only."""
    here = FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))
    return CallSiteLoc(here, here)


class Emitter:
    """Puts ops in front of `before`, or at the end of `block` when that is None."""

    def __init__(self, block: Block, before: Operation | None, threads: Threads, where: LocationAttr) -> None:
        self.block, self.before, self.threads, self.where = block, before, threads, where

    def at(self, where: LocationAttr) -> Emitter:
        """The same place under another location."""
        return Emitter(self.block, self.before, self.threads, where)

    def own_name(self) -> str:
        """A name for what is used by nothing else, after the record: where two places have the same records at the same
        places of their blocks LLVM would make one piece of code of both."""
        where = self.where.callee if isinstance(self.where, CallSiteLoc) else self.where
        return f"record{where.line.data}" if isinstance(where, FileLineColLoc) else "record"

    def op(
        self, name: str, operands: Sequence[SSAValue], results: Sequence[Attribute], properties: str = ""
    ) -> Operation:
        made = op_class(name).create(
            operands=operands,
            result_types=results,
            properties=dict(parse_attributes(f"{{{properties}}}")) if properties else {},
            location=self.where,
        )
        if self.before is None:
            self.block.add_op(made)
        else:
            self.block.insert_op_before(made, self.before)
        return made

    def value(
        self, name: str, operands: Sequence[SSAValue], kind: Attribute, properties: str = ""
    ) -> SSAValue:
        return self.op(name, operands, [kind], properties).results[0]

    # -- constants and arithmetic ----------------------------------------------------------------------------

    def constant(self, number: int, kind: str = "i32") -> SSAValue:
        if kind == "i1":
            return self.value("arith.constant", [], parse_type("i1"), f"value = {str(bool(number)).lower()}")
        return self.value("arith.constant", [], parse_type(kind), f"value = {number} : {kind}")

    def each(self, value: SSAValue) -> SSAValue:
        """A scalar as the value of each thread."""
        if is_tensor(value.type):
            return value
        return self.value("tt.splat", [value], self.threads.of(str(value.type)))

    def binary(self, name: str, left: SSAValue, right: SSAValue) -> SSAValue:
        left, right = self._alike(left, right)
        flags = "overflowFlags = #arith.overflow<none>" if name in _WITH_FLAGS else ""
        return self.value(name, [left, right], left.type, flags)

    def add(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.binary("arith.addi", left, right)

    def sub(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.binary("arith.subi", left, right)

    def mul(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.binary("arith.muli", left, right)

    def both(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.binary("arith.andi", left, right)

    def compare(self, how: str, left: SSAValue, right: SSAValue) -> SSAValue:
        left, right = self._alike(left, right)
        kind = self.threads.of("i1") if is_tensor(left.type) else parse_type("i1")
        return self.value("arith.cmpi", [left, right], kind, f"predicate = {_PREDICATES.index(how)} : i64")

    def select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        yes, no = self._alike(yes, no)
        if is_tensor(yes.type):
            condition = self.each(condition)
        return self.value("arith.select", [condition, yes, no], yes.type)

    def cast(self, value: SSAValue, width: int, *, signed: bool = True) -> SSAValue:
        """An integer of another width."""
        held = str(value.type) if not is_tensor(value.type) else str(value.type.element_type)  # type: ignore
        kind = self.threads.of(f"i{width}") if is_tensor(value.type) else IntegerType(width)
        if held == "index":
            return self.value("arith.index_cast", [value], kind)
        have = int(held[1:])
        if have == width:
            return value
        name = "arith.trunci" if have > width else "arith.extsi" if signed else "arith.extui"
        flags = "overflowFlags = #arith.overflow<none>" if name == "arith.trunci" else ""
        return self.value(name, [value], kind, flags)

    def bits(self, value: SSAValue) -> SSAValue:
        """Those of a number as a word: an integer of 64 bits, or a double."""
        name = str(value.type)
        if name[0] == "i":
            return self.cast(value, 64)
        wide = value if name == "f64" else self.value("arith.extf", [value], f64)
        return self.value("arith.bitcast", [wide], i64)

    def _alike(self, left: SSAValue, right: SSAValue) -> tuple[SSAValue, SSAValue]:
        if is_tensor(left.type) or is_tensor(right.type):
            return self.each(left), self.each(right)
        return left, right

    # -- control flow ----------------------------------------------------------------------------------------

    def repeat(self, count: SSAValue, body: Callable[[Emitter, SSAValue], None]) -> None:
        """Runs what `body` emits so many times; it is given the number of the turn, an i32."""
        block = Block(arg_types=[count.type])
        inside = Emitter(block, None, self.threads, self.where)
        body(inside, block.args[0])
        inside.op("scf.yield", [], [])
        self._around("scf.for", [self.constant(0), count, self.constant(1)], [Region(block)])

    def when(self, condition: SSAValue, body: Callable[[Emitter], None]) -> None:
        """Runs what `body` emits if a truth of all threads holds."""
        block = Block()
        inside = Emitter(block, None, self.threads, self.where)
        body(inside)
        inside.op("scf.yield", [], [])
        self._around("scf.if", [condition], [Region(block), Region()])

    def _around(self, name: str, operands: Sequence[SSAValue], regions: Sequence[Region]) -> None:
        made = op_class(name).create(operands=operands, regions=regions, location=self.where)
        if self.before is None:
            self.block.add_op(made)
        else:
            self.block.insert_op_before(made, self.before)

    # -- threads, memory and machine code --------------------------------------------------------------------

    def thread(self) -> SSAValue:
        """The number of each thread in its stream."""
        bounds = f"start = 0 : i32, end = {self.threads.count} : i32"
        return self.value("tt.make_range", [], self.threads.of("i32"), bounds)

    def scratch(self, size: int) -> SSAValue:
        """The address of memory that belongs to this program and that whoever launches provides."""
        pointer = self.value(
            "ttg.global_scratch_alloc",
            [],
            parse_type("!tt.ptr<i8>"),
            f"nbytes = {size} : i32, alignment = 16 : i32, third_party_allocation",
        )
        return self.value("tt.ptr_to_int", [pointer], parse_type("i64"))

    def shared(self, words: int) -> tuple[SSAValue, SSAValue]:
        """Shared memory of the program: itself, for `release`, and its address, an i32."""
        alike = self.threads.alike()
        layout = f"#ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]{alike}}}>"
        # A buffer has a power of two of elements, but there may be any number of buffers.
        pieces = -(-words // _PIECE)
        kind = parse_type(f"!ttg.memdesc<{pieces}x{_PIECE}xi64, {layout}, #ttg.shared_memory, mutable>")
        held = self.value("ttg.local_alloc", [], kind)
        return held, self.value("tti.experimental_memdesc_to_i32", [held], parse_type("i32"))

    def release(self, held: SSAValue) -> None:
        """Up to here shared memory is kept."""
        self.op("ttg.local_dealloc", [held], [])

    def assembly(
        self, text: str, constraints: str, operands: Sequence[SSAValue], results: Sequence[str]
    ) -> list[SSAValue]:
        """Assembly that every thread runs, each with values of its own; it stays where it is, unless it is `pure`."""
        kinds = [self.threads.of(kind) for kind in results]
        held = [self.each(operand) for operand in operands]
        return self._assembly(text, constraints, held, kinds, pure=False)

    def scalar_assembly(
        self,
        text: str,
        constraints: str,
        operands: Sequence[SSAValue],
        results: Sequence[str],
        *,
        pure: bool = False,
    ) -> list[SSAValue]:
        """The same where the values are those of all threads, or Triton takes them for that."""
        return self._assembly(text, constraints, operands, [parse_type(kind) for kind in results], pure=pure)

    def _assembly(
        self,
        text: str,
        constraints: str,
        operands: Sequence[SSAValue],
        results: Sequence[Attribute],
        *,
        pure: bool,
    ) -> list[SSAValue]:
        written = " ".join(text.split())
        how = f'constraints = "{constraints}", packed_element = 1 : i32, pure = {str(pure).lower()}'
        made = self.op("tt.elementwise_inline_asm", operands, results, f'asm_string = "{written}", {how}')
        return list(made.results)
