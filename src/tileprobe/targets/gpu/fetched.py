"""Loads into registers that are put into shared memory behind other work, or by a later iteration: how AMD's loops are
pipelined where there are no asynchronous copies.

In come the events of a kernel's scalar part; out go the loads with the stores that have to wait for them, and how many
iterations later it is read what a store put down, or what AMD's waits for asynchronous copies have let through.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.targets.gpu.events import Event, Place
from tileprobe.targets.gpu.scalar_run import Run

LOADS = ("tt.load", "amdg.buffer_load")
STORES = ("ttg.local_store",)
READS = ("ttg.local_load", "amdg.local_load_packed_tranposed")
_COPY_WAITS = ("ttg.async_wait", "amdg.async_wait")
_PRODUCTS = ("tt.dot", "tt.dot_scaled")


def fetches(kernel: Operation) -> bool:
    """Whether there may be such loads, or waits of AMD's."""
    module = kernel.parent_op()
    amd = module is not None and str(attr_value(module, "ttg.target") or "").startswith("hip")
    looked = (*STORES, *_COPY_WAITS) if amd else STORES
    return any(op_name(op) in looked for op in kernel.walk())


@dataclass
class Fetched:
    """Loads and the stores of their values; by store or wait the iterations until it is read; by loop how many more of
    those iterations are read behind it."""

    met: list[tuple[Event, Event]] = field(default_factory=list)
    distance: dict[Operation, int] = field(default_factory=dict)
    beyond: dict[Operation, int] = field(default_factory=dict)


def fetched(run: Run) -> Fetched:
    pairs = [
        (value, event)
        for event in run.events
        if op_name(event.op) in STORES
        for value in event.values[:1]
        if isinstance(value, Event) and op_name(value.op) in LOADS
    ]
    later = [pair for pair in pairs if _asynchronous(*pair)]
    loads, stores = ({pair[n].op for pair in later} for n in (0, 1))
    met = [(load, store) for load, store in pairs if load.op in loads or store.op in stores]
    return Fetched(met, *_read(run, stores))


def _asynchronous(load: Event, store: Event) -> bool:
    """Both in a loop, with other work in between: a product, or the end of an iteration."""
    if load.loop is None or load.loop is not store.loop:
        return False
    return load.iteration != store.iteration or _product_between(load.op, store.op)


def _product_between(load: Operation, store: Operation) -> bool:
    op = load.next_op
    while op is not None and op is not store:
        if op_name(op) in _PRODUCTS:
            return True
        op = op.next_op
    return False


def _read(run: Run, stores: set[Operation]) -> tuple[dict[Operation, int], dict[Operation, int]]:
    """By store or wait the iterations until what is then there is read, where that is always the same; by loop how many
    iterations' worth of stores is read behind it."""
    later: dict[Operation, Counter[int]] = defaultdict(Counter)
    behind: dict[Operation, int] = {}
    left: dict[Place, Event] = {}
    for event in run.events:
        if op_name(event.op) in (*STORES, *_COPY_WAITS):
            left.update((place, event) for place in _places(event))
        elif op_name(event.op) in READS and (store := _taken(left, event)):
            if store.loop is None:
                continue
            if store.loop is event.loop and store.loops[:-1] == event.loops[:-1]:
                later[store.op][event.iteration - store.iteration] += 1
            elif len(event.loops) < len(store.loops) and store.op in stores:
                more = run.trips[store.loop] - store.iteration
                behind[store.loop] = max(more, behind.get(store.loop, 0))
    distance = {store: next(iter(counts)) for store, counts in later.items() if len(counts) == 1}
    return distance, behind


def _taken(left: dict[Place, Event], read: Event) -> Event | None:
    place = next(_places(read), None)
    return None if place is None else left.pop(place, None)


def _places(event: Event) -> Iterator[Place]:
    """The places that an op names, and those of the copies whose groups it awaits."""
    for value in event.values:
        if isinstance(value, Place):
            yield value
        elif isinstance(value, Event) and op_name(event.op) in _COPY_WAITS:
            for copy in value.values:
                yield from _places(copy) if isinstance(copy, Event) else ()
