"""Tools: each a class with `plan()`, what it wants probed, and `read(trace)`, what it makes of a trace."""

from tileprobe.tools.base import Tool
from tileprobe.tools.load import available, load_tool
from tileprobe.tools.plan import Plan
from tileprobe.tools.result import Column, Finding, Result, Table

__all__ = ["Column", "Finding", "Plan", "Result", "Table", "Tool", "available", "load_tool"]
