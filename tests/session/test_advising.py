"""Experiments by hand: which are derived, in which order, when one helps, and what is tried together."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.session import advising
from tileprobe.session.advising import (
    CANNOT,
    HELPS,
    LEAST,
    NO_HELP,
    OTHER,
    ROUNDS,
    UNKNOWN,
    Outcome,
    Trying,
    ranked,
    together,
    verdict,
)
from tileprobe.session.evidence import ALONE, TAIL, WAITS, Evidence, Fact, _fact, cause_of
from tileprobe.session.experiments import ORDER, Experiment, experiments
from tileprobe.session.relaunching import Took, _Watch
from tileprobe.session.same_results import Tensor
from tileprobe.tools.result import Finding


class Launch:
    """A kernel whose time and results are known. `took` is what a change makes of 1000 ns, `other` what is wrong."""

    name = "k"

    def __init__(self, took=None, other=(), fails=(), noise=0.0, constants=None, options=None, grid=(8,)):
        self.took, self.other, self.fails, self.noise = took or {}, other, fails, noise
        self.constants, self.options, self.programs = constants or {}, options or {}, grid
        self.runs, self.last, self.fresh = [], None, True
        self.rng = np.random.default_rng(0)

    def restore(self):
        self.fresh = True

    def run(self, mode=None, edit="", check_bounds=False, **changes):
        assert self.fresh, "memory was not put back before a launch"
        self.fresh = False
        key = edit or tuple(sorted(changes.items()))
        self.runs.append((key, check_bounds))
        self.last = key
        if key in self.fails:
            raise TileProbeError("it does not\nfit")
        ns = self.took.get(key, 1000.0)
        self.ns = ns(len(self.runs)) if callable(ns) else ns * (1 + self.noise * self.rng.normal())

    def tensors(self):
        return [Tensor("out", np.full(4, 2.0 if self.last in self.other else 1.0, np.float32), 32)]


class Exact:
    """A simulated machine: time has no noise, and every run begins with empty caches."""

    def __init__(self):
        self.scales, self.cold = (), 0

    def measured(self, run):
        run()
        return self.launch.ns

    def running_on(self, what, times):
        assert what is None and times == 1.0
        self.cold += 1
        return __import__("contextlib").nullcontext()


class Real:
    def measured(self, run):
        run()
        return self.launch.ns


def trying(launch, target=None):
    target = target or Exact()
    target.launch = launch
    return Trying(launch, target)


def changed(**changes):
    return Experiment(changes, "why")


def test_a_verdict():
    assert verdict(0.1, 0.0) == HELPS and verdict(-0.1, 0.0) == NO_HELP and verdict(0.0, 0.0) == NO_HELP
    assert verdict(LEAST, 0.0) == NO_HELP and verdict(LEAST + 1e-6, 0.0) == HELPS  # too small to be advice
    assert verdict(0.1, 0.2) == UNKNOWN and verdict(-0.1, 0.2) == UNKNOWN  # the noise is larger
    assert verdict(0.1, 0.097) == NO_HELP and verdict(0.1, 0.09) == HELPS  # less the error it is too small
    assert verdict(-0.3, 0.2) == NO_HELP
    assert verdict(0.002, 0.004) == NO_HELP  # neither large nor unsure
    assert verdict(0.5, None) == UNKNOWN


def test_on_a_machine_without_noise_each_is_run_once():
    launch = Launch({(("B", 2),): 800.0, (("B", 4),): 1100.0})
    target = Exact()
    one = trying(launch, target)
    assert one.took_ns == 1000.0
    better, worse = one.outcome(changed(B=2), 1.0), one.outcome(changed(B=4), 1.0)
    assert (better.verdict, better.took_ns, better.gain, better.error) == (
        HELPS,
        800.0,
        pytest.approx(0.2),
        0.0,
    )
    assert (worse.verdict, worse.gain) == (NO_HELP, pytest.approx(-0.1))
    assert [key for key, _ in launch.runs] == [(), (("B", 2),), (("B", 4),)] and target.cold == 3
    assert not any(bounds for _, bounds in launch.runs)


def test_what_computes_something_else_has_no_gain():
    one = trying(Launch({(("B", 2),): 100.0}, other=[(("B", 2),)]))
    found = one.outcome(changed(B=2), 1.0)
    assert (
        found.verdict == OTHER
        and found.gain is None
        and "out differs" in found.why
        and found.took_ns == 100.0
    )


def test_what_cannot_run_says_why():
    found = trying(Launch(fails=[(("B", 2),)])).outcome(changed(B=2), 1.0)
    assert (found.verdict, found.why, found.gain, found.took_ns) == (CANNOT, "it does not\nfit", None, None)


def test_with_noise_both_take_turns_and_bounds_are_looked_at_first():
    launch = Launch({(("B", 2),): 1000.0})
    one = trying(launch, Real())
    found = one.outcome(changed(B=2), 0.0)
    assert found.verdict == NO_HELP and found.error == 0.0 and found.gain == 0.0
    keys = [key for key, _ in launch.runs]
    assert launch.runs[1] == ((("B", 2),), True) and sum(bounds for _, bounds in launch.runs) == 1
    turns = keys[3:]  # as it is; looked at; timed once
    assert len(turns) == 2 * ROUNDS
    pairs = [tuple(turns[n : n + 2]) for n in range(0, len(turns), 2)]
    assert {frozenset(pair) for pair in pairs} == {frozenset({(), (("B", 2),)})}
    assert pairs[0] != pairs[1] and pairs[0] == pairs[2]  # which is first changes


def test_noise_is_not_advice():
    """Nothing is won, whatever the noise is like: of many experiments few are told to help."""
    helped = 0
    for seed in range(60):
        launch = Launch({(("B", 2),): 1000.0}, noise=0.05)
        launch.rng = np.random.default_rng(seed)
        found = trying(launch, Real()).outcome(changed(B=2), 0.0)
        helped += found.verdict == HELPS
    assert helped == 0


def test_what_seems_to_help_is_tried_again_and_the_second_time_counts():
    def once(runs):  # quicker in the first turns alone
        return 700.0 if runs <= 3 + 2 * ROUNDS else 1000.0

    launch = Launch({(("B", 2),): once})
    found = trying(launch, Real()).outcome(changed(B=2), 0.0)
    assert found.verdict == NO_HELP and found.gain == 0.0
    assert len(launch.runs) == 3 + 4 * ROUNDS
    always = trying(Launch({(("B", 2),): 700.0}), Real()).outcome(changed(B=2), 0.0)
    assert always.verdict == HELPS and always.gain == pytest.approx(0.3)


def test_the_gain_is_the_share_that_is_gone():
    found = trying(Launch({(("B", 2),): 250.0}), Real()).outcome(changed(B=2), 0.0)
    assert found.gain == pytest.approx(0.75)
    slower = trying(Launch({(("B", 2),): 2000.0}), Real()).outcome(changed(B=2), 0.0)
    assert slower.gain == pytest.approx(-1.0) and slower.verdict == NO_HELP


def test_one_turn_in_which_something_else_ran_changes_nothing():
    launch = Launch({(("B", 2),): lambda runs: 1e6 if runs == 8 else 700.0})
    found = trying(launch, Real())._in_turns(changed(B=2), 0.0)
    assert found[0] == pytest.approx(0.3)


def outcome(gain, verdict_, **changes):
    return Outcome(changes, "", verdict_, 1.0, gain, 0.0)


def test_what_helps_most_comes_first_and_what_was_not_compared_last():
    rows = [
        outcome(None, CANNOT, A=1),
        outcome(-0.2, NO_HELP, A=2),
        outcome(0.1, HELPS, A=3),
        outcome(0.4, UNKNOWN, A=4),
        outcome(None, OTHER, A=5),
        outcome(0.3, HELPS, A=6),
    ]
    assert [row.changes["A"] for row in ranked(rows)] == [6, 3, 4, 2, 1, 5]


def test_the_best_of_each_name_are_tried_together():
    def pair(gain, what, *edits, **changes):
        return Experiment(changes, "", edits=edits), outcome(gain, what, **changes)

    def both(*pairs):
        return together(*map(list, zip(*pairs)))

    found = both(
        pair(0.1, HELPS, B=2), pair(0.2, HELPS, B=4), pair(0.05, HELPS, W=8), pair(0.9, UNKNOWN, S=1)
    )
    assert found.changes == {"B": 4, "W": 8} and found.edits == ()
    orders = both(
        pair(0.1, HELPS, "order-programs{order=reversed}", **{ORDER: "reversed"}),
        pair(0.3, HELPS, "order-programs{order=columns}", **{ORDER: "columns"}),
        pair(0.2, HELPS, B=4),
    )
    assert orders.changes == {ORDER: "columns", "B": 4} and orders.edits == ("order-programs{order=columns}",)
    assert orders.constants == {"B": 4}
    assert both(pair(0.1, HELPS, B=2), pair(0.2, NO_HELP, W=4)) is None  # one alone was tried
    assert together([], []) is None


FACTS = {
    WAITS: Fact(WAITS, 0.3, None, "critical-path", "load @ 2", "k.py:2", "it waits"),
    TAIL: Fact(TAIL, 0.5, 0.1, "critical-path", None, None, "a tail"),
    ALONE: Fact(ALONE, 0.2, 0.1, "overlap", None, None, "alone"),
}


def derived(gpu=False, facts=None, talks=False, **launch):
    return experiments(Launch(**launch), gpu, Evidence(facts or {}, talks=talks))


def test_constants_are_halved_and_doubled():
    assert [e.changes for e in derived(constants={"B": 64}, grid=(1,))] == [{"B": 32}, {"B": 128}]
    assert (
        derived(
            constants={"B": 48, "N": 8, "F": True, "X": 1.5, "num_warps": 32, "num_stages": 64}, grid=(1,)
        )
        == []
    )
    assert [e.changes for e in derived(constants={"B": 16}, grid=(1,))] == [{"B": 8}, {"B": 32}]
    assert derived(constants={"GROUPED": True}, grid=(1,)) == []
    groups = [e.changes["Group_M"] for e in derived(constants={"Group_M": 8}, grid=(1,))]
    assert groups == [1, 4, 16]


def test_stages_and_warps_are_those_of_gpus_and_within_bounds():
    def numbers(**options):
        return [next(iter(e.changes.items())) for e in derived(True, options=options, grid=(1,))]

    stored = ("eviction of what is stored", "first")
    assert numbers() == [("num_stages", 4), ("num_stages", 2), ("num_warps", 8), ("num_warps", 2), stored]
    assert numbers(num_stages=1, num_warps=1) == [("num_stages", 2), ("num_warps", 2), stored]
    assert numbers(num_stages=6, num_warps=16) == [("num_stages", 5), ("num_warps", 8), stored]
    assert derived(False, options={"num_warps": 4}, grid=(1,)) == []


def test_what_facts_speak_for_comes_first_with_its_numbers():
    found = derived(True, FACTS, constants={"B": 64})
    *names, last = [next(iter(e.changes)) for e in found]
    assert names == ["B", "B", ORDER, "num_stages", "num_stages", "num_warps", "num_warps"]
    assert last == "eviction of what is stored" and found[-1].fact is None
    assert found[0].fact == FACTS[TAIL] and found[0].because == "a tail" and found[-2].fact == FACTS[ALONE]
    without = derived(True, constants={"B": 64})
    assert all(e.fact is None and e.because for e in without) and len(without) == len(found)


def test_orders_of_programs():
    def orders(**launch):
        return [e.changes[ORDER] for e in derived(**launch) if ORDER in e.changes]

    assert orders(grid=(8,)) == orders(grid=(8, 1)) == orders(grid=(1, 8)) == ["reversed"]
    assert orders(grid=(4, 4)) == orders(grid=(4, 4, 2)) == ["reversed", "columns", "grouped by 8"]
    assert orders(grid=(4, 4), constants={"GROUP": 8}) == ["reversed"]  # the kernel has groups of its own
    assert orders(grid=(1, 1)) == orders(grid=(8,), talks=True) == []
    for each in derived(grid=(4, 4)):
        assert each.how and each.edits[0].startswith("order-programs{") and each.constants == {}


def test_hints_are_for_loads_that_are_known_on_gpus():
    def hints(gpu, *loads):
        found = experiments(Launch(grid=(1,)), gpu, Evidence({}, loads=loads))
        return [e for e in found if any("eviction" in name for name in e.changes)]

    assert hints(False, 7, 8) == []
    assert [e.changes for e in hints(True)] == [{"eviction of what is stored": "first"}]
    several = hints(True, 7, 8)
    assert [next(iter(e.changes.items())) for e in several] == [
        ("eviction of what line 7 reads", "last"), ("eviction of what line 7 reads", "first"),
        ("eviction of what line 8 reads", "last"), ("eviction of what line 8 reads", "first"),
        ("eviction of what is stored", "first"),
    ]  # fmt: skip
    assert several[0].edits == ("hint-memory{what=load line=7 evicted=last}",) and several[0].constants == {}
    assert "line 8" in several[3].how and "evict_first" in several[3].how


def test_the_whole_of_it(monkeypatch):
    """Derived, tried, tried together, ranked, with what there was no time for."""
    launch = Launch(
        {(("A", 32),): 800.0, (("A", 128),): 1200.0, (("B", 32),): 900.0, (("A", 32), ("B", 32)): 700.0},
        other=[(("B", 128),)], constants={"A": 64, "B": 64}, grid=(1,),
    )  # fmt: skip
    monkeypatch.setattr(advising, "evidence_of", lambda one, exact: Evidence({}, [{"tool": "t"}]))
    target = Exact()
    target.launch = launch
    found = advising.advise(launch, target, 100.0, lambda _: None)
    assert [(o.changes, o.verdict) for o in found.outcomes if set(o.changes) <= {"A", "B"}] == [
        ({"A": 32, "B": 32}, HELPS), ({"A": 32}, HELPS), ({"B": 32}, HELPS), ({"A": 128}, NO_HELP), ({"B": 128}, OTHER),
    ]  # fmt: skip
    assert found.outcomes[0].gain == pytest.approx(0.3) and found.took_ns == 1000.0 and not found.untried
    assert found.edits == [{"tool": "t"}]
    none = advising.advise(launch, target, 1e-9, lambda _: None)
    assert not none.outcomes and {"A": 32} in [each["changes"] for each in none.untried]


def test_a_finding_has_a_cause_that_a_program_can_read():
    assert cause_of({"cause": "stride", "held_up": {"share": 1}}) == "stride"
    assert cause_of({"held_up": {"share": 0.4}, "region": "load"}) == WAITS
    assert cause_of({"held_up": None, "region": "load"}) == "path"
    assert cause_of({"tail": {"share": 0.2}}) == TAIL and cause_of({"exposed": "load"}) == ALONE
    assert cause_of({"still": 0.3}) == "standing still" and cause_of({"limit": "latency"}) == "limit"
    assert cause_of({"worst_ns": 3.0}) == "slow program" and cause_of({}) == "other"


def finding(**data):
    return Finding("a sentence", data=data)


def test_facts_are_what_is_large_enough_to_be_worth_a_try():
    where = {"tool": "critical-path", "region": "load @ 2", "line": "k.py:2"}
    held = {"share": 0.2, "name": "dot @ 3", "whom": "load @ 2"}
    fact = _fact(finding(held_up=held, region="load @ 2"), where)
    assert (fact.cause, fact.share, fact.tool, fact.line) == (WAITS, 0.2, "critical-path", "k.py:2")
    assert fact.text == "20 % of the launch is waited at dot @ 3 for load @ 2"
    tail = _fact(finding(tail={"share": 0.3, "error": 0.05}), where)
    assert (tail.cause, tail.share, tail.error) == (TAIL, 0.3, 0.05)
    alone = _fact(finding(exposed="load", share=0.4, error=0.1), where)
    assert (alone.cause, alone.share, alone.error) == (ALONE, 0.4, 0.1)
    small = ({"held_up": {**held, "share": 0.1}}, {"tail": {"share": 0.1}}, {"exposed": "load", "share": 0.1})
    assert [_fact(finding(**data), where) for data in (*small, {"tail": 0.4}, {})] == [None] * 5


def test_time_that_a_thread_was_kept_waiting_is_time_in_which_its_core_was_not_another_s():
    watch = _Watch()
    watch.ended(taken_ns=300, duration_ns=1000, ran_ns=1700)
    assert Took(watch.duration_ns, watch.busy_ns).cores == 2.0
    watch.ended(duration_ns=1000)
    assert watch.busy_ns is None and Took(1000.0, None).cores == 1.0 and Took(1000.0, 10.0).cores == 1.0


def test_a_target_without_times_says_so():
    target = SimpleNamespace(measured=lambda run: None, scales=())
    with pytest.raises(TileProbeError, match="does not say how long"):
        Trying(Launch(), target)
    assert math.isclose(LEAST, 0.005)
