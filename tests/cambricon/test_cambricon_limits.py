"""What has to hold for any model on any machine: parts make up the whole, off means off, and more of anything is not
slower, but for what whole requests cost. On models and machines that are drawn, not on those of the repository.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.parser import Parser

from tileprobe.errors import TileProbeError
from tileprobe.ir.registry import context
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.simulate import simulate, simulate_module

DEVICES = ("s", "m", "nand1600", "nand3600", "s+tlc")
MORE = {
    "rate": lambda m: {"channel_gb_per_s": 2 * m.flash.channel_gb_per_s},
    "chips": lambda m: {"chips_per_channel": 2 * m.flash.chips_per_channel},
    "channels": lambda m: {"channels": 2 * m.flash.channels},
    "arrays": lambda m: {"read_us": m.flash.read_us / 2},
    "dram": lambda m: {"dram_gb_per_s": 80.0},
    "commands": lambda m: {"command_us": 0.0},
}
ROUNDING = 0.05  # of whole requests


@st.composite
def models(draw, large=False):
    small = ["deepseek_v3"]  # whose experts and latent vectors are a part of a request
    family = draw(st.sampled_from(["llama", "opt", "qwen3", "gemma2", "mixtral", *([] if large else small)]))
    size = 128 if large else draw(st.sampled_from([16, 32, 80]))
    heads = draw(st.sampled_from([16, 24, 32] if large else [2, 4, 12]))
    config = {
        "model_type": family, "num_hidden_layers": draw(st.integers(1, 3)), "num_attention_heads": heads,
        "num_key_value_heads": draw(st.sampled_from([h for h in (1, 2, 4, 8) if heads % h == 0])),
        "head_dim": size, "hidden_size": size * heads, "vocab_size": 5000, "ffn_dim": 4 * size * heads,
        "intermediate_size": draw(st.sampled_from([5632, 11008, 14336] if large else [128, 333, 2816])),
    }  # fmt: skip
    if family == "gemma2":
        config["sliding_window"] = draw(st.sampled_from([7, 300]))
    if family == "mixtral":
        config |= {"num_local_experts": 4, "num_experts_per_tok": draw(st.integers(1, 4))}
    if family == "deepseek_v3":
        config |= {
            "kv_lora_rank": 64, "q_lora_rank": draw(st.sampled_from([None, 96])), "qk_rope_head_dim": 16,
            "qk_nope_head_dim": 32, "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 64, "n_shared_experts": draw(st.integers(0, 2)),
            "first_k_dense_replace": draw(st.integers(0, 1)),
        }  # fmt: skip
    return from_config(config, name=family)


@st.composite
def machines(draw):
    machine = load_machine(f"cambricon:{draw(st.sampled_from(DEVICES))}")
    changes = {
        "channels": draw(st.sampled_from([1, 3, 8])), "chips_per_channel": draw(st.sampled_from([1, 2, 3])),
        "slice_bytes": draw(st.sampled_from([256, 1024, 4096])), "spare_travels": draw(st.booleans()),
    }  # fmt: skip
    return machine.replace(**changes)


options = st.builds(
    Options, context=st.sampled_from([0, 1, 300, 2000]), weights=st.sampled_from(["w8a8", "w4a16"]),
    mode=st.sampled_from(["split", "flash-only", "npu-only"]), slicing=st.booleans(), lm_head=st.booleans(),
)  # fmt: skip


def figures(result, *but):
    found = result.to_json()
    return {k: v for k, v in found.items() if k not in ("options", *but)}


@given(models(), machines(), options)
@settings(max_examples=40, deadline=None)
def test_parts_make_up_the_whole(model, machine, chosen):
    r = simulate(model, machine, chosen)
    assert sum(op.time_ms for op in r.operators) == pytest.approx(r.latency_ms)
    assert sum(op.pages for op in r.operators) == r.page_commands == r.read_compute_commands + r.page_reads
    assert sum(r.traffic_gb.values()) == pytest.approx(r.channel_gb)
    assert round(r.traffic_gb["stream"] * 1e9) <= r.page_reads * machine.flash.page_bytes
    assert min(r.energy_j.values()) >= 0.0
    assert all(0.0 <= unit.busy <= 1.0 + 1e-9 for unit in r.units.values())


@given(models(), machines(), options)
@settings(max_examples=25, deadline=None)
def test_off_is_off(model, machine, chosen):
    """One package, one token to verify, a batch of one, a cache that fits, a flash without errors: nothing changes."""
    plain = figures(simulate(model, machine, chosen))
    for off in ({"packages": 1, "split": "pipeline"}, {"verify": 1, "acceptance": 0.1}, {"kv": "spill"}):
        assert figures(simulate(model, machine, replace(chosen, **off))) == plain
    quiet = machine.replace(rber_base=0.0, rber_wear=0.0, rber_retention=0.0, rber_disturb=0.0)
    aged = simulate(model, quiet, replace(chosen, age="cycles=900,days=30"))
    same = figures(aged, "aging", "assumed", "device")
    assert same == {k: v for k, v in plain.items() if k in same}


@given(models(), machines(), options, st.data())
@settings(max_examples=25, deadline=None)
def test_the_ir_of_a_run_is_the_run(model, machine, chosen, data):
    kinds = [
        {},
        {"batch": 2},
        {"verify": 3},
        {"kv": "flash"},
        {"packages": 2},
        {"age": "days=9"},
        {"prefill": True},
    ]
    more = data.draw(st.sampled_from(kinds))
    chosen = replace(chosen, **more)
    try:
        whole = simulate(model, machine, chosen)
    except TileProbeError:  # what this model cannot do
        return
    text = str(compile_step(model, machine, chosen))
    module = Parser(context(), text).parse_module()
    assert str(module) == text
    assert figures(simulate_module(module, chosen.age), "experts", "kv") == figures(whole, "experts", "kv")


@given(models(large=True), st.sampled_from(DEVICES), st.sampled_from(list(MORE)), options)
@settings(max_examples=40, deadline=None, derandomize=True)  # its bound is of how transfers happen to meet
def test_more_of_anything_is_not_slower(model, device, what, chosen):
    machine = load_machine(f"cambricon:{device}").replace(link_gb_per_s=512.0)
    one, more = (simulate(model, m, chosen) for m in (machine, machine.replace(**MORE[what](machine))))
    assert more.latency_ms <= one.latency_ms * (1 + ROUNDING)


@given(models(), machines(), options)
@settings(max_examples=20, deadline=None, derandomize=True)  # its bound is of how transfers happen to meet
def test_a_longer_context_is_not_faster(model, machine, chosen):
    one, two = (simulate(model, machine, replace(chosen, context=n)) for n in (500, 1000))
    assert two.latency_ms >= one.latency_ms * (1 - 2e-3)  # in which order transfers meet


@given(models(), machines(), options)
@settings(max_examples=10, deadline=None)
def test_the_best_tiling_is_not_slower_than_the_paper_s(model, machine, chosen):
    best, paper = (simulate(model, machine, replace(chosen, tiling=tiling)) for tiling in ("best", "paper"))
    assert best.latency_ms <= paper.latency_ms


@pytest.mark.parametrize("device", ["s", "s+tlc", "nand3600"])
def test_the_split_knows_what_the_planes_bring(device):
    """A channel that is faster than the planes that read for it gets no more pages than those read."""
    machine = load_machine(f"cambricon:{device}").replace(link_gb_per_s=1e3, array_rows=512)
    config = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 32, "hidden_size": 4096,
              "intermediate_size": 11008, "vocab_size": 5000}  # fmt: skip
    model = from_config(config)
    times = [
        simulate(model, machine.replace(channel_gb_per_s=rate), Options(context=10)).latency_ms
        for rate in (1.0, 4.4, 10.0, 40.0)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] < simulate(model, machine, Options(context=10, mode="flash-only")).latency_ms


def test_a_group_is_not_chosen_for_what_was_read_before_it():
    """Small matrices, whose pages fit the NPU's memory: they are not all there already."""
    config = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 1,
              "head_dim": 16, "hidden_size": 1024, "intermediate_size": 5120, "vocab_size": 100}  # fmt: skip
    machine = load_machine("cambricon:s").replace(channels=3, chips_per_channel=4, channel_gb_per_s=0.4)
    chosen = Options(context=10, weights="w4a16", tiling="best")
    both, alone = (
        simulate(from_config(config), machine, replace(chosen, mode=m)) for m in ("split", "flash-only")
    )
    assert both.latency_ms < 1.05 * alone.latency_ms
