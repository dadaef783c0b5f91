"""Records in machine code, read from the cubins that Triton makes: all are there, what they cost, what they measure."""

import re
from collections import Counter

import pytest
from gpu_cases import CASES, DENSE, EVERYTHING, code, plain, probed

from tileprobe.ir.bridge import from_xdsl
from tileprobe.targets.gpu.compile import _compiled, add_probes, gpu_target
from tileprobe.targets.gpu.machine_code import a_record_in_a_loop, lost_records, record_cost
from tileprobe.targets.gpu.placed import placed
from tileprobe.targets.gpu.sass import read_cubin
from tileprobe.tools.plan import Plan

# Kernels with random numbers ask for a load that no ptxas takes, with probes or without.
EACH = [
    (case.name, target)
    for case in CASES.values()
    for target in case.targets
    if target.startswith("sm") and case.name != "random_dropout"
]
SMALL = [
    ("matmul", "sm80"),
    ("descriptor_matmul", "sm90"),
    ("specialised_matmul", "sm100"),
    ("softmax", "sm90"),
    ("hand_off", "sm90"),
    ("loops_and_branches", "sm80"),
]
SOME = EACH if EVERYTHING else SMALL


@pytest.mark.parametrize(("name", "target"), SOME)
def test_every_record_survives(name, target):
    made = probed(name, target)
    assert made.records
    assert lost_records(code(made.kernel), made.records) == []


@pytest.mark.parametrize("machine", ["86", "89", "120"])
def test_every_record_survives_on_other_machines(machine):
    import triton

    case = CASES["layer_norm"]
    kernel = triton.compile(case.source(), target=gpu_target("cuda", machine), options=case.options)
    made = add_probes(kernel, DENSE.pipeline("ttgir"))
    whole = code(made.kernel)
    assert lost_records(whole, made.records) == []
    cost = record_cost(whole)
    looped = [cost[slot.id] for slot in made.layout.slots if slot.loops]
    assert looped
    assert sum(looped) / len(looped) <= 3


def test_partitions_that_are_alike_keep_their_records():
    """The same record at the same place of two blocks: LLVM must not make one of them, whose slot is then unknown."""
    made = probed("tile_by_tile_specialised", "sm90")
    ends = {span.stop for span in made.layout.spans if span.kind == "region"}
    within = [slot.base for slot in made.layout.slots if slot.id in ends and slot.stream]
    assert len(set(within)) < len(within)
    assert lost_records(code(made.kernel), made.records) == []


def test_doses_survive():
    """Stores of the same place one after another are not taken for one."""
    made = probed("matmul", "sm80", copies=3)
    assert len(made.records) == 3 * len(probed("matmul", "sm80").records)
    assert lost_records(code(made.kernel), made.records) == []


@pytest.mark.parametrize("target", ["sm80", "sm90", "sm100"])
def test_a_narrow_clock_takes_one_instruction_more(target):
    """The epoch beside it is in a register of each thread: one to put it into the other half."""
    layer_norm = plain("layer_norm", target)
    made = add_probes(layer_norm, DENSE.pipeline("ttgir", records={"clock_bits": 32}))
    looped = {slot.id for slot in made.layout.slots if slot.loops}
    assert looped
    assert a_record_in_a_loop(code(made.kernel), looped) < 3.5


def test_a_record_that_is_gone_is_found():
    made = probed("matmul", "sm80")
    whole = code(made.kernel)
    gone = made.records[5]
    cut = type(whole)(
        tuple(op for op in whole.instructions if op.slot != gone), whole.registers, whole.spill_bytes
    )
    assert lost_records(cut, made.records) == [gone]


