"""Atomic operations on one element. Programs run one after another here, so every one is atomic."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from tileprobe.ir.accessors import int_attr
from tileprobe.targets.cpu.interpret.elementwise import pointee_name
from tileprobe.targets.cpu.interpret.errors import InterpretError, describe
from tileprobe.targets.cpu.interpret.float_ops import float_binary
from tileprobe.targets.cpu.interpret.floats import Array, is_float, storage
from tileprobe.targets.cpu.interpret.integers import BINARY
from tileprobe.targets.cpu.interpret.machine import Frame

# RMWOp of the tt dialect
_OPS = dict(enumerate(["and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "xchg"], 1))
_INTS = {
    "and": "andi", "or": "ori", "xor": "xori", "add": "addi",
    "max": "maxsi", "min": "minsi", "umax": "maxui", "umin": "minui",
}  # fmt: skip
_FLOATS = {"fadd": "addf", "max": "maxnumf", "umax": "maxnumf", "min": "minnumf", "umin": "minnumf"}


def _load(frame: Frame, op: Operation, address: Array) -> Array:
    kind = storage(pointee_name(op.operands[0].type))
    return frame.memory.load(np.asarray(address).reshape(1), kind, op)[0]


def _store(frame: Frame, op: Operation, address: Array, value: Array) -> None:
    kind = storage(pointee_name(op.operands[0].type))
    frame.memory.store(np.asarray(address).reshape(1), np.asarray(value, kind).reshape(1), op)


def _masked_off(args: list[Array], mask: int) -> bool:
    return len(args) > mask and not args[mask]


def read_modify_write(frame: Frame, op: Operation, args: list[Array]) -> list[Array]:
    name = pointee_name(op.operands[0].type)
    if _masked_off(args, 2):
        return [storage(name).type(0)]
    old = _load(frame, op, args[0])
    kind = _OPS[int_attr(op, "atomic_rmw_op")]
    if kind == "xchg":
        new = args[1]
    elif is_float(name):
        new = float_binary(_FLOATS[kind], name)(old, args[1])
    else:
        new = BINARY[_INTS[kind]](old, args[1])
    _store(frame, op, args[0], new)
    return [old]


def compare_and_swap(frame: Frame, op: Operation, args: list[Array]) -> list[Array]:
    if _masked_off(args, 3):
        return [storage(pointee_name(op.operands[0].type)).type(0)]
    old = _load(frame, op, args[0])
    if old.tobytes() == args[1].tobytes():
        _store(frame, op, args[0], args[2])
    return [old]


def atomic_load(frame: Frame, op: Operation, args: list[Array]) -> list[Array]:
    if _masked_off(args, 1):
        return [args[2] if len(args) > 2 else storage(pointee_name(op.operands[0].type)).type(0)]
    return [_load(frame, op, args[0])]


def atomic_store(frame: Frame, op: Operation, args: list[Array]) -> list[Array]:
    if not _masked_off(args, 2):
        _store(frame, op, args[0], args[1])
    return []


def poll(frame: Frame, op: Operation, args: list[Array]) -> list[Array]:
    """Nobody else runs meanwhile: what is not there now will not come."""
    seen = _load(frame, op, args[0]).tobytes() == args[1].tobytes()
    if not seen and len(args) < 3:
        raise InterpretError(f"{describe(op)} waits for another program; here programs run one after another")
    return [np.bool_(seen)]


SERIAL = {
    "tt.atomic_rmw": read_modify_write,
    "tt.atomic_cas": compare_and_swap,
    "tt.atomic_load": atomic_load,
    "tt.atomic_store": atomic_store,
    "tt.atomic_poll": poll,
}
