"""What goes wrong is said, with the source line: bounds, endless loops, deadlocks, asserts, bad cubins."""

import re

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.targets.simgpu import cubin, execute, listing, program
from tileprobe.targets.simgpu.errors import BadCubin, KernelFault, UnknownInstruction
from tileprobe.targets.simgpu.lower.all import lower
from tileprobe.targets.simgpu.timing import chip


@triton.jit
def off_by_one(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, v, mask=i <= n)  # one too many


def test_a_mask_that_is_off_by_one():
    with tileprobe.use("sim:a100"):
        x, out = (tileprobe.array(np.zeros(100, np.float32)) for _ in range(2))
        with pytest.raises(
            KernelFault,
            match=r"test_simgpu_faults\.py:\d+ .*STG.*out\[100\]: 0 bytes behind the end of out.* 400 bytes",
        ) as said:
            off_by_one[(1,)](x, out, 100, 128)
    line = int(re.search(r"faults\.py:(\d+)", str(said.value))[1])
    with open(__file__) as file:
        assert "one too many" in file.read().splitlines()[line - 1]


@triton.jit
def endless(out, n):
    while tl.load(out, volatile=True) < n:
        tl.store(out + 1, 1)


@triton.jit
def by_number(address: tl.int64, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(address.to(tl.pointer_type(tl.int32)) + i, i)


def test_an_address_of_nothing_that_is_known():
    held = np.zeros(64, np.int32)
    ours = tileprobe.array(np.zeros(64, np.int32))
    with tileprobe.use("sim:a100"):
        by_number[(1,)](ours.data_ptr(), 64)
        np.testing.assert_array_equal(ours.numpy(), np.arange(64))
        with pytest.raises(KernelFault, match="the address of a NumPy array alone says nothing"):
            by_number[(1,)](held.ctypes.data, 64)
        with pytest.raises(KernelFault, match="at 0x10, which is no memory: an argument was None"):
            by_number[(1,)](16, 64)


def test_an_endless_loop_ends():
    with tileprobe.use("sim:a100", step_limit=10_000):
        out = tileprobe.array(np.zeros(2, np.int32))
        with pytest.raises(KernelFault, match=r"--step-limit[\s\S]*warp 0 runs, .*test_simgpu_faults.py"):
            endless[(1,)](out, 5)


@triton.jit
def stuck(x, out):
    """Each turn is as the one before, in registers and in memory; no other program is looked at."""
    while tl.load(x) < 1:
        tl.store(out, 1)


@triton.jit
def busy(x, out, n):
    for i in range(n):
        tl.store(out, tl.load(x) + i)


@pytest.mark.parametrize(("kernel", "threads"), [(endless, 1), (stuck, 1), (stuck, 2)])
def test_programs_that_go_round_in_circles_are_stopped_early(kernel, threads, monkeypatch):
    monkeypatch.setattr(execute, "_QUANTUM", 200_000)
    monkeypatch.setattr(execute, "_LOOK", 200_000)
    with tileprobe.use("sim:a100", threads=threads):
        x, out = (tileprobe.array(np.zeros(4, np.int32)) for _ in range(2))
        with pytest.raises(
            KernelFault, match=r"are what they were [\d,]+ instructions before\n  warp 0 runs, .*faults.py"
        ):
            kernel[(5,)](x, 5 if kernel is endless else out)


@pytest.mark.parametrize("kernel", [endless, stuck])
def test_with_time_they_are_stopped_early_too(kernel, monkeypatch):
    monkeypatch.setattr(chip, "_PATIENCE", 2)
    with tileprobe.use("sim:a100", timed=True, step_limit=20_000_000):
        x, out = (tileprobe.array(np.zeros(4, np.int32)) for _ in range(2))
        with pytest.raises(
            KernelFault, match=r"are what they were [\d,]+ instructions before\n  warp 0 runs"
        ):
            kernel[(2,)](x, 5 if kernel is endless else out)


def test_programs_that_get_on_are_not(monkeypatch):
    """A loop that counts is never where it was, though its memory is looked at several times a round."""
    monkeypatch.setattr(execute, "_QUANTUM", 50)
    with tileprobe.use("sim:a100"):
        x, out = (tileprobe.array(np.zeros(4, np.int32)) for _ in range(2))
        busy[(2,)](x, out, 5000, num_warps=1)
        assert out.numpy()[0] == 4999
    monkeypatch.setattr(chip, "_PATIENCE", 0)
    monkeypatch.setattr(chip, "_QUANTA", 3)
    with tileprobe.use("sim:a100", timed=True):
        busy[(2,)](x, out, 500, num_warps=1)
        assert out.numpy()[0] == 499


@triton.jit
def two_barriers(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.lt.s32 p, $1, 32; @p bar.sync 1, 128; @!p bar.sync 2, 128; mov.b32 $0, $1; }",
        "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(out + i, i)


def test_warps_that_wait_for_each_other():
    with tileprobe.use("sim:a100"):
        out = tileprobe.array(np.zeros(128, np.int32))
        with pytest.raises(KernelFault) as said:
            two_barriers[(1,)](out, 128)
    text = str(said.value)
    assert "deadlock" in text
    assert "warp 0 waits at barrier 1 with 32 of 128 threads (for warps 1, 2, 3)" in text
    assert "warp 3 waits at barrier 2 with 96 of 128 threads (for warp 0)" in text


@triton.jit
def checked(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.device_assert(v < 100, "too large")
    tl.device_print("value", v)


def test_asserts_and_prints(capsys):
    with tileprobe.use("sim:a100"):
        x = tileprobe.array(np.arange(32, dtype=np.int32))
        checked[(1,)](x, 32, num_warps=1, debug=True)
        printed = capsys.readouterr().out
        x.numpy()[7] = 1000
        with pytest.raises(AssertionError, match=r"lane 7.*too large"):
            checked[(1,)](x, 32, num_warps=1, debug=True)
    assert len(printed.splitlines()) == 32
    assert re.search(r"\(0, 0, 0\).*value.* 31$", printed, re.MULTILINE)


@triton.jit
def greedy(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N, N), tl.float32)
    for k in range(0, n, N):
        a = tl.load(x + i[:, None] * n + k + i[None, :])
        total += tl.dot(a, a)
    tl.store(out + i[:, None] * N + i[None, :], total)


def test_too_much_shared_memory():
    with tileprobe.use("sim:a100"):
        x, out = (
            tileprobe.array(np.zeros((64, 1024), np.float16)),
            tileprobe.array(np.zeros((64, 64), np.float32)),
        )
        with pytest.raises(triton.runtime.errors.OutOfResources, match="shared memory"):
            greedy[(1,)](x, out, 1024, 64, num_stages=32)


# -- cubins --------------------------------------------------------------------------------------------------------


def compiled(arch):
    source = ASTSource(off_by_one, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 128})
    return triton.compile(source, target=GPUTarget("cuda", arch, 32)).asm["cubin"]


