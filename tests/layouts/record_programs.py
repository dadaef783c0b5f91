"""Random structured programs, and the layout of their records.

A program is a list of streams, each with its number of instances and a tuple of nodes. Regions, loops and slots
are numbered over the whole program; a slot is found by the region and the role of its record.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from tileprobe.ir.layout import Body, Layout, Span, Stamp, StreamItems, allocate


@dataclass(frozen=True)
class Stage:
    region: int
    payload: str = ""


@dataclass(frozen=True)
class If:
    salt: int
    body: tuple


@dataclass(frozen=True)
class For:
    loop: int
    region: int
    capacity: int
    trip: int
    vary: int  # trip counts differ by up to this much from run to run
    body: tuple
    counted: bool = True


@dataclass(frozen=True)
class Pipe:
    """A software-pipelined loop. An operation is issued `before` iterations before the loop reaches it, the first
    ones by copies in front of the loop; it is waited for `behind` iterations later, the last ones by copies
    behind the loop."""

    loop: int
    region: int
    wait_region: int
    capacity: int
    trip: int
    vary: int
    before: int
    behind: int
    issue_first: bool
    body: tuple = ()


@dataclass(frozen=True)
class Send:
    """The producer's half of a pair across streams, perhaps in a loop; `copies` stand in front of its loop."""

    loop: int
    outer: int  # -1: none
    region: int
    capacity: int
    trip: int
    rounds: int
    ahead: int
    copies: int


@dataclass(frozen=True)
class Receive:
    loop: int
    outer: int
    region: int
    capacity: int
    trip: int
    rounds: int
    ahead: int


@dataclass(frozen=True)
class Part:
    """A stream of a program."""

    instances: int
    nodes: tuple


@dataclass
class _Maker:
    draw: object
    uniform: bool
    roomy: bool
    depth: int
    circular: bool
    pipes: bool
    counts: dict = field(default_factory=lambda: {"region": 0, "loop": 0})

    def fresh(self, what):
        self.counts[what] += 1
        return self.counts[what] - 1

    def some(self, low, high):
        return self.draw(st.integers(low, high))

    def capacity(self):
        return 12 if self.roomy else self.some(1, 5)

    def body(self, level, cursor, looped):
        return tuple(self.node(level, cursor, looped) for _ in range(self.some(1, 3)))

    def node(self, level, cursor, looped):
        kinds = ["stage"]
        if level < self.depth:
            kinds += ["for"] if self.uniform else ["for", "while", "if"]
            kinds += ["pipe", "pipe"] if self.pipes else []
        kind = self.draw(st.sampled_from(kinds))
        if kind == "stage":
            return Stage(self.fresh("region"), self.draw(st.sampled_from(["", "", "i64", "f64"])))
        if kind == "if":
            inside = cursor or (self.circular and looped)
            return If(self.some(0, 99), self.body(level + 1, inside, looped))
        vary = 0 if self.uniform else self.some(0, 2)
        if kind == "pipe":
            return self.pipe(level, cursor, vary)
        loop, region = self.fresh("loop"), self.fresh("region")
        capacity, trip = self.capacity(), self.some(0, 6)
        body = self.body(level + 1, cursor or kind == "while", True)
        return For(loop, region, capacity, trip, vary, body, kind == "for")

    def pipe(self, level, cursor, vary):
        loop, region, wait = self.fresh("loop"), self.fresh("region"), self.fresh("region")
        before, behind = self.some(0, 3), 0 if cursor else self.some(0, 2)
        issue_first = before + behind == 0 or self.draw(st.booleans())
        body = self.body(self.depth, cursor, True) if self.draw(st.booleans()) else ()
        capacity, trip = self.capacity(), self.some(0, 6)
        return Pipe(loop, region, wait, capacity, trip, vary, before, behind, issue_first, body)

    def across(self):
        """A producer and a consumer that never saw each other's loops."""
        region, ahead, nested = self.fresh("region"), self.some(0, 2), self.draw(st.booleans())
        made = []
        for kind, more in ((Send, (self.some(0, ahead),)), (Receive, ())):
            outer = self.fresh("loop") if nested else -1
            loop, rounds = self.fresh("loop"), self.some(1, 3) if nested else 1
            shift = ahead if kind is Send else self.some(0, 2)
            made.append(kind(loop, outer, region, self.capacity(), self.some(0, 5), rounds, shift, *more))
        return made


