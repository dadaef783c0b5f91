"""Dialects and structures by name: the standard ones, our portable ones, and what the targets bring."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, math, scf
from xdsl.dialects import test as test_dialect
from xdsl.ir import Dialect

from tileprobe.errors import TileProbeError
from tileprobe.ir.probe import Probe
from tileprobe.ir.record import Record
from tileprobe.ir.structure import ScfStructure, Structure
from tileprobe.plugins import targets


def structure(name: str) -> Structure:
    """The Structure called `name`."""
    known = {"scf": ScfStructure}
    for target in targets().values():
        known |= target.structures()
    if name not in known:
        raise TileProbeError(f"there is no structure {name!r}; there are {', '.join(sorted(known))}")
    return known[name]()


def dialects() -> list[Dialect]:
    """The standard dialects that our IR uses, our portable ones, and those of the targets."""
    standard = [builtin.Builtin, arith.Arith, cf.Cf, func.Func, math.Math, scf.Scf, test_dialect.Test]
    return [*standard, Probe, Record, *(d for target in targets().values() for d in target.dialects())]


def context() -> Context:
    """A context with all our dialects, in which foreign ops stay as they are."""
    found = Context(allow_unregistered=True)
    for dialect in dialects():
        found.load_dialect(dialect)
    return found
