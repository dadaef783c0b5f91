"""Runs the files of `filecheck/`: IR in, IR out, for the `cam` dialect and each of its passes.

`// PASSES: pipeline` runs a pipeline, an empty one is a round trip; `// ERROR: text` expects a refusal.
"""

from pathlib import Path

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from filechecking import assert_matches
from tileprobe.errors import TileProbeError
from tileprobe.ir.registry import context
from tileprobe.passes import available as passes
from tileprobe.passes import pipeline

CASES = [
    (f"{path.stem}-{n}", case)
    for path in sorted((Path(__file__).parent / "filecheck").glob("*.mlir"))
    for n, case in enumerate(path.read_text().split("// -----\n"))
]


def run(text, names):
    ctx = context()
    module = Parser(ctx, text).parse_module()
    module.verify()
    if names:
        pipeline(names).apply(ctx, module)
        module.verify()
    return str(module)


@pytest.mark.parametrize(("name", "case"), CASES, ids=[name for name, _ in CASES])
def test_case(name, case, tmp_path):
    first = case.lstrip().splitlines()[0]
    assert first.startswith("// PASSES:")
    names = first[10:].strip()
    error = next((line[10:] for line in case.splitlines() if line.startswith("// ERROR: ")), None)
    if error is not None:
        with pytest.raises((VerifyException, TileProbeError), match=error):
            run(case, names)
        return
    result = run(case, names)
    assert_matches(result, case, tmp_path)
    assert str(Parser(context(), result).parse_module()) == result, "the output does not read back as it was"


def test_opt_knows_the_passes():
    assert {"cam-tile", "cam-split", "cam-double-buffer", "cam-map-pages", "cam-slice"} <= set(passes())
