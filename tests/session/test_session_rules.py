"""Sessions with real launches: grids, company, what they take for themselves, what they keep when they are over."""

import os
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import session_kernels as K
import triton
import triton.language as tl
from session_parts import kernel_of, recorded, work_of

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.ir.machine import Clock
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.session import decoding, hooks, script
from tileprobe.session.decoding import _kernel_row, _unkept
from tileprobe.session.flights import Looking
from tileprobe.session.manager import Manager, manager
from tileprobe.session.recorded import Recorded, Watch
from tileprobe.session.session import Session, check_records
from tileprobe.session.waiting import Waiting
from tileprobe.session.works import LEFT_OUT, PLAIN, PROBED
from tileprobe.tools.plan import Plan
from tileprobe.trace.replay import Calibration

ALL = {"alternate": False, "programs": "all"}


@triton.jit
def nothing_kernel(n):
    pass


@triton.jit
def counted_kernel(x, out, counts, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.load(counts)):
        total += tl.exp(tl.load(x + at) * 0.001) * i
    tl.store(out + at, total)


def test_all_three_sides_of_a_grid_count():
    x, out = K.arrays(2)
    with tileprobe.profile(**ALL) as session:
        K.scale_kernel[(2, 4, 3)](x, out, 2.0, BLOCK=K.BLOCK)
    (launch,) = session.trace.launches
    assert launch.grid == (2, 4, 3)
    assert session.trace.intervals["program"].n_unique() == 24
    assert (session.trace.intervals["weight"] == 1).all()


def test_a_session_that_does_not_look_leaves_the_launch_to_others():
    with tileprobe.profile("other*", **ALL) as outer, tileprobe.profile("scale*", **ALL) as inner:
        K.launch(K.scale_kernel, 2, 2.0)
        outer.patterns = ("*",)  # so that leaving it finds nothing amiss
    assert [launch.probed for launch in inner.trace.launches] == [True]
    assert outer.trace.launches == []


def test_launches_of_several_kernels_have_numbers_of_their_own():
    with tileprobe.profile(**ALL) as session:
        for n in range(3):
            K.launch(K.scale_kernel, 2, 2.0)
            K.launch(K.loop_kernel, 2, 2 + n)
    assert [launch.id for launch in session.trace.launches] == list(range(6))
    frame = session.trace.intervals.group_by("launch").len()
    assert sorted(frame["launch"].to_list()) == list(range(6))


def test_a_kernel_without_stages_is_no_fault_where_no_lines_were_asked_for():
    with tileprobe.profile(**ALL) as session:
        nothing_kernel[(2,)](0)
    assert not session.trace.meta.get("notes")
    with tileprobe.profile(plan=Plan(loops=True, lines=("1-3",)), **ALL) as session:
        nothing_kernel[(2,)](0)
    assert any("no loop and no stage in the lines 1-3" in note for note in session.trace.meta["notes"])


def test_what_the_system_took_is_kept_in_nanoseconds(monkeypatch):
    decode = decoding.decode

    def struck(*words, **more):
        found = decode(*words, **more)
        found.columns["taken"] = np.full(len(found.columns["taken"]), 40.0)
        return found

    monkeypatch.setattr(decoding, "decode", struck)
    with tileprobe.profile(**ALL) as session:
        K.launch(K.scale_kernel, 2, 2.0)
    trace = session.trace
    assert trace.intervals["taken_ns"].to_numpy() == pytest.approx(40e9 / trace.kernels[0].clock.hz)


def test_a_loop_that_grows_is_thinned_though_its_launches_look_alike():
    """Three launches of 4 iterations, then 600 in the same call: one launch is surprised, the next ones are not."""
    x, out = K.arrays(2)
    counts = np.full(1, 4, np.int32)
    with tileprobe.profile(**ALL) as session:
        for turn in range(7):
            counts[0] = 4 if turn < 3 else 600
            counted_kernel[(2,)](x, out, tileprobe.array(counts), BLOCK=K.BLOCK)
    assert [bool(launch.losses.lost) for launch in session.trace.launches] == [False] * 3 + [True] + [
        False
    ] * 3


