"""A flash that ages: the model of errors, what it does to the engine's time by hand and in whole runs, and mistakes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cambricon_tiny import TINY, run_matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.aging import (
    SCRUB_CHANCE,
    Age,
    acceleration,
    chance_of_failure,
    life_days,
    parse_age,
    parts_of_rate,
    wear_of,
)
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.engine import state as s
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY
from tileprobe.targets.cambricon.simulate import simulate

S, TLC = load_machine("cambricon:s"), load_machine("cambricon:s+tlc")
SMALL = from_config(
    {
        "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 4,
        "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 1000,
    },
    name="small",
)  # fmt: skip


def worn(fails, seed=0):
    return replace(wear_of(S, Age(seed=seed)), fails=np.array(fails, float))


def test_a_flash_without_errors_equals_one_that_never_ages():
    never = simulate(SMALL, S, Options()).to_json()
    aged = simulate(SMALL, S.replace(rber_base=0.0), Options(age="cycles=5000,days=300,reads=1e6")).to_json()
    for one in (never, aged):
        del one["options"], one["device"], one["assumed"]
    found = aged.pop("aging")
    assert never.pop("aging") is None
    assert aged == never
    assert found["retries"] == found["rewrites"] == found["lost"] == 0.0


def test_single_level_cells_within_their_life_need_no_retries():
    result = simulate(SMALL, S, Options(age="cycles=100000,days=365"))
    assert result.aging is not None
    assert result.aging["retries"] == 0.0
    assert result.latency_ms == simulate(SMALL, S, Options()).latency_ms


# -- by hand: reads take 30, computing a page 30, sums 2.5, a streamed page 7.3 (see test_cambricon_engine)


def test_a_retry_is_a_read_more():
    # the page is read 0 .. 30 and 30 .. 60; the command of the retry takes the bus while it is idle
    run = run_matrix(TINY, rows=8, mode=FLASH_ONLY, wear=worn([1.0, 0.0]))
    assert run.total_us == pytest.approx(60 + 30 + 2.5)
    assert run.state.stats[0, s.BUSY_COMMAND] == pytest.approx(3 * 0.1)  # input, retry, sums
    assert run.state.upkeep[0, s.N_RETRIES] == 1
    assert run.state.upkeep[0, s.N_LOST] == 0


def test_the_last_attempt_can_fail():
    run = run_matrix(TINY, rows=8, mode=FLASH_ONLY, wear=worn([1.0, 1.0, 1.0]))
    assert run.total_us == pytest.approx(90 + 30 + 2.5)
    assert run.state.upkeep[0, s.N_RETRIES] == 2
    assert run.state.upkeep[0, s.N_LOST] == 1


def test_a_streamed_page_that_is_read_again():
    # read 0 .. 60, the retry's command and the page after it
    run = run_matrix(TINY, rows=8, flash=0, wear=worn([1.0, 0.0]))
    assert run.total_us == pytest.approx(60 + 0.1 + 7.2)
    # the page behind it on this plane is read 60 .. 90 and 90 .. 120
    run = run_matrix(TINY, rows=16, flash=0, wear=worn([1.0, 0.0]))
    assert run.total_us == pytest.approx(120 + 0.1 + 7.2)
    assert run.state.stream_planes[0, 0, 0]["began"] == pytest.approx(120)  # the read of the page behind both
    assert run.state.upkeep[0, s.N_RETRIES] == 2


def test_a_channel_that_is_full_carries_the_commands_of_retries():
    # both planes read again until 60; the command of the second page goes between the pages
    run = run_matrix(TINY, rows=16, mode=NPU_ONLY, wear=worn([1.0, 0.0]))
    assert run.total_us == pytest.approx(60 + 2 * 7.3 + 0.1)
    assert run.state.stats[0, s.BUSY_COMMAND] == pytest.approx(4 * 0.1)


def test_rewriting_holds_the_plane():
    # every page read stands for a rewrite: read 30 and program 200 before the next page is read
    machine = TINY.replace(program_us=200.0, pages_per_block=1000000)
    run = run_matrix(machine, rows=16, wear=worn([0.0]), rewrites=1.0)
    # page 0 read 0 .. 30, rewrite .. 260, page 1 read .. 290, computed .. 320, sums
    assert run.total_us == pytest.approx(290 + 30 + 2.5)
    assert run.state.upkeep[0, s.N_REWRITES] == 2
    assert run.state.upkeep[0, s.UPKEEP_US] == pytest.approx(2 * 230)


def test_a_block_is_erased_after_its_pages():
    machine = TINY.replace(program_us=200.0, pages_per_block=1, erase_us=1000.0)
    run = run_matrix(machine, rows=16, wear=worn([0.0]), rewrites=1.0)
    assert run.state.upkeep[0, s.N_ERASES] == 2
    assert run.total_us == pytest.approx(30 + 230 + 1000 + 30 + 30 + 2.5)


def test_pages_whose_code_is_at_the_npu_cross_the_channel_for_rewriting():
    inside, outside = (
        run_matrix(
            TINY.replace(spare_travels=travels, program_us=1.0), rows=16, wear=worn([0.0]), rewrites=1.0
        )
        for travels in (False, True)
    )
    moved = outside.state.stats[0, s.BUSY_COMMAND] - inside.state.stats[0, s.BUSY_COMMAND]
    assert moved == pytest.approx(2 * 2 * 7.2)


# -- whole runs


def test_rewrites_are_as_many_as_reads_say():
    result = simulate(SMALL, S, Options(age="reclaim=3"))
    assert result.aging is not None
    assert result.aging["rewrites"] == pytest.approx(result.page_commands / 3, abs=S.dies * 2)
    assert result.aging["erases"] == pytest.approx(result.aging["rewrites"] / 256, abs=S.dies * 2)
    assert result.latency_ms > simulate(SMALL, S, Options()).latency_ms
    reads = result.page_commands + result.aging["rewrites"]
    assert result.energy_j["array_read"] == pytest.approx(reads * 16384 * 8 * 18.3e-12)


def test_retries_are_as_many_as_their_chances_say():
    result = simulate(SMALL, TLC, Options(age="cycles=800,days=20,celsius=35"))
    wear = wear_of(TLC, Age(cycles=800, days=20, celsius=35))
    expected = float(wear.fails[:-1].sum())
    assert result.aging is not None
    assert 0.2 < expected < 3
    spread = 4 * math.sqrt(expected / result.page_commands) + 0.02
    assert result.aging["retries_per_page"] == pytest.approx(expected, abs=spread)
    other = simulate(SMALL, TLC, Options(age="cycles=800,days=20,celsius=35,seed=5"))
    assert other.aging["retries"] != result.aging["retries"]


def test_an_older_flash_is_slower_until_it_is_rewritten():
    ages = ["cycles=10,days=1", "cycles=500,days=30", "cycles=1000,days=90"]
    times = [simulate(SMALL, TLC, Options(age=age)).latency_ms for age in ages]
    assert times == sorted(times)
    kept_up = simulate(SMALL, TLC, Options(age="cycles=500,reclaim=auto,refresh=auto"))
    assert kept_up.aging is not None
    assert kept_up.aging["retries_per_page"] < SCRUB_CHANCE * 3
    assert kept_up.aging["rewrites"] > 0
    assert kept_up.latency_ms < simulate(SMALL, TLC, Options(age="cycles=500,days=300")).latency_ms


def test_refresh_goes_by_the_day_and_by_what_is_stored():
    slow, fast = (
        simulate(SMALL, TLC, Options(age=f"cycles=10,refresh=1,tokens_a_day={n}")).aging for n in (100, 1000)
    )
    pages = simulate(SMALL, TLC).page_commands
    assert slow["rewrites"] == pytest.approx(pages / 100, abs=64)
    # a year of days: each rewrites everything once, over all of the flash
    whole = TLC.capacity_bytes / TLC.flash.page_bytes
    assert slow["life_days"] == pytest.approx(990 * whole / pages)
    assert fast["life_days"] == pytest.approx(slow["life_days"])


# -- the model


def test_jedec_conditions_are_one():
    """A year at 30 C, 500 hours at 52 and 96 at 66 are the same to a client's SSD (JESD218)."""
    for hours, celsius in ((365 * 24, 30), (500, 52), (96, 66)):
        assert hours * acceleration(S, celsius) == pytest.approx(365 * 24, rel=0.05)


