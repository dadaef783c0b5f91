"""What a target that takes probes may leave out, and what is said when it names what is not there."""

from dataclasses import dataclass, field

import pytest

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.ir.machine import Unit
from tileprobe.ir.regions import Region
from tileprobe.targets.base import Exact, FixedClock, Level, SimulatedTarget, Source, Variant, launches

REGIONS = (Region(0, "first"), Region(1, "second"))
CORE = (Unit(0, "core 0"),)
ONE = {"region": [0], "start": [1], "stop": [5]}


class Target(SimulatedTarget):
    name, about, structure = "exact", "a test", "scf"
    levels = (Level("ttir", "", shown=True),)
    clock = FixedClock("simulated", 1e9)


@dataclass
class Kernel:
    name: str = "kernel"
    target: Target = field(default_factory=Target)
    machine: str = "exact"
    source: Source = field(default_factory=Source)
    notes: tuple[str, ...] = ()

    @property
    def key(self):
        return self.name

    def compile(self, pipeline):
        return Variant(self.name, None, None, REGIONS, notes=self.notes)

    def launch(self, *parts):
        watch = launches.observer(self, (1, 1, 1), 0)
        watch.start()
        if parts:
            watch.exact(parts)
        watch.stop()


def part(columns=ONE, regions=REGIONS, units=CORE, **more):
    return Exact(columns, regions, units, 10.0, **more)


def test_a_launch_of_which_nothing_was_said_takes_nothing_else_with_it():
    with tileprobe.profile() as session:
        Kernel("told").launch(part())
        Kernel("silent").launch()
    assert [kernel.name for kernel in session.trace.kernels] == ["told"]
    assert session.trace.meta["notes"] == [
        "silent: the target said nothing of what happened in 1 of its launches"
    ]


def test_what_could_not_be_probed_is_said():
    with tileprobe.profile() as session:
        Kernel(notes=("its loop was not looked into",)).launch(part())
    assert session.trace.meta["notes"] == ["kernel: its loop was not looked into"]


def test_a_machine_without_units_is_one():
    with tileprobe.profile() as session:
        Kernel().launch(part(units=()))
    assert [unit.name for unit in session.trace.units] == ["exact"]


def test_a_part_may_come_before_what_it_is_a_part_of():
    with tileprobe.profile() as session:
        Kernel().launch(part(units=(Unit(0, "core", parent=5), Unit(5, "cluster"))))
    assert [(unit.name, unit.parent) for unit in session.trace.units] == [("cluster", None), ("core", 5)]


@pytest.mark.parametrize("first", [0, 1])
def test_tables_of_two_kernels_may_have_different_columns(first):
    kinds = [{"name": ["bytes"], "value": [3.0]}, {"name": ["ops"], "value": [4.0], "line": [7]}]
    edge = {"kind": ["issue-wait"], "from_tick": [1], "to_tick": [4]}
    edges = [edge, edge | {"from_program": [2], "from_region": [1]}]
    with tileprobe.profile() as session:
        for n in (first, 1 - first):
            Kernel(f"kernel {n}").launch(part(counters=kinds[n], edges=edges[n]))
    counters, found = session.trace.counters, session.trace.edges
    assert sorted(counters.select("name", "line").rows()) == [("bytes", 0), ("ops", 7)]
    regions = [None, 1 if first else 3]
    assert sorted(found["from_program"].to_list()) == [0, 2]
    assert sorted(found["from_region"].to_list(), key=str) == sorted(regions, key=str)


def test_launches_with_other_regions_are_kept_apart():
    with tileprobe.profile() as session:
        kernel = Kernel()
        kernel.launch(part())
        kernel.launch(part(regions=(Region(0, "other"),)))
    assert session.trace.to_polars()["name"].to_list() == ["first", "other"]


@pytest.mark.parametrize("end", ["from_region", "to_region"])
def test_what_an_edge_names_must_be_there(end):
    edge = {"kind": ["issue-wait"], "from_tick": [1], "to_tick": [4], end: [9]}
    with tileprobe.profile() as session:
        Kernel().launch(part(edges=edge))
    with pytest.raises(TileProbeError, match="region 9, and names no such region"):
        _ = session.trace


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (ONE | {"unit": [1]}, "unit 1, and names no such unit"),
        (ONE | {"unit": [7]}, "unit 7, and names no such unit"),
        (ONE | {"region": [2]}, "region 2, and names no such region"),
        (ONE | {"kind": ["moment"]}, "not 'moment'"),
    ],
)
def test_what_a_target_names_must_be_there(columns, words):
    with tileprobe.profile() as session:
        Kernel().launch(part(columns, units=(Unit(0, "core 0"), Unit(3, "core 3"))))
    with pytest.raises(TileProbeError, match=words):
        _ = session.trace