@pytest.mark.parametrize(("name", "target"), SMALL[:3])
def test_a_record_in_a_loop_costs_two_instructions(name, target):
    """Read the clock, store it. Compilers put a move between here and there: at most three on average."""
    made = probed(name, target)
    cost = record_cost(code(made.kernel))
    looped = [cost[slot.id] for slot in made.layout.slots if slot.loops and slot.id in cost]
    assert looped
    assert sorted(looped)[len(looped) // 2] == 2
    assert sum(looped) / len(looped) <= 3


# Of all warps: where partitions are started and where they end.
_PARTITION_BARRIER = ("BAR.SYNC.DEFER_BLOCKING", "0x1")


@pytest.mark.parametrize(
    ("name", "target"),
    SOME if EVERYTHING else [*SMALL[:3], ("matmul", "sm90"), ("specialised_matmul", "sm90")],
)
def test_no_shared_memory_and_no_barrier_is_added(name, target):
    before, after = plain(name, target), probed(name, target).kernel
    assert after.metadata.shared == before.metadata.shared
    barriers = [
        Counter(
            (op.opcode, op.operands)
            for op in code(kernel).work
            if op.opcode.startswith(("BAR", "MEMBAR", "ERRBAR"))
        )
        for kernel in (before, after)
    ]
    # Ends of partitions that are alike are one piece of code without records, and then its barrier is there once.
    ends = barriers[1][_PARTITION_BARRIER] - barriers[0][_PARTITION_BARRIER]
    assert 0 <= ends <= max(0, len(re.findall(r"^ *partition\d+\(", before.asm["ttgir"], re.M)) - 1)
    barriers[1][_PARTITION_BARRIER] -= ends
    assert barriers[0] == barriers[1]


def test_products_and_copies_stand_between_their_clocks():
    made = probed("matmul", "sm80")
    found = {}
    for each in placed(code(made.kernel), made.sites):
        found.setdefault(each.site.op, []).append(each)
    assert set(found) >= {"tt.dot", "ttg.async_copy_global_to_local", "ttg.async_wait", "ttg.local_load"}
    for several in found.values():
        assert all(each.inside > 0 and each.moved == 0 for each in several)


def test_an_instruction_that_was_moved_is_found():
    """A tensor core's instruction put behind the clock that ends its region."""
    made = probed("matmul", "sm80")
    whole = code(made.kernel)
    site = next(each.site for each in placed(whole, made.sites) if each.site.op == "tt.dot")
    ops = list(whole.instructions)
    begin = next(n for n, op in enumerate(ops) if op.slot == site.before and op.reads_clock)
    first = next(n for n in range(begin, len(ops)) if ops[n].opcode.startswith("HMMA"))
    end = next(n for n in range(first, len(ops)) if ops[n].slot == site.after and ops[n].reads_clock)
    inside = sum(op.opcode.startswith("HMMA") for op in ops[begin:end])
    ops.insert(end + 1, ops.pop(first))
    changed = type(whole)(tuple(ops), whole.registers, whole.spill_bytes)
    moved = next(each for each in placed(changed, made.sites) if each.site == site)
    assert moved.inside == inside - 1
    assert 0 < moved.moved <= 1


def test_options_and_registers_are_kept():
    """`maxnreg` is part of the module, and still is with records in it."""
    import triton
    from bridge_stages import TARGETS

    case = CASES["softmax"]
    limited = triton.compile(case.source(), target=TARGETS["sm80"], options={**case.options, "maxnreg": 32})
    made = add_probes(limited, Plan(kinds=("all",)).pipeline("ttgir"))
    assert read_cubin(made.kernel.asm["cubin"], made.kernel.asm["ptx"]).registers <= 32
    assert ".maxnreg 32" in made.kernel.asm["ptx"]


@pytest.mark.parametrize(("name", "target"), SOME if EVERYTHING else SMALL[:2])
def test_without_probes_the_machine_code_is_tritons(name, target):
    """Byte for byte: over the bridge and back, and a pipeline that selects nothing makes no kernel at all."""
    from gpu_cases import ttgir_of

    kernel = plain(name, target)
    module, context = ttgir_of(kernel)
    again = _compiled(kernel, from_xdsl(module, context).str())
    assert again.asm["ptx"] == kernel.asm["ptx"]
    nothing = DENSE.pipeline("ttgir").replace("select{", 'select{function="another" ')
    assert add_probes(kernel, nothing) is None
