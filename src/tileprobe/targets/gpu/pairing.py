"""What each wait of a kernel waits for, and in which iteration that was issued.

In comes a kernel of final TTGIR; its scalar part is run (`scalar_run`), and the events tell which issue belongs to
which wait. Out go the ends of each asynchronous operation with their logical iterations, which software pipelining
has moved apart: constant differences, found from the run and checked over all of it. What does not come out constant is
left alone, and is then a wait by itself.

How an end is found: copies of `cp.async` by their tokens, or in groups by how many may be under way; what completes an
mbarrier (TMA, tensor cores of Blackwell, arrivals of another partition) by the barrier and how often it was completed;
wgmma and TMA stores by how many of them may be under way after the wait; loads that are put into shared memory behind
other work (`fetched`) by their values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.ir import Operation

from tileprobe.ir.accessors import attr_value, bool_attr, op_name
from tileprobe.ir.layout import behind, from_end
from tileprobe.targets.gpu.events import ARRIVALS, BARRIER_WAIT, EXPECT, TMA_LOADS, Event, Place
from tileprobe.targets.gpu.fetched import LOADS, READS, STORES, Fetched, fetched, fetches
from tileprobe.targets.gpu.scalar_run import TWO_SIZES, Run, run_scalars

_COPIES = ("ttg.async_copy_global_to_local", "amdg.buffer_load_to_local", "ttg.async_copy_local_to_global")
_COMMIT = "ttg.async_commit_group"
_GROUP, _GROUP_WAIT = "group", "ttg.async_wait"
_TOKEN_WAITS = (_GROUP_WAIT, "amdg.async_wait")
_TMA_STORES = ("ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce", "ttng.async_tma_scatter")
# Ops that are awaited in the order of issue, by how many may still be under way.
_QUEUES = {"ttng.warp_group_dot_wait": ("ttng.warp_group_dot",), "ttng.async_tma_store_wait": _TMA_STORES}
_NAMES = {"ttng.arrive_barrier": "release", "ttng.tc_gen5_commit": "dot", "ttng.warp_group_dot": "async dot"}
_WANTED = frozenset(
    [*_COPIES, _COMMIT, *_TOKEN_WAITS, *TMA_LOADS, *_TMA_STORES, *ARRIVALS, EXPECT, BARRIER_WAIT, *_QUEUES]
) | {"ttng.warp_group_dot"}


@dataclass(frozen=True)
class End:
    """One end of an asynchronous operation: its logical iteration is that of the loop around it plus `ahead`, or
    `ahead` itself for what was peeled off a loop, from its end when negative. `issue` is the op in the loop."""

    key: Hashable
    name: str
    issue: Operation
    ahead: int = 0
    peeled: Operation | None = None


@dataclass(frozen=True)
class _Met:
    """An issue and the wait that found it done; `rank` tells apart what one wait waits for at once."""

    issue: Event
    wait: Event
    rank: Hashable


_Ends = dict[Operation, tuple[End, ...]]


class Pairs:
    """The asynchronous operations of a kernel: for each op the ends that it is."""

    def __init__(self, kernel: Operation) -> None:
        self.issues: _Ends = {}
        self.waits: _Ends = {}
        self.beyond: dict[Operation, int] = {}  # iterations that were peeled off the end of a loop
        wanted = _WANTED | ({*LOADS, *STORES, *READS} if fetches(kernel) else frozenset())
        if not any(op_name(op) in wanted for op in kernel.walk()):
            return
        runs = [run_scalars(kernel, lambda op: op_name(op) in wanted, sizes) for sizes in TWO_SIZES]
        found, other = (_found(run) for run in runs)
        agreed = [key for key, ends in found.items() if other.get(key) == ends]
        self.beyond |= fetched(runs[0]).beyond
        for issues, waits in (found[key] for key in agreed):
            for table, ends in ((self.issues, issues), (self.waits, waits)):
                for op, end in ends:
                    table[op] = (*table.get(op, ()), end)
                    if end.peeled is not None and from_end(end.ahead) >= 0 > end.ahead:
                        more = from_end(end.ahead) + 1
                        self.beyond[end.peeled] = max(more, self.beyond.get(end.peeled, 0))


_Found = list[tuple[Operation, End]]


def _found(run: Run) -> dict[Hashable, tuple[_Found, _Found]]:
    """By their keys the ends of each operation, in the loop and peeled off it."""
    loaded = fetched(run)
    met = [*_by_token(run), *_by_group(run), *_by_barrier(run), *_by_queue(run)]
    met += [_Met(load, store, 0) for load, store in loaded.met]
    found = [_Shifts(together, run, loaded) for together in _groups(met)]
    return {shifts.key: shifts.ends() for shifts in found}


# -- who met whom -----------------------------------------------------------------------------------------------


def _by_token(run: Run) -> list[_Met]:
    """Copies of groups, by the tokens that a wait is given."""
    found = []
    for wait in run.events:
        if op_name(wait.op) not in _TOKEN_WAITS:
            continue
        rank = 0
        for group in wait.values:
            if not isinstance(group, Event) or op_name(group.op) != _COMMIT:
                continue
            for copy in group.values:
                if isinstance(copy, Event) and op_name(copy.op) in _COPIES:
                    found.append(_Met(copy, wait, rank))
                    rank += 1
    return found


def _by_group(run: Run) -> list[_Met]:
    """The same in a kernel whose waits have no tokens, as Gluon's: they say how many groups may be under way."""
    found: list[_Met] = []
    if any(op_name(event.op) in _TOKEN_WAITS and event.values for event in run.events):
        return found
    begun: dict[int, list[Event]] = defaultdict(list)
    groups: dict[int, list[list[Event]]] = defaultdict(list)
    for event in run.events:
        name, stream = op_name(event.op), event.stream
        if name in _COPIES:
            begun[stream].append(event)
        elif name == _COMMIT:
            groups[stream].append(begun.pop(stream, []))
        elif name == _GROUP_WAIT:
            last = max(0, len(groups[stream]) - int(attr_value(event.op, "num") or 0))
            done, groups[stream] = groups[stream][:last], groups[stream][last:]
            for n, group in enumerate(reversed(done)):
                found += [_Met(copy, event, (_GROUP, n, rank)) for rank, copy in enumerate(group)]
    return found


