"""The parent's view of a worker: ask, wait for so long, notice death, start anew."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Vector widths on one machine. "wide" is real AVX-512 where the CPU has it; elsewhere LLVM splits the vectors.
ISAS: dict[str, dict[str, str]] = {
    "native": {},
    "sse2": {"TILEPROBE_CPU": "x86-64-v2"},
    "wide": {"TILEPROBE_VECTOR_BYTES": "64"},
}
# After so many kernels a worker is replaced: loaded code and interned types only grow.
LIFETIME = 400
_STARTUP_SECONDS = 120


class Worker:
    """One child process of a role: the oracle, or the CPU target with a vector width."""

    def __init__(self, role: str, environment: dict[str, str], seconds: float):
        self._role = role
        self._seconds = seconds
        self._cache = tempfile.TemporaryDirectory(prefix="tileprobe-fuzz-cache-")
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TILEPROBE_", "TRITON_"))},
            "TRITON_DEFAULT_BACKEND": "cpu",
            "TRITON_CACHE_DIR": self._cache.name,
            "TILEPROBE_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p) or ".",
            **environment,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0

    def _start(self) -> None:
        read_request, write_request = os.pipe()
        read_answer, write_answer = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", self._role, str(read_request), str(write_answer)],
            env=self._environment,
            pass_fds=(read_request, write_answer),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).resolve().parents[1],
        )
        os.close(read_request)
        os.close(write_answer)
        self._requests = Connection(write_request, readable=False)
        self._answers = Connection(read_answer, writable=False)
        self._asked = 0
        # It says when its imports are done: they are not part of a kernel's time.
        if not self._answers.poll(_STARTUP_SECONDS) or self._answers.recv() != "ready":
            raise RuntimeError(f"a worker did not start: {self._role}")

    def ask(self, *request: Any) -> tuple[str, Any]:
        """("ok", results), or a kind of finding and words about it."""
        if self._process is not None and self._asked >= LIFETIME:
            self.stop()
        try:
            if self._process is None:
                self._start()
            self._asked += 1
            self._requests.send(request)
            if not self._answers.poll(self._seconds):
                self.stop()
                return "timeout", f"longer than {self._seconds:g} s"
            return self._answers.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            code = self._died()
            return "crash", signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def _died(self) -> int:
        assert self._process is not None
        code = self._process.wait(timeout=30)
        self.stop()
        return code

    def stop(self) -> None:
        if self._process is None:
            return
        self._requests.close()
        self._answers.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=30)
        self._process = None
