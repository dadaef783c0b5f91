"""Autotuning and benchmarks on a simulated GPU: one run of each configuration, all from the same caches."""

import numpy as np
import pytest
import triton
import triton.language as tl
import triton.testing

import tileprobe
from tileprobe.targets.simgpu.launched import observing
from tileprobe.targets.simgpu.machine import machine


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


AROUND_MS = machine("a100").timing.events_ns / 1e6  # that two events measure beyond a launch
CONFIGS = [triton.Config({"BLOCK": block}) for block in (64, 256, 1024)]
THEIRS = {
    "as it comes": {},
    "rep": {"rep": 50, "warmup": 10},
    "cuda graphs": {"use_cuda_graph": True},
    "do_bench": {"do_bench": lambda call, quantiles: triton.testing.do_bench(call, quantiles=quantiles)},
}


def launches(run, **use):
    found = []
    with tileprobe.use("sim:a100", check=False, **use), observing(found.append):
        said = run()
    return found, said


def pair(n=5000):
    return [tileprobe.array(np.ones(n, np.float32)) for _ in range(2)]


def tuned(n=5000, given=None, **options):
    x, out = given or pair(n)
    kernel = triton.autotune(CONFIGS, key=["n"], **options)(double)
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert out.numpy().sum() == 2 * n
    return kernel


@pytest.mark.parametrize("how", THEIRS)
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_autotuning_takes_one_run_a_configuration(how, timed):
    found, kernel = launches(lambda: tuned(**THEIRS[how]), timed=timed)
    assert [launch.constants["BLOCK"] for launch in found] == [
        64,
        256,
        1024,
        kernel.best_config.kwargs["BLOCK"],
    ]


def test_every_configuration_finds_the_same_caches():
    """The first one is not slower for having been the first."""
    given = pair()
    found, _ = launches(lambda: tuned(given=given), timed=True)
    read = [launch.took.counters["dram_bytes_read"] for launch in found[:3]]
    assert read == [20_000 // 32 * 32] * 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.CONFIGS", CONFIGS[::-1])
        back, _ = launches(lambda: tuned(given=given), timed=True)
    assert {each.constants["BLOCK"]: each.took.cycles for each in found[:3]} == {
        each.constants["BLOCK"]: each.took.cycles for each in back[:3]
    }


def test_do_bench_of_a_script_is_one_run_in_every_shape():
    x, out = pair()

    def run():
        double[(5,)](x, out, 5000, BLOCK=1024)

    bench = triton.testing.do_bench

    def all_shapes():
        return [
            bench(run), bench(run, 25, 100, None, [0.5, 0.2, 0.8]), bench(run, quantiles=[0.5]),
            bench(run, return_mode="all"), bench(run, rep=10, return_mode="median"),
        ]  # fmt: skip

    with tileprobe.use("sim:a100"):  # Triton's is replaced when a simulated GPU is first used
        bench = triton.testing.do_bench
    found, (ms, several, one, every, median) = launches(all_shapes, timed=True)
    assert len(found) == 5
    assert several == [ms] * 3 and one == ms and every == [ms] and median == ms
    assert ms == pytest.approx(found[0].took.cycles / 1410e3 + AROUND_MS)


def test_what_an_autotuner_tries_within_a_benchmark_is_not_in_its_time():
    x, out = pair()
    kernel = triton.autotune(CONFIGS, key=["n"])(double)
    call = lambda: kernel[lambda meta: (triton.cdiv(5000, meta["BLOCK"]),)](x, out, 5000)
    found, ms = launches(lambda: triton.testing.do_bench(call), timed=True)
    assert len(found) == 3 + 1 + 1
    assert ms == pytest.approx(found[-1].took.cycles / 1410e3 + AROUND_MS)


def test_elsewhere_triton_benchmarks_as_always():
    with tileprobe.use("sim:a100"):
        pass
    with tileprobe.use("cpu"), pytest.raises(TypeError):
        triton.testing.do_bench(lambda: None, no_such=1)
    runs = []
    with tileprobe.use("cpu"):
        triton.testing.do_bench(lambda: runs.append(1), warmup=1, rep=1)
    assert len(runs) > 7
