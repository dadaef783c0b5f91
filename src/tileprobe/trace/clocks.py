"""Ticks become nanoseconds: each unit by the clock of its domain, or by the kernel's own.

In come the raw intervals with the kernels' clocks and the units' domains; out go expressions over columns of
ticks. All of them count from one origin, the first raw start of the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.trace.model import Domain, Kernel, Launch, Unit


class Clocks:
    """The clocks of one trace. A clock's ticks may need all 64 bits, so they are counted from its own first
    tick before they become floats; where that tick lies in time is worked out exactly."""

    def __init__(
        self,
        frame: pl.DataFrame,
        kernels: Sequence[Kernel],
        launches: Sequence[Launch],
        units: Sequence[Unit],
        domains: Sequence[Domain],
    ) -> None:
        known = {domain.name: domain for domain in domains}
        strange = next((unit for unit in units if unit.domain and unit.domain not in known), None)
        if strange is not None:
            raise TileProbeError(
                f"{strange.name} has the clock domain {strange.domain!r}; there are {', '.join(known) or 'none'}"
            )
        self._clocks = [(domain.hz, domain.offset_ns) for domain in domains]
        numbers = {domain.name: n for n, domain in enumerate(domains)}
        self._by_unit = {unit.id: numbers[unit.domain] for unit in units if unit.domain}
        rates = sorted({kernel.clock.hz for kernel in kernels}) or [1e9]
        own = {hz: len(self._clocks) + n for n, hz in enumerate(rates)}
        self._clocks += [(hz, 0.0) for hz in rates]
        by_kernel = {kernel.id: own[kernel.clock.hz] for kernel in kernels}
        self._by_launch = {launch.id: by_kernel[launch.kernel] for launch in launches}
        self._own = own[rates[0]]
        self._place(frame)

    def _place(self, frame: pl.DataFrame) -> None:
        """Finds each clock's first tick and how long after the origin it was."""
        numbered = frame.select(self._number("launch", "unit").alias("clock"), pl.col("start"))
        first = numbered.group_by("clock").agg(pl.col("start").min())
        self._first = dict.fromkeys(range(len(self._clocks)), 0) | dict(first.iter_rows())
        times = {
            n: Fraction(self._first[n]) * 10**9 / Fraction(hz) + Fraction(offset)
            for n, (hz, offset) in enumerate(self._clocks)
        }
        origin = min((times[n] for n in first["clock"]), default=Fraction(0))
        self._after = {n: float(time - origin) for n, time in times.items()}
        self._scale = {n: 1e9 / hz for n, (hz, _) in enumerate(self._clocks)}

    def _number(self, launch: str, unit: str) -> pl.Expr:
        """Which clock a row is by."""
        own = pl.lit(self._own, pl.Int64)
        if len(set(self._by_launch.values())) > 1:
            own = pl.col(launch).replace_strict(self._by_launch, default=self._own, return_dtype=pl.Int64)
        elif self._by_launch:
            own = pl.lit(next(iter(self._by_launch.values())), pl.Int64)
        if not self._by_unit:
            return own
        shared = pl.col(unit).replace_strict(self._by_unit, default=None, return_dtype=pl.Int64)
        return pl.coalesce(shared, own)

    def ns(self, ticks: str, *, launch: str = "launch", unit: str = "unit") -> pl.Expr:
        """The time of a column of ticks, in nanoseconds from the origin of the trace."""
        number = self._number(launch, unit)
        first, scale, after = (
            number.replace_strict(table, return_dtype=dtype)
            for table, dtype in (
                (self._first, pl.Int64),
                (self._scale, pl.Float64),
                (self._after, pl.Float64),
            )
        )
        return (pl.col(ticks) - first) * scale + after