def test_a_command_is_the_first_word():
    with pytest.raises(TileProbeError, match="no-such-command"):
        script.resolve(["no-such-command", "pytest"])


def test_a_script_finds_what_lies_beside_it_first(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", ["first", "last"])
    (tmp_path / "s.py").write_text("import sys\nsys.seen = list(sys.path)\n")
    monkeypatch.setattr(sys, "seen", [], raising=False)
    script._script(tmp_path / "s.py")()
    assert sys.seen == [str(tmp_path), "first", "last"]  # type: ignore[attr-defined]


def test_launches_that_cannot_be_shown_are_counted():
    session = Session(["a*"])
    for name in ("a_kernel", "a_kernel", "b_kernel"):
        session.passed_by(name, "no launcher")
    assert session.seen == {"a_kernel": 2, "b_kernel": 1}
    assert session.problems == {"a_kernel, unseen": "a_kernel: no launcher"}


def test_the_traceback_of_a_fault_in_a_kernel_ends_where_the_program_launched_it():
    program = {"__name__": "__main__"}
    exec("def go(call): call()", program)
    target = {"__name__": "tileprobe.targets.cpu.launch"}
    exec("def launch(): raise ValueError", target)
    try:
        program["go"](target["launch"])
    except ValueError as error:
        frame = error.__traceback__
    script._cut(frame)
    names = []
    while frame is not None:
        names.append(frame.tb_frame.f_code.co_name)
        frame = frame.tb_next
    assert names[-1] == "go"
    script._cut(None)


def test_a_session_that_is_over_has_one_trace():
    with tileprobe.profile(**ALL) as session:
        K.launch(K.scale_kernel, 2, 2.0)
        first = session.trace
        K.launch(K.scale_kernel, 2, 2.0)
        assert len(session.trace.launches) == 2
        assert session.trace is not first
    assert session.trace is session.trace
    assert manager.sessions == []
    assert manager.variants == {}
    with pytest.raises(TileProbeError, match="a session is used once"), session:
        pass


def test_a_trace_says_how_it_came_to_be():
    with tileprobe.profile("scale*", skip=1, take=2, seed=5, **ALL) as session:
        for _ in range(4):
            K.launch(K.scale_kernel, 2, 2.0)
        K.launch(K.loop_kernel, 2, 3)
    meta = session.trace.meta
    assert meta["launches"] == {"skip": 1, "take": 2, "alternate": False}
    assert (meta["kernels"], meta["seed"], meta["sampling"]) == (
        ["scale*"],
        5,
        {"programs": "all", "iterations": "all"},
    )
    assert meta["kernels_seen"] == {"scale_kernel": 4, "loop_kernel": 1}
    assert (meta["command"], meta["problems"]) == (sys.argv, {})
    assert len(session.trace.launches) == 2
    assert abs(meta["origin_unix_ns"] - time.time_ns()) < 3600 * 1e9


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernels": []}, "a session needs kernel patterns"),
        ({"kernels": [3]}, "a session needs kernel patterns"),
        ({"tools": []}, "a session needs a tool or a plan"),
        ({"plan": "x"}, "the plan of a session is a Plan, not 'x'"),
        (
            {"records": {"size": 1}},
            "records have no 'size'; they have granularity, buffer, strategy, clock_bits",
        ),
        ({"records": {"buffer": "x"}}, "the buffer of records is one of private, shared, global, not 'x'"),
        ({"records": {"clock_bits": "x"}}, "64 bits or up to 32, not clock_bits=x"),
        ({"records": {"strategy": "flush", "buffer": "global"}}, "records with buffer=global have no window"),
    ],
)
def test_what_a_session_cannot_be_made_of(options, text):
    with pytest.raises(TileProbeError, match=text):
        Session(**options)


