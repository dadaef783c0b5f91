"""Distances of software pipelining: an asynchronous operation belongs to the iteration that uses what it brings.

The truth comes from memory: whoever multiplies reads places in shared memory, and the copy that wrote there last is
the one it uses. Its logical iteration must be the reader's, in every iteration, on every kernel.
"""

import pytest
from gpu_cases import CASES, EVERYTHING, bridged, probed

from tileprobe.ir.accessors import op_name
from tileprobe.ir.layout import behind
from tileprobe.targets.gpu.events import Place
from tileprobe.targets.gpu.pairing import Pairs
from tileprobe.targets.gpu.scalar_run import Sizes, run_scalars
from tileprobe.targets.gpu.structure import TtgirStructure

COPIES = (
    "ttg.async_copy_global_to_local",
    "ttng.async_tma_copy_global_to_local",
    "amdg.buffer_load_to_local",
)
READERS = ("ttg.local_load", "ttng.warp_group_dot", "ttng.tc_gen5_mma")
SMALL = [
    ("matmul", "sm80"),
    ("matmul", "sm90"),
    ("matmul", "sm100"),
    ("descriptor_matmul", "sm90"),
    ("specialised_matmul", "sm90"),
    ("specialised_matmul", "sm100"),
    ("attention_forward", "sm80"),
    ("attention_forward", "sm90"),
    ("attention_backward", "sm80"),
    ("specialised_attention", "sm100"),
    ("persistent_matmul", "sm90"),
    ("copied_ahead", "sm80"),
    ("row_of_products", "sm80"),
    ("matmul", "gfx950"),
]
EACH = [
    (case.name, target)
    for case in CASES.values()
    for target in (*case.targets, *["gfx950"] * ("gfx942" in case.targets))
]
SIZES = Sizes(size=640, few=9, many=11)  # not those by which the distances are found


def kernel_of(name, target):
    return TtgirStructure().kernels(bridged(name, target)[0])[0]


def logical(pairs, event, trips):
    """The iterations that a copy or wait belongs to, by what was found."""
    ends = (*pairs.issues.get(event.op, ()), *pairs.waits.get(event.op, ()))
    return {
        (end.ahead if end.ahead >= 0 else trips[end.peeled] + end.ahead)
        if end.peeled is not None
        else event.iteration + end.ahead
        for end in ends
    }


def written_and_read(kernel):
    """(copy, reader) for each time that an op reads what a copy brought."""
    wanted = {
        *COPIES,
        *READERS,
        "ttng.wait_barrier",
        "ttng.arrive_barrier",
        "ttng.barrier_expect",
        "ttng.tc_gen5_commit",
    }
    run = run_scalars(kernel, lambda op: op_name(op) in wanted, SIZES)
    last, found = {}, []
    for event in run.events:
        places = [v for v in event.values if isinstance(v, Place) and v.index is not None]
        if op_name(event.op) in COPIES:
            target = [p for p in places if p.root not in _barriers(run)][-1:]
            last.update((place, event) for place in target)
        elif op_name(event.op) in READERS:
            found += [(last[place], event) for place in places if place in last]
    return run, found


def _barriers(run):
    return {
        event.values[0].root
        for event in run.events
        if "barrier" in op_name(event.op) and isinstance(event.values[0], Place)
    }


@pytest.mark.parametrize(("name", "target"), EACH if EVERYTHING else SMALL)
def test_copies_belong_to_the_iteration_that_uses_them(name, target):
    kernel = kernel_of(name, target)
    pairs = Pairs(kernel)
    run, found = written_and_read(kernel)
    assert found or EVERYTHING
    early = {}
    for copy, reader in found:
        if not reader.loops or copy.op not in pairs.issues or not (copy.loops or _peeled(pairs, copy)):
            continue
        counted = {end.peeled or copy.loop for end in pairs.issues[copy.op]}
        if reader.stream == copy.stream and reader.loop not in counted:
            continue  # read before its loop
        belongs = logical(pairs, copy, run.trips)
        assert len(belongs) == 1
        # What is read into registers early is used an iteration later: constant for each reader.
        early.setdefault(reader.op, set()).add(belongs.pop() - reader.iteration)
    if not EVERYTHING:
        assert early
    for op, distances in early.items():
        early_at_times = op_name(op) == "ttg.local_load" and target.startswith("sm")
        allowed = {0, 1} if early_at_times else {0}
        assert len(distances) == 1
        assert distances <= allowed


def _peeled(pairs, copy):
    return all(end.peeled is not None for end in pairs.issues[copy.op])


def table(name, target):
    """For each operation the iterations of its ends: (peeled, ahead), issues before waits."""
    kernel = kernel_of(name, target)
    pairs, how = Pairs(kernel), TtgirStructure()
    found = {}
    for op in kernel.walk():
        for side, ends in (("issue", pairs.issues.get(op, ())), ("wait", pairs.waits.get(op, ()))):
            for end in ends:
                label = f"{end.name} @ {how.lines(end.issue)}"
                found.setdefault((label, end.key), []).append((side, end.peeled is not None, end.ahead))
    return sorted((label, ends) for (label, _), ends in found.items())


