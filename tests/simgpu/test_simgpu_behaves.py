"""What costs time on a GPU costs time here: each mechanism of the model, and what is left of its cost without it."""

from dataclasses import replace

import numpy as np
import pytest
import triton
import triton.language as tl
from benchmarks import _micro_ptx
from examples.kernels import matmul

import tileprobe
from tileprobe.targets.simgpu.engine import timed_layout as at
from tileprobe.targets.simgpu.foreign import ForeignLauncher
from tileprobe.targets.simgpu.launched import observing
from tileprobe.targets.simgpu.machine import machine
from tileprobe.targets.simgpu.program import decode
from tileprobe.targets.simgpu.timing import instructions
from tileprobe.targets.simgpu.timing.banks import reads
from tileprobe.targets.simgpu.timing.chip import Chip


def took(run, on="a100", cold=True, **timing):
    """Launches of a machine with some of its numbers changed."""
    found = []
    with tileprobe.use(f"sim:{on}", timed=True, check=False), observing(found.append):
        from triton.runtime import driver

        active = driver.active
        kept = active.machine, active.chip
        try:
            active.machine = replace(machine(on), timing=replace(machine(on).timing, **timing))
            vars(active)["chip"] = Chip(active.machine)
            run()
        finally:
            active.machine = kept[0]
            vars(active)["chip"] = kept[1]
    return found


def cycles(run, on="a100", **timing):
    return took(run, on, **timing)[-1].took.cycles - machine(on).timing.launch_cycles


def launch(name, grid, block, *args, on="a100"):
    program = decode(_micro_ptx.cubin(machine(on).arch), name)
    return lambda: ForeignLauncher(program, machine(on), (block, 1, 1), 0).run(program, (grid, 1, 1), args)


def rounds(name, few, many, *more, block=256, **timing):
    """Cycles of each round of a loop."""
    out = np.zeros(16, np.uint32)
    took = [cycles(launch(name, 1, block, n, *more, out), **timing) for n in (few, many)]
    return (took[1] - took[0]) / (many - few)


@pytest.mark.parametrize(("stride", "ways"), [(1, 1), (2, 2), (4, 4), (8, 8), (32, 32)])
def test_bank_conflicts_cost_a_pass_each(stride, ways):
    """256 threads read sixteen words each: eight warps, sixteen passes a way each."""
    assert rounds("shared_reads", 2, 6, 4 * stride) == pytest.approx(max(ways, 2) * 8 * 16, rel=0.2)


@triton.jit
def spread(x, out, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i % n * STRIDE))


