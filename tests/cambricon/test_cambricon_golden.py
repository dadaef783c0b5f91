"""The engine's exact outputs, bit for bit: a change that only moves code moves none of these numbers.

A change that means to move them says so in its commit, with the digests that the failing test prints.
"""

import hashlib

import numpy as np
import pytest

from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import encode, the_step
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.pagemap import geometry_of

TRACED = 300_000  # intervals: less than the runs have, so that losses are counted, too

RUNS = {
    "s, split": (Options(), "s", {}),
    "s, flash only": (Options(mode="flash-only"), "s", {"prefetch": False, "channels": 3}),
    "m, npu only": (Options(mode="npu-only", context=17), "m", {"register_copy_us": 0.7}),
    "m, no slices": (Options(slicing=False), "m", {"planes_per_die": 4, "sram_bytes": 1 << 19}),
    "s, best tiles": (
        Options(tiling="best", weights="w4a16"),
        "s",
        {"slice_bytes": 1000, "link_gb_per_s": 3.0},
    ),
}
DIGESTS = {
    "s, split": "72f7eadaf4dab276",
    "s, flash only": "9140c51779527529",
    "m, npu only": "78bdb053853f93e3",
    "m, no slices": "daea867c9156aeb3",
    "s, best tiles": "a957474327892009",
}


@pytest.mark.parametrize("name", RUNS)
def test_times_counters_and_intervals_are_the_same_to_the_last_bit(name):
    options, device, changes = RUNS[name]
    machine = load_machine(f"cambricon:{device}").replace(**changes)
    module = compile_step(load_model("opt-6.7b"), machine, options)
    program = encode(module)
    keep = np.arange(len(program.operators)) % 2 == 0
    run = launch(program, machine, geometry_of(machine, the_step(module).mode.data), keep, TRACED)
    tr = run.trace
    digest = hashlib.sha256()
    for part in (
        run.start_us,
        run.done_us,
        run.busy_us,
        run.state.stats,
        run.state.core_busy,
        run.state.mat_end,
    ):
        digest.update(part.tobytes())
    for part in (tr.count, tr.kind, tr.channel, tr.unit, tr.op, tr.start, tr.stop, tr.value):
        digest.update(part.tobytes())
    assert tr.count.all(), "kept, lost and left out"
    assert digest.hexdigest()[:16] == DIGESTS[name]
