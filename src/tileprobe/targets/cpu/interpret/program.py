"""Runs every program of a scheduled module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import elem_type
from tileprobe.targets.cpu.interpret import nest, stages  # noqa: F401  (they register)
from tileprobe.targets.cpu.interpret.control import run_region
from tileprobe.targets.cpu.interpret.floats import is_float, round_to, storage
from tileprobe.targets.cpu.interpret.machine import Frame, Machine, Touched, name_of
from tileprobe.targets.cpu.interpret.memory import Extent
from tileprobe.targets.cpu.interpret.orders import ORDERS

if TYPE_CHECKING:
    from tileprobe.targets.cpu.interpret.checking import OrderCheck

# Regions are run recursively; generated kernels nest deeply.
_RECURSION = 20_000


@dataclass(frozen=True)
class Outcome:
    """What a run leaves besides memory."""

    programs: int
    prints: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Look:
    """Some programs alone, whose accesses to the caller's memory are told; what they store, they store to copies."""

    programs: Sequence[int]
    touched: Touched


def parse(text: str) -> ModuleOp:
    """A module from the text of scheduled IR, as `compiled.asm["tile"]` holds it."""
    from tileprobe.ir.registry import context

    return Parser(context(), text).parse_module()


def interpret(
    module: ModuleOp | str,
    grid: Sequence[int],
    args: Sequence[Any],
    memory: Sequence[Extent],
    order: str = "op",
    *,
    lanes: int = 8,
    begin: Callable[[int], None] | None = None,
    after: Callable[[Operation], None] | None = None,
    look: Look | None = None,
) -> Outcome:
    """Run every program of a scheduled module, one after another, on the memory of this process.

    `args` are the kernel's run-time arguments: addresses for pointers, numbers for the rest. `memory` says which
    addresses may be touched; anything else raises. `order` is in which order the points of a nest are visited,
    one of `ORDERS`; `lanes` is the width of the blocks of order "vector". `begin` is told each program before it
    runs, `after` each op of a function when it has run, probes among them: from these a model of a machine tells time.
    `look` asks for some programs only, what they touch, and memory that stays as it is.
    """
    return run(module, grid, args, memory, order, lanes, None, begin, after, look)


def run(
    module: ModuleOp | str,
    grid: Sequence[int],
    args: Sequence[Any],
    memory: Sequence[Extent],
    order: str,
    lanes: int,
    check: OrderCheck | None,
    begin: Callable[[int], None] | None = None,
    after: Callable[[Operation], None] | None = None,
    look: Look | None = None,
) -> Outcome:
    if order not in ORDERS:
        raise TileProbeError(f"there is no order {order!r}; there are {', '.join(ORDERS)}")
    x, y, z = [*(int(n) for n in grid), 1, 1, 1][:3]
    sizes = (x, y, z)
    machine = Machine(
        parse(module) if isinstance(module, str) else module, sizes, memory, order, lanes, check
    )
    machine.after = after
    if look is not None:
        machine.touched, machine.memory.apart = look.touched, True
    values = _arguments(machine, args)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        with np.errstate(all="ignore"):
            for number in range(x * y * z) if look is None else look.programs:
                if begin is not None:
                    begin(number)
                machine.program = (number % x, number // x % y, number // (x * y))
                machine.memory.poison(machine.scratch, 0, machine.scratch.data.size)
                run_region(Frame(machine, machine.kernel), machine.kernel.regions[0], values)
    finally:
        sys.setrecursionlimit(limit)
    return Outcome(x * y * z, machine.prints)


def _arguments(machine: Machine, args: Sequence[Any]) -> list[Any]:
    wanted = machine.kernel.regions[0].blocks[0].args
    if len(wanted) != len(args):
        expected = ", ".join(f"{a.name_hint}: {a.type}" for a in wanted)
        raise TileProbeError(
            f"kernel {name_of(machine.kernel)} takes ({expected}) at run time; got {len(args)} arguments"
        )
    return [_argument(elem_type(a.type), value) for a, value in zip(wanted, args)]


def _argument(name: str, value: Any) -> Any:
    """A Python number as a value of an element type; integers keep their low bits."""
    kind = storage(name)
    if name == "f64":
        return np.float64(value)
    if is_float(name):
        with np.errstate(over="ignore"):
            return round_to(np.float32(value), name)
    if name == "i1":
        return np.bool_(bool(value))
    bits = int(value) & ((1 << 8 * kind.itemsize) - 1)
    return np.array(bits, np.dtype(f"u{kind.itemsize}")).view(kind)[()]
