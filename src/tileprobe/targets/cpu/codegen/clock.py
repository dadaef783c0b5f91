"""The clock of the CPU, and what keeps the compiler from moving work over it.

x86-64: the time-stamp counter, which ticks at a constant rate whatever the core does. Others: the steady
counter of the architecture. Reading it is not serialising: the processor may still finish earlier work while
it is read, so that intervals below some tens of nanoseconds mean little.
"""

from __future__ import annotations

from llvmlite import ir

from tileprobe.targets.cpu.codegen.types import I32, I64
from tileprobe.targets.cpu.host import host


def is_x86() -> bool:
    return host().arch in ("x86_64", "amd64")


def read(b: ir.IRBuilder) -> ir.Value:
    """The clock, in ticks."""
    name = "llvm.readcyclecounter" if is_x86() else "llvm.readsteadycounter"
    module = b.module
    function = module.globals.get(name) or ir.Function(module, ir.FunctionType(I64, []), name)
    return b.call(function, [])


def read_with_core(b: ir.IRBuilder) -> tuple[ir.Value, ir.Value]:
    """The clock and the number of the core that read it."""
    if not is_x86():
        kind = ir.FunctionType(I32, [])
        function = b.module.globals.get("sched_getcpu") or ir.Function(b.module, kind, "sched_getcpu")
        return read(b), b.zext(b.call(function, []), I64)
    three = ir.LiteralStructType([I32, I32, I32])
    asm = ir.InlineAsm(
        ir.FunctionType(three, []), "rdtscp", "={ax},={dx},={cx},~{dirflag},~{fpsr},~{flags}", True
    )
    both = b.call(asm, [])
    low, high, core = (b.zext(b.extract_value(both, n), I64) for n in range(3))
    # Linux keeps the number of the core in the low 12 bits, that of the NUMA node above.
    return b.or_(low, b.shl(high, ir.Constant(I64, 32))), b.and_(core, ir.Constant(I64, 0xFFF))


def barrier(b: ir.IRBuilder, values: list[ir.Value] | None = None) -> None:
    """Nothing that touches memory moves over this, and `values` are computed before it. No instruction."""
    values = values or []
    constraints = [_register(value.type) for value in values] + ["~{memory}"]
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    b.call(ir.InlineAsm(kind, "", ",".join(constraints), True), values)


def _register(kind: ir.Type) -> str:
    if isinstance(kind, ir.IntType):
        return "r"
    return "x" if is_x86() else "w"
