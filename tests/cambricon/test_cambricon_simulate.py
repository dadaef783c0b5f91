"""Whole models on the engine: what must hold for any of them, and the paper beside it."""

import numpy as np
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import page_tables
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT
from tileprobe.targets.cambricon.simulate import simulate

SMALL = from_config(
    {
        "model_type": "llama", "hidden_size": 1000, "intermediate_size": 2300, "num_hidden_layers": 3,
        "num_attention_heads": 10, "num_key_value_heads": 5, "vocab_size": 3001,
    },
    name="small",
)  # fmt: skip
S = load_machine("cambricon:s")


@pytest.mark.parametrize("weights", ["w8a8", "w4a16"])
@pytest.mark.parametrize("mode", [SPLIT, FLASH_ONLY, NPU_ONLY])
@pytest.mark.parametrize("tiling", ["paper", "best"])
def test_commands_are_the_pages_of_the_model(weights, mode, tiling):
    options = Options(context=50, weights=weights, mode=mode, tiling=tiling, lm_head=True)
    result = simulate(SMALL, S, options)
    tables = list(page_tables(compile_step(SMALL, S, options)))
    assert len(tables) == 3 * 7 + 1
    assert result.page_commands == sum(
        -(-m.rows // m.block_rows) * -(-m.cols // m.block_cols) for _, m in tables
    )
    assert result.read_compute_commands + result.page_reads == result.page_commands
    assert result.read_compute_commands == sum(int(m.table()[1].in_flash.sum()) for _, m in tables)
    assert (result.page_reads == 0) == (mode == FLASH_ONLY)
    assert (result.read_compute_commands == 0) == (mode == NPU_ONLY)


def test_bytes_are_conserved():
    options = Options(context=50, tile="64x2048")
    result = simulate(SMALL, S, options)
    inputs = sums = stream = 0
    for _, m in page_tables(compile_step(SMALL, S, options)):
        _, blocks = m.table()
        sums += int(blocks.rows[blocks.in_flash].sum()) * 3
        stream += int((~blocks.in_flash).sum()) * S.flash.page_bytes
        # one slice for each block column of each request
        request = blocks.row // (m.block_rows * m.commands.geometry.cores) * m.cols + blocks.col
        once = np.unique(request[blocks.in_flash], return_index=True)[1]
        inputs += int(blocks.cols[blocks.in_flash][once].sum())
    assert result.traffic_gb["result"] * 1e9 == pytest.approx(sums)
    assert result.traffic_gb["stream"] * 1e9 == pytest.approx(stream)
    assert result.traffic_gb["input"] * 1e9 == pytest.approx(inputs)
    assert result.traffic_gb["spare"] == 0
    spared = simulate(SMALL, S.replace(spare_travels=True), options).traffic_gb
    assert spared["spare"] / spared["stream"] == pytest.approx(1664 / 16384)


def test_times_of_operators_sum_to_the_step():
    result = simulate(load_model("opt-6.7b"), S)
    assert sum(op.time_ms for op in result.operators) == pytest.approx(result.latency_ms, rel=1e-9)
    assert sum(op.share for op in result.operators) == pytest.approx(1)
    assert all(0 <= unit.busy <= 1 + 1e-9 for unit in result.units.values())


def test_the_same_run_gives_the_same_result():
    assert (
        simulate(SMALL, S, Options(context=50)).to_json() == simulate(SMALL, S, Options(context=50)).to_json()
    )


@pytest.mark.parametrize("constant", ["channels", "chips_per_channel"])
@pytest.mark.parametrize("mode", [SPLIT, FLASH_ONLY])
def test_more_hardware_is_never_slower(constant, mode):
    model = load_model("llama2-7b")
    rates = [
        simulate(model, S.replace(**{constant: n}), Options(mode=mode)).tokens_per_s for n in (1, 2, 4, 8, 16)
    ]
    assert rates == sorted(rates)


def test_slower_parts_make_it_slower():
    base = simulate(load_model("opt-6.7b"), S).latency_ms
    worse = {
        "read_us": 40.0,
        "page_us": 40.0,
        "channel_gb_per_s": 0.8,
        "dram_gb_per_s": 20.0,
        "register_copy_us": 2.0,
    }
    for constant, value in worse.items():
        assert simulate(load_model("opt-6.7b"), S.replace(**{constant: value})).latency_ms > base, constant


@pytest.mark.parametrize(("dram", "ahead"), [(40.0, True), (40.0, False), (15.0, True)])
def test_context_costs_the_bandwidth_of_the_dram_or_of_the_array(dram, ahead):
    """Keys are loaded beside the products, or not; the array takes keys and values both, after the query."""
    machine = S.replace(dram_gb_per_s=dram, kv_ahead=ahead)
    model = load_model("opt-6.7b")
    short, long_ = (simulate(model, machine, Options(context=n)).latency_ms for n in (1000, 2000))
    added_gb = 2 * 32 * 4096 * 1000 / 1e9
    dram_ms, array_ms = added_gb / (2 if ahead else 1) / dram * 1e3, added_gb / S.npu.edge_gb_per_s * 1e3
    assert long_ - short == pytest.approx(max(dram_ms, array_ms), rel=0.02)


@pytest.mark.parametrize("device", ["cambricon:s", "cambricon:m", "cambricon:l"])
@pytest.mark.parametrize("model", ["opt-6.7b", "opt-30b", "llama2-70b"])
def test_the_closed_form_beside_the_engine(model, device):
    """The formula knows no whole requests, spare areas or waiting: the engine is 0 to 25 % slower."""
    result = simulate(load_model(model, mha=True), load_machine(device))
    assert 0.99 < result.latency_ms / result.closed_form_ms < 1.25


def test_the_closed_form_is_close_without_what_it_does_not_know():
    machine = S.replace(spare_travels=False, command_us=0.0, slice_command_us=0.0, slice_bytes=128)
    result = simulate(load_model("opt-66b"), machine)
    assert result.latency_ms / result.closed_form_ms == pytest.approx(1, abs=0.04)


PAPER = [
    ("opt-6.7b", "s", 3.56), ("opt-6.7b", "m", 10.96), ("opt-6.7b", "l", 36.34), ("opt-66b", "s", 0.36),
    ("opt-66b", "m", 1.15), ("opt-66b", "l", 2.59), ("llama2-70b", "s", 0.30), ("llama2-70b", "m", 0.99),
    ("llama2-70b", "l", 3.44),
]  # fmt: skip


def test_tokens_per_second_of_the_paper():
    errors = [
        abs(
            simulate(load_model(model, mha=True), load_machine(f"cambricon:{device}")).tokens_per_s / paper
            - 1
        )
        for model, device, paper in PAPER
    ]
    assert np.mean(errors) < 0.07
    assert max(errors) < 0.18


def test_best_tiling_is_no_slower_and_helps_where_shapes_do_not_fit():
    model, machine = load_model("opt-66b"), load_machine("cambricon:l")
    paper, best = (simulate(model, machine, Options(tiling=t)).tokens_per_s for t in ("paper", "best"))
    assert best > 1.4 * paper


def test_prefill_is_bound_by_channels_or_array():
    result = simulate(load_model("opt-6.7b"), S, Options(context=128, prefill=True))
    assert result.tokens == 128
    assert result.tokens_per_s > 20 * simulate(load_model("opt-6.7b"), S).tokens_per_s
    longer = simulate(load_model("opt-6.7b"), S, Options(context=2000, prefill=True))
    assert longer.units["npu_array"].busy > 0.9


@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        (Options(context=20000), {}, "KV cache of 20000 tokens"),
        (Options(context=-1), {}, "context must be zero tokens or more"),
        (Options(weights="fp8"), {}, "unknown weights 'fp8'"),
        (Options(tile="8x"), {}, "is no tile"),
        (Options(tile="0x8"), {}, "is no tile"),
        (Options(tile="255x2048"), {}, "multiple of the 4 cores"),
        (Options(tile="512x2048"), {}, "more than the 16384 of a page"),
        (Options(tile="4x131072"), {}, "do not fit the 2048 bytes"),
        (Options(), {"pages_per_plane": 100}, "does not fit cambricon:s"),
    ],
)
def test_what_cannot_run_says_why(options, changes, message):
    machine = S.replace(**changes) if changes else S
    with pytest.raises(TileProbeError, match=message):
        simulate(load_model("opt-6.7b"), machine, options)
