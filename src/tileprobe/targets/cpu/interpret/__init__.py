"""A reference interpreter of scheduled IR, to see which half of the compiler is wrong.

Triton's interpreter says what a kernel means, this one what its schedule means, the CPU what its code does. Two
neighbours that differ have the fault between them:

>>> print(explain_difference(kernel, grid, args, meta))

`interpret` runs a module, `check_orders` looks for stages that were fused wrongly, `interpret_kernel` launches a
`@triton.jit` function in the interpreter.
"""

from tileprobe.targets.cpu.interpret.checking import Difference, OrderReport, check_orders
from tileprobe.targets.cpu.interpret.errors import (
    InterpretError,
    OutOfBoundsError,
    OverlapError,
    UnwrittenError,
)
from tileprobe.targets.cpu.interpret.explain import Explanation, explain_difference
from tileprobe.targets.cpu.interpret.launching import Launch, interpret_kernel, prepare
from tileprobe.targets.cpu.interpret.orders import ORDERS
from tileprobe.targets.cpu.interpret.program import Outcome, interpret, parse

__all__ = [
    "ORDERS",
    "Difference",
    "Explanation",
    "InterpretError",
    "Launch",
    "OrderReport",
    "OutOfBoundsError",
    "Outcome",
    "OverlapError",
    "UnwrittenError",
    "check_orders",
    "explain_difference",
    "interpret",
    "interpret_kernel",
    "parse",
    "prepare",
]
