"""Probed kernels launched by hand: narrow clocks, no parameter block, and programs that go to the plain kernel."""

from types import SimpleNamespace

import numpy as np
import pytest
import session_kernels as K

from tileprobe.ir.mode import pipeline_in, with_pipeline
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.session.recorded import Watch
from tileprobe.targets.base import launches
from tileprobe.targets.cpu import clock_source as clock
from tileprobe.tools.plan import Plan
from tileprobe.trace.decode import decode

PIPELINE = Plan(loops=True, iterations=True, kinds=("all",)).pipeline("tile")


@pytest.fixture
def observed(monkeypatch):
    """Sets the observer of launches; gives back a list for what it collects."""
    found = []

    def install(observe):
        monkeypatch.setattr(launches, "observer", observe)
        return found

    return install


@pytest.mark.parametrize("bits", [32, 64])
def test_clocks_of_both_widths(observed, bits):
    text = PIPELINE.replace("assign-slots{structure=tile", f"assign-slots{{structure=tile clock_bits={bits}")

    def observe(kernel, grid, plain, arguments):
        return Watch(kernel, grid, found.append, kernel.compile(text), Sampling(), dose=1, plain=plain)

    found = observed(observe)
    begin = clock.ticks()
    K.launch(K.loop_kernel, 3, 4)
    end = clock.ticks()
    (run,) = found
    assert run.layout.clock_bits == bits
    columns = decode(
        run.full_words(),
        run.layout,
        epochs=[run.epoch],
        programs=3,
        sampling=run.sampling,
    ).columns
    assert columns["start"].min() >= begin
    assert columns["stop"].max() <= end
    assert (columns["stop"] >= columns["start"]).all()


def test_a_probed_kernel_without_parameters_does_its_work(observed):
    """Somebody may launch it who knows nothing of records."""
    plain = K.launch(K.loop_kernel, 3, 4)

    def observe(kernel, grid, plain, arguments):
        nothing = lambda *_: None
        return SimpleNamespace(
            variant=kernel.compile(PIPELINE),
            parameters=0,
            accesses=False,
            start=nothing,
            ended=nothing,
            stop=nothing,
        )

    observed(observe)
    np.testing.assert_array_equal(K.launch(K.loop_kernel, 3, 4), plain)


@pytest.mark.parametrize("every", [Every(3), Every(3, 2), Every(2, 0, 2), Every(100, 50), Every(1, -2)])
def test_programs_that_are_left_out_run_in_the_plain_kernel(observed, every):
    """Whatever the stride, the phase and the limit: each program runs once."""

    def observe(kernel, grid, plain, arguments):
        variant = kernel.compile(PIPELINE)
        return Watch(kernel, grid, found.append, variant, Sampling(every), dose=1, plain=plain)

    found = observed(observe)
    count = 11
    x, out = K.arrays(count)
    K.scale_kernel[(count,)](x, out, 3.0, BLOCK=K.BLOCK)
    np.testing.assert_array_equal(np.asarray(out.numpy()), np.asarray(x.numpy()) * np.float32(3.0))
    (run,) = found
    columns = decode(
        run.full_words(),
        run.layout,
        epochs=[run.epoch],
        programs=count,
        sampling=run.sampling,
    ).columns
    recorded = sorted(set(columns["program"].tolist()))
    assert recorded == [n for n in range(count) if every.index(n, count) >= 0]


def test_a_mode_is_a_comma_list():
    mode = with_pipeline("default,other", "select{kinds=dot},instrument")
    assert mode.startswith("default,other,tileprobe:")
    assert mode.count(",") == 2
    assert pipeline_in(mode) == "select{kinds=dot},instrument"
    assert pipeline_in(with_pipeline(mode, "instrument")) == "instrument"
    assert pipeline_in("default") is None
    with pytest.raises(Exception, match="damaged"):
        pipeline_in("tileprobe:@@@")
