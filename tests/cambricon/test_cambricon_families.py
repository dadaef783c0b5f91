"""Configurations that are not what they look like: each is refused by the name of the field that is the cause, or says
what of it is not counted. None is misread in silence.
"""

import json

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate

LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip
QWEN_MOE = {
    **LLAMA, "model_type": "qwen2_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 128,
}  # fmt: skip
DEEPSEEK = {
    **LLAMA, "model_type": "deepseek_v3", "kv_lora_rank": 128, "q_lora_rank": 64, "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32, "v_head_dim": 32, "moe_intermediate_size": 128, "num_experts_per_tok": 2,
    "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
}  # fmt: skip
OPT = {
    "model_type": "opt", "hidden_size": 256, "ffn_dim": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": 1000,
}  # fmt: skip
SLIDES = {"sliding_window": 64, "use_sliding_window": True}


def changed(config, **changes):
    return {k: v for k, v in {**config, **changes}.items() if v is not ...}


@pytest.mark.parametrize(
    "family",
    ["falcon", "gpt_neox", "bloom", "t5", "mamba", "whisper", "gemma3_text", "phimoe", "qwen3_next", ["llama"], None],
)  # fmt: skip
def test_families_that_are_not_known(family):
    with pytest.raises(TileProbeError, match="unknown family model_type = "):
        from_config({"model_type": family, "hidden_size": 64})


@pytest.mark.parametrize("family", ["gemma3", "llama4", "llava"])
def test_a_language_model_inside_of_another(family):
    with pytest.raises(TileProbeError, match=r"model_type = .*`text_config` holds the language model"):
        from_config({"model_type": family, "text_config": LLAMA})


