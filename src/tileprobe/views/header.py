"""The head of a kernel's report: what ran, how much was recorded, what that cost, and what to be careful about."""

from __future__ import annotations

from tileprobe.tools.overhead import overhead
from tileprobe.tools.signatures import labels
from tileprobe.trace import Kernel, Launch, Losses, Trace, Work
from tileprobe.trace.works import with_works
from tileprobe.views import text
from tileprobe.views.screen import Screen

STREAMS = 6  # named in the header
WORKS = 4
ENOUGH = 3  # recorded launches, from which on the first one, which compiles, is not what counts


def print_header(trace: Trace, kernel: Kernel, screen: Screen) -> None:
    trace = with_works(trace)
    launches = trace.kernel_launches(kernel.id)
    works = [work for work in trace.works if work.kernel == kernel.id]
    title = screen.words(labels(trace.kernels)[kernel.id], "bold")
    title.append_text(screen.words(f"  on {kernel.target}", "not bold"))
    if kernel.file:
        place = f"  {kernel.file.rsplit('/', 1)[-1]}:{kernel.first_line}"
        title.append_text(screen.words(place, "dim not bold"))
    screen.print(title)
    if kernel.signature:
        screen.say(kernel.signature, "dim")
    screen.say(_launches(launches, works))
    for line in _works(launches, works):
        screen.say(line, "dim")
    screen.say(_records(trace, kernel), "dim")
    for warning in _warnings(trace, kernel, works):
        screen.say(f"! {warning}", "yellow")
    for note in _notes(trace, kernel):
        screen.say(note, "dim")
    screen.print()


def _launches(launches: list[Launch], works: list[Work]) -> str:
    probed = [launch for launch in launches if launch.probed]
    ran = max(sum(work.ran for work in works), len(probed))
    said = text.several(ran, "launch", "launches")
    parts = [said if len(probed) == ran else f"{said}, {len(probed):,} of them recorded"]
    grids = {launch.grid for launch in probed}
    if grids:
        parts.append(f"grid {text.grid(next(iter(grids)))}" if len(grids) == 1 else f"{len(grids)} grids")
    lengths = sorted(launch.duration_ns for launch in probed if launch.duration_ns)
    parts += [f"{text.duration(lengths[len(lengths) // 2])} each"] if lengths else []
    return " · ".join(parts)


def _works(launches: list[Launch], works: list[Work]) -> list[str]:
    """Launches of different grids or arguments, where there are any, the most frequent first."""
    if len(works) < 2:
        return []
    lines = []
    for work in sorted(works, key=lambda work: -work.ran)[:WORKS]:
        lengths = sorted(n.duration_ns for n in launches if n.work == work.id and n.duration_ns)
        each = f", {text.duration(lengths[len(lengths) // 2])} each" if lengths else ""
        what = f"grid {text.grid(work.grid)}" + (f", {work.arguments}" if work.arguments else "")
        recorded = "" if work.probed == work.ran else f", {work.probed:,} recorded"
        lines.append(f"  {text.several(work.ran, 'launch', 'launches')}{recorded}{each}: {what}")
    if len(works) > WORKS:
        lines.append(f"  and {text.several(len(works) - WORKS, 'more kind')} of work")
    return lines


def _records(trace: Trace, kernel: Kernel) -> str:
    losses = sum((launch.losses for launch in trace.kernel_launches(kernel.id)), Losses())
    line = f"{losses.kept:,} {'records' if kernel.layout is not None else 'intervals, exact'}"
    if losses.sampled_out:
        line += f", {losses.sampled_out:,} left out by sampling"
    if losses.lost:
        line += f", {losses.lost:,} lost for lack of room"
    return line + _cost(trace, kernel)


def _cost(trace: Trace, kernel: Kernel) -> str:
    cost = overhead(trace, kernel)
    line = ""
    if cost.measured_percent is not None:
        line = f" · probes cost {cost.measured_percent:.1f} % (measured)"
    elif cost.estimated_percent is not None:
        line = f" · probes cost about {cost.estimated_percent:.1f} % (estimated)"
    line += f", {cost.record_cost_ns:.1f} ns a record" if cost.record_cost_ns is not None else ""
    mine = [work for work in trace.works if work.kernel == kernel.id and work.session_us is not None]
    often = max(mine, key=lambda work: work.probed, default=None)
    if often is not None and often.session_us is not None and often.probed >= ENOUGH:
        line += f", and {text.duration(1e3 * often.session_us)} of Python a recorded launch"
    return line


def _warnings(trace: Trace, kernel: Kernel, works: list[Work]) -> list[str]:
    """What makes figures less than they seem."""
    found = []
    missed = sum(work.unrecorded for work in works)
    if missed:
        said = text.several(missed, "launch was", "launches were")
        found.append(f"the room for records is spent: {said} not recorded (--budget-mb)")
    return found


def _notes(trace: Trace, kernel: Kernel) -> list[str]:
    """What a reader of the times must know: that a program is several streams, and how well clocks agree."""
    notes = []
    names = trace.stream_names(kernel.id)
    if len(names) > 1:
        shown = ", ".join(names[:STREAMS]) + (", ..." if len(names) > STREAMS else "")
        notes.append(f"{len(names)} streams a program: {shown}")
    error = trace.clock_error_ns
    if error is not None:
        notes.append(
            f"{len(trace.domains)} clock domains: times of different ones compare to ±{text.duration(error)}"
        )
    return notes
