"""What assigning slots and lowering to records keep to, rule by rule."""

import json
from dataclasses import replace

import pytest
from pass_texts import after, kernel_of, loop, program

from tileprobe.errors import TileProbeError, UnsupportedError
from tileprobe.ir.accessors import attr_value
from tileprobe.ir.layout import Body, Layout, Stamp, StreamItems
from tileprobe.ir.record import IndexOp, OpenOp, SlotOp
from tileprobe.ir.regions import regions_of
from tileprobe.passes import available, pipeline
from tileprobe.passes.assign_slots import UNPAIRED, AssignSlotsPass, _largest, _words, layout_of

# -- slots --------------------------------------------------------------------------------------------------------

REGION = 'probe.region 0 "r" kind "stage"\n'


def laid_out(text, options=""):
    kernel = kernel_of(text, f"assign-slots{{{options}}}")
    return layout_of(kernel), kernel


def test_neighbours_share_a_place_and_others_do_not():
    text = program(
        "probe.start 0",
        '"my.a"() : () -> ()',
        "probe.stop 0",
        "probe.start 1",
        '"my.b"() : () -> ()',
        "probe.stop 1",
    )
    layout, _ = laid_out(text)
    assert [(s.region, s.start, s.stop) for s in layout.spans] == [(0, 0, 1), (1, 1, 2)]
    assert len(layout.slots) == 3


@pytest.mark.parametrize(("most", "room"), [(16383, 512), (100, 25)])
def test_the_segment_has_room_for_the_records_of_a_while_loop_and_takes_half_a_block_at_most(most, room):
    """256 iterations of two records; records beside the loop have places. A record of the segment takes two words."""
    body = Body(0, 256, (Stamp(1), Stamp(2)), counted=False)
    streams = [StreamItems((Stamp(0), body, Stamp(3)))]
    layout = AssignSlotsPass(cursor_capacity=0)._fitting(streams, most)
    assert layout.streams[0].cursor_capacity == room
    shared = AssignSlotsPass(buffer="shared", shared_words=400)
    streams = [replace(streams[0], instances=2), replace(streams[0], items=(Stamp(4),))]
    assert shared._fitting(streams, 300).streams[0].cursor_capacity == 300 // (2 * 2 * 3)


def test_a_loop_may_have_room_for_one_iteration():
    text = program(loop("probe.start 0", '"my.a"() : () -> ()', "probe.stop 0"))
    assert [one.capacity for one in layout_of(kernel_of(text, "sample{capacity=1},assign-slots")).loops] == [
        1
    ]
    with pytest.raises(TileProbeError, match="at least one iteration, not 0"):
        kernel_of(text, "sample{capacity=0}")


@pytest.mark.parametrize(("kind", "payload"), [("i32", "i64"), ("f32", "f64"), ("i1", "i64"), ("f64", "f64")])
def test_a_value_has_a_place_of_its_own_with_room_for_it(kind, payload):
    text = program("probe.mark 1", f"probe.value 0, %v : {kind}", "probe.mark 2", arguments=f"%v: {kind}")
    layout, _ = laid_out(text)
    assert [slot.payload for slot in layout.slots] == ["", payload, ""]
    assert [slot.base for slot in layout.slots] == [8, 9, 11]


def test_loops_get_less_room_until_a_block_fits():
    """Two loops with a record each: 8 + 2 * (1 + 256) words. With 200 words each halves to 64."""
    body = ("probe.mark 0", '"my.a"() : () -> ()')
    text = program(loop(*body), loop(*body))
    assert [one.capacity for one in laid_out(text)[0].loops] == [256, 256]
    assert [one.capacity for one in laid_out(text, "max_words=200")[0].loops] == [64, 64]
    assert [one.capacity for one in laid_out(text, "capacity=3")[0].loops] == [3, 3]
    assert laid_out(text, "max_words=16 capacity=1")[0].block_words == 16
    with pytest.raises(
        TileProbeError, match="one program's records need 16 words and may take 15: select fewer"
    ):
        laid_out(text, "max_words=15")


