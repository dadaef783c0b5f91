"""What `tileprobe doctor` looks at: each check returns a finding, and none of them may raise.

A finding is `good`, a `note` (something optional is not there) or `bad` with a remedy.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tileprobe.targets.base import Finding


def examine() -> Iterator[Finding]:
    """All checks, in the order in which one builds on the other."""
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("Python", _python),
        ("Triton", _triton),
        ("LLVM", _llvm),
        ("CPU", _cpu),
        ("threads", _threads),
        ("GPU", _gpu),
        ("torch", _torch),
        ("cache", _cache),
        ("backend", _backend),
        ("kernel", _kernel),
    ]
    for name, check in checks:
        try:
            yield check()
        except Exception as error:
            text = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
            yield Finding(
                name, "bad", text, _REMEDIES.get(name, "Report it with the output of this command.")
            )


_REMEDIES = {
    "Triton": "Install it: pip install 'triton>=3.9,<3.10'",
    "LLVM": "Install it: pip install 'llvmlite>=0.50,<0.51'",
    "backend": "Reinstall tileprobe, so that Triton finds it: pip install --force-reinstall tileprobe",
    "kernel": "Report it, with the output of this command.",
}


def _python() -> Finding:
    return Finding(
        "Python", "good", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    )


def _triton() -> Finding:
    version = importlib.metadata.version("triton")
    if not version.startswith("3.9."):
        return Finding("Triton", "bad", f"{version}; tileprobe is written for 3.9", _REMEDIES["Triton"])
    return Finding("Triton", "good", version)


def _llvm() -> Finding:
    import llvmlite
    import llvmlite.binding as llvm

    version = ".".join(map(str, llvm.llvm_version_info))
    return Finding("LLVM", "good", f"{version} (llvmlite {llvmlite.__version__})")


def _cpu() -> Finding:
    from tileprobe.targets.cpu.host import host

    machine = host()
    wanted = (
        "avx512f",
        "avx2",
        "fma",
        "f16c",
        "avx512bf16",
        "avx512fp16",
        "amx-tile",
        "sve",
        "neon",
        "sse4.2",
    )
    found = ", ".join(f for f in wanted if machine.has(f)) or "no vector extensions named"
    return Finding("CPU", "good", f"{machine.cpu_name}, vectors of {machine.vector_bytes} bytes ({found})")


def _threads() -> Finding:
    from tileprobe.targets.cpu.host import default_threads

    source = (
        "TILEPROBE_NUM_THREADS" if os.environ.get("TILEPROBE_NUM_THREADS") else "the CPUs of this process"
    )
    return Finding("threads", "good", f"{default_threads()} ({source}; the machine has {os.cpu_count()})")


def _gpu() -> Finding:
    from triton.backends import backends

    active = [name for name, backend in backends.items() if name != "cpu" and backend.driver.is_active()]
    if not active:
        return Finding("GPU", "note", "none answers; kernels compile for GPUs all the same")
    chosen = os.environ.get("TRITON_DEFAULT_BACKEND", active[0])
    hint = 'tileprobe.use("cpu") or TRITON_DEFAULT_BACKEND=cpu runs kernels on the CPU'
    return Finding("GPU", "good", f"{', '.join(active)} (in use: {chosen}; {hint})")


def _torch() -> Finding:
    if find_spec("torch") is None:
        return Finding("torch", "note", "not installed; tileprobe.array(...) takes NumPy arrays")
    return Finding("torch", "good", importlib.metadata.version("torch"))


def _cache() -> Finding:
    from triton import knobs

    folder = Path(knobs.cache.dir)
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    if not os.access(existing, os.W_OK):
        remedy = "Set TRITON_CACHE_DIR to a folder you may write to."
        return Finding("cache", "bad", f"{folder} is not writable", remedy)
    return Finding("cache", "good", str(folder))


def _backend() -> Finding:
    from triton.backends import backends

    if "cpu" not in backends:
        return Finding("backend", "bad", f"Triton knows only {', '.join(backends)}", _REMEDIES["backend"])
    if not backends["cpu"].driver.__module__.startswith("tileprobe."):
        found = backends["cpu"].driver.__module__
        return Finding(
            "backend", "bad", f"'cpu' is {found}", "Uninstall the other package with a backend 'cpu'."
        )
    return Finding("backend", "good", "Triton finds 'cpu'")


def _kernel() -> Finding:
    """Compiles and runs a kernel with a tail, a reduction and a call to exp, and compares with NumPy."""
    import numpy as np
    from triton import knobs
    from triton.runtime import cache

    import tileprobe
    from tileprobe.targets.cpu.checkup_kernel import row_softmax

    rows, columns = 37, 1000
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    out = np.zeros_like(x)
    launch: Any = row_softmax[(rows,)]
    cache.triton_key()  # Triton's own start-up is not part of the time
    with tileprobe.use("cpu"), knobs.cache.scope(), tempfile.TemporaryDirectory() as folder:
        knobs.cache.dir = folder  # nothing from the cache: compiling is part of the test
        begin = time.perf_counter()
        launch(tileprobe.array(x), tileprobe.array(out), columns, BLOCK=1024)
        seconds = time.perf_counter() - begin
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    error = np.abs(out - wide / wide.sum(axis=1, keepdims=True)).max()
    if not error < 1e-6:
        return Finding("kernel", "bad", f"a softmax is off by {error:.2g}", _REMEDIES["kernel"])
    return Finding(
        "kernel", "good", f"a softmax of {rows} x {columns} is right ({seconds:.2f} s with compiling)"
    )
