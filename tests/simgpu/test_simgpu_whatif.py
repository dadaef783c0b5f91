"""What would be faster on a simulated GPU, by running it: exact, and the same in every run."""

from types import SimpleNamespace

import numpy as np
import pytest
import triton
import triton.language as tl
from examples import late_arrive

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.session.advising import HELPS, advise
from tileprobe.session.evidence import Evidence, Fact, evidence_of
from tileprobe.session.experiments import experiments
from tileprobe.session.relaunching import relaunching
from tileprobe.session.scaling import simulate
from tileprobe.targets.catalog import find
from tileprobe.targets.simgpu.derived import NAMES, faster
from tileprobe.targets.simgpu.machine import machine
from tileprobe.targets.simgpu.timing.chip import all_of, firsts_of


@triton.jit
def stream(x, out, n, BLOCK: tl.constexpr):
    """Memory, and nothing else."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def chase(x, out, n):
    at = 0
    for _ in range(n):
        at = tl.load(x + at)  # each needs the one before
    tl.store(out, at)


@triton.jit
def adds(x):
    tl.atomic_add(x, 1)


@triton.jit
def hidden(x, out, n):
    i = tl.arange(0, 32)
    far = tl.load(x + i)  # from DRAM, and awaited behind the sum
    total = i * 3
    total = total * total + 7
    total = (total ^ i) * 5  # while the load is under way
    tl.store(out + i, total + far)


def asked(launch, question, on="sim:a100"):
    found = []
    with tileprobe.use(on, timed=True, check=False):
        target = find(on)[0]
        with relaunching(lambda one: found.append(question(one, target))):
            launch()
    (answer,) = found
    return answer


def quiet(_):
    pass


def run_stream(n=1 << 16):
    x, out = tileprobe.array(np.ones(n, np.float32)), tileprobe.array(np.zeros(n, np.float32))
    stream[lambda m: (triton.cdiv(n, m["BLOCK"]),)](x, out, n, BLOCK=512)
    np.testing.assert_array_equal(out.numpy(), 2)


def run_chase(count=60):
    x, out = tileprobe.array(np.zeros(64, np.int32)), tileprobe.array(np.full(1, 9, np.int32))
    chase[(1,)](x, out, count, num_warps=1)
    assert out.numpy()[0] == 0


def run_hidden():
    x, out = tileprobe.array(np.zeros(32, np.int32)), tileprobe.array(np.zeros(32, np.int32))
    hidden[(1,)](x, out, 1, num_warps=1)


def test_a_machine_that_is_faster_in_one_thing():
    base = machine("a100")
    for what in NAMES:
        assert faster(base, what, 1.0) == base
        assert faster(base, what, 2.0) != base or what.startswith("bulk")  # an A100 has none
    assert faster(base, "DRAM bandwidth", 3).timing.dram_bytes_second == 3 * base.timing.dram_bytes_second
    assert faster(base, "special functions", 2).timing.xu_interval == 4
    assert faster(base, "L1 latency", 2).timing.latency_l1 == round(34 / 2)
    assert faster(base, "multiprocessors", 0.5).multiprocessors == 54
    beyond = base.timing.latency_dram - base.timing.latency_l2
    assert faster(base, "DRAM latency", 2).timing.latency_dram == base.timing.latency_l2 + round(beyond / 2)
    with pytest.raises(TileProbeError, match="it has DRAM bandwidth"):
        faster(base, "luck", 2)
    with pytest.raises(TileProbeError, match="not 0 times"):
        faster(base, "launching", 0)


def test_a_chain_of_loads_gains_what_its_latency_is():
    found = asked(run_chase, lambda one, target: simulate(one, target, "", 2.0, quiet))
    again = asked(run_chase, lambda one, target: simulate(one, target, "", 2.0, quiet))
    assert found == again
    gains = {row.what: row for row in found.scaled}
    saved = (found.took_ns - gains["L1 latency"].ns) * machine("a100").clock_mhz / 1e3
    assert saved == pytest.approx(59 * (34 - 17), rel=0.1)  # all but the first, which is not in L1
    assert gains["DRAM bandwidth"].gain == pytest.approx(0, abs=0.01) and gains["tensor cores"].gain == 0
    launch = (found.took_ns - gains["launching"].ns) * machine("a100").clock_mhz / 1e3
    assert launch == pytest.approx(machine("a100").timing.launch_cycles / 2, abs=1)
    slopes = {row.line.rpartition(":")[2]: row.slope for row in found.lines}
    loads = str(chase.starting_line_number + 4)
    assert slopes[loads] == pytest.approx(1.0, abs=0.02)  # exposed


def test_work_beside_a_load_is_hidden():
    found = asked(run_hidden, lambda one, target: simulate(one, target, "", 2.0, quiet))
    slopes = {int(row.line.rpartition(":")[2]): row.slope for row in found.lines}
    first = hidden.starting_line_number
    beside = [slope for line, slope in slopes.items() if first + 4 <= line <= first + 6]
    assert beside and max(beside) == pytest.approx(0.0, abs=0.02)
    assert slopes[first + 3] > 0.85  # where the load is issued


def test_asking_changes_neither_the_machine_nor_the_memory():
    n = 256
    x, out = tileprobe.array(np.ones(n, np.float32)), tileprobe.array(np.full(n, 5, np.float32))
    with tileprobe.use("sim:a100", timed=True, check=False) as _:
        from triton.runtime import driver

        before = driver.active.machine, driver.active.chip

        def question(one, target):
            simulate(one, target, "DRAM", 2.0, quiet)
            one.restore()
            assert (out.numpy() == 5).all()

        with relaunching(lambda one: question(one, find("sim:a100")[0])):
            stream[(1,)](x, out, n, BLOCK=256)
        assert (driver.active.machine, driver.active.chip) == before
    assert (out.numpy() == 2).all()


def test_advice_on_a_simulated_gpu_is_exact_and_right():
    found = asked(run_stream, lambda one, target: advise(one, target, 60.0, quiet))
    again = {str(row.changes): row for row in found.outcomes}
    assert {"{'num_warps': 8}", "{'num_warps': 2}", "{'BLOCK': 256}", "{'BLOCK': 1024}"} <= set(again)
    for row in found.outcomes:
        assert row.verdict in ("helps", "does not help") and row.error == 0 and row.because
        assert row.gain == pytest.approx(1 - row.took_ns / found.took_ns)
        assert (row.verdict == "helps") == (row.gain > 0.005)
    assert {"{'order of programs': 'reversed'}"} <= set(again)
    helped = [row.verdict == HELPS for row in found.outcomes]
    assert helped == sorted(helped, reverse=True)


def test_what_computes_something_else_is_never_advised():
    n = 1024
    x, out = tileprobe.array(np.ones(n, np.float32)), tileprobe.array(np.zeros(n, np.float32))

    def launch():
        stream[(2,)](x, out, n, BLOCK=512)  # a fixed grid: smaller blocks leave half of it out

    found = asked(launch, lambda one, target: advise(one, target, 60.0, quiet))
    (smaller,) = [row for row in found.outcomes if row.changes == {"BLOCK": 256}]
    assert smaller.verdict == "changes results" and "out differs" in smaller.why
    assert (out.numpy() == 2).all()


def test_experiments_follow_from_the_constants():
    seen = []
    with tileprobe.use("cpu"), relaunching(seen.append):
        run_stream(1024)
    (one,) = seen
    on_cpu = [each.changes for each in experiments(one, False, Evidence())]
    assert on_cpu == [{"BLOCK": 256}, {"BLOCK": 1024}, {"order of programs": "reversed"}]
    fact = Fact("waits", 0.4, None, "critical-path", "load @ 3", "k.py:3", "it waits")
    on_gpu = experiments(one, True, Evidence({"waits": fact}))
    assert (
        on_gpu[0].changes == {"num_stages": 4} and on_gpu[0].because == "it waits" and on_gpu[0].fact == fact
    )
    assert {"num_warps": 8} in [each.changes for each in on_gpu]
    talks = experiments(one, False, Evidence(talks=True))
    assert [each.changes for each in talks] == [{"BLOCK": 256}, {"BLOCK": 1024}]


@triton.jit
def rounds(x, out, n):
    i = tl.arange(0, 32)
    total = tl.load(x + i)
    for _ in range(n):
        total = total * 3 + (total >> 2)
        total = total ^ (total << 5)
    tl.store(out + i, total)


def run_rounds(count=40):
    x, out = tileprobe.array(np.ones(32, np.int32)), tileprobe.array(np.zeros(32, np.int32))
    rounds[(1,)](x, out, count, num_warps=1)
    return out.numpy()


def test_lines_that_take_no_time_bring_what_running_them_half_as_often_brings_twice():
    first = rounds.starting_line_number + 4
    words = f"{first}-{first + 2}"

    def question(one, target):
        found = simulate(one, target, words, 2.0, quiet)
        one.restore()
        with target.running_on(None, 1.0):
            half = target.measured(lambda: one.run(n=20))
        left = []
        for count in (40, 80):
            one.restore()
            with target.running_on(None, 1.0), target.without(range(first, first + 3)):
                left.append(target.measured(lambda count=count: one.run(n=count)))
        return found, 1 - half / found.took_ns, (left[1] - left[0]) / 40 * machine("a100").clock_mhz / 1e3

    found, done, each = asked(run_rounds, question)
    assert 0 < each < 1, each  # cycles of a round, which has a branch, or a part of one
    expected = run_rounds_by_hand(40)
    with tileprobe.use("sim:a100", timed=True, check=False):
        np.testing.assert_array_equal(run_rounds(), expected)  # and nothing of it is left behind
    assert not found.scaled and {int(row.line.rpartition(":")[2]) for row in found.lines} <= set(
        range(first, first + 3)
    )
    assert found.together == pytest.approx(2 * done, rel=0.1)
    assert 0 < max(row.gain for row in found.lines) <= found.together < 1
    assert found.lines == sorted(found.lines, key=lambda row: -row.gain)


def cycles(one, target, lines=None, **changes):
    one.restore()
    with target.running_on(None, 1.0), target.lines_faster(lines or {}):
        return target.measured(lambda: one.run(**changes)) * machine("a100").clock_mhz / 1e3


def test_lines_that_are_so_many_times_faster_take_that_part_of_what_they_took():
    first = rounds.starting_line_number + 4
    lines = range(first, first + 3)

    def question(one, target):
        took = {n: cycles(one, target, n=n) for n in (40, 80)}
        each = (took[80] - took[40]) / 40  # cycles of a round, without what is around them
        found = {}
        for times in (1.0, 1.5, 2.0, 4.0, 0.5):
            named = dict.fromkeys(lines, times)
            found[times] = cycles(one, target, named, n=80) - cycles(one, target, named, n=40)
        return took[80] - took[40], found, each, simulate(one, target, f"{first}-{first + 2}", 4.0, quiet)

    whole, found, each, told = asked(run_rounds, question)
    assert found[1.0] == whole and each > 4
    for times in (1.5, 2.0, 0.5):
        assert found[times] == pytest.approx(whole / times, rel=0.05)
    assert found[4.0] == pytest.approx(whole / 4, abs=40)  # a round's branch takes a cycle
    assert 0 < told.together_faster < told.together
    assert all(0 <= row.faster <= row.gain + 1e-9 for row in told.lines)
    expected = run_rounds_by_hand(40)
    np.testing.assert_array_equal(run_rounds_faster(lines), expected)  # it computes what it did


def run_rounds_faster(lines):
    seen = []

    def question(one, target):
        cycles(one, target, dict.fromkeys(lines, 3.0), n=40)
        seen.append(next(tensor.values for tensor in one.tensors() if tensor.name == "out"))
        return seen

    asked(run_rounds, question)
    return seen[0]


def test_a_load_so_many_times_faster_is_what_a_faster_cache_makes_of_it():
    line = chase.starting_line_number + 4

    def question(one, target):
        plain = cycles(one, target)
        with target.running_on("L1 latency", 3.0):
            one.restore()
            faster = target.measured(one.run) * machine("a100").clock_mhz / 1e3
        return plain, faster, cycles(one, target, {line: 3.0}), cycles(one, target, {line: 1.0})

    plain, faster, sooner, same = asked(run_chase, question)
    assert same == plain
    far = 2 / 3 * machine("a100").timing.latency_dram  # the first comes from there, and that much sooner
    others = (plain - sooner) - (
        plain - faster + far
    )  # instructions of the line that make addresses: a few a load
    assert 0 < others < 59 * 2 / 3 * 10


def test_a_line_cannot_be_no_times_faster():
    with (
        pytest.raises(TileProbeError, match="line 3 can be 2 times faster"),
        find("sim:a100")[0].lines_faster({3: 0.0}),
    ):
        pass


def run_rounds_by_hand(count):
    total = np.ones(32, np.int32)
    for _ in range(count):
        total = total * 3 + (total >> 2)
        total = total ^ (total << 5)
    return total


def test_a_line_that_takes_no_time_computes_what_it_computed():
    seen = []

    def question(one, target):
        one.restore()
        with target.running_on(None, 1.0), target.without(range(first, first + 3)):
            target.measured(one.run)
        seen.append(next(tensor.values for tensor in one.tensors() if tensor.name == "out"))
        return seen

    first = rounds.starting_line_number + 4
    asked(run_rounds, question)
    np.testing.assert_array_equal(seen[0], run_rounds_by_hand(40))


def test_what_is_hidden_brings_nothing_and_a_chain_all_it_takes():
    found = asked(run_hidden, lambda one, target: simulate(one, target, "", 2.0, quiet))
    gains = {int(row.line.rpartition(":")[2]): row.gain for row in found.lines}
    first = hidden.starting_line_number
    assert max(gain for line, gain in gains.items() if first + 4 <= line <= first + 6) == pytest.approx(
        0, abs=0.01
    )
    assert gains[first + 3] > 0.1
    chain = asked(run_chase, lambda one, target: simulate(one, target, "", 2.0, quiet))
    assert chain.together is not None
    alone = asked(
        run_chase, lambda one, target: simulate(one, target, f":{chase.starting_line_number + 4}", 2.0, quiet)
    )
    assert len(alone.lines) == 1 and alone.together is None
    loads = {int(row.line.rpartition(":")[2]): row for row in chain.lines}[chase.starting_line_number + 4]
    assert loads.gain == pytest.approx(loads.ns / chain.took_ns, abs=0.03)


def test_lines_of_other_files_with_the_same_number_are_not_meant():
    files, lines = np.array([0, 0, 0, 1, 0, 0]), np.array([5, 7, 7, 7, 7, 5])
    program = SimpleNamespace(files=files, lines=lines)
    assert all_of(program, 7).tolist() == [1, 2, 4] and firsts_of(program, 7).tolist() == [1, 4]
    assert all_of(program, 5).tolist() == firsts_of(program, 5).tolist() == [0, 5]


def test_programs_that_talk_to_each_other_keep_their_order():
    def launch():
        x = tileprobe.array(np.zeros(4, np.int32))
        adds[(4,)](x)
        assert x.numpy()[0] == 4

    assert asked(launch, lambda one, target: evidence_of(one, True).talks)
    assert not asked(run_chase, lambda one, target: evidence_of(one, True).talks)


def test_barriers_between_warps_are_waited_at_and_arrived_at_whatever_lines_take():
    """A producer and its consumer: lines that only arrive or fill a buffer still do, and nobody waits for ever."""
    found = asked(
        lambda: late_arrive.launch(False, 4),
        lambda one, target: simulate(one, target, "", 2.0, quiet),
        "sim:h100",
    )
    assert found.lines and found.together is not None and 0 < found.together < 1
    assert all(row.gain > -0.05 for row in found.lines)


def test_kernels_in_gluon_are_advised_without_edits_of_an_ir_that_they_have_not():
    found = asked(
        lambda: late_arrive.launch(False, 4), lambda one, target: advise(one, target, 60.0, quiet), "sim:h100"
    )
    names = {name for row in found.outcomes for name in row.changes}
    assert names and not any("eviction" in name or "order" in name for name in names)
    assert not any("'ttir'" in row.why for row in found.outcomes)
