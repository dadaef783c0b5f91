"""Programs that look at each other: across the grid by memory, within a cluster by shared memory and barriers."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.targets.simgpu import execute
from tileprobe.targets.simgpu.errors import KernelFault

FLAGS, MACHINES = 6, ("sim:a100", "sim:h100")


@triton.jit
def all_meet(count, out, n):
    """Every program waits for all of them, the first for the last."""
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < n:
        pass
    tl.store(out + tl.program_id(0), tl.atomic_add(count + 1, 1))


@pytest.mark.parametrize("machine", MACHINES)
def test_programs_that_wait_for_later_ones_go_on(machine):
    with tileprobe.use(machine):
        count, out = tileprobe.array(np.zeros(2, np.int32)), tileprobe.array(np.full(FLAGS, -1, np.int32))
        all_meet[(FLAGS,)](count, out, FLAGS, num_warps=1)
    assert sorted(out.numpy()) == list(range(FLAGS))
    assert list(count.numpy()) == [FLAGS, FLAGS]


@triton.jit
def passed_on(flags, values, n):
    """Program i waits, by a volatile load, for what program i + 1 has stored."""
    i = tl.program_id(0)
    if i < n - 1:
        while tl.load(flags + i + 1, volatile=True) == 0:
            pass
        tl.store(values + i, tl.load(values + i + 1, volatile=True) * 2)
    tl.debug_barrier()
    tl.atomic_xchg(flags + i, 1)


def test_a_chain_of_programs_from_the_last_to_the_first():
    with tileprobe.use("sim:a100"):
        flags, values = tileprobe.array(np.zeros(FLAGS, np.int32)), tileprobe.array(np.ones(FLAGS, np.int32))
        passed_on[(FLAGS,)](flags, values, FLAGS, num_warps=1)
    assert list(values.numpy()) == [2 ** (FLAGS - 1 - n) for n in range(FLAGS)]


@triton.jit
def counts_while_it_waits(flag, out):
    spent = 0
    while tl.load(flag, volatile=True) == 0:
        spent += 1
    tl.store(out + tl.program_id(0), spent)


def test_waiting_is_no_circle_as_long_as_somebody_gets_on(monkeypatch):
    """Looked at far more often than usual."""
    monkeypatch.setattr(execute, "_PATIENCE", 1000)
    monkeypatch.setattr(execute, "_TURN", 100)
    monkeypatch.setattr(execute, "_LOOK", 200)
    test_a_chain_of_programs_from_the_last_to_the_first()


def test_waiting_for_a_program_that_does_not_exist_is_endless(monkeypatch):
    monkeypatch.setattr(execute, "_LOOK", 500_000)
    with tileprobe.use("sim:a100"):
        count, out = tileprobe.array(np.zeros(2, np.int32)), tileprobe.array(np.zeros(FLAGS, np.int32))
        with pytest.raises(KernelFault, match=r"endless[\s\S]*test_simgpu_grid.py") as said:
            all_meet[(FLAGS,)](count, out, FLAGS + 1, num_warps=1)
    assert f"it and {FLAGS - 1} more that run with it will never end" in str(said.value)


def test_programs_that_wait_and_count_are_stopped_together(monkeypatch):
    """None reaches the limit of one program before all of them have issued many times that."""
    monkeypatch.setattr(execute, "_LOOK", 100_000)
    monkeypatch.setattr(execute, "_TOGETHER", 2)
    with tileprobe.use("sim:a100", step_limit=2_000_000):
        count, out = (tileprobe.array(np.zeros(FLAGS, np.int32)) for _ in range(2))
        with pytest.raises(KernelFault, match="not finished after 4,000,000 instructions"):
            counts_while_it_waits[(FLAGS,)](count, out, num_warps=1)


@triton.jit
def sums(x, out, rows, N: tl.constexpr):
    """A reduction whose parts lie in the programs of a cluster, and a row that all of them need."""
    row = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.load(x + row * N + i)
    tl.store(out + row * N + i, v + tl.sum(v, 0) + tl.num_programs(0))


@pytest.mark.parametrize("cluster", [2, 4])
def test_clusters_exchange_through_shared_memory(cluster, capfd):
    values = np.random.default_rng(0).integers(0, 100, (3, 1024)).astype(np.float32)
    with tileprobe.use("sim:h100"):
        out = tileprobe.array(np.zeros_like(values))
        sums[(3,)](tileprobe.array(values), out, 3, 1024, num_ctas=cluster)
    np.testing.assert_array_equal(out.numpy(), values + values.sum(1, keepdims=True) + 3)
    assert "not looked for" not in capfd.readouterr().err  # test_simgpu_races_clusters.py
