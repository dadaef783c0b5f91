"""compare: kernels and regions are matched by structure and code; launches are held against the same work."""

from dataclasses import replace

import numpy as np
import pytest
from made import FIRST, attention

from tileprobe.tools.compare import compare
from tileprobe.tools.matching import code_of, match_kernels, match_regions
from tileprobe.tools.signatures import labels
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Work


def moved(trace, by, comment_at=None):
    """The same kernel `by` lines further down; with a comment line in it at a line of the old text."""

    def line(number):
        return number + by + (comment_at is not None and number - FIRST >= comment_at) if number else 0

    (kernel,) = trace.kernels
    text = kernel.source.splitlines()
    if comment_at is not None:
        text.insert(comment_at, "        # more words about it")
    trace.kernels = [replace(kernel, first_line=kernel.first_line + by, source="\n".join(text))]
    regions = []
    for region in trace.regions:
        first, last = line(region.first_line), line(region.last_line)
        name, at, _ = region.name.partition(" @ ")
        lines = f"{first}-{last}" if first != last and region.kind != "loop" else f"{first}"
        regions.append(
            replace(region, first_line=first, last_line=last, name=f"{name}{at}{lines}" if at else name)
        )
    trace.regions = regions
    return trace


@pytest.mark.parametrize("comment_at", [None, 5, 14])
def test_a_comment_changes_nothing(comment_at):
    """Seven lines down: the second load is now on the line that the first one had."""
    before, after = attention(launches=12), moved(attention(launches=12, slow=1.5), 7, comment_at)
    result = compare(before, after)
    (table,) = result.tables
    assert table.frame.height == len(before.regions)
    by_name = {row["a_name"]: row for row in table.frame.iter_rows(named=True)}
    assert by_name["dot @ 35"]["verdict"] == "slower"
    assert by_name["dot @ 35"]["name"] == after.regions[5].name
    assert by_name["mul + dot @ 41"]["verdict"] == "within noise"
    assert not [f for f in result.findings if "only in" in f.text or "code differs" in f.text]


def spun(duration, signature="", kernel=0, launches=5, name="spin", kinds=("load", "dot")):
    """A trace of one kernel whose stages take `duration` each."""
    regions = [Region(0, name, "kernel", None, 0, "k.py", 1, 9)]
    regions += [
        Region(n, f"{kind} @ {n + 1}", kind, 0, 0, "k.py", n + 1, n + 1, 1) for n, kind in enumerate(kinds, 1)
    ]
    columns = {"launch": [], "region": [], "start": [], "stop": []}
    for launch in range(launches):
        begin = 1000 * launch * duration
        for n in range(len(kinds) + 1):
            columns["launch"].append(launch)
            columns["region"].append(n)
            columns["start"].append(begin + (n - 1) * duration if n else begin)
            columns["stop"].append(begin + n * duration if n else begin + len(kinds) * duration)
    source = "def spin(x):\n" + "\n".join(f"    {kind}(x)" for kind in kinds)
    return Trace.build(
        columns,
        kernels=[Kernel(0, name, "cpu", Clock(1e9), "k.py", 1, source, signature=signature)],
        launches=[Launch(n) for n in range(launches)],
        regions=regions,
    )


def test_specialisations_of_one_name_are_all_there():
    small, large = "x: *fp32, BLOCK=64", "x: *fp32, BLOCK=128"
    a = Trace.merge(spun(100, small), spun(1000, large))
    b = Trace.merge(spun(2000, large), spun(100, small))  # seen in the other order
    result = compare(a, b)
    found = {table.title: table.frame.row(0, named=True) for table in result.tables}
    assert set(found) == {"spin [BLOCK=64]", "spin [BLOCK=128]"}
    assert (found["spin [BLOCK=64]"]["a_ns"], found["spin [BLOCK=64]"]["b_ns"]) == (200, 200)
    assert (found["spin [BLOCK=128]"]["a_ns"], found["spin [BLOCK=128]"]["b_ns"]) == (2000, 4000)
    assert any("spin [BLOCK=128]: B is 100.0 % slower" in f.text for f in result.findings)


def test_specialisations_without_signatures_are_told_apart_by_structure():
    a = Trace.merge(spun(100), spun(1000, kinds=("load", "exp", "dot")))
    b = Trace.merge(spun(1000, kinds=("load", "exp", "dot")), spun(100))
    changes = [row["change"] for table in compare(a, b).tables for row in table.frame.iter_rows(named=True)]
    assert changes == [0.0] * 7
    assert [table.title for table in compare(a, b).tables] == ["spin #2", "spin"]


