"""Rows of plain data, as JSON: what differs from the defaults of a dataclass, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def changed(item: Any) -> dict[str, Any]:
    """The fields of a dataclass that do not hold their default, which keeps files small."""
    return {f.name: v for f in fields(item) if (v := getattr(item, f.name)) != f.default}


def with_tuples(row: dict[str, Any]) -> dict[str, Any]:
    """A row that has been through JSON, which knows no tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
