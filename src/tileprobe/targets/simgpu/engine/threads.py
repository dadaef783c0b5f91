"""How threads meet within compiled code: words that are changed as a whole, and waiting for one to change."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine.raw import I32, I64, intrinsic

_WORD = I64.as_pointer()
_SPINS = 2000  # looks at a word before the system is asked to let others run


@intrinsic
def take(typing: Any, place: Any, count: Any) -> Any:
    """Adds to a word; what it was before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(args[0], _WORD), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def look(typing: Any, place: Any) -> Any:
    """A word that others change, and all that they wrote before they did."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(args[0], _WORD), "seq_cst", 8, typ=I64)

    return types.int64(types.int64), generate


@intrinsic
def show(typing: Any, place: Any, value: Any) -> Any:
    """Changes a word that others look at, behind all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], builder.inttoptr(args[0], _WORD), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _yield(typing: Any) -> Any:
    """Lets other threads of the machine run."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name = "sched_yield"
        known = builder.module.globals.get(name)
        builder.call(known or ir.Function(builder.module, ir.FunctionType(I32, []), name), [])
        return context.get_dummy_value()

    return types.void(), generate


@part
def yielding(spins):
    """One more look in vain, of which there were so many: others may run after a while. How many there are then."""
    if spins > _SPINS:
        _yield()
    return spins + 1


@part
def wait_until(place, value):
    """Waits until a word has a value."""
    spins = 0
    while look(place) != value:
        spins = yielding(spins)
