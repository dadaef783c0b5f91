"""What a session chooses and keeps, part by part, without a kernel that runs."""

import numpy as np
import pytest
from session_parts import recorded, work_of

from tileprobe.errors import TileProbeError
from tileprobe.ir.sampling import ALL, Every, Sampling
from tileprobe.session.budget import Budget
from tileprobe.session.choices import Choice, check_numbers, odd_prime
from tileprobe.session.draws import Draw
from tileprobe.session.recorded import Recorded
from tileprobe.session.thinning import Thinning

# -- what a user chooses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("skip", 0, 2**31 - 1),
        ("take", 1, 2**31 - 1),
        ("capacity", 1, 2**24),
        ("intervals", 1, 2**40),
        ("seed", -(2**63), 2**63 - 1),
        ("min_cost", 0.0, 1e18),
        ("max_overhead", 1e-9, 1e6),
        ("launch_mb", 1e-3, 2.0**30),
        ("total_mb", 1e-3, 2.0**30),
    ],
)
def test_numbers_have_limits(name, least, most):
    for value in (least, most):
        check_numbers(**{name: value})
    wrong = (least - 1, most + 1) if isinstance(least, int) else (least - 1e-9, most * 1.001, float("nan"))
    for value in (*wrong, True, "1"):
        with pytest.raises(TileProbeError, match=f"^{name}.* number from "):
            check_numbers(**{name: value})


def test_only_take_may_be_left_open():
    check_numbers(take=None)
    with pytest.raises(
        TileProbeError, match=r"skip \(--skip\) is a whole number from 0 to 2.14748e\+09, not None"
    ):
        check_numbers(skip=None)
    with pytest.raises(TileProbeError, match=r"total_mb \(--budget-mb\) is a number from"):
        check_numbers(total_mb=None)
    with pytest.raises(TileProbeError, match="capacity"):
        check_numbers(capacity=2.0)


def test_odd_primes():
    assert [odd_prime(n) for n in (1, 2, 3, 4, 5, 8, 9, 10, 14, 24, 25, 26, 48, 120)] == [
        3, 3, 3, 5, 5, 11, 11, 11, 17, 29, 29, 29, 53, 127,
    ]  # fmt: skip


def sampled(programs="auto", iterations="all", count=1000, stride=1, **more):
    return Choice(programs, iterations).sampling(count, Draw(1), stride, **more)


def test_programs_as_they_are_written():
    assert sampled("all").programs == sampled("auto").programs == Every()
    assert sampled("1%").programs.stride == 100
    assert sampled("100%").programs.stride == 1
    assert sampled("30%").programs.stride == 3
    assert sampled("0,9,5,9").chosen == (0, 5, 9)
    assert len(sampled("random:16").chosen) == 16
    for wrong in (
        "",
        "0%",
        "101%",
        "-1%",
        "x%",
        "random:0",
        "random:-1",
        "random:x",
        "1,-2",
        "x",
        f"{ALL + 1}",
    ):
        with pytest.raises(TileProbeError):
            Choice(wrong)
    assert sampled(f"{ALL}").chosen == (ALL,)


def test_a_stride_leaves_programs_out_and_each_has_its_turn():
    assert sampled(stride=1).programs == Every()
    assert sampled(stride=4).programs.stride == 5
    assert sampled("50%", stride=4).programs.stride == 10
    assert sampled("0,5,9", stride=4).chosen == (0, 5, 9)
    draw, choice = Draw(3), Choice("25%")
    assert sorted(choice.sampling(1000, draw).programs.phase for _ in range(4)) == [0, 1, 2, 3]
    assert sorted(choice.sampling(2, draw).programs.phase for _ in range(2)) == [
        0,
        1,
    ]  # no more than there are
    assert sampled(blocks=100).programs.stride == 10
    assert sampled(blocks=1000).programs.stride == 1
    assert sampled("0,1,2,3,4,5", blocks=3).chosen == (0, 2, 4)


