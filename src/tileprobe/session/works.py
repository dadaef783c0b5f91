"""What is repeated: launches of one compiled kernel over one grid with the same arguments, as one session sees them.

A work knows which variant runs next, what of it is recorded, and keeps what was. The first launch is probed. Of later
ones a random half runs without probes, so that the cost of profiling is measured on the same work; a few write each
record several times, from which replay learns the cost of one. Which ones is drawn in shuffled rounds: both sorts come
soon and equally often, and no pattern of the program's own can meet a pattern here. Every launch does the user's work
exactly once, whichever variant it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tileprobe.ir.sampling import Every, Sampling
from tileprobe.session.choices import Choice
from tileprobe.session.draws import Draw
from tileprobe.session.places import Places
from tileprobe.session.recorded import Ready, Recorded
from tileprobe.session.thinning import Thinning
from tileprobe.targets.base import ClockSource, Kernel, Variant

PLAIN, PROBED = 0, 1  # the dose: how often each record is written
LEFT_OUT = -1  # runs without probes and is not timed: there is no room to keep it
LIGHT = (
    -2
)  # each record is written once, but none in a loop: what records there cost shows in the time of programs
_ROUND = (PLAIN, PLAIN, PLAIN, PROBED, PROBED, None)  # None: what a record costs is learnt
_DOSED_TIMES = 4
_LIGHT_TIMES = 8
_LOOKED = 8  # launches after which what recording costs is looked at; then every so many
_ABOUT_RIGHT = 0.7, 1.15  # of a stride: the next one is an odd prime, so that it is larger than was asked for
_WAITED = 0.002  # of a launch's time
_SAMPLINGS = 32  # different ones of a work: launches that were sampled alike are decoded together


def records(dose: int) -> bool:
    """Whether a launch with this dose writes records."""
    return dose not in (PLAIN, LEFT_OUT)


@dataclass
class _Made:
    """What was prepared for launches, and what for."""

    about: tuple[Any, ...]
    ready: list[Ready] = field(default_factory=list)
    enough: bool = False


@dataclass(frozen=True)
class Compiled:
    """What runs for a dose. Where other sessions are on, with other probes, the work is another one."""

    probed: Variant | None = None  # with each record written once
    variant: Variant | None = None  # with the dose; None: it runs without probes
    places: Places | None = None


@dataclass
class Work:
    """Launches of one kernel over one grid with the same arguments, in one session."""

    kernel: Kernel
    grid: tuple[int, ...]
    arguments: str = ""
    number: int = 0
    seed: int = 0
    ran: int = 0  # launches that were seen, looked at or not
    count: int = 0  # of these, looked at
    recorded: int = 0  # of these, with records
    unrecorded: int = 0  # launches whose records there was no room for
    dosed: int = 0
    lightened: int = 0
    stride: int = 1  # of programs, where all would cost too much
    thinning: Thinning | None = None
    block_bytes: int = 0  # that are kept of a program's block
    rate: float = 1.0  # the share of launches that are kept; falls when the session's room is used up
    runs: list[tuple[Variant | None, Recorded]] = field(default_factory=list)  # what is kept, in order
    borrowed: tuple[Variant, Recorded] | None = None  # recorded as another session asked
    trips: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # by loop: room, most, least trips
    ends: dict[int, int] = field(default_factory=dict)  # by `while` loop: the shortest run; 0: too different
    learnt: int = 0  # how often one of these changed
    asks: bool = True  # whether what it does to memory has not been asked for yet

    def __post_init__(self) -> None:
        name = f"{self.kernel.name}({getattr(self.kernel, 'signature', '')}){self.grid}({self.arguments})"
        self._draw = Draw(f"{self.seed}/{name}")
        self._round: list[int | None] = []
        self.compiled: dict[int, Compiled] = {}  # by dose
        self._ready: dict[int, _Made] = {}  # by layout

    @property
    def largest_dose(self) -> int:
        return max(self.kernel.target.doses, default=PROBED)

    # -- which variant runs next -----------------------------------------------------------------------------

    def next_dose(self, alternate: bool) -> int:
        n, self.count = self.count, self.count + 1
        dose = PROBED
        if alternate and n and self.kernel.target.doses:  # where probes are free there is nothing to compare
            dose = self._drawn()
        if self.rate < 1.0 and self.recorded and self._draw.random() >= self.rate:
            self.unrecorded += dose == PROBED
            return LEFT_OUT
        return dose

    def _drawn(self) -> int:
        if not self._round:
            self._round = list(_ROUND)
            self._draw.shuffle(self._round)
        dose = self._round.pop()
        if dose is not None:
            return dose
        if self.dosed < _DOSED_TIMES and (self.dosed <= self.lightened or not self._lightens):
            return self.largest_dose
        return LIGHT if self._lightens and self.lightened < _LIGHT_TIMES else PROBED

    @property
    def _lightens(self) -> bool:
        """Whether a core may hide records, and there are any to be left out."""
        compiled = self.compiled.get(PROBED)
        hides = self.kernel.target.hides_records
        return hides and compiled is not None and compiled.places is not None and compiled.places.inner

    # -- what of it is recorded ------------------------------------------------------------------------------

    def ready(self, choice: Choice, places: Places, programs: int, plain: int, blocks: int) -> Ready:
        """Sampling and parameters of the next launch that is recorded. After so many different ones the same are drawn
        again, which also spares making them."""
        blocks = min(programs, blocks) or 1
        about = (programs, plain, blocks, self.stride, self.learnt)
        made = self._ready.get(id(places))
        if made is None or made.about != about:  # something was learnt since they were made
            made = self._ready[id(places)] = _Made(about)
        if made.enough:
            return made.ready[0] if len(made.ready) == 1 else self._draw.choice(made.ready)
        stride = made.ready[0].turns if made.ready and not self.trips else 1
        if stride > 1:  # all that differs
            ready = made.ready[0].turned(self._draw.turn("programs", min(stride, programs)))
        else:
            ends = {loop.id: self.ends.get(loop.id, 0) for loop in places.layout.loops if loop.endless}
            sampling = choice.sampling(
                programs, self._draw, self.stride, blocks=blocks, trips=self.trips, ends=ends
            )
            ready = Ready(self.kernel.target.memory, places, sampling, programs, plain)
        made.ready.append(ready)
        made.enough = len(made.ready) >= _SAMPLINGS or not choice.draws(ready.sampling)
        return ready

    def light(self, places: Places, programs: int, plain: int, blocks: int) -> Ready:
        """The same of a launch that records no iterations: of as many programs as there is room for."""
        sampling = Sampling(loops={-1: Every(count=0)}).within(programs, min(programs, blocks) or 1)
        return Ready(self.kernel.target.memory, places, sampling, programs, plain)

    def settle(self, recorded: Recorded, allowed: float) -> None:
        """Decides how many programs of the next launches are recorded, from what recording them costs. Looked at often
        in the beginning; a stride that is about right stays, as what was prepared for it does. Launches that had to
        wait for a processor say nothing of what recording costs."""
        if self.thinning is None:
            self.thinning = Thinning(allowed)
        if (recorded.waited_ns or 0) > _WAITED * recorded.duration_ns and self.thinning.guess_ns is not None:
            return
        if recorded.dose == PLAIN:
            self.thinning.plain(recorded.duration_ns)
        elif recorded.dose == PROBED and recorded.words is not None and not recorded.light:
            if self.thinning.guess_ns is None:
                workers = self.kernel.target.workers()
                self.thinning.guess(
                    recorded.kept(), len(recorded.words), _floor_ns(self.kernel.target.clock), workers
                )
            self.thinning.probed(
                recorded.duration_ns, len(recorded.words), recorded.programs, look=self._looks()
            )
            wanted = self.thinning.stride
            if not self.stride * _ABOUT_RIGHT[0] <= wanted <= self.stride * _ABOUT_RIGHT[1]:
                self.stride = wanted

    def _looks(self) -> bool:
        return self.recorded <= _LOOKED or not self.recorded % _LOOKED

    def learn(self, recorded: Recorded) -> None:
        """Loops that ran more often than there is room for, or whose iterations are sampled: the next launches spread
        their records over the whole of them."""
        if recorded.words is not None:
            self.block_bytes = 8 * recorded.words.shape[1]
        for loop, room, most, least in recorded.trips:
            _, before, shortest = self.trips.get(loop, (room, 0, least))
            if most > before or least < shortest:
                self.trips[loop] = room, max(most, before), min(least, shortest)
                self.learnt += 1

        self._learn_ends(recorded)

    def _learn_ends(self, recorded: Recorded) -> None:
        """How often `while` loops go round, where each program runs them once. Where launches that began shortly before
        the end of the shortest run had no room up to that of the longest, nothing is made of it any more."""
        if recorded.dose > PROBED:
            return
        overfull = {loop for loop, *_ in recorded.trips}
        for loop, fewest in recorded.ends:
            before = self.ends.get(loop)
            now = 0 if before is not None and loop in overfull else min(fewest, before or fewest)
            if before != 0 and now != before:
                self.ends[loop] = now
                self.learnt += 1

    def began(self, dose: int) -> None:
        """A launch of it is recorded."""
        self.recorded += 1
        self.dosed += dose > PROBED
        self.lightened += dose == LIGHT

    @property
    def begins(self) -> bool:
        """Whether none of its launches was recorded as the session asks."""
        return self.recorded == self.dosed + self.lightened

    def follow(self, other: Work) -> None:
        """A launch was recorded for another session that asks for the same: what was learnt holds here, too."""
        self.recorded += 1
        self.stride = other.stride
        if (self.trips, self.ends) != (other.trips, other.ends):
            self.trips, self.ends, self.learnt = dict(other.trips), dict(other.ends), self.learnt + 1

    # -- what is kept ----------------------------------------------------------------------------------------

    @property
    def variant(self) -> Variant | None:
        """The kernel that its launches were recorded with, if any were as the session asks."""
        return next((variant for variant, _ in self.runs if variant is not None), None)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for _, run in self.runs)

    def halve(self) -> int:
        """Lets go of a random half of what is kept, of each sort, and keeps as much less of what comes, so that every
        launch has had the same chance. Returns the bytes that are free now; 0 when one launch of each is left."""
        before, kept = self.nbytes, set()
        for sort in (True, False):
            mine = [n for n, (_, run) in enumerate(self.runs) if run.probed == sort and not run.calibrates]
            kept |= set(self._draw.sample(mine, (len(mine) + 1) // 2))
        kept |= {n for n, (_, run) in enumerate(self.runs) if run.calibrates}
        if len(kept) == len(self.runs):
            return 0
        self._hand_over(kept)
        self.unrecorded += sum(run.probed for n, (_, run) in enumerate(self.runs) if n not in kept)
        self.runs = [run for n, run in enumerate(self.runs) if n in kept]
        for _, run in self.runs:  # they share pieces of memory with those that go
            if run.words is not None:
                run.words = run.words.copy()
        self.rate /= 2
        return before - self.nbytes

    def _hand_over(self, kept: set[int]) -> None:
        """What one launch said of memory is of the work: another one has it when that is let go of."""
        told = next((run for n, (_, run) in enumerate(self.runs) if run.counters and n not in kept), None)
        heir = next((self.runs[n][1] for n in sorted(kept) if self.runs[n][1].probed), None)
        if told is not None and heir is not None:
            heir.counters, heir.notes = told.counters, told.notes


def _floor_ns(clock: ClockSource) -> float:
    """What a record costs at the least. A launch does not wait for a clock whose rate is still being measured."""
    quick = getattr(clock, "floor_ns", None)
    return quick() if quick is not None else clock.floor_ticks() * 1e9 / clock.hz()
