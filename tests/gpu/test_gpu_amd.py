"""Records in AMD's machine code, read from the assembly that LLVM writes."""

import re
from functools import cache

import pytest
import triton
from gpu_cases import CASES, DENSE, EVERYTHING, bridged

from tileprobe.ir.bridge import from_xdsl
from tileprobe.ir.registry import context
from tileprobe.passes import pipeline
from tileprobe.targets.gpu.amdgcn import read_amdgcn
from tileprobe.targets.gpu.compile import Site, _compiled, add_probes, gpu_target
from tileprobe.targets.gpu.copies import comes_back, copies_in_loops
from tileprobe.targets.gpu.evidence import read_code
from tileprobe.targets.gpu.gathered import gathered
from tileprobe.targets.gpu.machine_code import (
    Code,
    Instruction,
    a_record_in_a_loop,
    lost_records,
)
from tileprobe.targets.gpu.placed import placed

NAMES = ["matmul", "softmax", "attention_forward", "layer_norm", "early_return"]
EACH = [(name, arch) for name in NAMES for arch in ("gfx942", "gfx950", "gfx1100")]
SMALL = [("matmul", "gfx942"), ("early_return", "gfx942"), ("softmax", "gfx950"), ("softmax", "gfx1100")]


@cache
def plain(name, arch):
    case = CASES[name]
    return triton.compile(case.source(), target=gpu_target("hip", arch), options=case.options)


@cache
def probed(name, arch, copies=1):
    return add_probes(plain(name, arch), DENSE.pipeline("ttgir", copies=copies))


@pytest.mark.parametrize(("name", "arch"), EACH if EVERYTHING else SMALL)
def test_every_record_survives(name, arch):
    made = probed(name, arch)
    assert made.records
    assert lost_records(read_code(made.kernel), made.records, made.idle) == []


def test_doses_survive():
    made = probed("softmax", "gfx942", copies=3)
    assert lost_records(read_code(made.kernel), made.records) == []


def test_matrix_instructions_stand_between_their_clocks():
    """LLVM would spread them over the clocks of their neighbours."""
    made = probed("matmul", "gfx942")
    dots = [each for each in placed(read_code(made.kernel), made.sites) if each.site.op == "tt.dot"]
    assert dots
    assert all(each.inside == 16 and each.moved == 0 for each in dots)


def test_no_shared_memory_and_no_barrier_is_added():
    before, after = plain("matmul", "gfx942"), probed("matmul", "gfx942").kernel
    assert after.metadata.shared == before.metadata.shared
    barriers = [sum(op.opcode == "s_barrier" for op in read_code(k).work) for k in (before, after)]
    assert barriers[0] == barriers[1]


@pytest.mark.parametrize(("name", "arch"), EACH if EVERYTHING else SMALL[2:])
def test_without_probes_the_machine_code_is_tritons(name, arch):
    from gpu_cases import ttgir_of

    kernel = plain(name, arch)
    module, context = ttgir_of(kernel)
    assert _compiled(kernel, from_xdsl(module, context).str()).asm["amdgcn"] == kernel.asm["amdgcn"]


LOOPS = [
    (name, arch)
    for name in ("matmul", "layer_norm", "nested_loops")
    for arch in ("gfx942", "gfx950", "gfx1100")
]
FEW_LOOPS = [
    ("matmul", "gfx942"),
    ("layer_norm", "gfx950"),
    ("nested_loops", "gfx942"),
    ("nested_loops", "gfx1100"),
]


@pytest.mark.parametrize(("name", "arch"), LOOPS if EVERYTHING else FEW_LOOPS)
def test_a_record_in_a_loop_takes_three_instructions_and_no_branch(name, arch):
    """Read the clock, move it; one wait and four stores are for eight. Loops with two or three records each have a wait
    and a store for these."""
    made = probed(name, arch)
    code = read_code(made.kernel)
    each = a_record_in_a_loop(code, {slot.id for slot in made.layout.slots if slot.loops})
    assert each is not None
    assert each <= 3
    assert not [op for op in code.own if op.slot >= 0 and "exec" in f"{op.opcode} {op.operands}"]
    if arch != "gfx1100":
        assert "buffer_store_dwordx4" in {op.opcode for op in code.own if op.slot >= 0}


