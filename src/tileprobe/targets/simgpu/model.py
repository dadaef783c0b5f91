"""What the figures of a simulated GPU follow from, as a short key: they may differ where the key does."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from tileprobe.targets.simgpu import machine as machines

_HERE = Path(__file__).parent


@cache
def fingerprint(name: str) -> str:
    """Of a machine's numbers and of the sources that take time and count by them."""
    digest = hashlib.sha256(repr(machines.machine(name)).encode())
    for path in sorted([*(_HERE / "engine").rglob("*.py"), *(_HERE / "timing").rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
