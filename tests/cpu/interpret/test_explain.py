"""Which half is wrong: a fault planted in one of them is laid at its door."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_harness import INTERPRETED, kernel

import tileprobe
from tileprobe.targets.cpu.interpret import explain_difference

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(INTERPRETED, reason="compares with compiled code")

# The constant makes each test's kernel its own, so that none finds the other's code in the cache.
SOURCE = """
@triton.jit
def helper(x, y):
    return tl.sum(x, axis=0) + y

@triton.jit
def kernel(X, OUT, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other={other})
    tl.store(OUT + i, x - helper(x, 1.0), mask=i < n)
"""


def launch_of(other):
    x = tileprobe.array(np.arange(10, dtype=np.float32))
    out = tileprobe.array(np.full(10, -1, np.float32))
    return kernel(SOURCE.format(other=other)), (1,), (x, out, 10), {"B": 16}


def test_all_agree_and_the_tensors_stay_as_they_were():
    what, grid, args, meta = launch_of(0.0)
    found = explain_difference(what, grid, args, meta)
    assert found.verdict == "all agree", found
    assert (args[1].numpy() == -1).all()


def test_a_wrong_schedule(monkeypatch):
    from tileprobe.ir.accessors import op_name
    from tileprobe.targets.cpu import pipeline
    from tileprobe.targets.cpu.schedule.ttir import make

    right = pipeline.schedule

    def wrong(module, *options):
        tile = right(module, *options)
        for op in list(tile.walk()):
            if op_name(op) == "arith.subf":
                new = make("arith.addf", list(op.operands), [r.type for r in op.results])
                op.parent.insert_op_before(new, op)
                op.results[0].replace_all_uses_with(new.results[0])
                op.detach()
        return tile

    monkeypatch.setattr(pipeline, "schedule", wrong)
    found = explain_difference(*launch_of(0.125))
    assert found.verdict == "scheduling", found
    assert found.mismatch is not None
    assert (found.mismatch.tensor, found.mismatch.index) == ("OUT", (0,))
    assert found.mismatch.expected == 0 - 45.0 - 6 * 0.125 - 1


def test_wrong_code(monkeypatch):
    from tileprobe.targets.cpu.codegen import elementwise

    monkeypatch.setitem(elementwise._FLOAT_BINARY, "subf", lambda b, x, y, flags: b.fadd(x, y))
    found = explain_difference(*launch_of(0.25))
    assert found.verdict == "code generation", found
    assert "OUT[0]" in str(found)


def test_an_access_outside_of_the_tensors_is_not_run_on_the_cpu():
    what, grid, (x, out, _), meta = launch_of(0.5)
    found = explain_difference(what, grid, (x, out, 16), meta)
    assert found.verdict == "scheduling"
    assert "outside every tensor" in str(found)


def test_compiling_goes_on_as_before():
    """Triton's interpreter patches the language; nothing of that may stay."""
    import triton.language as tl

    before = {name: getattr(tl, name) for name in dir(tl)}
    explain_difference(*launch_of(0.75))
    assert {name: getattr(tl, name) for name in dir(tl)} == before
    what, grid, args, meta = launch_of(1.5)
    assert "interpreter_semantic" not in what.fn.__globals__
    what[grid](*args, **meta)
    assert args[1].numpy()[0] == -(45 + 6 * 1.5 + 1)
