"""Makes the tests' helpers importable; gives every run of the tests a fresh kernel cache."""

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "tests" / "session"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

os.environ.setdefault("TRITON_DEFAULT_BACKEND", "cpu")
if "TRITON_CACHE_DIR" not in os.environ:
    # A stale cache could hide a broken compiler; kept alive until the process ends.
    _cache = tempfile.TemporaryDirectory(prefix="tileprobe-tests-")
    os.environ["TRITON_CACHE_DIR"] = _cache.name