def test_what_a_session_is_made_of():
    assert check_records({"clock_bits": 32, "strategy": "exact"}) == {"clock_bits": 32, "strategy": "exact"}
    assert check_records({"strategy": "flush"}) == {"strategy": "flush", "buffer": "shared"}
    plan = Plan(loops=True, kinds=("dot",))
    assert Session(tools=[], plan=plan).plan is plan
    one, same, other = Session(), Session(), Session(capacity=8)
    assert one.made_with == same.made_with != other.made_with
    assert one.plan.min_cost == 1024.0
    assert Session(programs="all").choices[3] is None
    assert Session(max_overhead=0.5).choices[3] == 0.5


def test_draws_without_room_are_counted():
    session, work = Session(), work_of()
    assert session.draw(work) == PROBED
    session.budget.used = session.budget.total
    assert (session.draw(work_of()), work.unrecorded) == (LEFT_OUT, 0)
    crowded = work_of()
    assert session.draw(crowded) == LEFT_OUT
    assert crowded.unrecorded == 1
    plain = work_of(count=1)
    plain._round = [PLAIN]
    assert session.draw(plain) == LEFT_OUT
    assert plain.unrecorded == 0  # it would not have been recorded anyway


def test_room_is_made_when_it_is_used_up_and_not_before():
    session, work = Session(), work_of()
    session._kernels["k"] = SimpleNamespace(works={"w": work})
    session.budget.shared = 3 * recorded().nbytes
    for kept in (1, 2, 2, 2, 2):  # the third is one too many: a half goes
        session.add(work, None, recorded())
        assert len(work.runs) == kept


def test_a_launch_that_was_recorded_for_another_is_borrowed_once():
    session, work = Session(), work_of()
    variant, first, second = SimpleNamespace(), recorded(), recorded()
    session.borrow(work, None, first)
    assert work.borrowed is None
    session.borrow(work, variant, first)
    session.borrow(work, variant, second)
    assert work.borrowed == (variant, first)


def test_the_sessions_own_time_is_measured_where_it_is_asked_for():
    seen = []
    kernel = kernel_of()
    silent = Watch(kernel, (1, 1, 1), seen.append)
    silent.start()
    silent.stop()
    asked = Watch(kernel, (1, 1, 1), seen.append, began_ns=time.perf_counter_ns() - 10**6)
    asked.start()
    before = asked.recorded.session_ns
    asked.ended(77)
    asked.stop()
    assert (seen[0].session_ns, seen[0].waited_ns) == (0, None)
    assert 10**6 <= before < seen[1].session_ns
    assert (seen[1].waited_ns, seen[1].duration_ns > 0) == (77, True)
    never = Watch(kernel, (1, 1, 1), seen.append)
    never.stop()
    assert never.recorded.duration_ns == 0  # it never began
    never.abort()
    assert seen[-1] is None


def test_who_leads_a_launch_that_several_want():
    def looking(recorded, dosed=0, dose=3):
        return Looking(None, work_of(recorded=recorded, dosed=dosed), dose)  # type: ignore[arg-type]

    one, other, third, dosed = looking(1), looking(0), looking(0), looking(2, dosed=2)
    leader = Manager()
    assert leader._leader([one, other, third]).work is third.work  # the innermost that has nothing
    assert leader._leader([one, other]).work is other.work
    first = leader._leader([dosed, one])  # several times each record is not once
    assert (first.work, first.dose) == (dosed.work, 1)
    full = [looking(1) for _ in range(2)]
    assert {id(leader._leader(full)) for _ in range(40)} == {id(item) for item in full}


def test_sessions_that_share_a_launch_learn_the_same_from_it():
    """The inner one leads. Both know afterwards that the loop ran 300 times with room for 256."""
    counts = tileprobe.array(np.full(1, 300, np.int32))
    x, out = K.arrays(1)
    with tileprobe.profile(**ALL) as outer, tileprobe.profile(**ALL) as inner:
        counted_kernel[(1,)](x, out, counts, BLOCK=K.BLOCK)
    (mine,), others = inner.works(), outer.works()
    assert [room_and_most[:2] for room_and_most in mine.trips.values()] == [(256, 300)]
    assert [work.trips for work in others] == [mine.trips]


