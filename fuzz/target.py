"""The side under test: a case compiled for the CPU and run on guarded memory, in a process of one vector width."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.case import Case, contents
from fuzz.load import loaded
from fuzz.memory import Guarded
from fuzz.program import Scalar
from fuzz.types import TYPES


class OutOfBounds(Exception):
    """Something was written next to a tensor."""


def place(case: Case, at_end: bool) -> tuple[dict[str, Guarded], list[Any]]:
    """The tensors of a case in guarded memory, and the arguments of its launch."""
    tensors: dict[str, Guarded] = {}
    arguments: list[Any] = []
    for argument in case.arguments:
        if isinstance(argument, Scalar):
            arguments.append(argument.value)
            continue
        if not argument.same_as:
            bits = contents(case, argument)
            tensors[argument.name] = Guarded(bits, TYPES[argument.dtype].torch, at_end)
        arguments.append(tensors[argument.same_as or argument.name])
    return tensors, arguments


def run(case: Case, at_end: bool) -> dict[str, np.ndarray]:
    """What every tensor holds after the kernel. A read or write beyond a guard kills the process."""
    tensors, arguments = place(case, at_end)
    with loaded(case.source) as module:
        module.kernel[(case.grid,)](*arguments, enable_fp_fusion=False)
    damaged = [name for name, tensor in tensors.items() if tensor.damaged()]
    if damaged:
        raise OutOfBounds(f"written next to {', '.join(damaged)}")
    return {name: tensor.bits.copy() for name, tensor in tensors.items()}


def forget(cache: Path) -> None:
    """Drop compiled kernels: no two are the same, and they fill the disk."""
    for entry in cache.iterdir():
        shutil.rmtree(entry, ignore_errors=True)
