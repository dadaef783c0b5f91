"""A kernel tells the same story at the `probe` level and one level below, through records and the decoder."""

import os
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.parser import Parser

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.ir.regions import regions_of
from tileprobe.ir.registry import context
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.passes import pipeline
from tileprobe.passes.assign_slots import layout_of
from tileprobe.tools import Plan
from tileprobe.trace.decode import decode

sys.path.insert(0, os.path.dirname(__file__))
from machine import Machine


@st.composite
def kernels(draw):
    """The text of a kernel of stages, loops, branches and while loops."""
    line = 0

    def body(level):
        return "\n".join(node(level) for _ in range(draw(st.integers(1, 3))))

    def node(level):
        nonlocal line
        line += 1
        here = line
        kind = draw(st.sampled_from(["stage", "for", "static", "while", "if"])) if level < 3 else "stage"
        if kind == "stage":
            return f'"my.stage"() {{kinds = "load", lines = "a.py:{line}", ticks = {line} : i64}} : () -> ()'
        inner = body(level + 1)
        if kind == "for":
            return f"scf.for %i{here} = %two to %n step %three : i32 {{\n{inner}\nscf.yield\n}}"
        if kind == "static":
            return f"scf.for %i{here} = %zero to %three step %one : i32 {{\n{inner}\nscf.yield\n}}"
        if kind == "if":
            return f"scf.if %c {{\n{inner}\nscf.yield\n}}"
        return (
            f"%w{here} = scf.while (%a{here} = %three) : (i32) -> (i32) {{\n"
            f"scf.condition(%c) %a{here} : i32\n}} do {{\n"
            f"^bb0(%b{here}: i32):\n{inner}\nscf.yield %b{here} : i32\n}}"
        )

    constants = "\n".join(
        f"%{name} = arith.constant {n} : i32" for n, name in enumerate(["zero", "one", "two", "three"])
    )
    return f"func.func @k(%n: i32, %c: i1) {{\n{constants}\n{body(0)}\nfunc.return\n}}"


def lowered(text, passes):
    ctx = context()
    module = Parser(ctx, text).parse_module()
    pipeline(passes).apply(ctx, module)
    module.verify()
    return module.body.block.first_op


def both(text, options="", capacity=16):
    """The intervals of the probe level, and those decoded from the record level."""
    front = f"select{options},instrument,merge-probes"
    exact = Machine([11, True]).run(lowered(text, front)).intervals
    slots = f"{front},sample{{capacity={capacity}}},assign-slots{{cursor_capacity=5000 max_words=100000}}"
    layout = layout_of(lowered(text, slots))
    words = np.zeros((1, layout.block_words), np.uint64)
    parameters = Sampling().parameters(layout, buffer=1, epoch=3, programs=1, blocks=1)
    machine = Machine([11, True])
    machine.layout = layout
    machine.run(lowered(text, f"{slots},probe-to-record"), words[0], parameters)
    decoded = decode(words, layout, epochs=[3], programs=1)
    return exact, decoded


def pipelined(text, n):
    """Intervals from issue to wait, and waits: as they happened, and decoded from records."""
    front = "select{kernel=false loops=false iterations=false},instrument,merge-probes"
    exact = Machine([n, True]).run(lowered(text, front))
    slots = f"{front},sample{{capacity=16}},assign-slots{{cursor_capacity=64}}"
    layout = layout_of(lowered(text, slots))
    words = np.zeros((1, layout.block_words), np.uint64)
    parameters = Sampling().parameters(layout, buffer=1, epoch=3, programs=1, blocks=1)
    machine = Machine([n, True])
    machine.layout = layout
    machine.run(lowered(text, f"{slots},probe-to-record"), words[0], parameters)
    decoded = decode(words, layout, epochs=[3], programs=1)
    return exact, decoded


def rows(decoded):
    names = ("region", "iteration", "start", "stop")
    return sorted(zip(*(decoded.columns[name].tolist() for name in names)))


@settings(deadline=None, max_examples=60)
@given(kernels())
def test_records_say_what_happened(text):
    exact, decoded = both(text)
    assert rows(decoded) == sorted(exact)
    assert decoded.losses[0].lost == 0


@settings(deadline=None, max_examples=20)
@given(kernels())
def test_what_does_not_fit_is_counted_and_the_rest_is_right(text):
    exact, decoded = both(text, capacity=2)
    assert set(rows(decoded)) <= set(exact)
    if len(rows(decoded)) < len(exact):
        assert decoded.losses[0].lost > 0


EARLY = """
func.func @early(%n: i32, %c: i1) {
  cf.cond_br %c, ^a, ^b
^a:
  "my.stage"() {kinds = "load", lines = "a.py:2", ticks = 7 : i64} : () -> ()
  func.return
^b:
  "my.stage"() {kinds = "store", lines = "a.py:4", ticks = 9 : i64} : () -> ()
  func.return
}
"""


