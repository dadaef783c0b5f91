"""The code of `moving`, as LLVM IR: `i32 tp_move(plan, blocks, count, out)`.

Comes in: nothing. Goes out: a module. The function looks at the trip counts first and returns 1, having moved nothing,
if one is not as the plan says; the plan is laid out as `moving.Moves` has it.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tileprobe.targets.cpu.codegen.loops import counted_loop
from tileprobe.targets.cpu.codegen.types import I32, I64, PTR, Value

_LOW = ir.Constant(I64, 0xFFFFFFFF)  # of a word with a trip count; the launch is above it
_ZERO, _ONE, _TWO, _HEAD = (ir.Constant(I64, n) for n in range(4))


def module_text() -> str:
    module = ir.Module("moving")
    function = ir.Function(module, ir.FunctionType(I32, [PTR, PTR, I64, PTR]), "tp_move")
    plan, blocks, count, out = function.args
    for pointer in (plan, blocks, out):
        pointer.add_attribute("noalias")
    _Emit(ir.IRBuilder(function.append_basic_block("entry")), plan, blocks, count).into(out)
    return str(module)


class _Emit:
    def __init__(self, b: ir.IRBuilder, plan: Value, blocks: Value, count: Value) -> None:
        self.b, self.plan, self.blocks, self.count = b, plan, blocks, count
        self.at, self.most, self.to = (b.alloca(I64, name=name) for name in ("at", "most", "to"))
        self.block_words, self.loops, self.runs = (self._word(plan, n) for n in (_ZERO, _ONE, _TWO))

    def into(self, out: Value) -> None:
        b = self.b
        b.store(_HEAD, self.at)
        self._each(self.loops, lambda _: self._check())
        first = b.load(self.at, typ=I64)
        b.store(_ZERO, self.to)
        self._each(
            self.count, lambda block: self._each(self.runs, lambda run: self._move(first, block, run, out))
        )
        b.ret(ir.Constant(I32, 0))

    def _check(self) -> None:
        """Leaves the function where the largest trip count of a loop is not the one of the plan."""
        b = self.b
        here = b.load(self.at, typ=I64)
        expected, places = self._word(self.plan, here), self._word(self.plan, b.add(here, _ONE))
        first = b.add(here, _TWO)
        b.store(_ZERO, self.most)

        def look(block: Value, place: Value) -> None:
            found = self._word(self.blocks, self._in(block, self._word(self.plan, b.add(first, place))))
            before = b.load(self.most, typ=I64)
            b.store(b.select(b.icmp_unsigned(">", found, before), found, before), self.most)

        self._each(self.count, lambda block: self._each(places, lambda place: look(block, place)))
        other, same = (b.append_basic_block(name) for name in ("other", "same"))
        low = b.and_(b.load(self.most, typ=I64), _LOW)
        b.cbranch(b.icmp_unsigned("==", low, expected), same, other)
        b.position_at_end(other)
        b.ret(ir.Constant(I32, 1))
        b.position_at_end(same)
        b.store(b.add(first, places), self.at)

    def _move(self, first: Value, block: Value, run: Value, out: Value) -> None:
        """One run of words of one block."""
        b = self.b
        place = b.add(first, b.add(run, run))
        word, words = self._word(self.plan, place), self._word(self.plan, b.add(place, _ONE))
        source, written = self._at(self.blocks, self._in(block, word)), b.load(self.to, typ=I64)
        target = self._at(out, written)

        def one(index: Value) -> None:
            here = self._at(source, index)
            b.store(b.load(here, typ=I64, align=8), self._at(target, index), align=8)
            b.store(_ZERO, here, align=8)

        self._each(words, one)
        b.store(b.add(written, words), self.to)

    def _in(self, block: Value, word: Value) -> Value:
        """The place of a block's word among all words."""
        return self.b.add(self.b.mul(block, self.block_words), word)

    def _each(self, stop: Value, body: Callable[[Value], None]) -> None:
        counted_loop(self.b, _ZERO, stop, 1, body)

    def _at(self, base: Value, index: Value) -> Value:
        return self.b.gep(base, [index], source_etype=I64)

    def _word(self, base: Value, index: Value) -> Value:
        return self.b.load(self._at(base, index), typ=I64, align=8)
