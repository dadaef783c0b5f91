"""The verifier of scheduled IR: each rule is broken on purpose in the lowering, and has to be noticed.

Without the planted fault the same kernels compile, which shows that it is the fault that is noticed.
"""

from __future__ import annotations

import numpy as np
import pytest
from cpu_harness import Buffer, kernel, launch

from tileprobe.targets.cpu.schedule import control, lower, memory, nest, products, scratch
from tileprobe.targets.cpu.schedule.analysis import Analysis
from tileprobe.targets.cpu.schedule.verify import ScheduleError

FRAME = """
@triton.jit
def kernel(X, Y, O, n, N: tl.constexpr):
    i = tl.arange(0, N)
    p = i[:, None] * N + i[None, :]
"""


@pytest.fixture(autouse=True)
def always_compile(monkeypatch):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")


def compiled(body: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    buffers = [Buffer(np.ones((16, 16)), "float32") for _ in range(3)]
    launch(kernel(FRAME + lines), 1, *buffers, 2, N=16)


def refused(monkeypatch, body: str, what: str, *faults: tuple[object, str, object]) -> None:
    """The body compiles; with the faults planted it is refused with that message, the kernel and the line."""
    compiled(body)
    for owner, name, fault in faults:
        monkeypatch.setattr(owner, name, fault)
    with pytest.raises(ScheduleError, match=what) as error:
        compiled(body)
    assert "kernel 'kernel'" in str(error.value)
    assert ".py:" in str(error.value)


def never(*args: object) -> bool:
    return False


def nothing(*args: object) -> None:
    return None


FORGETFUL = (Analysis, "_clobbered", never)


def test_product_into_its_factor(monkeypatch):
    body = """
x = tl.load(X + p)
for _ in range(n):
    x = tl.dot(tl.load(Y + p), x)
tl.store(O + p, x)"""
    refused(monkeypatch, body, "overwrites its own operand", (products, "same_memory", never))


def test_carried_tile_permuted_in_place(monkeypatch):
    body = """
x = tl.load(X + p)
for _ in range(n):
    x = x + tl.trans(x)
tl.store(O + p, x)"""
    faults = [(control, "_reads_overwritten", never), (nest.NestBuilder, "reads_elsewhere", never)]
    refused(monkeypatch, body, "reads a tile that it overwrites", *faults)


def test_swapped_tiles(monkeypatch):
    body = """
x, y = tl.load(X + p), tl.load(Y + p)
for _ in range(n):
    x, y = y, x + 1
tl.store(O + p, x + y)"""
    refused(monkeypatch, body, "reads a tile that it overwrites", (control, "_reads_overwritten", never))


def test_load_evaluated_after_a_store(monkeypatch):
    body = """
v = tl.load(X + p)
tl.store(X + p, 0.0)
tl.store(O + tl.trans(p), v)"""
    faults = [(lower.FunctionLowering, "settle", nothing), FORGETFUL]
    refused(monkeypatch, body, "after the memory it reads was changed", *faults)


def test_load_evaluated_after_a_store_of_an_earlier_iteration(monkeypatch):
    body = """
v = tl.load(X + p)
for k in range(n):
    tl.store(O + p, v)
    tl.store(X + p, 0.0)"""
    faults = [(lower.FunctionLowering, "settle", nothing), FORGETFUL, (Analysis, "_deeper", never)]
    refused(monkeypatch, body, "after the memory it reads was changed", *faults)


def test_load_evaluated_after_a_branch_that_stores(monkeypatch):
    body = """
v = tl.load(X + p)
if n > 1:
    tl.store(X + p, 0.0)
tl.store(O + p, v)"""
    faults = [(lower.FunctionLowering, "settle", nothing), FORGETFUL]
    refused(monkeypatch, body, "after the memory it reads was changed", *faults)


def test_elements_of_a_store_meet_those_of_a_load(monkeypatch):
    body = "tl.store(X + p, tl.trans(tl.load(X + p)))"
    faults = [(memory, "_loads_at_risk", lambda *a: []), (memory, "_may_join", lambda *a: True)]
    refused(monkeypatch, body, "that other elements of it access", *faults)


def test_stores_that_meet_in_one_stage(monkeypatch):
    body = """
tl.store(O + p, 1.0)
tl.store(O + tl.trans(p), p.to(tl.float32))"""
    refused(monkeypatch, body, "that other elements of it access", (memory, "_may_join", lambda *a: True))


def test_scalar_load_before_the_store_in_front_of_it(monkeypatch):
    """A scalar is loaded at once; the stage with the store has to be emitted first."""
    body = """
tl.store(X + p, 2.0)
s = tl.load(X + n)
tl.store(O + p, s)"""
    original = lower.FunctionLowering.lower_scalar

    def early(self, op):
        held, self.open = self.open, None
        original(self, op)
        self.open = held

    refused(
        monkeypatch,
        body,
        "a load that should see it|changed places",
        (lower.FunctionLowering, "lower_scalar", early),
    )


def test_buffers_that_live_at_once_share_memory(monkeypatch):
    body = """
x = tl.cumsum(tl.load(X + p), 0)
y = tl.cumsum(tl.load(Y + p), 1)
tl.store(O + p, x + y)"""
    short = lambda op, position, end, function: position[op] + 1
    refused(monkeypatch, body, "from a buffer that holds", (scratch, "_last_use", short))


def test_buffer_of_an_outer_loop_dies_too_early(monkeypatch):
    """Used inside of a loop only: it has to live until the loop ends, as the next iteration reads it, too."""
    body = """
x = tl.cumsum(tl.load(X + p), 0)
acc = tl.zeros((N, N), tl.float32)
for _ in range(n):
    acc += x
    y = tl.cumsum(acc, 1)
    acc += tl.trans(tl.cumsum(y, 0))
tl.store(O + p, acc)"""

    def without_loops(op, position, end, function):
        return max([position[op] + 1, *(position[use.operation] + 1 for use in op.buffer.uses)])

    refused(monkeypatch, body, "from a buffer that holds", (scratch, "_last_use", without_loops))


def test_place_of_a_loop_used_behind_it(monkeypatch):
    """The result of the loop lies there."""
    body = """
x = tl.load(X + p)
for _ in range(n):
    x = tl.dot(x, x)
y = tl.cumsum(p.to(tl.float32) * 2, 0)
tl.store(O + p, x + y)"""
    meant, chosen = control._prefer, lower.FunctionLowering._place
    left: list[object] = []

    def remember(low, value, arg, buffer):
        left.append(buffer)
        meant(low, value, arg, buffer)

    def reuse(self, value, form, nest):
        behind = left and not self.preferred and form.layout == "row"
        return left[-1] if behind else chosen(self, value, form, nest)

    faults = [(control, "_prefer", remember), (lower.FunctionLowering, "_place", reuse)]
    refused(monkeypatch, body, "from a buffer that holds", *faults)
