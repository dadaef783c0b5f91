"""Launches that take time: right values, the same cycles whenever they run, and costs where they should be."""

import json

import numpy as np
import pytest
import triton
import triton.language as tl
from examples.kernels import matmul, softmax
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprobe
from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.jit import borrowing
from tileprobe.targets.simgpu.engine.timed_memory import bank_passes
from tileprobe.targets.simgpu.launched import observing
from tileprobe.targets.simgpu.machine import machine
from tileprobe.targets.simgpu.timing import chip as chips

MACHINES = ("sim:a100", "sim:h100")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def chain(out, n):
    i = tl.arange(0, 32)
    y = i.to(tl.float32)
    for _ in range(n):
        for _ in tl.static_range(32):
            y = y * 1.5 + 0.25
    tl.store(out + i, y)


@triton.jit
def chase(x, out, n):
    at = 0
    for _ in range(n):
        at = tl.load(x + at)
    tl.store(out, at)


@triton.jit
def strided(x, out, STRIDE: tl.constexpr):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    tl.store(out + i, tl.load(x + i * STRIDE))


def took(machine, launch, cold=True, prepare="cold"):
    """What a launch took on the chip."""
    from triton.runtime import driver

    found = []
    with tileprobe.use(machine, timed=True, check=False):
        here = driver.active.chip
        run = here.run
        here.run = lambda *args: found.append(run(*args)) or found[-1]
        if cold:
            getattr(here, prepare)()
        launch()
        if not cold:
            launch()
    return found[-1]


def zeros(*shape, dtype=np.float32):
    return tileprobe.array(np.zeros(shape, dtype))


@pytest.mark.parametrize("machine", MACHINES)
def test_values_are_right_and_cycles_the_same_every_time(machine):
    x, y = (np.random.default_rng(n).standard_normal(3000).astype(np.float32) for n in (0, 1))
    cycles = set()
    for _ in range(2):
        given_x, given_y, out = tileprobe.array(x.copy()), tileprobe.array(y.copy()), zeros(3000)
        cycles.add(took(machine, lambda: add[(3,)](given_x, given_y, out, 3000, 1024)).cycles)  # noqa: B023
        np.testing.assert_array_equal(out.numpy(), x + y)
    assert len(cycles) == 1


def test_a_pipelined_product_is_right_and_says_what_its_warps_waited_for():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 128)).astype(np.float16) for _ in range(2))
    c = zeros(128, 128, dtype=np.float16)
    found = took(
        "sim:a100", lambda: matmul.matmul(tileprobe.array(a), tileprobe.array(b), c, tile=(64, 64, 32))
    )
    np.testing.assert_allclose(c.numpy(), a.astype(np.float32) @ b.astype(np.float32), atol=0.1, rtol=0.01)
    assert found.statistics[:, 0].sum() == found.instructions
    assert found.reasons()["long_scoreboard"] > 0  # the first copies have to come from memory
    assert found.reasons()["barrier"] > 0
    assert found.counters["dram_bytes_read"] == a.nbytes + b.nbytes


def test_rows_are_reduced_with_barriers():
    x = np.random.default_rng(0).standard_normal((8, 500)).astype(np.float32)
    out = zeros(8, 500)
    took("sim:h100", lambda: softmax.softmax(tileprobe.array(x), out))
    raised = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), raised / raised.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("machine", MACHINES)
def test_dependent_arithmetic_takes_its_latency(machine):
    out = zeros(32)
    short, long = (took(machine, lambda: chain[(1,)](out, n, num_warps=1)).cycles for n in (8, 40))  # noqa: B023
    each = (long - short) / (32 * 32)
    assert 4.0 <= each <= 5.0  # and the loop around 32 of them


@pytest.mark.parametrize(
    ("machine", "l1", "l2", "dram"), [("sim:a100", 34, 206, 565), ("sim:h100", 32, 262, 610)]
)
def test_a_load_takes_as_long_as_the_level_it_comes_from(machine, l1, l2, dram):
    def latency(elements, cold):
        stride = 32  # another line each
        order = (np.arange(elements, dtype=np.int32) + stride) % elements
        x, out = tileprobe.array(order), zeros(1, dtype=np.int32)
        few, many = (
            took(machine, lambda: chase[(1,)](x, out, n, num_warps=1), cold).cycles  # noqa: B023
            for n in (64, 192)
        )
        return (many - few) / 128

    around = 40  # the address of the next one is made of the last one's value
    assert l1 <= latency(64, True) <= l1 + around
    assert l2 <= latency(32 * 4096, False) <= l2 + around  # 512 KB: beyond L1, within the near half of L2
    assert dram <= latency(32 * 4096, True) <= dram + around + 80


def test_lines_that_are_read_in_part_cost_whole_sectors():
    x, out = zeros(128 * 16 * 8), zeros(128 * 16)
    found = [took("sim:a100", lambda: strided[(16,)](x, out, s)).counters for s in (1, 8)]  # noqa: B023
    assert found[0]["dram_bytes_read"] == 128 * 16 * 4
    assert found[1]["dram_bytes_read"] == 128 * 16 * 32
    assert found[1]["l2_sectors_missed"] == 8 * found[0]["l2_sectors_missed"]


