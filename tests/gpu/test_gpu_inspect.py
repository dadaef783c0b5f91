"""`tileprobe inspect --target cuda:90`: static evidence of a script's kernels, on a machine without a GPU."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from benchmarks._gpu_kernels import add, matmul
from fake_gpu import Tensor
from gpu_cases import CASES

from tileprobe.cli import main
from tileprobe.session.session import Session
from tileprobe.targets.catalog import find
from tileprobe.targets.gpu import evidence
from tileprobe.targets.gpu.occupancy import amd_occupancy, occupancy
from tileprobe.targets.gpu.stages import pipeline_stages
from tileprobe.targets.gpu.units import access_bytes, unit_of

SCRIPT = str(Path(__file__).parent / "inspected.py")
FIGURES = {"instructions", "registers", "spill_bytes", "shared_bytes", "occupancy_warps"}
COUNT = {"type": "integer", "minimum": 0}
TABLE = {"type": "object", "additionalProperties": COUNT}


def rows(**fields):
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": fields,
            "required": list(fields),
            "additionalProperties": False,
        },
    }


def side(**fields):
    """One side of a kernel: the figures that all have, and its own."""
    known = dict.fromkeys(FIGURES, COUNT) | {"occupancy_limiter": {"type": "string"}} | fields
    return {"type": "object", "properties": known, "required": list(known), "additionalProperties": False}


TEXT, SHARE = {"type": "string"}, {"type": "number", "minimum": 0, "maximum": 1}
PLAIN = side(
    mix=TABLE,
    lines=rows(file=TEXT, line=COUNT, instructions=COUNT, mix=TABLE),
    accesses=rows(file=TEXT, line=COUNT, opcode=TEXT, bytes=COUNT, count=COUNT),
    bank_conflicts=rows(
        op=TEXT,
        file=TEXT,
        line=COUNT,
        instruction=TEXT,
        wavefronts=COUNT,
        least=COUNT,
        count=COUNT,
        extra=COUNT,
    ),
    tensor_core=TABLE,
    layout_conversions=COUNT,
    pipeline_stages=rows(file=TEXT, line=COUNT, stages=COUNT),
)
PROBED = side(
    records=COUNT,
    own_instructions=COUNT,
    added_instructions={"type": "integer"},
    instructions_a_record_in_a_loop={"type": ["number", "null"]},
    lost_records={"type": "array", "items": COUNT},
    moved=rows(op=TEXT, file=TEXT, line=COUNT, share=SHARE),
    thinned=COUNT,
)
KERNEL = {
    "name": TEXT,
    "target": {"type": "string", "pattern": "^(cuda|hip):"},
    "plain": PLAIN,
    "probed": {"anyOf": [PROBED, {"type": "null"}]},
    "proton": {"anyOf": [side(records=COUNT), {"type": "null"}]},
    "notes": {"type": "array", "items": TEXT},
}
SCHEMA = {
    "type": "object",
    "properties": {"kernels": rows(**KERNEL)},
    "required": ["kernels"],
    "additionalProperties": False,
}


def inspect(capsys, *words):
    code = main(["inspect", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_evidence_as_json(capsys):
    code, out, err = inspect(capsys, "--target", "cuda:80", SCRIPT, "--json")
    assert code == 0
    data = json.loads(out)  # the script's own output is elsewhere
    jsonschema.validate(data, SCHEMA)
    kernels = data["kernels"]
    assert "the script ran" in err
    assert [kernel["name"] for kernel in kernels] == ["add", "matmul"]
    for kernel in kernels:
        assert kernel["target"] == "cuda:80"
        for side in ("plain", "probed", "proton"):
            assert kernel[side].keys() >= FIGURES
            assert kernel[side]["instructions"] > 0
        assert kernel["probed"].keys() >= {"records", "own_instructions"}
        assert kernel["probed"]["shared_bytes"] == kernel["plain"]["shared_bytes"]
        assert kernel["probed"]["lost_records"] == []
        assert 0 < kernel["probed"]["own_instructions"] < kernel["probed"]["instructions"]
        mine = [line for line in kernel["plain"]["lines"] if line["file"].endswith("_gpu_kernels.py")]
        first = {"add": add, "matmul": matmul}[kernel["name"]].starting_line_number
        assert {line["line"] - first for line in mine} & {2, 3, 8, 9, 10, 11}
    product = kernels[1]
    assert any("MMA" in name for name in product["plain"]["tensor_core"])
    assert product["probed"]["instructions_a_record_in_a_loop"] <= 3
    ours, theirs = (
        product[side]["instructions"] - product["plain"]["instructions"] for side in ("probed", "proton")
    )
    assert ours < theirs


def test_evidence_of_amd_as_json(capsys):
    _, out, _ = inspect(capsys, "--target", "hip:gfx942", SCRIPT, "--json")
    data = json.loads(out)
    jsonschema.validate(data, SCHEMA)
    for kernel in data["kernels"]:  # Proton's passes are for CDNA as well
        ours, theirs = (
            kernel[side]["instructions"] - kernel["plain"]["instructions"] for side in ("probed", "proton")
        )
        assert 0 < ours <= theirs / 2
    assert data["kernels"][1]["plain"]["bank_conflicts"]


def test_where_proton_cannot_compile_it_is_said(capfd):
    """Its passes know no RDNA; what MLIR writes about that is not for users."""
    main(["inspect", "--target", "hip:gfx1100", "--kernel", "add", SCRIPT, "--json"])
    said = capfd.readouterr()
    (kernel,) = json.loads(said.out)["kernels"]
    assert kernel["proton"] is None
    assert any("Proton's passes cannot compile" in note for note in kernel["notes"])
    assert "reproducer" not in said.err


def test_records_can_be_chosen(capsys):
    """As for a session: one in each warp, in shared memory."""
    found = {}
    for words in ((), ("--records", "buffer=shared", "--records", "granularity=warp")):
        _, out, _ = inspect(capsys, "--target", "cuda:80", "--kernel", "add", *words, SCRIPT, "--json")
        (kernel,) = json.loads(out)["kernels"]
        found[words] = kernel["probed"]["shared_bytes"] - kernel["plain"]["shared_bytes"]
    assert [more > 0 for more in found.values()] == [False, True]


def test_the_schema_refuses_what_lacks_a_field(capsys):
    _, out, _ = inspect(capsys, "--target", "cuda:80", "--kernel", "add", SCRIPT, "--json")
    for side_, field in (("plain", "registers"), ("probed", "own_instructions"), ("proton", "spill_bytes")):
        data = json.loads(out)
        del data["kernels"][0][side_][field]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(data, SCHEMA)


def test_probes_are_thinned_as_a_session_does_it(capsys, monkeypatch):
    from tileprobe.targets.gpu import thinned

    original = thinned.side
    monkeypatch.setattr(
        thinned, "side", lambda k: original(k) | {"spill_bytes": 64 * (k.asm["ptx"].count("%clock64;") > 10)}
    )
    _, out, _ = inspect(capsys, "--target", "cuda:80", "--dense", "--kernel", "matmul", SCRIPT, "--json")
    (kernel,) = json.loads(out)["kernels"]
    assert kernel["probed"]["thinned"] > 0
    assert (
        kernel["proton"]["records"] <= 2 * kernel["probed"]["records"]
    )  # of the same regions, so thinned alike
    assert any("64 bytes of registers are spilled" in note for note in kernel["notes"])


def test_evidence_as_text(capsys):
    code, out, _ = inspect(capsys, "--target", "hip:gfx942", "--kernel", "add", SCRIPT)
    assert code == 0
    assert out.startswith("add for hip:gfx942 (static")
    assert "matmul" not in out
    assert "instructions by unit" in out
    assert re.search(r"instructions by line:\n    _gpu_kernels.py:\d+  \d+: ", out)
    assert "bank conflicts by layout: none" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "cuda:91", SCRIPT], "has no machine '91'; its machines are 80, 86"),
        (["--target", "cuda", SCRIPT], "name the machine to compile for: cuda:80"),
        (["--json", SCRIPT], "--json is for GPUs"),
        (
            ["--target", "cuda:90", "--records", "granularity=thread", SCRIPT],
            "is one of program, warp, warp_group",
        ),
        (
            ["--target", "cuda:90", "--records", "buffer=private", SCRIPT],
            "kernel add: records of cuda cannot have",
        ),
        (["--records", "granularity=warp", SCRIPT], "records of cpu cannot have granularity warp"),
        (["--target", "cuda:90", "--kernel", "other", SCRIPT], "no kernel that matches 'other'"),
        (["--target", "cuda:90", "--level", "ttgir", SCRIPT], "they are only compiled: take a simulated GPU"),
    ],
)
def test_mistakes_are_one_message(capsys, words, message):
    code, out, err = inspect(capsys, *words)
    assert code
    assert message in err + out
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("machine", "registers", "warps", "shared", "expected"),
    [
        ("80", 32, 4, 0, (64, "warps")),
        ("80", 255, 4, 0, (8, "registers")),
        ("80", 128, 8, 64 * 1024, (16, "registers")),
        ("90", 64, 4, 100 * 1024, (8, "shared memory")),
        ("86", 40, 1, 0, (16, "programs")),
        ("89", 168, 4, 0, (12, "registers")),
    ],
)
def test_occupancy(machine, registers, warps, shared, expected):
    """By hand from NVIDIA's table of compute capabilities."""
    found = occupancy(machine, registers=registers, warps=warps, shared_bytes=shared)
    assert (found.warps, found.limiter) == expected


