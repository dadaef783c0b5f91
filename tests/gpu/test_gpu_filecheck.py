"""The lowering of records for GPUs, IR in and IR out. Whether Triton takes it, other tests see: they compile it."""

from pathlib import Path

import pytest
from xdsl.parser import Parser

from filechecking import assert_matches
from tileprobe.errors import TileProbeError
from tileprobe.ir.registry import context
from tileprobe.passes import pipeline

FILES = sorted((Path(__file__).parent / "filecheck").glob("*.mlir"))
CASES = [(path.stem, case) for path in FILES for case in path.read_text().split("// -----\n")]


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{n}" for n, (name, _) in enumerate(CASES)])
def test_lowering(name, case, tmp_path):
    passes = case.lstrip().splitlines()[0].removeprefix("// PASSES:").strip()
    error = next((line[10:] for line in case.splitlines() if line.startswith("// ERROR: ")), None)
    if error is not None:
        with pytest.raises(TileProbeError, match=error):
            lowered(case, passes)
        return
    assert_matches(lowered(case, passes), case, tmp_path)


def lowered(text, passes):
    ctx = context()
    module = Parser(ctx, text).parse_module()
    module.verify()
    pipeline(passes).apply(ctx, module)
    module.verify()
    return str(module)
