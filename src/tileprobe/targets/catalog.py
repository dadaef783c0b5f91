"""Targets by the name a user writes: `cpu`, `cambricon:s`, or `file.py:Class` for one that is not installed.

In comes the text after `--target` or in `tileprobe.use`; out goes a `Target` and the machine after the colon, or an
error that lists what there is.
"""

from __future__ import annotations

import contextlib
import re
from contextlib import AbstractContextManager
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.plugins import add_target, broken, class_in, installed, targets
from tileprobe.targets.base import Target

_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)(?::(?P<machine>.+))?")
DEFAULT = "cpu"
AUTO = "auto"  # whatever Triton would choose by itself
_current = DEFAULT


def available() -> list[Target]:
    """Every target that can be named, the default one first."""
    return sorted(targets().values(), key=lambda target: (target.name != DEFAULT, target.name))


def find(text: str) -> tuple[Target, str]:
    """The target that `text` names, and the machine after the colon ("" when none is given)."""
    given = _FILE.fullmatch(text)
    if given is not None:
        target, machine = _from_file(given["file"], given["name"]), given["machine"] or ""
        _check_machine(target, machine)
        if target.name in installed():
            raise TileProbeError(f"{text}: there is a target {target.name!r} already; give it another name")
        add_target(target)
        return target, machine
    name, _, machine = text.partition(":")
    for target in available():
        if name in (target.name, *target.aliases):
            _check_machine(target, machine)
            return target, machine
    if name in broken:
        error = broken[name]
        raise TileProbeError(
            f"the target {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    names = ", ".join(target.name for target in available())
    raise TileProbeError(f"there is no target {text!r}; there are {names}, or file.py:Class")


def default_target() -> str:
    """Where a script runs that is given no target: on a GPU if this machine has one, as it would without us. Nothing is
    initialised for that: processes that the script forks could not use the GPU any more."""
    return AUTO if any(getattr(target, "present", bool)() for target in available()) else DEFAULT


def _check_machine(target: Target, machine: str) -> None:
    known = target.machines()
    if machine and machine not in known:
        there = f"its machines are {', '.join(known)}" if known else "there is one machine only"
        raise TileProbeError(f"the target {target.name!r} has no machine {machine!r}; {there}")


def _from_file(file: str, name: str) -> Target:
    kind = class_in(file, name, "target")
    _check_parts(kind, f"{file}:{name}", later=("clock", "memory"))
    try:
        target = kind()
    except Exception as error:
        raise TileProbeError(f"{file}:{name} cannot be made: {type(error).__name__}: {error}") from error
    _check_parts(target, f"{file}:{name}")
    return target


def _check_parts(found: Any, what: str, later: tuple[str, ...] = ()) -> None:
    """Every target has these; its constructor may make some of them `later`."""
    missing = [name for name in _parts() if name not in later and not hasattr(found, name)]
    if missing:
        raise TileProbeError(f"{what} is no target: it has no {', '.join(missing)}")


def _parts() -> list[str]:
    methods = [name for name, value in vars(Target).items() if callable(value) and not name.startswith("_")]
    return [*Target.__annotations__, *methods]


def use(target: str = DEFAULT, **settings: Any) -> AbstractContextManager[Any]:
    """Runs Triton kernels on a target from now on, or for a `with` block. The settings are the target's own.

    For the CPU: `threads`, how many threads launches use (default: TILEPROBE_NUM_THREADS, else all CPUs of the
    process); `check_bounds`, accesses outside the tensors a kernel was given raise an error with line and index.

    >>> tileprobe.use("cpu", threads=4)
    >>> with tileprobe.use("cpu", check_bounds=True):
    ...     kernel[grid](x, y, n)
    """
    if target == AUTO and not settings:
        return _Use(_current, contextlib.nullcontext())
    found, machine = find(target)
    return _Use(found.name, found.use(machine, **settings))


class _Use:
    """A choice of a target, and the one before it to go back to."""

    def __init__(self, name: str, chosen: AbstractContextManager[Any]) -> None:
        global _current
        self.chosen, self.before = chosen, _current
        _current = name

    def __enter__(self) -> _Use:
        self.chosen.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        global _current
        _current = self.before
        self.chosen.__exit__(*error)


def array(data: Any, dtype: Any = None) -> Any:
    """A tensor for kernels, without torch: in the memory of the target in use.

    >>> x = tileprobe.array(np.arange(8, dtype=np.float32))
    >>> y = tileprobe.array([1.0, 2.0], "bfloat16")
    """
    return find(_current)[0].array(data, dtype)
