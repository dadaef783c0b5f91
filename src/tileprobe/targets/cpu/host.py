"""The machine kernels are compiled for: its CPU, features, vector width and number of threads.

Everything that depends on the host asks here, so that the environment can make the code narrower for a test:
`TILEPROBE_CPU` (an LLVM CPU name such as `x86-64-v2`), `TILEPROBE_VECTOR_BYTES` (16, 32 or 64) and
`TILEPROBE_NUM_THREADS`.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from tileprobe.errors import TileProbeError

# Vector registers of the x86-64 psABI's levels; other named CPUs need TILEPROBE_VECTOR_BYTES.
_LEVEL_BYTES = {"x86-64": 16, "x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64, "generic": 16}
# What those levels add over the one before, as far as code generation asks for it by name.
_LEVEL_FEATURES = {
    "x86-64": ("sse", "sse2"),
    "x86-64-v2": ("sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16"),
}
_LEVEL_FEATURES["x86-64-v3"] = (
    *_LEVEL_FEATURES["x86-64-v2"],
    *("avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"),
)
_LEVEL_FEATURES["x86-64-v4"] = (
    *_LEVEL_FEATURES["x86-64-v3"],
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
)


@dataclass(frozen=True)
class Host:
    """One CPU as LLVM names it. `vector_bytes` is the width of the vectors code generation uses."""

    arch: str  # "x86_64", "aarch64"
    triple: str
    cpu_name: str
    features: str  # LLVM feature string: "+avx2,-avx512f,..."
    vector_bytes: int

    def has(self, feature: str) -> bool:
        """Whether the CPU has an LLVM feature, e.g. `fma`, `f16c`, `avx512bf16`."""
        return feature in _enabled(self.features) or feature in _LEVEL_FEATURES.get(self.cpu_name, ())

    def may_have(self, feature: str) -> bool:
        """The same, and yes for a CPU of which only its name is known here."""
        return self.has(feature) or (not self.features and self.cpu_name not in _LEVEL_FEATURES)

    def target_machine(self, opt: int = 2) -> Any:
        """An LLVM target machine for code that the loader will put into this process."""
        _initialize()
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu_name, features=self.features, opt=opt, reloc="pic", codemodel="small", jit=True
        )

    def key(self) -> str:
        """All that object code depends on, for cache keys."""
        version = ".".join(map(str, llvm.llvm_version_info))
        code = f"{self.triple};{self.cpu_name};{self.features};{self.vector_bytes}"
        return f"{code};llvmlite {llvmlite.__version__};LLVM {version}"


@lru_cache(maxsize=1)
def host() -> Host:
    """The CPU of this process, or the one the environment asks for."""
    arch = platform.machine()
    name = os.environ.get("TILEPROBE_CPU", "")
    if name:
        return Host(arch, llvm.get_default_triple(), name, "", _override_bytes() or _level_bytes(name))
    feature_map = llvm.get_host_cpu_features()
    features = ",".join(f"{'+' if on else '-'}{f}" for f, on in sorted(feature_map.items()))
    width = _override_bytes() or _widest(feature_map)
    return Host(arch, llvm.get_default_triple(), llvm.get_host_cpu_name(), features, width)


def default_threads() -> int:
    """`TILEPROBE_NUM_THREADS`, else the number of CPUs this process may run on."""
    text = os.environ.get("TILEPROBE_NUM_THREADS", "")
    if not text:
        return len(os.sched_getaffinity(0))
    if not text.isdigit() or int(text) < 1:
        raise TileProbeError(
            f"TILEPROBE_NUM_THREADS is {text!r}; expected a whole number of threads, 1 or more"
        )
    return int(text)


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # inline assembly aborts the process without it
    if platform.machine() == "x86_64":
        # This pass looks at the size of each load, and ends the process at one that has none, such as what LLVM makes
        # of some masked loads (docs/upstream.md). It has nothing to do in vector code.
        llvm.set_option("tileprobe", "--x86-disable-avoid-SFB")


@lru_cache(maxsize=8)
def _enabled(features: str) -> frozenset[str]:
    return frozenset(f[1:] for f in features.split(",") if f.startswith("+"))


def _widest(features: Any) -> int:
    if features.get("avx512f"):
        return 64
    if features.get("avx2"):
        return 32
    return 16  # SSE2 on every x86-64, NEON on every AArch64


def _level_bytes(name: str) -> int:
    if name not in _LEVEL_BYTES:
        raise TileProbeError(
            f"TILEPROBE_CPU is {name!r}, whose vector width is not known here; "
            f"set TILEPROBE_VECTOR_BYTES as well, or use one of {', '.join(_LEVEL_BYTES)}"
        )
    return _LEVEL_BYTES[name]


def _override_bytes() -> int | None:
    text = os.environ.get("TILEPROBE_VECTOR_BYTES", "")
    if not text:
        return None
    if text not in ("16", "32", "64"):
        raise TileProbeError(f"TILEPROBE_VECTOR_BYTES is {text!r}; expected 16, 32 or 64")
    return int(text)