def test_a_cubin_of_another_architecture():
    with pytest.raises(BadCubin, match=r"sm_86; code for sm_80, sm_90"):
        program.decode(compiled(86))
    with pytest.raises(BadCubin, match=r"compiled for sm_80, and this machine is sm_90"):
        program.decode(compiled(80), arch=90)


def test_what_is_no_cubin():
    for data in (b"", b"not a cubin", b"\x7fELF", b"\x7fELF" + bytes(100)):
        with pytest.raises(BadCubin):
            cubin.read(data)


def test_damaged_cubins_are_refused_or_read():
    """Nothing but the errors that are for it comes out."""
    data, random = compiled(80), np.random.default_rng(0)
    refused = 0
    for n in range(60):
        damaged = bytearray(data if n % 2 else data[: random.integers(1, len(data))])
        for place in random.integers(0, len(damaged), 8):
            damaged[place] = random.integers(0, 256)
        try:
            cubin.read(bytes(damaged))
        except TileProbeError:
            refused += 1
    assert refused >= 30


def test_an_unknown_variant_is_refused_with_its_text_and_line():
    text = '\t.section\t.text.k,"ax",@progbits\n\t//## File "/a/b.py", line 12\n'
    text += "        /*0000*/  {0} ;  /* 0x0000000000000000 */\n  /* 0x0000000000000000 */\n"
    for instruction, why in {
        "FROB R0, R1": "",
        "IADD3.FAST R0, R1, R2, R3": "FAST",
        "FADD R0, R1, R2, R3": "R3",
        "MUFU.GAMMA R0, R1": "",
        "LDG.E R0, [R2.64+R4.X3]": "address",
    }.items():
        with pytest.raises(UnknownInstruction) as said:
            lower(listing.parse(text.replace("{0}", instruction), "k"), 80)
        assert f"b.py:12: the simulated GPU does not know the instruction `{instruction}`" in str(said.value)
        assert why in str(said.value)


def test_a_launch_that_asks_for_too_much_is_shown_where_the_script_made_it(capsys):
    from triton.runtime.errors import OutOfResources

    from tileprobe.session.script import _show

    machinery: dict = {"__name__": "triton.runtime.jit", "OutOfResources": OutOfResources}
    exec("def run():\n    raise OutOfResources(262144, 166912, 'shared memory')", machinery)
    try:
        machinery["run"]()
    except OutOfResources as error:
        _show(error)
    said = capsys.readouterr().err
    assert "Required: 262144, Hardware limit: 166912" in said
    assert 'machinery["run"]()' in said
    assert "in run" not in said


def test_instructions_of_probes_are_placed_by_the_line_they_stand_before():
    from tileprobe.targets.gpu.lowering import OTHER_FILE
    from tileprobe.targets.simgpu.program import PROBES, Program

    files = ["kernel.py", PROBES]
    empty = np.zeros(0)
    made = Program(
        "k",
        80,
        None,
        empty,
        empty,
        0,
        0,
        ["A"] * 5,
        np.array([3, 1, 1, 4, 1]),
        np.array([0, 1, 1, 0, 1]),
        files,
    )  # type: ignore[arg-type]
    assert PROBES == OTHER_FILE
    assert [made.place(n) for n in range(5)] == [
        "kernel.py:3", "a probe at kernel.py:4", "a probe at kernel.py:4", "kernel.py:4", "a probe at kernel.py:4",
    ]  # fmt: skip
