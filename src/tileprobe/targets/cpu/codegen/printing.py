"""`tl.device_print`: one line an element, through the C library's printf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.ir import Operation

from tileprobe.ir.accessors import attr_value
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.codegen.types import F64, I8, I32, I64, PTR, Value, elem_type, is_float
from tileprobe.targets.cpu.dialect import NestOp

if TYPE_CHECKING:
    from tileprobe.targets.cpu.codegen.function import FunctionEmitter


def emit(f: FunctionEmitter, op: Operation, args: list[Value]) -> None:
    """`pid (x, y, z) idx (i, j) prefix value`. Behind the op's own operands come the indices, if it has any."""
    prefix = str(attr_value(op, "prefix", ""))
    as_hex = bool(attr_value(op, "hex", False))
    signs = [bool(s) for s in (attr_value(op, "isSigned") or [])]
    count = len(signs)
    values, indices = args[:count], args[count:]
    if not count:
        where = f" idx ({_places(op, indices)})" if indices else ""
        _printf(f, f"pid (%u, %u, %u){where}{prefix}\n", [*f.program, *indices])
        return
    for number, value in enumerate(values):
        name = elem_type(op.operands[number].type)
        code, item = _format(f, value, name, as_hex, signs[number])
        operand = f"(operand {number}) " if count > 1 else ""
        text = f"pid (%u, %u, %u) idx ({_places(op, indices)}){prefix}{operand}{code}\n"
        _printf(f, text, [*f.program, *indices, item])


def _places(op: Operation, indices: list[Value]) -> str:
    """Formats of the indices, each as wide as the largest one along its axis, as Triton prints them."""
    nest = op.parent_op()
    dims = nest.dims if isinstance(nest, NestOp) else [1] * len(indices)
    return ", ".join(f"%{len(str(size - 1))}u" for size in dims[: len(indices)])


def _format(f: FunctionEmitter, value: Value, name: str, as_hex: bool, signed: bool) -> tuple[str, Value]:
    b = f.builder
    if name == "ptr":
        return "0x%016llx", value
    if is_float(name):
        code = "%a" if as_hex else "%f"
        if name == "f64":
            return code, value
        wide = value if name == "f32" else vmath.convert(b, value, name, "f32")
        return code, b.fpext(wide, F64)
    width = value.type.width
    widen = b.sext if signed and width > 1 and not as_hex else b.zext
    item = widen(value, I64) if width < 64 else value
    if as_hex:
        return f"0x%0{max(1, width // 4)}llx", item
    return ("%lld" if signed and width > 1 else "%llu"), item


def _printf(f: FunctionEmitter, text: str, values: list[Value]) -> None:
    module = f.module.llvm
    function = module.globals.get("printf")
    if function is None:
        function = ir.Function(module, ir.FunctionType(I32, [PTR], var_arg=True), "printf")
    raw = bytearray(text.encode() + b"\0")
    kind = ir.ArrayType(I8, len(raw))
    held: Any = ir.GlobalVariable(module, kind, module.get_unique_name("format"))
    held.global_constant, held.linkage = True, "internal"
    held.initializer = ir.Constant(kind, raw)
    f.builder.call(function, [held, *values])
