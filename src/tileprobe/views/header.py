"""The head of a kernel's report: what ran, how much was recorded, what that cost, and what to be careful about."""

from __future__ import annotations

from tileprobe.tools.accounting import Interrupted, accounted, interrupted
from tileprobe.tools.kernels import Known, alike_launches, known_of
from tileprobe.tools.overhead import overhead
from tileprobe.tools.signatures import labels
from tileprobe.tools.times import Times
from tileprobe.tools.verified import Truth, verified
from tileprobe.trace import Kernel, Launch, Losses, Trace, Work
from tileprobe.trace.works import with_works
from tileprobe.views import text
from tileprobe.views.screen import Screen

STREAMS = 6  # named in the header
WORKS = 4
HALF = 50.0  # percent of the launches' time: with less in programs, a reader asks where the rest went
ALL_OF_IT = 110.0  # percent: more than that is no rounding
RESIDUAL = 0.05  # of the correction: more is worth a warning
ENOUGH = 3  # recorded launches, from which on the first one, which compiles, is not what counts


def print_header(trace: Trace, kernel: Kernel, screen: Screen, times: Times | None = None) -> None:
    trace = with_works(trace)
    disturbed = interrupted(trace, kernel, times)
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
    if not kernel.clock.is_time:
        screen.say(f"! {text.NO_TIME}", "yellow")
    elif kernel.clock.is_simulated and (kernel.layout is not None or kernel.source):
        screen.say(
            f"simulated: the times are a model's, of a clock of {kernel.clock.hz / 1e6:,.0f} MHz", "dim"
        )
    known = known_of(trace, kernel)
    screen.say(_launches(launches, works, known))
    for line in work_lines(launches, works, known):
        screen.say(line, "dim")
    screen.say(_records(trace, kernel), "dim")
    truth = verified(trace, kernel)
    if truth is not None:
        for line in truth_lines(truth):
            screen.say(line)
    elif cost := _cost(trace, kernel):
        screen.say(cost, "dim")
    for warning in warnings(kernel, works, disturbed):
        screen.say(f"! {warning}", "yellow")
    for note in notes(trace, kernel, disturbed):
        screen.say(note, "dim")
    screen.print()


def _launches(launches: list[Launch], works: list[Work], known: Known) -> str:
    probed = [launch for launch in launches if launch.probed]
    ran = max(sum(work.ran for work in works), len(probed))
    said = text.several(ran, "launch", "launches")
    parts = [said if len(probed) == ran else f"{said}, {len(probed):,} of them recorded"]
    grids = {launch.grid for launch in probed}
    if grids:
        parts.append(f"grid {text.grid(next(iter(grids)))}" if len(grids) == 1 else f"{len(grids)} grids")
    parts += _each(launches, works, known)
    return " · ".join(parts)


def _each(launches: list[Launch], works: list[Work], known: Known) -> list[str]:
    """How long a launch took in the mean, as in the table of kernels, and from where to where most are if they
    differ."""
    parts = [part for work in works for part in alike_launches(work, launches, known)]
    ran = sum(part.ran for part in parts)
    if not ran:
        return []
    mean = sum(part.total_ns for part in parts) / ran
    lengths = sorted(length for part in parts for length in part.lengths)
    low, high = (lengths[round(share * (len(lengths) - 1))] for share in (0.1, 0.9))
    most = f" (most {text.duration(low)} to {text.duration(high)})" if high > 2 * low else ""
    return [f"{text.duration(mean)} each{most}"]


def work_lines(launches: list[Launch], works: list[Work], known: Known) -> list[str]:
    """Launches of different grids or arguments, where there are any, the most frequent first."""
    kinds: dict[tuple[tuple[int, ...], str], list[Work]] = {}  # of several processes, those alike are one
    for work in works:
        kinds.setdefault((work.grid, work.arguments), []).append(work)
    if len(kinds) < 2:
        return []
    lines = []
    for same in sorted(kinds.values(), key=lambda same: -sum(work.ran for work in same))[:WORKS]:
        work = same[0]
        ran, probed = (sum(getattr(work, name) for work in same) for name in ("ran", "probed"))
        each = "".join(f", {part}" for part in _each(launches, same, known))
        what = f"grid {text.grid(work.grid)}" + (f", {work.arguments}" if work.arguments else "")
        recorded = "" if probed == ran else f", {probed:,} recorded"
        lines.append(f"  {text.several(ran, 'launch', 'launches')}{recorded}{each}: {what}")
    if len(kinds) > WORKS:
        lines.append(f"  and {text.several(len(kinds) - WORKS, 'more kind')} of work")
    return lines


def _records(trace: Trace, kernel: Kernel) -> str:
    losses = sum((launch.losses for launch in trace.kernel_launches(kernel.id)), Losses())
    line = f"{losses.kept:,} {'records' if kernel.layout is not None else 'intervals, exact'}"
    if losses.sampled_out:
        line += f", {losses.sampled_out:,} left out by sampling"
    if losses.lost:
        line += f", {losses.lost:,} lost for lack of room"
    return line


