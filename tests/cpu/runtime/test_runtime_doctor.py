"""`tileprobe doctor`: one row a part, and a way out for each that is not well."""

from __future__ import annotations

import json
import os

from tileprobe.cli import main
from tileprobe.targets.cpu import checkup


def test_this_machine_is_well(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("Triton", "LLVM", "vectors of", "threads", "torch", "cache", "softmax"):
        assert word in out


def test_findings_as_json(capsys):
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {f["name"] for f in findings} >= {"Triton", "CPU", "GPU", "kernel"}
    assert all(f["state"] in ("good", "note") for f in findings)


def test_a_fault_is_reported_with_a_remedy(capsys, monkeypatch):
    def broken():
        raise ImportError("no module named llvmlite")

    monkeypatch.setattr(checkup, "_llvm", broken)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "no module named llvmlite" in out
    assert "pip install" in out


def test_a_cache_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    finding = checkup._cache()
    assert finding.state == "bad"
    assert "TRITON_CACHE_DIR" in finding.remedy