def test_a_duration_that_a_driver_got_wrong_is_not_below_nothing():
    watch = Watch(kernel_of(), (1, 1, 1), lambda run: None)
    watch.ended(duration_ns=-5)
    assert watch.recorded.duration_ns == 0


@pytest.mark.parametrize(("target", "launcher"), [("auto", "0"), ("cpu", None)])
def test_where_gpus_may_be_about_inductor_launches_by_triton(target, launcher, monkeypatch):
    monkeypatch.setattr(hooks, "default_target", lambda: target)
    monkeypatch.delitem(sys.modules, "torch._inductor.config", raising=False)
    monkeypatch.delenv(hooks._STATIC, raising=False)
    hooks.install(lambda *launch: None)
    try:
        assert os.environ.get(hooks._STATIC) == launcher
    finally:
        hooks.remove()
    assert hooks._STATIC not in os.environ


def test_python_by_itself_is_no_program():
    with pytest.raises(TileProbeError, match="the command python3 is no Python program"):
        script.resolve(["python3"])


def test_a_launch_that_says_nothing_of_its_end_ends_when_it_stops():
    watch = Watch(kernel_of(), (1, 1, 1), lambda run: None)
    watch.start()
    time.sleep(0.002)
    watch.stop()
    assert watch.recorded.duration_ns >= 2_000_000


def test_who_comes_or_goes_makes_all_forget_what_they_do_at_once():
    """Sessions remember how a launch like one before was handled; in other company it is handled otherwise."""
    manager, forgot = Manager(), []
    manager.sessions = [SimpleNamespace(made_with=n, forget=lambda n=n: forgot.append(n)) for n in (3, 5)]  # type: ignore[list-item]
    manager._company()
    assert forgot == [3, 5] and manager.company == {3, 5} and manager.only is None


def test_autotuners_are_looked_for_where_modules_were_loaded(monkeypatch):
    wrapped = []
    for name, value in (
        ("_BENCHES", (("json", "JSONDecoder", "decode"),)),
        ("_wrapped", set()),
        ("_looked", 0),
    ):
        monkeypatch.setattr(hooks, name, value)
    monkeypatch.setattr(hooks, "_wrap", lambda kind, name: wrapped.append((kind.__name__, name)))
    hooks.watch_tuning()
    hooks.watch_tuning()
    assert wrapped == [("JSONDecoder", "decode")]
    monkeypatch.setattr(hooks, "_wrapped", set())
    hooks.watch_tuning()
    assert len(wrapped) == 1  # nothing was loaded since: not looked for again
    monkeypatch.setitem(sys.modules, "a_module_that_was_loaded", SimpleNamespace())
    hooks.watch_tuning()
    assert len(wrapped) == 2


def test_a_forked_manager_begins_anew():
    forked = Manager()
    lock = forked.lock
    forked.flights.add(object())  # type: ignore[arg-type]
    forked.leaving = 2
    forked.forked()
    assert forked.lock is not lock
    assert (forked.flights, forked.leaving) == (set(), 0)


# -- waiting ------------------------------------------------------------------------------------------------------


def waiting(shares, work="w", duration=1_000_000):
    runs = [recorded(duration=duration, work=work) for _ in shares]
    for run, share in zip(runs, shares):
        run.waited_ns = None if share is None else round(share * duration)
    return runs


def learnt(runs, of):
    """Which launches say what is usual for one, and whether they were left alone."""
    asked, number = [], {id(run): n for n, run in enumerate(runs)}

    def read(chosen):
        asked.append([number[id(run)] for run in chosen])
        raise StopIteration

    known = Waiting(runs, 2e9, read)
    with pytest.raises(StopIteration):
        known.of([of])
    return asked[0]


