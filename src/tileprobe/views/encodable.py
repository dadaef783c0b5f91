"""A trace whose every text can be written: halves of characters, as names of files can hold them, become escapes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from tileprobe.trace import Trace

TABLES = ("kernels", "regions", "units", "domains", "works")


def encodable(trace: Trace) -> Trace:
    return replace(trace, **{name: _clean(getattr(trace, name)) for name in TABLES}, meta=_clean(trace.meta))


def _clean(value: Any) -> Any:
    """The value itself where nothing in it needs to change."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_clean(item) for item in value)
    if isinstance(value, tuple):  # a named one
        return type(value)(*(_clean(item) for item in value))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: _clean(getattr(value, field.name)) for field in fields(value)}
        return replace(value, **changed)
    return value
