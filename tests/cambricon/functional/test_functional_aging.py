"""A flash that ages, in values and in time: one model of errors, the same pages."""

import numpy as np
import pytest
from functional_models import EXAMPLE

from tileprobe.cli import main
from tileprobe.targets.cambricon.aging import parse_age, wear_of
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import encode
from tileprobe.targets.cambricon.engine import state as s
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.functional.model import FlashModel
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import geometry_of

AGE = "cycles=900,days=25,seed=4"
TLC = load_machine("cambricon:s+tlc")


def test_values_and_time_read_the_same_pages_again():
    options = Options(tile="128x2048", age=AGE)
    model = FlashModel.load(EXAMPLE, TLC, ecc="none", options=options)
    clean = model.flash.snapshot()
    flips, retries = model.age()
    wear = wear_of(TLC, parse_age(AGE))
    step = compile_step(model.spec.model, TLC, Options(tile="128x2048", lm_head=True, context=1))
    run = launch(encode(step), TLC, geometry_of(TLC), wear=wear)
    assert retries == int(run.state.upkeep[:, s.N_RETRIES].sum()) > 0
    # each page has the errors of the attempt that read it
    pages = sum(len(one) for one in clean.values())
    bits = 8 * (16384 + 1664)
    for stored in model.flash.matrices.values():
        assert len(stored.numbers) == len(stored.pages)
    assert wear.rate_of(7, TLC) < flips.total / (pages * bits) < wear.rate
    model.flash.restore(clean)
    assert model.age()[0] == flips  # a second time: the same


def test_no_errors_are_no_change():
    machine = TLC.replace(rber_base=0.0, rber_wear=0.0, rber_retention=0.0, rber_disturb=0.0)
    model = FlashModel.load(EXAMPLE, machine, ecc="none", options=Options(age="cycles=900"))
    clean = model.flash.snapshot()
    flips, retries = model.age()
    assert (flips.total, retries) == (0, 0)
    assert all(np.array_equal(clean[name], stored.pages) for name, stored in model.flash.matrices.items())


def test_generate_on_an_old_flash(capsys):
    run = [
        "llm",
        "generate",
        "--model",
        str(EXAMPLE),
        "--prompt",
        "Mr.",
        "--tokens",
        "3",
        "--device",
        "cambricon:s+tlc",
    ]
    assert main([*run, "--age", AGE, "--ecc", "bch:40"]) == 0
    assert "bit errors:" in capsys.readouterr().out
    assert main([*run, "--age", AGE, "--ber", "1e-4"]) == 2
    assert "leave out --ber" in capsys.readouterr().err


@pytest.mark.parametrize("seed", [0, 1])
def test_a_seed_is_other_pages(seed):
    wear = wear_of(TLC, parse_age(f"cycles=900,days=25,seed={seed}"))
    from tileprobe.targets.cambricon.functional.flash import count_retries

    numbers = np.arange(20000)
    again = count_retries(wear.fails, wear.age.seed, numbers)
    for attempt in range(3):
        assert (again > attempt).mean() == pytest.approx(wear.fails[attempt], abs=0.02)
    other = count_retries(wear.fails, wear.age.seed + 7, numbers)
    assert not np.array_equal(again, other) or wear.fails[0] in (0.0, 1.0)