def test_what_records_are_goes_into_the_layout():
    text = program("probe.mark 0")
    layout, _ = laid_out(text, "granularity=warp buffer=shared strategy=circular clock_bits=32")
    assert (layout.granularity, layout.buffer, layout.strategy, layout.clock_bits) == (
        "warp",
        "shared",
        "circular",
        32,
    )
    with pytest.raises(TileProbeError, match="records have no granularity 'x': program, warp, warp_group"):
        laid_out(text, "granularity=x")


@pytest.mark.parametrize(("granularity", "instances"), [("program", 1), ("warp", 9), ("warp_group", 3)])
def test_instances_of_a_stream(granularity, instances):
    text = "func.func @k() attributes {warps = 9 : i32} {\nprobe.mark 0\nfunc.return\n}"
    assert laid_out(text, f"granularity={granularity}")[0].streams[0].instances == instances


def test_while_loops_and_cycles_use_the_cursor():
    text = program(
        "%r = scf.while (%x = %n) : (i32) -> i32 {\n scf.condition(%c) %x : i32\n} do {\n^bb0(%y: i32):\n"
        'probe.start 0\n"my.a"() : () -> ()\nprobe.stop 0\nprobe.start 1\nprobe.stop 1\nscf.yield %y : i32\n}'
    )
    layout, _ = laid_out(text, "cursor_capacity=10")
    assert all(slot.cursor for slot in layout.slots)
    assert len(layout.slots) == 4  # a stop and the start behind it share nothing there
    assert layout.streams[0].cursor_capacity == 10
    assert layout.loops[0].cursor


def test_the_stops_of_several_paths_are_one_in_a_cycle():
    text = (
        "func.func @k(%c: i1) {\ncf.br ^head\n^head:\nprobe.start 0\ncf.cond_br %c, ^a, ^b\n"
        "^a:\nprobe.stop 0\ncf.br ^head\n^b:\nprobe.stop 0\nfunc.return\n}"
    )
    layout, _ = laid_out(text)
    assert [(s.start, s.stop) for s in layout.spans] == [(0, 1)]
    assert len(layout.slots) == 2


def test_copies_of_the_second_loop_are_its_own():
    """Two pipelined loops, each with an issue before it for its iteration 0 and one ahead in it."""
    parts = []
    for number in (0, 1):
        parts += [f"probe.issue {number} peeled {number}", '"my.copy"() : () -> ()']
        body = (
            f"probe.wait {number}",
            '"my.wait"() : () -> ()',
            f"probe.done {number}",
            '"my.dot"() : () -> ()',
        )
        ahead = (f"probe.issue {number} ahead 1", '"my.copy"() : () -> ()')
        parts.append(loop(*body, *ahead, more=f"{{probe.loop = #builtin.int<{number}>}}"))
    layout, kernel = laid_out(program(*parts))
    found = [(s.region, s.start_peeled, s.start_ahead) for s in layout.spans if s.kind == "async"]
    assert found == [(0, 0, 0), (0, -1, 1), (1, 1, 0), (1, -1, 1)]
    assert UNPAIRED not in kernel.attributes


def test_a_copy_peeled_off_a_loop_without_records_is_of_no_iteration():
    """The copy for iteration 2 of a loop of which nothing is recorded: there is no such iteration to show."""
    copy = ("probe.issue 0 ahead 2 peeled 0", '"my.copy"() : () -> ()')
    waited = ("probe.wait 0", '"my.wait"() : () -> ()', "probe.done 0")
    rest = loop('"my.dot"() : () -> ()', more="{probe.loop = #builtin.int<0>}")
    layout, kernel = laid_out(program(*copy, rest, *waited))
    found = [(s.start_peeled, s.start_ahead) for s in layout.spans if s.kind == "async"]
    assert found == [(-1, 0)]
    assert UNPAIRED not in kernel.attributes


