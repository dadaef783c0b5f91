"""Between launches and sessions: decides for every launch which variant runs and who gets its records.

All sessions that are on share one manager. Nested sessions that want launches recorded alike share their records, made
with the plans of all of them together. Where they want them otherwise, a launch is recorded as one of them asks: the
innermost that has nothing of that work yet, then one that is drawn. For the others it has run, and no more: what they
read is what they asked for. One that would be left with nothing borrows what there is, and says so.
"""

from __future__ import annotations

import random
import threading
import time
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from tileprobe.session import hooks
from tileprobe.session.flights import Alone, Flight, Looking
from tileprobe.session.places import Places
from tileprobe.session.recorded import Ready, Recorded, Watch
from tileprobe.session.works import LEFT_OUT, LIGHT, PLAIN, PROBED, Compiled, Work, records
from tileprobe.targets.base import Kernel, Target, Variant

if TYPE_CHECKING:
    from tileprobe.session.session import Session


_LAST_LAUNCHES_S = 10.0  # a session that ends waits so long for launches of other threads


class Manager:
    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.variants: dict[Any, Variant | None] = {}  # of kernels, by pipeline; None: could not be probed
        self.places: dict[int, Places] = {}  # by layout
        self.clocks: dict[int, Target] = {}  # targets whose clocks have been started
        self.lock = threading.RLock()
        self.idle = threading.Condition(self.lock)
        self.flights: set[Flight | Alone] = set()  # launches under way
        self.leaving = 0  # sessions that wait for them
        self.draw = random.Random(0)
        self.company: frozenset[int] = frozenset()  # what the sessions that are on probe
        self.only: Session | None = None  # where one is on

    # -- sessions --------------------------------------------------------------------------------------------

    def enter(self, session: Session) -> None:
        with self.lock:
            if not self.sessions:
                hooks.install(self.observe, self.passed_by)
            self.sessions.append(session)
            self._company()

    def _company(self) -> None:
        self.company = frozenset(session.made_with for session in self.sessions)
        self.only = self.sessions[0] if len(self.sessions) == 1 else None
        for session in self.sessions:
            session.forget()

    def leave(self, session: Session) -> None:
        """No launch is looked at from here on; those of other threads that are under way are waited for."""
        with self.lock:
            if session not in self.sessions:
                return
            self.sessions.remove(session)
            session.forget()
            self._company()
            if not self.sessions:
                hooks.remove()
            me = threading.get_ident()
            self.leaving += 1
            self.idle.wait_for(
                lambda: not any(f.thread != me and f.concerns(session) for f in self.flights),
                _LAST_LAUNCHES_S,
            )
            self.leaving -= 1
            if not self.sessions:
                self.variants.clear()
                self.places.clear()

    def forked(self) -> None:
        """In a forked child: a thread that does not exist there may have held the lock, or be in a launch."""
        self.lock = threading.RLock()
        self.idle = threading.Condition(self.lock)
        self.flights.clear()
        self.leaving = 0

    # -- launches --------------------------------------------------------------------------------------------

    def observe(
        self, kernel: Kernel, grid: tuple[int, int, int], plain: int, arguments: tuple[Any, ...] = (), /
    ) -> Watch | None:
        """Asked by the launcher before each launch."""
        began = time.perf_counter_ns()
        if hooks.local.tuning:
            return None
        hooks.watch_tuning()
        with self.lock:
            session = self.only
            work = None if session is None else session.again(kernel, grid, arguments)
            if session is None or work is None:
                looking = self._looking(kernel, grid, arguments)
            else:
                dose = session.draw(work)
                if dose == LEFT_OUT:
                    return None
                watch = self._alone(session, work, dose, grid, plain, began)
                if watch is not None:
                    return watch
                looking = [Looking(session, work, dose)]
            if all(one.dose == LEFT_OUT for one in looking):
                return None
            wanting = [one for one in looking if records(one.dose)]
            flight = Flight(self._landed, looking)
            watch = self._recorded(kernel, grid, plain, flight, wanting, began) if wanting else None
            self.flights.add(flight)
            return watch or Watch(kernel, grid, flight)

    def _looking(
        self, kernel: Kernel, grid: tuple[int, int, int], arguments: tuple[Any, ...]
    ) -> list[Looking]:
        """All sessions that look at a launch, each with what it drew for it."""
        found = []
        for session in self.sessions:
            work = session.saw(kernel, grid, arguments, self.company)
            if work is not None:
                found.append(Looking(session, work, session.draw(work)))
        return found

    def _alone(
        self, session: Session, work: Work, dose: int, grid: tuple[int, int, int], plain: int, began: int
    ) -> Watch | None:
        """The short way, for a launch that repeats one before while a single session is on; None where something has
        to be made first."""
        if dose == PLAIN:
            flight = Alone(self._landed_alone, session, work)
            self.flights.add(flight)
            return Watch(work.kernel, grid, flight)
        compiled = work.compiled.get(_copies(dose))
        if compiled is None or compiled.places is None:
            return None
        ready = self._ready(session, work, dose, compiled.places, grid, plain)
        flight = Alone(self._landed_alone, session, work, compiled.probed)
        try:
            watch = Watch(
                work.kernel, grid, flight, compiled.variant, dose=_copies(dose), light=dose == LIGHT,
                room=session.intervals, ready=ready, began_ns=began,
            )  # fmt: skip
        except Exception as error:  # no memory for records
            self._say(work.kernel, [session], error)
            return None
        work.began(dose)
        self.flights.add(flight)
        return watch

    def _landed_alone(self, flight: Alone, recorded: Recorded | None) -> None:
        """A launch is over at which one session looked."""
        with self.lock:
            self.flights.discard(flight)
            if self.leaving:
                self.idle.notify_all()
            if recorded is None:
                return
            session, work = flight.session, flight.work
            if recorded.dose == PROBED and not recorded.light:
                work.learn(recorded)
            if session.choice.auto:
                work.settle(recorded, session.max_overhead)
            session.add(work, flight.variant, recorded)

    def passed_by(self, name: str, why: str) -> None:
        """A launch that its launcher could not show."""
        with self.lock:
            for session in self.sessions:
                session.passed_by(name, why)

    def _recorded(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        plain: int,
        flight: Flight,
        wanting: list[Looking],
        began: int,
    ) -> Watch | None:
        """A launch with records; None if there can be none."""
        leader = self._leader(wanting)
        compiled = self._compiled_for(kernel, flight.looking, leader)
        flight.variant, variant = compiled.probed, compiled.variant
        if variant is None:
            return None
        session, work = leader.session, leader.work
        try:
            ready = None
            if compiled.places is not None:
                ready = self._ready(session, work, leader.dose, compiled.places, grid, plain)
            watch = Watch(
                kernel, grid, flight, variant, dose=_copies(leader.dose), light=leader.dose == LIGHT,
                room=session.intervals, ready=ready, began_ns=began,
            )  # fmt: skip
        except Exception as error:  # no memory for records
            self._say(kernel, [one.session for one in flight.looking], error)
            return None
        flight.led_by(leader)
        sharing = flight.sharing()
        watch.accesses = any(own.plan.accesses and mine.asks for own, mine in sharing)
        watch.units = any(own.plan.units for own, _ in sharing)
        for _, mine in sharing if watch.accesses else ():
            mine.asks = False
        return watch

    def _ready(
        self, session: Session, work: Work, dose: int, places: Places, grid: tuple[int, int, int], plain: int
    ) -> Ready:
        programs = grid[0] * grid[1] * grid[2]
        blocks = session.budget.blocks(work, places.layout.block_bytes)
        if dose == LIGHT:
            return work.light(places, programs, plain, blocks)
        return work.ready(session.choice, places, programs, plain, blocks)

    def _leader(self, wanting: list[Looking]) -> Looking:
        """The one as whose a launch is recorded: the innermost that has no launch yet with each record written once,
        which is what this one is then; or else one that is drawn."""
        first = [one for one in wanting if one.work.begins]
        if first:
            return first[-1]._replace(dose=PROBED)
        return wanting[0] if len(wanting) == 1 else self.draw.choice(wanting)

    def _compiled_for(self, kernel: Kernel, looking: list[Looking], leader: Looking) -> Compiled:
        """The kernel as it runs; found at once where all sessions that are on look at it, as they mostly do."""
        dose = _copies(leader.dose)
        known = leader.work.compiled.get(dose)
        everybody = len(looking) == len(self.sessions)
        if known is not None and everybody:
            return known
        sessions = [one.session for one in looking]
        if not self._started(kernel, sessions):
            return Compiled()
        probed = self._variant(kernel, sessions, leader.session, PROBED)
        variant = probed
        if dose != PROBED and probed is not None:
            variant = self._variant(kernel, sessions, leader.session, dose)
        layout = None if variant is None else variant.layout
        if layout is None and kernel.target.takes == "record":
            variant = None  # there is nothing to probe in it
        if layout is not None and id(layout) not in self.places:
            self.places[id(layout)] = Places(layout)
        found = Compiled(probed, variant, None if layout is None else self.places[id(layout)])
        if everybody:
            leader.work.compiled[dose] = found
        return found

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

    def _variant(self, kernel: Kernel, sessions: list[Session], leader: Session, dose: int) -> Variant | None:
        """The kernel with the probes of all these sessions, compiled when it is first asked for; records are as the
        leader has them."""
        key = (
            kernel.machine,
            kernel.key,
            dose,
            leader.made_with,
            *(session.made_with for session in sessions),
        )
        if key not in self.variants:
            target = kernel.target
            text = reduce(or_, (session.plan for session in sessions)).pipeline(
                target.structure,
                level=target.takes,
                capacity=leader.capacity,
                copies=dose,
                records={**target.records, **leader.records},
            )
            self.variants[key] = self._compiled(kernel, text, sessions)
        return self.variants[key]

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

    def _landed(self, flight: Flight, recorded: Recorded | None) -> None:
        """A launch is over: what it left goes to those whose it is."""
        with self.lock:
            self.flights.discard(flight)
            if self.leaving:
                self.idle.notify_all()
            if recorded is None:
                return
            leader = flight.leader
            if leader is not None and recorded.dose == PROBED and not recorded.light:
                leader.work.learn(recorded)
            for session, work in flight.sharing():
                if leader is not None and work is not leader.work:
                    work.follow(leader.work)
                elif session.choice.auto:
                    work.settle(recorded, session.max_overhead)
                session.add(work, flight.variant, recorded)
            for session, work in flight.borrowing():
                session.borrow(work, flight.variant, recorded)


def _copies(dose: int) -> int:
    """How often each record is written."""
    return PROBED if dose == LIGHT else dose


manager = Manager()
