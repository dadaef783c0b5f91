"""From a `@triton.jit` function and launch arguments to what the interpreter takes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu import bounds
from tileprobe.targets.cpu.bounds import Extent
from tileprobe.targets.cpu.interpret.checking import OrderReport, check_orders
from tileprobe.targets.cpu.interpret.memory import at_address
from tileprobe.targets.cpu.interpret.program import Outcome, interpret, parse
from tileprobe.targets.cpu.launch_pack import Slot, slots_of
from tileprobe.targets.cpu.tensors import DType, dtype


@dataclass(frozen=True)
class Launch:
    """A kernel compiled for its arguments, ready to be interpreted."""

    tile_ir: str
    grid: tuple[int, ...]
    args: list[Any]
    extents: list[Extent]  # of the tensors, in the order of the arguments
    kinds: list[DType]  # and the types of their elements

    @cached_property
    def module(self) -> ModuleOp:
        return parse(self.tile_ir)

    def interpret(self, order: str = "op", lanes: int = 8) -> Outcome:
        return interpret(self.module, self.grid, self.args, self.extents, order, lanes=lanes)

    def check_orders(self, lanes: int = 8) -> OrderReport:
        return check_orders(self.module, self.grid, self.args, self.extents, lanes=lanes)

    def snapshot(self) -> list[np.ndarray]:
        """Copies of the bytes of every tensor."""
        return [at_address(e.name, e.begin, e.end).data.copy() for e in self.extents]

    def restore(self, saved: Sequence[np.ndarray]) -> None:
        for extent, data in zip(self.extents, saved):
            at_address(extent.name, extent.begin, extent.end).data[:] = data


def prepare(
    kernel: Any,
    grid: Any,
    args: Sequence[Any],
    meta: dict[str, Any] | None = None,
    *,
    also: Sequence[Any] = (),
) -> Launch:
    """Compile a `@triton.jit` function for these arguments with the CPU target, without running it.

    `also` are further tensors that the kernel may touch, to which it gets through addresses in memory.
    """
    meta = dict(meta or {})
    if not hasattr(kernel, "warmup") or not hasattr(kernel, "fn") or not hasattr(kernel, "arg_names"):
        raise TileProbeError(f"expected a @triton.jit function, got a {type(kernel).__name__}")
    bound = inspect.signature(kernel.fn).bind(
        *args, **{k: v for k, v in meta.items() if k in kernel.arg_names}
    )
    bound.apply_defaults()
    named = dict(bound.arguments)
    wanted: Any = grid(named) if callable(grid) else grid
    sizes = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    compiled = kernel.warmup(*args, grid=sizes, **meta)
    values = [named[name] for name in kernel.arg_names]
    return of_compiled(compiled, sizes, kernel.arg_names, values, also)


def of_compiled(
    compiled: Any, grid: tuple[int, ...], names: list[str], values: Sequence[Any], also: Sequence[Any] = ()
) -> Launch:
    """The launch of a compiled kernel with a value for each of its parameters, constexprs included."""
    slots = slots_of(names, list(compiled.src.signature.values()))
    known = bounds.extents([*names, *(f"also[{n}]" for n in range(len(also)))], [*values, *also])
    if known is None:
        raise TileProbeError(
            "a tensor of unknown size cannot be interpreted; give it a shape and an element_size"
        )
    given = flat(slots, values)
    types = {value: _kind(slot.type) for slot, value in zip(slots, given) if slot.type.startswith("*")}
    types.update((tensor.data_ptr(), dtype(tensor.dtype)) for tensor in also)
    # a tensor that is a constexpr has no slot, and is never touched: bytes will do
    kinds = [types.get(extent.first, dtype("uint8")) for extent in known]
    return Launch(compiled.asm["tile"], grid, given, known, kinds)


def _kind(pointer: str) -> DType:
    name = pointer.lstrip("*").removeprefix("k")  # a pointer to constants is `*k...`
    return dtype("bool" if name == "u1" else name)


def flat(slots: Sequence[Slot], values: Sequence[Any]) -> list[Any]:
    """The run-time arguments: tuples and descriptors taken apart, tensors as their addresses."""
    names = {f"a{number}": value for number, value in enumerate(values)}
    found = [eval(slot.expression, {}, names) for slot in slots]
    return [v.data_ptr() if hasattr(v, "data_ptr") else 0 if v is None else v for v in found]


def interpret_kernel(
    kernel: Any, grid: Any, *args: Any, order: str = "op", also: Sequence[Any] = (), **meta: Any
) -> Outcome:
    """Launch a kernel in the interpreter instead of on the CPU. The tensors hold the result, as after a launch.

    >>> interpret_kernel(add_kernel, (4,), x, y, out, 1000, BLOCK=256)
    """
    return prepare(kernel, grid, args, meta, also=also).interpret(order)
