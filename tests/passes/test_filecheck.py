"""Runs the files of `filecheck/`: each names its passes on the first line and holds what must come out.

`// PASSES: pipeline` runs a pipeline, an empty one is a round trip; `// ERROR: text` expects a refusal.
"""

from pathlib import Path

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from filechecking import assert_matches
from tileprobe.errors import TileProbeError
from tileprobe.ir.registry import context
from tileprobe.passes import pipeline

FILES = sorted((Path(__file__).parent / "filecheck").glob("*.mlir"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(path, tmp_path):
    cases = path.read_text().split("// -----\n")
    for case in cases:
        first = case.lstrip().splitlines()[0]
        assert first.startswith("// PASSES:"), f"{path.name} does not say what to run"
        error = next((line[10:] for line in case.splitlines() if line.startswith("// ERROR: ")), None)
        if error is not None:
            with pytest.raises((VerifyException, TileProbeError), match=error):
                run(case, first[10:].strip())
            continue
        result = run(case, first[10:].strip())
        assert_matches(result, case, tmp_path)
        again = Parser(context(), result).parse_module()
        assert str(again) == result, "the output does not read back as it was"


def run(text, passes):
    ctx = context()
    module = Parser(ctx, text).parse_module()
    module.verify()
    if passes:
        pipeline(passes).apply(ctx, module)
        module.verify()
    return str(module)
