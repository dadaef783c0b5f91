"""The reference: Triton's own interpreter, made strict. It refuses kernels whose result is not defined.

Runs in a process of its own with TRITON_INTERPRET=1, since the standard library of Triton decides at import what
its functions are. Every access is checked against the tensors, and every store for two values at one place.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from fuzz.case import Case, contents
from fuzz.load import loaded
from fuzz.memory import Guarded
from fuzz.program import Scalar
from fuzz.types import TYPES


class Undefined(Exception):
    """The kernel does something that Triton gives no meaning to."""


def _check_integers(interpreter: Any) -> None:
    """Division by zero and conversions of what no integer holds are undefined; NumPy only warns, if at all."""
    cls = type(interpreter.interpreter_builder)

    def checked(original: Any) -> Any:
        def convert(self: Any, source: Any, target: Any) -> Any:
            limits = np.iinfo(interpreter._get_np_dtype(target))
            values = np.trunc(source.data.astype(np.float64))
            if not ((values >= limits.min) & (values <= limits.max)).all():
                raise Undefined("a float that the integer type does not hold")
            return original(self, source, target)

        return convert

    for name in ("create_fp_to_si", "create_fp_to_ui"):
        setattr(cls, name, checked(getattr(cls, name)))


class _Checked:
    """The memory operations of the interpreter, with every address checked first."""

    def __init__(self, real: Any):
        self._real = real
        self.ranges: list[tuple[int, int]] = []
        self.strict = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _check(self, pointers: np.ndarray, mask: np.ndarray, size: int) -> np.ndarray:
        mask = np.broadcast_to(mask, pointers.shape)
        active = pointers[mask].astype(np.int64)
        inside = np.zeros(active.shape, bool)
        for low, high in self.ranges:
            inside |= (active >= low) & (active + size <= high)
        if not inside.all():
            raise Undefined("an access outside of every tensor")
        return mask

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        self._check(pointers, mask, np.dtype(dtype).itemsize)
        return self._real.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        mask = self._check(pointers, mask, values.dtype.itemsize)
        places, values_on = pointers[mask], np.broadcast_to(values, pointers.shape)[mask]
        order = np.argsort(places, kind="stable")
        same = places[order][1:] == places[order][:-1]
        differ = values_on[order][1:] != values_on[order][:-1]
        if (same & (differ | self.strict)).any():
            raise Undefined("two values stored at one place")
        return self._real.store(pointers, values, mask)

    def atomic_rmw(self, op: Any, pointers: Any, values: Any, mask: Any, sem: Any) -> Any:
        self._check(pointers, mask, values.dtype.itemsize)
        return self._real.atomic_rmw(op, pointers, values, mask, sem)

    def atomic_cas(self, pointers: Any, expected: Any, values: Any, sem: Any) -> Any:
        self._check(pointers, np.ones_like(pointers, bool), values.dtype.itemsize)
        return self._real.atomic_cas(pointers, expected, values, sem)


def _prepare() -> tuple[Any, _Checked]:
    from triton.runtime import interpreter

    from fuzz import differences

    if not isinstance(interpreter._interpreter, _Checked):
        interpreter._interpreter = _Checked(interpreter._interpreter)
        differences.install(interpreter)
        _check_integers(interpreter)
    return interpreter, interpreter._interpreter


def run(case: Case) -> dict[str, np.ndarray]:
    """What every tensor holds after the kernel; raises Undefined, or what the interpreter raises."""
    interpreter, memory = _prepare()
    tensors: dict[str, Guarded] = {}
    arguments: dict[str, Any] = {}
    for argument in case.arguments:
        if isinstance(argument, Scalar):
            arguments[argument.name] = argument.value
            continue
        if argument.same_as:
            arguments[argument.name] = tensors[argument.same_as]
            continue
        tensor = Guarded(contents(case, argument), TYPES[argument.dtype].torch, at_end=True)
        arguments[argument.name] = tensors[argument.name] = tensor
    memory.strict = case.strict
    memory.ranges = [(t.data_ptr(), t.data_ptr() + t.bits.nbytes) for t in tensors.values()]
    with loaded(case.source) as module, np.errstate(divide="raise", invalid="ignore", over="ignore"):
        _launch(interpreter, module.kernel, arguments, case.grid)
    return {name: tensor.bits.copy() for name, tensor in tensors.items()}


def _launch(interpreter: Any, kernel: Any, arguments: dict[str, Any], grid: int) -> None:
    """What the interpreter's own executor does, for objects that are no torch tensors."""
    function = kernel.rewrite()
    # A device function patches the language and does not put it back; nothing else runs in this process.
    interpreter._patch_lang(function)
    assert list(arguments) == list(inspect.signature(function).parameters)
    values = {name: interpreter._implicit_cvt(value) for name, value in arguments.items()}
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(grid, 1, 1)
    for program in range(grid):
        builder.set_grid_idx(program, 0, 0)
        function(**values)
