"""Multiprocessors run side by side: the same time, counters and values on however many threads, requests in order."""

import numpy as np
import pytest
import triton
import triton.language as tl
from examples.kernels import matmul, softmax

import tileprobe
from tileprobe.targets.jit import borrowing
from tileprobe.targets.simgpu.blocks import address, aligned, fill
from tileprobe.targets.simgpu.engine import timed_layout as at
from tileprobe.targets.simgpu.engine.timed_requests import settle
from tileprobe.targets.simgpu.engine.timed_shared import answer
from tileprobe.targets.simgpu.machine import machine
from tileprobe.targets.simgpu.timing import chip as chips


@triton.jit
def uneven(x, out, BLOCK: tl.constexpr):
    """Programs of different lengths, so that multiprocessors ask for their next one at different times."""
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x + i)
    for _ in range(pid % 7):
        y = y * 1.5 + tl.load(x + (i * 7 + pid) % BLOCK)
    tl.store(out + i, y)


@triton.jit
def said(x, n):
    pid = tl.program_id(0)
    if pid % 100 == 3:
        tl.device_print("program", pid)
    tl.store(x + pid, n)


@triton.jit
def started(out, x):
    """Programs of different lengths with one or two on a multiprocessor, which note when they begin, and end."""
    pid = tl.program_id(0)
    begun = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], tl.int64, False, 1)
    tl.store(out + pid, begun)
    i = tl.arange(0, 1024)
    y = tl.load(x + i)
    for _ in range(3 + (pid * 29) % 31):
        y = y * 1.5 + tl.load(x + ((i * 7 + y.to(tl.int32)) & 1023))
    tl.store(x + i, y, mask=y == 77.5)


@triton.jit
def counted(x):
    tl.atomic_add(x + tl.program_id(0) % 3, 1.0)


def zeros(*shape, dtype=np.float32):
    return tileprobe.array(np.zeros(shape, dtype))


def random(*shape, dtype=np.float32):
    return tileprobe.array(np.random.default_rng(0).standard_normal(shape).astype(dtype))


def run(target, threads, launch, **how):
    """What a launch took, on so many threads."""
    from triton.runtime import driver

    found = []
    with tileprobe.use(target, timed=True, cold=True, threads=threads, **{"check": False, **how}):
        here = driver.active.chip
        real = here.run
        here.run = lambda *args: found.append(real(*args)) or found[-1]
        launch()
    return found[-1]


def launches(kind):
    """A launch, and where its result is."""
    if kind == "product":
        out = zeros(192, 256, dtype=np.float16)
        a, b = random(192, 128, dtype=np.float16), random(128, 256, dtype=np.float16)
        return lambda: matmul.matmul(a, b, out, tile=(64, 64, 32)), out
    if kind == "rows":
        x, out = random(300, 700), zeros(300, 700)
        return lambda: softmax.softmax(x, out), out
    x, out = random(2400 * 128), zeros(2400 * 128)  # more than a chip of either machine has room for at once
    return lambda: uneven[(2400,)](x, out, 128), out


@pytest.mark.parametrize("target", ["sim:a100", "sim:h100"])
@pytest.mark.parametrize("kind", ["product", "rows", "uneven"])
def test_any_number_of_threads_takes_the_same_time(monkeypatch, target, kind):
    monkeypatch.setattr(chips, "_ALONE", 1)
    seen = set()
    for threads in (1, 2, 5):
        launch, out = launches(kind)
        took = run(target, threads, launch)
        seen.add(
            (took.cycles, tuple(took.counters.items()), took.statistics.tobytes(), out.numpy().tobytes())
        )
        assert took.statistics[:, 0].sum() == took.instructions
    assert len(seen) == 1


def test_other_threads_do_take_part(monkeypatch):
    monkeypatch.setattr(chips, "_ALONE", 1)
    helped, real = [], chips._Launch.took
    monkeypatch.setattr(
        chips._Launch, "took", lambda self: helped.append([s.sum() for _, s in self.helpers]) or real(self)
    )
    for _ in range(50):  # a busy machine may keep the other thread waiting for a whole launch
        run("sim:a100", 2, launches("uneven")[0])
        if helped[-1][0] > 0:
            break
    assert helped[-1][0] > 0


