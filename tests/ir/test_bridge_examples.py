"""The example kernels go over the bridge as well, with the signatures their own checks launch them with.

The checks run with a compiler that only writes down what it was asked for; that is then compiled for a GPU.
With TILEPROBE_BRIDGE_ALL=1 every variant is, otherwise the first of each kernel.
"""

import os
from importlib import import_module
from unittest.mock import MagicMock

import pytest
import triton
from bridge_stages import EVERY, Compilation, check_identity
from examples import kernels
from triton.errors import TritonError
from triton.runtime.jit import JITFunction

import tileprobe


class Recorded:
    """A kernel as it was launched; stands in for a `Case`."""

    specialised = False

    def __init__(self, source, options):
        self._source = source
        self.name = source.name
        self.options = {key: options[key] for key in ("num_warps", "num_stages")}

    def source(self):
        return self._source

    def key(self):
        if not os.environ.get("TILEPROBE_BRIDGE_ALL"):
            return self.name
        return self.name, str(self._source.signature), str(self._source.constants)


def _record(module, monkeypatch) -> list[Recorded]:
    recorded: dict = {}

    def remember(source, target=None, options=None, **_):
        case = Recorded(source, options)
        recorded.setdefault(case.key(), case)
        return MagicMock()

    monkeypatch.setattr(triton.compiler, "compile", remember)
    functions = [value for value in vars(module).values() if isinstance(value, JITFunction)]
    for function in functions:
        monkeypatch.setattr(function, "device_caches", type(function.device_caches)(function.create_binder))
        # a binder leaves the compiler it was made with on the function: put back what was there, or nothing
        monkeypatch.setattr(function, "compile", triton.compile, raising=False)
    for case in module.CASES:
        try:
            module.check(**case)
        except AssertionError:
            continue  # nothing was computed, so the results are wrong
    return list(recorded.values())


def _first_that_compiles(case: Recorded, first: int) -> str:
    """The first target, from number `first` on, that takes the kernel (a dot may be too small for it)."""
    for target in (*EVERY[first:], *EVERY[:first]):
        try:
            Compilation(case, target)
        except TritonError:
            continue
        return target
    raise AssertionError(f"{case.name} compiles for no GPU")


@pytest.mark.parametrize("name", kernels.NAMES)
def test_example_kernels_are_identical(name, monkeypatch):
    with tileprobe.use("cpu"):
        recorded = _record(import_module(f"examples.kernels.{name}"), monkeypatch)
    assert recorded
    for index, case in enumerate(recorded):
        first = (kernels.NAMES.index(name) + index) % len(EVERY)
        check_identity(case, _first_that_compiles(case, first))
