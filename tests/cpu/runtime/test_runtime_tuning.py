"""Autotuning on the CPU: configurations that are the same code are compiled and measured once, long ones not often."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import triton
import triton.language as tl
from triton import knobs

import tileprobe
from tileprobe.targets.cpu import tuning

MANY = [(w, s) for w in (1, 2, 4, 8) for s in (1, 2, 3)]


def kernel_of(configs, **more):
    @triton.autotune(configs=configs, key=["n"], **more)
    @triton.jit
    def scale(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)

    return scale


@pytest.fixture
def compiled(tmp_path):
    """Which compilations were asked for, and whether the cache had them."""
    seen = []
    with knobs.compilation.scope(), knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        knobs.compilation.listener = lambda *, cache_hit, **_: seen.append(cache_hit)
        yield seen


def test_warps_and_stages_are_one_configuration(compiled):
    scale = kernel_of([triton.Config({"BLOCK": 64}, num_warps=w, num_stages=s) for w, s in MANY])
    x = np.ones(64, np.float32)
    scale[(1,)](tileprobe.array(x), 64)
    assert compiled == [False]
    assert (x == 2).all()  # once: there was nothing to measure


def test_the_first_kernel_of_a_script_that_knows_nothing_of_us(tmp_path):
    """Triton asks for its driver only when it measures: that is too late to tell configurations apart."""
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch, triton, triton.language as tl

            @triton.autotune([triton.Config({}, num_warps=w) for w in (1, 2, 4)], key=["n"])
            @triton.jit
            def add(x, n):
                tl.store(x, tl.load(x) + 1)

            x = torch.zeros(1)
            add[(1,)](x, 1)
            print(x.item())
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1.0", done.stderr


def test_others_are_measured(compiled):
    configs = [triton.Config({"BLOCK": b}, num_warps=w, num_stages=s) for b in (32, 64) for w, s in MANY]
    scale = kernel_of(configs)
    scale[(2,)](tileprobe.array(np.ones(64, np.float32)), 64)
    assert compiled == [False, False]
    assert [c.kwargs["BLOCK"] for c in scale.configs_timings] == [32, 64]
    assert all(c.num_warps == 1 for c in scale.configs_timings)  # the first of each


def kept(function):
    function.nargs = dict(zip(function.arg_names, ("x", 64)))
    return function.prune_configs({})


def test_a_kernel_that_has_an_argument_of_that_name():
    @triton.autotune(configs=[triton.Config({}, num_warps=w, num_stages=s) for w, s in MANY], key=["n"])
    @triton.jit
    def told(x, n, num_warps: tl.constexpr):
        tl.store(x, num_warps)

    assert [c.num_warps for c in kept(told)] == [1, 2, 4, 8]


def test_a_heuristic_that_looks_at_options():
    @triton.autotune(configs=[triton.Config({}, num_warps=w, num_stages=s) for w, s in MANY], key=["n"])
    @triton.heuristics({"DEPTH": lambda args: args["num_stages"] > 1})
    @triton.jit
    def told(x, n, DEPTH: tl.constexpr):
        tl.store(x, 1.0 if DEPTH else 0.0)

    assert [(c.num_warps, c.num_stages) for c in kept(told)] == [(1, 1), (1, 2)]


def test_hooks_tell_configurations_apart():
    hooks = [lambda args: None, lambda args: None]
    configs = [triton.Config({"BLOCK": 64}, num_warps=w, pre_hook=h) for h in hooks for w in (1, 2)]
    assert [c.pre_hook for c in kept(kernel_of(configs))] == hooks


def test_other_targets_tune_as_they_did(monkeypatch):
    configs = [triton.Config({"BLOCK": 64}, num_warps=w, num_stages=s) for w, s in MANY]
    monkeypatch.setattr(tuning, "_on_cpu", lambda: False)
    assert kept(kernel_of(configs)) == configs


def test_values_that_are_no_constants_tell_them_apart():
    @triton.autotune(configs=[triton.Config({"step": n}) for n in (32, 48)], key=["n"])
    @triton.jit
    def strided(x, n, step):
        tl.store(x + step, 1.0)

    assert len(kept(strided)) == 2


@pytest.mark.parametrize(("takes_s", "long"), [(0.2, True), (0.001, False)])
def test_long_code_is_not_measured_often(monkeypatch, takes_s, long):
    now, runs = [0.0], []

    def run():
        runs.append(now[0])
        now[0] += takes_s

    monkeypatch.setattr(tuning.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(triton.testing, "do_bench", lambda fn, **how: (fn(), how["quantiles"])[1])
    found = tuning.benchmarker(run, quantiles=(0.5, 0.2, 0.8))
    assert len(runs) == (2 if long else 3)
    assert found == (pytest.approx([200.0] * 3) if long else (0.5, 0.2, 0.8))
