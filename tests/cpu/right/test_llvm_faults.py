"""The faults of LLVM that docs/upstream.md lists do not reach a kernel."""

from __future__ import annotations

import re
from pathlib import Path

from tileprobe.targets.cpu.loader import assembly

PAGE = Path(__file__).resolve().parents[3] / "docs" / "upstream.md"


def test_masked_load_does_not_end_the_process():
    cases = re.findall(r"```llvm\n(.*?)```", PAGE.read_text(), re.S)
    assert len(cases) == 2
    assert "vmaskmov" in assembly(cases[1]) or "vmov" in assembly(cases[1])
