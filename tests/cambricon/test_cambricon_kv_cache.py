"""Keys and values beyond the DRAM, sliding windows and latent attention: limits, conservation, and mistakes."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import the_step
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.kv_cache import Paged, plan_cache
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate, simulate_module

S = load_machine("cambricon:s")
LLAMA = {
    "model_type": "mistral", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 4,
    "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 1000,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v2", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 3,
    "num_attention_heads": 8, "vocab_size": 1000, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "q_lora_rank": None, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 2,
    "moe_intermediate_size": 512, "first_k_dense_replace": 1,
}  # fmt: skip


def small(**changes):
    return from_config({**LLAMA, **changes}, name="small")


def machine_with(model, tokens):
    """A DRAM that holds so many tokens."""
    return S.replace(dram_capacity_bytes=model.layers * model.cached_values * tokens)


@pytest.mark.parametrize("context", [10, 5000])
def test_a_cache_that_fits_gives_the_same_time_either_way(context):
    model = small()
    dram, spill = (simulate(model, S, Options(context=context, kv=kv)).to_json() for kv in ("dram", "spill"))
    for one in (dram, spill):
        del one["options"]
    assert dram == spill


def test_what_does_not_fit_is_read_from_flash_and_written_to_it():
    model, context, kept = small(), 20000, 4000
    result = simulate(model, machine_with(model, kept), Options(context=context, kv="spill"))
    assert result.kv["flash_tokens"] == context - kept
    # bytes are conserved: every token is in DRAM or in flash, and what is in flash is read
    whole = model.layers * model.cached_values * context / 1e9
    assert result.kv["dram_gb"] + result.kv["flash_gb"] == pytest.approx(whole)
    assert result.kv["pages_read"] == model.layers * -(
        -(context - kept) // 32
    )  # 512 bytes a token, 16 KB a page
    fits = simulate(model, S.replace(dram_capacity_bytes=10**10), Options(context=context))
    assert result.page_reads - fits.page_reads == result.kv["pages_read"]
    assert result.traffic_gb["stream"] - fits.traffic_gb["stream"] == pytest.approx(
        result.kv["pages_read"] * 16384 / 1e9
    )
    assert result.kv["pages_written"] == model.layers / 32
    assert result.kv["write_amplification"] == 1.0
    assert result.latency_ms > fits.latency_ms
    assert result.energy_j["array_read"] > fits.energy_j["array_read"]
    assert result.energy_j["dram"] < fits.energy_j["dram"]


def test_a_longer_context_in_flash_costs_the_bandwidth_of_the_channels():
    model = small()
    one, two = (
        simulate(model, machine_with(model, 1000), Options(context=n, kv="spill")).latency_ms
        for n in (65000, 129000)
    )
    added = model.layers * 2000 * 16384 / 8e9 * 1e3  # 64,000 tokens, 32 on a page
    assert two - one == pytest.approx(added, rel=0.05)


@given(st.integers(1, 3000), st.integers(40, 3000), st.sampled_from([0, 100, 1000]))
@settings(max_examples=40, deadline=None)
def test_the_plan_keeps_the_newest_tokens_that_fit(context, room, window):
    model = small(sliding_window=window or None)
    machine = machine_with(model, room)
    plan = plan_cache(model, machine, context, 1, "spill")
    seen = min(context, window or context)
    assert plan.dram_bytes <= machine.dram.capacity_bytes
    assert plan.in_flash == (max(seen - room, 0),) * 4
    everything = plan_cache(model, machine, context, 1, "flash")
    assert everything.in_flash == (max(seen - 32, 0),) * 4  # but the page that is being filled


@pytest.mark.parametrize(
    ("token", "pages"), [(512, (32, 1)), (16384, (1, 1)), (20000, (1, 2)), (300, (54, 1))]
)
def test_tokens_on_pages(token, pages):
    paged = Paged.of(token, 16384)
    assert (paged.tokens_per_page, paged.pages_per_token) == pages
    assert paged.pages(0) == 0
    assert paged.pages(1) == pages[1]


def test_programming_takes_time():
    model = small()
    fast, slow = (
        simulate(
            model, machine_with(model, 1000).replace(program_us=us), Options(context=5000, kv="spill")
        ).latency_ms
        for us in (1.0, 2000.0)
    )
    assert slow - fast == pytest.approx(1999 / 32 / 1e3, rel=0.03)  # once for all layers, every 32 tokens


def test_a_window_bounds_what_attention_sees_and_keeps():
    far = Options(context=3000)
    whole, sliding = simulate(small(), S, far), simulate(small(sliding_window=500), S, far)
    near = simulate(small(), S, Options(context=500))
    assert sliding.latency_ms == pytest.approx(near.latency_ms)
    assert sliding.kv_gb == near.kv_gb < whole.kv_gb
    assert simulate(small(sliding_window=5000), S, far).latency_ms == whole.latency_ms


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        ({"model_type": "gemma2", "head_dim": 64, "sliding_window": 64}, (64, 0, 64, 0)),
        ({"model_type": "qwen2", "sliding_window": 64}, ()),
        (
            {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3},
            (0, 0, 0, 64),
        ),
        ({"model_type": "llama", "sliding_window": 64}, ()),
        (
            {
                "model_type": "mistral",
                "sliding_window": 64,
                "layer_types": ["full_attention"] * 3 + ["sliding_attention"],
            },
            (0, 0, 0, 64),
        ),
    ],
)
def test_which_layers_slide(config, windows):
    model = small(**config)
    assert model.windows == windows
    result = simulate(model, S, Options(context=500))
    seen = [min(500, w or 500) for w in windows or (0,) * 4]
    assert result.kv_gb == pytest.approx(sum(seen) * model.cached_values / 1e9)


def test_grouped_heads_keep_less():
    full, grouped = (
        simulate(load_model("llama2-70b", mha=m), S, Options(context=500)) for m in (True, False)
    )
    assert full.kv_gb == pytest.approx(8 * grouped.kv_gb)


def test_keys_are_loaded_beside_the_products_before():
    """As long as these take, and no longer; values are not, and a prompt has no keys before it is met."""
    model, slow = small(), S.replace(dram_gb_per_s=0.5)
    late = slow.replace(kv_ahead=False)
    products_ms = sum(op.time_ms for op in simulate(model, late).operators if op.name == "q k v")
    for context in (200, 500, 4000):
        options = Options(context=context)
        keys_ms = model.layers * context * model.kv_size / 0.5e9 * 1e3
        gained = simulate(model, late, options).latency_ms - simulate(model, slow, options).latency_ms
        assert gained == pytest.approx(min(keys_ms, products_ms), rel=0.02)
    prompt = Options(context=64, prefill=True)
    assert simulate(model, late, prompt).latency_ms == simulate(model, slow, prompt).latency_ms


def test_latent_attention_keeps_one_vector_a_token():
    model = from_config(DEEPSEEK, name="latent")
    result = simulate(model, S, Options(context=1000))
    assert model.cached_values == 576
    assert result.kv_gb == pytest.approx(3 * 1000 * 576 / 1e9)
    pages = {op.name: op.pages for op in result.operators}
    assert pages["k_up"] == 3 * 8 * (512 * 128 // 16384)
    assert result.macs == model.active_weights
    # the time of a longer context is that of one vector a token, whatever the heads
    longer = simulate(model, S, Options(context=21000))
    dram_ms = 3 * 20000 * 576 / 40e9 * 1e3
    array_ms = 3 * 20000 * 8 * (576 + 512) / S.npu.macs_per_us / 1e3
    ahead_ms = sum(op.time_ms for op in longer.operators if op.name == "k_up")  # while keys are loaded, too
    added = longer.latency_ms - result.latency_ms
    assert max(dram_ms, array_ms) - ahead_ms <= added < dram_ms + array_ms


def test_latent_matrices_of_published_size():
    deepseek_v2 = {
        **DEEPSEEK, "hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers": 60,
        "num_attention_heads": 128,
        "q_lora_rank": 1536, "n_routed_experts": 160, "num_experts_per_tok": 6, "moe_intermediate_size": 1536,
        "vocab_size": 102400,
    }  # fmt: skip
    model = from_config(deepseek_v2)
    embeddings = 2 * 102400 * 5120
    assert model.weights + embeddings == pytest.approx(236e9, rel=0.01)
    assert model.active_weights + embeddings == pytest.approx(21e9, rel=0.05)


def test_a_mapped_step_with_keys_in_flash_goes_through_text(tmp_path, capsys):
    model = small()
    options = Options(context=9000, kv="spill")
    machine = machine_with(model, 1000)
    module = compile_step(model, machine, options)
    file = tmp_path / "step.mlir"
    file.write_text(str(module))
    out = tmp_path / "r.json"
    assert main(["llm", "--from-ir", str(file), "--json", str(out)]) == 0
    assert json.loads(out.read_text())["latency_ms"] == simulate(model, machine, options).latency_ms
    reads = the_step(module)
    for op in list(reads.walk()):
        if op.name == "cam.attention":
            op.body.block.first_op.trip = type(op.body.block.first_op.trip)(1)
    assert simulate_module(module).latency_ms < simulate(model, machine, options).latency_ms
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(context=200000), "or --kv spill"),
        (Options(kv="tape"), "--kv is dram, spill, flash"),
        (Options(context=200000, kv="spill", prefill=True), "a prefill whose keys and values go beyond"),
        (Options(context=200000, kv="spill", mode="flash-only"), "leaves no plane that serves reads"),
    ],
)
def test_what_cannot_be_kept_says_why(options, message):
    with pytest.raises(TileProbeError, match=message):
        simulate(load_model("llama3-8b"), S, options)


def test_a_cache_beyond_the_flash_as_well():
    with pytest.raises(TileProbeError, match="weights and its keys and values need"):
        simulate(
            small(),
            machine_with(small(), 1000).replace(pages_per_plane=200),
            Options(context=10**6, kv="spill"),
        )


def test_the_command_says_where_keys_and_values_lie(capsys):
    run = ["llm", "--model", "llama3-8b", "--context", "4000", "--kv", "flash"]
    assert main(run) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "in flash (3,992 tokens a layer at most)" in shown
    assert "kv from flash" in shown or "others" in shown


def test_drafts_that_are_verified_together_share_what_is_read():
    """The report's figures are of a token, and four tokens of a pass read the pages once."""
    model, options = load_model("llama3-8b"), Options(context=8000, kv="flash")
    one, four = (simulate(model, S, replace(options, verify=n, acceptance=1.0)).kv for n in (1, 4))
    assert one["pages_read"] == 4 * four["pages_read"]
    assert one["pages_written"] == four["pages_written"]
