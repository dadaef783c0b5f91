"""A kernel, decoded: micro-ops, rows of constants, and where each instruction comes from.

In comes a cubin; out goes `Program`, which is kept on disk by the cubin and by the sources that decoded it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.files import cache_home, write_file
from tileprobe.targets.simgpu import cubin as cubins
from tileprobe.targets.simgpu.cubin import Cubin
from tileprobe.targets.simgpu.errors import BadCubin

ARCHITECTURES = (80, 90)
_ORDERED = ("ATOMG", "RED", "ATOM", "REDG", "UTMAREDG", "UBLKRED")  # the order of programs can be seen
PROBES = "tileprobe.overhead"  # the file that instructions of probes are said to be in (`record_to_ttgir.OTHER_FILE`)
_ARRAYS = ("uops", "specs", "lines", "files")


@dataclass
class Program:
    name: str
    arch: int
    cubin: Cubin
    uops: np.ndarray  # instructions x 16
    specs: np.ndarray  # rows of constants: (-1, number) or (bank, offset)
    registers: int  # rows of registers a warp needs
    uniforms: int  # of uniform ones
    texts: list[str]
    lines: np.ndarray
    files: np.ndarray  # numbers of file names
    file_names: list[str] = field(default_factory=list)
    atomic: bool = False  # the order of programs can be seen in the result
    local: bool = False  # it has local memory
    copies: bool = False  # it copies asynchronously, warp by warp

    @property
    def swaps(self) -> bool:
        """Whether it exchanges words of global memory by comparing them."""
        return any("ATOMG" in text and "CAS" in text for text in self.texts)

    def place(self, pc: int) -> str:
        """The source line of an instruction; of one that belongs to a probe the line before which it stands."""
        if not 0 <= pc < len(self.texts) or not self.lines[pc]:
            return f"instruction {pc}"
        near = next((n for n in (*range(pc, len(self.texts)), *range(pc, -1, -1)) if self._written(n)), pc)
        where = f"{self.file_names[self.files[near]]}:{self.lines[near]}"
        return where if near == pc else f"a probe at {where}"

    def _written(self, pc: int) -> bool:
        return bool(self.lines[pc]) and self.file_names[self.files[pc]] != PROBES


def decode(data: bytes, name: str | None = None, arch: int | None = None) -> Program:
    """The kernel of a cubin as micro-ops, from the disk where it was decoded before."""
    found = cubins.read(data, name)
    if found.arch not in ARCHITECTURES:
        known = ", ".join(f"sm_{n}" for n in ARCHITECTURES)
        raise BadCubin(
            f"the kernel {found.name} is compiled for sm_{found.arch}; code for {known} can be run"
        )
    if arch is not None and found.arch != arch:
        raise BadCubin(
            f"the kernel {found.name} is compiled for sm_{found.arch}, and this machine is sm_{arch}"
        )
    path = _kept(data, found.name)
    kept = _load(path, found)
    if kept is not None:
        return kept
    made = _decode(data, found)
    _save(path, made)
    return made


def _decode(data: bytes, found: Cubin) -> Program:
    from tileprobe.targets.simgpu.listing import disassemble
    from tileprobe.targets.simgpu.lower.all import lower

    listing = disassemble(data, found.name)
    uops, kernel = lower(listing, found.arch)
    names = sorted({op.file for op in listing.instructions})
    numbers = {name: n for n, name in enumerate(names)}
    return Program(
        found.name,
        found.arch,
        found,
        uops,
        np.array(kernel.rows.specs, np.int64).reshape(-1, 2),
        kernel.registers,
        kernel.uniforms,
        [op.text for op in listing.instructions],
        np.array([op.line for op in listing.instructions], np.int32),
        np.array([numbers[op.file] for op in listing.instructions], np.int32),
        names,
        atomic=any(
            op.root in _ORDERED or (op.root in ("LDG", "LD") and "STRONG" in op.mods)
            for op in listing.instructions
        ),
        copies=any(op.root in ("LDGSTS", "ARRIVES") for op in listing.instructions),
        local=any(op.root in ("LDL", "STL", "CALL", "LD", "ST") for op in listing.instructions),
    )


# -- on disk -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _kept(data: bytes, name: str) -> Path:
    digest = hashlib.sha256(data + name.encode()).hexdigest()[:32]
    return cache_home() / f"simgpu-programs-{_sources()}" / f"{digest}.npz"


def _save(path: Path, made: Program) -> None:
    meta = {
        "registers": made.registers,
        "uniforms": made.uniforms,
        "texts": made.texts,
        "file_names": made.file_names,
        "atomic": made.atomic,
        "local": made.local,
        "copies": made.copies,
    }
    out = io.BytesIO()
    arrays = {name: getattr(made, name) for name in _ARRAYS}
    np.savez(out, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)
    with contextlib.suppress(TileProbeError):  # nowhere to keep it: decode in each process
        write_file(path, out.getvalue(), make_folder=True)


def _load(path: Path, found: Cubin) -> Program | None:
    try:
        with np.load(path, allow_pickle=False) as kept:
            meta = json.loads(kept["meta"].tobytes())
            arrays = {name: kept[name] for name in _ARRAYS}
    except (OSError, ValueError, KeyError, EOFError):
        return None
    return Program(found.name, found.arch, found, **arrays, **meta)