def test_another_block_size_is_the_same_kernel():
    result = compare(spun(100, "BLOCK=64"), spun(50, "BLOCK=128"))
    assert result.tables[0].frame["change"].to_list() == pytest.approx([-0.5] * 3)
    assert any("signatures differ: A BLOCK=64; B BLOCK=128" in f.text for f in result.findings)
    for sizes in (("BLOCK=64", "BLOCK=64"), ("BLOCK=64", "BLOCK=128"), ("BLOCK=128", "BLOCK=64")):
        sides = [spun(100, size) for size in sizes]
        for side in sides:
            side.kernels = [replace(side.kernels[0], ir={"ttir": "module {}"})]
        said = any("code and work are the same" in f.text for f in compare(*sides).findings)
        assert said == (sizes[0] == sizes[1])
    several = compare(spun(100, "BLOCK=64"), Trace.merge(spun(50, "BLOCK=128"), spun(50, "BLOCK=256")))
    assert several.tables == []  # nobody knows which of them
    assert any("only in B: spin [BLOCK=128], spin [BLOCK=256]" in f.text for f in several.findings)


def test_code_that_was_added_does_not_shift_the_rest():
    a, b = (
        spun(100, kinds=("load", "dot", "load", "dot")),
        spun(100, kinds=("exp", "load", "dot", "load", "max", "dot")),
    )
    matched = match_regions(a, a.kernels[0], b, b.kernels[0])
    assert [(x.name, y.name) for x, y in matched.pairs[1:]] == [
        ("load @ 2", "load @ 3"),
        ("dot @ 3", "dot @ 4"),
        ("load @ 4", "load @ 5"),
        ("dot @ 5", "dot @ 7"),
    ]
    texts = [f.text for f in compare(a, b).findings]
    assert any(text.endswith("only in B: exp @ 2, max @ 6") for text in texts)
    for count, said in ((3, "a @ 2, b @ 3, c @ 4"), (4, "a @ 2, b @ 3, c @ 4 ...")):
        more = spun(100, kinds=(*"abcd"[:count], "load", "dot", "load", "dot"))
        assert any(f.text.endswith(f"only in B: {said}") for f in compare(a, more).findings)
    assert any("code differs" in text for text in texts)


def test_a_stage_that_was_edited_is_still_that_stage():
    a = spun(100, kinds=("load+sin+store", "dot", "exp"))
    b = spun(150, kinds=("load+sin+cos+store", "dot", "log"))
    matched = match_regions(a, a.kernels[0], b, b.kernels[0])
    assert [(x.kind, y.kind) for x, y in matched.pairs[1:]] == [
        ("load+sin+store", "load+sin+cos+store"),
        ("dot", "dot"),
    ]
    assert [r.kind for r in matched.only_a] == ["exp"]


def test_a_stage_that_moved_into_a_loop_is_found_by_its_code():
    a, b = spun(100), spun(100)
    b.regions = [b.regions[0], Region(3, "loop @ 2", "loop", 0, 0, "k.py", 2, 3, 1), *b.regions[1:]]
    b.regions[-1] = replace(b.regions[-1], parent=3, depth=2)
    matched = match_regions(a, a.kernels[0], b, b.kernels[0])
    assert ("dot @ 3", "dot @ 3") in [(x.name, y.name) for x, y in matched.pairs]


SWAPPED = """def k(n, m):
    for i in range({}):
        a{}
    for i in range({}):
        a{}
"""


def two_loops(first, second):
    """Loops over `first` and `second`, each with a stage of its own."""
    regions = [Region(0, "k", "kernel", None, 0, "k.py", 1, 5)]
    for n, (line, name) in enumerate(((2, first), (4, second))):
        at = 1 + 3 * n
        stage = {"n": "exp", "m": "sin"}[name]
        regions.append(Region(at, f"loop @ {line}", "loop", 0, 0, "k.py", line, line + 1, 1))
        regions.append(Region(at + 1, "iteration", "iteration", at, 0, "k.py", line, line + 1, 2))
        regions.append(
            Region(at + 2, f"{stage} @ {line + 1}", stage, at + 1, 0, "k.py", line + 1, line + 1, 3)
        )
    columns = {"region": [r.id for r in regions], "start": [0] * 7, "stop": [100 - r.id for r in regions]}
    source = SWAPPED.format(first, f" = {first}", second, f" = {second}")
    kernel = Kernel(0, "k", "cpu", Clock(1e9), source=source, first_line=1)
    return Trace.build(columns, kernels=[kernel], launches=[Launch(0, 0, (1,))], regions=regions)


