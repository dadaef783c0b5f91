"""The portable passes on modules that Triton pipelines and specialises for GPUs: compiled here, run nowhere."""

import os
import sys

import pytest
from xdsl.dialects.builtin import i64

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ir"))
import kernels_control
import kernels_matmul
from bridge_stages import Compilation

from tileprobe.ir.accessors import op_name
from tileprobe.ir.bridge import from_xdsl, to_xdsl
from tileprobe.ir.probe import RegionOp
from tileprobe.ir.reader import op_class, parse_attributes
from tileprobe.ir.record import CursorOp, EnterOp, NextOp, OpenOp, PushOp
from tileprobe.ir.regions import regions_of
from tileprobe.ir.registry import context, structure
from tileprobe.passes import pipeline
from tileprobe.passes.assign_slots import layout_of

CASES = [*kernels_matmul.CASES, *kernels_control.CASES]
FRONT = "select,instrument,merge-probes,sample{capacity=8},assign-slots{granularity=warp}"


def ttgir(name, target):
    case = next(case for case in CASES if case.name == name)
    compilation = Compilation(case, target)
    first = compilation.run(compilation.module, compilation.first, compilation.metadata)
    return compilation.run(first, "ttgir", compilation.metadata)


def probed(module, passes):
    pipeline(passes).apply(context(), module)
    module.verify()
    return structure("scf").kernels(module)[0]


def drop_ours(module):
    ours = [op for op in module.walk() if op_name(op).startswith("record.") or isinstance(op, RegionOp)]
    for op in reversed(ours):
        op.detach()
        op.erase()


def copies(kernel, kind="async"):
    """For each asynchronous region its spans: the logical iterations of both ends."""
    names = {region.id: region.name for region in regions_of(kernel) if region.kind == "async"}
    found = {name: [] for name in names.values()}
    for span in layout_of(kernel).spans:
        if span.kind == kind:
            ends = (span.start_peeled >= 0, span.start_ahead), (span.stop_peeled >= 0, span.stop_ahead)
            found[names[span.region]].append(ends)
    return found


def test_copies_of_a_pipelined_matmul():
    """Three stages: copies before the loop for iterations 0 and 1, those in it are two ahead of their wait."""
    found = copies(probed(to_xdsl(ttgir("matmul_ieee", "sm80")), FRONT))
    here = (False, 0)
    expected = [((True, 0), here), ((True, 1), here), ((False, 2), here)]
    assert found == {"async copy @ 17": expected, "async copy @ 18": expected}


def test_of_several_waits_for_a_copy_the_first_ends_it():
    """Operands are prefetched: a wait before the loop and one at the end of each iteration, one ahead."""
    kernel = probed(to_xdsl(ttgir("matmul", "sm80")), FRONT)
    early, ahead = (True, 0), (False, 1)
    expected = [(early, early), ((True, 1), ahead), ((False, 2), ahead)]
    assert copies(kernel) == {"async copy @ 17": expected, "async copy @ 18": expected}
    assert all(len(waits) == 4 for waits in copies(kernel, "wait").values())


@pytest.mark.parametrize(("target", "warps"), [("sm90", (4, 4, 4)), ("sm100", (4, 1, 2))])
def test_partitions_are_streams(target, warps):
    module = to_xdsl(ttgir("specialised_matmul", target))
    layout = layout_of(probed(module, FRONT))
    assert tuple(stream.instances for stream in layout.streams) == warps
    assert [stream.name for stream in layout.streams] == ["", "partition 0", "partition 1"]
    pipeline("probe-to-record").apply(context(), module)
    module.verify()
    opened = [op for op in module.walk() if isinstance(op, OpenOp)]
    above = [op_name(op.parent_op()) for op in opened]
    assert above == ["tt.func", *["ttg.warp_specialize.partitions"] * 2]
    assert [op.stream.data for op in opened] == [0, 1, 2]
    for op in module.walk():  # partitions are isolated: a record uses the block of its own stream
        if op_name(op).startswith("record.") and not isinstance(op, OpenOp):
            region = op.parent_region()
            while region.parent is not None and not any(o.parent is region.blocks.first for o in opened):
                region = region.parent.parent_region()
            for value in op.operands:
                if isinstance(value.owner, OpenOp):
                    assert value.owner.parent is region.blocks.first


def test_nothing_of_ours_stays_behind():
    """Without the ops, which a target lowers, Triton reads the module and it is what it was."""
    module = ttgir("matmul_ieee", "sm80")
    before = module.str_nodebug()
    bridged = to_xdsl(module)
    probed(bridged, f"{FRONT},probe-to-record")
    drop_ours(bridged)
    assert from_xdsl(bridged, module.context).str_nodebug() == before


def stand_in(op):
    """A value of Triton's own in place of a carried one of ours: 0 to begin with, then doubled."""
    if isinstance(op, (CursorOp, EnterOp)):
        properties = parse_attributes("{value = 0 : i64}")
        made = op_class("arith.constant").create(result_types=[i64], properties=properties)
        return op.results[0], made
    taken, given = (op.cursor, op.moved) if isinstance(op, PushOp) else (op.number, op.following)
    properties = parse_attributes("{overflowFlags = #arith.overflow<none>}")
    made = op_class("arith.addi").create(
        operands=[taken, taken], result_types=[i64], properties=properties, location=op.location
    )
    return given, made


def test_triton_takes_the_carried_values():
    """Loops, branches and while loops with the cursor in them are well formed in Triton's eyes."""
    module = ttgir("loops_and_branches", "sm80")
    before = module.str_nodebug()
    bridged = to_xdsl(module)
    probed(bridged, f"{FRONT},probe-to-record")
    carrying = [op for op in bridged.walk() if isinstance(op, (CursorOp, EnterOp, NextOp, PushOp))]
    assert {type(op) for op in carrying} == {CursorOp, EnterOp, NextOp, PushOp}
    for op in carrying:
        given, made = stand_in(op)
        op.parent.insert_op_before(made, op)
        given.replace_all_uses_with(made.results[0])
    drop_ours(bridged)
    returned = from_xdsl(bridged, module.context)
    assert returned.verify()
    text = returned.str_nodebug()
    assert text.count("scf.while") == before.count("scf.while") > 0
    assert text.count("i64") > before.count("i64")
