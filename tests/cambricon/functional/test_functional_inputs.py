"""Every bad folder gets one clear message, and nothing in a folder is ever executed."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from functional_models import CONFIGS, tensors_of, write_folder
from safetensors.numpy import save_file

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.checkpoint import load_checkpoint
from tileprobe.targets.cambricon.functional.model import FlashModel
from tileprobe.targets.cambricon.functional.quantise import scheme_of, smoothing_factors
from tileprobe.targets.cambricon.functional.tokenizer import load_tokenizer


def refused(folder, message):
    with pytest.raises(TileProbeError, match=message):
        load_checkpoint(folder)


def change(folder, **fields):
    config = {**json.loads((folder / "config.json").read_text()), **fields}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v != "remove"}))


def test_no_folder(tmp_path):
    refused(tmp_path / "nowhere", "no config.json")


def test_no_weights(llama):
    (llama / "model.safetensors").unlink()
    refused(llama, r"no \.safetensors file")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a model file was executed",))


def test_a_pickle_is_never_opened(llama):
    (llama / "model.safetensors").unlink()
    (llama / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    refused(llama, "is a pickle and is never opened")
    (llama / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    refused(llama, "no whole safetensors file")


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, 0.999])
def test_truncated_safetensors(llama, keep):
    path = llama / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: keep if isinstance(keep, int) else int(keep * len(data))])
    refused(llama, "no whole safetensors file")


def test_a_corrupt_header(llama):
    path = llama / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[8:40] = b"\xff" * 32
    path.write_bytes(bytes(data))
    refused(llama, "no whole safetensors file")


def test_a_missing_tensor(llama):
    tensors = tensors_of(CONFIGS["llama"])
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, str(llama / "model.safetensors"))
    refused(llama, r"no tensor 'model.layers.1.mlp.up_proj.weight'")


def test_a_misshapen_tensor(llama):
    tensors = tensors_of(CONFIGS["llama"])
    name = "model.layers.0.self_attn.k_proj.weight"
    tensors[name] = np.ascontiguousarray(tensors[name][:-1])
    save_file(tensors, str(llama / "model.safetensors"))
    refused(llama, r"has shape \[23, 48\], config.json asks for \[24, 48\]")


@pytest.mark.parametrize(("change_to", "message"), [(np.nan, "not finite"), (np.inf, "not finite")])
def test_values_that_are_not_finite(llama, change_to, message):
    tensors = tensors_of(CONFIGS["llama"])
    tensors["model.layers.0.mlp.gate_proj.weight"][3, 4] = change_to
    save_file(tensors, str(llama / "model.safetensors"))
    with pytest.raises(TileProbeError, match=message):
        load_checkpoint(llama).matrices["0.gate"].load()


def test_quantised_weights_are_refused(llama):
    tensors = tensors_of(CONFIGS["llama"])
    tensors["model.norm.weight"] = np.ones(48, np.int8)
    save_file(tensors, str(llama / "model.safetensors"))
    refused(llama, "give the unquantised weights")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "bert"}, "bert"),
        ({"hidden_size": "remove"}, "hidden_size"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"hidden_act": "swish9"}, "swish9"),
        ({"rms_norm_eps": -1}, "rms_norm_eps"),
        ({"rope_theta": "fast"}, "rope_theta"),
        ({"rope_scaling": {"type": "yarn", "factor": 2}}, "yarn"),
        ({"rope_scaling": 3}, "rope_scaling"),
        ({"head_dim": 13}, "even head size"),
        ({"eos_token_id": "end"}, "eos_token_id"),
        ({"max_position_embeddings": 0}, "max_position_embeddings"),
    ],
)
def test_a_bad_configuration(llama, fields, message):
    change(llama, **fields)
    refused(llama, message)


def test_a_configuration_that_is_no_json(llama):
    (llama / "config.json").write_text("{")
    refused(llama, "not valid JSON")


def test_an_opt_with_norms_after_its_layers(tmp_path):
    folder = write_folder(tmp_path / "opt", {**CONFIGS["opt"], "do_layer_norm_before": False})
    refused(folder, "not supported")


def test_llama_3_angles_are_stretched(llama):
    from tileprobe.targets.cambricon.functional.transformer import rope_frequencies

    plain = rope_frequencies(load_checkpoint(llama).spec)
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    change(llama, rope_scaling={**scaling, "original_max_position_embeddings": 1024})
    found = rope_frequencies(load_checkpoint(llama).spec)
    turns = 1024 * plain / (2 * np.pi)
    assert np.allclose(found[turns > 4], plain[turns > 4])
    assert np.allclose(found[turns < 1], plain[turns < 1] / 8)


def test_where_newer_files_keep_rotary_positions(llama):
    change(llama, rope_parameters={"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0})
    spec = load_checkpoint(llama).spec
    assert (spec.rope_theta, spec.rope_linear) == (5e5, 2.0)


def test_a_sliding_window_limits_the_context(tmp_path):
    folder = write_folder(tmp_path / "m", {**CONFIGS["mistral"], "sliding_window": 100})
    assert load_checkpoint(folder).spec.positions == 100
    folder = write_folder(tmp_path / "q", {**CONFIGS["qwen2"], "sliding_window": 100})
    assert load_checkpoint(folder).spec.positions == 2048
    folder = write_folder(tmp_path / "x", {**CONFIGS["mixtral"], "sliding_window": 100})
    assert load_checkpoint(folder).spec.positions == 100


@pytest.mark.parametrize("family", ["qwen2_moe", "deepseek_v2"])
def test_a_family_that_is_timed_and_not_executed(tmp_path, family):
    folder = write_folder(tmp_path / "m", CONFIGS["qwen3_moe"])
    latent = {
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "n_routed_experts": 6,
    }
    change(
        folder,
        model_type=family,
        **({"shared_expert_intermediate_size": 16} if family == "qwen2_moe" else latent),
    )
    refused(folder, f"model_type = '{family}' is simulated, but not executed")


@pytest.mark.parametrize(
    "field", ["attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"]
)
def test_what_gemma_2_needs_beside_its_shapes(tmp_path, field):
    folder = write_folder(tmp_path / "m", CONFIGS["gemma2"])
    change(folder, **{field: "remove"})
    refused(folder, f"`{field}` is missing")
    change(folder, **{field: "wide"})
    refused(folder, f"`{field}` is 'wide'")


@pytest.mark.parametrize("given", [{"norm_topk_prob": False}, {"norm_topk_prob": "remove"}])
def test_weights_of_experts_that_do_not_add_up_to_one(tmp_path, given):
    folder = write_folder(tmp_path / "m", CONFIGS["qwen3_moe"])
    change(folder, **given)
    refused(folder, "`norm_topk_prob` is not true")


def test_weights_in_several_files(llama):
    tensors = tensors_of(CONFIGS["llama"])
    whole = load_checkpoint(llama).matrices["1.down"].load()
    (llama / "model.safetensors").unlink()
    for part, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        save_file({n: tensors[n] for n in names}, str(llama / f"model-0000{part + 1}-of-00002.safetensors"))
    assert np.array_equal(load_checkpoint(llama).matrices["1.down"].load(), whole)
    (llama / "model-00002-of-00002.safetensors").unlink()
    refused(llama, "no tensor")


def test_a_tokenizer_that_does_not_match(llama):
    with pytest.raises(TileProbeError, match="does not match the model"):
        load_tokenizer(llama, 1000)


def test_no_tokenizer(llama):
    (llama / "tokenizer.json").unlink()
    with pytest.raises(TileProbeError, match=r"no tokenizer\.json"):
        FlashModel.load(llama)


@pytest.mark.parametrize("text", ["{", "[]", '{"model": {"type": "Wurst"}}'])
def test_a_broken_tokenizer(llama, text):
    (llama / "tokenizer.json").write_text(text)
    with pytest.raises(TileProbeError, match=r"tokenizer\.json"):
        load_tokenizer(llama, 1024)


def test_unknown_weights_and_smoothing(llama):
    with pytest.raises(TileProbeError, match="expected one of w8a8, w4a16"):
        scheme_of("w2a2")
    with pytest.raises(TileProbeError, match="from 0 to 1"):
        smoothing_factors(np.ones(3), np.ones(3), 1.5)


def test_a_tile_that_does_not_fit(llama):
    from tileprobe.targets.cambricon.compile import Options

    with pytest.raises(TileProbeError):
        FlashModel.load(llama, options=Options(tile="8192x8192"))


def test_rate_and_seed(llama):
    model = FlashModel.load(llama)
    with pytest.raises(TileProbeError, match="from 0 to 1"):
        model.inject(1.5, 0)
    with pytest.raises(TileProbeError, match="seed"):
        model.inject(0.1, -1)
