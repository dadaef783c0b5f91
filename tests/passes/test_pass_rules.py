"""The rules of the portable passes one by one, on small programs: what is marked, named, paired, placed and refused."""

import json

import pytest
from xdsl.ir import Block
from xdsl.parser import Parser

from tileprobe.errors import TileProbeError, UnsupportedError
from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.layout import Layout, Span
from tileprobe.ir.parts import Part
from tileprobe.ir.record import IndexOp, OpenOp, SlotOp
from tileprobe.ir.regions import regions_of
from tileprobe.ir.registry import context
from tileprobe.passes import available, pipeline
from tileprobe.passes._pairs import End, Wait, pair
from tileprobe.passes.assign_slots import UNPAIRED, layout_of
from tileprobe.passes.select import SCOPES, marks


def after(text, passes):
    ctx = context()
    module = Parser(ctx, text).parse_module()
    pipeline(passes).apply(ctx, module)
    module.verify()
    return module


def kernel_of(text, passes):
    return next(iter(after(text, passes).ops))


def program(*ops, arguments="%n: i32, %one: i32, %c: i1"):
    return f"func.func @k({arguments}) {{\n" + "\n".join(ops) + "\nfunc.return\n}"


def stage(kinds, lines="", more=""):
    where = f', lines = "a.py:{lines}"' if lines else ""
    return f'"my.stage"() {{kinds = "{kinds}"{where}{more}}} : () -> ()'


def loop(*ops, more="", index="i"):
    body = "\n".join(ops)
    return f"scf.for %{index} = %one to %n step %one : i32 {{\n{body}\n}} {more}"


# -- select -------------------------------------------------------------------------------------------------------


def marked(text, passes):
    return {
        (op_name(op), attr_value(op, "kinds")): marks(op)
        for op in kernel_of(text, passes).walk()
        if marks(op)
    }


def test_what_is_marked():
    text = program(
        stage("load", "3"),
        loop(
            stage("dot", "5"), '"my.copy"() {issues = "A"} : () -> ()', '"my.wait"() {waits = "A"} : () -> ()'
        ),
    )
    everything = {
        ("func.func", None): ["kernel"],
        ("my.stage", "load"): ["stage"],
        ("scf.for", None): ["loop", "iteration"],
        ("my.stage", "dot"): ["stage"],
        ("my.copy", None): ["issue"],
        ("my.wait", None): ["wait"],
    }
    assert marked(text, "select") == everything
    for option, gone in (
        ("kernel=false", ("func.func", None)),
        ("kinds=dot", ("my.stage", "load")),
    ):
        assert marked(text, f"select{{{option}}}") == {k: v for k, v in everything.items() if k != gone}
    assert marked(text, "select{loops=false}")["scf.for", None] == ["iteration"]
    assert marked(text, "select{iterations=false}")["scf.for", None] == ["loop"]
    silent = marked(text, "select{asynchronous=false}")
    assert ("my.copy", None) not in silent
    assert ("my.wait", None) not in silent
    assert marked(text, "select{kinds=none}").keys().isdisjoint({("my.stage", "load"), ("my.stage", "dot")})
    assert marked(text, 'select{function="j*"}') == {}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("3", ["load"]),
        ("4-5", ["dot"]),
        ("3-5", ["load", "dot"]),
        ("5-9", ["dot"]),
        ("6-9", []),
        ("1-2", []),
        ("3,5", ["load", "dot"]),
    ],
)
def test_lines_that_are_chosen(lines, found):
    wanted = ",".join(f'"{part}"' for part in lines.split(","))
    text = program(stage("load", "3"), stage("dot", "4,5"))
    assert [kinds for (_, kinds) in marked(text, f"select{{lines={wanted} kernel=false}}")] == found


@pytest.mark.parametrize("wrong", ["3-", "-3", "x", "3-x"])
def test_lines_that_are_none(wrong):
    if wrong == "3-":
        assert marked(program(stage("load", "3")), 'select{lines="3-"}')  # to itself
        return
    with pytest.raises(TileProbeError, match="is no line or range of lines; write 34 or 31-44"):
        after(program(), f'select{{lines="{wrong}"}}')


def scoped(text, *scopes):
    wanted = ",".join(f'"{scope}"' for scope in scopes)
    kernel = kernel_of(text, f"select{{scopes={wanted}}}")
    return [attr_value(op, SCOPES) for op in kernel.walk() if attr_value(op, "kinds")]


def test_a_stage_is_in_a_scope_when_most_of_it_is():
    assert scoped(program(stage("load", "3,4,5,6")), "half@3-4", "more@3-5") == [["more"]]
    assert scoped(program(stage("load", "3")), "inner@3-3", "outer@2-9", "before@1-2", "behind@4-9") == [
        ["outer", "inner"]
    ]
    assert scoped(program(stage("load")), "any@1-9") == [None]
    with pytest.raises(TileProbeError, match="'x' is no scope; write name@first-last"):
        scoped(program(), "x")
    assert scoped(program(stage("load", "3")), "a@b@3-3") == [["a@b"]]


# -- instrument ---------------------------------------------------------------------------------------------------