def test_tensor_memory_limits_occupancy_and_products_have_a_shape():
    """128 of 512 columns for a sum of 128x128: four programs."""
    from gpu_cases import plain

    found = occupancy("100", registers=64, warps=4, shared_bytes=16400, tensor_columns=128)
    assert (found.warps, found.limiter) == (16, "tensor memory")
    kernel = plain("specialised_matmul", "sm100")
    assert kernel.metadata.tmem_size
    assert any(name.startswith("tc_gen5_mma 128x") for name in evidence._more(kernel)["tensor_core"])


@pytest.mark.parametrize(
    ("machine", "waves", "warps", "shared", "expected"),
    [
        ("gfx942", 12, 4, 32 * 1024, (8, "shared memory")),  # two programs in 64 KiB
        ("gfx942", 12, 8, 0, (8, "registers")),  # one program, not one and a half
        ("gfx950", 32, 4, 32 * 1024, (16, "shared memory")),  # given out in pieces of 1280 bytes
        ("gfx1100", 32, 4, 32 * 1024, (16, "shared memory")),
        ("gfx942", 32, 4, 0, (32, "warps")),
    ],
)
def test_occupancy_on_amd(machine, waves, warps, shared, expected):
    found = amd_occupancy(machine, waves=waves, warps=warps, shared_bytes=shared)
    assert (found.warps, found.limiter) == expected