@pytest.mark.parametrize(
    ("config", "field", "message"),
    [
        (changed(LLAMA, num_key_value_heads=None, hidden_act=17), "hidden_act", "must be a name"),
        (changed(LLAMA, hidden_act=None), "hidden_act", "must be a name"),
        (changed(LLAMA, hidden_size=10**18), "hidden_size", "no more than 16,777,216"),
        (changed(LLAMA, num_hidden_layers=10**6), "num_hidden_layers", "no more than 4,096"),
        (changed(LLAMA, hidden_size=float("nan")), "hidden_size", "found nan"),
        (changed(LLAMA, vocab_size=True), "vocab_size", "found True"),
        (changed(LLAMA, is_encoder_decoder=True), "is_encoder_decoder", "is true"),
        (changed(LLAMA, add_cross_attention=True), "add_cross_attention", "is true"),
        (changed(LLAMA, num_local_experts=8), "num_local_experts", "have no experts"),
        (changed(LLAMA, n_routed_experts="8"), "n_routed_experts", "zero or more, found '8'"),
        (changed(LLAMA, layer_types=["chunked_attention"] * 4), "layer_types", "'chunked_attention'"),
        (changed(LLAMA, layer_types=["full_attention"] * 3), "layer_types", "one kind for each"),
        (changed(LLAMA, layer_types=["sliding_attention"] * 4), "layer_types", "no `sliding_window` is in use"),
        (changed(LLAMA, partial_rotary_factor=0.5), "partial_rotary_factor", "phi3 alone"),
        (changed(LLAMA, model_type="mistral", num_key_value_heads=...), "num_key_value_heads", "is missing"),
        (changed(LLAMA, model_type="gemma"), "head_dim", "is missing"),
        (changed(LLAMA, model_type="qwen3"), "head_dim", "is missing"),
        (changed(LLAMA, model_type="gemma2", head_dim=64, sliding_window=0), "sliding_window", "positive"),
        (changed(LLAMA, model_type="qwen2", **SLIDES), "max_window_layers", "is missing"),
        (changed(LLAMA, model_type="qwen2", sliding_window=64, use_sliding_window="yes"), "use_sliding_window",
         "true or false"),
        (changed(LLAMA, model_type="qwen2", **SLIDES, layer_types=["linear_attention"] * 4), "layer_types",
         "'linear_attention'"),
        (changed(QWEN_MOE, num_experts_per_tok=9), "num_experts_per_tok", "more than the 8 experts"),
        (changed(QWEN_MOE, shared_expert_intermediate_size=0), "shared_expert_intermediate_size", "positive"),
        (changed(QWEN_MOE, decoder_sparse_step=0), "decoder_sparse_step", "positive"),
        (changed(QWEN_MOE, mlp_only_layers=[7]), "mlp_only_layers", "0 to 3"),
        (changed(QWEN_MOE, mlp_only_layers=[True]), "mlp_only_layers", "0 to 3"),
        (changed(DEEPSEEK, num_experts_per_tok=9), "num_experts_per_tok", "more than the 8 experts"),
        (changed(DEEPSEEK, n_shared_experts="two"), "n_shared_experts", "found 'two'"),
        (changed(DEEPSEEK, n_shared_experts=-1), "n_shared_experts", "found -1"),
        (changed(DEEPSEEK, first_k_dense_replace="x"), "first_k_dense_replace", "found 'x'"),
        (changed(DEEPSEEK, moe_layer_freq=0), "moe_layer_freq", "positive"),
        (changed(DEEPSEEK, v_head_dim="x"), "v_head_dim", "positive"),
        (changed(OPT, word_embed_proj_dim=128), "word_embed_proj_dim", "not supported"),
        (changed(OPT, activation_function=17), "activation_function", "must be a name"),
    ],
)  # fmt: skip
def test_the_field_that_is_the_cause_is_named(config, field, message):
    with pytest.raises(TileProbeError) as caught:
        from_config(config)
    assert f"`{field}`" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 100_000, f'{{"hidden_size": {"9" * 5000}}}', "", "null"]
)
def test_files_that_python_cannot_read(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(TileProbeError, match=r"is not valid JSON|must hold a JSON object"):
        load_model(tmp_path)


def test_names_that_no_file_has():
    with pytest.raises(TileProbeError, match="no model"):
        load_model("x" * 5000)


def test_what_defaults_mean():
    """Null is all heads; Qwen's windows are off until they are switched on, and may be in every layer."""
    assert from_config(changed(LLAMA, model_type="qwen2", num_key_value_heads=None)).kv_heads == 4
    assert from_config(changed(LLAMA, model_type="qwen3", head_dim=64, sliding_window=64)).windows == ()
    qwen = changed(LLAMA, model_type="qwen3", head_dim=64, **SLIDES, max_window_layers=0)
    assert from_config(qwen).windows == (64,) * 4


def test_which_layers_of_a_mixture_are_dense():
    assert from_config(DEEPSEEK).dense_layers == (0,)
    assert from_config(changed(DEEPSEEK, moe_layer_freq=2)).dense_layers == (0, 1, 3)
    assert from_config(changed(QWEN_MOE, decoder_sparse_step=2)).dense_layers == (0, 2)


@pytest.mark.parametrize("config", [changed(QWEN_MOE, mlp_only_layers=[0, 1, 2, 3]),
                                    changed(DEEPSEEK, first_k_dense_replace=4)])  # fmt: skip
def test_a_mixture_without_layers_of_experts_is_dense(config):
    model = from_config(config, name="dense")
    assert model.experts == 0
    assert simulate(model, load_machine("cambricon:s"), Options(context=10)).experts is None


def test_the_gate_of_shared_experts_is_a_row_of_the_router():
    assert [m.rows for m in from_config(QWEN_MOE).router] == [9]
    assert [m.rows for m in from_config(changed(QWEN_MOE, model_type="qwen3_moe")).router] == [8]


def test_what_is_not_counted_is_said(tmp_path, capsys):
    from tileprobe.cli import main

    packed = {"quant_method": "gptq", "bits": 4}
    config = changed(DEEPSEEK, quantization_config=packed, num_nextn_predict_layers=1)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["llm", "--model", str(tmp_path), "--json", str(tmp_path / "out.json")]) == 0
    said, notes = capsys.readouterr().out, json.loads((tmp_path / "out.json").read_text())["notes"]
    for note in ("quantization_config (gptq)", "num_nextn_predict_layers"):
        assert note in said.replace("\n", " ")
        assert any(note in line for line in notes)
