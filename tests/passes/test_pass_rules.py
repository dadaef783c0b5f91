"""The rules of the portable passes one by one, on small programs: what is marked, named, paired, placed and refused."""

import pytest
from pass_texts import after, kernel_of, loop, program, stage
from xdsl.ir import Block
from xdsl.parser import Parser

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr_value, op_name
from tileprobe.ir.layout import Span
from tileprobe.ir.parts import Part
from tileprobe.ir.regions import regions_of
from tileprobe.ir.registry import context
from tileprobe.passes._pairs import End, Wait, pair
from tileprobe.passes.select import SCOPES, marks

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
    other = text.replace("@k(", "@j(")
    both = after(f"{text}\n{other}", 'select{function="j*"}')  # one that does not match comes before
    assert [any(map(marks, kernel.walk())) for kernel in both.ops] == [False, True]


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


def test_scopes_that_begin_together_are_within_each_other():
    text = program(stage("load", "3"), stage("dot", "4"), stage("exp", "5"))
    found = regions(text, 'select{scopes="inner@3-4","outer@3-5" kernel=false},instrument')
    parents = {name: parent for name, _, parent in found}  # by number: the outer one is 0, the inner one 1
    assert [name for name, *_ in found][:2] == ["outer", "inner"]
    assert (parents["outer"], parents["inner"], parents["exp @ 5"]) == (None, 0, 0)
    assert parents["load @ 3"] == parents["dot @ 4"] == 1


def test_a_loop_without_its_iterations_is_begun_once():
    text = program(loop(stage("dot", "5"), more='{lines = "a.py:3"}'))
    module = str(after(text, "select{iterations=false},instrument"))
    starts = [line.strip() for line in module.splitlines() if line.strip().startswith("probe.start")]
    assert sorted(starts) == ["probe.start 0", "probe.start 1", "probe.start 2"]


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


def test_a_loop_is_in_a_scope_by_its_own_line():
    text = program(loop(stage("load", "4"), more=' loc("a.py":3:1)'))
    kernel = kernel_of(text, 'select{scopes="s@3-9"}')
    assert [attr_value(op, SCOPES) for op in kernel.walk() if op.name == "scf.for"] == [["s"]]


# -- delay --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("region", "count"), [("#1", 1), ("#12", 1), ("#13", 0), ("#", 0), ("", 0), ("@ 1", 3)]
)
def test_a_number_is_that_of_one_region(region, count):
    """12 stages on lines 0 to 11, numbered from 1 on."""
    text = program(*(stage("load", str(n)) for n in range(12)))
    delayed = kernel_of(text, f'select,instrument,delay{{region="{region}" ticks=5}}')
    assert [op_name(op) for op in delayed.walk()].count("record.delay") == count
