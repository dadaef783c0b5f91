"""Cubins that Triton did not make: `tileprobe.sim.load`. PTX written by hand, assembled by Triton's ptxas."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from triton import knobs

import tileprobe
from tileprobe import sim
from tileprobe.errors import TileProbeError
from tileprobe.targets.simgpu.errors import KernelFault

PTX = Path(__file__).with_name("foreign_kernels.ptx").read_text()
ARCHITECTURES = (80, 90)


@pytest.fixture(scope="module")
def assembled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")

    def assemble(arch):
        source, cubin = folder / f"{arch}.ptx", folder / f"{arch}.cubin"
        source.write_text(PTX.replace("TARGET", f"sm_{arch}"))
        if not cubin.exists():
            subprocess.run([knobs.nvidia.ptxas.path, f"-arch=sm_{arch}", source, "-o", cubin], check=True)
        return cubin

    return assemble


@pytest.fixture(params=[(arch, timed) for arch in ARCHITECTURES for timed in (False, True)], ids=str)
def load(request, assembled):
    arch, timed = request.param
    return lambda name: sim.load(assembled(arch), name, timed=timed)


def test_numbers_and_arrays_are_handed_over(load):
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    kernel = load("saxpy")
    result = kernel[8, 128](1000, 2.0, x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert kernel.parameter_bytes == (4, 4, 8, 8)
    assert result.kernel == "saxpy" and result.grid == (8, 1, 1) and result.warps == 4
    assert result.machine == {80: "sim:a100", 90: "sim:h100"}[kernel.program.arch]
    assert result.timed == kernel.timed and result.instructions > 8 * 4 * 10
    assert not result.timed or result.cycles > 2000


def test_torch_tensors_and_arrays_of_ours_are_taken(assembled):
    torch = pytest.importorskip("torch")
    kernel = sim.load(assembled(80).read_bytes(), "saxpy", machine="sim:a100", timed=True)
    given, got = torch.arange(64, dtype=torch.float32), torch.zeros(64)
    first = kernel[(2,), (32, 1)](np.uint32(64), np.float32(3), given, got)
    assert torch.equal(got, 3 * given)
    ours = tileprobe.array(np.zeros(64, np.float32))
    again = kernel[2, 32](64, 3.0, tileprobe.array(given.numpy()), ours)
    np.testing.assert_array_equal(ours.numpy(), got.numpy())
    assert first.cycles == again.cycles and dict(first.counters) == dict(again.counters)


def test_shared_memory_static_and_dynamic_barriers_and_atomics(load):
    x, out = np.arange(96, dtype=np.int32), np.zeros(1, np.int32)
    result = load("total")[3, 32](x, out, shared=128)
    assert out[0] == x.sum()
    assert result.shared_bytes == 256 and not result.races
    with pytest.raises(KernelFault, match=r"total.*shared memory at"):
        load("total")[3, 32](x, out, shared=64)


def test_blocks_and_grids_have_three_axes(load):
    out = np.full((2, 3, 2, 4, 5, 3), -1, np.int32)
    load("places")[(2, 3, 2), (3, 5, 4)](out)
    z, y, x = np.indices((4, 5, 3))
    by = np.indices((2, 3, 2))[1].reshape(2, 3, 2, 1, 1, 1)
    np.testing.assert_array_equal(out, x + 10 * y + 100 * z + 1000 * by)


def test_functions_are_called(load):
    out = np.zeros(32, np.uint32)
    load("powers")[1, 32](out, 5)
    np.testing.assert_array_equal(out, np.arange(32) ** 5)


def test_threads_have_arrays_of_their_own(load):
    x, out = np.array([3, 1, 4, 0, 7, 2, 6, 5], np.int32), np.zeros(64, np.int32)
    kernel = load("shuffled")
    result = kernel[1, 64](x, out)
    where = {int(value): n for n, value in enumerate(x)}
    np.testing.assert_array_equal(out, [where[t % 8] + t for t in range(64)])
    assert result.spill_bytes >= 32  # local memory, of this kernel alone
    assert load("saxpy")[1, 1](0, 0.0, x, x).spill_bytes == 0


class Given(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_int), ("c", ctypes.c_int)]


@pytest.mark.parametrize("structure", [Given(1.5, 9, 20), bytes(Given(1.5, 9, 20))], ids=["ctypes", "bytes"])
def test_structures_and_sizes_of_all_kinds(load, structure):
    out = np.zeros(1, np.float32)
    load("values")[1, 1](structure, 2.25, 200, np.float16(0.5), out)
    assert out[0] == 1.5 + 20 + 2.25 + 200 + 0.5


def test_faults_name_the_argument(load):
    x = np.zeros(32, np.float32)
    with pytest.raises(KernelFault, match=r"saxpy.*4 bytes behind|saxpy.*behind the end"):
        load("saxpy")[1, 64](64, 1.0, x, np.zeros(64, np.float32))


def called(assembled, name, block=32, args=(), arch=80, **more):
    return lambda: sim.load(assembled(arch), name)[1, block](*args, **more)


WORD = np.zeros(1, np.int32)
MISTAKES = {
    "no such kernel": (lambda made: called(made, "missing"), r"no kernel 'missing'; it has .*saxpy"),
    "which kernel": (lambda made: called(made, None), r"several kernels; name one of .*saxpy"),
    "part of a name": (lambda made: called(made, "s"), r"several kernels with 's' in their names"),
    "too few": (lambda made: called(made, "saxpy", args=(1,)), r"saxpy takes 4 parameters \(bytes of each: 4, 4, 8"),
    "a number as a pointer's": (lambda made: called(made, "held", (64, 2), (1.5, 2)), r"1 parameter .*given 2"),
    "an array as a number": (
        lambda made: called(made, "saxpy", args=(WORD, 1.0, WORD, WORD)), r"argument 0 has 4 bytes.*an address has 8"
    ),
    "too large": (lambda made: called(made, "saxpy", args=(1 << 32, 1.0, WORD, WORD)), r"4294967296: it does not fit"),
    "half precision": (
        lambda made: called(made, "values", args=(bytes(12), 1.0, 1, 1.0, WORD)), r"argument 3 .*np.float16"
    ),
    "exact sizes": (
        lambda made: called(made, "saxpy", args=(np.int64(1), 1.0, WORD, WORD)), r"argument 0 has 4 bytes.*this has 8"
    ),
    "words": (lambda made: called(made, "saxpy", args=("1", 1.0, WORD, WORD)), r"cannot take '1': pass an array"),
    "threads": (lambda made: called(made, "bounded", (64, 32), (WORD,)), r"between 1 and 1024"),
    "fewer threads": (lambda made: called(made, "bounded", 128, (WORD,)), r"compiled for 96 threads at most, .* 128"),
    "another block": (lambda made: called(made, "held", 128, (WORD,)), r"blocks of 64 x 2 x 1 threads, not 128 x 1"),
    "shared memory": (lambda made: called(made, "total", args=(WORD, WORD), shared=1 << 20), r"166,912 at most"),
    "textures": (lambda made: called(made, "textured", args=(WORD, 0)), r"does not know the instruction `T"),
    "architecture": (
        lambda made: lambda: sim.load(made(90), "saxpy", machine="a100"), r"compiled for sm_90, and sim:a100 is sm_80"
    ),
    "machine": (lambda made: lambda: sim.load(made(90), "saxpy", machine="b200"), r"no machine 'b200'"),
    "no brackets": (lambda made: lambda: sim.load(made(90), "saxpy")(1), r"write kernel\[grid, block\]"),
    "no block": (lambda made: lambda: sim.load(made(90), "saxpy")[1](1), r"write kernel\[grid, block\]"),
    "four axes": (lambda made: lambda: sim.load(made(90), "saxpy")[(1, 1, 1, 1), 1](1), r"is no extent"),
    "no file": (lambda made: lambda: sim.load("/nowhere/a.cubin"), r"cannot read /nowhere/a.cubin: No such file"),
    "PTX": (lambda made: lambda: sim.load(PTX.encode()), r"is PTX; `ptxas"),
    "a fat binary": (lambda made: lambda: sim.load(b"\x50\xed\x55\xba" + bytes(99)), r"fat binary; `cuobjdump"),
    "anything": (lambda made: lambda: sim.load(b"anything"), r"no cubin"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_message(assembled, mistake):
    make, said = MISTAKES[mistake]
    with pytest.raises(TileProbeError, match=said):
        make(assembled)()


def test_a_cubin_that_holds_its_ptx_is_a_cubin():
    from tileprobe.sim.cubins import _check_kind

    _check_kind(b"\x7fELF .version 8.0 .target sm_80", "kernel.cubin")
    with pytest.raises(TileProbeError, match="is PTX"):
        _check_kind(b".version 8.0 .target sm_80", "kernel.ptx")
