"""Where a program's records go: its block in the launch's buffer, or the plain kernel when it has none.

Emits what the kernel's entry asks for each program: the parameter block of the launch, the address of the
program's block, and the range of programs up to the next recorded one, which the plain kernel runs.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tileprobe.ir.layout import Layout
from tileprobe.ir.sampling import (
    BUFFER,
    FIRST_LOOP,
    LOOP_STRIDE,
    LOOP_WORDS,
    PLAIN,
    PROGRAM_LIMIT,
    PROGRAM_MAP,
    PROGRAM_PHASE,
    PROGRAM_STRIDE,
)
from tileprobe.targets.cpu.codegen.types import I32, I64, PTR, Value

PARAMETERS = 4  # slot of the launch block


def load_word(b: Value, base: Value, number: int) -> Value:
    """A word of a block of 64-bit words."""
    return b.load(b.gep(base, [ir.Constant(I64, number)], source_etype=I64), typ=I64, align=8)


def call_program(
    b: Value,
    probed: ir.Function,
    layout: Layout,
    program: Value,
    last: Value,
    args: list[Value],
) -> tuple[Value, Value]:
    """Runs a program that is recorded, or those up to the next one that is; returns a status and who is next."""
    function, launch, scratch = b.function, args[0], args[1]
    names = ("recorded", "left_out", "plain", "nowhere", "ran")
    record, out, plain, nowhere, after = (function.append_basic_block(n) for n in names)
    block = b.call(_block_function(b.module, layout), [launch, program])
    came_from = b.block
    b.cbranch(b.icmp_unsigned("!=", block, ir.Constant(I64, 0)), record, out)
    b.position_at_end(out)
    entry = load_word(b, parameters_of(b, launch, layout), PLAIN)
    b.cbranch(b.icmp_unsigned("!=", entry, ir.Constant(I64, 0)), plain, nowhere)
    b.position_at_end(plain)
    until = b.call(_until_function(b.module), [launch, program, last])
    kind = ir.FunctionType(I32, [PTR, PTR, I64, I64])
    bare = b.call(b.inttoptr(entry, ir.PointerType(kind)), [launch, scratch, program, until])
    b.branch(after)
    b.position_at_end(nowhere)  # launched by somebody who knows nothing of records
    anywhere = b.ptrtoint(_nowhere(b.module, layout), I64)
    b.branch(record)
    b.position_at_end(record)
    place = b.phi(I64)
    place.add_incoming(block, came_from)
    place.add_incoming(anywhere, nowhere)
    status = b.call(probed, [*args, place])
    one = b.add(program, ir.Constant(I64, 1))
    b.branch(after)
    b.position_at_end(after)
    outcome, following = b.phi(I32), b.phi(I64)
    for phi, values in ((outcome, (status, bare)), (following, (one, until))):
        phi.add_incoming(values[0], record)
        phi.add_incoming(values[1], plain)
    return outcome, following


def _block_function(module: ir.Module, layout: Layout) -> ir.Function:
    """`i64 tile.block(launch, program)`: the address of a program's block, or 0 when it has none."""
    function = ir.Function(module, ir.FunctionType(I64, [PTR, I64]), "tile.block")
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    launch, program = function.args
    names = ("entry", "on", "listed", "strided", "found", "have", "none")
    entry, on, listed, strided, found, have, none = (function.append_basic_block(n) for n in names)
    zero = ir.Constant(I64, 0)
    b = ir.IRBuilder(entry)
    parameters = b.inttoptr(load_word(b, launch, PARAMETERS), PTR)
    b.cbranch(b.icmp_unsigned("!=", b.ptrtoint(parameters, I64), zero), on, none)
    b.position_at_end(on)
    table = load_word(b, parameters, PROGRAM_MAP)
    b.cbranch(b.icmp_unsigned("!=", table, zero), listed, strided)
    b.position_at_end(listed)
    entry_of = b.gep(b.inttoptr(table, PTR), [program], source_etype=I32)
    mapped = b.sext(b.load(entry_of, typ=I32, align=4), I64)
    b.branch(found)
    b.position_at_end(strided)
    stride, phase, limit = (
        load_word(b, parameters, n) for n in (PROGRAM_STRIDE, PROGRAM_PHASE, PROGRAM_LIMIT)
    )
    offset = b.sub(program, phase)
    index = b.udiv(offset, stride)  # of a negative offset: beyond every limit
    exact = b.icmp_unsigned("==", b.mul(index, stride), offset)
    counted = b.select(b.and_(exact, b.icmp_unsigned("<", index, limit)), index, ir.Constant(I64, -1))
    b.branch(found)
    b.position_at_end(found)
    number = b.phi(I64)
    number.add_incoming(mapped, listed)
    number.add_incoming(counted, strided)
    b.cbranch(b.icmp_signed(">=", number, zero), have, none)
    b.position_at_end(have)
    buffer = load_word(b, parameters, BUFFER)
    b.ret(b.add(buffer, b.mul(number, ir.Constant(I64, layout.block_bytes))))
    b.position_at_end(none)
    b.ret(zero)
    return function


def _until_function(module: ir.Module) -> ir.Function:
    """`i64 tile.until(launch, program, last)`: the next recorded program after one that is not, or `last`."""
    function = ir.Function(module, ir.FunctionType(I64, [PTR, I64, I64]), "tile.until")
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    launch, program, last = function.args
    one, zero = ir.Constant(I64, 1), ir.Constant(I64, 0)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    parameters = b.inttoptr(load_word(b, launch, PARAMETERS), PTR)
    words = (PROGRAM_STRIDE, PROGRAM_PHASE, PROGRAM_LIMIT, PROGRAM_MAP)
    stride, phase, limit, table = (load_word(b, parameters, n) for n in words)
    offset = b.sub(program, phase)
    early = b.icmp_signed("<", offset, zero)
    number = b.select(early, zero, b.add(b.sdiv(offset, stride), one))
    following = b.add(phase, b.mul(number, stride))
    following = b.select(b.icmp_signed("<", number, limit), following, last)
    following = b.select(b.icmp_unsigned("!=", table, zero), b.add(program, one), following)
    b.ret(b.select(b.icmp_signed("<", following, last), following, last))
    return function


def parameters_of(b: Value, launch: Value, layout: Layout) -> Value:
    """The parameter block, or one that keeps no iteration when the launch brings none."""
    given = load_word(b, launch, PARAMETERS)
    default = b.module.globals.get("tile.parameters")
    if default is None:
        words = [0] * (FIRST_LOOP + LOOP_WORDS * len(layout.loops))
        for loop in layout.loops:
            words[FIRST_LOOP + LOOP_WORDS * loop.id + LOOP_STRIDE] = 1
        default = _global(b.module, "tile.parameters", words)
        default.global_constant = True
    return b.select(b.icmp_unsigned("!=", given, ir.Constant(I64, 0)), b.inttoptr(given, PTR), default)


def _nowhere(module: ir.Module, layout: Layout) -> Value:
    """A block that is written and never read."""
    return module.globals.get("tile.nowhere") or _global(module, "tile.nowhere", [0] * layout.block_words)


def _global(module: ir.Module, name: str, words: list[int]) -> Any:
    kind = ir.ArrayType(I64, len(words))
    made: Any = ir.GlobalVariable(module, kind, name)
    made.linkage, made.align = "internal", 64
    made.initializer = ir.Constant(kind, words if any(words) else None)
    return made
