"""What is learnt from records of a GPU's clocks: the rate of its multiprocessors, the step of its timer."""

from dataclasses import replace

import numpy as np
import pytest

from tileprobe.ir.layout import BEGIN, EPOCH, GLOBAL_BEGIN, GLOBAL_END, UNIT, Layout, Slot
from tileprobe.ir.machine import GlobalTimer
from tileprobe.targets.gpu.device import Properties
from tileprobe.targets.gpu.gpu_clock import GpuClock

NOMINAL, EPOCH_NUMBER = 1.98e9, 7
LAYOUT = Layout(16, slots=(Slot(0, base=8), Slot(1, base=9)))


class Device:
    def properties(self):
        return Properties("a GPU", 100, NOMINAL)


def blocks(rng, *, hz, step, duration_ns, programs=64, epoch=EPOCH_NUMBER, bits=64, under=0):
    """Blocks of streams that run for so long on clocks that each started at another time."""
    words = np.zeros((programs, 16), np.uint64)
    began = 10**15 + rng.integers(0, 10**6, programs)
    ended = began + duration_ns
    offset = rng.integers(1, 2**40, programs)
    ticks = ((ended - began) * hz / 1e9).astype(np.int64)
    words[:, EPOCH], words[:, UNIT] = epoch, np.arange(programs)
    words[:, BEGIN] = offset % (1 << min(bits, 62)) if not under else offset
    for at, since in ((8, 5), (9, ticks)):
        words[:, at] = under << 32 | (offset + since) % (1 << min(bits, 62))
    words[:, GLOBAL_BEGIN], words[:, GLOBAL_END] = began // step * step, ended // step * step
    return words


def clock(**options):
    made = GpuClock(Device, GlobalTimer(1e9, 1024.0), **options)
    made.start()
    return made


@pytest.mark.parametrize("step", [1, 32, 1024])
def test_rate_and_step_are_those_of_the_records(step):
    made, rng = clock(), np.random.default_rng(0)
    for _ in range(8):
        made.learn(blocks(rng, hz=1.41e9, step=step, duration_ns=200_000), LAYOUT, EPOCH_NUMBER)
    assert made.hz() == pytest.approx(1.41e9, rel=0.005)
    assert made.timer == GlobalTimer(1e9, float(step))


def test_a_rate_that_the_timer_is_too_coarse_for_is_not_taken():
    made, rng = clock(), np.random.default_rng(0)
    made.learn(blocks(rng, hz=1.41e9, step=1024, duration_ns=700, programs=4), LAYOUT, EPOCH_NUMBER)
    assert made.hz() == NOMINAL
    assert made.timer.step == 1024  # four readings say nothing of the step


def test_blocks_that_nobody_wrote_say_nothing():
    made, rng = clock(), np.random.default_rng(0)
    old = blocks(rng, hz=0.5e9, step=32, duration_ns=10**7, epoch=EPOCH_NUMBER - 1)
    made.learn(old, LAYOUT, EPOCH_NUMBER)
    made.learn(np.zeros((4, 16), np.uint64), LAYOUT, EPOCH_NUMBER)
    assert made.hz() == NOMINAL


def test_a_narrow_clock_turns_over_and_is_not_taken_for_slow():
    made, rng = clock(bits=lambda: 20), np.random.default_rng(0)
    made.learn(blocks(rng, hz=1.41e9, step=32, duration_ns=10**6, bits=20), LAYOUT, EPOCH_NUMBER)
    assert made.hz() == NOMINAL
    assert made.timer.step == 32


@pytest.mark.parametrize(("room", "bits", "counter"), [(64, 20, 20), (32, 32, 64), (32, 20, 20)])
def test_streams_of_less_than_half_a_turn_say_the_rate_of_a_narrow_clock(room, bits, counter):
    """At the nominal rate half a turn of 20 bits is 265 us."""
    made, rng = clock(bits=lambda: counter), np.random.default_rng(0)
    layout, under = replace(LAYOUT, clock_bits=room), 0 if room == 64 else EPOCH_NUMBER
    for took in (200_000, 10**6 if bits == 20 else 200_000):
        found = blocks(rng, hz=1.41e9, step=32, duration_ns=took, bits=bits, under=under)
        made.learn(found, layout, EPOCH_NUMBER)
    assert made.hz() == pytest.approx(1.41e9, rel=0.005)