def test_a_loop_longer_than_its_room_is_covered_whole():
    """100 iterations with room for 10: a tenth of them, every 11th, from one of the first of the shortest run."""
    found = sampled(trips={2: (10, 100, 50), 3: (100, 100, 3)}).loops
    assert found[2].stride == 11
    assert 0 <= found[2].phase < 11
    assert found[3] == Every()
    phases = {Choice().sampling(8, Draw(n), trips={2: (10, 100, 3)}).loops[2].phase for n in range(60)}
    assert phases == {0, 1, 2}
    assert sampled(iterations="every:4", trips={2: (30, 100, 50)}).loops[2].stride == 4
    assert sampled(iterations="every:4", trips={2: (24, 100, 50)}).loops[2].stride == 5
    assert sampled(iterations="first:8", trips={2: (4, 100, 50)}).loops[2] == Every(count=8)
    assert sampled(iterations="last:8", trips={2: (4, 100, 50)}).loops[2] == Every(phase=-8)
    assert sampled(iterations="every:4").loops[-1] == Every(4)
    assert sampled(iterations="first:1").loops[-1] == Every(count=1)


@pytest.mark.parametrize(("last", "begins"), [(1, 29), (8, 22), (40, 0)])
def test_the_last_of_a_loop_whose_end_nobody_knows(last, begins):
    """Runs had 30 iterations at the least: the launch begins to record that long before."""
    found = Choice(iterations=f"last:{last}").sampling(4, Draw(), ends={0: 30})
    assert found.loop(0) == Every(phase=begins)


def test_what_is_drawn_anew():
    for programs, every, again in (
        ("random:4", Sampling(), True),
        ("all", Sampling(), False),
        ("all", Sampling(Every(3)), True),
        ("all", Sampling(loops={0: Every(2)}), True),
        ("all", Sampling(loops={0: Every(1, 4)}), False),
    ):
        assert Choice(programs).draws(every) is again


def test_phases_come_in_rounds():
    draw = Draw(5)
    assert draw.turn("x", 1) == draw.turn("x", 0) == 0
    for _ in range(3):
        assert sorted(draw.turn("x", 7) for _ in range(7)) == list(range(7))
    assert {draw.turn("y", 2), draw.turn("y", 2)} == {0, 1}
    assert sorted(draw.turn("z", 256) for _ in range(256)) == list(range(256))
    assert len({draw.turn("w", 257) for _ in range(257)}) < 257  # beyond, without rounds


# -- thinning ------------------------------------------------------------------------------------------------------


def test_the_first_guess():
    """Eight records, a header of two and seven for the way there, at twice 10 ns, on two workers: 170 ns a program."""
    thinning = Thinning(0.01)
    thinning.guess(800, 100, 10.0, workers=2)
    assert thinning.cost_ns() == 2 * 10 * 17 / 2
    thinning.guess(8000, 100, 10.0, workers=2)
    assert thinning.guess_ns == 170.0  # the first one stays
    few, nobody = Thinning(0.01), Thinning(0.01)
    few.guess(8, 1, 10.0, workers=64)
    assert few.guess_ns == 340.0  # a program has one worker
    nobody.guess(0, 0, 10.0, workers=2)
    assert nobody.guess_ns is None


def measured(plain, probed, recorded=10, guess=100.0):
    thinning = Thinning(0.01, guess_ns=guess)
    for duration in plain:
        thinning.plain(duration)
    for duration in probed:
        thinning.probed(duration, recorded, 1000)
    return thinning


def test_measured_launches_replace_the_guess_when_they_contradict_it():
    assert measured([1000.0] * 3, [3000.0] * 6).cost_ns() == 200.0  # surely more
    assert measured([1000.0] * 3, [1500.0] * 6).cost_ns() == 50.0  # surely less
    assert measured([1000.0] * 3, [900.0] * 6).cost_ns() == 0.0
    assert measured([1000.0] * 2, [3000.0] * 6).cost_ns() == 100.0  # three without records are needed
    assert measured([1000.0] * 3, [3000.0] * 5).cost_ns() == 100.0  # and six with
    assert measured([1000.0] * 3, [3000.0] * 6, guess=None).cost_ns() is None


ERROR = (1 + 4 / 6) * 1.2533 * 1.4826 * 100 / np.sqrt(6)  # of the median of six that are 100 from it


def around(more):
    return [1000.0 + more - 100, 1000.0 + more + 100] * 3


def believed(cost, error, guess=100.0):
    """Beside a guess that is off by 70 %."""
    return guess + (cost - guess) * 70.0**2 / (70.0**2 + error**2)