def test_early_return():
    exact, decoded = both(EARLY)
    assert rows(decoded) == sorted(exact) == [(0, -1, 1000, 1007), (1, -1, 1000, 1007)]


def copy(name, ticks, more=""):
    return f'"my.copy"() {{issues = "{name}", lines = "a.py:2", ticks = {ticks} : i64{more}}} : () -> ()'


def wait(names, ticks, more=""):
    return f'"my.wait"() {{waits = "{names}", ticks = {ticks} : i64{more}}} : () -> ()'


def pipelined_loop(distance, prefetched):
    """A loop as Triton pipelines it: copies before it, and in it those for `distance` iterations later."""
    peeled = [
        copy(name, 3 + n, f', ahead = {n} : i64, peeled = "main"') for n in range(distance) for name in "AB"
    ]
    first = wait("A+B", 5, ', peeled = "main"') if prefetched else ""
    again = wait("A+B", 6, ", ahead = 1 : i64") if prefetched else ""
    inside = [copy(name, 7, f", ahead = {distance} : i64") for name in "AB"]
    order = [wait("A+B", 11), *inside] if distance else [*inside, wait("A+B", 11)]
    body = "\n".join([*order, again])
    return "\n".join(
        [
            "func.func @k(%n: i32, %c: i1) {\n%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32",
            *peeled,
            first,
            f'scf.for %i = %zero to %n step %one : i32 {{\n{body}\nscf.yield\n}} {{loop = "main"}}',
            "func.return\n}",
        ]
    )


@pytest.mark.parametrize("n", [0, 1, 2, 3, 9])
@pytest.mark.parametrize(
    ("distance", "prefetched"), [(0, False), (1, False), (2, False), (3, False), (2, True)]
)
def test_copies_meet_their_waits(distance, prefetched, n):
    """Each copy from its issue to the first wait for it, also when the loop is shorter than the pipeline. For
    iterations that the loop does not have it is masked off: no copy, and a wait of no iteration."""
    exact, decoded = pipelined(pipelined_loop(distance, prefetched), n)
    waited = [(region, k if k < n else -1, *when) for region, k, *when in exact.intervals]
    copied = [row for row in exact.asynchronous if row[1] < n]
    assert rows(decoded) == sorted(waited + copied)
    if prefetched:
        assert len(copied) < len(exact.asynchronous)


PARTITIONS = f"""
func.func @k(%n: i32, %c: i1) {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  "my.stage"() {{kinds = "load", ticks = 4 : i64}} : () -> ()
  "my.partitions"(%zero, %n, %one, %three, %c) ({{
  ^bb0(%lo: i32, %hi: i32, %s: i32, %t: i32, %d: i1):
    scf.for %i = %lo to %hi step %s : i32 {{
      {copy("A", 5)}
    }}
    %w = scf.while (%a = %t) : (i32) -> (i32) {{
      scf.condition(%d) %a : i32
    }} do {{
    ^bb0(%a: i32):
      "my.stage"() {{kinds = "store", ticks = 4 : i64}} : () -> ()
      scf.yield %a : i32
    }}
    "my.end"() : () -> ()
  }}, {{
  ^bb0(%lo: i32, %hi: i32, %s: i32, %t: i32, %d: i1):
    scf.for %j = %lo to %hi step %s : i32 {{
      {wait("A", 6)}
      "my.stage"() {{kinds = "dot", ticks = 9 : i64}} : () -> ()
    }}
    "my.end"() : () -> ()
  }}) {{streams = "load:1,mma:1"}} : (i32, i32, i32, i32, i1) -> ()
  func.return
}}
"""


def test_partitions_record_into_blocks_of_their_own():
    """Also the copies that one of them issues and the other one awaits."""
    exact, decoded = pipelined(PARTITIONS, 5)
    assert len(exact.asynchronous) == 5
    assert rows(decoded) == sorted(exact.intervals + exact.asynchronous)
    kernel = lowered(PARTITIONS, "select{kernel=false loops=false iterations=false},instrument")
    names = {region.id: region.name for region in regions_of(kernel)}
    columns = (decoded.columns[name].tolist() for name in ("region", "stream"))
    streams = {names[region]: stream for region, stream in zip(*columns)}
    assert (streams["load"], streams["store"], streams["dot"]) == (0, 1, 2)


def test_regions_become_a_table():
    kernel = lowered(EARLY, "select,instrument")
    regions = regions_of(kernel)
    assert [(r.name, r.kind, r.parent, r.depth) for r in regions] == [
        ("early", "kernel", None, 0),
        ("load @ 2", "load", 0, 1),
        ("store @ 4", "store", 0, 1),
    ]
    assert regions[2].source == "a.py:4"


def test_without_marks_nothing_changes():
    ctx = context()
    module = Parser(ctx, EARLY).parse_module()
    before = str(module)
    pipeline("instrument,merge-probes,assign-slots,probe-to-record").apply(ctx, module)
    assert str(module) == before