def test_one_thread_runs_what_shows_the_order_of_programs(monkeypatch):
    monkeypatch.setattr(chips, "_ALONE", 1)
    asked, real = [], chips._Launch.run
    monkeypatch.setattr(
        chips._Launch, "run", lambda self, limit, threads: asked.append(threads) or real(self, limit, threads)
    )
    x = zeros(3)
    run("sim:a100", 4, lambda: counted[(400,)](x))
    assert x.numpy().tolist() == [134, 133, 133]
    run("sim:a100", 4, launches("uneven")[0])
    assert asked == [1, 4]


@pytest.mark.parametrize("threads", [1, 3])
def test_every_program_that_prints_is_heard_in_the_same_order(capfd, threads):
    x = zeros(1200)
    run("sim:a100", threads, lambda: said[(1200,)](x, 5.0, num_warps=1), check=True)
    assert (x.numpy() == 5).all()
    lines = [line for line in capfd.readouterr().out.splitlines() if "program" in line]
    numbers = [int(line.rsplit(" ", 1)[1]) for line in lines]
    assert sorted(set(numbers)) == list(range(3, 1200, 100))
    again = run("sim:a100", 1, lambda: said[(1200,)](x, 5.0, num_warps=1), check=True)
    assert again.cycles
    once_more = [line for line in capfd.readouterr().out.splitlines() if "program" in line]
    assert once_more == lines


def test_a_list_that_is_full_is_answered_before_the_turn_is_over(monkeypatch):
    """With one multiprocessor requests come in the same order either way."""
    x, out = random(32 * 64), zeros(32 * 64)
    launch = lambda: uneven[(1,)](x, out, 1024, num_warps=8)
    whole = run("sim:a100", 1, launch)
    monkeypatch.setattr(chips, "_ROOM", 1)
    assert run("sim:a100", 1, launch).cycles == whole.cycles


def test_programs_go_to_who_is_free_first_and_begin_when_it_is():
    """As many as are there at once begin together; each later one begins when one of those before it ends."""
    programs, begun, x = 600, zeros(600, dtype=np.int64), random(1024)
    took = run("sim:a100", 2, lambda: started[(programs,)](begun, x, num_warps=32))
    assert took.occupancy == 2
    at_once = 2 * machine("a100").multiprocessors
    times = begun.numpy()
    assert times[:at_once].max() < times[at_once:].min()
    # the note is a few instructions behind the start, which can wait for the loads of the program beside it
    assert (times[2 * at_once :] > times[at_once:-at_once]).all()
    assert len(set(times[at_once:].tolist())) > 50
    # what warps issued and waited for is no more than the time that there were warps
    assert took.statistics.sum() <= 32 * at_once * took.cycles


# -- requests by hand --------------------------------------------------------------------------------------------------
@borrowing
def answered(chip, first):
    answer(chip, first)


@borrowing
def settled(chip, sm):
    settle(chip, sm)