@pytest.mark.parametrize(
    ("name", "target", "stages"),
    [
        ("matmul", "sm80", [3]),
        ("softmax", "sm80", []),
        ("matmul", "gfx942", [3]),
        ("specialised_matmul", "sm90", [3]),
    ],
)
def test_stages_that_were_really_made(name, target, stages):
    from gpu_cases import bridged

    found = pipeline_stages(bridged(name, target)[0])
    assert [each["stages"] for each in found] == stages


@pytest.mark.parametrize(
    ("opcode", "unit", "size"),
    [
        ("LDG.E.128", "global memory", 16),
        ("STG.E.U16", "global memory", 2),
        ("LDG.E", "global memory", 4),
        ("LDGSTS.E.BYPASS.LTC128B.128", "async copy", 16),
        ("LDSM.16.M88.4", "shared memory", 16),
        ("HGMMA.64x128x16.F32", "tensor core", None),
        ("MUFU.EX2", "special function", None),
        ("BAR.SYNC.DEFER_BLOCKING", "synchronisation", None),
        ("IMAD.MOV.U32", "integer", None),
        ("global_load_dwordx4", "global memory", 16),
        ("ds_read_b128", "shared memory", 16),
        ("v_mfma_f32_32x32x8_f16", "tensor core", None),
        ("buffer_load_ushort", "global memory", 2),
        ("buffer_store_short", "global memory", 2),
        ("buffer_store_b16", "global memory", 2),
        ("global_load_ubyte", "global memory", 1),
        ("ds_read_u16", "shared memory", 2),
        ("ds_read2_b64", "shared memory", 16),
        ("ds_store_2addr_b64", "shared memory", 16),
        ("ds_add_u32", "shared memory", 4),
        ("global_atomic_add_f32", "global memory", 4),
        ("ds_bpermute_b32", "shuffle", None),
        ("REDUX.SUM", "shuffle", None),
        ("ATOMS.ADD", "shared memory", 4),
        ("RED.E.ADD.F32.FTZ.RN", "global memory", 4),
        ("LDG.E.ENL2.256", "global memory", 32),
        ("UTMAREDG.2D.ADD", "async copy", None),
        ("DSETP.GT.AND", "float", None),
        ("v_max3_f32", "float", None),
        ("v_dot2_f32_f16", "float", None),
        ("v_add_u32_e32", "integer", None),
    ],
)
def test_instructions_by_unit_and_width(opcode, unit, size):
    assert unit_of(opcode) == unit
    assert access_bytes(opcode) == size


@pytest.mark.parametrize(
    ("name", "capability", "shared", "warp"),
    [
        ("cuda:80", (8, 0), 163, 32),
        ("cuda:100", (10, 0), 227, 32),
        ("hip:gfx942", (9, 4), 64, 64),
        ("hip:gfx1100", (11, 0), 64, 32),
    ],
)
def test_scripts_are_told_of_the_machine_that_is_compiled_for(name, capability, shared, warp):
    target, machine = find(name)
    found = target.cuda_properties(machine)
    assert (found.capability, found.shared_bytes, found.warp_size) == (capability, shared * 1024, warp)


def test_partitions_are_not_counted_as_warps_of_the_kernel():
    """A specialised kernel is inspected as it was compiled, not with the warps that it has in all."""
    kernel = CASES["hand_off"]
    static = find("cuda")[0].static("90")
    with static:
        x = Tensor(128)
        kernel.fn[(1,)](x, x, **kernel.constants, num_warps=4)
    (found,) = static.kernels(Session().plan.pipeline("ttgir"), lambda name: True, proton=False)
    assert found["name"] == "hand_off"
    assert found["probed"]["lost_records"] == []
    assert found["probed"]["records"] > 4
