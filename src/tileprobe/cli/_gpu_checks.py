"""What can be tested on silicon only, run on a user's machine: `tileprobe doctor --gpu`.

In comes a target; its kernels are run plain and in a session. Out go findings in words and the figures behind them, for
a report that can be sent: do records arrive, are results the same, what does a record cost, how fast are the clocks, in
which steps does the timer move, how well are units aligned, what is the overhead.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.base import Finding, Target

ROUNDS = 40  # launches of each kernel in a session
SIMULATED = 12, 16  # launches and programs where there is no GPU: a simulator is slow
PROGRAMS, STEPS, BLOCK = 512, 64, 256
DEPTH, COLUMNS, TILE = 512, 64, 64  # of the product
OVERHEAD = 0.05  # more than this share is worth a look; the session aims at 0.01
DISAGREE = 0.25  # of a clock's rate, from what the driver says; clocks change with load


def check_gpu(
    target: Target, machine: str, rounds: int = ROUNDS, programs: int = PROGRAMS
) -> tuple[list[Finding], dict[str, Any]]:
    """Findings, and the figures behind them. What fails is a finding, and the rest goes on."""
    import tileprobe

    name = f"{target.name}:{machine}" if machine else target.name
    figures: dict[str, Any] = {"target": name}
    with tileprobe.use(name):
        work = {"steps": _steps(target, programs), "product": _product(target, programs)}
        plain = {kernel: _result(run) for kernel, run in work.items()}
        session, results = _profiled(work, rounds)
        trace = session.trace
        figures |= _machine(target) | {"notes": trace.meta.get("notes", []), "problems": session.problems}
        findings = [
            _row("machine", "good", figures["gpu"]),
            _same_results(plain, results),
            *_kernels(trace, figures, session.problems),
            *_clocks(target, trace, figures),
        ]
    return findings, figures


def _row(name: str, state: str, text: str, remedy: str = "") -> Finding:
    return Finding(f"gpu: {name}", state, text, remedy)


def _machine(target: Target) -> dict[str, Any]:
    """The GPU and the versions of what drives it."""
    import platform
    import sys

    import triton

    from tileprobe import __version__

    device = getattr(target, "device", None)
    found = None if device is None else device().properties()
    torch = sys.modules.get("torch")
    return {
        "gpu": target.name if found is None else f"{found.name}, {found.multiprocessors} multiprocessors",
        "nominal_hz": None if found is None else found.clock_hz,
        "tileprobe": __version__,
        "triton": triton.__version__,
        "torch": None if torch is None else torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }


# -- the kernels --------------------------------------------------------------------------------------------------


def _steps(target: Target, programs: int) -> tuple[Any, Any]:
    from tileprobe.cli import _gpu_kernels

    steps: Any = _gpu_kernels.steps
    rng = np.random.default_rng(0)
    x = target.array(rng.standard_normal(programs * BLOCK, np.float32))
    out = target.array(np.zeros(programs * BLOCK, np.float32))
    return out, lambda: steps[(programs,)](x, out, STEPS, BLOCK=BLOCK)


def _product(target: Target, programs: int) -> tuple[Any, Any]:
    from tileprobe.cli import _gpu_kernels

    product: Any = _gpu_kernels.product
    rng = np.random.default_rng(1)
    rows = max(1, programs // 8)
    a = target.array(rng.standard_normal((rows * TILE, DEPTH)).astype(np.float16))
    b = target.array(rng.standard_normal((COLUMNS, DEPTH)).astype(np.float16))
    c = target.array(np.zeros((rows * TILE, COLUMNS), np.float32))
    return c, lambda: product[(rows,)](a, b, c, DEPTH, N=COLUMNS, BLOCK=TILE)


def _result(work: tuple[Any, Any]) -> np.ndarray:
    out, run = work
    run()
    return np.array(out.numpy())


def _profiled(work: dict[str, tuple[Any, Any]], rounds: int) -> tuple[Any, dict[str, list[np.ndarray]]]:
    """Launches in a session, and what each left in memory."""
    from tileprobe.session.session import Session

    results: dict[str, list[np.ndarray]] = {kernel: [] for kernel in work}
    with Session(min_cost=0.0, max_overhead=1e6) as session:
        for _ in range(rounds):
            for kernel, each in work.items():
                results[kernel].append(_result(each))
    return session, results


# -- findings -----------------------------------------------------------------------------------------------------


def _same_results(plain: dict[str, np.ndarray], results: dict[str, list[np.ndarray]]) -> Finding:
    wrong = [
        kernel
        for kernel, found in results.items()
        if any(not np.array_equal(one, plain[kernel], equal_nan=True) for one in found)
    ]
    if wrong:
        return _row("results", "bad", f"with probes {', '.join(wrong)} computes something else", _SEND)
    return _row("results", "good", f"bit for bit the same with and without probes ({', '.join(plain)})")


_SEND = "Please send this report with an issue."


def _kernels(trace: Any, figures: dict[str, Any], problems: dict[str, str]) -> Iterator[Finding]:
    figures["kernels"] = {}
    for name in ("steps", "product"):
        row = next((kernel for kernel in trace.kernels if kernel.name == name), None)
        if row is None:
            yield _row(name, "bad", problems.get(name, "no record arrived"), _SEND)
            continue
        launches = [launch for launch in trace.launches if launch.kernel == row.id]
        probed = [launch for launch in launches if launch.probed]
        kept = sum(launch.losses.kept for launch in probed)
        lost = sum(launch.losses.lost for launch in probed)
        cost, error = row.calibration.get("cost_ticks"), row.calibration.get("error_ticks")
        times = [[one.duration_ns for one in launches if one.probed == sort] for sort in (False, True)]
        share = median(times[1]) / median(times[0]) - 1 if all(times) and median(times[0]) else None
        missing = _missing(trace, row, probed) if name == "steps" else ""
        figures["kernels"][name] = {
            "launches": len(launches), "probed": len(probed), "records": kept, "lost": lost, "cost_ticks": cost,
            "cost_error_ticks": error, "plain_ns": times[0], "probed_ns": times[1], "overhead": share,
        }  # fmt: skip
        if not kept or missing:
            yield _row(name, "bad", missing or "no record arrived", _SEND)
            continue
        text = f"{kept:,} records of {len(probed)} launches arrived"
        if cost is not None:
            text += f"; one costs {cost:.1f} cycles" + ("" if error is None else f" (+-{error:.1f})")
        yield _row(name, "good", text)
        if share is not None:
            state = "good" if share <= OVERHEAD else "note"
            yield _row(f"{name}, overhead", state, f"{share:.2%} with every program recorded, in the median")


def _missing(trace: Any, row: Any, probed: list[Any]) -> str:
    """Whether every iteration of every program that was recorded is there, and times make sense."""
    iterations = [
        region.id for region in trace.regions if region.kernel == row.id and region.kind == "iteration"
    ]
    frame = trace.intervals.filter(trace.intervals["region"].is_in(iterations))
    frame = frame.filter(frame["launch"] == probed[0].id) if probed else frame
    if (frame["stop"] < frame["start"]).any():
        return "some times run backwards"
    seen = frame["program"].n_unique()
    if not seen:
        return "no iteration was recorded"
    if len(frame) % (seen * STEPS):
        return f"{len(frame)} iterations were recorded of {seen} programs that have {STEPS} each"
    return ""


def _clocks(target: Target, trace: Any, figures: dict[str, Any]) -> Iterator[Finding]:
    clock = target.clock
    nominal, rate = figures["nominal_hz"], clock.hz()
    figures["clock_hz"] = rate
    text = f"{rate / 1e6:,.0f} MHz"
    if nominal:
        text += f", by the driver up to {nominal / 1e6:,.0f} MHz"
    far = nominal and abs(rate - nominal) > DISAGREE * nominal
    yield _row("clock", "note" if far else "good", text)
    if clock.timer is not None:
        figures["timer_step_ns"] = clock.timer.step_ns
        yield _row("timer", "good", f"all units share it; it moves in steps of {clock.timer.step_ns:,.0f} ns")
    figures["units"] = [unit.name for unit in trace.units]
    errors = [domain.error_ns for domain in trace.domains]
    figures["alignment_error_ns"] = errors
    text = f"programs ran on {len(trace.units)}"
    if errors:
        text += f", aligned to within {max(errors):,.0f} ns"
    yield _row("units", "good" if trace.units else "bad", text)


def gpu_targets(named: str) -> list[tuple[Target, str]]:
    """The targets to check: the one that is named, or every GPU that this machine has."""
    from tileprobe.targets.catalog import available, find

    if named:
        return [find(named)]
    return [(target, "") for target in available() if getattr(target, "present", bool)()]


def run_checks(named: str) -> tuple[list[Finding], list[dict[str, Any]]]:
    """All findings of `doctor --gpu`. Without a GPU that is one row, and no fault."""
    found = gpu_targets(named)
    if not found:
        return [_row("none", "note", "this machine has no GPU that Triton could use: nothing to check")], []
    findings: list[Finding] = []
    figures: list[dict[str, Any]] = []
    for target, machine in found:
        try:
            real = getattr(target, "present", bool)()
            rows, held = check_gpu(target, machine) if real else check_gpu(target, machine, *SIMULATED)
        except TileProbeError as error:
            rows, held = [_row(target.name, "note", str(error))], {"target": target.name, "error": str(error)}
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            rows, held = [_row(target.name, "bad", text, _SEND)], {"target": target.name, "error": text}
        findings += rows
        figures.append(held)
    return findings, figures
