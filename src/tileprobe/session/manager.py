"""Between launches and sessions: decides for every launch which variant runs and who gets its records.

All sessions that are on share one manager. Nested sessions that want the same launch share its records, made
with the plans of all of them together.
"""

from __future__ import annotations

import threading
from functools import reduce
from typing import TYPE_CHECKING, Any

from tileprobe.session import hooks
from tileprobe.session.recorded import Recorded, Watch
from tileprobe.session.works import PLAIN, PROBED, Work
from tileprobe.targets.base import Kernel, Target, Variant

if TYPE_CHECKING:
    from tileprobe.session.session import Session


_THINNED = 4  # launches from which a work learns how many programs to leave out


class Manager:
    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.works: dict[Any, Work] = {}
        self.clocks: dict[int, Target] = {}  # targets whose clocks have been started
        self.lock = threading.RLock()

    # -- sessions --------------------------------------------------------------------------------------------

    def enter(self, session: Session) -> None:
        with self.lock:
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

    def observe(self, kernel: Kernel, grid: tuple[int, int, int], plain: int) -> Watch | None:
        """Asked by the launcher before each launch."""
        if hooks.local.tuning:
            return None
        hooks.watch_tuning()
        with self.lock:
            found = [session for session in self.sessions if session.selects(kernel.name)]
            if not found:
                return None
            key = (kernel.machine, kernel.key, grid, tuple(map(id, found)))
            work = self.works.setdefault(key, Work(kernel, grid))
            dose = work.next_dose(all(session.alternate for session in found))
            if dose != PLAIN and all(session.spent() for session in found):
                dose = PLAIN
            return self._watch(work, found, dose, plain)

    def _watch(self, work: Work, sessions: list[Session], dose: int, plain: int) -> Watch:
        """Of nested sessions the outermost chooses; the others say so if they would have chosen otherwise."""
        kernel, grid, first = work.kernel, work.grid, sessions[0]
        for session in sessions[1:]:
            if session.choices() != first.choices():
                session.problems[""] = (
                    "recorded as the session around this one asks: programs, iterations, records and room are its"
                )

        def done(recorded: Recorded) -> None:
            self._done(work, sessions, recorded)

        variant = (
            None
            if dose == PLAIN or not self._started(kernel, sessions)
            else self._variant(work, sessions, dose)
        )
        if variant is None or (variant.layout is None and kernel.target.takes == "record"):
            return Watch(kernel, grid, done)
        sampling = None
        if variant.layout is not None:
            programs = grid[0] * grid[1] * grid[2]
            sampling = first.choice.sampling(programs, work.recorded, work.stride)
            sampling = sampling.within(variant.layout, programs, first.launch_bytes)
        try:
            watch = Watch(kernel, grid, done, variant, sampling, dose=dose, plain=plain, room=first.intervals)
        except Exception as error:  # no memory for records
            self._say(kernel, sessions, error)
            return Watch(kernel, grid, done)
        work.recorded += 1
        return watch

    def _started(self, kernel: Kernel, sessions: list[Session]) -> bool:
        """Whether the target's clock runs; it is started when it is first needed."""
        target = kernel.target
        if id(target) not in self.clocks:
            try:
                target.clock.start()
            except Exception as error:
                self._say(kernel, sessions, error)
                return False
            self.clocks[id(target)] = target
        return True

    def _say(self, kernel: Kernel, sessions: list[Session], error: Exception) -> None:
        """What cannot be probed is not: the user's program goes on, and the report says why."""
        for session in sessions:
            session.problems[kernel.name] = f"{kernel.name} could not be probed: {error}"

    def _variant(self, work: Work, sessions: list[Session], dose: int) -> Variant | None:
        """The kernel with the probes of all these sessions; compiled when it is first asked for."""
        if dose not in work.variants:
            plan = reduce(lambda a, b: a | b, (session.plan for session in sessions))
            capacity = max(session.capacity for session in sessions)
            target = work.kernel.target
            records = {**target.records, **sessions[0].records}
            text = plan.pipeline(
                target.structure, level=target.takes, capacity=capacity, copies=dose, records=records
            )
            work.variants[dose] = self._compiled(work.kernel, text, sessions)
        return work.variants[dose]

    def _compiled(self, kernel: Kernel, pipeline: str, sessions: list[Session]) -> Variant | None:
        try:
            with sessions[-1].progress.compiling(kernel.name):
                variant = kernel.compile(pipeline)
            if variant.layout is not None:
                kernel.target.capabilities.check(variant.layout, kernel.machine)
            return variant
        except Exception as error:
            self._say(kernel, sessions, error)
            return None

    def _done(self, work: Work, sessions: list[Session], recorded: Recorded) -> None:
        with self.lock:
            variant = work.variants.get(PROBED)
            fresh = recorded.dose == PROBED and work.recorded <= _THINNED
            if fresh and sessions[0].choice.auto and recorded.words is not None:
                self._thin(work, sessions[0], recorded)
            if variant is None:
                return  # not probed: a plain launch alone says nothing
            for session in sessions:
                session.add(work.kernel, variant, recorded, calibration=recorded.dose > PROBED)

    def _thin(self, work: Work, session: Session, recorded: Recorded) -> None:
        assert recorded.words is not None
        target = work.kernel.target
        cost_ns = target.clock.floor_ticks() * 1e9 / target.clock.hz()
        busy_ns = recorded.duration_ns * min(target.workers(), max(recorded.programs, 1))
        work.thin(recorded.kept(), len(recorded.words), cost_ns, busy_ns, session.max_overhead)


manager = Manager()
