"""Traces built by hand: an attention kernel on two cores, with times that are easy to reason about."""

import numpy as np

from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit

SOURCE = '''@triton.jit
def attention(Q, K, V, Out, n_ctx, scale, BLOCK: tl.constexpr, HEAD: tl.constexpr):
    """Attention over one block of queries."""
    start = tl.program_id(0)
    rows = start * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, HEAD)
    q = tl.load(Q + rows[:, None] * HEAD + cols[None, :])
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    acc = tl.zeros([BLOCK, HEAD], tl.float32)

    for at in range(0, n_ctx, BLOCK):
        keys = at + tl.arange(0, BLOCK)
        k = tl.load(K + keys[None, :] * HEAD + cols[:, None])
        # the scores of this block
        s = tl.dot(q, k) * scale
        m = tl.maximum(best, tl.max(s, 1))
        p = tl.exp(s - m[:, None])
        fade = tl.exp(best - m)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(V + keys[:, None] * HEAD + cols[None, :])
        acc = acc * fade[:, None] + tl.dot(p, v)
        best = m

    out = acc / total[:, None]
    tl.store(Out + rows[:, None] * HEAD + cols[None, :], out)
'''
FIRST = 20  # the line of `@triton.jit`
FILE = "examples/attention.py"
STAGES = [  # name, kind, lines from FIRST, nanoseconds
    ("load @ 33", "load", 13, 13, 900),
    ("dot @ 35", "dot", 15, 15, 6000),
    ("reduce + exp + mul @ 36-39", "reduce+exp+mul", 16, 19, 3000),
    ("load @ 40", "load", 20, 20, 800),
    ("mul + dot @ 41", "mul+dot", 21, 21, 5300),
]


def attention(
    launches=5, programs=8, iterations=6, noise=0.0, slow=1.0, seed=0, name="attention", unprobed=0
):
    """`slow` stretches the first dot. Odd programs run on core 1."""
    rng = np.random.default_rng(seed)
    regions = [
        Region(0, name, "kernel", None, 0, FILE, FIRST, FIRST + 25, 0),
        Region(1, "load @ 26", "load", 0, 0, FILE, FIRST + 6, FIRST + 6, 1),
        Region(2, "loop @ 31", "loop", 0, 0, FILE, FIRST + 11, FIRST + 22, 1),
        Region(3, "iteration", "iteration", 2, 0, FILE, FIRST + 11, FIRST + 22, 2),
        *(
            Region(4 + n, label, kind, 3, 0, FILE, FIRST + first, FIRST + last, 3)
            for n, (label, kind, first, last, _) in enumerate(STAGES)
        ),
        Region(9, "div + store @ 44-45", "div+store", 0, 0, FILE, FIRST + 24, FIRST + 25, 1),
    ]
    rows = []
    table = []
    clock = 0.0
    for launch in range(launches):
        free = [clock, clock]
        for program in range(programs):
            unit = program % 2
            free[unit] = _program(rows, rng, launch, program, unit, free[unit], iterations, noise, slow)
        table.append(
            Launch(launch, 0, (programs,), clock, max(free) - clock, losses=Losses(programs * 40, 0, 0))
        )
        clock = max(free) + 2000
    length = table[0].duration_ns if table else 0.0
    table += [Launch(launches + n, 0, (programs,), None, length / 1.015, False) for n in range(unprobed)]
    columns = list(zip(*rows)) if rows else [()] * 7
    keys = ("launch", "program", "unit", "region", "iteration", "start", "stop")
    calibration = {"cost_ticks": 24.0, "error_ticks": 0.5, "doses": [1, 2, 3]}
    return Trace.build(
        {key: np.array(values, np.int64) for key, values in zip(keys, columns)},
        kernels=[
            Kernel(0, name, "cpu", Clock(2e9), FILE, FIRST, SOURCE, {"ttir": "module {}"}, None, calibration)
        ],
        launches=table,
        regions=regions,
        units=[Unit(0, "core 0"), Unit(1, "core 1")],
    )


def _program(rows, rng, launch, program, unit, clock, iterations, noise, slow):
    """Appends the intervals of one program, in ticks of half a nanosecond; returns when it ended."""

    def work(ns):
        return ns * (1 + noise * rng.standard_normal())

    def add(region, iteration, start, stop):
        rows.append((launch, program, unit, region, iteration, round(2 * start), round(2 * stop)))

    begin = clock
    add(1, -1, clock, clock := clock + work(1500))
    loop = clock
    for i in range(iterations):
        first = clock
        for n, (_, _, _, _, ns) in enumerate(STAGES):
            ns *= slow if n == 1 else 1
            ns *= 2 if i == 0 and n == 0 else 1  # the first load misses the cache
            add(4 + n, i, clock, clock := clock + work(ns))
        add(3, i, first, clock)
    add(2, -1, loop, clock)
    add(9, -1, clock, clock := clock + work(1200))
    add(0, -1, begin, clock)
    return clock
