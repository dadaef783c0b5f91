"""`llm generate` and `llm ber` from arguments to files; the sweep and the layer with planted outliers."""

from __future__ import annotations

import argparse
import json
import xml.dom.minidom

import numpy as np
import polars as pl
import pytest
from functional_models import EXAMPLE

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional import cli
from tileprobe.targets.cambricon.functional.layers import OUTLIERS, run_layer
from tileprobe.targets.cambricon.functional.perplexity import token_losses
from tileprobe.targets.cambricon.machine import load_machine


def call(command, *words):
    parser = argparse.ArgumentParser()
    getattr(cli, f"add_{command}_arguments")(parser)
    return getattr(cli, f"run_{command}")(parser.parse_args([str(w) for w in words]))


def test_generate(capsys, tmp_path):
    out = tmp_path / "out.json"
    words = (
        "--model",
        EXAMPLE,
        "--prompt",
        "She was",
        "--tokens",
        12,
        "--ber",
        "1e-3",
        "--seed",
        5,
        "--json",
        out,
    )
    assert call("generate", *words) == 0
    report = json.loads(out.read_text())
    assert len(report["tokens"]) == 12
    shown = capsys.readouterr().out
    first_words = "She was" + report["text"].split("\n")[0]
    assert first_words[:30] in shown
    assert report["errors"]["flips_data"] > 0
    assert report["errors"]["decoder"]["pages"] > 0
    assert report["tokens_per_s"] > 0
    call("generate", *words)
    assert json.loads(out.read_text()) == report


def test_generate_each_token(capsys):
    call(
        "generate", "--model", EXAMPLE, "--prompt", "She was", "--tokens", 3, "--each-token", "--ecc", "none"
    )
    assert capsys.readouterr().out.count(" ms  ") == 3


@pytest.mark.parametrize("rate", ["-0.1", "1.1", "nan", "much"])
def test_a_rate_outside_0_to_1_is_refused(rate, capsys):
    with pytest.raises(SystemExit):
        call("generate", "--model", EXAMPLE, "--prompt", "x", f"--ber={rate}")
    assert "no bit error rate" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("--prompt", ""), ("--prompt", "x", "--tokens", "0"), ("--prompt", "x", "--ecc", "rs")]
)
def test_bad_arguments_of_generate(words):
    with pytest.raises(TileProbeError):
        call("generate", "--model", EXAMPLE, *words)


def test_ber(capsys, tmp_path):
    files = {name: tmp_path / f"out.{name}" for name in ("json", "parquet", "svg")}
    rates, codes = ("1e-3", "3e-2"), ("none", "paper", "bch")
    call(
        "ber", "--model", EXAMPLE, "--ecc", *codes, "--ber", *rates, "--seeds", 2, "--tokens", 128,
        "--json", files["json"], "--parquet", files["parquet"], "--plot", files["svg"],
    )  # fmt: skip
    result = json.loads(files["json"].read_text())
    assert len(result["runs"]) == 1 + 3 * (1 + 2 * 2)
    assert pl.read_parquet(files["parquet"]).height == len(result["runs"])
    assert len(xml.dom.minidom.parse(str(files["svg"])).getElementsByTagName("circle")) == 3 * 2
    rows = {(r["ecc"], r["rate"]): r for r in result["summary"]}
    assert rows["none", 0.03]["perplexity"] > 1.2 * rows["none", 0.0]["perplexity"]
    assert rows["bch", 0.001]["perplexity"] == rows["none", 0.0]["perplexity"]
    assert rows["paper", 0.03]["perplexity"] < rows["none", 0.03]["perplexity"]
    for run in result["runs"][1:]:
        assert run["hit"] == run["corrected"] + run["zeroed"] + run["missed"]
    assert "perplexity" in capsys.readouterr().out


def test_ber_without_a_text(tmp_path):
    with pytest.raises(TileProbeError, match="no text"):
        call("ber", "--model", EXAMPLE, "--text", tmp_path / "none.txt")
    with pytest.raises(TileProbeError, match="no error correction named"):
        call("ber", "--model", EXAMPLE, "--ecc", "magic")
    with pytest.raises(TileProbeError, match="at least 1"):
        call("ber", "--model", EXAMPLE, "--seeds", "0")


def test_the_paper_code_helps_most_where_there_are_outliers():
    rows = run_layer(
        load_machine("cambricon:s"), OUTLIERS, ("none", "paper", "paper:signed"), (1e-3,), seeds=2
    )
    error = {
        code: np.mean([r["error"] for r in rows if r["ecc"] == code])
        for code in ("none", "paper", "paper:signed")
    }
    assert error["paper"] < error["none"] / 4
    assert error["paper"] < error["paper:signed"] < error["none"]


def test_losses_of_a_broken_model_stay_finite():
    logits = np.array([[np.nan, 0.0, 1.0], [np.inf, 0.0, 1.0], [0.0, 0.0, 0.0]], np.float32)
    losses = token_losses(logits, np.array([0, 1, 2]))
    assert np.isfinite(losses).all()
    assert losses[2] == pytest.approx(np.log(3))
