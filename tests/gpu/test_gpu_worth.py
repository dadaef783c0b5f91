"""Records that nobody asked for by name are left out where they would take much of their loop's time."""

import pytest
from gpu_cases import DENSE, bridged, plain

from tileprobe.ir.accessors import op_name
from tileprobe.session.session import Session
from tileprobe.targets.gpu import thinned
from tileprobe.targets.gpu.instrument import instrument
from tileprobe.targets.gpu.structure import DOTS, product
from tileprobe.targets.gpu.thinned import with_bearable_probes
from tileprobe.targets.gpu.worth import RECORD_CYCLES, heaviest

BY_DEFAULT = Session().plan.pipeline("ttgir")


def test_the_share_is_records_against_what_products_take_at_the_least():
    shares = {}
    for name, text in {
        "iterations": "select{structure=ttgir kinds=none asynchronous=false}",
        "loops": "select{structure=ttgir kinds=none asynchronous=false iterations=false}",
    }.items():
        module, _ = bridged("matmul", "sm80")
        rest = BY_DEFAULT.partition(",")[2]
        shares[name] = instrument(module, f"{text},{rest}").share
    assert shares["loops"] == 0
    module, _ = bridged("matmul", "sm80")
    assert heaviest(module) == 0  # without records
    products = sum(
        product(op) for op in module.walk() if op_name(op) in DOTS and op_name(op.parent_op()) == "scf.for"
    )
    # sm_80 does 1024 multiplications of 16 bits a cycle; an iteration has a record at either end
    assert shares["iterations"] == pytest.approx(2 * RECORD_CYCLES / (products / 1024))


def test_the_default_is_light_and_what_is_asked_for_is_there(monkeypatch):
    kernel = plain("matmul", "sm80")
    made, step, said = with_bearable_probes(kernel, BY_DEFAULT)
    assert made.share <= thinned._LIGHT
    assert step > 0
    assert any("more than 8.2 %" in text and "--dense has them" in text for text in said)
    _, dense, _ = with_bearable_probes(kernel, DENSE.pipeline("ttgir"))
    assert dense < step
    monkeypatch.setattr(thinned, "_LIGHT", 1e9)
    heavy, step, said = with_bearable_probes(kernel, BY_DEFAULT)
    assert step == 0
    assert len(heavy.records) > len(made.records)
    assert not any("--dense" in text for text in said)
    assert heavy.share > made.share


def test_records_that_take_no_time_are_not_weighed():
    kernel = plain("matmul", "sm80")
    made, step, said = with_bearable_probes(kernel, BY_DEFAULT, weighed=False)
    assert step == 0
    assert made.share > thinned._LIGHT
    assert not any("--dense" in text for text in said)


@pytest.mark.parametrize("step", range(len(thinned._STEPS)))
def test_each_step_has_fewer_records(step):
    module, _ = bridged("matmul", "sm90")
    found = instrument(module, thinned.thinner(BY_DEFAULT, step))
    if step:
        module, _ = bridged("matmul", "sm90")
        before = instrument(module, thinned.thinner(BY_DEFAULT, step - 1))
        assert len(found.records) <= len(before.records)
        assert found.share <= before.share
