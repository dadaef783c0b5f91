"""From a kernel's arguments to the launch block its code reads.

Comes in: a kernel's signature. Goes out: a `pack` function made for that signature: one call of `struct.pack`
with everything in place, since it runs on every launch. What it cannot take (an address as a plain integer, a
float too large for fp32, a wrong argument) raises, and `convert` then looks at the arguments one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from triton.backends.driver import expand_signature

from tileprobe.targets.arguments import check_count, grid_size, is_here, to_bf16, value_bits

# Slots before the arguments: grid x, y, z, error block, profiling parameters, records, bounds, reserved.
_HEADER = "8q"
# One 8-byte slot each, narrow values in the low part.
_FORMATS = {"fp32": "f4x", "f32": "f4x", "fp64": "d", "fp16": "e6x", "bf16": "H6x", "u64": "Q"}


@dataclass(frozen=True)
class Slot:
    """One run-time argument: how to say it in Python, its type, and what to call it in a message."""

    expression: str
    type: str
    name: str


def slots_of(names: list[str], signature: list[Any]) -> list[Slot]:
    """The run-time arguments of a signature in order. Tuples and host tensor descriptors are taken apart."""
    found: list[Slot] = []
    for index, (name, kind) in enumerate(zip(names, signature)):
        _expand(f"a{index}", kind, name, found)
    return found


def _expand(expression: str, kind: Any, name: str, found: list[Slot]) -> None:
    if isinstance(kind, tuple):
        for index, item in enumerate(kind):
            _expand(f"{expression}[{index}]", item, f"{name}[{index}]", found)
    elif isinstance(kind, str) and kind.startswith("tensordesc"):
        _expand_descriptor(expression, kind, name, found)
    elif kind != "constexpr":
        found.append(Slot(expression, kind, name))


def _expand_descriptor(expression: str, kind: str, name: str, found: list[Slot]) -> None:
    """Base, shape, strides, two flags, then shape and strides again: as Triton's rewriting pass declares."""
    types = expand_signature([kind], None, None)
    rank = (len(types) - 3) // 4
    shape = [f"{expression}.shape[{i}]" for i in range(rank)]
    strides = [f"{expression}.strides[{i}]" for i in range(rank)]
    flags = [f"({expression}.padding == 'nan')", f"{expression}.round_f32_to_tf32"]
    values = [f"{expression}.base", *shape, *strides, *flags, *shape, *strides]
    found.extend(Slot(value, type_, name) for value, type_ in zip(values, types))


def make_pack(arity: int, slots: list[Slot]) -> Callable[..., bytes]:
    """`pack(gx, gy, gz, errors, parameters, records, bounds, *args)` for the expected kinds of arguments."""
    layout = struct.Struct("<" + _HEADER + "".join(_FORMATS.get(s.type, "q") for s in slots))
    values = "".join(f", {_fast_value(s)}" for s in slots)
    params = "".join(f", a{i}" for i in range(arity))
    source = (
        f"def pack(gx, gy, gz, errors, parameters, records, bounds{params}):\n"
        f"    return packed(gx, gy, gz, errors, parameters, records, bounds, 0{values})\n"
    )
    namespace: dict[str, Any] = {"packed": layout.pack, "bf16": to_bf16, "here": is_here}
    exec(source, namespace)
    return namespace["pack"]


def make_chosen(arity: int, slots: list[Slot]) -> Callable[..., tuple[Any, ...]]:
    """`chosen(*args)`: the values of some of the slots, as they are."""
    params = ", ".join(f"a{i}" for i in range(arity))
    values = "".join(f"{s.expression}, " for s in slots)
    return eval(f"lambda {params}: ({values})")


def make_tell(arity: int, slots: list[Slot]) -> Callable[..., tuple[Any, ...]]:
    """`tell(*args)`: what of the arguments tells one piece of work from another: shapes of tensors, numbers as they
    are; in the order of the slots. For anything unexpected it is a guess, as nothing depends on it."""
    params = ", ".join(f"a{i}" for i in range(arity))
    values = {
        name: "".join(f"{form(s)}, " for s in slots)
        for name, form in (("quick", _told), ("careful", lambda s: f"told(lambda: {_told(s)})"))
    }
    source = (
        f"def tell({params}):\n"
        f"    try:\n        return ({values['quick']})\n"
        f"    except Exception:\n        return ({values['careful']})\n"
    )
    namespace: dict[str, Any] = {"told": _told_or_none}
    exec(source, namespace)
    return namespace["tell"]


def _told(slot: Slot) -> str:
    return f"{slot.expression}.shape" if slot.type.startswith("*") else slot.expression


def _told_or_none(value: Callable[[], Any]) -> Any:
    try:
        return value()
    except Exception:
        return None


def _fast_value(slot: Slot) -> str:
    if slot.type.startswith("*"):
        # `is_cpu` is torch's and ours. Without it, or elsewhere: the slow way, as None is not packed.
        return (
            f"{slot.expression}.data_ptr() if {slot.expression}.is_cpu or here({slot.expression}) else None"
        )
    return f"bf16({slot.expression})" if slot.type == "bf16" else slot.expression


def make_convert(kernel: str, names: list[str], slots: list[Slot]) -> Callable[..., bytes]:
    """Like `pack`, for anything a kernel may be given; says which argument is wrong if one is."""
    params = ", ".join(f"a{i}" for i in range(len(names)))
    values = "".join(f"{s.expression}, " for s in slots)
    namespace: dict[str, Any] = {}
    exec(f"def flatten({params}):\n    return ({values})\n", namespace)
    flatten = namespace["flatten"]

    def convert(*header_and_args: Any) -> bytes:
        header, args = header_and_args[:7], header_and_args[7:]
        check_count(kernel, names, args)
        words = [
            value_bits(kernel, slot.name, slot.type, value) for slot, value in zip(slots, flatten(*args))
        ]
        return struct.pack(f"<7qq{len(words)}Q", *(grid_size(kernel, x) for x in header), 0, *words)

    return convert
