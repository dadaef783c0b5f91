"""A few hundred fixed kernels of the fuzzer. `make fuzz` runs any number of others."""

from __future__ import annotations

import pytest
from fuzz.campaign import campaign
from fuzz.process import ISAS

PER_CHUNK = 32
# Chunks so that xdist can share them out. Each vector width has seeds of its own.
CHUNKS = [(isa, first) for first in range(0, 288, PER_CHUNK * len(ISAS)) for isa in ISAS]


@pytest.mark.parametrize(("isa", "first"), CHUNKS)
def test_kernels_do_what_the_interpreter_does(isa, first, tmp_path):
    start = first + PER_CHUNK * list(ISAS).index(isa)
    outcome = campaign(range(start, start + PER_CHUNK), (isa,), folder=tmp_path)
    shown = [f"seed {f.seed}: {f.kind}: {f.words}" for f in outcome.findings]
    assert not shown, "\n".join([*shown, "`python -m fuzz --one SEED` shrinks one of them"])
    assert outcome.kernels == PER_CHUNK
    assert len(outcome.refused) <= PER_CHUNK // 4, f"most kernels must mean something: {outcome.refused}"
