"""One case: a command run inside this process, and what became of it.

`fine` and `refused` are as they should be: the command did its work, or said in a message of its own what is wrong. A
`traceback` is an exception that went through, or one that somebody printed. A crash and a hang are seen by the process
around this one.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path

from fuzz.inputs import ir, options, traces

KINDS = {"trace": traces.command, "ir": ir.command, "options": options.command}
_SAID = ("Traceback (most recent call last)", "panicked at", "could not be made:", "Exception ignored")
_folder: tempfile.TemporaryDirectory[str] | None = None


def folder() -> Path:
    """Where the files of the cases lie; options name them as if it were the working folder."""
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="tileprobe-fuzz-")
    return Path(_folder.name)


def command(kind: str, seed: int) -> list[str]:
    return KINDS[kind](random.Random(f"{kind}/{seed}"), folder())


def attempt(kind: str, seed: int) -> tuple[str, str]:
    """(`fine` | `refused` | `traceback`, words about it)."""
    words = command(kind, seed)
    code, said = run(words)
    if code is None or any(mark in said for mark in _SAID):
        return "traceback", f"tileprobe {' '.join(map(repr, words))}\n{said[-2000:]}"
    return ("fine" if code == 0 else "refused"), ""


def attempts(kind: str, seeds: range) -> list[tuple[str, str]]:
    """Several cases, one after another, in a process that is there for nothing else."""
    os.chdir(folder())
    os.environ["TILEPROBE_DEBUG"] = "1"  # nothing is made a message that was not meant to be one
    return [attempt(kind, seed) for seed in seeds]


def run(words: list[str]) -> tuple[int | None, str]:
    """The exit status, None for an exception, and all that was printed."""
    from tileprobe import cli

    if not hasattr(cli.build_parser, "cache_info"):
        cli.build_parser = lru_cache(maxsize=1)(cli.build_parser)  # the same for each case
    out = io.StringIO()
    standard = sys.stdin
    try:
        sys.stdin = io.StringIO("")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cli.main(words), out.getvalue()
    except SystemExit as end:  # argparse
        return end.code if isinstance(end.code, int) else 1, out.getvalue()
    except BaseException as error:  # a panic of Rust's is no Exception
        import traceback

        return None, out.getvalue()[-500:] + "".join(traceback.format_exception(error))
    finally:
        sys.stdin = standard