def test_what_is_usual_is_learnt_from_those_that_waited_least():
    runs = waiting([0.5, 0.3, 0.0, 0.1, 0.4])
    assert learnt(runs, runs[0]) == [2, 3, 1, 4, 0]
    many = waiting([0.5] * 20 + [0.1])
    assert learnt(many, many[0]) == [20, *range(15)]  # sixteen of them
    still = waiting([0.5, 0.0, 0.002, 0.001, 0.0, 0.0021])
    assert learnt(still, still[0]) == [1, 4, 3, 2]  # four that were left alone are enough
    unknown = waiting([0.5, None, 0.3])  # nobody knows how long the second waited
    assert learnt(unknown, unknown[0]) == [2, 0]


def test_a_work_with_few_launches_learns_from_all_of_the_kernel():
    few, others = waiting([0.5] * 3, "few"), waiting([0.1] * 4, "other")
    assert learnt([*few, *others], few[0]) == [3, 4, 5, 6, 0, 1, 2]
    four = waiting([0.5] * 4, "four")
    assert learnt([*four, *others], four[0]) == [0, 1, 2, 3]


def test_where_nobody_waited_nothing_is_looked_for():
    for shares in ([0.0] * 4, [None] * 4, [0.0199] * 4):
        runs = waiting(shares)
        assert Waiting(runs, 2e9, lambda _: []).of(runs) is None
    runs = waiting([0.02, None])
    assert Waiting(runs, 2e9, lambda _: []).any


# -- what is said of loops that nobody counts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "every", "others"),
    [
        (Every(), Every(), 0),
        (Every(4), Every(4, 1), 0),
        (Every(count=3), Every(count=3), 0),
        (Every(phase=-3), Every(phase=17), 0),
        (Every(phase=-3), Every(), 1),
        (Every(phase=-3), Every(7, 2), 1),
    ],
)
def test_iterations_that_stand_for_the_last_of_a_while_loop_are_said_to(asked, every, others):
    """Loop 0 has no end that is known before, loop 1 has one."""
    loops = (SimpleNamespace(id=0, endless=True), SimpleNamespace(id=1, endless=False))
    run = SimpleNamespace(layout=SimpleNamespace(loops=loops), sampling=Sampling(loops={-1: asked, 0: every}))
    said = f"the last iterations of a `while` loop are not known before its end: in {others} of 2 launches"
    found = _unkept([run, Recorded((1,))])  # type: ignore[list-item]
    assert [note.startswith(said) for note in found] == [True] * others


@pytest.mark.parametrize(("error", "cost"), [(5.0, 20.0), (4.9, 10.0), (0.0, 10.0)])
def test_a_cost_that_is_not_told_from_nothing_is_the_least(error, cost):
    """10 ticks that may be off by 5: then what a record takes at the least, 20, is as good a guess."""
    variant = SimpleNamespace(layout=None, ir={}, regions=())
    seen = SimpleNamespace(kernel=kernel_of(), variant=variant)
    row = _kernel_row(3, seen, Calibration(10.0, error, {}, (1, 3)), Clock(2e9))  # type: ignore[arg-type]
    assert row.clock == Clock(2e9)
    assert (row.id, row.calibration["cost_ticks"], row.calibration["floor_ticks"]) == (3, cost, 20.0)


@triton.jit
def nest_kernel(x, out, n, m, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        for j in range(m):
            total += tl.exp(tl.load(x + at) * 0.001) * (i + j)
    tl.store(out + at, total)


def test_loops_within_loops_that_got_less_room_than_was_asked_for_say_so():
    x, out = K.arrays(1)
    for trips, said in ((300, True), (2, False)):
        with tileprobe.profile(capacity=256, **ALL) as session:
            nest_kernel[(1,)](x, out, trips, trips, BLOCK=K.BLOCK)
        notes = [note for note in session.trace.meta.get("notes", ()) if "a loop has room for" in note]
        assert bool(notes) == said
        assert all("and not for 256 (--capacity)" in note for note in notes)