def test_what_is_in_the_cache_need_not_be_read_again():
    x, out = zeros(128 * 16), zeros(128 * 16)
    cold = took("sim:a100", lambda: strided[(16,)](x, out, 1))
    warm = took("sim:a100", lambda: strided[(16,)](x, out, 1), cold=False)
    assert warm.counters["dram_bytes_read"] == 0
    assert warm.cycles < cold.cycles


def test_a_second_wave_takes_as_long_as_the_first():
    """Programs that need a whole multiprocessor each: one more than there are takes twice as long."""
    out = zeros(32)
    one, two = (
        took("sim:a100", lambda: chain[(n,)](out, 40, num_warps=32)).cycles  # noqa: B023
        - machine("a100").timing.launch_cycles
        for n in (216, 217)
    )
    assert two > 1.4 * one


def test_memory_is_not_faster_than_its_bandwidth():
    n = 1 << 19
    x, y, out = zeros(n), zeros(n), zeros(n)
    found = took("sim:a100", lambda: add[(n // 1024,)](x, y, out, n, 1024))
    timing = machine("a100").timing
    least = 8 * n / timing.dram_bytes_second * 1410e6
    assert least <= found.cycles - timing.launch_cycles <= 2 * least


@borrowing
def passes(out, mask, size):
    return bank_passes(out, mask, size)


def words_by_hand(addresses, mask, size):
    """The same by hand: lanes in groups, for each bank the set of words that it has to give."""
    group, total = {8: 16, 16: 8}.get(size, 32), 0
    for first in range(0, 32, group):
        banks = {}
        for lane in range(first, first + group):
            if mask >> lane & 1:
                for k in range(max(size // 4, 1)):
                    word = addresses[lane] // 4 + k
                    banks.setdefault(word % 32, set()).add(word)
        total += max((len(words) for words in banks.values()), default=0)
    return max(total, 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 200), min_size=32, max_size=32),
    st.integers(1, 2**32 - 1),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_bank_conflicts_are_counted_as_by_hand(places, mask, size):
    addresses = np.array([p * max(size, 4) for p in places], np.int64)
    held = np.zeros(2048, np.int64)
    held[:32] = addresses
    assert passes(held.ctypes.data, mask, size) == words_by_hand(addresses.tolist(), mask, size)


def test_tensors_keep_their_places_on_the_chip():
    space = chips.Space()
    first, second = space.place(5000, 6000), space.place(90000, 90010)
    assert first % 512 == second % 512 == 0 and second - first == 1024
    assert space.place(5000, 6000) == first and space.place(5000, 5500) == first
    assert space.place(5000, 7000) not in (first, second)  # more memory than before: another tensor


def test_clusters_are_refused():
    out = zeros(32)
    with tileprobe.use("sim:h100", timed=True), pytest.raises(TileProbeError, match=r"num_ctas=2.*not timed"):
        chain[(2,)](out, 1, num_warps=4, num_ctas=2)


def test_events_of_autotuning_are_times_of_the_chip():
    from triton.runtime import driver

    out = zeros(32)
    with tileprobe.use("sim:a100", timed=True):
        benchmark = driver.active.get_benchmarker()
        slow, fast = (benchmark(lambda: chain[(1,)](out, n, num_warps=1)) for n in (200, 10))  # noqa: B023
    cycles = (slow - fast) * 1e-3 * 1410e6
    assert cycles == pytest.approx(190 * 32 * 4, rel=0.2)


def test_lines_that_were_changed_are_written_before_others_take_their_place():
    x, out = zeros(128 * 16), zeros(128 * 16)
    clean, changed = (
        took("sim:a100", lambda: strided[(16,)](x, out, 1), prepare=how).counters["dram_bytes_written"]
        for how in ("cold", "overwrite")
    )
    assert clean == 0
    # For what was read and for what was stored, as often as lines that go were changed; what is at home in the other
    # half of L2 takes a place in either.
    gone = 2 * 128 * 16 * 4
    assert 0.4 * gone < changed < 0.6 * 1.5 * gone


def test_a_report_says_that_its_time_is_simulated(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport tileprobe\nfrom examples.kernels import softmax\n"
        "x, out = (tileprobe.array(np.zeros((4, 64), np.float32)) for _ in range(2))\n"
        "for _ in range(2):\n    softmax.softmax(x, out)\n"
    )
    said = tmp_path / "report.json"
    assert main(["run", "--target", "sim:a100", "--timed", "--json", str(said), str(script)]) == 0
    (kernel,) = json.loads(said.read_text())["kernels"]
    assert kernel["simulated"] and kernel["clock_mhz"] == 1410
    assert kernel["cycles"] == round(kernel["duration_ns"] * 1.41)
    assert kernel["cycles"] > machine("a100").timing.launch_cycles  # no launch is shorter than its beginning


def test_time_is_for_simulated_gpus(capsys, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("")
    assert main(["run", "--target", "cpu", "--timed", str(script)]) != 0
    assert "--timed is for the simulated GPUs" in capsys.readouterr().err


def test_warps_that_could_issue_and_are_not_chosen_are_told_from_those_whose_unit_is_taken():
    out = zeros(32)
    alone, crowded = (took("sim:h100", lambda: chain[(n,)](out, 4, num_warps=1)) for n in (1, 132 * 8))  # noqa: B023
    assert alone.reasons()["not_selected"] == alone.reasons()["math_pipe_throttle"] == 0
    assert crowded.reasons()["not_selected"] > 0
    slow = took("sim:a100", lambda: chain[(108 * 8,)](out, 4, num_warps=1))  # half as many lanes a cycle
    assert slow.reasons()["math_pipe_throttle"] > crowded.reasons()["math_pipe_throttle"]


OFTEN = """
import numpy as np
import tileprobe
from examples.kernels import softmax
x, out = (tileprobe.array(np.zeros((4, 512), np.float32)) for _ in range(2))
for _ in range(6):
    softmax.softmax(x, out)
"""


@pytest.fixture
def often(tmp_path):
    path = tmp_path / "often.py"
    path.write_text(OFTEN)
    return str(path)


def cycles_of(capsys, *words):
    """Cycles of the script's launches."""
    assert main(["inspect", "--target", "sim:a100", "--sass", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)["kernels"][0]["cycles"]


def test_cold_launches_all_take_what_the_first_one_does(capsys, often):
    first, *others = cycles_of(capsys, often)
    assert max(others) < first
    assert cycles_of(capsys, "--cold", often) == [first] * 6


def test_reports_are_of_cold_or_warm_caches(often, tmp_path):
    took = {}
    for how in ("--cold", "--warm", ""):
        said = tmp_path / "report.json"
        words = ["run", "--target", "sim:a100", "--timed", *filter(None, [how]), "--json", str(said), often]
        assert main(words) == 0
        took[how] = json.loads(said.read_text())["kernels"][0]["cycles"]
    assert took["--cold"] > took["--warm"] == took[""]


def test_values_only_has_no_time(often, tmp_path):
    said = tmp_path / "report.json"
    assert main(["run", "--target", "sim:a100", "--values-only", "--json", str(said), often]) == 0
    assert "cycles" not in json.loads(said.read_text())["kernels"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--target", "sim:a100", "--cold"], "--cold is about the caches of timed launches"),
        (["run", "--target", "cpu", "--warm"], "--warm is about the caches of timed launches"),
        (["run", "--target", "sim:a100", "--timed", "--values-only"], "--values-only is for simulated GPUs"),
        (["run", "--target", "sim:a100", "--timed", "--cold", "--warm"], "not allowed with"),
        (["inspect", "--target", "sim:a100", "--cold"], "--cold is about timed launches"),
    ],
)
def test_options_that_do_not_fit_are_one_message(capsys, often, words, said):
    try:
        status = main([*words, often])
    except SystemExit as ended:  # argparse's own
        status = ended.code
    assert status
    assert said in capsys.readouterr().err


@triton.jit
def doubles_kernel(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    places = i[:, None] * N + i[None, :]
    tl.store(out + places, tl.dot(tl.load(x + places), tl.load(y + places)))


@pytest.mark.parametrize("machine", ["sim:a100", "sim:h100"])
def test_products_of_doubles_take_time(machine):
    """sm_90 writes their shape otherwise than sm_80."""
    x, y = (np.arange(1024, dtype=np.float64).reshape(32, 32) + n for n in range(2))
    with tileprobe.use(machine, timed=True):
        out = tileprobe.array(np.zeros((32, 32)))
        made = doubles_kernel[(1,)](tileprobe.array(x), tileprobe.array(y), out, 32)
    assert "DMMA" in made.asm["sass"]
    np.testing.assert_array_equal(out.numpy(), x @ y)


@triton.jit
def some_lanes(out, n):
    """What a scalar condition keeps out is not issued; a guard switches lanes off."""
    i = tl.arange(0, 32)
    for k in range(n):
        old = tl.load(out + i, mask=i < 8, other=0.0)
        tl.atomic_add(out + i, old * 0.5 + k, mask=i < 8)


def test_operations_are_counted_by_the_lanes_that_are_on():
    """Lanes at each instruction, by its guard and by who went another way: never more than 32 for each issue, and of a
    store with a mask only those that store."""
    out = tileprobe.array(np.zeros(32, np.float32))
    seen = []
    with tileprobe.use("sim:a100", timed=True, check=False), observing(seen.append):
        some_lanes[(1,)](out, 3, num_warps=1)
    took, program = seen[-1].took, seen[-1].program
    issued = took.statistics[:, 0]
    assert (took.lanes <= 32 * issued).all() and (took.lanes[issued == 0] == 0).all()
    added = [n for n, text in enumerate(program.texts) if "RED" in text or "ATOM" in text]
    assert added and sum(took.lanes[added]) == 3 * 8
