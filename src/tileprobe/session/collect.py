"""Observed launches become a trace: decoded in groups, calibrated by dose, put together with their kernels.

In come `Recorded` launches as they end; out goes one `Trace`. Launches that were recorded alike are decoded
together, so that a thousand small ones cost hardly more than a large one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tileprobe.session import clock
from tileprobe.session.recorded import Recorded
from tileprobe.session.works import DOSED, PROBED, Variant, Work
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit
from tileprobe.trace.decode import decode, read_rows
from tileprobe.trace.model import from_json
from tileprobe.trace.replay import Calibration, calibrate

_DECODED_BYTES = 64 * 2**20  # of buffers that are decoded together
_CALIBRATING = 8  # launches of each dose are enough to learn the cost of a record from


@dataclass
class Observed:
    """All launches of one kernel."""

    work: Work
    variant: Variant
    launches: list[Recorded] = field(default_factory=list)
    dosed: list[Recorded] = field(default_factory=list)


@dataclass
class Collected:
    """By compiled kernel, in the order they were first seen."""

    kernels: dict[str, Observed] = field(default_factory=dict)

    def add(self, work: Work, variant: Variant | None, recorded: Recorded, calibration: bool) -> None:
        if variant is None or variant.kernel is None:
            return  # not probed: a plain launch alone says nothing
        seen = self.kernels.setdefault(variant.kernel.hash, Observed(work, variant))
        if not calibration:
            seen.launches.append(recorded)
        elif len(seen.dosed) < _CALIBRATING:
            seen.dosed.append(recorded)


def build_trace(collected: Collected, meta: dict[str, Any]) -> Trace:
    hz = clock.rate_hz()
    kernels: list[Kernel] = []
    launches: list[Launch] = []
    regions: list[Region] = []
    pieces: list[dict[str, np.ndarray]] = []
    for number, seen in enumerate(collected.kernels.values()):
        calibration = _calibration(seen)
        kernels.append(_kernel(number, seen, hz, calibration))
        first_region = len(regions)
        regions += _regions(seen.variant, number, first_region)
        made, columns = _launches(seen, number, len(launches), calibration)
        launches += made
        for piece in columns:
            piece["region"] = piece["region"] + np.uint32(first_region)
        pieces += columns
    names = pieces[0].keys() if pieces else ()
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in names}
    if not columns:
        columns = {name: np.zeros(0, np.int64) for name in ("region", "start", "stop")}
    cores = np.unique(columns["unit"]).tolist() if "unit" in columns else []
    origin = min((launch.start_ns for launch in launches if launch.start_ns is not None), default=0.0)
    launches = [replace(launch, start_ns=(launch.start_ns or 0.0) - origin) for launch in launches]
    units = [Unit(int(core), f"core {core}") for core in cores]
    return Trace.build(columns, kernels=kernels, launches=launches, regions=regions, units=units, meta=meta)


def _kernel(number: int, seen: Observed, hz: float, calibration: Calibration) -> Kernel:
    function = getattr(seen.work.launcher.src, "fn", None)
    probing = seen.variant.probing or {}
    asm = seen.variant.kernel.asm
    levels = {level: asm[level] for level in ("ttir", "tile", "llir") if level in asm}
    known = calibration.to_json()
    known["floor_ticks"] = clock.floor_ticks()
    if calibration.cost_ticks <= 2 * calibration.error_ticks:
        known["cost_ticks"] = known["floor_ticks"]  # nothing better is known; good enough for an estimate
    return Kernel(
        id=number,
        name=seen.work.launcher.kernel,
        target="cpu",
        clock=Clock(hz, "tsc", 64),
        file=getattr(function, "file_name", ""),
        first_line=getattr(function, "starting_line_number", 0),
        source="".join(getattr(function, "raw_src", ())),
        ir=levels | probing.get("ir", {}),
        layout=probing.get("layout"),
        calibration=known,
    )


def _regions(variant: Variant, kernel: int, first: int) -> list[Region]:
    found = [
        from_json(Region, {"id": 0, "name": "", **row}) for row in (variant.probing or {}).get("regions", [])
    ]
    return [
        replace(r, id=first + r.id, kernel=kernel, parent=None if r.parent is None else first + r.parent)
        for r in found
    ]


def _launches(
    seen: Observed, kernel: int, first: int, calibration: Calibration
) -> tuple[list[Launch], list[dict[str, np.ndarray]]]:
    """The launches of one kernel, and the columns of their intervals."""
    made = [
        Launch(
            id=first + n,
            kernel=kernel,
            grid=run.grid,
            start_ns=float(run.start_ns),
            duration_ns=float(run.duration_ns),
            probed=run.words is not None,
            sampling={} if run.sampling is None else run.sampling.to_json(),
        )
        for n, run in enumerate(seen.launches)
    ]
    columns = []
    correction = calibration if calibration.doses else None
    for group in _groups(seen.launches):
        runs = [seen.launches[n] for n in group]
        decoded = decode(
            np.stack([run.full_words() for run in runs]),
            runs[0].layout,  # type: ignore[arg-type]
            epochs=[run.epoch for run in runs],
            programs=[run.programs for run in runs],
            sampling=runs[0].sampling,
            launches=[first + n for n in group],
            calibration=correction,
        )
        for n, losses in zip(group, decoded.losses):
            made[n] = replace(made[n], losses=losses)
        if decoded.columns:
            columns.append(_corrected(decoded.columns))
    return made, columns


def _corrected(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every kernel's columns have corrected times, so that those of several fit together."""
    for name in ("start", "stop"):
        columns.setdefault(f"{name}_corrected", columns[name].astype(np.float64))
    return columns


def _groups(runs: list[Recorded]) -> list[list[int]]:
    """Launches with the same layout, grid and sampling, by number; as many at once as memory allows."""
    found: dict[Any, list[int]] = {}
    pieces: list[list[int]] = []
    for number, run in enumerate(runs):
        if run.words is None or run.layout is None:
            continue
        key = (id(run.layout), run.programs, len(run.words), repr(run.sampling))
        found.setdefault(key, []).append(number)
        if len(found[key]) * len(run.words) * run.layout.block_bytes >= _DECODED_BYTES:
            pieces.append(found.pop(key))
    return [*pieces, *found.values()]


def _calibration(seen: Observed) -> Calibration:
    """The cost of a record in this kernel, from launches that wrote each record more than once."""
    once = [run for run in seen.launches if run.words is not None]
    chosen = {run.grid for run in seen.dosed}
    doses = {
        PROBED: [run for run in once if run.grid in chosen][-_CALIBRATING:],
        DOSED: seen.dosed,
    }
    if not all(doses.values()):
        return Calibration()
    rows = {dose: _rows(runs) for dose, runs in doses.items()}
    return calibrate(rows)


def _rows(runs: list[Recorded]):
    """The rows of several launches as one; each keeps its own sampling only as far as gaps need it."""
    blocks = min(len(run.words) for run in runs if run.words is not None)
    words = np.stack([run.full_words()[:blocks] for run in runs])
    rows, _ = read_rows(
        words,
        runs[0].layout,  # type: ignore[arg-type]
        epochs=[run.epoch for run in runs],
        programs=[run.programs for run in runs],
    )
    return rows
