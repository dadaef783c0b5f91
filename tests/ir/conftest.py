"""Gives a run of the tests a kernel cache of its own: a stale one could hide a broken compiler."""

import os
import tempfile

if "TRITON_CACHE_DIR" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="tileprobe-tests-")  # lives as long as the process
    os.environ["TRITON_CACHE_DIR"] = _cache.name