def test_an_iterations_place_is_no_instruction_of_its_records():
    """It is added by the store, from a scalar register; the descriptor stays where it is."""
    code = read_code(probed("nested_loops", "gfx942").kernel)
    stores = [op for op in code.own if op.slot >= 0 and op.opcode.startswith("buffer_store")]
    looped = [op for n, op in enumerate(code.instructions) if op in stores and comes_back(code, n)]
    assert len(looped) == 4  # two of three in each of two loops
    places = [op.operands.split(", ") for op in looped]
    assert len({place[2] for place in places}) == 1  # descriptors
    assert all(place[3].startswith("s") for place in places)
    assert not [op for op in code.own if op.slot >= 0 and op.opcode.startswith(("v_add", "v_lshl", "v_mad"))]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100"])
def test_descriptors_are_as_tritons(arch):
    """Size and last word of its own buffers, as its LLVM IR has them."""
    own = re.findall(
        r"make\.buffer\.rsrc\S*\(.*?, i16 0, i64 (\d+), i32 (\d+)\)", plain("nested_loops", arch).asm["llir"]
    )
    ours = re.findall(
        r"<i32 poison, i32 poison, i32 (\d+), i32 (\d+)>", probed("nested_loops", arch).kernel.asm["llir"]
    )
    assert own
    assert set(own) == set(ours)


def test_clocks_of_both_branches_stay_apart():
    """LLVM makes one of what two branches end with, and of what they begin with."""
    for copies in (1, 2):
        made = probed("either_way", "gfx942", copies)
        assert lost_records(read_code(made.kernel), made.records) == []


def test_clocks_are_held_over_an_inner_loop_but_not_over_the_outermost():
    module, _ = bridged("nested_loops", "gfx942")
    for step in pipeline(DENSE.pipeline("ttgir")).passes:
        step.apply(context(), module)
    groups = dict.fromkeys(gathered(module, 8).values())
    found = [[len(record.place.owner.indices) for record in group] for group in groups]
    # Behind the loops, before them, around the inner one, in it.
    assert sorted(found) == [[0], [0, 0], [1, 1, 1], [2, 2, 2]]


def test_copies_that_a_record_reads_are_its_own():
    """Whatever line they have. Copies that something else reads are not, nor are those outside of loops."""

    def code(inside, reads="s[2:3]", outside=0):
        store = f"v[4:5], v6, {reads}, s7 offen"
        turn = [
            Instruction(0, "s_memtime", "s[8:9]", "", "tileprobe.record", 1),
            *[Instruction(0, *copy) for copy in inside],
            Instruction(0, "buffer_store_dwordx2", store, "", "tileprobe.record", 1),
            Instruction(0, "s_cbranch_scc1"),
        ]
        ops = [*turn, *[Instruction(0, "s_mov_b32", "s2, s5")] * outside]
        steps = [(n + 1,) if n + 1 < len(ops) else () for n in range(len(ops))]
        steps[len(turn) - 1] = (*steps[len(turn) - 1], 0)
        return Code(tuple(ops), 8, 0, following=tuple(steps))

    taken, other = (
        ("s_mov_b32", "s3, s26", "", "kernel.py", 3),
        ("s_mov_b32", "s12, s26", "", "tileprobe.record", 1),
    )
    over = ("s_add_i32", "s3, s3, s4", "", "kernel.py", 3)
    zero, dual = ("v_mov_b32_e32", "v5, 0"), ("v_dual_mov_b32", "v9, v1 :: v_dual_mov_b32 v6, v2")
    for inside, each in (
        ([], 2.0),
        ([taken], 3.0),
        ([other], 2.0),
        ([taken, over], 2.0),  # something else has written there since
        ([zero], 3.0),
        ([dual], 3.0),
    ):
        assert a_record_in_a_loop(code(inside, outside=3), {0}) == each
    assert copies_in_loops(code([taken, other], outside=3)) == 2
    assert a_record_in_a_loop(code([]), set()) is None


@pytest.mark.parametrize(
    ("operands", "ours", "copies"),
    [
        ("v33, s0 :: v_dual_mov_b32 v34, s26", True, False),  # two clocks
        ("v33, s0 :: v_dual_mov_b32 v34, 0", True, False),
        ("v33, v0 :: v_dual_mov_b32 v34, s26", True, False),
        ("v33, v0 :: v_dual_mov_b32 v34, v1", False, True),
        ("v33, 0 :: v_dual_mov_b32 v34, 0", False, True),
        (
            "v33, s0 :: v_dual_add_nc_u32 v87, s20, v87",
            False,
            False,
        ),  # the kernel's own addition takes it along
        ("v33, v0 :: v_dual_add_nc_u32 v87, s20, v87", False, False),
    ],
)
def test_two_moves_by_one_instruction_of_rdna_are_one_of_a_record(operands, ours, copies):
    op = Instruction(0, "v_dual_mov_b32", operands, "", "tileprobe.record", 1)
    assert (op.ours, op.copies) == (ours, copies)


