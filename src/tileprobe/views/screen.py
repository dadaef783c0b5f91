"""Where a report is printed: a terminal, a file, a pipe, with as much as it can show.

All words go through `Screen.words`, so that nothing in a name can reach the terminal as a command, and a terminal
without Unicode gets plain ASCII.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from typing import IO

from rich.console import Console
from rich.text import Text

from tileprobe.views.text import ascii_only, printable

PLAIN_WIDTH = 120  # of a file or a pipe, where nobody says
LEAST_WIDTH = 20


class Screen(Console):
    """A console that knows whether it may use more than ASCII (`plain`)."""

    def __init__(self, file: IO[str], width: int | None = None, plain: bool = False, **more) -> None:
        super().__init__(
            file=file, width=width, highlight=False, soft_wrap=False, markup=False, emoji=False, **more
        )
        self.plain = plain or self.options.ascii_only

    def on_broken_pipe(self) -> None:
        """Nobody reads on (`tileprobe report ... | head`): that is for the command to judge, and no error of it."""
        raise  # Rich calls this while it handles the error

    def words(self, text: str, style: str = "") -> Text:
        """A text that can be printed here."""
        shown = printable(text)
        return Text(ascii_only(shown) if self.plain else shown, style=style)

    def say(self, text: str, style: str = "") -> None:
        """Prints one line, folded between words where it is too long."""
        self.print(self.words(text, style))

    def verbatim(self, text: str) -> None:
        """Prints lines of code as they are, as long as they may be."""
        for line in text.splitlines():
            self.file.write(self.words(line.expandtabs(8)).plain + "\n")

    def fit(self, text: Text, width: int) -> Text:
        """The text in at most so many cells, with a mark where it is cut."""
        if text.cell_len <= width:
            return text
        mark = "..." if self.plain else "…"
        shorter = text.copy()
        shorter.truncate(max(0, width - len(mark)))
        return shorter.append(mark[: max(0, width)])


def make_console(file: IO[str] | None = None, width: int | None = None) -> Screen:
    file = sys.stdout if file is None else file
    file = io.StringIO() if file is None else file  # a program without a standard output
    terminal = hasattr(file, "isatty") and not getattr(file, "closed", False) and file.isatty()
    encoding = str(getattr(file, "encoding", None) or "utf-8").lower()
    plain = not encoding.startswith("utf") or (isinstance(file, io.TextIOWrapper) and c_locale(os.environ))
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")  # whatever a name may hold, the report is printed
    if width is None and not terminal and "COLUMNS" not in os.environ:
        width = PLAIN_WIDTH
    screen = Screen(file, width, plain)
    screen.width = max(screen.width, LEAST_WIDTH)
    return screen


def c_locale(environment: Mapping[str, str]) -> bool:
    """Whether somebody asks for the C locale. Python then still writes UTF-8, which a terminal set up for C does not
    show. A locale that is not set at all says nothing about the terminal."""
    if "utf" in environment.get("PYTHONIOENCODING", "").lower() or environment.get("PYTHONUTF8") == "1":
        return False
    kind = environment.get("LC_CTYPE", "")
    kind = (
        "" if kind == "C.UTF-8" and environment.get("LANG") in ("C", "POSIX") else kind
    )  # as Python sets it
    return (environment.get("LC_ALL") or kind or environment.get("LANG", "")) in ("C", "POSIX")
