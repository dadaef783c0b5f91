"""A child process that runs cases: `python -m fuzz.worker oracle|target|inputs READ WRITE` (two file descriptors).

Kernels may kill the process they run in, so the parent talks to it through pipes, sees it die, and starts another.
"""

from __future__ import annotations

import contextlib
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fuzz import blame, oracle, target
from fuzz.case import Case
from fuzz.inputs import trying
from fuzz.program import Scalar

# What a parent may ask for, by name.
_SERVICES = {"interpret": oracle.run, "run": target.run, "blame": blame.blame, "try": trying.attempts}


def _answer(service: str, *request: Any) -> tuple[str, Any]:
    """("ok", results) or (kind of finding, words)."""
    try:
        return "ok", _SERVICES[service](*request)
    except target.OutOfBounds as error:
        return "out of bounds", str(error)
    except Exception as error:  # whatever a compiler may raise is a finding
        kind = "refused" if service == "interpret" or _front_end(error) else "compile error"
        return kind, _words(error)


def _front_end(error: BaseException) -> bool:
    """Whether it was Triton's front end that would not have the kernel."""
    from triton.compiler.errors import CompilationError

    return isinstance(error, CompilationError)


def _words(error: BaseException | None) -> str:
    """The message and those it was raised from, the first cause first."""
    parts: list[str] = []
    while error is not None:
        parts.insert(0, f"{type(error).__name__}: {str(error)[-1000:]}")
        error = error.__cause__ or error.__context__
    return "\n".join(parts)


def main(role: str, read: int, write: int) -> None:
    requests, answers = Connection(read, writable=False), Connection(write, readable=False)
    cache = Path(os.environ["TRITON_CACHE_DIR"])
    _warm_up(role)
    answers.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            answers.send(_answer(*requests.recv()))
            if role == "target":
                target.forget(cache)


def _warm_up(role: str) -> None:
    """Pay once for what the first kernel would pay for: imports, LLVM, the backend's hash."""
    if role == "inputs":
        trying.run(["run", "--quiet", os.devnull])
        return
    source = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(n):\n    pass\n"
    case = Case(source, (Scalar("n", 7),), 1, 0)
    _answer("interpret", case) if role == "oracle" else _answer("run", case, True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
