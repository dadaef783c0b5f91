"""Devices as TOML files: a name or a path in, tables of constants with their sources out.

A file names the device that it `inherits` and lists what differs. An overlay (`overlay = true`) is no device: a plus
lays it over one, `cambricon:s+tlc` or `mine.toml+tlc`. Built-in files lie in `devices/`; the user's own are paths.
"""

from __future__ import annotations

import copy
import dataclasses
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import SECTIONS

BASE = "base"  # what built-in devices share, no device itself
PREFIX = "cambricon:"
Tables = dict[str, dict[str, tuple[Any, str]]]  # section -> constant -> (value, source)


def _folder() -> Any:
    return resources.files("tileprobe.targets.cambricon") / "devices"


def _built_in() -> list[str]:
    return sorted(
        entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml")
    )


def device_names() -> tuple[str, ...]:
    """Built-in devices, `cambricon:s` and others."""
    return tuple(
        f"{PREFIX}{name}" for name in _built_in() if name != BASE and not _is_overlay(f"{PREFIX}{name}")
    )


def overlay_names() -> tuple[str, ...]:
    """Built-in overlays, as they stand behind a plus."""
    return tuple(name for name in _built_in() if _is_overlay(f"{PREFIX}{name}"))


def _is_overlay(name: str) -> bool:
    return bool(_read(name).get("overlay", False))


def tables_of(name: str) -> tuple[Tables, str]:
    """The constants of a device, with those that it inherits and those laid over it, and its name."""
    if Path(name).is_file() or "+" not in name:
        if name == f"{PREFIX}{BASE}":
            raise TileProbeError(
                f"{name} is what devices share and none itself: use {', '.join(device_names())}, or a TOML file with "
                f'`inherits = "{name}"`'
            )
        tables, own = _own_tables(name)
        if _read(name).get("overlay"):
            raise TileProbeError(f"{name} is laid over a device: write {PREFIX}s+{name.removeprefix(PREFIX)}")
        return tables, own
    under, _, over = name.rpartition("+")
    tables, own = tables_of(under)
    path = over if Path(over).is_file() else f"{PREFIX}{over}"
    if path == f"{PREFIX}{over}" and over not in overlay_names():
        raise TileProbeError(
            f"{name}: nothing named {over!r} can be laid over a device; there are {', '.join(overlay_names())}, or a "
            "TOML file with `overlay = true`"
        )
    if not _read(path).get("overlay"):
        raise TileProbeError(f"{name}: {path} is a device of its own; an overlay says `overlay = true`")
    for section, constants in _own_tables(path)[0].items():
        tables.setdefault(section, {}).update(constants)
    return tables, f"{own}+{Path(over).stem}"


def files_of(name: str) -> list[str]:
    """The user's own files that a device is made of."""
    if not Path(name).is_file() and "+" in name:
        under, _, over = name.rpartition("+")
        return [*files_of(under), *files_of(over)]
    found: list[str] = []
    while Path(name).is_file() and name not in found:
        found.append(name)
        parent = _read(name).get("inherits")
        name = parent if isinstance(parent, str) else ""
    return found


def _own_tables(name: str, seen: tuple[str, ...] = ()) -> tuple[Tables, str]:
    if name in seen:
        raise TileProbeError(f"device {seen[0]}: `inherits` goes in a circle: {' -> '.join((*seen, name))}")
    document = _read(name)
    if "base" in document and not isinstance(document["base"], dict):
        raise TileProbeError(f"{name}: `base` is written `inherits`, as in the files of simulated GPUs")
    parent = document.pop("inherits", None)
    if parent is not None and not isinstance(parent, str):
        raise TileProbeError(
            f'{name}: `inherits` must be the name of a device, such as "cambricon:s", found {parent!r}'
        )
    tables, _ = _own_tables(parent, (*seen, name)) if parent else ({}, "")
    tables = {section: dict(constants) for section, constants in tables.items()}
    own_name = document.pop("name", Path(name).stem if Path(name).is_file() else name)
    if not isinstance(document.pop("overlay", False), bool):
        raise TileProbeError(f"{name}: `overlay` must be true or false")
    for section, constants in document.items():
        if section not in SECTIONS or not isinstance(constants, dict):
            raise TileProbeError(
                f"{name}: unknown section [{section}]; the sections are {', '.join(SECTIONS)}"
            )
        known = {f.name for f in dataclasses.fields(SECTIONS[section])}
        for constant, entry in constants.items():
            if constant not in known:
                raise TileProbeError(
                    f"{name}: [{section}] has no constant `{constant}`; it has {', '.join(sorted(known))}"
                )
            tables.setdefault(section, {})[constant] = _entry(name, section, constant, entry)
    return tables, str(own_name)


def _entry(name: str, section: str, constant: str, entry: Any) -> tuple[Any, str]:
    if not isinstance(entry, dict):
        return entry, f"given in {name} without a source"
    if "value" not in entry or set(entry) - {"value", "source"}:
        raise TileProbeError(
            f"{name}: [{section}] {constant} must be a value or "
            f'{{ value = ..., source = "..." }}, found {entry!r}'
        )
    return entry["value"], str(entry.get("source", f"given in {name} without a source"))


def _read(name: str) -> dict[str, Any]:
    """A document of its own for each who asks: those that we bring are parsed once."""
    found = copy.deepcopy(_built_in_document(name))
    if found is not None:
        return found
    path = Path(name)
    if not path.is_file():
        raise TileProbeError(
            f"no device {name!r}: expected {', '.join(device_names())}, or the path of a TOML file that describes one"
        )
    return _parsed(name, path.read_text(encoding="utf-8", errors="replace"))


@cache
def _built_in_document(name: str) -> dict[str, Any] | None:
    plain = name.removeprefix(PREFIX)
    file = _folder() / f"{plain}.toml"
    there = name.startswith(PREFIX) and "/" not in plain and file.is_file()
    return _parsed(name, file.read_text(encoding="utf-8")) if there else None


def _parsed(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TileProbeError(f"{name} is not valid TOML: {error}") from None
