"""Probes are thinned until a kernel spills no more than it does without them, and it is said."""

import pytest
from gpu_cases import DENSE, plain

from tileprobe.targets.catalog import find
from tileprobe.targets.gpu import thinned
from tileprobe.targets.gpu.evidence import side
from tileprobe.targets.gpu.kernel import GpuKernel
from tileprobe.targets.gpu.thinned import thinner, with_bearable_probes

PIPELINE = DENSE.pipeline("ttgir", capacity=64)


def test_a_pipeline_keeps_everything_but_what_is_selected():
    select, *rest = PIPELINE.split("},")
    for step in range(1, 5):
        fewer, *others = thinner(PIPELINE, step).split("},")
        assert others == rest
        assert fewer.startswith("select{structure=ttgir kernel=true loops=true iterations=")
        assert fewer != select
    assert thinner(PIPELINE, 0) == PIPELINE


def test_nothing_is_left_out_where_nothing_is_worse():
    made, step, said = with_bearable_probes(plain("matmul", "sm80"), PIPELINE)
    assert (step, said) == (0, [])
    assert made.records


@pytest.fixture
def spilling(monkeypatch):
    """A machine on which a kernel with more than ten records spills."""
    original = thinned.side

    def counted(kernel):
        found = original(kernel)
        records = kernel.asm["ptx"].count("%clock64;")
        return found | {"spill_bytes": 8 * records if records > 10 else 0}

    monkeypatch.setattr(thinned, "side", counted)


def test_probes_go_until_nothing_spills_and_it_is_said(spilling):
    kernel = plain("matmul", "sm80")
    made, step, (said,) = with_bearable_probes(kernel, PIPELINE)
    assert step > 0
    assert thinned.side(made.kernel)["spill_bytes"] == 0
    assert "spilled" in said
    assert made.records


def test_every_dose_has_the_same_probes(spilling):
    shown = GpuKernel(plain("matmul", "sm80"), find("cuda")[0])
    once = shown.compile(PIPELINE)
    thrice = shown.compile(PIPELINE.replace("copies=1", "copies=3"))
    assert len(thrice.layout.slots) == len(once.layout.slots)
    assert thrice.layout.copies == 3
    assert len(once.layout.slots) < 33


def test_what_cannot_be_helped_is_said(monkeypatch):
    kernel = plain("matmul", "sm80")
    original = side
    monkeypatch.setattr(thinned, "side", lambda k: original(k) | {"spill_bytes": 0 if k is kernel else 4096})
    made, _, said = with_bearable_probes(kernel, PIPELINE)
    assert made is not None
    assert any("4096 bytes" in text for text in said)


@pytest.fixture
def crowded(monkeypatch):
    """A machine that holds 32 warps of a kernel without probes, and the given number with more than ten records."""
    original = thinned.side

    def held(warps):
        def counted(kernel):
            records = kernel.asm["ptx"].count("%clock64;")
            return original(kernel) | {"occupancy_warps": warps if records > 10 else 32, "spill_bytes": 0}

        monkeypatch.setattr(thinned, "side", counted)

    return held


def test_one_warp_in_eight_is_borne_and_said(crowded):
    crowded(28)
    made, step, (said,) = with_bearable_probes(plain("matmul", "sm80"), PIPELINE)
    assert step == 0
    assert len(made.records) > 10
    assert "holds 28 warps, without 32" in said


def test_more_is_not(crowded):
    crowded(27)
    made, step, (said,) = with_bearable_probes(plain("matmul", "sm80"), PIPELINE)
    assert step > 0
    assert len(made.records) < 20
    assert "with all of them a multiprocessor holds 27 warps, without 32" in said


def test_where_nothing_helps_the_least_is_spilled(monkeypatch):
    """All choices spill the same here: then the one with all probes is taken."""
    kernel = plain("matmul", "sm80")
    original = side
    monkeypatch.setattr(thinned, "side", lambda k: original(k) | {"spill_bytes": 0 if k is kernel else 8})
    _, step, _ = with_bearable_probes(kernel, PIPELINE)
    assert step == 0
