"""Processes that a profiled program starts: each leaves its trace in a folder, and the run puts them together.

In come the options of the run and its session; out go traces of children and sentences about those that are missing.
Forked processes know of the run by being copies of it; all others that are Python by their environment:
TILEPROBE_RUN names the folder, TILEPROBE_RUN_OPTIONS has the options, and PYTHONPATH begins with a folder whose
`sitecustomize` Python runs at the start. docs/robustness.md says what that covers.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileprobe.cli import _ending, _hook
from tileprobe.cli._environment import Environment, absolute
from tileprobe.cli._say import say
from tileprobe.errors import TileProbeError
from tileprobe.files import write_file

if TYPE_CHECKING:
    from tileprobe.profiling import Profile
    from tileprobe.trace import Trace

_RUNNING, _SAVING, _FAILED, _KEPT = ".running", ".saving", ".failed", ".parquet"
_WAIT_S = 30.0  # for children that are writing their traces
_lock = threading.RLock()  # a session's own imports come back here
_begun = False
_session: Profile | None = None  # of this process: the run's, or a child's own


class Children:
    """The run's side: a folder for traces, and an environment that tells children of it."""

    def __init__(self, args: argparse.Namespace, session: Profile) -> None:
        global _session
        _session = session
        from tileprobe.cuda_map import mapped

        self.folder: Path | None = None
        self.environment = Environment()
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="tileprobe-run-"))
        except OSError as error:
            say(f"child processes are not recorded: there is no place for their traces: {error.strerror}")
            return
        set_ = self.environment.set
        set_(_hook.FOLDER, str(self.folder))
        set_(_hook.OPTIONS, json.dumps(_portable(args)))
        set_(_hook.MAPPED, "1" if mapped(args.device_map, args.target) else None)
        set_(_hook.EXEC, None)  # of a command that we are in: ours is what counts
        self.environment.reach_children()
        if args.target == "cpu":  # chosen without importing anything
            set_("TRITON_DEFAULT_BACKEND", "cpu")
            if args.threads is not None:
                set_("TILEPROBE_NUM_THREADS", str(args.threads))

    def close(self) -> None:
        """The environment is as it was; the folder stays until `collect`."""
        _let_go()
        self.environment.restore()

    def collect(self) -> tuple[list[Trace], list[str]]:
        """The traces that children left, and sentences about those that left none."""
        if self.folder is None:
            return [], []
        try:
            self._wait(self.folder)
            return self._traces(self.folder)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self, folder: Path) -> None:
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until and any(map(_alive, folder.glob(f"*{_SAVING}"))):
            time.sleep(0.05)

    def _traces(self, folder: Path) -> tuple[list[Trace], list[str]]:
        from tileprobe.trace import Trace

        traces, problems = [], []
        for path in sorted(folder.glob(f"*{_KEPT}"), key=lambda path: path.stat().st_mtime_ns):
            try:
                traces.append(Trace.load(path))
            except TileProbeError as error:
                problems.append(f"the records of a child process were lost: {error}")
        problems += [path.read_text() for path in sorted(folder.glob(f"*{_FAILED}"))]
        left = [*folder.glob(f"*{_RUNNING}"), *folder.glob(f"*{_SAVING}")]
        for path in sorted(left):
            why = "still runs" if _alive(path) else "was killed"
            problems.append(
                f"the child process {path.stem.split('-')[0]} {why}: its launches are not in this report"
            )
        return traces, problems


class Child(_ending.Ending):
    """A child's side: a session until the process ends, and its trace in the folder. Whoever ends it by signals, as
    pools do with their workers, may send several."""

    patient = True

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        (folder / f"{self.name}{_RUNNING}").touch()

    def last(self, code: int) -> int:
        from tileprobe.session.manager import manager

        mark = self.folder / f"{self.name}{_RUNNING}"
        saving = mark.with_suffix(_SAVING)
        try:
            os.rename(mark, saving)
        except OSError:  # the run is over, and nobody waits for this trace
            return code
        try:
            session = _session
            if session is not None:
                manager.leave(session)
            if session is not None and session.seen:
                session.save(self.folder / f"{self.name}{_KEPT}")
        except Exception as error:
            text = f"the records of the child process {os.getpid()} were lost: {error}"
            with contextlib.suppress(TileProbeError):
                write_file(saving.with_suffix(_FAILED), text)
        with contextlib.suppress(OSError):
            saving.unlink()
        _let_go()
        return code


def _let_go() -> None:
    """Kernels are freed before Python takes its modules apart."""
    global _session
    _session = None


def begin(folder: str) -> None:
    """In a child: a session with the options of the run, from now on to the end of the process."""
    global _session, _begun
    with _lock:
        if _begun or not Path(folder).is_dir():  # without it the run is over
            return
        _begun = True
        from tileprobe.cli.run import session_options
        from tileprobe.profiling import Profile

        args = _options()
        if args.target != "cpu":
            _use(args)
        session = Profile(**session_options(args))
        child = Child(Path(folder))
        session.__enter__()
        _session = session
        _ending.watch_over(child)
        atexit.register(child.finish, 0)


def map_devices() -> None:
    """In a child, once torch is imported: the map of devices that the run has."""
    from tileprobe.cuda_map import device_map

    args = _options()
    map_ = device_map(args.device_map, args.target)
    map_.__enter__()
    atexit.register(map_.__exit__, None, None, None)


def _use(args: argparse.Namespace) -> None:
    import tileprobe
    from tileprobe.cli._settings import settings

    tileprobe.use(args.target, **settings(args))


def _options() -> argparse.Namespace:
    return argparse.Namespace(**json.loads(os.environ[_hook.OPTIONS]))


def _portable(args: argparse.Namespace) -> dict[str, Any]:
    """The options for a process that may be in another folder."""
    ours = ("run", "program", "module", "views")
    kept = {name: value for name, value in vars(args).items() if name not in ours}
    kept["tool"] = None if args.tool is None else [absolute(tool) for tool in args.tool]
    kept["target"] = absolute(args.target)
    return kept


def _alive(mark: Path) -> bool:
    return Path("/proc", mark.stem.split("-")[0]).exists()


def _forked() -> None:
    """In a process that was forked while a session was on: what the parent recorded is the parent's."""
    global _lock, _session, _begun
    session, _session = _session, None
    if session is None:
        return
    from tileprobe.session.manager import manager

    _lock, _begun = threading.RLock(), False
    _ending.forget()
    manager.forked()
    manager.leave(session)
    _hook.guarded(_hook.begin if manager.sessions else _hook.wait_for_a_launch)


os.register_at_fork(after_in_child=_forked)