def _cost(trace: Trace, kernel: Kernel) -> str:
    """What the probes cost: measured with its interval, or that it cannot be, and the estimate."""
    cost = overhead(trace, kernel)
    estimate = "" if cost.estimated_percent is None else f"about {cost.estimated_percent:.1f} % (estimated)"
    if cost.measurable and cost.percent is not None:
        line = f"probes cost {cost.percent:.1f} % ({cost.low:.1f} to {cost.high:.1f}, measured)"
    elif cost.percent is not None:
        line = f"what probes cost is not measurable here: {cost.why}" + (f"; {estimate}" if estimate else "")
    elif estimate:
        line = f"probes cost {estimate}"
    else:
        free = cost.record_cost_ns == 0.0
        line = (
            "records are free, what they change in the code around them is not known (--verify)"
            if free
            else ""
        )
    unit = "ns" if kernel.clock.is_time else "instructions"
    if not kernel.clock.is_time:
        line = (
            line.replace("probes cost", "probes add")
            .replace(" %", " % instructions", 1)
            .replace("measured", "counted")
        )
    parts = [line] if line else []
    if cost.record_cost_ns:
        parts.append(f"{cost.record_cost_ns:.1f} {unit} a record")
    mine = [work for work in trace.works if work.kernel == kernel.id and work.session_us is not None]
    often = max(mine, key=lambda work: work.probed, default=None)
    if often is not None and often.session_us is not None and often.probed >= ENOUGH:
        parts.append(
            f"{'and ' if parts else ''}{text.real(1e3 * often.session_us)} of Python a recorded launch"
        )
    return ", ".join(parts)


def truth_lines(truth: Truth) -> list[str]:
    """What a simulated machine knows for certain."""
    runs = text.several(truth.launches, "launch", "launches")
    lines = [
        f"verified on {runs}: probes cost {truth.overhead_percent:.2f} % ({truth.records_percent:.2f} % are the "
        f"records, {truth.code_percent:.2f} % what the compiler made of the code around them)"
    ]
    worst, mean = truth.worst, truth.mean_error_percent
    if worst is not None and mean is not None:
        lines.append(
            f"corrected times of regions are {mean:.2f} % off in the mean, by their time; most in {worst.region.name}: "
            f"{worst.error_percent:+.1f} % ({text.duration(worst.true_ns / max(worst.count, 1))} each in truth)"
        )
    by_lines = [row for row in truth.regions if row.plain_ns and row.region.kind != "kernel"]
    most = max(by_lines, key=lambda row: abs(row.code_percent or 0.0), default=None)
    if most is not None:
        lines.append(
            f"that truth is of the code with probes; in the plain run, by its lines, {most.region.name} takes "
            f"{text.duration((most.plain_ns or 0.0) / max(most.count, 1))} each ({most.code_percent:+.1f} % with "
            f"probes that take no time, which is most), {most.interleaved_percent:.0f} % of it others' instructions"
        )
    return lines


def warnings(kernel: Kernel, works: list[Work], disturbed: Interrupted) -> list[str]:
    """What makes figures less than they seem."""
    found = [] if disturbed.trusted else [disturbed.text]
    missed = sum(work.unrecorded for work in works)
    if missed:
        said = text.several(missed, "launch was", "launches were")
        found.append(f"the room for records is spent: {said} not recorded (--budget-mb)")
    if disturbed.partial and kernel.layout is None:
        found.append(
            "there was no room for all intervals: figures are of those that were kept "
            "(--trace-intervals N, or intervals=N of a session)"
        )
    elif disturbed.partial:
        said = text.several(disturbed.partial, "recorded launch", "recorded launches")
        found.append(
            f"{said} had no room for all iterations: times inside of such a loop are scaled up from the part that was "
            "recorded (--capacity N, or --iterations every:N)"
        )
    residual = float(kernel.calibration.get("residual_share") or 0.0)
    if residual > RESIDUAL:
        found.append(
            f"{text.percent(residual)} of what the probes cost could not be taken out: short times are rough"
        )
    return found


def notes(trace: Trace, kernel: Kernel, disturbed: Interrupted) -> list[str]:
    """What a reader of the times must know: interruptions, whether they add up, that a program is several streams, and
    how well clocks agree."""
    said = [disturbed.text] if disturbed.trusted and disturbed.text else []
    whole = accounted(trace, kernel)
    if whole is not None:
        where = _at_once(kernel, whole.threads)
        spread = f" ({whole.low:.0f} to {whole.high:.0f})" if round(whole.low) != round(whole.high) else ""
        others = "idle units" if kernel.clock.is_simulated else "idle threads and other processes"
        rest = f": starting them, {others} took the rest" if whole.percent < HALF else ""
        share = f"{whole.percent:.0f} %{spread} of the launches' time{where}"
        if whole.percent > ALL_OF_IT:
            said.append(
                f"the recorded programs, scaled up, come to {share}: they took longer than the others"
            )
        else:
            said.append(f"programs account for {share}{rest}")
    names = trace.stream_names(kernel.id)
    if len(names) > 1:
        shown = ", ".join(name or "default" for name in names[:STREAMS]) + (
            ", ..." if len(names) > STREAMS else ""
        )
        said.append(f"{len(names)} streams a program: {shown}")
    error = trace.clock_error_ns
    if error is not None:
        said.append(
            f"{len(trace.domains)} clock domains: times of different ones compare to ±{text.duration(error)}"
        )
    return said


def _at_once(kernel: Kernel, programs: int) -> str:
    """A thread of a CPU runs one program; on other machines they are only known to have run at a time."""
    if kernel.target == "cpu":
        return f" on {text.several(programs, 'thread')}"
    return f", {programs:,} at a time" if programs > 1 else ""