def test_what_a_circular_loop_may_pass_by_has_no_place_in_it():
    """A place that is not written in every iteration would keep the record of an older one."""
    branch = '"my.if"() ({\nprobe.mark 1\n"my.end"() : () -> ()\n}) : () -> ()'
    body = loop("probe.mark 0", '"my.a"() : () -> ()', branch)
    circular, _ = laid_out(program(body), "strategy=circular")
    assert [slot.cursor for slot in circular.slots] == [False, True]
    exact, _ = laid_out(program(body))
    assert [slot.cursor for slot in exact.slots] == [False, False]


def test_what_is_left_alone_is_noted_on_the_kernel():
    _, kernel = laid_out(program("probe.issue 0", '"my.a"() : () -> ()'))
    assert attr_value(kernel, UNPAIRED) == ["region 0 is issued and never awaited"]
    _, kernel = laid_out(program("probe.mark 0"))
    assert UNPAIRED not in kernel.attributes
    with pytest.raises(TileProbeError, match="region 3 is done, but nothing waited for it"):
        laid_out(program("probe.done 3"))


def test_partitions_that_are_started_in_a_loop():
    """They have a loop of their own around them, with as much room; in two loops it is not known which time it is."""
    specialised = (
        '"my.specialize"() ({\nprobe.mark 0\n"my.end"() : () -> ()\n}, {\nprobe.mark 1\n"my.end"() : () -> ()\n})'
        ' {streams = ":0,load:2"} : () -> ()'
    )
    layout, _ = laid_out(program(specialised), "granularity=warp")
    assert [(stream.name, stream.instances) for stream in layout.streams] == [("", 1), ("load", 2)]
    assert [slot.stream for slot in layout.slots] == [0, 1]
    layout, _ = laid_out(program(loop(specialised)), "granularity=warp capacity=5")
    outer, again = layout.loops
    assert (outer.stream, outer.again) == (0, False)
    assert (again.stream, again.again, again.capacity, again.loops) == (1, True, 5, ())
    assert [slot.loops for slot in layout.slots] == [(outer.id,), (again.id,)]
    assert layout.streams[1].words >= again.trip_base + 1 + 5 * again.stride
    assert (layout.started_again(0), layout.started_again(1)) == (None, again)
    with pytest.raises(UnsupportedError, match="load is started in several loops"):
        laid_out(program(loop(loop(specialised).replace("%i ", "%j "))), "granularity=warp")
    for records in ("buffer=shared", "strategy=circular"):
        with pytest.raises(UnsupportedError, match="buffer=global and strategy=exact alone"):
            laid_out(program(loop(specialised)), records)


# -- records ------------------------------------------------------------------------------------------------------


def test_partitions_are_lowered_each_with_its_own_block():
    """The first region of the op runs with what is around it; the second is stream 1."""
    text = program(
        '"my.specialize"() ({\nprobe.mark 0\n"my.end"() : () -> ()\n}, {\nprobe.mark 1\n"my.end"() : () -> ()\n})'
        ' {streams = ":0,load:2"} : () -> ()'
    )
    kernel = kernel_of(text, "assign-slots{granularity=warp},probe-to-record{copies=2}")
    opened = [op for op in kernel.walk() if isinstance(op, OpenOp)]
    assert [op.stream.data for op in opened] == [0, 1]
    assert opened[1].layout is None
    assert opened[0].layout is not None
    layout = Layout.from_json(json.loads(opened[0].layout.data))
    assert layout.copies == 2
    assert [op.parent is kernel.regions[0].blocks.first for op in opened] == [True, False]
    text = str(kernel)
    assert text.count("record.flush") == 2
    assert text.count("record.store") == 4  # each record twice
    assert "streams = " in text
    assert "record.streams" not in text