def test_loops_that_changed_places_are_matched_with_all_that_is_in_them():
    a, b = two_loops("n", "m"), two_loops("m", "n")
    found = match_regions(a, a.kernels[0], b, b.kernels[0])
    assert (found.only_a, found.only_b) == ([], [])
    assert {(x.id, y.id) for x, y in found.pairs} == {(0, 0), (1, 4), (2, 5), (3, 6), (4, 1), (5, 2), (6, 3)}
    assert not [f for f in compare(a, b).findings if "only in" in f.text]


def loops_alike(*bodies, variable="a"):
    """Loops that begin with the same line, over one stage each."""
    regions = [Region(0, "k", "kernel", None, 0, "k.py", 1, 1 + 2 * len(bodies))]
    lines = ["def k(n):"]
    for n, body in enumerate(bodies):
        at, line, kind = 1 + 3 * n, 2 + 2 * n, "+".join(body.split())
        lines += ["    for i in range(n):", f"        {variable} = {body}"]
        regions.append(Region(at, f"loop @ {line}", "loop", 0, 0, "k.py", line, line + 1, 1))
        regions.append(Region(at + 1, "iteration", "iteration", at, 0, "k.py", line, line + 1, 2))
        regions.append(Region(at + 2, f"{kind} @ {line + 1}", kind, at + 1, 0, "k.py", line + 1, line + 1, 3))
    count = len(regions)
    columns = {
        "region": [r.id for r in regions],
        "start": [0] * count,
        "stop": [100 - n for n in range(count)],
    }
    kernel = Kernel(0, "k", "cpu", Clock(1e9), source="\n".join(lines), first_line=1)
    return Trace.build(columns, kernels=[kernel], launches=[Launch(0, 0, (1,))], regions=regions)


@pytest.mark.parametrize("variable", ["a", "b"])
@pytest.mark.parametrize(
    ("before", "after", "partners"),
    [
        (("exp", "sin"), ("sin", "exp"), [1, 0]),
        (("exp", "sin"), ("sin", "exp cos"), [1, 0]),  # and one of them changed
        (("exp", "sin", "log"), ("log", "sin", "exp"), [2, 1, 0]),
        (("exp", "sin", "log"), ("log", "sin", "exp cos"), [2, 1, 0]),
        (("exp", "exp"), ("exp", "exp"), [0, 1]),
        (("exp", "exp"), ("exp cos", "exp"), [0, 1]),  # nobody knows better than their order
        (("exp", "sin"), ("exp cos", "sin"), [0, 1]),
    ],
)
def test_loops_that_begin_alike_are_known_by_what_is_in_them(before, after, partners, variable):
    a, b = loops_alike(*before), loops_alike(*after, variable=variable)
    found = match_regions(a, a.kernels[0], b, b.kernels[0])
    loops = {x.id // 3: y.id // 3 for x, y in found.pairs if x.kind == "loop"}
    assert loops == dict(enumerate(partners))
    assert len({y.id for _, y in found.pairs}) == len({x.id for x, _ in found.pairs}) == len(found.pairs)
    stages = {(x.kind, y.kind) for x, y in found.pairs if x.depth == 3}
    assert stages == {
        ("+".join(body.split()), "+".join(after[at].split()))
        for body, at in zip(before, partners, strict=True)
    }


def test_a_kernel_that_was_renamed_is_known_by_its_code():
    def named(name, body="x = 1", signature="n: i32"):
        trace = spun(100, signature=signature, name=name)
        trace.kernels = [
            replace(trace.kernels[0], source=f"@triton.jit\ndef {name}(x):\n    {body}  # a word\n")
        ]
        return trace

    result = compare(named("work"), named("work2"))
    assert [table.title for table in result.tables] == ["work2"]
    said = [finding.text for finding in result.findings]
    assert any("has the code of work in A" in text for text in said)
    assert not any("only in" in text or "the code differs" in text for text in said)
    for other in (named("work2", body="x = 2"), named("work2", signature="n: i64")):
        result = compare(named("work"), other)
        assert not result.tables
        assert [finding.text for finding in result.findings] == ["only in A: work", "only in B: work2"]


def test_code_is_what_is_left_without_comments_and_layout():
    one = "    def k(x):\n        # a comment\n        y = x+1  # and another\n\n        return (y)\n"
    other = "def k(x):\n    y = x + 1\n    return y"
    assert code_of(one) == code_of(other)
    assert code_of(one) != code_of(other.replace("1", "2"))
    assert code_of("not (python  # x\n\n  at all") == code_of("not (python\nat  all")


def worked(light, heavy, mix, seed=0):
    """Launches of two works, in the given order: light and heavy calls of one kernel over one grid."""
    noise = np.random.default_rng(seed).uniform(0.99, 1.01, len(mix))
    lengths = [round(1000 * (light if work == 0 else heavy) * n) for work, n in zip(mix, noise)]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return Trace.build(
        {"launch": range(len(mix)), "region": [0] * len(mix), "start": starts, "stop": starts + lengths},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(n, work=work) for n, work in enumerate(mix)],
        regions=[Region(0, "k", "kernel")],
        works=[Work(n, 0, (1,), f"n={n}", mix.count(n), mix.count(n)) for n in (0, 1)],
    )