def test_lanes_far_apart_cost_a_sector_each():
    """Each lane of a load on a line of its own: eight times the bytes from DRAM."""
    n = 1 << 17
    x, out = (tileprobe.array(np.zeros(count, np.float32)) for count in (n * 32, n))
    near, far = (
        cycles(lambda: spread[(n // 1024,)](x, out, n, STRIDE=stride, BLOCK=1024))  # noqa: B023
        for stride in (1, 32)
    )
    moved = 32 * n / (machine("a100").timing.dram_bytes_second / 1410e6)
    assert far > moved and far > 2 * near


@triton.jit
def chain(out, n):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    y = i.to(tl.float32)
    for _ in range(n):
        y = y * 1.5 + 0.25
    tl.store(out + i, y)


def test_a_wave_more_costs_a_wave_and_its_tail_is_empty():
    out = tileprobe.array(np.zeros(1024 * 433, np.float32))

    def run(programs):
        return cycles(lambda: chain[(programs,)](out, 400, num_warps=32), on="a100")

    one, full, tail = run(216), run(432), run(217)  # two programs of 32 warps are on each of 108
    assert full == pytest.approx(2 * one, rel=0.15)
    assert 1.3 * one < tail < full  # one program alone on its multiprocessor


def product(stages, n=512, tile=(128, 128, 32), **more):
    a, b, c = (tileprobe.array(np.ones((n, n), np.float16)) for _ in range(3))
    grid = (triton.cdiv(n, tile[0]) * triton.cdiv(n, tile[1]),)
    return lambda: matmul.matmul_kernel[grid](
        *matmul._arguments(a, b, c), BLOCK_M=tile[0], BLOCK_N=tile[1], BLOCK_K=tile[2], GROUP=8, ACTIVATION="",
        num_warps=4, num_stages=stages, **more,
    )  # fmt: skip


def test_more_stages_hide_latency_and_cost_nothing_once_it_is_hidden():
    two, three, four, five = (cycles(product(stages)) for stages in (2, 3, 4, 5))
    assert two > 1.1 * three > 1.1 * four
    assert five == pytest.approx(four, rel=0.1)
    # without latency there is nothing to hide
    quick = {"latency_dram": 210, "latency_l2_far": 207}
    assert cycles(product(2), **quick) / cycles(product(4), **quick) < 0.85 * two / four


def test_stages_take_shared_memory_until_one_program_less_is_there():
    held = {}
    for stages in (3, 5):
        (one,) = took(product(stages, n=2048, tile=(64, 64, 64)))
        held[stages] = one
    assert held[3].occupancy.warps > held[5].occupancy.warps
    assert held[5].occupancy.limiter == "shared memory"


def test_fewer_registers_of_each_thread_leave_room_for_more_warps():
    def run(tile):
        """A product whose sums take a quarter, or all, of what a thread can have."""
        return took(product(2, n=1024, tile=(tile, tile, 16)))[-1]

    few, many = run(64), run(128)
    assert few.program.cubin.registers < many.program.cubin.registers
    assert few.occupancy.warps > many.occupancy.warps and many.occupancy.limiter == "registers"


def chased(kilobytes, **timing):
    """Cycles of a load whose address is what the one before it loaded: in random order, 64 bytes apart."""
    count = kilobytes * 16
    order = np.random.default_rng(0).permutation(count)
    held, following, out = (
        np.zeros(8 * count + 16, np.int64),
        np.empty(count, np.int64),
        np.zeros(2, np.int64),
    )
    words = held[-(held.ctypes.data // 8) % 16 :][: 8 * count]
    following[order] = np.roll(order, -1)
    words[::8] = words.ctypes.data + 64 * following

    def run():
        for n in (count // 16 + 1, count // 8 + 1):
            launch("chase", 1, 32, words, n, out)()

    first, second = (one.took.cycles for one in took(run, **timing))
    found = (second - first) / count
    return found


def test_both_halves_of_l2_keep_what_they_read():
    """What is at home in the other half comes from there once, then from the near one."""
    timing = machine("a100").timing
    assert chased(1024) < timing.latency_l2 + 8
    assert chased(1024, latency_l2_far=4000) < timing.latency_l2 + 8


def test_stores_are_no_faster_than_dram_takes_them():
    n = 1 << 24  # L2 would take them in two thirds of the time
    arrays = [np.zeros(n), np.zeros(1), np.zeros(1)]
    held = cycles(launch("init", n // 1024, 1024, *arrays, n))
    rest = 8 * n - machine("a100").cache_bytes  # what does not stay in L2
    assert held > 0.95 * rest / (machine("a100").timing.dram_bytes_second / 1410e6)


def test_dram_that_turns_between_reads_and_writes_loses_time():
    n = 1 << 22
    arrays = [np.zeros(n) for _ in range(3)]

    def run(**timing):
        def twice():
            from triton.runtime import driver

            driver.active.chip.overwrite()
            launch("scale", n // 1024, 1024, *arrays, n)()

        return cycles(twice, **timing)

    assert run() > 1.03 * run(dram_turn=0.0)


def test_programs_are_dealt_out_one_after_another():
    programs, interval = 4000, machine("a100").timing.program_interval
    run = launch("nothing", programs, 32, 1)
    assert 0.99 * programs * interval <= cycles(run) < 1.2 * programs * interval
    assert cycles(run, program_interval=0.0) < 0.5 * programs * interval


def test_a_launch_is_over_when_l2_has_what_it_stored():
    arrays = [np.zeros(32) for _ in range(3)]
    near, far = (
        cycles(launch("init", 1, 32, *arrays, 32), latency_l2=latency, latency_l2_far=latency)
        for latency in (200, 1200)
    )
    assert far - near == 1000


def test_registers_of_one_bank_are_read_one_a_cycle():
    """Three of the even bank, then two: the second one waits a cycle. What was kept is not read again."""
    texts = [
        "FFMA R11, R10, R12, R14",
        "FFMA R13, R16, R18, R15",
        "FFMA R1, R2.reuse, R3, R5",
        "FFMA R1, R2, R3, R5",
    ]
    assert [(each & 255, each >> 8) for each in reads(texts, [0] * 4)] == [(3, 0), (2, 1), (1, 2), (0, 2)]


def test_a_bank_that_is_asked_too_much_keeps_the_sub_partition_waiting(monkeypatch):
    """Eight warps a sub-partition multiply a register each cycle; with three of one bank each, every third."""
    out, found = tileprobe.array(np.zeros(1024, np.float32)), []
    for even in (1, 3):
        monkeypatch.setattr(
            instructions,
            "reads",
            lambda _, units: [even if unit == at.FMA else 0 for unit in units],  # noqa: B023
        )
        few, many = (cycles(lambda: chain[(1,)](out, n, num_warps=32), on="h100") for n in (400, 1200))  # noqa: B023
        found.append(many - few)
    assert found[1] > 1.4 * found[0]


def test_products_of_hopper_by_mma_sync_keep_fractions_of_a_cycle():
    """63 % of the tensor cores' peak: 6.35 cycles a sub-partition, not 7."""
    out = np.zeros(16, np.uint32)
    few, many = (cycles(launch("product_rate", 1, 512, n, out, on="h100"), on="h100") for n in (8, 40))
    assert 6.3 * 4 * 16 <= (many - few) / 32 <= 6.6 * 4 * 16


def test_events_measure_more_than_the_launch_between_them():
    out = tileprobe.array(np.zeros(1024, np.float32))
    with tileprobe.use("sim:a100", timed=True):
        from triton.runtime import driver

        interface = driver.active.get_device_interface()
        start, end = interface.Event(), interface.Event()
        start.record()
        chain[(1,)](out, 1)
        end.record()
        ms = start.elapsed_time(end)
    least = (machine("a100").timing.launch_cycles / 1410 + machine("a100").timing.events_ns / 1e3) / 1e3
    assert least < ms < least + 2e-3