def test_a_pipelined_matmul_on_ampere():
    copies = [("issue", True, 0), ("issue", True, 1), ("wait", False, 0), ("issue", False, 2)]
    assert table("matmul_ieee", "sm80") == [("async copy @ 17", copies), ("async copy @ 18", copies)]


def test_a_wait_before_the_loop():
    """Operands are prefetched: what is awaited before the loop is iteration 0."""
    ends = dict(table("matmul", "sm80"))["async copy @ 17"]
    assert [ahead for ahead in ends if ahead[0] == "issue"] == [
        ("issue", True, 0),
        ("issue", True, 1),
        ("issue", False, 2),
    ]
    assert [ahead for ahead in ends if ahead[0] == "wait"] == [
        ("wait", True, 0),
        ("wait", False, 0),
        ("wait", False, 1),
        ("wait", False, 1),
    ]


@pytest.mark.parametrize("name", ["row_of_products", "left_early"])
def test_a_wait_before_a_loop_inside_of_another_or_behind_a_return(name):
    """What is awaited there is iteration 0 of the inner loop, whichever the outer one is in. Returns are passed by:
    whether they are taken is no matter of sizes."""
    alone, other = (dict(table(name, "sm80")) for name in ("matmul", name))
    assert [sorted(ends) for ends in other.values()] == [sorted(alone["async copy @ 17"])] * 2


def test_groups_of_copies_without_tokens():
    """A Gluon kernel waits until so many groups are under way; each has two copies."""
    found = table("copied_ahead", "sm80")
    copies = [("issue", True, 0), ("issue", True, 1), ("issue", False, 2), ("wait", False, 0)]
    assert [ends for _, ends in found] == [copies, copies]
    assert [label.split(" @")[0] for label, _ in found] == ["async copy", "async copy"]


def test_tensor_copies_and_products_on_hopper():
    found = table("descriptor_matmul", "sm90")
    loads = [("issue", True, 0), ("issue", True, 1), ("wait", False, 0), ("issue", False, 2)]
    assert [label for label, _ in found] == [
        "TMA load @ 44",
        "TMA load @ 44",
        "TMA store @ 45",
        "async dot @ 44",
    ]
    assert [ends for label, ends in found if label == "TMA load @ 44"] == [loads, loads]
    assert dict(found)["async dot @ 44"] == [("issue", False, 0), ("wait", False, -1), ("wait", True, -1)]
    assert dict(found)["TMA store @ 45"] == [("issue", False, 0), ("wait", False, 0)]


@pytest.mark.parametrize("target", ["sm90", "sm100"])
def test_partitions_meet_at_their_barriers(target):
    """Data is awaited in its own iteration; a place is free again three iterations later."""
    found = table("specialised_matmul", target)
    distances = {}
    for label, ends in found:
        distances.setdefault(label.split(" @")[0], set()).update(a for side, _, a in ends if side == "wait")
    free = {"sm90": "release", "sm100": "dot"}[target]
    assert distances["TMA load"] == {0}
    assert -3 in distances[free]


def test_a_wait_behind_a_loop_of_another_partition():
    """It names the last iteration by the loop of its own partition, which runs as often."""
    kernel = kernel_of("specialised_attention", "sm100")
    pairs = Pairs(kernel)
    ends = [(op, end) for op, found in pairs.waits.items() for end in found if end.peeled is not None]
    assert ends
    for op, end in ends:
        assert end.ahead == -1
        assert end.peeled.parent_region() is op.parent_region()


def test_what_depends_on_sizes_is_left_alone():
    """The store of a tile runs in some iterations of the flattened loop: its wait belongs to no constant one."""
    assert not [label for label, _ in table("persistent_matmul", "sm90") if label.startswith("TMA store")]


def test_a_product_before_its_loop_inside_of_another():
    """The first product stands before the inner loop and is awaited in it: it is no iteration of either loop's own."""
    kernel = kernel_of("tile_by_tile", "sm100")
    pairs = Pairs(kernel)
    products = [op for op in kernel.walk() if op_name(op) == "ttng.tc_gen5_mma"]
    depths = [sum(op_name(above) == "scf.for" for above in parents(op)) for op in products]
    assert depths == [1, 2]
    assert products[0] not in pairs.issues
    assert [end.ahead for end in pairs.issues[products[1]]] == [0]
    assert probed("tile_by_tile", "sm100").records


def parents(op):
    while (op := op.parent_op()) is not None:
        yield op


def test_loads_that_are_put_into_shared_memory_behind_a_product():
    """How AMD's loops are pipelined without asynchronous copies: the store waits, two iterations before the use."""
    ends = [("issue", False, 2), ("wait", False, 2)]
    assert table("matmul", "gfx942") == [("load @ 17", ends), ("load @ 18", ends)]


def test_loads_that_a_later_iteration_puts_into_shared_memory():
    """Two products in a row: each load is carried into the next iteration; those before the loop and the stores behind
    it belong to it."""
    found = table("two_products", "gfx942")
    assert [label for label, _ in found] == ["load @ 74", "load @ 76"]
    for n, (_, ends) in enumerate(found):
        assert ends == [
            ("issue", True, n),
            ("wait", False, n),
            ("issue", False, n + 1),
            ("wait", True, behind(n)),
        ]
