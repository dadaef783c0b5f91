"""Several packages: one is none, bytes are conserved, links cost their time, and what cannot be split says why."""

import json

import pytest
from xdsl.context import Context

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options, build, compile_step
from tileprobe.targets.cambricon.dialect import AttentionOp, ExchangeOp, GemvOp, LayersOp
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.packages import dram_for_cache, stages_of
from tileprobe.targets.cambricon.passes.cam_shard import CamShardPass
from tileprobe.targets.cambricon.passes.cam_stage import CamStagePass
from tileprobe.targets.cambricon.simulate import simulate

S = load_machine("cambricon:s")
FREE = S.replace(packages_gb_per_s=1e9, packages_latency_us=0.0)
CONFIG = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 6,
    "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 1000,
}  # fmt: skip
MODEL = from_config(CONFIG, name="small")


@pytest.mark.parametrize("split", ["tensor", "pipeline"])
def test_one_package_is_none(split):
    found = [simulate(MODEL, S, o).to_json() for o in (Options(), Options(packages=1, split=split))]
    for one in found:
        del one["options"]
    assert found[0] == found[1]
    assert found[0]["packages"] is None


def test_a_part_of_every_matrix():
    module = build(MODEL, S, Options(lm_head=True))
    CamShardPass(packages=4).apply(Context(), module)
    module.verify()
    shapes = {op.label.data: (op.rows.data, op.cols.data) for op in module.walk() if isinstance(op, GemvOp)}
    assert shapes == {
        "q": (256, 1024), "k": (64, 1024), "v": (64, 1024), "o": (1024, 256),
        "gate": (512, 1024), "up": (512, 1024), "down": (1024, 512), "lm_head": (250, 1024),
    }  # fmt: skip
    (attention,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    assert (attention.heads.data, attention.kv_heads.data) == (4, 1)
    exchanged = [(op.how.data, op.bytes.data) for op in module.walk() if isinstance(op, ExchangeOp)]
    assert exchanged == [("scale", 4), ("reduce", 4096), ("scale", 4), ("reduce", 4096), ("gather", 2000)]


@pytest.mark.parametrize(
    ("split", "packages"), [("tensor", 2), ("tensor", 4), ("pipeline", 2), ("pipeline", 4), ("pipeline", 6)]
)
def test_nothing_is_lost_between_packages(split, packages):
    alone = simulate(MODEL, S, Options(lm_head=True))
    together = simulate(MODEL, S, Options(lm_head=True, packages=packages, split=split))
    assert together.weight_bytes == alone.weight_bytes
    assert together.macs == alone.macs
    assert together.kv_gb == pytest.approx(alone.kv_gb)
    assert together.units["planes"].count == packages * alone.units["planes"].count
    assert sum(op.time_ms for op in together.operators) == pytest.approx(together.latency_ms)


def test_bytes_over_the_links_of_a_ring():
    layers, hidden = 6, 1024
    for n in (2, 4):
        found = simulate(MODEL, S, Options(packages=n)).packages
        assert found is not None
        each = 2 * layers * (4 * hidden + 4)  # two reductions of 4-byte sums a layer, and their scales
        # all-reduce in a ring: each package sends 2 (n - 1) / n of the vector
        assert found["sent_mb"] * 1e6 == pytest.approx(n * 2 * (n - 1) / n * each)
        steps = 2 * layers * 2 * 2 * (n - 1)
        assert found["link_ms"] == pytest.approx((steps * 1.0 + found["sent_mb"] * 1e6 / n / 15.75e3) / 1e3)
    found = simulate(MODEL, S, Options(packages=3, split="pipeline")).packages
    assert found is not None
    assert found["sent_mb"] * 1e6 == 2 * hidden * 2 + 4
    assert found["link_ms"] == pytest.approx((3 * 1.0 + (2 * hidden * 2 + 4) / 15.75e3) / 1e3)


def test_a_pipeline_over_a_free_link_takes_the_time_of_its_parts():
    result = simulate(MODEL, FREE, Options(packages=2, split="pipeline"))
    three = simulate(from_config({**CONFIG, "num_hidden_layers": 3}, name="half"), FREE, Options())
    assert result.latency_ms == pytest.approx(2 * three.latency_ms)
    assert result.packages["all_busy_tokens_per_s"] == pytest.approx(2 * result.tokens_per_s)
    for kind in ("channels", "cores", "dram"):
        assert result.units[kind].busy == pytest.approx(three.units[kind].busy / 2)
    assert result.energy_j["array_read"] == pytest.approx(2 * three.energy_j["array_read"])


def test_a_tensor_split_over_a_free_link_is_faster_and_a_slow_one_eats_it():
    alone = simulate(load_model("llama3-8b"), S, Options()).tokens_per_s
    free, real, slow = (
        simulate(load_model("llama3-8b"), machine, Options(packages=4)).tokens_per_s
        for machine in (FREE, S, S.replace(packages_gb_per_s=0.001))
    )
    assert 3.5 * alone < free < 4.1 * alone
    assert slow < alone < real < free


def test_energy_of_the_link():
    result = simulate(MODEL, S, Options(packages=2))
    assert result.energy_j["packages"] == pytest.approx(result.packages["sent_mb"] * 1e6 * 8 * 7.5e-12)


def test_layers_of_packages():
    assert stages_of(6, 4) == [(0, 1), (1, 3), (3, 4), (4, 6)]
    assert dram_for_cache(S, 6, 4, "pipeline") == 2 * 10**9 * 6 // 2
    assert dram_for_cache(S, 6, 4, "tensor") == 8 * 10**9
    # a context that one package cannot hold
    fits = Options(context=50000, packages=2)
    assert simulate(load_model("llama3-8b"), S, fits).kv_gb > 2


def test_a_stage_has_its_layers_and_their_experts():
    config = {
        **CONFIG, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256,
        "head_dim": 64, "mlp_only_layers": [0],
    }  # fmt: skip
    model = from_config(config, name="mixture")
    whole = build(model, S, Options())
    routes = [r for op in whole.walk() if isinstance(op, LayersOp) and op.routes for r in op.routes.data]
    module = build(model, S, Options(lm_head=True))
    CamStagePass(first=2, end=5, last=False).apply(Context(), module)
    module.verify()
    (layers,) = [op for op in module.walk() if isinstance(op, LayersOp)]
    assert layers.count.data == 3
    assert list(layers.routes.data) == routes[1:4]
    assert not any(isinstance(op, GemvOp) and op.label.data == "lm_head" for op in module.walk())
    result = simulate(model, S, Options(packages=3, split="pipeline"))
    assert result.macs == simulate(model, S, Options()).macs


def test_an_exchange_goes_through_text(tmp_path, capsys):
    run = ["llm", "--model", "llama3-8b", "--packages", "2"]
    assert main([*run, "--ir"]) == 0
    text = capsys.readouterr().out
    assert 'cam.exchange "reduce"' in text
    file, out = tmp_path / "step.mlir", tmp_path / "r.json"
    file.write_text(text)
    assert main(["llm", "--from-ir", str(file), "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    whole = simulate(load_model("llama3-8b"), S, Options(packages=2)).to_json()
    for one in (found, whole):  # what the IR does not say: which model, which rule of tiling
        one.pop("kv")
        one["options"].pop("tiling")
    assert found == json.loads(json.dumps(whole))
    file.write_text(text.replace("packages 2 bytes 16384", "packages 4 bytes 16384", 1))
    capsys.readouterr()
    assert main(["llm", "--from-ir", str(file)]) == 2
    assert "exchanges between 2 and 4 packages" in capsys.readouterr().err
    capsys.readouterr()
    assert main(run) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 packages, split tensor" in shown
    assert "reduce over the link" in shown


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("llama3-8b", Options(packages=0), "--packages must be at least 1"),
        ("llama3-8b", Options(packages=2, split="rows"), "--split is tensor or pipeline"),
        ("llama3-8b", Options(packages=3), "heads\\) cannot be split between 3 packages|rows of q"),
        ("llama3-8b", Options(packages=16), "key and value heads|rows of k|cannot be split"),
        ("llama3-8b", Options(packages=40, split="pipeline"), "has 32 layers, fewer than 40"),
        (
            "qwen3-30b-a3b",
            Options(packages=2),
            "experts are not split between packages; use --split pipeline",
        ),
        ("llama3-8b", Options(packages=2, kv="spill"), "no --kv spill or flash"),
        (
            "llama3-8b",
            Options(packages=2, split="pipeline", age="cycles=1"),
            "a flash that ages is modelled for one",
        ),
    ],
)
def test_what_cannot_be_split_says_why(model, options, message):
    with pytest.raises(TileProbeError, match=message):
        simulate(load_model(model), S, options)


def test_a_pipeline_has_no_single_step():
    with pytest.raises(TileProbeError, match="every package has a step of its own"):
        compile_step(MODEL, S, Options(packages=2, split="pipeline"))


def test_all_packages_of_a_tensor_split_age_alike():
    one, two = (simulate(MODEL, S, Options(packages=n, age="reclaim=2")) for n in (1, 2))
    assert two.aging is not None
    assert two.aging["rewrites"] == pytest.approx(one.aging["rewrites"], rel=0.1)


def test_what_limits_packages_is_what_limits_one():
    from tileprobe.targets.cambricon.limits import busy_kinds, roofline

    alone = simulate(MODEL, FREE, Options())
    for split in ("tensor", "pipeline"):
        result = simulate(MODEL, FREE, Options(packages=2, split=split))
        roof = roofline(result, FREE)
        assert roof.reached <= 1.0
        assert roof.roof_gops == pytest.approx(
            roofline(alone, FREE).roof_gops * (2 if split == "tensor" else 1)
        )
    pairs = zip(busy_kinds(result).values(), busy_kinds(alone).values())
    assert all(one == pytest.approx(other, abs=0.05) for one, other in pairs)


def test_a_pipeline_has_no_trace(tmp_path, capsys):
    run = [
        "llm",
        "--model",
        "llama3-8b",
        "--packages",
        "2",
        "--split",
        "pipeline",
        "--trace",
        str(tmp_path / "t.tpt"),
    ]
    assert main(run) == 2
    assert "a trace is of one step" in capsys.readouterr().err
    assert not (tmp_path / "t.tpt").exists()
