"""Models of every family through the machine: equal to a plain reference, close to the float model."""

from __future__ import annotations

import numpy as np
import pytest
from functional_models import CONFIGS, EXAMPLE, tensors_of, write_folder

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.functional.checkpoint import load_checkpoint
from tileprobe.targets.cambricon.functional.generate import Sampler, generate
from tileprobe.targets.cambricon.functional.model import FlashModel, float_linear
from tileprobe.targets.cambricon.functional.outliers import plant_outliers
from tileprobe.targets.cambricon.functional.perplexity import score
from tileprobe.targets.cambricon.functional.timing import make_timer
from tileprobe.targets.cambricon.functional.tokenizer import load_tokenizer
from tileprobe.targets.cambricon.functional.transformer import Cache, Transformer

TOKENS = np.random.default_rng(1).integers(0, 1024, 20).tolist()


def float_model(folder):
    checkpoint = load_checkpoint(folder)
    return Transformer.of(checkpoint, float_linear(checkpoint))


@pytest.mark.parametrize("weights", ["w8a8", "w4a16"])
def test_the_machine_equals_a_plain_reference_bit_by_bit(folder, weights):
    model = FlashModel.load(folder, weights=weights)
    norms = model.transformer.head_norms, model.transformer.post_norms
    reference = Transformer(model.spec, *_parts(model), model.reference_linear, *norms)
    found = model.transformer(TOKENS, model.new_cache())
    assert np.array_equal(found, reference(TOKENS, model.new_cache()))
    assert model.flash.work.saturated == 0


def _parts(model):
    t = model.transformer
    return t.embedding, t.positions, t.norms


@pytest.mark.parametrize(
    "options", [Options(tile="64x512"), Options(tile="512x1024"), Options(mode="npu-only")]
)
def test_the_layout_changes_no_logit(folder, options):
    first = FlashModel.load(folder)
    other = FlashModel.load(folder, options=options)
    assert np.array_equal(
        first.transformer(TOKENS, first.new_cache()), other.transformer(TOKENS, other.new_cache())
    )


def test_w8a8_is_close_to_float(folder):
    exact = float_model(folder)(TOKENS, Cache(load_checkpoint(folder).spec))
    model = FlashModel.load(folder)
    found = model.transformer(TOKENS, model.new_cache())
    assert np.linalg.norm(found - exact) / np.linalg.norm(exact) < 0.05


def test_token_by_token_equals_all_at_once(folder):
    model = FlashModel.load(folder)
    at_once = model.transformer(TOKENS, model.new_cache())
    cache = model.new_cache()
    one_by_one = np.concatenate([model.transformer([t], cache) for t in TOKENS])
    np.testing.assert_allclose(one_by_one, at_once, rtol=0, atol=2e-2 * np.abs(at_once).max())


def test_it_matches_torch(family, tmp_path):
    """The NumPy decoder against a few lines of torch, written from the families' definitions."""
    torch = pytest.importorskip("torch")
    from functional_torch import logits

    config = CONFIGS[family]
    folder = write_folder(tmp_path / "m", config)
    expected = logits(torch, config, tensors_of(config), TOKENS)
    found = float_model(folder)(TOKENS, Cache(load_checkpoint(folder).spec))
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


def test_planted_outliers_do_not_change_the_function(folder):
    checkpoint = load_checkpoint(folder)
    planted = plant_outliers(checkpoint, 16.0)
    exact = float_model(folder)(TOKENS, Cache(checkpoint.spec))
    found = Transformer.of(planted, float_linear(planted))(TOKENS, Cache(checkpoint.spec))
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-3)
    assert np.abs(planted.matrices["0.q"].load()).max() > 4 * np.abs(checkpoint.matrices["0.q"].load()).max()


def test_bfloat16_and_float64_weights_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    tensors = tensors_of(CONFIGS["llama"])
    folder = write_folder(tmp_path / "m", CONFIGS["llama"])
    for kind in (torch.bfloat16, torch.float64, torch.float16):
        save_file({k: torch.from_numpy(v).to(kind) for k, v in tensors.items()}, folder / "model.safetensors")
        found = load_checkpoint(folder).matrices["1.gate"].load()
        expected = torch.from_numpy(tensors["model.layers.1.mlp.gate_proj.weight"]).to(kind).float().numpy()
        assert np.array_equal(found, expected)


def test_the_example_speaks_english():
    model = FlashModel.load(EXAMPLE)
    tokenizer = load_tokenizer(EXAMPLE, model.spec.vocab)
    text = (EXAMPLE / "heldout.txt").read_text(encoding="utf-8")
    result = model.score(tokenizer.encode(text), 512)
    assert result.perplexity < 40  # 1024 for a guess
    exact = score(float_model(EXAMPLE), tokenizer.encode(text), 512)
    assert abs(result.loss - exact.loss) < 0.02
    tokens = list(generate(model, tokenizer, "It is a truth", 30, Sampler(seed=3)))
    again = list(generate(model, tokenizer, "It is a truth", 30, Sampler(seed=3)))
    assert [t.number for t in tokens] == [t.number for t in again]
    assert len(tokens) == 30
    assert sum(c.isalpha() or c.isspace() for c in "".join(t.text for t in tokens)) > 50


def test_a_token_comes_with_its_time():
    model = FlashModel.load(EXAMPLE)
    tokenizer = load_tokenizer(EXAMPLE, model.spec.vocab)
    timer = make_timer(model.spec.model, model.machine, model.options)
    tokens = list(generate(model, tokenizer, "She was", 3, Sampler(0.0), timer))
    assert all(t.simulated_us > model.machine.flash.read_us for t in tokens)


def test_values_and_time_read_the_same_pages():
    from tileprobe.targets.cambricon.simulate import simulate

    model = FlashModel.load(EXAMPLE)
    model.transformer([7], model.new_cache())
    timed = simulate(model.spec.model, model.machine, Options(context=1, lm_head=True))
    assert model.flash.work.read_computes + model.flash.work.page_reads == timed.page_commands
    timer = make_timer(model.spec.model, model.machine, model.options)
    assert timer(1) == pytest.approx(1e3 * timed.latency_ms)


def test_hopeless_errors_do_not_crash():
    model = FlashModel.load(EXAMPLE, ecc="none")
    model.inject(0.5, seed=1)
    tokenizer = load_tokenizer(EXAMPLE, model.spec.vocab)
    assert len(list(generate(model, tokenizer, "It is", 5))) == 5
    assert model.score(tokenizer.encode("It is a truth universally acknowledged")).perplexity > 100


def test_generation_stops_at_the_end_of_the_context(llama, tmp_path):
    folder = write_folder(tmp_path / "short", {**CONFIGS["llama"], "max_position_embeddings": 12})
    model = FlashModel.load(folder, smoothing=None)
    tokenizer = load_tokenizer(folder, model.spec.vocab)
    prompt = "It is a truth"
    tokens = list(generate(model, tokenizer, prompt, 50))
    assert len(tokenizer.encode(prompt)) + len(tokens) == 13  # the last token needs no place
    with pytest.raises(TileProbeError, match="made for 12"):
        list(generate(model, tokenizer, prompt * 10, 1))


@pytest.mark.parametrize(("temperature", "top_k"), [(-1.0, 40), (float("nan"), 40), (0.7, 0)])
def test_a_senseless_choice_is_refused(temperature, top_k):
    with pytest.raises(TileProbeError):
        Sampler(temperature, top_k)