def test_unknown_pass_and_structure_are_named():
    with pytest.raises(TileProbeError, match=r"selekt.*assign-slots"):
        pipeline("selekt")
    with pytest.raises(TileProbeError, match="no structure 'moon'"):
        pipeline("select{structure=moon}").apply(context(), Parser(context(), EARLY).parse_module())


def test_opt_command(tmp_path, capsys):
    path = tmp_path / "k.mlir"
    path.write_text(EARLY)
    assert main(["opt", str(path), "-p", "select{kinds=load},instrument"]) == 0
    out = capsys.readouterr().out
    assert 'probe.region 1 "load @ 2"' in out
    assert "store @ 4" not in out
    assert main(["opt", str(path), "-p", "select", "-o", str(tmp_path / "out.mlir")]) == 0
    assert "probe.select" in (tmp_path / "out.mlir").read_text()
    path.write_text("func.func @k( {")
    assert main(["opt", str(path)]) == 2
    assert "k.mlir" in capsys.readouterr().err
    assert main(["opt", str(tmp_path / "none.mlir")]) == 2
    assert main(["opt", "--list"]) == 0
    assert "probe-to-record" in capsys.readouterr().out


TTIR = """
tt.func public @twice(%p: !tt.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %at = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %base = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %q = tt.addptr %base, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  scf.for %i = %zero to %n step %one : i32 {
    tt.print " tileprobe.value:step: " {hex = false, isSigned = array<i32: 1>} : %i : i32
    %x = tt.load %q : tensor<64x!tt.ptr<f32>>
    %y = arith.addf %x, %x : tensor<64xf32>
    tt.store %q, %y : tensor<64x!tt.ptr<f32>>
  }
  tt.return
}
"""


def test_opt_runs_all_passes_of_a_kernel(tmp_path, capsys):
    """From Triton's IR to records, one after another: no pass needs a driver."""
    path = tmp_path / "kernel.ttir"
    path.write_text(f"module {{{TTIR}}}\n")
    plan = Plan(loops=True, iterations=True, kinds=("all",))
    assert main(["opt", str(path), "-p", f"schedule,{plan.pipeline('tile')}", "--between"]) == 0
    steps = capsys.readouterr().out.split("// before ")
    names = [step.split()[0] for step in steps[1:]]
    assert "user-probes" in names
    assert names[-1] == "probe-to-record"
    assert 'kind "value"' in steps[-1]
    last = steps[-1].split("builtin.module")[-1]
    assert "tt.print" not in last


def test_scopes_written_in_the_source_are_selected(tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text('def kernel():\n    with scope("softmax"):\n        x = 1\n    y = 2\n')
    text = "\n".join(
        f'"my.stage"() {{kinds = "load", lines = "{source}:{line}"}} : () -> ()' for line in (3, 4)
    )
    text = f"func.func @k() {{\n{text}\nfunc.return\n}}"
    found = [r.name for r in regions_of(lowered(text, "select{kinds=none},instrument")) if r.kind == "scope"]
    assert found == ["softmax"]
    assert not [
        r
        for r in regions_of(lowered(text, "select{kinds=none written_scopes=false},instrument"))
        if r.kind == "scope"
    ]


def counted(text, sampling, room):
    """How often each region ran, and what its records stand for, with the layout."""
    front = "select,instrument,merge-probes"
    exact = Counter(region for region, *_ in Machine([11, True]).run(lowered(text, front)).intervals)
    slots = f"{front},sample{{capacity=16}},assign-slots{{cursor_capacity={room} max_words=100000}}"
    kernel = lowered(text, slots)
    layout, regions = layout_of(kernel), regions_of(kernel)
    words = np.zeros((1, layout.block_words), np.uint64)
    machine = Machine([11, True])
    machine.layout = layout
    parameters = sampling.parameters(layout, buffer=1, epoch=3, programs=1, blocks=1)
    machine.run(lowered(text, f"{slots},probe-to-record"), words[0], parameters)
    columns = decode(words, layout, epochs=[3], programs=1, sampling=sampling, regions=regions).columns
    found = Counter()
    for region, weight in zip(columns.get("region", []), columns.get("weight", [])):
        found[int(region)] += weight
    return exact, found, layout


everys = st.builds(Every, st.integers(1, 4), st.integers(0, 3), st.sampled_from([2**31 - 1, 1, 2]))


@settings(deadline=None, max_examples=60)
@given(kernels(), st.dictionaries(st.integers(-1, 5), everys, max_size=4), st.sampled_from([9, 5000]))
def test_streams_count_the_iterations_of_while_loops_and_of_all_in_them(text, loops, room):
    """Whatever of a loop was recorded stands for all of its iterations, where it is in every one of them."""
    exact, found, layout = counted(text, Sampling(loops=loops), room)
    for span in layout.spans:
        slots = [layout.slots[slot] for slot in (span.start, span.stop)]
        counts = slots[0].loops and layout.loops[slots[0].loops[-1]].cursor
        if counts and span.region in found and not any(slot.branch for slot in slots):
            assert found[span.region] == pytest.approx(exact[span.region])
