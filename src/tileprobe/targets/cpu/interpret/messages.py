"""What programs say: lines of `tl.device_print`, which are collected, and assertions that do not hold."""

from __future__ import annotations

from xdsl.ir import Operation

from tileprobe.ir.accessors import attr_value, elem_type
from tileprobe.targets.cpu.interpret.convert import as_unsigned
from tileprobe.targets.cpu.interpret.errors import lines_of
from tileprobe.targets.cpu.interpret.floats import Array, is_float, widen
from tileprobe.targets.cpu.interpret.machine import Frame
from tileprobe.targets.cpu.kernel_errors import KernelAssertionError


def message(frame: Frame, op: Operation, args: list[Array]) -> list[Array]:
    """The lines a `tt.print` writes, as the C library's printf would. The indices stand behind the operands."""
    prefix, as_hex = str(attr_value(op, "prefix", "")), bool(attr_value(op, "hex", False))
    signs = [bool(s) for s in attr_value(op, "isSigned") or []]
    values, indices = args[: len(signs)], args[len(signs) :]
    nest = op.parent_op()
    dims = getattr(nest, "dims", [1] * len(indices))
    place = ", ".join(f"{int(i):{len(str(size - 1))}d}" for i, size in zip(indices, dims))
    head = f"pid ({', '.join(map(str, frame.machine.program))})"
    if not signs:
        frame.machine.prints.append(f"{head}{f' idx ({place})' if indices else ''}{prefix}")
    for number, value in enumerate(values):
        which = f"(operand {number}) " if len(values) > 1 else ""
        text = _shown(value, elem_type(op.operands[number].type), as_hex, signs[number])
        frame.machine.prints.append(f"{head} idx ({place}){prefix}{which}{text}")
    return []


def _shown(value: Array, name: str, as_hex: bool, signed: bool) -> str:
    if name == "ptr":
        return f"0x{int(value):016x}"
    if is_float(name):
        number = float(widen(value, name))
        return number.hex() if as_hex else f"{number:f}"
    if as_hex:
        return f"0x{int(as_unsigned(value)):0{max(1, 2 * value.dtype.itemsize)}x}"
    return str(int(value) if signed else int(as_unsigned(value)))


def assertion(frame: Frame, op: Operation, args: list[Array]) -> list[Array]:
    if not args[0]:
        text = str(attr_value(op, "message", "")) or "no message"
        raise KernelAssertionError(
            f"{lines_of(op)}, program {frame.machine.program}: device assertion failed: {text}"
        )
    return []