class Made:
    """Multiprocessors with lists of requests, and the L2 and DRAM of an A100."""

    def __init__(self, *lists):
        self.chip = chips.Chip(machine("a100"))
        self.lists = [aligned(at.REQUEST * 16) for _ in lists]
        self.sms = [aligned(at.S_BYTES) for _ in lists]
        self.keep = [
            np.array([address(sm) for sm in self.sms], np.int64),
            aligned(1024),
            aligned(8 * at.BUCKETS),
        ]
        for sm, held, entries in zip(self.sms, self.lists, lists):
            rows = held.view(np.int64).reshape(-1, at.REQUEST // 8)
            for row, fields in zip(rows, entries):
                for place, value in fields.items():
                    row[place // 8] = value
            fill(sm, {at.S_REQUESTS: address(held), at.S_REQUEST_COUNT: len(entries), at.S_DUE: at.FAR})
        self.block = aligned(at.C_BYTES)
        fill(self.block, {
            at.C_COUNT: len(lists), at.C_SMS: address(self.keep[0]), at.C_L2: address(self.chip.l2),
            at.C_L2_SETS: self.chip.l2_sets, at.C_CHANNELS: address(self.chip.channels),
            at.C_CHANNEL_COUNT: 40, at.C_MACHINE: address(self.chip.numbers), at.C_ORDER: address(self.keep[1]),
            at.C_BUCKETS: address(self.keep[2]), at.C_SLICES: address(self.chip.slices),
            at.C_SLICE_COUNT: 80,
        })  # fmt: skip

    def filled(self, sm, entry):
        return int(self.lists[sm].view(np.int64).reshape(-1, at.REQUEST // 8)[entry, at.Q_FILLED // 8])


def read(line, asked, place=0, old=-1):
    return {
        at.Q_KIND: at.READ, at.Q_LINE: line, at.Q_SECTORS: 15, at.Q_ASKED: asked, at.Q_PLACE: place, at.Q_OLD: old,
    }  # fmt: skip


def test_who_comes_first_is_served_first():
    """Two lines of one channel: by cycle, not by the number of who asks."""
    made = Made([read(80, 1007)], [read(81, 1005)])
    answered(address(made.block), 1000)
    first, second = made.filled(1, 0), made.filled(0, 0)
    assert first == made.chip.machine.timing.latency_dram + 1005
    assert second > made.chip.machine.timing.latency_dram + 1007  # it stood behind


def test_of_the_same_cycle_the_first_multiprocessor_is_served_first():
    made = Made([read(80, 1005)], [read(81, 1005)])
    answered(address(made.block), 1000)
    assert made.filled(0, 0) < made.filled(1, 0)


def test_what_is_asked_for_twice_comes_once():
    made = Made([read(80, 1005)], [read(80, 1006)])
    answered(address(made.block), 1000)
    fields = made.block.view(np.int64)
    assert fields[at.C_DRAM_READ // 8] == 128
    assert (fields[at.C_L2_HITS // 8], fields[at.C_L2_MISSES // 8]) == (4, 4)


def test_an_access_is_over_with_its_last_line_and_barriers_keep_the_latest():
    warp, line = aligned(at.T_BYTES), aligned(at.TAG_BYTES)
    times = warp.view(np.int64)
    times[at.T_AGE // 8] = 77
    line.view(np.int64)[at.FILLED // 8] = at.FAR

    def end(bar, floor, extra=0, age=77):
        return {
            at.Q_KIND: at.END, at.Q_FLOOR: floor, at.Q_EXTRA: extra, at.Q_WARP: address(warp), at.Q_AGE: age,
            at.Q_FOR: at.FOR_BAR, at.Q_AT: bar | (at.LONG << 3),
        }  # fmt: skip

    hit = {at.Q_KIND: at.HIT, at.Q_PLACE: address(line)}
    made = Made([
        {**read(80, 1000, address(line)), at.Q_FILLED: 1700}, {**read(81, 1000), at.Q_FILLED: 1600}, end(0, 1100),
        hit, end(1, 1100, 6),
        {**read(82, 1000), at.Q_FILLED: 9000}, end(2, 1100, age=78),  # of a program that has ended
        {**read(83, 1000), at.Q_FILLED: 1300}, end(0, 1500),
    ])  # fmt: skip
    settled(address(made.block), address(made.sms[0]))
    bars = times[at.T_BARS // 8 :][:6].tolist()
    assert bars == [1700, 1706, 0, 0, 0, 0]
    assert times[at.T_BAR_WHY // 8 :][:2].tolist() == [at.LONG, at.LONG]
    assert line.view(np.int64)[at.FILLED // 8] == 1700
    assert made.sms[0].view(np.int64)[at.S_REQUEST_COUNT // 8] == 0


def test_a_group_of_copies_waits_for_those_before_it():
    warp = aligned(at.T_BYTES)
    times = warp.view(np.int64)
    copies = {
        at.Q_KIND: at.END, at.Q_FLOOR: 10, at.Q_EXTRA: 6, at.Q_WARP: address(warp), at.Q_AGE: 0,
        at.Q_FOR: at.FOR_COPIES,
    }  # fmt: skip
    group = {
        at.Q_KIND: at.GROUP_END, at.Q_FLOOR: 30, at.Q_EXTRA: 40, at.Q_WARP: address(warp), at.Q_AGE: 0, at.Q_FOR: 3,
        at.Q_AT: 5,
    }  # fmt: skip
    made = Made([{**read(1, 0), at.Q_FILLED: 600}, copies, group, {**read(2, 0), at.Q_FILLED: 900}, copies])
    settled(address(made.block), address(made.sms[0]))
    assert times[at.T_RING // 8 + 5] == times[at.T_BARS // 8 + 3] == 606
    assert times[at.T_COPIES_DONE // 8] == 906
