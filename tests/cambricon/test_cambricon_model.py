"""Models by name and from config.json, and the errors of a configuration that cannot be used."""

import json

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.model import BUILT_IN, load_model

LLAMA3 = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip
OPT = {
    "model_type": "opt", "hidden_size": 4096, "ffn_dim": 16384, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 50272,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "billions"),
    [("opt-6.7b", 6.442), ("opt-66b", 65.230), ("llama2-7b", 6.476), ("llama2-70b", 68.451),
     ("llama3-8b", 6.979), ("qwen2.5-7b", 6.525), ("qwen2.5-72b", 70.213)],
)  # fmt: skip
def test_weights_of_the_layers(name, billions):
    assert load_model(name).weights / 1e9 == pytest.approx(billions, abs=1e-3)


def test_full_heads_are_what_the_paper_implies():
    assert load_model("llama2-70b", mha=True).weights / 1e9 == pytest.approx(77.85, abs=0.01)
    assert load_model("opt-66b", mha=True) == BUILT_IN["opt-66b"]


def test_config_equals_the_built_in(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA3))
    from_folder, built_in = load_model(tmp_path), load_model("llama3-8b")
    assert from_folder.matrices(0) == built_in.matrices(0)
    assert load_model(tmp_path / "config.json").kv_heads == 8


def test_opt_has_biases_and_two_ffn_matrices():
    model = from_config(OPT)
    assert [m.name for m in model.matrices(0)] == ["q", "k", "v", "o", "up", "down"]
    assert all(m.bias for m in model.matrices(0))
    assert model.tied_embeddings


def test_qwen_has_a_bias_on_qkv_only():
    model = from_config({**LLAMA3, "model_type": "qwen2"})
    assert [m.name for m in model.matrices(0) if m.bias] == ["q", "k", "v"]


def test_mistral_with_its_own_head_size():
    model = from_config({**LLAMA3, "model_type": "mistral", "head_dim": 160})
    assert model.qkv[0].rows == 32 * 160
    assert model.out[0].cols == 32 * 160


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba"}, "unknown family model_type = 'mamba'"),
        ({"model_type": None}, "unknown family"),
        ({"intermediate_size": None}, "`intermediate_size` is missing"),
        ({"hidden_size": "4096"}, "`hidden_size` must be a positive whole number"),
        ({"num_hidden_layers": 0}, "`num_hidden_layers` must be a positive whole number"),
        ({"num_key_value_heads": 5}, "must be a multiple of num_key_value_heads"),
        (
            {"hidden_size": 4000, "num_attention_heads": 33, "num_key_value_heads": 33},
            "`head_dim` is missing",
        ),
        ({"attention_bias": "yes"}, "`attention_bias` must be true or false"),
    ],
)
def test_mistakes_in_a_configuration(change, message):
    with pytest.raises(TileProbeError, match=message):
        from_config({**LLAMA3, **change})


def test_files_that_are_no_configuration(tmp_path):
    with pytest.raises(TileProbeError, match="no model"):
        load_model("gpt-5")
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(TileProbeError, match="not valid JSON"):
        load_model(path)
    path.write_text("[]")
    with pytest.raises(TileProbeError, match="must hold a JSON object"):
        load_model(path)