def regions(text, passes="select,instrument"):
    return [(r.name, r.kind, r.parent) for r in regions_of(kernel_of(text, passes))]


def test_scopes_are_runs_of_neighbours():
    """What is free between two stages of a scope is in it; a stage, a loop or a branch that is not ends it."""
    both = (stage("load", "3"), stage("dot", "4"))
    free = "%x = arith.addi %n, %n : i32"
    other = stage("exp", "9")
    branch = "scf.if %c {\n" + stage("max", "9") + "\nscf.yield\n}"
    for between, pieces in (((), 1), ((free,), 1), ((other,), 2), ((loop(other),), 2), ((branch,), 2)):
        text = program(both[0], *between, both[1])
        module = str(after(text, 'select{scopes="s@3-4" kernel=false},instrument'))
        number = next(
            r.id
            for r in regions_of(next(iter(Parser(context(), module).parse_module().ops)))
            if r.name == "s"
        )
        assert module.count(f"probe.start {number}\n") == pieces, between


def test_a_scope_in_pieces_is_one_region():
    text = program(stage("load", "3"), stage("exp", "9"), stage("dot", "4"))
    names = [name for name, *_ in regions(text, 'select{scopes="s@3-4"},instrument')]
    assert sorted(names) == ["dot @ 4", "exp @ 9", "k", "load @ 3", "s"]


def test_regions_nest_as_they_are_written():
    text = program(
        loop(loop(stage("dot", "5"), more='{lines = "a.py:4"}', index="j"), more='{lines = "a.py:3"}')
    )
    assert regions(text) == [
        ("k", "kernel", None),
        ("loop @ 3", "loop", 0),
        ("iteration", "iteration", 1),
        ("loop @ 4", "loop", 2),
        ("iteration", "iteration", 3),
        ("dot @ 5", "dot", 4),
    ]
    assert regions(text, "select{iterations=false loops=false},instrument") == [
        ("k", "kernel", None),
        ("dot @ 5", "dot", 0),
    ]


def test_a_loop_without_a_line_of_its_own_has_that_of_what_is_in_it():
    assert regions(program(loop(stage("dot", "5,7"))))[1][0] == "loop @ 5"
    assert regions(program(loop(stage("dot"))))[1][0] == "loop"


def test_a_loop_in_a_function_says_where():
    text = program(
        "scf.for %i = %one to %n step %one : i32 {\n"
        '"tt.load"() : () -> () loc(callsite("lib/h.py":4:1 at "a.py":9:1))\n'
        '} loc(callsite("lib/h.py":3:1 at "a.py":9:1))'
    )
    assert [name for name, *_ in regions(text)][1] == "loop @ 9 in h.py:3"


def test_what_runs_without_a_probe_is_a_part_of_what_is_around():
    """A loop of unknown length counts as eight rounds of 24 for itself, beside what it does."""
    text = program(
        'scf.for %i = %one to %n step %one : i32 {\n"tt.load"() : () -> () loc("a.py":6:1)\n} loc("a.py":5:1)',
        '"tt.store"() : () -> () loc("a.py":7:1)',
    ).rstrip() + ' loc("a.py":3:1)'  # fmt: skip
    (region,) = regions_of(kernel_of(text, "select{kinds=none loops=false iterations=false},instrument"))
    whole = 24 + 8 * 24 + 8 + 1
    expected = {
        ("loop", 5): 8 * 24 / whole,
        ("kernel", 3): 24 / whole,
        ("load", 6): 8 / whole,
        ("store", 7): 1 / whole,
    }
    found = {(part.kind, part.frames[0][1]): part.share for part in region.parts}
    assert found == pytest.approx(expected, abs=1e-4)


def test_a_loop_of_known_length_counts_its_rounds():
    text = (
        "func.func @k() {\n%a = arith.constant 0 : i32\n%b = arith.constant 12 : i32\n%s = arith.constant 4 : i32\n"
        'scf.for %i = %a to %b step %s : i32 {\n"tt.load"() : () -> () loc("a.py":6:1)\n} loc("a.py":5:1)\n'
        'func.return\n} loc("a.py":3:1)'
    )
    (region,) = regions_of(kernel_of(text, "select{kinds=none loops=false iterations=false},instrument"))
    found = {part.kind: part.share for part in region.parts}
    assert found == pytest.approx({"loop": 72 / 99, "kernel": 24 / 99, "load": 3 / 99}, abs=1e-4)
    iterations = regions_of(kernel_of(text, "select{kinds=none},instrument"))[2]
    assert {part.kind: part.share for part in iterations.parts} == pytest.approx(
        {"iteration": 0.96, "load": 0.04}, abs=1e-4
    )


def test_a_single_part_that_says_nothing_new_is_left_out():
    plain = program('"tt.load"() : () -> () loc("a.py":6:1)')
    assert [r.parts for r in regions_of(kernel_of(plain, "select{kernel=false},instrument"))] == [()]
    called = program('"tt.load"() : () -> () loc(callsite("h.py":3:1 at "a.py":6:1))')
    (region,) = regions_of(kernel_of(called, "select{kernel=false},instrument"))
    assert region.parts == (Part(1.0, "load", (("h.py", 3), ("a.py", 6))),)


