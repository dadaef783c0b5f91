"""Between launches and sessions: decides for every launch which variant runs and who gets its records.

All sessions that are on share one manager. Nested sessions that want the same launch share its records, made
with the plans of all of them together.
"""

from __future__ import annotations

import threading
from functools import reduce
from typing import TYPE_CHECKING, Any

from tileprobe.ir.mode import with_pipeline
from tileprobe.session import clock, hooks
from tileprobe.session.recorded import Recorded, Watch
from tileprobe.session.works import DOSED, PLAIN, PROBED, Variant, Work

if TYPE_CHECKING:
    from tileprobe.session.profile import Session


_THINNED = 4  # launches from which a work learns how many programs to leave out


class Manager:
    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.works: dict[Any, Work] = {}
        self.lock = threading.RLock()

    # -- sessions --------------------------------------------------------------------------------------------

    def enter(self, session: Session) -> None:
        with self.lock:
            clock.start()
            if not self.sessions:
                hooks.install(self.observe)
            self.sessions.append(session)
            self.works.clear()  # each session counts launches from its own start

    def leave(self, session: Session) -> None:
        with self.lock:
            self.sessions.remove(session)
            self.works.clear()
            if not self.sessions:
                hooks.remove()

    # -- launches --------------------------------------------------------------------------------------------

    def observe(self, launcher: Any, function: Any, grid: tuple[int, int, int]) -> Watch | None:
        """Asked by the launcher before each launch."""
        if hooks.local.tuning:
            return None
        hooks.watch_tuning()
        with self.lock:
            found = [session for session in self.sessions if session.selects(launcher, grid)]
            if not found or launcher.probing is not None:
                return None
            key = (id(launcher), grid, tuple(map(id, found)))
            work = self.works.setdefault(key, Work(launcher, grid))
            alternate = all(session.alternate for session in found)
            dose = work.next_dose(alternate)
            if dose != PLAIN and all(session.spent() for session in found):
                dose = PLAIN
            return self._watch(work, function, found, dose)

    def _watch(self, work: Work, function: Any, sessions: list[Session], dose: int) -> Watch:
        launcher, grid = work.launcher, work.grid

        def done(recorded: Recorded) -> None:
            self._done(work, sessions, recorded)

        if dose == PLAIN:
            return Watch(launcher, function, grid, done)
        variant = self._variant(work, sessions, dose)
        if variant.layout is None:
            return Watch(launcher, function, grid, done)
        kernel, first = variant.kernel, sessions[0]
        programs = grid[0] * grid[1] * grid[2]
        sampling = first.choice.sampling(programs, work.recorded, work.stride)
        work.recorded += 1
        sampling = sampling.within(variant.layout, programs, first.launch_bytes)
        return Watch(
            kernel.run, kernel.function, grid, done, variant.layout, sampling, dose, function, kernel
        )

    def _variant(self, work: Work, sessions: list[Session], dose: int) -> Variant:
        """The kernel with the probes of all these sessions; compiled when it is first asked for."""
        if dose not in work.variants:
            plan = reduce(lambda a, b: a | b, (session.plan for session in sessions))
            capacity = max(session.capacity for session in sessions)
            text = plan.pipeline("tile", capacity=capacity, copies=dose)
            mode = with_pipeline(work.launcher.metadata.instrumentation_mode, text)
            work.variants[dose] = self._compiled(work.launcher, mode, sessions)
        return work.variants[dose]

    def _compiled(self, launcher: Any, mode: str, sessions: list[Session]) -> Variant:
        """What cannot be probed is not: the user's program goes on, and the report says why."""
        try:
            with sessions[-1].progress.compiling(launcher.kernel):
                return Variant.of(hooks.compile_variant(launcher, mode))
        except Exception as error:
            for session in sessions:
                session.problems[launcher.kernel] = f"{launcher.kernel} could not be probed: {error}"
            return Variant(None, None, None)

    def _done(self, work: Work, sessions: list[Session], recorded: Recorded) -> None:
        with self.lock:
            variant = work.variants.get(PROBED)
            fresh = recorded.dose == PROBED and work.recorded <= _THINNED
            if fresh and sessions[0].choice.auto and recorded.words is not None:
                self._thin(work, sessions[0], recorded)
            for session in sessions:
                session.add(work, variant, recorded, calibration=recorded.dose == DOSED)

    def _thin(self, work: Work, session: Session, recorded: Recorded) -> None:
        from tileprobe.targets.cpu import pool

        assert recorded.words is not None
        kept, blocks = recorded.kept(), len(recorded.words)
        cost_ns = clock.floor_ticks() * 1e9 / clock.rate_hz()
        busy_ns = recorded.duration_ns * min(pool.current().threads, max(recorded.programs, 1))
        work.thin(kept, blocks, cost_ns, busy_ns, session.max_overhead)


manager = Manager()
