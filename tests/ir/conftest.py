"""Makes `examples` importable and gives a run of the tests a kernel cache of its own."""

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

if "TRITON_CACHE_DIR" not in os.environ:
    # A stale cache could hide a broken compiler; this one lives as long as the process.
    _cache = tempfile.TemporaryDirectory(prefix="tileprobe-tests-")
    os.environ["TRITON_CACHE_DIR"] = _cache.name