# -- pairs --------------------------------------------------------------------------------------------------------

HERE = Block()


def end(slot, ahead=0, peeled=-1, loops=(0,), stream=0, block=HERE):
    return End(slot, loops, ahead, peeled, stream, block)


def asynchronous(issues, stops):
    spans, notes = pair(7, '"A"', issues, [Wait(end(90 + n), stop) for n, stop in enumerate(stops)])
    return [(s.start, s.stop) for s in spans if s.kind == "async"], notes


def test_an_issue_and_its_wait():
    spans, notes = pair(7, '"A"', [end(0, ahead=2)], [Wait(end(1), end(2))])
    assert spans == [Span(7, 0, 2, "async", 2, -1, 0, -1), Span(7, 1, 2, "wait")]
    assert notes == []


def test_lonely_ends_are_said():
    assert asynchronous([], [end(1)]) == ([], ['"A" is awaited, but nothing issues it'])
    assert asynchronous([end(0)], []) == ([], ['"A" is issued and never awaited'])
    assert asynchronous([end(0, 3, 0)], []) == (
        [],
        ['"A" is issued for iteration 3, before its loop, and never awaited'],
    )
    late = [end(0, 1, 0), end(1, 1, 0)]  # two copies for iteration 1, and the loop waits from 2 on
    assert asynchronous(late, [end(2, ahead=2)])[1] == [
        '"A" is issued for iteration 1, before its loop, and never awaited'
    ]


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        (end(0), end(1), True),
        (end(0), end(1, loops=(1,)), False),
        (end(0), end(1, loops=(1,), stream=1), True),
        (end(0), end(1, loops=(0, 1), stream=1), False),
        (end(0, 2, 0), end(1, 2, 0), True),
        (end(0, 2, 0), end(1, 3, 0), False),
        (end(0, 2, 0), end(1, -1, 0), True),  # the loop may have three iterations
        (end(0, -2, 0), end(1, -1, 0), False),
        (end(0, 0, 0), end(1, 0), True),
        (end(0, 0, 0), end(1, 1), False),
        (end(0, 1, 0), end(1, 1), True),
        (end(0, -1, 0), end(1, 5), True),
    ],
)
def test_which_ends_can_meet(one, other, meets):
    assert one.meets(other) is meets
    assert other.meets(one) is meets


def test_ends_that_never_meet_are_refused():
    with pytest.raises(
        TileProbeError, match='"A" is issued in loop 0 / 1 and awaited in no loop: such ends never'
    ):
        asynchronous([end(0, loops=(0, 1))], [end(1, loops=()), end(2, loops=(3,))])


def test_of_several_waits_the_first_one_ends_it():
    assert asynchronous([end(0)], [end(1), end(2)])[0] == [(0, 1)]  # the first in the text
    assert asynchronous([end(0)], [end(1), end(2, block=Block())])[0] == [(0, 1), (0, 2)]  # either may run
    early = end(9, 0, 0)  # awaited before the loop for iteration 0
    assert asynchronous([end(0, ahead=2)], [early, end(1), end(2, ahead=1)])[0] == [(0, 2)]
    assert asynchronous([end(0, ahead=2)], [end(1), end(2, ahead=1)])[0] == [(0, 1), (0, 2)]
    assert asynchronous([end(0, 0, 0)], [end(1, 0, 0), end(2, 0, 0)])[0] == [(0, 1)]
    assert asynchronous([end(0, 0, 0), end(1, 1, 0)], [end(2, 0, 0), end(3, 1, 0)])[0] == [(0, 2), (1, 3)]


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


@pytest.mark.parametrize(("granularity", "instances"), [("program", 1), ("warp", 6), ("warp_group", 2)])
def test_instances_of_a_stream(granularity, instances):
    text = "func.func @k() attributes {warps = 6 : i32} {\nprobe.mark 0\nfunc.return\n}"
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


def test_what_is_left_alone_is_noted_on_the_kernel():
    _, kernel = laid_out(program("probe.issue 0", '"my.a"() : () -> ()'))
    assert attr_value(kernel, UNPAIRED) == ["region 0 is issued and never awaited"]
    _, kernel = laid_out(program("probe.mark 0"))
    assert UNPAIRED not in kernel.attributes
    with pytest.raises(TileProbeError, match="region 3 is done, but nothing waited for it"):
        laid_out(program("probe.done 3"))


def test_partitions_that_are_started_again_are_refused():
    specialised = (
        '"my.specialize"() ({\nprobe.mark 0\n"my.end"() : () -> ()\n}, {\nprobe.mark 1\n"my.end"() : () -> ()\n})'
        ' {streams = ":0,load:2"} : () -> ()'
    )
    layout, _ = laid_out(program(specialised), "granularity=warp")
    assert [(stream.name, stream.instances) for stream in layout.streams] == [("", 1), ("load", 2)]
    assert [slot.stream for slot in layout.slots] == [0, 1]
    with pytest.raises(UnsupportedError, match="load is started in a loop or by another partition"):
        laid_out(program(loop(specialised)), "granularity=warp")


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