def test_more_than_was_guessed_counts_by_how_sure_it_is_and_less_beyond_three_errors():
    assert measured([1000.0] * 3, around(2000)).cost_ns() == pytest.approx(believed(200.0, ERROR / 10))
    assert measured([1000.0] * 3, around(900)).cost_ns() == 100.0  # the guess may be right
    assert measured([1000.0] * 3, around(500)).cost_ns() == pytest.approx((500 + 3 * ERROR) / 10)


def test_a_launch_is_held_against_the_three_before_it():
    """A machine that got slower by the hour: 1000, then 9000, and 500 more with records."""
    assert measured([1000.0] * 9 + [9000.0] * 3, [9500.0] * 6).cost_ns() == 50.0


def test_numbers_of_programs_count_by_how_sure_they_are():
    """Ten programs say 100 +- 7.6 each, twenty say 200 +- 3.8: four times as sure."""
    thinning = measured([1000.0] * 3, around(1000))
    for duration in around(4000):
        thinning.probed(duration, 20, 1000)
    assert thinning.cost_ns() == pytest.approx(
        believed((0.25 * 100 + 200) / 1.25, ERROR / 20 / np.sqrt(1.25))
    )


def test_a_stride_keeps_the_allowed_share():
    """100 ns for each of 1000 programs, a hundredth of 1 ms allowed and four fifths of it aimed at: every 12.5th."""
    thinning = measured([1e6], [1e6])
    assert thinning.stride == 13
    assert measured([], [5e6, 1e6]).stride == 13  # the latest, while none ran without
    assert measured([1e9], [1e9]).stride == 1
    assert measured([1.0], [1.0]).stride == 1000  # no further than the programs go
    assert measured([0.0], [0.0]).stride == 1
    blind = Thinning(0.01, guess_ns=100.0)
    blind.probed(1e6, 10, 1000, look=False)
    assert blind.stride == 1


def test_only_the_latest_launches_count():
    thinning = measured([5000.0] * 30 + [1000.0] * 32, [9000.0] * 10 + [1500.0] * 32)
    assert thinning.cost_ns() == 50.0
    many = measured([1000.0] * 40, [2000.0] * 40)
    assert [len(kept) for kept in (many._plain, *many._more.values())] == [32, 32]


# -- budget --------------------------------------------------------------------------------------------------------


def test_a_launch_may_take_a_quarter_of_what_is_left():
    """1 MB in all, an eighth of it held back; 1 KB a block."""
    budget, work = Budget(32.0, 1.0), work_of()
    assert (budget.total, budget.shared) == (2**20, 2**20 - 2**17)
    assert budget.blocks(work, 1024) == 256
    budget.used = 2**19
    assert budget.blocks(work, 1024) == 128
    budget.used = 2**21
    assert budget.blocks(work, 1024) == 0
    budget.add(work, recorded())
    assert budget.blocks(work, 1024) == 256  # room is made for kernels that are known
    work.block_bytes = 256
    assert budget.blocks(work, 1024) == 1024
    assert Budget(0.125, 1.0).blocks(work_of(), 1024) == 128


def test_room_that_is_held_back_is_for_new_kernels():
    budget, old, new = Budget(32.0, 1.0), work_of(), work_of()
    run = recorded()
    budget.add(old, run)
    assert budget.used == run.nbytes
    budget.used = budget.shared - 1
    assert budget.has_room(old)
    budget.used = budget.shared
    assert (budget.has_room(old), budget.has_room(new)) == (False, True)
    budget.used = budget.total
    assert not budget.has_room(new)
    plain, other = Recorded((4,)), work_of()
    budget.add(other, plain)
    assert id(other.kernel) not in budget._kernels


def test_room_is_made_until_a_quarter_is_free_largest_first():
    budget, large, small = Budget(32.0, 1.0), work_of(), work_of()
    each = recorded().nbytes
    large.runs = [(None, recorded()) for _ in range(16)]
    small.runs = [(None, recorded()) for _ in range(3)]
    budget.shared = 19 * each
    budget.used = 19 * each
    budget.make_room([small, large])
    assert (len(large.runs), len(small.runs), budget.used) == (8, 3, 11 * each)
    budget.used, budget.shared = 11 * each, each
    budget.make_room([small, large])
    assert (len(large.runs), len(small.runs), budget.used) == (
        1,
        1,
        2 * each,
    )  # and then there is none to make
