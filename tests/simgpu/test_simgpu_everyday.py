"""Everyday parts of the language on both machines: casts between all types, atomics on many numbers at once, slow ways
of a division, extremes of integers; and what is said of a script that goes wrong."""

import math
import subprocess
import sys

import numpy as np
import pytest
import triton
import triton.language as tl
from simgpu_harness import MACHINES
from triton.language.extra import libdevice

import tileprobe

torch = pytest.importorskip("torch")

N = 256


@triton.jit
def casts(i32, i64, f16, f64, out16, brain, out32, out64, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, h, d = tl.load(i32 + i), tl.load(i64 + i), tl.load(f16 + i), tl.load(f64 + i)
    tl.store(out16 + i, a.to(tl.float16))
    tl.store(out16 + N + i, b.to(tl.float16))
    tl.store(out16 + 2 * N + i, a.to(tl.int8).to(tl.float16))
    tl.store(out16 + 3 * N + i, d.to(tl.float16))
    tl.store(brain + i, a.to(tl.bfloat16))
    tl.store(brain + N + i, b.to(tl.bfloat16))
    tl.store(brain + 2 * N + i, h.to(tl.bfloat16))
    tl.store(brain + 3 * N + i, d.to(tl.bfloat16))
    tl.store(out32 + i, h.to(tl.int32))
    tl.store(out32 + N + i, h.to(tl.int16).to(tl.int32))
    tl.store(out64 + i, h.to(tl.int64))
    tl.store(out64 + N + i, h.to(tl.float64).to(tl.int64, bitcast=True))


def once(values, form):
    """Doubles rounded once to a narrower format, exactly: by the integers beside them."""
    scale = {torch.float16: (10, 15), torch.bfloat16: (7, 127)}[form]
    mantissa, bias = scale
    exponent = np.maximum(np.frexp(values)[1] - 1, 1 - bias)
    unit = np.ldexp(1.0, exponent - mantissa)
    rounded = np.rint(values / unit) * unit
    return torch.from_numpy(rounded).to(form)


@pytest.mark.parametrize("machine", MACHINES)
def test_casts(machine):
    random = np.random.default_rng(3)
    i32 = random.integers(-(2**31), 2**31, N).astype(np.int32) >> random.integers(0, 28, N)
    i64 = random.integers(-(2**62), 2**62, N) >> random.integers(0, 60, N)
    i64[:2] = 2**62 + 2**54 + 1, -(2**62) - 2**54 - 1  # beside half the distance of two bfloat16
    f16 = torch.from_numpy(random.standard_normal(N) * 100).half()
    f64 = random.standard_normal(N) * 2.0 ** random.integers(-30, 15, N)
    f64[:2] = 1 + 2**-11 + 2**-40, 1 + 2**-8 + 2**-30  # beside half the distance of two halves, two bfloat16
    out16, brain = torch.zeros(4 * N, dtype=torch.float16), torch.zeros(4 * N, dtype=torch.bfloat16)
    out32, out64 = torch.zeros(2 * N, dtype=torch.int32), torch.zeros(2 * N, dtype=torch.int64)
    given = [torch.from_numpy(x) for x in (i32.astype(np.int32), i64)]
    with tileprobe.use(machine):
        casts[(1,)](*given, f16, torch.from_numpy(f64), out16, brain, out32, out64, N=N, num_warps=2)
    halves, brains = out16.view(4, N), brain.view(4, N)
    with np.errstate(over="ignore"):
        wants = [i32.astype(np.float64), i64.astype(np.float64), i32.astype(np.int8).astype(np.float64), f64]
        for got, want in zip(halves, wants):
            assert torch.equal(got, torch.from_numpy(want.astype(np.float16)))
    wide = i64.astype(np.float64)
    wide[:2] = np.nextafter(wide[:2], np.sign(wide[:2]) * np.inf)  # a double has no room for the last bit
    wants = [once(x, torch.bfloat16) for x in (i32.astype(np.float64), wide, f16.double().numpy(), f64)]
    if machine == "sim:a100":  # sm_80 converts integers by way of single precision
        wants[:2] = (torch.from_numpy(x).float().bfloat16() for x in (i32, i64))
    for got, want in zip(brains, wants):
        assert torch.equal(got, want)
    assert torch.equal(out32.view(2, N)[0], f16.to(torch.int32))
    assert torch.equal(out32.view(2, N)[1], f16.to(torch.int32))
    assert torch.equal(out64.view(2, N)[0], f16.to(torch.int64))
    assert torch.equal(out64.view(2, N)[1].view(torch.float64), f16.double())


@triton.jit
def added(x, out, before, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(before + i, tl.atomic_add(out + i, tl.load(x + i)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("machine", MACHINES)
def test_atomics_on_many_numbers(machine, dtype):
    """sm_90 adds 16 bytes at a time; subnormal floats are zeros to it (PTX ISA, `atom`)."""
    x, out = ((torch.randn(1025, generator=torch.Generator().manual_seed(n)) * 9).to(dtype) for n in (0, 1))
    if dtype == torch.float32:
        x[:2], out[:3] = torch.tensor([1e-40, 1.0]), torch.tensor([1e-39, 1e-40, 1.0])
    held, before = out.clone(), torch.zeros_like(out)
    want = torch.where(out.abs() < 1e-37, 0.0, out) + torch.where(x.abs() < 1e-37, 0.0, x)
    with tileprobe.use(machine):
        made = added[(1,)](x, out, before, N=1024)
    assert torch.equal(out[:1024], want[:1024])
    assert out[1024] == held[1024]
    assert torch.equal(before[:1024], held[:1024])
    if machine == "sim:h100":
        assert "x4" in made.asm["sass"] or "x8" in made.asm["sass"]


@triton.jit
def at_the_end(out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(out + i, i.to(tl.float16), mask=i < n)


@pytest.mark.parametrize("machine", MACHINES)
def test_an_odd_number_of_halves(machine):
    """The word around the last one reaches beyond the tensor."""
    out = torch.ones(13, dtype=torch.float16)
    with tileprobe.use(machine):
        at_the_end[(1,)](out, 13, N=16)
    assert torch.equal(out, torch.arange(13).half() + 1)


@triton.jit
def quotients(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.div_rn(tl.load(x + i), tl.load(y + i)))


@pytest.mark.parametrize("machine", MACHINES)
def test_lanes_that_come_to_one_place_by_two_ways(machine):
    """The routine for divisions of odd sizes: some lanes are ahead when others enter the same region."""
    x, y, out = np.ones(128, np.float32), np.full(128, 0.9, np.float32), np.zeros(128, np.float32)
    x[::3] = 1e-40 * np.arange(43)
    x[41], x[69], x[77] = -3.64542e-40, -4.162117e-39, -3.7519855e-33
    y[69], y[77] = 1.4491459e-27, 3.233696e24
    with tileprobe.use(machine):
        held = tileprobe.array(out)
        quotients[(1,)](tileprobe.array(x), tileprobe.array(y), held, N=128, num_warps=1)
    np.testing.assert_array_equal(held.numpy(), x / y)


@triton.jit
def extremes(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.min(v, 0))
    tl.store(out + 2, tl.sum(v + 1, 0).to(v.dtype))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "uint16", "uint8"])
def test_extremes_of_integers(dtype):
    """sm_90 takes three at a time, and two halves of a register."""
    limits = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max, 2048, endpoint=True).astype(dtype)
    with tileprobe.use("sim:h100"):
        out = tileprobe.array(np.zeros(3, dtype))
        extremes[(1,)](tileprobe.array(x), out, N=2048)
    assert out.numpy().tolist() == [x.max(), x.min(), (x + np.ones(1, dtype)).astype(dtype).sum(dtype=dtype)]


def test_a_grid_that_no_gpu_takes():
    with (
        tileprobe.use("sim:a100"),
        pytest.raises(tileprobe.TileProbeError, match=r"along y .* 0 to 65,535"),
    ):
        quotients[(1, 65536)](torch.ones(16), torch.ones(16), torch.ones(16), N=16)


SCRIPT = """import torch, triton, triton.language as tl

@triton.jit
def beyond(x, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.load(x + i)
    tl.store(x + i, y * 2)

def launch(x):
    beyond[(1,)](x, 1024)

launch(torch.ones(128))
"""


def test_a_fault_is_shown_with_the_users_frames_alone(tmp_path):
    """And with the line of the load: Triton makes four lines of assembly of it, which LLVM would count on."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "tileprobe", "run", "--quiet", "--target", "sim:a100", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    frames = [line.split('"')[1] for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert done.returncode == 1
    assert {path.rpartition("/")[2] for path in frames} == {"script.py"}
    assert len(frames) == 2
    assert "script.py:6 (`LDG" in done.stderr


def test_a_script_whose_name_is_not_ascii(tmp_path):
    """ptxas refuses such a name; the fault has it."""
    name = "k\u00e9rnel_\u6f22.py"
    (tmp_path / name).write_text(
        SCRIPT.replace("y * 2", "y * 2.53125")
    )  # not in Triton's cache by another name
    command = [sys.executable, "-m", "tileprobe", "exec", "--target", "sim:a100", name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f" {name}:6 (`LDG" in done.stderr, done.stderr


def test_sums_can_be_fast(tmp_path):
    (tmp_path / "script.py").write_text(
        "from tileprobe.targets.simgpu.settings import settings; print(settings.fast_sums)"
    )
    command = [sys.executable, "-m", "tileprobe", "exec", "--no-cuda", "--target"]

    def said(*more):
        words = [*command, *more, "script.py"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr.strip()

    assert said("sim:a100", "--numerics", "fast") == "True"
    assert said("sim:h100") == "False"
    assert said("cpu", "--numerics", "fast").endswith("is about simulated GPUs (sim:a100, sim:h100), not cpu")


@triton.jit
def through_tables(addresses, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Tensors that are known by their addresses alone, through descriptors made of them."""
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for n in range(3):
        tensor = tl.load(addresses + n).to(tl.pointer_type(tl.float32))
        described = tl.make_tensor_descriptor(tensor, [ROWS, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS])
        total += described.load([0, 0])
    where = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + where, total)


@pytest.mark.parametrize("timed", [False, True])
def test_bulk_loads_of_tensors_known_by_their_addresses(timed):
    """Such memory is found when it is first touched; the load that found it is not lost."""
    triton.set_allocator(lambda size, align, stream: tileprobe.array(np.zeros(size, np.int8)))
    with tileprobe.use("sim:h100", timed=timed):
        given = [tileprobe.array(np.full((32, 64), n + 1, np.float32)) for n in range(3)]
        out = tileprobe.array(np.zeros((32, 64), np.float32))
        addresses = tileprobe.array(np.array([x.data_ptr() for x in given], np.int64))
        through_tables[(1,)](addresses, out, 32, 64)
    assert (out.numpy() == 6).all()


@triton.jit
def three_at_a_time(x, y, z, out, N: tl.constexpr, NAN: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, tl.maximum(tl.maximum(a, b, NAN), c, NAN))
    tl.store(out + N + i, tl.minimum(tl.minimum(a, b, NAN), c, NAN))


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_extremes_of_three_halves(dtype, every):
    """sm_90 has one instruction for them; NaN loses, or wins where it is asked for."""
    x, y, z = torch.randn(3, N, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[:40], y[20:60], z[30:50] = torch.nan, torch.nan, torch.nan
    with tileprobe.use("sim:h100"):
        out = torch.zeros(2, N, dtype=dtype)
        nan = tl.PropagateNan.ALL if every else tl.PropagateNan.NONE
        made = three_at_a_time[(1,)](x, y, z, out, N, nan)
    assert "VHMNMX" in made.asm["sass"]
    for found, pick in zip(out, (torch.maximum, torch.minimum) if every else (torch.fmax, torch.fmin)):
        assert torch.equal(found.nan_to_num(99), pick(pick(x, y), z).nan_to_num(99))


@triton.jit
def at_least_zero(x, y, z, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, tl.maximum(tl.minimum(a, b), 0))
    tl.store(out + N + i, tl.maximum(tl.minimum(tl.minimum(a, b), c), 0))
    tl.store(out + 2 * N + i, tl.maximum(tl.minimum(a + b, c), 0))


def test_integers_held_above_zero():
    """Which sm_90's instructions for extremes do on the way."""
    x, y, z = torch.randint(-(1 << 30), 1 << 30, (3, N), generator=torch.Generator().manual_seed(0)).int()
    with tileprobe.use("sim:h100"):
        out = torch.zeros(3, N, dtype=torch.int32)
        made = at_least_zero[(1,)](x, y, z, out, N)
    assert all(f"{name}.RELU" in made.asm["sass"] for name in ("VIMNMX", "VIMNMX3", "VIADDMNMX"))
    wanted = [torch.minimum(x, y), torch.minimum(torch.minimum(x, y), z), torch.minimum(x + y, z)]
    assert torch.equal(out, torch.stack(wanted).clamp(min=0))


@triton.jit
def summed(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.atomic_add(out + i % 13, tl.load(x + i))


@pytest.mark.parametrize("machine", MACHINES)
def test_sums_of_halves_by_several_programs_are_no_race(machine):
    """On sm_80 ptxas makes them of an ordinary load and an exchange that compares."""
    x = torch.randint(-4, 5, (4 * N,), generator=torch.Generator().manual_seed(0)).half()
    out = torch.zeros(13, dtype=torch.float16)
    with tileprobe.use(machine, check="all"):
        summed[(4,)](x, out, N)
    wanted = torch.zeros(13).index_add_(0, torch.arange(4 * N) % 13, x.float())
    assert torch.equal(out.float(), wanted)


@triton.jit
def log_gamma(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, libdevice.lgamma(tl.load(x + i)))


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_parted_lanes_keep_their_constants(machine, timed):
    """On sm_90 constants of doubles are in uniform registers, which all lanes of a warp share, wherever they are."""
    x = np.random.default_rng(1).uniform(0.1, 50, 1024)
    out = torch.zeros(1024, dtype=torch.float64)
    with tileprobe.use(machine, timed=timed):
        log_gamma[(1,)](torch.from_numpy(x), out, N=1024, num_warps=1)
    assert np.allclose(out.numpy(), [math.lgamma(v) for v in x], rtol=1e-12, atol=1e-15)


@triton.jit
def extremes_of_pairs(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.maximum(a, b))
    tl.store(out + N + i, tl.minimum(a, b))
    tl.store(out + 2 * N + i, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 3 * N + i, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("machine", MACHINES)
def test_extremes_with_what_is_no_number(machine, dtype):
    """The other one comes out, unless it is asked for otherwise."""
    some = torch.tensor([0.0, -0.0, 1.0, -2.0, math.nan, math.inf, -math.inf, 0.5]).to(dtype)
    x, y = some.repeat_interleave(8), some.repeat(8)
    out = torch.zeros(4, 64, dtype=dtype)
    with tileprobe.use(machine):
        extremes_of_pairs[(1,)](x, y, out, N=64)
    left, right = x.double().numpy(), y.double().numpy()
    wants = [f(left, right) for f in (np.fmax, np.fmin, np.maximum, np.minimum)]
    np.testing.assert_array_equal(out.double().numpy(), wants)


@triton.jit
def held(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, tl.clamp(a, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + N + i, tl.clamp(a, -0.5, 0.5))
    tl.store(out + 2 * N + i, tl.clamp(a, -1.0, 0.25))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_held_within_bounds(machine, dtype):
    """sm_90 has one instruction for bounds that differ in sign alone."""
    x = torch.tensor([0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, 0.5, 0.75, -0.25, 3.0, -0.625, math.nan])
    x = torch.cat([x, torch.linspace(-2, 2, 52)]).to(dtype)
    out = torch.zeros(3, 64, dtype=dtype)
    with tileprobe.use(machine):
        made = held[(1,)](x, out, N=64)
    assert torch.equal(out[0].nan_to_num(9.0), x.clamp(-1, 1).nan_to_num(9.0))
    number = ~x.isnan()
    assert torch.equal(out[1][number], x.clamp(-0.5, 0.5)[number])
    assert torch.equal(out[2][number], x.clamp(-1, 0.25)[number])
    if machine == "sim:h100":
        assert "XORSIGN" in made.asm["sass"]


@triton.jit
def extreme_so_far(x, out, before):
    p = tl.program_id(0)
    tl.store(before + p, tl.atomic_max(out, tl.load(x + p)))
    tl.atomic_min(out + 1, tl.load(x + p))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("machine", MACHINES)
def test_extremes_of_floats_one_by_one(machine, dtype):
    """Two atomics each, one for each sign; the answer of the one that is not done is not missed by the checks."""
    x = torch.tensor([-3.0, -7.5, -1.25, 2.0, 0.5, -9.0, 4.0, 1.0]).to(dtype)
    out, before = torch.tensor([-100.0, 100.0]).to(dtype), torch.zeros(8, dtype=dtype)
    with tileprobe.use(machine, check="all"):
        extreme_so_far[(8,)](x, out, before, num_warps=4)
    assert out.tolist() == [4.0, -9.0]
    assert before.tolist() == [-100.0, -3.0, -3.0, -1.25, 2.0, 2.0, 2.0, 4.0]


@triton.jit
def goes_back(end, distances, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(end - tl.load(distances + i)))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_pointers_go_back_by_numbers_of_64_bits(machine, dtype):
    """Also by none at all, where the carry of the low word is set."""
    values = np.arange(1000).astype(dtype)
    distances = np.random.default_rng(0).integers(0, 999, 128)
    distances[:3] = 0, 999, 1
    with tileprobe.use(machine):
        whole, out = tileprobe.array(values), tileprobe.array(np.zeros(128, dtype))
        goes_back[(1,)](At(whole, 999), tileprobe.array(distances), out, 128)
    np.testing.assert_array_equal(out.numpy(), values[999 - distances])


class At:
    """A pointer into an array, which is its memory."""

    def __init__(self, base, element):
        self.base, self.dtype, self._element = base, base.dtype, element

    def data_ptr(self):
        return self.base.data_ptr() + self._element * self.base.element_size()
