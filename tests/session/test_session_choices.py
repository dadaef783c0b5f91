"""What a session chooses and keeps, part by part, without a kernel that runs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from session_parts import kernel_of, recorded, work_of

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Body, Stamp, allocate
from tileprobe.ir.sampling import ALL, Every, Sampling
from tileprobe.session.budget import Budget
from tileprobe.session.choices import Choice, check_numbers, odd_prime
from tileprobe.session.draws import Draw
from tileprobe.session.places import Places
from tileprobe.session.recorded import Ready, Recorded
from tileprobe.session.thinning import Thinning
from tileprobe.session.works import LEFT_OUT, LIGHT, PLAIN, PROBED, Compiled, Work, records

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


# -- works ---------------------------------------------------------------------------------------------------------


def test_a_work_learns_from_its_launches_how_much_to_record():
    """8 records and 9, at twice 10 ns (20 ticks at 2 GHz), by two workers: 170 ns. Of four programs in 10 us, with a
    hundredth allowed: every fourth."""
    work = work_of()
    work.began(PROBED)
    work.settle(recorded(duration=10_000), 0.01)
    assert work.thinning is not None
    assert (work.thinning.guess_ns, work.stride) == (170.0, 4)
    work.settle(Recorded((4,), duration_ns=10_000), 0.01)
    work.settle(recorded(dose=3), 0.01)  # neither plain nor probed once
    work.settle(Recorded((4,), duration_ns=99_000, waited_ns=98_000), 0.01)  # it waited for somebody else
    assert list(work.thinning._plain) == [10_000]
    for _ in range(2):
        work.settle(Recorded((4,), duration_ns=10_000), 0.01)
    work.settle(recorded(duration=10_700), 0.01)
    assert {count: list(more) for count, more in work.thinning._more.items()} == {4: [700]}


@pytest.mark.parametrize(("wanted", "stride"), [(70, 100), (69, 69), (114, 100), (116, 116)])
def test_a_stride_that_is_about_right_stays(wanted, stride):
    work = work_of(stride=100)
    work.thinning = Thinning(0.01, guess_ns=1.0)
    work.thinning.probed = lambda *_, **__: None  # type: ignore[method-assign]
    work.thinning.stride = wanted
    work.settle(recorded(), 0.01)
    assert work.stride == stride


def test_what_recording_costs_is_looked_at_often_in_the_beginning():
    work, looks = work_of(), []
    for n in range(1, 26):
        work.recorded = n
        if work._looks():
            looks.append(n)
    assert looks == [*range(1, 9), 16, 24]


def test_a_work_learns_how_long_its_loops_are():
    work = work_of()
    work.learn(recorded(trips=((3, 8, 100, 20),)))
    assert (work.trips, work.block_bytes) == ({3: (8, 100, 20)}, 16 * 8)
    work.learn(recorded(trips=((3, 8, 90, 30),)))
    assert work.trips == {3: (8, 100, 20)}
    work.learn(recorded(trips=((3, 8, 90, 10), (4, 2, 5, 5))))
    assert work.trips == {3: (8, 100, 10), 4: (2, 5, 5)}
    other = work_of()
    other.follow(work)
    assert (other.trips, other.stride, other.recorded) == (work.trips, 1, 1)
    assert other.trips is not work.trips


def test_doses_of_a_work():
    work = work_of()
    first = work.next_dose(alternate=True)
    doses = [work.next_dose(alternate=True) for _ in range(6)]
    assert (first, sorted(doses)) == (PROBED, [PLAIN] * 3 + [PROBED] * 2 + [3])
    assert work.count == 7
    work.dosed = 4  # enough of them
    assert sorted(work.next_dose(alternate=True) for _ in range(6)) == [PLAIN] * 3 + [PROBED] * 3
    assert [work_of().next_dose(alternate=False) for _ in range(5)] == [PROBED] * 5
    free = Work(kernel_of(doses=()), (4,))  # type: ignore[arg-type]
    assert [free.next_dose(alternate=True) for _ in range(5)] == [PROBED] * 5
    assert (free.largest_dose, work.largest_dose) == (PROBED, 3)


def test_a_work_that_had_to_make_room_leaves_launches_out():
    work = work_of(rate=0.25)
    assert all(work.next_dose(alternate=False) == PROBED for _ in range(20))  # nothing was recorded so far
    work.recorded = 1
    doses = [work.next_dose(alternate=False) for _ in range(400)]
    assert 60 <= doses.count(PROBED) <= 140
    assert work.unrecorded == doses.count(LEFT_OUT) == 400 - doses.count(PROBED)


def test_halving_keeps_one_of_each_sort_and_all_that_calibrate():
    work = work_of()
    runs = [recorded(dose=PROBED) for _ in range(5)] + [Recorded((4,))] * 3 + [recorded(dose=3)] * 2
    work.runs = [(None, run) for run in runs]
    before = work.nbytes
    freed = work.halve()
    assert [sum(run.dose == dose for _, run in work.runs) for dose in (PROBED, PLAIN, 3)] == [3, 2, 2]
    assert (freed, work.rate, work.unrecorded) == (before - work.nbytes, 0.5, 2)
    work.halve()
    work.halve()
    assert [sum(run.dose == dose for _, run in work.runs) for dose in (PROBED, PLAIN, 3)] == [1, 1, 2]
    assert (work.halve(), work.rate) == (0, 0.125)


class Memory:
    """Hands out words that stay where they are."""

    def put(self, words):
        return SimpleNamespace(address=1000 + len(words), words=words)


def test_parameters_are_made_once_for_launches_that_are_alike():
    layout = allocate([Stamp(0), Body(0, 4, (Stamp(1),))])
    places, work = Places(layout), Work(kernel_of(memory=Memory()), (8,))  # type: ignore[arg-type]
    first = work.ready(Choice("all"), places, 8, 77, 100)
    assert work.ready(Choice("all"), places, 8, 77, 100) is first
    assert (first.blocks, first.sampling.programs) == (8, Every())
    assert work.ready(Choice("all"), places, 9, 77, 100) is not first
    assert work.ready(Choice("all"), places, 8, 77, 0).blocks == 1  # never none at all
    several = {id(work.ready(Choice("50%"), Places(layout), 8, 77, 100)) for _ in range(3)}
    assert len(several) == 3
    other = Work(kernel_of(memory=Memory()), (8,))  # type: ignore[arg-type]
    made = [other.ready(Choice("random:2"), places, 8, 77, 100) for _ in range(40)]
    assert len({id(one) for one in made[:32]}) == 32
    assert {id(one) for one in made[32:]} <= {id(one) for one in made[:32]}
    assert len({id(one) for one in made[32:]}) > 1  # not one of them alone


def test_a_while_loop_whose_runs_are_too_different_stays_that():
    """Its launches began shortly before the end of the shortest run, and had no room up to that of the longest."""
    work, run = work_of(), Recorded((4,), dose=PROBED, ends=((0, 30),))
    for ends, trips, known in (
        (30, (), 30),
        (50, (), 30),
        (20, (), 20),
        (20, ((0, 8, 40, 20),), 0),
        (25, (), 0),
    ):
        work.learn(replace(run, ends=((0, ends),), trips=trips))
        assert work.ends == {0: known}
    learnt = work.learnt
    work.learn(replace(run, ends=((0, 25),)))
    assert work.learnt == learnt
    other = work_of()
    other.learn(run)
    assert (other.ends, other.learnt) == ({0: 30}, 1)
    other.learn(run)
    assert other.learnt == 1  # nothing new


def test_parameters_are_taken_back():
    layout = allocate([Stamp(0)])
    ready = Ready(Memory(), Places(layout), Sampling(chosen=(1, 3)), 4, 77)  # type: ignore[arg-type]
    assert ready.table.words.tolist() == [-1, 0, -1, 1]
    held = ready.parameters(5000, 9)
    assert held.words[:2].tolist() == [5000, 9]
    assert ready.parameters(6000, 10) is not held
    ready.over(held)
    assert ready.parameters(7000, 11) is held
    assert held.words[:2].tolist() == [7000, 11]
    ready.over(SimpleNamespace(address=3))  # memory that the host cannot write to
    assert ready.alike.spare == []


@pytest.mark.parametrize("programs", [5, 7, 100])
def test_a_sampling_that_is_turned_is_as_if_made_anew(programs):
    """Of every phase: parameters, blocks and sampling. What launches alike have in common stays in common."""
    layout = allocate([Stamp(0), Body(0, 4, (Stamp(1),))])
    loops = {-1: Every(3)}
    first = Ready(Memory(), Places(layout), Sampling(Every(7, 2), loops), programs, 77)  # type: ignore[arg-type]
    for phase in range(min(7, programs)):
        anew = Ready(Memory(), Places(layout), Sampling(Every(7, phase), loops), programs, 77)  # type: ignore[arg-type]
        turned = first.turned(phase)
        assert (turned.sampling, turned.blocks) == (anew.sampling, anew.blocks)
        assert turned.parameters(5000, 9).words.tolist() == anew.parameters(5000, 9).words.tolist()
        assert turned.alike is first.alike
    used = first.parameters(1, 2)
    first.over(used)
    again = first.turned(4).parameters(5000, 9)
    assert again is used  # and has nothing of the launch before
    assert again.words.tolist() == Ready(
        Memory(), Places(layout), Sampling(Every(7, 4), loops), programs, 77  # type: ignore[arg-type]
    ).parameters(5000, 9).words.tolist()  # fmt: skip


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


# -- launches that record no iterations ----------------------------------------------------------------------------


def lightening(hides=True, loop=True):
    work = Work(kernel_of(hides_records=hides), (4,))  # type: ignore[arg-type]
    layout = allocate([Stamp(0), Body(0, 4, (Stamp(1),)), Stamp(2)] if loop else [Stamp(0), Stamp(1)])
    work.compiled[PROBED] = Compiled(places=Places(layout))
    return work


def calibrating(work, rounds=40):
    """The doses of launches that are neither plain nor recorded as usual, in order."""
    found = []
    for _ in range(1 + 6 * rounds):
        dose = work.next_dose(alternate=True)
        if dose != PLAIN:
            work.began(dose)
        found += [] if dose in (PLAIN, PROBED) else [dose]
    return found


def test_launches_without_iterations_come_in_turns_with_dosed_ones():
    assert calibrating(lightening()) == [3, LIGHT] * 4 + [LIGHT] * 4


@pytest.mark.parametrize(("hides", "loop"), [(False, True), (True, False)])
def test_where_nothing_is_hidden_or_nothing_is_in_loops_there_are_none(hides, loop):
    assert calibrating(lightening(hides, loop)) == [3] * 4


def test_a_work_of_which_only_costs_were_learnt_begins_still():
    work = lightening()
    assert work.begins
    for dose in (LIGHT, 3):
        work.began(dose)
        assert work.begins
    work.began(PROBED)
    assert not work.begins
    assert [records(dose) for dose in (PLAIN, PROBED, 3, LIGHT, LEFT_OUT)] == [False, True, True, True, False]


@pytest.mark.parametrize(("blocks", "stride"), [(40, 1), (10, 4), (0, 40)])
def test_launches_without_iterations_record_all_programs_there_is_room_for(blocks, stride):
    work = lightening()
    work.kernel.target.memory = SimpleNamespace()
    ready = work.light(work.compiled[PROBED].places, 40, 0, blocks)
    assert (ready.sampling.programs.stride, ready.sampling.programs.phase) == (stride, 0)
    assert ready.sampling.loop(0).selected(1000) == 0
