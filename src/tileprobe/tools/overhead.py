"""What profiling cost a kernel: measured against unprobed launches of the same work, and estimated.

Measured is the ratio of median durations with and without probes, work by work, with a 95 % interval from a bootstrap
over the launches; on a simulated machine, which takes as long every time, the extremes of the launches. Where the
interval is wider than what it is about, the overhead cannot be measured here, and it is said why; the estimate from the
cost of a record remains. Records that are free have none: they change the code around them, which no cost knows of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tileprobe.tools.figures import NORMAL, TIME, student
from tileprobe.trace import Kernel, Launch, Losses, Trace
from tileprobe.trace.cold import cold_launches
from tileprobe.trace.stand_ins import undisturbed
from tileprobe.trace.works import with_works

ENOUGH = 3  # launches of each sort of a work, below which a measured overhead would be a guess
RESAMPLES = 1000
SEED = 0  # the same trace gives the same interval
MANY = 200  # launches of a sort; more make the interval no surer worth their time
FINE = 1.0  # percentage points: an interval that is no wider either way says enough, whatever lies in it


@dataclass(frozen=True)
class Overhead:
    """Percent of the unprobed time. `percent` with `low` and `high` is what was measured, None where there was nothing
    to measure with; it is to be believed where it is `measurable`, and `why` says why it is not."""

    percent: float | None
    low: float | None
    high: float | None
    measurable: bool
    why: str
    estimated_percent: float | None
    estimated_error: float | None  # half the 95 % interval of the estimate, in percentage points
    record_cost_ns: float | None

    @property
    def measured_percent(self) -> float | None:
        """What was measured, where it is to be believed."""
        return self.percent if self.measurable else None


def overhead(trace: Trace, kernel: Kernel) -> Overhead:
    trace = with_works(trace)
    launches = trace.kernel_launches(kernel.id)
    cost_ticks = kernel.calibration.get("cost_ticks")
    cost = None if cost_ticks is None else float(cost_ticks) * 1e9 / kernel.clock.hz
    ran = {work.id: work.ran for work in trace.works}
    # A count and a simulated time are the same every time, so that one launch of each is enough.
    exact = not kernel.clock.is_time or kernel.clock.is_simulated
    cold = cold_launches(trace)
    warm = [launch for launch in launches if launch.id not in cold]
    percent, low, high, why = _measured(warm, ran, 1 if exact else ENOUGH)
    estimated = _estimated(trace, kernel, launches, cost)
    doubt = float(kernel.calibration.get("error_ticks") or 0.0) / float(cost_ticks) if cost_ticks else 0.0
    error = None if estimated is None else NORMAL * min(doubt, 1.0) * estimated
    return Overhead(percent, low, high, not why, why, estimated, error, cost)


def _measured(
    launches: Sequence[Launch], ran: dict[int, int], enough: int
) -> tuple[float | None, float | None, float | None, str]:
    """Percent, its interval, and why it is not to be believed."""
    works: dict[int, tuple[list[Launch], list[Launch]]] = {}
    for launch in launches:
        if launch.duration_ns:
            works.setdefault(launch.work, ([], []))[launch.probed].append(launch)
    pairs = [
        (max(ran.get(work, 1), 1), _durations(pair[0]), _durations(pair[1]))
        for work, pair in works.items()
        if min(map(len, pair)) >= enough
    ]
    if not pairs:
        fewest = max((min(map(len, pair)) for pair in works.values()), default=0)
        return (
            None,
            None,
            None,
            f"{enough} launches of a work with and without probes are needed, not {fewest}",
        )
    percent = _percent(*_sums([(count, np.median(a), np.median(b)) for count, a, b in pairs]))
    low, high = _extremes(pairs) if enough == 1 else _bootstrap(pairs, percent)
    return percent, low, high, _why(percent, low, high)


def _why(percent: float, low: float, high: float) -> str:
    if high < -FINE:
        return "launches with probes were faster than those without: they did not do the same"
    if high - low > max(abs(percent), 2 * FINE):
        return "launches of the same work differ by more than the probes cost"
    return ""


def _durations(launches: Sequence[Launch]) -> np.ndarray:
    """Of launches that were left alone, as far as that is known and there are enough of them."""
    quiet = [launch for launch in launches if undisturbed(launch)]
    chosen = quiet if len(quiet) >= ENOUGH else launches
    return np.array([one.duration_ns for one in chosen], float)[-MANY:]


def _sums(medians: Sequence[tuple[int, float, float]]) -> tuple[float, float]:
    plain = sum(count * a for count, a, _ in medians)
    probed = sum(count * b for count, _, b in medians)
    return float(plain), float(probed)


def _percent(plain: float, probed: float) -> float:
    return 100.0 * (probed / plain - 1.0)


def _extremes(pairs: Sequence[tuple[int, np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """If every launch of a sort had taken as long as one of them."""
    least = _percent(*_sums([(count, a.max(), b.min()) for count, a, b in pairs]))
    return least, _percent(*_sums([(count, a.min(), b.max()) for count, a, b in pairs]))


def _bootstrap(pairs: Sequence[tuple[int, np.ndarray, np.ndarray]], percent: float) -> tuple[float, float]:
    """Launches drawn again, with replacement, work by work. Percentiles of few launches are too narrow: they are
    stretched as Student's t is wider than the normal distribution."""
    rng = np.random.default_rng(SEED)
    plain, probed = np.zeros(RESAMPLES), np.zeros(RESAMPLES)
    fewest = min(min(len(a), len(b)) for _, a, b in pairs)
    for count, a, b in pairs:
        for total, values in ((plain, a), (probed, b)):
            drawn = values[rng.integers(0, len(values), (RESAMPLES, len(values)))]
            total += count * np.median(drawn, axis=1)
    low, high = np.quantile(100.0 * (probed / plain - 1.0), [0.025, 0.975])
    stretch = student(fewest - 1) / NORMAL
    return percent + stretch * min(float(low) - percent, 0.0), percent + stretch * max(
        float(high) - percent, 0.0
    )


def _estimated(trace: Trace, kernel: Kernel, launches: Sequence[Launch], cost: float | None) -> float | None:
    """The records' cost against the time of all programs of the launches that wrote them; none of free ones."""
    roots = [r.id for r in trace.regions if r.kernel == kernel.id and r.parent is None]
    if not cost or not roots:
        return None
    mine = trace.scan().filter(pl.col("region").is_in(roots) & (pl.col("kind") == "region"))
    whole = mine.select(TIME.sum()).collect().item()
    kept = sum((launch.losses for launch in launches), Losses()).kept
    return 100.0 * kept * cost / whole if whole else None
