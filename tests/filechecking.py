"""FileCheck for tests: does IR match the CHECK lines of a text, and does it read back as it was?"""

from __future__ import annotations

from pathlib import Path

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser as CheckParser


def assert_matches(result: str, checks: str, folder: Path) -> None:
    """`result` fulfils the `// CHECK` lines in `checks`; `folder` is a temporary one."""
    wanted = folder / "checks.mlir"
    wanted.write_text(checks)
    options = Options(match_filename=str(wanted))
    matcher = Matcher(options, FInput("result", result), CheckParser.from_opts(options))
    assert matcher.run() == 0, result
