"""Kernels, works and launches that are made up, for tests of a session's parts by themselves."""

from types import SimpleNamespace

import numpy as np

from tileprobe.ir.layout import Stamp, allocate
from tileprobe.ir.machine import Unit
from tileprobe.ir.sampling import Sampling
from tileprobe.session.recorded import Recorded
from tileprobe.session.works import PROBED, Work
from tileprobe.targets.base import Source


class Clock:
    name, bits, timer = "ticks", 64, None

    def hz(self):
        return 2e9

    def floor_ticks(self):
        return 20.0


def kernel_of(name="k", takes="record", **target):
    made = {"takes": takes, "clock": Clock(), "doses": (1, 3), "workers": lambda: 2}
    made |= {"passes_unkept": False, "hides_records": False}
    made["units"] = lambda numbers: [Unit(n, f"core {n}") for n in numbers]
    return SimpleNamespace(
        name=name,
        key=name,
        machine="cpu",
        signature="",
        source=Source(),
        target=SimpleNamespace(**made | target),
    )


def work_of(**more):
    return Work(kernel_of(), (4,), **more)  # type: ignore[arg-type]


def recorded(records=8, programs=4, dose=PROBED, duration=1000, width=16, **more):
    layout = allocate([Stamp(n) for n in range(records)])
    words = np.ones((programs, layout.block_words), np.uint64)
    return Recorded(
        (programs,), 0, duration, layout, Sampling(), words, np.arange(layout.block_words), dose=dose, **more
    )