@st.composite
def programs(
    draw, uniform=False, roomy=False, depth=3, streams=3, pipes=True, circular=False, all_cursor=False
):
    """A uniform program has no branches and constant trip counts; in a roomy one everything fits."""
    make = _Maker(draw, uniform, roomy, depth, circular, pipes)
    count = draw(st.integers(1, streams))
    nodes = [list(make.body(0, all_cursor, False)) for _ in range(count)]
    instances = [draw(st.sampled_from([1, 1, 2])) for _ in nodes]
    if count > 1 and not all_cursor and draw(st.booleans()):
        for part, node in zip(nodes, make.across()):
            part.append(node)
    return [Part(n, tuple(part)) for n, part in zip(instances, nodes)]


@dataclass
class Laid:
    """A program with its layout, and the slot of each (region, role)."""

    program: list
    layout: Layout
    slots: dict


class _Layer:
    def __init__(self):
        self.slots, self.spans = {}, []

    def stamp(self, region, role, branch, payload=""):
        return Stamp(self.slots.setdefault((region, role), len(self.slots)), payload, branch)

    def items(self, nodes, branch=False):
        for node in nodes:
            yield from getattr(self, type(node).__name__.lower())(node, branch)

    def stage(self, node, branch):
        start = self.stamp(node.region, "start", branch, node.payload)
        stop = self.stamp(node.region, "stop", branch)
        self.spans.append(Span(node.region, start.slot, stop.slot))
        yield from (start, stop)

    # `if` and `for` are words of Python
    def __getattr__(self, name):
        return {"if": self.branches, "for": self.loop}[name]

    def branches(self, node, branch):
        yield from self.items(node.body, True)

    def loop(self, node, branch):
        start = self.stamp(node.region, "start", branch)
        yield start
        yield Body(node.loop, node.capacity, tuple(self.items(node.body)), node.counted, branch)
        stop = self.stamp(node.region, "stop", branch)
        self.spans.append(Span(node.region, start.slot, stop.slot))
        yield stop

    def pipe(self, node, branch):
        issues, waits = [], []  # (slot, ahead, peeled), (wait, done, ahead, peeled)
        for n in range(node.before):
            issue = self.stamp(node.region, ("issue", n), branch)
            issues.append((issue.slot, n, node.loop))
            yield issue
        issue = self.stamp(node.region, "issue", False)
        issues.append((issue.slot, node.before, -1))
        pair = [self.stamp(node.region, role, False) for role in ("wait", "done")]
        waits.append((pair[0].slot, pair[1].slot, -node.behind, -1))
        inner = tuple(self.items(node.body))
        body = (issue, *pair, *inner) if node.issue_first else (*pair, *inner, issue)
        yield Body(node.loop, node.capacity, body, True, branch)
        for n in range(-node.behind, 0):
            pair = [self.stamp(node.region, (role, n), branch) for role in ("wait", "done")]
            waits.append((pair[0].slot, pair[1].slot, n, node.loop))
            yield from pair
        for wait, done, ahead, peeled in waits:
            for slot, early, off in issues:
                self.spans.append(Span(node.region, slot, done, "async", early, off, ahead, peeled))
            self.spans.append(Span(node.wait_region, wait, done, "wait", ahead, peeled, ahead, peeled))

    def send(self, node, branch):
        copies = [self.stamp(node.region, ("issue", n), branch) for n in range(node.copies)]
        loop = Body(node.loop, node.capacity, (self.stamp(node.region, "issue", False),))
        yield from self._nested(node, (*copies, loop))

    def receive(self, node, branch):
        done = self.stamp(node.region, "done", False)
        yield from self._nested(node, (Body(node.loop, node.capacity, (done,)),))

    def _nested(self, node, items):
        if node.outer < 0:
            yield from items
        else:
            yield Body(node.outer, node.capacity, items)

    def across(self, program):
        """The spans between streams, when all slots are known."""
        nodes = {type(node): node for part in program for node in part.nodes}
        if Send not in nodes:
            return
        send, receive = nodes[Send], nodes[Receive]
        done = self.slots[send.region, "done"]
        ends = [(self.slots[send.region, ("issue", n)], n, send.loop) for n in range(send.copies)]
        for slot, ahead, peeled in (*ends, (self.slots[send.region, "issue"], send.ahead, -1)):
            self.spans.append(Span(send.region, slot, done, "async", ahead, peeled, receive.ahead))


def lay_out(program, *, clock_bits=64, cursor_capacity=40, all_cursor=False, strategy="exact"):
    layer = _Layer()
    parts = [
        StreamItems(tuple(layer.items(part.nodes)), f"partition {n}", part.instances, all_cursor)
        for n, part in enumerate(program)
    ]
    layer.across(program)
    layout = allocate(
        parts,
        spans=layer.spans,
        clock_bits=clock_bits,
        cursor_capacity=cursor_capacity,
        granularity="warp",
        strategy=strategy,
    )
    return Laid(program, layout, layer.slots)