def test_work_is_held_against_the_same_work():
    """Two thirds light calls before, two thirds heavy ones after: nothing became slower."""
    a, b = worked(1, 10, [0, 0, 1] * 8), worked(1, 10, [1, 1, 0] * 8, seed=1)
    row = compare(a, b).tables[0].frame.row(0, named=True)
    assert row["verdict"] == "within noise"
    assert row["change"] == pytest.approx(0, abs=0.02)
    slower = compare(a, worked(1, 12, [1, 1, 0] * 8)).tables[0].frame.row(0, named=True)
    assert slower["verdict"] == "slower"
    assert slower["change"] == pytest.approx(0.18, abs=0.03)
    other = worked(1, 10, [0, 1] * 8)
    other.works = [replace(work, arguments=f"n={7 + work.id}") for work in other.works]
    assert any("different work is compared" in f.text for f in compare(a, other).findings)


def test_sampled_programs_do_not_look_faster():
    """Half of the programs recorded, each standing for two."""
    whole = attention(launches=6, programs=8)
    half = whole.filter(programs=range(4))
    half.frame = half.intervals.with_columns(weight=2.0 * half.intervals["weight"])
    rows = compare(whole, half).tables[0].frame
    assert rows["change"].to_list() == pytest.approx([0.0] * rows.height, abs=1e-6)
    assert rows["estimate"].all()


def test_labels():
    def kernel(n, signature, name="k"):
        return Kernel(n, name, "cpu", Clock(1e9), signature=signature)

    made = [
        kernel(0, "x: *fp32, B=1, E=True"),
        kernel(1, "x: *fp32, B=2, E=True"),
        kernel(2, "x: *fp32, E=True"),
    ]
    assert labels(made) == {0: "k [B=1]", 1: "k [B=2]", 2: "k [x: *fp32, E=True]"}
    assert labels([*made[:1], kernel(5, "", "other")]) == {0: "k", 5: "other"}
    assert labels([kernel(0, "B=1"), kernel(1, "B=1")]) == {0: "k", 1: "k #2"}
    pairs = match_kernels(spun(1, "B=1"), spun(1, "B=2", name="other"))
    assert ([k.name for k in pairs.only_a], [k.name for k in pairs.only_b]) == (["spin"], ["other"])


def test_more_launches_mean_less_noise():
    def noise(launches):
        a, b = (attention(noise=0.05, launches=launches, seed=seed) for seed in (1, 2))
        return compare(a, b).tables[0].frame["noise"][0]

    few, many = noise(12), noise(108)
    assert few / many == pytest.approx(3.0, rel=0.6)
    assert 0 < many < 0.02


def test_half_the_same_is_enough():
    a, b = spun(100, kinds=("load+sin",)), spun(100, kinds=("load+sin+cos+exp",))
    assert len(match_regions(a, a.kernels[0], b, b.kernels[0]).pairs) == 2
    b = spun(100, kinds=("load+sin+cos+exp+log",))
    assert len(match_regions(a, a.kernels[0], b, b.kernels[0]).pairs) == 1


def test_many_regions_that_are_alike_are_all_matched():
    """An unrolled loop leaves hundreds of them; one more stage in front does not make them strangers."""
    a, b = (spun(100, launches=1, kinds=(*more, *["load"] * 250)) for more in ((), ("dot",)))
    pairs = match_regions(a, a.kernels[0], b, b.kernels[0]).pairs
    assert [(mine.id, other.id) for mine, other in pairs[1:]] == [(n, n + 1) for n in range(1, 251)]
