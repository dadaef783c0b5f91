"""A profiled program, from its start until its results are written.

In come a session and the options of `tileprobe run`; out goes the exit status: the program's own, or 2 where it
ended well and something that was asked for could not be given.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tileprobe.cli import _ending
from tileprobe.cli import _outputs as outputs
from tileprobe.cli._children import Children
from tileprobe.cli._say import say
from tileprobe.errors import TileProbeError

if TYPE_CHECKING:
    from tileprobe.profiling import Profile


class Running(_ending.Ending):
    """The session is on from here until `finish`."""

    def __init__(self, session: Profile, args: argparse.Namespace) -> None:
        super().__init__()
        self.session, self.args = session, args
        session.__enter__()
        self.children = Children(args, session)
        self.terminal = outputs.Terminal(apart=args.json == "-")
        _ending.watch_over(self)

    def last(self, code: int) -> int:
        self.session.__exit__(TileProbeError, None, None)  # patterns are checked below, after the report
        self.children.close()
        failed = self._collect()
        failed = outputs.write(self.session, self.args, self.terminal) or failed
        try:
            self.session.check_patterns()
        except TileProbeError as error:
            say(str(error))
            failed = True
        self.terminal.close()
        if self.late is None:
            _ending.release()
        return code or (2 if failed else 0)

    def _collect(self) -> bool:
        """Puts in what children recorded; returns whether it could not be."""
        traces, problems = self.children.collect()
        for problem in problems:
            say(problem)
        try:
            self.session.join(traces, problems)
        except Exception as error:
            say(f"what child processes recorded could not be put in: {error}")
            return True
        return False
