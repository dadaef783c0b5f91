"""Variables of the environment that tell child processes of a command, and are put back when it ends."""

from __future__ import annotations

import os
from pathlib import Path

_STARTUP = Path(__file__).parent / "_startup"


class Environment:
    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}

    def set(self, name: str, value: str | None) -> None:
        self._before.setdefault(name, os.environ.get(name))
        _put(name, value)

    def reach_children(self) -> None:
        """PYTHONPATH begins with a folder whose `sitecustomize` Python runs at the start; it asks `_hook`."""
        paths = [str(_STARTUP), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self.set("PYTHONPATH", os.pathsep.join(dict.fromkeys(paths)))

    def restore(self) -> None:
        for name in list(self._before):
            _put(name, self._before.pop(name))


def absolute(text: str) -> str:
    """A target or a tool, for a process that may be in another folder."""
    return os.path.abspath(text) if ".py:" in text else text


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
