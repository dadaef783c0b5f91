"""Mixtures of experts: what a token meets, what it costs, and what must hold at the limits."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import page_tables
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.limits import roofline
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT
from tileprobe.targets.cambricon.routing import expert_bytes, route
from tileprobe.targets.cambricon.simulate import simulate

S = load_machine("cambricon:s")
SIZES = {
    "hidden_size": 2048, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 4,
    "vocab_size": 1000,
}  # fmt: skip
MIXTURE = {
    **SIZES, "model_type": "qwen3_moe", "intermediate_size": 4096, "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 2048, "head_dim": 128,
}  # fmt: skip


def mixture(**changes):
    return from_config({**MIXTURE, **changes}, name="mixture")


@pytest.mark.parametrize(("mode", "near"), [(SPLIT, 0.02), (FLASH_ONLY, 0.01), (NPU_ONLY, 0.01)])
def test_all_experts_active_equals_the_dense_model(mode, near):
    """Eight experts of 2048, all of them met, are an FFN of 16384: the same pages, bytes and time of its products. The
    split is rounded to requests in each of them.
    """
    dense = from_config({**SIZES, "model_type": "qwen3", "intermediate_size": 16384, "head_dim": 128})
    options = Options(context=50, mode=mode)
    one, all_ = simulate(dense, S, options), simulate(mixture(num_experts_per_tok=8), S, options)
    ours, theirs = ({op.name: op for op in r.operators} for r in (all_, one))
    for name in ("gate up", "down"):
        assert ours[name].pages == theirs[name].pages
        assert ours[name].time_ms == pytest.approx(theirs[name].time_ms, rel=near)
    assert all_.macs == one.macs + 3 * 8 * 2048  # the router
    assert all_.latency_ms - ours["router"].time_ms == pytest.approx(one.latency_ms, rel=near)


def test_time_and_pages_follow_the_experts_that_are_met():
    times, pages = [], []
    for active in (1, 2, 4, 8):
        result = simulate(mixture(num_experts_per_tok=active), S, Options(context=50))
        found = {op.name: op for op in result.operators}
        times.append(found["gate up"].time_ms)
        pages.append(found["gate up"].pages + found["down"].pages)
    each = 3 * 3 * 2048 * 2048 // S.flash.page_bytes
    assert pages == [each * n for n in (1, 2, 4, 8)]
    assert times[3] / times[0] == pytest.approx(8, rel=0.1)


def test_every_expert_of_every_layer_has_pages_of_its_own():
    seen, names = set(), set()
    for name, one in page_tables(compile_step(mixture(), S, Options(context=10))):
        at, blocks = one.table()
        here = set(zip(*(x.tolist() for x in at[:5])))
        assert not here & seen
        assert int((blocks.rows * blocks.cols).sum()) == one.rows * one.cols
        seen |= here
        names.add(name)
    assert {f"{n}.{m}.{e}" for n in range(3) for m in ("gate", "up", "down") for e in range(8)} <= names


def test_a_cache_of_all_experts_leaves_none_for_the_flash():
    model = mixture()
    room = 3 * 8 * expert_bytes(model, 8) / 1e9
    machine = S.replace(dram_capacity_bytes=10**10)
    none, some, all_ = (
        simulate(model, machine, Options(context=50, expert_cache_gb=gb)) for gb in (0.0, room / 2, room)
    )
    assert none.experts["hit_rate"] == 0.0
    assert 0.2 < some.experts["hit_rate"] < 0.8
    assert all_.experts["hit_rate"] == 1.0
    assert none.page_commands > some.page_commands > all_.page_commands
    assert none.latency_ms > some.latency_ms > all_.latency_ms
    assert none.macs == some.macs == all_.macs
    # what is left is a stream from DRAM
    each = expert_bytes(model, 8)
    met = {op.name: op for op in all_.operators}
    floor_ms = 3 * 2 * each / 40e9 * 1e3
    assert met["gate up"].time_ms + met["down"].time_ms == pytest.approx(floor_ms, rel=0.05)


def lru(chosen, room):
    """The cache again, the slow way."""
    held, hits = [], []
    for token in chosen:
        for layer, experts in enumerate(token):
            for e in experts:
                hits.append((layer, e) in held)
                held = [k for k in held if k != (layer, e)] + [(layer, e)]
                held = held[-room:] if room else []
    return hits


@given(st.integers(0, 30), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_cache_keeps_what_was_used_last(room, tokens, seed):
    rng = np.random.default_rng(seed)
    chosen = [[rng.permutation(8)[:2].tolist() for _ in range(3)] for _ in range(2 * tokens)]
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "routes.json"
        file.write_text(json.dumps(chosen))
        found = route(mixture(), str(file), 0, room)
    expected = lru(chosen, room)[tokens * 6 :]
    assert found.hit_rate == pytest.approx(np.mean(expected))
    assert found.tokens == tokens


def test_routes_are_drawn_without_repetition_and_by_their_distribution():
    model = mixture(num_experts=64, num_experts_per_tok=4)
    even, steep = (route(model, how, 1, 0) for how in ("uniform", "zipf:2"))
    for one in even.routes + steep.routes:
        assert len(set(one)) == 4
    assert even.distinct > 60 > steep.distinct
    assert route(model, "uniform", 1, 0) == even
    assert route(model, "uniform", 2, 0) != even


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_experts_per_tok": 9}, "`num_experts_per_tok` .9. is more than the 8 experts"),
        ({"num_experts": None}, "`num_experts` is missing"),
        ({"mlp_only_layers": 3}, "`mlp_only_layers` must be a list"),
        ({"model_type": "dbrx"}, "model_type = 'dbrx'; expected one of .*qwen3_moe"),
    ],
)
def test_mistakes_in_a_mixture(change, message):
    with pytest.raises(TileProbeError, match=message):
        mixture(**change)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"routing": "zipf:x"}, "expected uniform, zipf:S"),
        ({"routing": "nothing.json"}, "cannot be read"),
        ({"expert_cache_gb": 9.0}, "use --expert-cache of at most"),
    ],
)
def test_mistakes_in_a_routing(options, message):
    with pytest.raises(TileProbeError, match=message):
        simulate(mixture(), S, Options(context=50, **options))


def test_a_file_of_routes_of_another_model(tmp_path):
    file = tmp_path / "routes.npy"
    np.save(file, np.zeros((4, 2, 2), np.int64))
    with pytest.raises(TileProbeError, match="3 layers with experts, 2 experts"):
        simulate(mixture(), S, Options(context=50, routing=str(file)))
    np.save(file, np.full((4, 3, 2), 8))
    with pytest.raises(TileProbeError, match="experts are 0 to 7"):
        simulate(mixture(), S, Options(context=50, routing=str(file)))
    with pytest.raises(TileProbeError, match="no experts to cache"):
        simulate(load_model("opt-6.7b"), S, Options(expert_cache_gb=0.1))


def test_layers_without_experts_and_shared_ones():
    plain = simulate(mixture(mlp_only_layers=[0]), S, Options(context=50))
    count = {op.name: op.count for op in plain.operators}
    assert count["router"] == 2  # of three layers
    assert count["gate up"] == 3  # one of them dense
    shared = from_config({**MIXTURE, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 4096})
    found = {op.name: op.pages for op in simulate(shared, S, Options(context=50)).operators}
    assert found["shared gate shared up"] == 3 * 2 * 4096 * 2048 // S.flash.page_bytes


def test_what_is_known_of_published_models():
    assert load_model("mixtral-8x7b").weights == pytest.approx(46.4e9, rel=0.01)
    assert load_model("mixtral-8x7b").active_weights == pytest.approx(12.6e9, rel=0.01)
    assert load_model("qwen3-30b-a3b").weights == pytest.approx(29.9e9, rel=0.01)
    assert load_model("qwen3-30b-a3b").active_weights == pytest.approx(2.7e9, rel=0.03)


def test_the_command_says_what_tokens_meet(tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(MIXTURE))
    out = tmp_path / "r.json"
    run = ["llm", "--model", str(file), "--context", "50", "--expert-cache", "0.2", "--routing", "zipf:1.2"]
    assert main([*run, "--json", str(out)]) == 0
    found = json.loads(out.read_text())["experts"]
    assert found["met_per_step"] == 6
    assert 0 < found["hit_rate"] < 1
    assert "were in DRAM" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("cache", [0.0, 0.5])
def test_a_prefill_multiplies_each_token_by_the_experts_that_it_meets(cache):
    model, machine = load_model("mixtral-8x7b"), load_machine("cambricon:s")
    result = simulate(model, machine, Options(context=256, prefill=True, expert_cache_gb=cache))
    each = 3 * model.hidden * model.expert_ffn  # gate, up and down
    rest = model.weights - model.layers * model.experts * each
    tokens = 256 * (rest + model.layers * 2 * each)
    assert result.macs == pytest.approx(tokens, rel=0.01)
    assert 0.5 < roofline(result, machine).reached <= 1.0
    assert result.energy_j["npu"] == pytest.approx(tokens * 0.5e-12, rel=0.05)  # and attention
