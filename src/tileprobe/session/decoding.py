"""Launches with records: decoded in groups, calibrated by dose, aligned where units have clocks of their own.

Launches that were recorded alike are decoded together, so that a thousand small ones cost hardly more than a large
one.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tileprobe.ir.functions import Function, functions_called
from tileprobe.ir.machine import Clock, GlobalTimer, Unit
from tileprobe.ir.regions import Region
from tileprobe.session.at_home import variant_at_home
from tileprobe.session.making import Columns, Making, corrected, renumber
from tileprobe.session.recorded import Recorded
from tileprobe.session.tally import work_of
from tileprobe.session.verifying import Verifying
from tileprobe.session.waiting import Waiting
from tileprobe.session.works import PROBED
from tileprobe.trace.at_most import share_at_most
from tileprobe.trace.blocks import Rows, read_rows
from tileprobe.trace.cursor import Pushed
from tileprobe.trace.cursor import read as read_pushed
from tileprobe.trace.decode import decode
from tileprobe.trace.domains import align
from tileprobe.trace.gapless import without_gaps
from tileprobe.trace.in_place import InPlace, in_place
from tileprobe.trace.model import Kernel as KernelRow
from tileprobe.trace.model import Launch
from tileprobe.trace.order import Residual
from tileprobe.trace.replay import Calibration, calibrate
from tileprobe.trace.stand_ins import UNDISTURBED
from tileprobe.trace.unseen_loops import Ran, stand_for_unseen

if TYPE_CHECKING:
    from tileprobe.session.collect import Observed

_DECODED_BYTES = 64 * 2**20  # of buffers that are decoded together
_COMPARED = 64  # launches, with those that recorded no iterations
CALIBRATING = 8  # launches of each dose are enough to learn the cost of a record from


def add_recorded(making: Making, seen: Observed) -> None:
    seen = replace(seen, variant=variant_at_home(seen.variant, seen.kernel.source))
    clock = making.clock(seen.kernel.target.clock)
    calibration = _calibration(seen, clock)
    row = _kernel_row(len(making.kernels), seen, calibration, clock)
    making.kernels.append(row)
    making.notes += [f"{row.name}: {note}" for note in (*seen.variant.notes, *_unkept(seen.launches))]
    first_region = making.add_regions(row.id, seen.variant.regions)
    works = making.add_works(row.id, seen.works)
    made = [
        _launch(len(making.launches) + n, row.id, works[work_of(run)], run)
        for n, run in enumerate(seen.launches)
    ]
    columns: list[Columns] = []
    edges: list[Columns] = []
    ran: list[Ran] = []
    residual, verifying = Residual(), Verifying()
    waiting = Waiting(seen.launches, row.clock.hz, partial(_sequences, clock=row.clock))
    for group in _groups(seen.launches):
        runs, ids = [seen.launches[n] for n in group], [made[n].id for n in group]
        decoded = decode(
            np.stack([run.full_words() for run in runs]),
            runs[0].layout,  # type: ignore[arg-type]
            epochs=[run.epoch for run in runs],
            programs=[run.programs for run in runs],
            sampling=runs[0].sampling,
            launches=ids,
            calibration=calibration if calibration.doses else None,
            clock=row.clock,
            timer=seen.kernel.target.clock.timer,
            regions=seen.variant.regions,
            interruptions=waiting.of(runs),
            passed=seen.kernel.target.passes_unkept,
        )
        residual += decoded.residual
        ran += decoded.ran
        for n, losses in zip(group, decoded.losses):
            made[n] = replace(made[n], losses=losses)
        if decoded.columns:
            if seen.kernel.target.passes_unkept:
                without_gaps(decoded.columns, seen.variant.regions, 1.0 - calibration.share)
            true = _true(row.clock, seen.variant.regions, 1.0 - calibration.share)
            verifying.add(runs, ids, corrected(dict(decoded.columns), ("start", "stop")), true)
            for name in ("taken", "probes"):
                decoded.columns[f"{name}_ns"] = decoded.columns.pop(name) * (1e9 / row.clock.hz)
            columns.append(corrected(decoded.columns, ("start", "stop")))
        if decoded.edges:
            edges.append(corrected(decoded.edges, ("from_tick", "to_tick")))
        making.notes += [f"{row.name}: {problem.text} ({problem.count}x)" for problem in decoded.problems]
    if ran and seen.variant.layout is not None:
        stand_for_unseen(columns, ran, seen.variant.layout, {launch.id: launch.work for launch in made})
    making.launches += made
    known = {**row.calibration, **residual.to_json()}
    if truth := verifying.to_json(row.clock.hz):
        known["verified"] = truth
    making.kernels[-1] = replace(row, calibration=known)
    for launch, run in zip(made, seen.launches):
        making.touched(launch.id, row.name, run)
    units = making.units.add(seen.kernel.machine, _units_in(making, seen, row, columns))
    for pieces, table in ((columns, making.intervals), (edges, making.edges)):
        for piece in pieces:
            renumber(piece, first_region, units)
            table.append(piece)


def _true(clock: Clock, regions: Sequence[Region], hidden: float) -> Any:
    """Decodes the records of verified launches that took no time."""

    def decoded(runs: Sequence[Recorded], ids: Sequence[int]) -> Columns:
        found = decode(
            np.stack([run.verified.words for run in runs]),  # type: ignore[union-attr]
            runs[0].layout,  # type: ignore[arg-type]
            epochs=[run.epoch for run in runs],
            programs=[run.programs for run in runs],
            sampling=runs[0].sampling,
            launches=list(ids),
            clock=clock,
        )
        without_gaps(found.columns, regions, hidden)
        return found.columns

    return decoded


def _unkept(runs: list[Recorded]) -> list[str]:
    """What could not be kept as it was asked for."""
    others = sum(_others_than_asked(run) for run in runs)
    if not others:
        return []
    return [
        f"the last iterations of a `while` loop are not known before its end: in {others} of {len(runs)} launches "
        "others stand for them"
    ]


def _others_than_asked(run: Recorded) -> bool:
    """Whether the last iterations are asked for, and those of a loop were recorded whose end was not known."""
    if run.layout is None or run.sampling is None or run.sampling.loop(-1).phase >= 0:
        return False
    endless = [run.sampling.loop(loop.id) for loop in run.layout.loops if loop.endless]
    return any(every.stride > 1 or not every.phase for every in endless)


def _launch(launch: int, kernel: int, work: int, run: Recorded) -> Launch:
    return Launch(
        id=launch,
        kernel=kernel,
        grid=run.grid,
        start_ns=float(run.start_ns),
        duration_ns=float(run.duration_ns),
        probed=run.probed,
        sampling={} if run.sampling is None else run.sampling.to_json(),
        work=work,
        preempted_ns=None if run.waited_ns is None else float(run.waited_ns),
        ran_ns=None if run.ran_ns is None else float(run.ran_ns),
    )


def _units_in(making: Making, seen: Observed, row: KernelRow, columns: list[Columns]) -> list[Unit]:
    """The units that ran something, each with the domain of its clock where there are several."""
    target, machine = seen.kernel.target, seen.kernel.machine
    if not columns:
        return []
    units = target.units(np.unique(np.concatenate([piece["unit"] for piece in columns])).tolist())
    timer = target.clock.timer
    if timer is None:
        return units
    groups = [[seen.launches[n] for n in group] for group in _groups(seen.launches)]
    streams = [rows for runs in groups for rows in _rows(runs, row.clock, timer)]
    pushed = [read_pushed(rows) for rows in streams]
    found = align(streams, pushed, row.clock, timer, name=f"{machine}, unit {{}}")
    making.notes += [f"{row.name}: {problem.text}" for problem in found.problems]
    for domain in found.domains.values():
        making.add_domain(domain)
    return [replace(u, domain=found.domains[u.id].name) if u.id in found.domains else u for u in units]


def _kernel_row(number: int, seen: Observed, calibration: Calibration, rate: Clock) -> KernelRow:
    clock, source, layout = seen.kernel.target.clock, seen.kernel.source, seen.variant.layout
    known = calibration.to_json()
    known["floor_ticks"] = clock.floor_ticks()
    if calibration.cost_ticks <= 2 * calibration.error_ticks:
        # nothing better is known; good enough for an estimate
        known["cost_ticks"] = calibration.share * known["floor_ticks"]
        known |= {name: known["floor_ticks"] for name in ("dose_ticks",) if name in known}
    return KernelRow(
        id=number,
        name=seen.kernel.name,
        target=seen.kernel.machine,
        clock=rate,
        file=source.file,
        first_line=source.first_line,
        source=source.text,
        ir=dict(seen.variant.ir),
        layout=None if layout is None else layout.to_json(),
        calibration=known,
        functions=functions_called(
            seen.variant.regions, Function(seen.kernel.name, source.file, source.first_line, source.text)
        ),
        signature=getattr(seen.kernel, "signature", ""),
    )


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


def _sequences(runs: Sequence[Recorded], clock: Clock) -> list[tuple[Rows, Pushed]]:
    """The rows of launches, with the programs that each recorded, and the records of their cursors."""
    found = []
    for group in _groups(list(runs)):
        mine = [runs[n] for n in group]
        words = np.stack([run.full_words() for run in mine])
        epochs, programs = [run.epoch for run in mine], [run.programs for run in mine]
        layout, sampling = mine[0].layout, mine[0].sampling
        assert layout is not None
        rows, _ = read_rows(words, layout, epochs=epochs, programs=programs, sampling=sampling, clock=clock)
        found += [(part, read_pushed(part)) for part in rows]
    return found


def _calibration(seen: Observed, clock: Clock) -> Calibration:
    """The cost of a record in this kernel, from launches that wrote each record more than once; and what of it there is
    where records stand, from those that wrote fewer."""
    once = [run for run in seen.launches if run.words is not None]
    chosen = {work_of(run) for run in seen.dosed}
    doses = {PROBED: [run for run in once if work_of(run) in chosen][-CALIBRATING:]}
    doses |= {run.dose: [other for other in seen.dosed if other.dose == run.dose] for run in seen.dosed}
    if len(doses) < 2 or not all(doses.values()):
        return Calibration()
    rows = _passed_rows if seen.kernel.target.passes_unkept else _rows
    found = calibrate({dose: rows(runs, clock) for dose, runs in doses.items()})
    if seen.kernel.target.passes_unkept:
        return replace(found, share=_at_most(seen, once, found, clock))
    if not seen.kernel.target.hides_records:
        return found
    here = _in_place(seen, once, found, clock)
    return replace(
        found,
        share=here.share,
        share_error=here.error,
        share_noise=here.noise,
        code=here.code,
        code_error=here.code_error,
    )


def _at_most(seen: Observed, once: list[Recorded], found: Calibration, clock: Clock) -> float:
    """Of works with launches of both sorts, those with most; each launch with all of its programs."""
    whole = [run for run in once if run.words is not None and len(run.words) >= run.programs]
    works = Tally(work_of(run) for run in whole if any(work_of(p) == work_of(run) for p in _plain(seen)))
    if not works:
        return 1.0
    ((work, _),) = works.most_common(1)
    mine = [run for run in whole if work_of(run) == work][-CALIBRATING:]
    durations = [
        [run.duration_ns for run in runs]
        for runs in (mine, [run for run in _plain(seen) if work_of(run) == work])
    ]
    return share_at_most(_sequences(mine, clock), found, *durations)


def _plain(seen: Observed) -> list[Recorded]:
    """Launches without records, but for the first launch of all, which found nothing in caches."""
    return [run for run in seen.launches[1:] if not run.probed]


def _in_place(seen: Observed, once: list[Recorded], found: Calibration, clock: Clock) -> InPlace:
    """Launches that had to wait for a processor say nothing. Of several works the surest counts."""
    works: dict[Any, tuple[list[Recorded], ...]] = {}
    plain = [run for run in seen.launches if not run.probed]
    for sort, runs in enumerate((once, seen.light, plain)):
        for run in runs:
            if (run.waited_ns or 0) <= UNDISTURBED * run.duration_ns:
                works.setdefault(work_of(run), ([], [], []))[sort].append(run)
    each = []
    for all_of_it, light, without in works.values():
        if all_of_it and light:
            both = [[rows for rows, _ in _sequences(runs, clock)] for runs in (all_of_it[-_COMPARED:], light)]
            durations = [run.duration_ns for run in without], [run.duration_ns for run in light]
            each.append(in_place(both[0], both[1], found, durations))
    return min(each, key=lambda one: one.error, default=InPlace())


def _passed_rows(runs: list[Recorded], clock: Clock) -> list[Rows]:
    """The rows of launches, each with its sampling, where iterations that are not kept cost something as well."""
    found = []
    for group in _groups(runs):
        for rows, _ in _sequences([runs[n] for n in group], clock):
            rows.launch, rows.passed = np.asarray(group)[rows.launch], True
            found.append(rows)
    return found


def _rows(runs: list[Recorded], clock: Clock, timer: GlobalTimer | None = None) -> list[Rows]:
    """The rows of several launches as one; each keeps its own sampling only as far as gaps need it."""
    blocks = min(len(run.words) for run in runs if run.words is not None)
    words = np.stack([run.full_words()[:blocks] for run in runs])
    rows, _ = read_rows(
        words,
        runs[0].layout,  # type: ignore[arg-type]
        epochs=[run.epoch for run in runs],
        programs=[run.programs for run in runs],
        clock=clock,
        timer=timer,
    )
    return rows