def test_parts_of_the_rate_by_hand():
    age = Age(cycles=1000, days=30, reads=500)
    wear, retention, disturb = parts_of_rate(TLC, age)
    assert wear == pytest.approx(1.48e-3 + 3.9e-10 * 1000**2.05)
    assert retention == pytest.approx(6.28e-5 * 1000**0.14 * 720**0.54)
    assert disturb == pytest.approx(3.73e-9 * 1000**0.33 * 500**1.71)
    assert wear_of(TLC, age).rate == wear + retention + disturb
    once = parts_of_rate(TLC, Age(days=3))  # what holds data was programmed at least once
    assert once[:2] == pytest.approx((1.48e-3 + 3.9e-10, 6.28e-5 * 72**0.54))


def test_chances_against_thrown_bits():
    rng = np.random.default_rng(3)
    rate, trials = 3.3e-3, 4000
    length = 8192 + 40 * 14
    errors = rng.binomial(length, rate, (trials, 16))
    failed = (errors > 40).any(axis=1).mean()
    assert chance_of_failure(S, rate) == pytest.approx(failed, abs=4 * math.sqrt(failed / trials))
    assert chance_of_failure(S, 0.0) == 0.0
    assert chance_of_failure(S, 0.3) == 1.0


@given(st.floats(1e-9, 0.1), st.floats(1.0, 3.0))
@settings(max_examples=30, deadline=None)
def test_more_errors_are_no_better(rate, more):
    assert 0.0 <= chance_of_failure(S, rate) <= chance_of_failure(S, rate * more) <= 1.0


