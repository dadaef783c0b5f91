"""The clock of the CPU, and what keeps the compiler from moving work over it.

x86-64: the time-stamp counter, which ticks at a constant rate whatever the core does. Others: the steady
counter of the architecture. Reading it is not serialising: the processor may still finish earlier work while
it is read, so that intervals below some tens of nanoseconds mean little.
"""

from __future__ import annotations

from llvmlite import ir

from tileprobe.targets.cpu.codegen.types import I32, I64, Value
from tileprobe.targets.cpu.host import host


def is_x86() -> bool:
    return host().arch in ("x86_64", "amd64")


def read(b: ir.IRBuilder) -> Value:
    """The clock, in ticks."""
    name = "llvm.readcyclecounter" if is_x86() else "llvm.readsteadycounter"
    module = b.module
    function = module.globals.get(name) or ir.Function(module, ir.FunctionType(I64, []), name)
    return b.call(function, [])


def core(b: ir.IRBuilder) -> Value:
    """The number of the core that runs this. Linux keeps it where two x86 instructions find it, in the low 12
    bits of a word with the NUMA node above."""
    if not is_x86():
        kind = ir.FunctionType(I32, [])
        function = b.module.globals.get("sched_getcpu") or ir.Function(b.module, kind, "sched_getcpu")
        return b.zext(b.call(function, []), I64)
    if host().has("rdpid"):  # a third of the time of rdtscp
        asm = ir.InlineAsm(ir.FunctionType(I64, []), "rdpid $0", "=r", True)
        return b.and_(b.call(asm, []), ir.Constant(I64, 0xFFF))
    clobbers = "={cx},~{ax},~{dx},~{dirflag},~{fpsr},~{flags}"
    asm = ir.InlineAsm(ir.FunctionType(I32, []), "rdtscp", clobbers, True)
    return b.and_(b.zext(b.call(asm, []), I64), ir.Constant(I64, 0xFFF))


def barrier(b: ir.IRBuilder, values: list[Value] | None = None) -> None:
    """Nothing that touches memory moves over this, and `values` are computed before it. No instruction."""
    values = values or []
    constraints = [_register(value.type) for value in values] + ["~{memory}"]
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    b.call(ir.InlineAsm(kind, "", ",".join(constraints), True), values)


def _register(kind: ir.Type) -> str:
    if isinstance(kind, ir.IntType):
        return "r"
    return "x" if is_x86() else "w"
