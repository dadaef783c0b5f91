"""The pool: every program runs exactly once, whatever the number of programs, threads and callers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from handmade_kernels import COUNT, FAIL, SCRATCH, SLOW, kernel, launch_block

from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu import pool
from tileprobe.targets.cpu.pool_ir import STATUS_ERROR, STATUS_MEMORY


def run(which: pool.Pool, body: str, counts: np.ndarray, *more: int, scratch: int = 0) -> int:
    block = launch_block(counts, *more)
    return which.run(kernel(body), block.ctypes.data, counts.size, scratch)


@pytest.fixture(params=[1, 2, 3, 8])
def some_pool(request):
    made = pool.Pool(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("programs", [1, 2, 3, 7, 64, 1000, 100_003])
def test_every_program_runs_once(some_pool, programs):
    counts = np.zeros(programs, np.int32)
    for launches in range(1, 21):
        assert run(some_pool, COUNT, counts) == 0
        assert (counts == launches).all()


def test_many_launches_of_changing_size(some_pool):
    """The race to fear: a late worker of one job claiming from the next."""
    rng = np.random.default_rng(1)
    buffers = [np.zeros(n, np.int32) for n in (1, 2, 3, 5, 17, 40)]
    launches = [0] * len(buffers)
    for which in rng.integers(0, len(buffers), 5000):
        run(some_pool, COUNT, buffers[which])
        launches[which] += 1
        assert (buffers[which] == launches[which]).all()


def test_nothing_to_do(some_pool):
    assert some_pool.run(kernel(COUNT), 0, 0, 0) == 0


def test_sleeping_workers_wake(some_pool):
    import time

    counts = np.zeros(500, np.int32)
    for launches in range(1, 6):
        time.sleep(0.02)  # longer than workers spin
        run(some_pool, COUNT, counts)
        assert (counts == launches).all()


def test_an_error_stops_the_rest(some_pool):
    counts = np.zeros(1_000_000, np.int32)
    assert run(some_pool, FAIL, counts) == STATUS_ERROR
    assert counts.max() == 1
    assert counts.sum() < counts.size
    fresh = np.zeros(100, np.int32)
    assert run(some_pool, COUNT, fresh) == 0  # the pool is as good as before
    assert (fresh == 1).all()


def test_scratch_grows_and_is_private(some_pool):
    for size in (64, 100_000, 4096, 3_000_000):
        counts = np.zeros(50, np.int32)
        assert run(some_pool, SCRATCH, counts, size, scratch=size) == 0
        assert (counts == 1).all()


def test_scratch_that_cannot_be_had(some_pool):
    counts = np.zeros(50, np.int32)
    assert run(some_pool, COUNT, counts, scratch=2**60) & STATUS_MEMORY
    assert run(some_pool, COUNT, counts) == 0


def test_more_programs_than_32_bits_count():
    """One function call covers its whole range, so the kernel may just note what it was called with."""
    body = """
  %size = sub i64 %last, %first
  atomicrmw add ptr %a, i64 %size seq_cst
  ret i32 0
dead:
"""
    total = np.zeros(1, np.int64)
    block = launch_block(total)
    for programs in (2**31, 2**33 - 1, 2**40 + 7, 2**31 * 65535 * 65535):
        total[:] = 0
        with_two = pool.Pool(2)
        assert with_two.run(kernel(body), block.ctypes.data, programs, 0) == 0
        assert total[0] == programs
        with_two.close()
    with pytest.raises(TileProbeError, match="too large"):
        pool.Pool(1).run(kernel(body), block.ctypes.data, 2**63, 0)


def test_python_threads_share_the_pool():
    shared = pool.Pool(2)
    counts = [np.zeros(200, np.int32) for _ in range(6)]

    def work(mine):
        for _ in range(300):
            run(shared, COUNT, mine)

    kernel(COUNT)
    threads = [threading.Thread(target=work, args=(c,)) for c in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((c == 300).all() for c in counts)


def test_python_runs_while_a_kernel_runs():
    """A launch holds no GIL: another Python thread goes on counting."""
    shared = pool.Pool(1)
    counts = np.zeros(40, np.int32)
    kernel(SLOW)
    ticks, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks[0]
    run(shared, SLOW, counts)
    after = ticks[0]
    done.set()
    thread.join()
    assert after - before > 1000


def test_launch_from_a_signal_handler():
    """The handler runs in the launching thread while its own job is under way."""
    shared = pool.Pool(2)
    outer, inner = np.zeros(400, np.int32), np.zeros(10, np.int32)
    kernel(SLOW), kernel(COUNT)
    old = signal.signal(signal.SIGALRM, lambda *_: run(shared, COUNT, inner))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        run(shared, SLOW, outer)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert (outer == 1).all()
    assert (inner == 1).all()


def test_interrupt_gives_up_the_rest():
    shared = pool.Pool(2)
    counts = np.zeros(5000, np.int32)
    kernel(SLOW)

    def interrupt(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            run(shared, SLOW, counts)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert 0 < counts.sum() < counts.size
    seen = counts.sum()
    again = np.zeros(100, np.int32)
    assert run(shared, COUNT, again) == 0
    assert (again == 1).all()
    assert counts.sum() == seen  # nobody is still working on it


def test_a_forked_child_makes_its_own_pool():
    counts = np.zeros(1000, np.int32)
    run(pool.current(), COUNT, counts)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            mine = np.zeros(1000, np.int32)
            for _ in range(50):
                run(pool.current(), COUNT, mine)
            code = 0 if (mine == 50).all() else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    run(pool.current(), COUNT, counts)
    assert (counts == 2).all()


def test_number_of_threads():
    before = pool.wanted_threads()
    try:
        pool.set_threads(3)
        assert pool.current().threads == 3
        pool.set_threads(1)
        assert pool.current().threads == 1
        with pytest.raises(TileProbeError, match="threads must be"):
            pool.set_threads(0)
    finally:
        pool.set_threads(before)


@pytest.mark.parametrize(("text", "code"), [("5", 0), ("none", 1), ("0", 1)])
def test_number_of_threads_from_the_environment(text, code):
    script = "from tileprobe.targets.cpu import pool; assert pool.current().threads == 5"
    environment = {**os.environ, "TILEPROBE_NUM_THREADS": text}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == code
    assert code == 0 or "TILEPROBE_NUM_THREADS is" in done.stderr


def test_the_process_ends_quietly():
    """Workers may be spinning, asleep or at work when the interpreter goes."""
    script = textwrap.dedent(
        """
        import threading, numpy as np
        from handmade_kernels import SLOW, kernel, launch_block
        from tileprobe.targets.cpu import pool
        counts = np.zeros(300, np.int32)
        block = launch_block(counts)
        run = lambda: pool.current().run(kernel(SLOW), block.ctypes.data, counts.size, 0)
        threading.Thread(target=run, daemon=True).start()
        import time; time.sleep(0.2)
        """
    )
    for _ in range(3):
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_code_for_arm():
    """There is no ARM machine to run it on; it must at least become ARM code."""
    import llvmlite.binding as llvm

    from tileprobe.targets.cpu import pool_ir

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu="neoverse-n1", reloc="pic")
    module = llvm.parse_assembly(pool_ir.module_text("aarch64"))
    module.triple = triple
    module.verify()
    assembly = machine.emit_assembly(module)
    assert "yield" in assembly
    assert "casal" in assembly or "ldaxr" in assembly
