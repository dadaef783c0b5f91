"""A large trace with times that do not repeat, as a real one has them: an attention kernel on eight cores."""

from __future__ import annotations

import numpy as np

from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit

STAGES = ("load", "dot", "exp", "dot")
ITERATIONS = 64
CORES = 8
EACH = 2 + ITERATIONS * (1 + len(STAGES))  # intervals of a program


def large_trace(intervals: int, seed: int = 0) -> Trace:
    """A trace of about as many intervals."""
    rng = np.random.default_rng(seed)
    programs = max(CORES, intervals // EACH // CORES * CORES)
    lengths = rng.gamma(4.0, 300.0, (programs, ITERATIONS, len(STAGES))).round() + 20
    begins = np.zeros(programs)
    whole = lengths.sum(axis=(1, 2)) + 200
    for core in range(CORES):
        begins[core::CORES] = np.r_[0, np.cumsum(whole[core::CORES] + 50)[:-1]]
    ends = begins[:, None] + 100 + np.cumsum(lengths.reshape(programs, -1), axis=1)
    ends = ends.reshape(lengths.shape)
    parts = [
        (0, -1, begins, begins + whole),
        (1, -1, begins + 100, ends[:, -1, -1]),
        (2, np.arange(ITERATIONS), ends[:, :, 0] - lengths[:, :, 0], ends[:, :, -1]),
        *(
            (3 + n, np.arange(ITERATIONS), ends[:, :, n] - lengths[:, :, n], ends[:, :, n])
            for n in range(len(STAGES))
        ),
    ]
    columns: dict[str, list[np.ndarray]] = {}
    for region, iteration, start, stop in parts:
        program = np.broadcast_to(np.arange(programs).reshape(-1, *[1] * (start.ndim - 1)), start.shape)
        found = {
            "program": program,
            "unit": program % CORES,
            "region": np.full(start.shape, region),
            "iteration": np.broadcast_to(iteration, start.shape),
            "start": start,
            "stop": stop,
        }
        for name, values in found.items():
            columns.setdefault(name, []).append(np.asarray(values).ravel().astype(np.int64))
    names = ["attention", "loop @ 31", "iteration", *(f"{kind} @ {33 + n}" for n, kind in enumerate(STAGES))]
    kinds = ["kernel", "loop", "iteration", *STAGES]
    parents = [None, 0, 1, *[2] * len(STAGES)]
    table = [
        Region(n, name, kinds[n], parents[n], 0, "attention.py", 30 + n, 30 + n, min(n, 3))
        for n, name in enumerate(names)
    ]
    return Trace.build(
        {name: np.concatenate(values) for name, values in columns.items()},
        kernels=[Kernel(0, "attention", "cpu", Clock(1e9), "attention.py", 30)],
        launches=[Launch(0, 0, (programs,), 0.0, float(ends.max()), losses=Losses(programs * EACH))],
        regions=table,
        units=[Unit(core, f"core {core}") for core in range(CORES)],
    )
