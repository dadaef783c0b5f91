"""What a work makes of its launches: how much to record of the next one, with which variant, and what is kept."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from session_parts import kernel_of, recorded, work_of

from tileprobe.ir.layout import Body, Stamp, allocate
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.session.choices import Choice
from tileprobe.session.places import Places
from tileprobe.session.recorded import Ready, Recorded
from tileprobe.session.thinning import Thinning
from tileprobe.session.works import LEFT_OUT, LIGHT, PLAIN, PROBED, Compiled, Work, records

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
    work.learn(replace(run, ends=((1, 3),), dose=3))  # launches that only tell what records cost
    assert work.ends == {0: 0}
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
