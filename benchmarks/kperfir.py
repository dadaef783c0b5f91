"""KPerfIR's experiments with the truth beside them: what probes cost inside GPU kernels, how far their times are off.

`python -m benchmarks kperfir [--machine h100] [--quick] [--regions] [--plot FILE]` runs products with 2, 3 and 4
stages, with tensor descriptors and warp-specialised, and attention, on `sim:a100` and `sim:h100` with time. Each
recorded launch also runs, from the same memory and caches, without probes and with probes that take no time
(`--verify`): overhead and the error of every region after replay are exact, of the simulated machine. Every program is
recorded, with the stages that the default tool probes. Beside it the same kernel with Proton's records at the same
regions, in the same simulator (a warp's records, 64-bit clocks, its shared buffer), and what KPerfIR's models of
pipelined loops predict of a round, against the round that was simulated (`--tool pipeline`, free records).

The paper (OSDI 2025) has 8.2 % mean overhead over seven workloads, 33 cycles a record on an H100 and 2 % error of a
cost model; those are silicon's, ours a model's.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

import tileprobe
from benchmarks import _gpu_kernels as kernels
from benchmarks._common import save
from benchmarks._kperfir_plot import draw
from tileprobe.targets.gpu.evidence import synchronous
from tileprobe.targets.gpu.kernel import launchable
from tileprobe.targets.gpu.launcher import loaded
from tileprobe.tools.plan import Plan
from tileprobe.tools.verified import Truth, verified

PAPER_PERCENT = 8.2  # mean overhead
LAUNCHES = 13  # half of them without probes, two with records written three times


@dataclass(frozen=True)
class Case:
    name: str
    kernel: Any
    grid: tuple[int, ...]
    constants: dict[str, Any]
    options: dict[str, Any]
    sizes: tuple[Any, ...]
    machines: tuple[str, ...] = ("a100", "h100")


def cases(quick: bool) -> list[Case]:
    depth, length = (512, 512) if quick else (2048, 2048)
    m, n = (256, 256) if quick else (512, 512)
    tile, wide = {"BM": 128, "BN": 64, "BK": 32}, {"BM": 128, "BN": 128, "BK": 64}
    made = [
        Case(
            f"product, {stages} stages",
            kernels.matmul,
            (m // 128, n // 64),
            tile,
            {"num_stages": stages},
            (m, n, depth),
        )
        for stages in (2, 3, 4)
    ]
    for name, specialised in (("product, descriptors", False), ("product, specialised", True)):
        constants, grid = {**wide, "SPECIALIZE": specialised}, (m // 128, n // 128)
        made.append(Case(name, kernels.tensor_matmul, grid, constants, {}, (m, n, depth), ("h100",)))
    heads = {"D": 64, "BM": 128, "BN": 64}
    made.append(
        Case("attention", kernels.attention, (length // 128,), heads, {"num_stages": 3}, (length, 0.125))
    )
    return made


def arguments(case: Case) -> list[Any]:
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return tileprobe.array((rng.standard_normal(shape) / 8).astype(np.float16))

    if case.kernel is kernels.attention:
        shape = case.sizes[0], case.constants["D"]
        return [*(random(*shape) for _ in range(4)), *case.sizes]
    m, n, k = case.sizes
    return [
        random(m, k),
        random(k, n) if case.kernel is kernels.matmul else random(n, k),
        random(m, n),
        m,
        n,
        k,
    ]


def run(case: Case, dense: bool = False) -> tuple[Any, Truth, int, float]:
    """A kernel's truth, how many records a launch wrote and what one of them cost, in cycles."""
    args = arguments(case)
    plan = {"plan": Plan(loops=True, iterations=True, kinds=("all",))} if dense else {}
    with tileprobe.profile(programs="all", max_overhead=1.0, capacity=4096, **plan) as session:
        for _ in range(LAUNCHES):
            compiled = case.kernel[case.grid](*args, **case.constants, **case.options)
    trace = session.trace
    (kernel,) = trace.kernels
    truth = verified(trace, kernel)
    assert truth is not None
    records = [launch.losses.kept for launch in trace.launches if launch.probed][-1]
    return compiled, truth, records, float(kernel.calibration["cost_ticks"])


def rounds(case: Case, machine: str) -> list[dict[str, Any]]:
    """What the models say of a kernel's pipelined loops, and what their rounds took: the second launch, which finds its
    operands in L2."""
    args = arguments(case)
    plan = {
        "programs": "all",
        "max_overhead": 1.0,
        "capacity": 4096,
        "alternate": False,
        "skip": 1,
        "min_cost": 0.0,
    }
    with (
        tileprobe.use(f"sim:{machine}", timed=True, probes="free", check=False, fast_sums=True),
        tileprobe.profile(tools="pipeline", **plan) as session,
    ):
        for _ in range(2):
            case.kernel[case.grid](*args, **case.constants, **case.options)
    (found,) = (result for result in session.results() if result.tool == "pipeline")
    return [row for table in found.tables for row in table.frame.to_dicts()]


