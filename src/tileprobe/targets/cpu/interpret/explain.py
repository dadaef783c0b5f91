"""Which half is wrong: a kernel run three ways, and one sentence about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.targets.cpu.interpret import triton_side
from tileprobe.targets.cpu.interpret.checking import OrderReport
from tileprobe.targets.cpu.interpret.comparing import Mismatch, first_mismatch
from tileprobe.targets.cpu.interpret.errors import InterpretError, OutOfBoundsError
from tileprobe.targets.cpu.interpret.launching import Launch, prepare


@dataclass(frozen=True)
class Explanation:
    """`verdict` is "all agree", "scheduling", "code generation", or "unknown" if nothing can be said.

    Triton's interpreter runs the source: "scheduling" is all that happens between it and the scheduled IR, the passes
    that Triton runs on TTIR included.
    """

    verdict: str
    sentence: str
    mismatch: Mismatch | None = None
    orders: OrderReport | None = None

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class _Run:
    """One way of running a launch: what it left in the tensors, or why it stopped."""

    tensors: list[np.ndarray] | None
    error: Exception | None = None


def explain_difference(
    kernel: Any,
    grid: Any,
    args: Sequence[Any],
    meta: dict[str, Any] | None = None,
    *,
    also: Sequence[Any] = (),
    tolerance: float | None = None,
) -> Explanation:
    """Run a kernel in Triton's interpreter, in ours and on the CPU, and say where they part.

    `args` and `meta` are the positional and keyword arguments of the launch, `also` further tensors that it gets to
    through addresses in memory. Every run starts from the tensors as
    they are, and they are left so. Code is compiled without fusing products and sums, unless `meta` says so.
    Results may lie apart by `tolerance` times the tensor's largest number; without one, by what a sum in another
    order costs in the tensor's type.
    """
    meta = {"enable_fp_fusion": False, **(meta or {})}
    launch = prepare(kernel, grid, args, meta, also=also)
    before = launch.snapshot()
    orders: list[OrderReport] = []
    ours = _attempt(launch, before, lambda: orders.append(launch.check_orders()))
    if isinstance(ours.error, OutOfBoundsError):
        # Triton's interpreter and machine code might do the same, and not stop at it.
        return Explanation("scheduling", f"Scheduling, or the kernel itself, is wrong: {ours.error}.")
    source = _attempt(launch, before, lambda: triton_side.run(kernel, launch.grid, args, meta))
    code = _attempt(launch, before, lambda: kernel[launch.grid](*args, **meta))
    return _judge(launch, source, ours, code, orders[0] if orders else None, tolerance)


def _attempt(launch: Launch, before: list[np.ndarray], work: Callable[[], Any]) -> _Run:
    try:
        work()
        return _Run(launch.snapshot())
    except Exception as error:
        return _Run(None, error)
    finally:
        launch.restore(before)


def _judge(
    launch: Launch, source: _Run, ours: _Run, code: _Run, orders: OrderReport | None, tolerance: float | None
) -> Explanation:
    if isinstance(ours.error, InterpretError):
        return Explanation("scheduling", f"Scheduling is wrong: {ours.error}.")
    if ours.tensors is None:
        return _stopped(source, ours, code)
    if orders is not None and not orders.ok:
        sentence = f"Scheduling is wrong: {orders.differences[0]}."
        return Explanation("scheduling", sentence, orders=orders)
    if source.tensors is not None:
        differs = first_mismatch(launch, ours.tensors, source.tensors, tolerance)
        if differs is not None:
            return Explanation("scheduling", f"Scheduling is wrong: {_by(differs)}.", differs, orders)
    if code.tensors is None:
        return Explanation(
            "code generation", f"Code generation is wrong: machine code stops with {code.error}."
        )
    differs = first_mismatch(launch, code.tensors, ours.tensors, tolerance)
    if differs is not None:
        sentence = f"Code generation is wrong: in machine code {differs}."
        return Explanation("code generation", sentence, differs, orders)
    if source.tensors is None:
        sentence = f"Scheduled IR and machine code agree; Triton's interpreter stops with {source.error}."
        return Explanation("unknown", sentence, orders=orders)
    return Explanation(
        "all agree", "All agree: Triton's interpreter, scheduled IR and machine code.", orders=orders
    )


def _by(mismatch: Mismatch) -> str:
    return f"by the scheduled IR {mismatch}"


def _stopped(source: _Run, ours: _Run, code: _Run) -> Explanation:
    """Ours stopped with an error of the kernel's (an assertion), or with something it cannot run."""
    if source.error is not None and code.error is not None:
        return Explanation("all agree", f"All agree: each stops with an error, ours with {ours.error}.")
    return Explanation("unknown", f"The scheduled IR could not be run to its end: {ours.error}.")