def _by_barrier(run: Run) -> list[_Met]:
    """What completes a barrier the n-th time, and those who wait for that."""
    completed: dict[tuple[Place, int], list[Event]] = defaultdict(list)
    for event in run.events:
        if op_name(event.op) not in (BARRIER_WAIT, EXPECT):
            for at in event.numbers:
                completed[at].append(event)
    found = []
    for wait in run.events:
        if op_name(wait.op) != BARRIER_WAIT or not wait.numbers:
            continue
        ranks: Counter[str] = Counter()
        for event in completed[wait.numbers[0]]:
            sort = f"{event.stream} {op_name(event.op)}"
            found.append(_Met(event, wait, (wait.numbers[0][0].root, sort, ranks[sort])))
            ranks[sort] += 1
    return found


def _by_queue(run: Run) -> list[_Met]:
    """What is awaited in order: a wait that leaves p of them under way ends all before."""
    found = []
    under_way: dict[tuple[int, str], list[Event]] = defaultdict(list)
    for event in run.events:
        name = op_name(event.op)
        for wait, issues in _QUEUES.items():
            queue = under_way[event.stream, wait]
            if name in issues and (name != "ttng.warp_group_dot" or bool_attr(event.op, "isAsync")):
                queue.append(event)
            elif name == wait:
                left = int(attr_value(event.op, "pendings") or 0)
                done, queue[:] = queue[: len(queue) - left], queue[len(queue) - left :]
                found += [_Met(issue, event, (wait, n)) for n, issue in enumerate(reversed(done))]
    return found


# -- constant differences ---------------------------------------------------------------------------------------


def _groups(met: list[_Met]) -> list[list[_Met]]:
    """Pairs that are the same operation, at different times: connected by their ops, and of the same rank."""
    leader: dict[Hashable, Hashable] = {}

    def find(node: Hashable) -> Hashable:
        while leader.setdefault(node, node) != node:
            node = leader[node]
        return node

    for pair in met:
        leader[find(("issue", pair.issue.op, _sort(pair)))] = find(("wait", pair.wait.op, pair.rank))
    groups: dict[Hashable, list[_Met]] = defaultdict(list)
    for pair in met:
        groups[find(("wait", pair.wait.op, pair.rank))].append(pair)
    return list(groups.values())


def _sort(pair: _Met) -> Hashable:
    """An op that completes two barriers is two operations."""
    return pair.rank[0] if isinstance(pair.rank, tuple) else None


_Logical = tuple[int, Operation | None]
_SIDES = ("issue", "wait")