def test_all_doses_of_a_slot_are_stored_together():
    """So that what a record costs is learnt where records are stored in the kernel that is measured."""
    from tileprobe.ir.record import SlotOp, StoreOp

    found = {}
    for copies in (1, 3):
        module, _ = bridged("matmul", "gfx942")
        for step in pipeline(DENSE.pipeline("ttgir", copies=copies)).passes:
            step.apply(context(), module)
        groups = dict.fromkeys(gathered(module, 8).values())
        found[copies] = [[record.place.owner.slot.data for record in group] for group in groups]
        stores = [
            op for op in module.walk() if isinstance(op, StoreOp) and isinstance(op.place.owner, SlotOp)
        ]
        assert sum(map(len, found[copies])) == len(stores)
    assert [list(dict.fromkeys(group)) for group in found[3]] == found[1]
    assert all(len(three) == 3 * len(one) for one, three in zip(found[1], found[3], strict=True))
    assert max(map(len, found[1])) > 4


def test_blocks_that_lie_elsewhere_are_where_they_are_run():
    """Copies under a mask lie behind the end of the kernel, and loops are entered in their middle."""
    for arch in ("gfx942", "gfx950"):
        made = probed("matmul", arch)
        found = placed(read_code(made.kernel), made.sites)
        assert {each.site.op for each in found} & {"tt.load", "ttg.async_copy_global_to_local"}
        assert [each for each in found if each.moved] == []


def test_what_is_run_elsewhere_is_still_missed():
    """Clock, branch to a block with the copy that comes back, clock: inside. The same after the second clock: not."""

    def op(opcode, operands="", line=0, file="kernel.py"):
        return Instruction(0, opcode, operands, "", file, line)

    def clock(slot):
        return op("s_memtime", "", slot + 1, "tileprobe.record")

    ops = (
        clock(0),
        op("s_cbranch_scc1"),
        clock(1),
        op("s_endpgm"),
        op("global_load_lds_dwordx4", "", 7),
        op("s_branch"),
    )
    site = Site("ttg.async_copy_global_to_local", "kernel.py", 7, 0, 1)
    for back, moved in ((2, 0.0), (3, 1.0)):
        there = 1 if back == 2 else 2
        following = [(1,), (2,), (3,), (), (5,), (back,)]
        following[there] = (*following[there], 4)
        (found,) = placed(Code(ops, 8, 0, following=tuple(following)), [site])
        assert found.moved == moved


def test_copies_that_fill_a_pipeline_are_not_missed():
    """Of a line that is copied before the loop and in it only the copy in the loop has records around it."""
    ops = (
        Instruction(0, "LDGSTS", "", "", "kernel.py", 7),
        Instruction(0, "CS2R", "R2, SR_CLOCKLO", "", "tileprobe.record", 1),
        Instruction(0, "LDGSTS", "", "", "kernel.py", 7),
        Instruction(0, "CS2R", "R2, SR_CLOCKLO", "", "tileprobe.record", 2),
    )
    name = "ttg.async_copy_global_to_local"
    inside, before = Site(name, "kernel.py", 7, 0, 1), Site(name, "kernel.py", 7, -1, -1)
    (found,) = placed(Code(ops, 8, 0), [before, inside])
    assert found.site == inside
    assert found.moved == 0
    (found,) = placed(Code(ops, 8, 0), [inside])
    assert found.moved == 0.5


LISTING = """
helper:
	s_waitcnt vmcnt(0)
	s_setpc_b64 s[30:31]
.Lfunc_end0:
kernel:
	v_writelane_b32 v1, s8, 0
{}	s_swappc_b64 s[30:31], s[4:5]
	s_endpgm
.Lfunc_end1:
    .private_segment_fixed_size: 24
    .sgpr_spill_count: 6
    .vgpr_count:     42
    .vgpr_spill_count: {}
"""


def test_scalar_registers_are_spilled_to_no_memory():
    """They go to lanes of vector registers; a thread's memory is asked for where there are scratch instructions."""
    assert read_amdgcn(LISTING.format("", 0)).spill_bytes == 0
    assert read_amdgcn(LISTING.format("\tscratch_store_dword off, v3, off\n", 6)).spill_bytes == 24


def test_functions_that_are_called_are_part_of_the_kernel():
    """They stand before it."""
    assert [op.opcode for op in read_amdgcn(LISTING.format("", 0)).instructions] == [
        *("s_waitcnt", "s_setpc_b64", "v_writelane_b32", "s_swappc_b64", "s_endpgm")
    ]
    made = probed("calls", "gfx942")
    assert made.records
    assert lost_records(read_code(made.kernel), made.records) == []
