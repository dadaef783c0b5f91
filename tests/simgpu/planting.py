"""Bugs planted into kernels: PTX that is changed before ptxas sees it, and lines of the test that ends in a comment."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path

from triton import knobs


@contextlib.contextmanager
def without(pattern, keep=0):
    """Kernels compiled inside have no PTX statement that the pattern matches, but for the first `keep`."""
    key = hashlib.sha256(f"{pattern} {keep}".encode()).hexdigest()

    def hook(backend=None, stages=None, options=None, language=None, capability=None):
        if stages is None:
            return key, key
        before = stages["ptx"]

        def edited(src, metadata):
            text, lines, seen = before(src, metadata), [], 0
            for line in text.splitlines():
                if re.search(pattern, line):
                    seen += 1
                    if seen > keep:
                        continue
                lines.append(line)
            return "\n".join(lines) + "\n"

        stages["ptx"] = edited
        return None

    previous = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = previous


def line_of(path, text):
    """The line of a file that ends in this comment."""
    lines = Path(path).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {text}"))


def named(said, path, *texts):
    """Whether a message names these lines of a file."""
    short = Path(path).name
    return all(f"{short}:{line_of(path, text)} " in str(said) for text in texts)