def test_a_kept_iteration_lies_within_that_of_the_loop_around():
    """Three loops deep: each index has that of the next loop outside, and a record those of all three."""
    inner = loop("probe.mark 0", index="z")
    text = program(loop(loop(inner, index="b"), index="a"))
    kernel = kernel_of(text, "assign-slots{capacity=4},probe-to-record")
    indices = [op for op in kernel.walk() if isinstance(op, IndexOp)]
    assert [op.within for op in indices] == [None, *(op.results[0] for op in indices[:2])]
    (slot,) = [op for op in kernel.walk() if isinstance(op, SlotOp)]
    assert list(slot.indices) == [op.results[0] for op in indices]


def test_marks_of_a_kernel_with_several_paths_are_declared_at_its_start():
    text = (
        "func.func @k(%c: i1) {\ncf.cond_br %c, ^a, ^b\n^a:\nfunc.return\n^b:\n"
        '"tt.print"() {prefix = " tileprobe.mark:here: "} : () -> ()\nfunc.return\n}'
    )
    kernel = kernel_of(text, "user-probes")
    (region,) = regions_of(kernel)
    assert (region.name, region.kind, region.file, region.first_line, region.last_line) == (
        "here",
        "mark",
        "",
        0,
        0,
    )


def test_a_record_is_written_at_least_once():
    with pytest.raises(TileProbeError, match="a record is written at least once, not 0 times"):
        after(program(), "probe-to-record{copies=0}")
    with pytest.raises(TileProbeError, match="a loop needs room for at least one iteration, not 0"):
        after(program(), "sample{capacity=0}")


@pytest.mark.parametrize(("trips", "room"), [(3, 3), (8, 8), (9, 8), (0, 1)])
def test_a_loop_of_known_length_has_no_more_room_than_it_needs(trips, room):
    text = (
        f"func.func @k() {{\n%a = arith.constant 0 : i32\n%b = arith.constant {trips} : i32\n"
        "%s = arith.constant 1 : i32\nscf.for %i = %a to %b step %s : i32 {\nprobe.mark 0\n}\nfunc.return\n}"
    )
    kernel = kernel_of(text, "sample{capacity=8},assign-slots")
    assert layout_of(kernel).loops[0].capacity == room
    assert ("record.dynamic" in str(kernel)) is True
    assert "record.dynamic" not in str(kernel_of(text, "sample{capacity=8 dynamic=false},assign-slots"))


def test_passes_by_name():
    assert {"select", "instrument", "user-probes", "merge-probes", "sample", "assign-slots"} <= set(
        available()
    )
    assert available()["merge-probes"]().name == "merge-probes"
    with pytest.raises(
        TileProbeError, match=r"cannot read the pipeline 'selct': .*; the passes are .*select"
    ):
        pipeline("selct")
    with pytest.raises(TileProbeError, match=r"cannot read the pipeline 'select\{'"):
        pipeline("select{")


def test_streams_without_places_have_no_room_to_give_away():
    """All of their records go to the segment: there is no loop to shrink, which must be told from one with room."""
    streams = [StreamItems([Stamp(0), Body(0, 8, (Stamp(1),))], all_cursor=True)]
    assert _largest(streams) == 1
    assert _largest([StreamItems([Body(0, 8, (Stamp(1),))]), *streams]) == 8


def test_what_records_take_at_least():
    """A record with a value takes two words, a loop one for its iterations and what they take each; records that may
    go to the segment take no room of their own."""
    items = [Stamp(0, "i64"), Body(0, 8, (Stamp(1), Body(1, 4, (Stamp(2),)))), Stamp(3)]
    assert _words(items, cursor=False, circular=False) == 2 + (1 + 8 * (1 + (1 + 4 * 1))) + 1
    assert _words(items, cursor=True, circular=False) == 0
    branched = [Stamp(0), replace(Stamp(1), branch=True)]
    assert [_words(branched, cursor=False, circular=circular) for circular in (False, True)] == [2, 1]
