"""Runs a user's program inside this process: a script, a module, or a command such as pytest.

In comes the command line after the options; out goes the exit code. The program sees the `sys.argv` and the
`sys.path` it would have on its own, and its exceptions are shown without our frames.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import runpy
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tileprobe.errors import TileProbeError

_MACHINERY = (
    "tileprobe",
    "triton",
    "torch",
    "numba",
    "concurrent",
    "contextlib",
    "threading",
)  # below a launch
_NO_CUDA = "Torch not compiled with CUDA enabled"  # what torch for the CPU says of a device "cuda"


class _Interrupted(int):
    """The exit status after a Ctrl-C that the program did not catch, told from the same number that it gave itself."""


INTERRUPTED = _Interrupted(128 + signal.SIGINT)


def resolve(words: Sequence[str]) -> tuple[Callable[[], Any], list[str]]:
    """What to run and the `sys.argv` it gets, for `script.py ...`, `-m package ...` or a command's name."""
    words = list(words)
    if words and os.path.basename(words[0]).startswith("python") and len(words) > 1 and _is_python(words[0]):
        words = words[1:]
    if not words:
        raise TileProbeError("nothing to run; write a script, `-m package` or `-- command`")
    if words[0] == "-m":
        if len(words) < 2:
            raise TileProbeError("-m needs the name of a module")
        return _module(words[1]), words[1:]
    if words[0].startswith("-"):
        raise TileProbeError(f"{words[0]} is no option of tileprobe run; options come before the script")
    path = Path(words[0])
    if path.is_file() or path.suffix == ".py" or (path / "__main__.py").is_file():
        return _script(path), words
    return _command(words[0]), words


def _is_python(word: str) -> bool:
    found = shutil.which(word)
    return found is not None and not Path(word).suffix


def _script(path: Path) -> Callable[[], Any]:
    if not path.exists():
        raise TileProbeError(f"there is no script {path}")

    def run() -> None:
        sys.path[0:0] = [str(path.parent.resolve())] if path.is_file() else []
        runpy.run_path(str(path), run_name="__main__")

    return run


def _module(name: str) -> Callable[[], Any]:
    if name.endswith(".py") and Path(name).is_file():
        short = name[: -len(".py")].replace(os.sep, ".")
        raise TileProbeError(
            f"-m takes the name of a module: {short}, not {name}; or leave out -m to run the file"
        )
    first = name.split(".")[0]
    # the current folder becomes part of the path
    here = Path(first or "\n").exists() or Path(f"{first}.py").exists()
    if not here and not _importable(first):
        raise TileProbeError(f"there is no module {name}")

    def run() -> None:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(name, run_name="__main__", alter_sys=True)

    return run


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):  # a parent that is not there, or no name at all
        return False


def _command(name: str) -> Callable[[], Any]:
    """A command that is a Python script, as pip installs them."""
    found = shutil.which(name)
    if found is not None:
        with open(found, "rb") as file:
            first = file.readline(256)
        if first.startswith(b"#!") and b"python" in first:
            return _script(Path(found))
    if _importable(name):
        return _module(name)
    what = "no Python program" if found else "not found"
    raise TileProbeError(f"the command {name} is {what}; kernels are profiled inside this process only")


def run(words: Sequence[str]) -> int:
    """Runs the program to its end and returns its exit code; an exception is shown and gives 1. The end is that of
    its last thread, and of the processes it waits for when it ends."""
    go, argv = resolve(words)
    before, path = sys.argv, list(sys.path)
    sys.argv = argv
    try:
        codes = [_code_of(step) for step in (go, _rest)]
        return next(filter(None, codes), 0) or _flushed()
    finally:
        sys.argv, sys.path[:] = before, path


def _code_of(go: Callable[[], Any]) -> int:
    try:
        go()
        return 0
    except SystemExit as end:
        return _code(end.code)
    except KeyboardInterrupt:
        with _unheard():
            print("tileprobe: the program was interrupted", file=sys.stderr)
        return INTERRUPTED
    except BaseException as error:
        with _unheard():
            _show(error)
        return 1


def _unheard() -> contextlib.AbstractContextManager[None]:
    """Around messages: nobody may be there to read them, and the program's end goes on."""
    return contextlib.suppress(OSError, ValueError, AttributeError)


def _rest() -> None:
    """What Python does at the end of a program that may still launch kernels: it lets executors run dry, waits for
    threads that are no daemons, ends processes that are and waits for the others."""
    for name, flag in (("thread", "_shutdown"), ("process", "_global_shutdown")):
        executors: Any = sys.modules.get(f"concurrent.futures.{name}")
        if executors is not None:
            executors._python_exit()
            setattr(executors, flag, False)  # our own process goes on
    while left := [thread for thread in threading.enumerate() if _goes_on(thread)]:
        for thread in left:
            thread.join()
    processes: Any = sys.modules.get("multiprocessing.util")
    if processes is not None and sys.modules.get("multiprocessing.process") is not None:
        processes._exit_function()


def _flushed() -> int:
    """What was printed goes out, and what cannot goes nowhere: 120 then, as from Python at its end."""
    code = 0
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            if not stream.closed:
                stream.flush()
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            code = 120
            if not isinstance(error, BrokenPipeError):
                with _unheard():
                    print(
                        f"tileprobe: the program's output cannot be written: {error.strerror}",
                        file=sys.stderr,
                    )
    return code


def _goes_on(thread: threading.Thread) -> bool:
    return (
        not thread.daemon
        and thread is not threading.current_thread()
        and thread is not threading.main_thread()
    )


def _code(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    with _unheard():
        print(code, file=sys.stderr)
    return 1


_TRITONS = "triton.runtime.errors"  # too much shared memory, and the like: what a launch asks of a machine


def _cut(frame: TracebackType | None) -> None:
    """Ends a traceback behind its last frame of the program."""
    last = None
    while frame is not None:
        package = str(frame.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if package not in _MACHINERY:
            last = frame
        frame = frame.tb_next
    if last is not None:
        last.tb_next = None


def _show(error: BaseException) -> None:
    """The traceback as the program alone would have shown it. Of a fault that a target found in a kernel it ends where
    the program launched it: what Triton and we did between says nothing of the fault."""
    frame = error.__traceback__
    ours = (__file__, runpy.__file__)
    while frame is not None and (
        frame.tb_frame.f_code.co_filename in ours or "runpy" in frame.tb_frame.f_code.co_filename
    ):
        frame = frame.tb_next
    if isinstance(error, TileProbeError) or type(error).__module__ == _TRITONS:
        _cut(frame)
    traceback.print_exception(type(error), error, frame)
    if _NO_CUDA in str(error):
        print(
            "tileprobe: there is no CUDA here; with --device-map cuda=cpu a script's `cuda` is the target",
            file=sys.stderr,
        )
