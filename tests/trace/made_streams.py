"""A made trace of a warp-specialised kernel: several programs at once on an SM, several streams in a program, two
clock domains, edges and counters. All times are chosen, in nanoseconds, and turned into ticks of each domain."""

from tileprobe.trace import Clock, Domain, Kernel, Launch, Losses, Region, Trace, Unit

DOMAINS = [Domain("gpc 0", 1e9, 5000.0, 12.0), Domain("gpc 1", 2e9, -300.0, 30.0)]
ORIGIN = 10_000  # ns at which the first program starts, by the time that the domains share
STREAMS = ("producer", "consumer / warp 0", "consumer / warp 1")
SLOTS = 2  # programs at once on an SM
STEP = 400  # ns from a program to the next in its place
PROGRAM = 350  # ns of one program
ITERATIONS = 3


def ticks(ns, domain):
    return round((ns + ORIGIN - domain.offset_ns) * domain.hz / 1e9)


def warp_specialised(programs=8, sms=2, launches=1):
    rows, edges = [], []
    for launch in range(launches):
        for program in range(programs):
            sm, turn = program % sms, program // sms
            begin = launch * 10_000 + (turn // SLOTS) * STEP + (turn % SLOTS) * 30
            before = program - sms * SLOTS
            if before >= 0:
                ended = begin - STEP + PROGRAM
                edges.append((launch, "program-slot", before, 0, sm, 0, ended, program, 0, sm, 0, begin))
            _program(rows, edges, launch, program, sm, begin)
    names = ("launch", "program", "stream", "unit", "region", "kind", "iteration", "start", "stop")
    columns = {name: [row[n] for row in rows] for n, name in enumerate(names)}
    ends = [
        f"{end}_{name}" for end in ("from", "to") for name in ("program", "stream", "unit", "region", "tick")
    ]
    edge_columns = {name: [edge[n] for edge in edges] for n, name in enumerate(["launch", "kind", *ends])}
    for name in ("start", "stop"):
        columns[name] = [ticks(ns, DOMAINS[sm]) for ns, sm in zip(columns[name], columns["unit"])]
    for end in ("from", "to"):
        times = zip(edge_columns[f"{end}_tick"], edge_columns[f"{end}_unit"])
        edge_columns[f"{end}_tick"] = [ticks(ns, DOMAINS[sm]) for ns, sm in times]
    counters = {
        "unit": [0, 1, 0],
        "file": ["ws.py"] * 3,
        "line": [7, 7, 9],
        "instruction": [None, None, 'HGMMA "x"'],
        "name": ["bank conflicts", "bank conflicts", "stall cycles"],
        "value": [12.0, 4.0, 900.5],
        "quality": ["exact", "exact", "sampled"],
    }
    return Trace.build(
        columns,
        kernels=[Kernel(0, "ws", "sim:h100", Clock(1.5e9), "ws.py", 1, streams=STREAMS)],
        launches=[Launch(n, 0, (programs,), losses=Losses(kept=len(rows))) for n in range(launches)],
        regions=[
            Region(0, "ws", "kernel", None, 0, "ws.py", 1, 20, 0),
            Region(1, "copy @ 7", "async", 2, 0, "ws.py", 7, 7, 2),
            Region(2, "loop @ 8", "loop", 0, 0, "ws.py", 8, 9, 1),
            Region(3, "dot @ 9", "dot", 2, 0, "ws.py", 9, 9, 2),
        ],
        units=[Unit(sm, f"SM {sm}", "SM", None, DOMAINS[sm].name) for sm in range(sms)],
        edges=edge_columns,
        counters=counters,
        domains=DOMAINS,
    )


def _program(rows, edges, launch, program, sm, begin):
    """Copies of 100 ns each, issued every 80; each consumer waits for them, then computes for 60."""
    for stream in range(len(STREAMS)):
        rows.append((launch, program, stream, sm, 0, "region", -1, begin, begin + PROGRAM))
    for consumer in (1, 2):
        rows.append((launch, program, consumer, sm, 2, "region", -1, begin + 20, begin + 340))
    for i in range(ITERATIONS):
        issue = begin + 20 + 80 * i
        done = issue + 100
        rows.append((launch, program, 0, sm, 1, "async", i, issue, done))
        for consumer in (1, 2):
            rows.append((launch, program, consumer, sm, 1, "wait", i, done - 20, done))
            rows.append((launch, program, consumer, sm, 3, "region", i, done, done + 60))
            edges.append((launch, "issue-wait", program, 0, sm, 1, issue, program, consumer, sm, 1, done))
