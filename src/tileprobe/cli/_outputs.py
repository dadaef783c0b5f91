"""What a run leaves behind: the report on the terminal, the trace, the JSON, the timeline.

Each is written on its own: one that cannot be written is said so, and the others are still there. `Terminal` keeps the
standard output that the command was given, whatever the program does to it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Protocol

from tileprobe.cli._ending import flush
from tileprobe.cli._say import say
from tileprobe.cli._views import view_and_file, write_view
from tileprobe.errors import TileProbeError
from tileprobe.files import check_writable

if TYPE_CHECKING:
    from tileprobe.profiling import Profile
    from tileprobe.trace import Trace

Step = tuple[str, Callable[[], None]]  # what it makes, and how


class Recorded(Protocol):
    """What has a trace to be written."""

    @property
    def trace(self) -> Trace: ...

    def save(self, path: str) -> None: ...


def check(args: argparse.Namespace) -> None:
    """Says before a long run that its results would have nowhere to go. Views are loaded and names of files become
    whole paths: a program may go to another folder."""
    wanted = {"--trace": args.trace, "--json": args.json, "--chrome": args.chrome, "--html": args.html}
    args.views = [view_and_file(text) for text in args.view or ()]
    wanted |= {f"--view {text}": path for text, (_, path) in zip(args.view or (), args.views)}
    given = {option: path for option, path in wanted.items() if path is not None}
    for option, path in given.items():
        if path == "-":
            if option != "--json":
                raise TileProbeError(f"{option} needs a file; only --json can be - for the standard output")
            continue
        if not path:
            raise TileProbeError(f"{option} needs the name of a file")
        check_writable(path)
    files = [os.path.realpath(path) for path in given.values() if path != "-" and not _is_stream(path)]
    if len(set(files)) < len(files):
        raise TileProbeError(f"{' and '.join(given)} need files of their own, not one for two")
    for name in ("trace", "json", "chrome", "html"):
        path = getattr(args, name)
        setattr(args, name, os.path.abspath(path) if path and path != "-" else path)
    args.views = [(view, os.path.abspath(path)) for view, path in args.views]


def _is_stream(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)


class Terminal:
    """The standard output as it was given. With `apart` the program's own output goes to the standard error, and
    that of its children, so that nothing but JSON is on it."""

    def __init__(self, apart: bool) -> None:
        self._stream = sys.stdout
        self._number = _number(sys.stdout)
        self._kept = None if self._number is None else os.dup(self._number)
        self._apart = apart
        flush(sys.stdout)
        if apart and self._number is not None and _number(sys.stderr) is not None:
            os.dup2(sys.stderr.fileno(), self._number)
        elif apart:
            sys.stdout = sys.stderr

    def file(self) -> IO[str]:
        """To write to; what the program printed comes before."""
        flush(sys.stdout)
        if self._kept is None:
            return self._stream if self._stream is not None else open(os.devnull, "w")
        like: Any = self._stream
        return open(
            os.dup(self._kept), "w", encoding=like.encoding or "utf-8", errors=like.errors or "strict"
        )

    def close(self) -> None:
        """The standard output is what it was."""
        flush(sys.stdout)
        if self._apart:
            if self._kept is not None and self._number is not None and sys.stdout is self._stream:
                os.dup2(self._kept, self._number)
            sys.stdout = self._stream
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None


def _number(stream: Any) -> int | None:
    """The descriptor behind a stream; none where it is closed or a stand-in."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def write(session: Profile, args: argparse.Namespace, terminal: Terminal) -> bool:
    """Writes everything that was asked for; returns whether something could not be."""
    steps = _files(session, args)
    if args.json and args.json != "-":
        steps.append(("the JSON", lambda: _json(session, args.json)))
    if args.json == "-":
        steps.append(("the JSON", lambda: json_to(session.to_json(), terminal)))
    elif not args.quiet:
        steps.append(("the report", lambda: _report(session, terminal, args.full)))
    return _tried(steps)


def write_files(session: Recorded, args: argparse.Namespace) -> bool:
    """The trace and its views alone, of a command that has a report and a JSON of its own."""
    return _tried(_files(session, args))


def _tried(steps: list[Step]) -> bool:
    failures = [_failed(*step) for step in steps]  # every step is tried
    return any(failures)


def _files(session: Recorded, args: argparse.Namespace) -> list[Step]:
    steps: list[Step] = []
    if args.trace:
        steps.append(("the trace", lambda: session.save(args.trace)))
    if args.chrome:
        steps.append(("the timeline", lambda: _chrome(session, args.chrome)))
    if args.html:
        steps.append(("the page", lambda: _html(session, args.html, not args.no_source)))
    for view, path in args.views:
        steps.append((path, lambda view=view, path=path: write_view(view, _given(session, args), path)))
    return steps


def _failed(what: str, step: Callable[[], None]) -> bool:
    try:
        step()
    except (
        BrokenPipeError,
        SystemExit,
    ):  # `tileprobe run ... | head`: who reads it has seen enough; Rich exits
        return False
    except OSError as error:
        say(f"{what} cannot be written: {error.strerror or error}")
        return True
    except TileProbeError as error:
        say(str(error))
        return True
    except Exception as error:  # the other steps are still done
        if os.environ.get("TILEPROBE_DEBUG"):
            raise
        say(f"{what} could not be made: {type(error).__name__}: {error}; TILEPROBE_DEBUG=1 shows where")
        return True
    return False


def _chrome(session: Recorded, path: str) -> None:
    from tileprobe.views.chrome import write_chrome

    write_chrome(session.trace, path)


def _html(session: Recorded, path: str, source: bool) -> None:
    from tileprobe.views.html import write_html

    write_html(session.trace, path, source=source)


def _given(session: Recorded, args: argparse.Namespace) -> Any:
    from tileprobe.views.without_source import without_source

    return without_source(session.trace) if args.no_source else session.trace


def _json(session: Profile, path: str) -> None:
    from tileprobe.files import write_json

    write_json(path, session.to_json())


def json_to(data: Any, terminal: Terminal) -> None:
    text = json.dumps(data, indent=1)  # ASCII: any terminal and any locale takes it
    with _closing(terminal.file()) as file:
        file.write(text + "\n")


def _report(session: Profile, terminal: Terminal, full: bool) -> None:
    if not session.seen:
        say("the program launched no Triton kernel on this target")
        return
    from tileprobe.tools.load import failed
    from tileprobe.views.terminal import make_console, print_report

    results = session.results()
    with _closing(terminal.file()) as file:
        print_report(session.trace, results, make_console(file), full)
    if failed(results):
        raise TileProbeError("a tool failed; its warning is in the report")


@contextlib.contextmanager
def _closing(file: IO[str]):
    """A file of ours is closed, one that was given to us is flushed."""
    ours = file is not sys.stdout and file is not sys.__stdout__
    try:
        yield file
        file.flush()
    finally:
        if ours:
            with contextlib.suppress(OSError):
                file.close()