def test_auto_keeps_reads_below_the_chance_that_it_names():
    wear = wear_of(TLC, parse_age("cycles=300,reclaim=auto,refresh=auto,celsius=40"))
    assert wear.fails[0] <= SCRUB_CHANCE * 1.01
    assert wear.fails[0] > SCRUB_CHANCE / 2
    assert wear.rewrites == 1 / wear.age.reclaim
    alone = wear_of(TLC, parse_age("cycles=300,reclaim=auto"))
    assert alone.age.reclaim == pytest.approx(wear.age.reclaim)
    never = wear_of(S, parse_age("reclaim=auto,refresh=auto"))
    assert (never.age.reclaim, never.age.refresh) == (0.0, 0.0)


def test_life_by_hand():
    age = parse_age("cycles=400,reclaim=100")
    pages = TLC.capacity_bytes / TLC.flash.page_bytes
    # 5000 tokens read 1000 pages each: 50,000 rewrites a day over all pages, 600 cycles left
    assert life_days(TLC, age, 5000, 1000, 1000) == pytest.approx(600 * pages / 50000)
    assert life_days(TLC, Age(), 5000, 1000, 1000) == math.inf
    assert life_days(TLC, parse_age("cycles=1000,reclaim=100"), 5000, 1000, 1000) == 0.0


def test_life_adds_up_over_cycles_that_get_shorter():
    age = parse_age("cycles=0,reclaim=auto")
    whole = life_days(TLC, age, 5000, 1000, 1000)
    pages = TLC.capacity_bytes / TLC.flash.page_bytes
    by_cycle = [wear_of(TLC, replace(age, cycles=c + 5)).age.reclaim for c in range(0, 1000, 10)]
    assert whole == pytest.approx(sum(by_cycle) * 10 * pages / 5000 / 1000, rel=0.02)
    assert by_cycle[0] > by_cycle[-1] > 0
    # a code that gives up before the cycles are over ends the life there
    weak = TLC.replace(correctable_bits=30)
    assert 0 < life_days(weak, age, 5000, 1000, 1000) < whole / 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cycles", "write NAME=NUMBER, with a name of celsius, cycles"),
        ("cicles=3", "--age 'cicles=3': write"),
        ("cycles=many", "cycles=many: expected a number"),
        ("cycles=-1", "expected a number that is not negative"),
        ("days=inf", "expected a number that is not negative"),
        ("celsius=-300", "expected a number that is not negative"),
        ("cycles=auto", "cycles=auto: expected a number"),
        ("seed=1.5", "expected a whole number"),
    ],
)
def test_mistakes_in_an_age(text, message):
    with pytest.raises(TileProbeError, match=message):
        parse_age(text)


def test_ages_beyond_the_model():
    with pytest.raises(TileProbeError, match="nothing of the data is left"):
        wear_of(TLC, Age(cycles=1000, days=3000, celsius=90))
    with pytest.raises(TileProbeError, match="no rewriting helps; the code corrects 40 bits in 1024 bytes"):
        wear_of(TLC, parse_age("cycles=5000,reclaim=auto"))
    with pytest.raises(TileProbeError, match="retry_factor must be at most 1"):
        S.replace(retry_factor=1.5)
