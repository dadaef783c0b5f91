"""Several tokens in one pass over the pages: batches, verified drafts, prompts on both sides."""

import numpy as np
import pytest

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT
from tileprobe.targets.cambricon.report import print_report
from tileprobe.targets.cambricon.simulate import accepted, simulate, simulate_module

S = load_machine("cambricon:s")
SMALL = from_config(
    {
        "model_type": "llama", "hidden_size": 2048, "intermediate_size": 4096, "num_hidden_layers": 3,
        "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 1000,
    },
    name="small",
)  # fmt: skip


def plain(result):
    found = result.to_json()
    del found["options"]
    return found


@pytest.mark.parametrize("mode", ["split", FLASH_ONLY, NPU_ONLY])
def test_one_token_verified_is_plain_decoding(mode):
    usual = Options(context=100, mode=mode)
    assert plain(simulate(SMALL, S, usual)) == plain(
        simulate(SMALL, S, Options(context=100, mode=mode, verify=1, batch=1, acceptance=0.1))
    )


def test_the_npu_alone_verifies_at_the_price_of_one():
    """Pages are streamed once whatever the tokens: only their arithmetic grows."""
    one, four = (simulate(SMALL, S, Options(context=100, mode=NPU_ONLY, verify=k)) for k in (1, 4))
    assert four.channel_gb == one.channel_gb
    assert four.macs == 4 * one.macs
    assert four.latency_ms == pytest.approx(one.latency_ms, rel=0.02)


def test_the_flash_alone_computes_for_each_token():
    """A core's time for a page is that of one vector: four take four times as long, read once."""
    one, four = (simulate(SMALL, S, Options(context=100, mode=FLASH_ONLY, verify=k)) for k in (1, 4))
    assert four.read_compute_commands == one.read_compute_commands
    assert four.energy_j["array_read"] == one.energy_j["array_read"]
    assert four.traffic_gb["result"] == pytest.approx(4 * one.traffic_gb["result"])
    assert four.traffic_gb["input"] == pytest.approx(4 * one.traffic_gb["input"])
    assert 3.8 < four.latency_ms / one.latency_ms < 4.2


def test_the_split_moves_to_the_npu_with_more_tokens():
    found = [simulate(SMALL, S, Options(context=100, verify=k)) for k in (1, 2, 4, 6)]
    shares = [r.alpha for r in found]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1] + 0.2
    npu = simulate(SMALL, S, Options(context=100, mode=NPU_ONLY, verify=6)).latency_ms
    assert found[-1].latency_ms < npu
    assert [r.latency_ms for r in found] == sorted(r.latency_ms for r in found)


@pytest.mark.parametrize(
    ("verified", "acceptance", "tokens"), [(1, 0.5, 1.0), (3, 0.5, 1.75), (4, 1.0, 4.0), (5, 0.0, 1.0)]
)
def test_tokens_of_a_pass(verified, acceptance, tokens):
    assert accepted(verified, acceptance) == pytest.approx(tokens)
    result = simulate(SMALL, S, Options(context=100, verify=verified, acceptance=acceptance))
    assert result.tokens_per_s == pytest.approx(tokens * 1e3 / result.latency_ms)
    assert result.tokens == verified


def test_accepted_tokens_against_throwing_dice():
    rng = np.random.default_rng(3)
    good = rng.random((200_000, 4)) < 0.7
    assert accepted(5, 0.7) == pytest.approx(1 + np.cumprod(good, axis=1).sum(axis=1).mean(), rel=0.01)


def test_sequences_have_a_cache_each_and_drafts_share_one():
    one, drafts, batch = (
        simulate(SMALL, S, Options(context=4000, **more)) for more in ({}, {"verify": 3}, {"batch": 3})
    )
    assert drafts.kv_gb == one.kv_gb
    assert batch.kv_gb == pytest.approx(3 * one.kv_gb)
    assert batch.energy_j["dram"] == pytest.approx(3 * one.energy_j["dram"], rel=0.05)
    assert drafts.energy_j["dram"] < 1.1 * one.energy_j["dram"]
    assert batch.latency_ms > drafts.latency_ms > one.latency_ms
    assert batch.tokens_per_s == pytest.approx(3e3 / batch.latency_ms)


def test_a_prompt_on_both_sides(capsys):
    """Few tokens gain from the cores; many do not, and are the NPU's alone then: half of the planes serve no reads."""
    gains, modes = [], []
    for tokens in (2, 4, 8, 64, 1000):
        alone, both = (
            simulate(SMALL, S, Options(context=tokens, prefill=True, prefill_split=s)) for s in (False, True)
        )
        gains.append(alone.latency_ms / both.latency_ms)
        modes.append(both.options.mode)
    assert gains[0] > 1.5
    assert gains == sorted(gains, reverse=True)
    assert gains[-2:] == [1.0, 1.0]
    assert (modes[0], modes[-1]) == (SPLIT, NPU_ONLY)
    print_report(both, S)
    assert "npu-only: cores would make this prompt slower" in " ".join(capsys.readouterr().out.split())


def test_a_batch_goes_through_text(tmp_path, capsys):
    options = Options(context=100, batch=2, verify=2)
    module = compile_step(SMALL, S, options)
    assert "tokens 4 sequences 2 context 100" in str(module)
    file = tmp_path / "step.mlir"
    file.write_text(str(module))
    assert main(["llm", "--from-ir", str(file)]) == 0
    assert "2 sequences, 2 tokens verified a pass" in " ".join(capsys.readouterr().out.split())
    assert simulate_module(module).latency_ms == simulate(SMALL, S, options).latency_ms


@pytest.mark.parametrize("tiling", ["paper", "best"])
def test_inputs_of_all_tokens_fit_the_buffer(tiling):
    result = simulate(SMALL, S, Options(context=100, mode=FLASH_ONLY, verify=16, tiling=tiling))
    for _, cols in result.tiles.values():
        assert cols // S.flash.channels * 16 <= S.core.buffer_bytes


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("llama3-8b", {"batch": 0}, "1 or more"),
        ("llama3-8b", {"acceptance": 1.5}, "acceptance lies between 0 and 1"),
        ("llama3-8b", {"batch": 2, "kv": "spill"}, "no --prefill and no --kv spill"),
        ("llama3-8b", {"batch": 1000}, "KV cache of 1000 sequences of 1000 tokens"),
        ("mixtral-8x7b", {"verify": 2}, "one token at a time"),
    ],
)
def test_what_cannot_be_batched_says_why(model, options, message):
    with pytest.raises(TileProbeError, match=message):
        simulate(load_model(model), S, Options(**options))