class _Shifts:
    """The logical iterations of one operation's ends."""

    def __init__(self, met: list[_Met], run: Run, loaded: Fetched) -> None:
        self.met, self.run, self.loaded = met, run, loaded
        looped = [pair.issue.op for pair in met if pair.issue.loops]
        self.issue = looped[0] if looped else met[0].issue.op
        self.name = _NAMES.get(op_name(self.issue)) or _plain_name(self.issue)
        self.key: Hashable = (self.issue, met[0].rank)
        # How many loops its iterations are counted in. An end in fewer of them was peeled off the innermost one.
        self.depth = max(len(event.loops) for pair in met for event in (pair.issue, pair.wait))

    def ends(self) -> tuple[list[tuple[Operation, End]], list[tuple[Operation, End]]]:
        between = self._differences()
        if between is None:
            return [], []
        aheads = self._aheads(between)
        said: dict[tuple[str, Event], _Logical] = {}
        for pair in self.met:
            for side, event, found in zip(_SIDES, (pair.issue, pair.wait), self._logical(pair, aheads)):
                if found is not None:
                    said.setdefault((side, event), found)
        for pair in self.met:  # what is outside of the loop knows its iteration from the other end
            start, stop = said.get(("issue", pair.issue)), said.get(("wait", pair.wait))
            if not self._inside(pair.issue):
                said.setdefault(("issue", pair.issue), stop or (0, None))
            if not self._inside(pair.wait):
                said.setdefault(("wait", pair.wait), start or stop or (0, None))
        tables: dict[str, dict[tuple[Operation, _Logical], End]] = {side: {} for side in _SIDES}
        for (side, event), found in said.items():
            if found[1] is not None or self._inside(event) or not aheads:
                tables[side][event.op, found] = End(self.key, self.name, self.issue, *found)
        issues, waits = ([(op, end) for (op, _), end in tables[side].items()] for side in _SIDES)
        return issues, waits

    def _inside(self, event: Event) -> bool:
        return bool(event.loops) and len(event.loops) == self.depth

    def _differences(self) -> dict[tuple[Operation, Operation], int] | None:
        """Iterations from an issue in a loop to its wait in a loop; None when they are not constant."""
        seen: dict[tuple[Operation, Operation], Counter[int]] = defaultdict(Counter)
        for pair in self.met:
            if self._inside(pair.issue) and self._inside(pair.wait) and _same_outer(pair):
                seen[pair.issue.op, pair.wait.op][pair.wait.iteration - pair.issue.iteration] += 1
        found = {}
        for ops, counts in seen.items():
            value, often = counts.most_common(1)[0]
            if often < sum(counts.values()):
                return None
            found[ops] = value
        return found

    def _aheads(self, between: dict[tuple[Operation, Operation], int]) -> dict[Operation, int]:
        """What is copied belongs to the iteration that uses it: that of the last wait. All else belongs to the
        iteration that issues it."""
        if not between:
            return {}
        copied = op_name(self.issue) in (*_COPIES, *TMA_LOADS, *LOADS)
        longest = max(max(between.values()), 0) if copied else 0
        longest += max(self.loaded.distance.get(wait, 0) for _, wait in between)
        aheads: dict[Operation, int] = {}
        for (issue, wait), difference in sorted(between.items(), key=lambda item: -item[1]):
            if issue not in aheads:
                aheads[issue] = aheads[wait] + difference if wait in aheads else longest
            aheads.setdefault(wait, aheads[issue] - difference)
        return aheads

    def _logical(self, pair: _Met, aheads: dict[Operation, int]) -> tuple[_Logical | None, _Logical | None]:
        """(ahead, peeled) of both ends; None for an end that this pair does not tell."""
        start, stop = pair.issue, pair.wait
        here = aheads.get(start.op, 0), aheads.get(stop.op, 0)
        if len(start.loops) == len(stop.loops):
            return ((here[0], None), (here[1], None)) if self._inside(start) else (None, None)
        beside = start.stream == stop.stream
        if len(start.loops) == len(stop.loops) - 1:  # before the loop
            iteration = stop.iteration + here[1]
            known = beside and iteration >= 0
            return ((iteration, stop.loop) if known else None), (here[1], None)
        if len(stop.loops) == len(start.loops) - 1 and start.loop is not None:  # behind it
            trips = self.run.trips
            left = start.iteration + here[0] - trips[start.loop]
            # Another stream knows the end of a loop of its own, if it runs as often.
            ended = start.loop if beside else stop.finished
            known = ended is not None and trips[ended] == trips[start.loop]
            if left >= 0:  # iterations that were peeled off the end; in groups also what was masked off
                known, left = known and _sort(pair) != _GROUP, behind(left)
            return (here[0], None), ((left, ended) if known else None)
        return None, None


def _same_outer(pair: _Met) -> bool:
    start, stop = pair.issue.loops, pair.wait.loops
    return len(start) == len(stop) and [n for _, n in start[:-1]] == [n for _, n in stop[:-1]]


def _plain_name(op: Operation) -> str:
    name = op_name(op)
    if name in TMA_LOADS:
        return "TMA load"
    if name in _TMA_STORES:
        return "TMA store"
    if name in LOADS:
        return "load"
    return "dot" if "mma" in name else "async copy"
