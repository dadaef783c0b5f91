"""A child process that runs cases: `python -m fuzz.worker oracle|target READ WRITE` (two file descriptors).

Kernels may kill the process they run in, so the parent talks to it through pipes, sees it die, and starts another.
"""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def _answer(role: str, request: tuple[Any, ...]) -> tuple[str, Any]:
    """("ok", results) or (kind of finding, words)."""
    from fuzz import oracle, target

    try:
        return "ok", oracle.run(*request) if role == "oracle" else target.run(*request)
    except target.OutOfBounds as error:
        return "out of bounds", str(error)
    except Exception as error:  # whatever a compiler may raise is a finding
        return ("refused" if role == "oracle" or _front_end(error) else "compile error"), _words(error)


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
    for _ in iter(int, 1):
        try:
            request = requests.recv()
        except EOFError:
            return
        answers.send(_answer(role, request))
        if role == "target":
            from fuzz.target import forget

            forget(cache)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