def proton(case: Case, compiled: Any) -> float | None:
    """Cycles of the same kernel with Proton's records; None where Proton cannot compile it."""
    from tileprobe.targets.gpu.proton import silent, with_proton
    from tileprobe.targets.simgpu.launched import observing

    pipeline = Plan(loops=True, iterations=True, kinds=("all",)).pipeline(
        "ttgir", records={"granularity": "warp"}
    )
    try:
        with silent():
            made = with_proton(compiled, synchronous(pipeline), "shared")
    except RuntimeError:
        return None
    if made is None:
        return None
    kernel, cycles = made[0], []
    launchable(kernel, compiled)
    given = [*arguments(case), *case.constants.values()]
    with observing(lambda launched: cycles.append(launched.took.cycles if launched.took else 0)):
        for each in (compiled, kernel):
            run_it, grid = loaded(each), (*case.grid, 1, 1)[:3]
            for _ in range(2):  # the second finds its operands in L2
                run_it(*grid, 0, each.function, each.packed_metadata, None, None, None, *given)
    return 100.0 * (cycles[-1] / cycles[1] - 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machine", action="append", choices=("a100", "h100"))
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--dense", action="store_true", help="probe every stage, as Proton's side does")
    parser.add_argument("--regions", action="store_true", help="print every region with its truth")
    parser.add_argument("--plot", metavar="FILE", help="draw the table (.svg, .png); needs matplotlib")
    args = parser.parse_args()
    print(f"{'':28}" + "".join(f"{title:>12}" for title in HEAD))
    rows = []
    for machine in args.machine or ("a100", "h100"):
        for case in cases(args.quick):
            if machine in case.machines:
                rows.append(row(machine, case, args.dense))
                show(rows[-1], args.regions)
    conclude(rows)
    if args.plot:
        draw(rows, PAPER_PERCENT, args.plot)
    save("kperfir", {"kernels": rows})


HEAD = (
    *("cycles", "overhead", "records", "other code", "Proton", "a record", "mean error", "largest"),
    *("predicted", "a round", "off by"),
)


def row(machine: str, case: Case, dense: bool) -> dict[str, Any]:
    with tileprobe.use(f"sim:{machine}", verify=True, check=False, fast_sums=True):
        compiled, truth, records, cost = run(case, dense)
        theirs = proton(case, compiled)
    models = rounds(case, machine)
    return {
        "machine": machine, "kernel": case.name, "overhead_percent": truth.overhead_percent,
        "cycles": round(truth.plain_ns / truth.launches * _clock(machine) / 1e3),
        "records_percent": truth.records_percent, "code_percent": truth.code_percent, "proton_percent": theirs,
        "records": records, "record_cycles": cost, "mean_error_percent": truth.mean_error_percent,
        "regions": [
            {"name": r.region.name, "kind": r.region.kind, "count": r.count, "true_ns": r.true_ns, "raw_ns": r.raw_ns,
             "corrected_ns": r.corrected_ns, "error_percent": r.error_percent, "plain_ns": r.plain_ns,
             "code_percent": r.code_percent, "interleaved_percent": r.interleaved_percent}
            for r in truth.regions
        ],
        "rounds": [
            {name: each[name] for name in ("name", "bound", "known", "measured_ns", "predicted_ns", "error", "rounds")}
            for each in models
        ],
    }  # fmt: skip


def show(row: dict[str, Any], regions: bool) -> None:
    inside = [region for region in row["regions"] if region["kind"] != "kernel"]
    worst = max(inside, key=lambda region: abs(region["error_percent"]))
    cells = [
        f"{row['cycles']:,}", *(f"{row[f'{name}_percent']:.2f} %" for name in ("overhead", "records", "code")),
        "-" if row["proton_percent"] is None else f"{row['proton_percent']:.1f} %", f"{row['record_cycles']:.0f} cy",
        f"{row['mean_error_percent']:.2f} %", f"{worst['error_percent']:+.2f} %",
    ]  # fmt: skip
    model = max(row["rounds"], key=lambda each: each["rounds"], default=None)
    if model is not None:
        cells += [
            f"{model['predicted_ns']:.0f} ns",
            f"{model['measured_ns']:.0f} ns",
            f"{100 * model['error']:+.1f} %",
        ]
    print(f"{row['machine'] + ' ' + row['kernel']:28}" + "".join(f"{cell:>12}" for cell in cells), flush=True)
    for region in row["regions"] if regions else ():
        each = [region[name] for name in ("true_ns", "raw_ns", "corrected_ns")]
        said = (
            "".join(f"{ns / region['count']:12,.1f}" for ns in each) + f"{region['error_percent']:+11.2f} %"
        )
        if region["plain_ns"] is not None:
            said += f"{region['plain_ns'] / region['count']:12,.1f}{region['code_percent']:+11.2f} %"
            said += f"{region['interleaved_percent']:11.1f} %"
        print(f"    {region['name']:24}{said}")


def conclude(rows: list[dict[str, Any]]) -> None:
    means = {
        name: float(np.mean([each[f"{name}_percent"] for each in rows]))
        for name in ("overhead", "mean_error")
    }
    proton_percent = [each["proton_percent"] for each in rows if each["proton_percent"] is not None]
    errors = [
        abs(region["error_percent"])
        for each in rows
        for region in each["regions"]
        if region["kind"] != "kernel"
    ]
    off = [abs(100 * loop["error"]) for each in rows for loop in each["rounds"]]
    largest = max(each["overhead_percent"] for each in rows)
    print(
        f"overhead: mean {means['overhead']:.2f} %, largest {largest:.2f} %; the "
        f"paper's mean {PAPER_PERCENT} % (silicon); Proton's {np.mean(proton_percent):.1f} % here\n"
        f"error of a region: mean {np.mean(errors):.2f} %, largest {max(errors):.2f} %, of {len(errors)}"
    )
    if off:
        print(
            f"a round predicted by the models: {np.mean(off):.1f} % off in the mean, at most {max(off):.1f} %"
        )


def _clock(machine: str) -> float:
    from tileprobe.targets.simgpu.machine import machine as load

    return load(machine).clock_mhz


if __name__ == "__main__":
    main()
