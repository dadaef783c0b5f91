"""Our dialects, passes and structures by name, found where they live and imported when they are used.

A pass is a module in `tileprobe.passes` or in the `passes` package of a target; the module's name is the
pass's, with underscores. A new pass is a new file; nothing here changes.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, math, scf
from xdsl.dialects import test as test_dialect
from xdsl.ir import Dialect
from xdsl.passes import ModulePass, PassPipeline

from tileprobe.errors import TileProbeError
from tileprobe.ir.structure import Structure

# name -> "module:attribute"
DIALECTS = {
    "probe": "tileprobe.ir.probe:Probe",
    "record": "tileprobe.ir.record:Record",
    "tile": "tileprobe.targets.cpu.dialect:Tile",
    "cam": "tileprobe.targets.cambricon.dialect:Cam",
}
STRUCTURES = {
    "scf": "tileprobe.ir.structure:ScfStructure",
    "tile": "tileprobe.targets.cpu.structure:TileStructure",
    "cam": "tileprobe.targets.cambricon.structure:CamStructure",
}


def _resolve(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)


def structure(name: str) -> Structure:
    """The Structure called `name`."""
    if name not in STRUCTURES:
        raise TileProbeError(f"there is no structure {name!r}; there are {', '.join(sorted(STRUCTURES))}")
    return _resolve(STRUCTURES[name])()


def dialects() -> list[Dialect]:
    """Every dialect of ours that can be imported here, and the standard ones our IR uses."""
    standard = [builtin.Builtin, arith.Arith, cf.Cf, func.Func, math.Math, scf.Scf, test_dialect.Test]
    return standard + [_resolve(place) for place in DIALECTS.values()]


def context() -> Context:
    """A context with all our dialects, in which foreign ops stay as they are."""
    found = Context(allow_unregistered=True)
    for dialect in dialects():
        found.load_dialect(dialect)
    return found


def passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Every pass of ours: name -> what imports it."""
    packages = ["tileprobe.passes"]
    for folder in import_module("tileprobe.targets").__path__:
        homes = sorted(Path(folder).glob("*/passes/__init__.py"))
        packages += [f"tileprobe.targets.{home.parent.parent.name}.passes" for home in homes]
    found: dict[str, Callable[[], type[ModulePass]]] = {}
    for package in packages:
        for module in pkgutil.iter_modules(import_module(package).__path__):
            if not module.name.startswith("_"):
                found[module.name.replace("_", "-")] = _importer(f"{package}.{module.name}")
    return found


def _importer(module: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        name = module.rsplit(".", 1)[1].replace("_", "-")
        for value in vars(import_module(module)).values():
            if (
                isinstance(value, type)
                and issubclass(value, ModulePass)
                and getattr(value, "name", "") == name
            ):
                return value
        raise TileProbeError(f"{module} defines no pass named {name!r}")

    return load


def pipeline(text: str) -> PassPipeline:
    """The passes of a pipeline string: `select{kinds=dot},instrument,assign-slots,probe-to-record`."""
    try:
        return PassPipeline.parse_spec(passes(), text)
    except (ValueError, TypeError) as error:
        known = ", ".join(sorted(passes()))
        raise TileProbeError(f"cannot read the pipeline {text!r}: {error}; the passes are {known}") from error
    except Exception as error:  # xDSL's own errors for a malformed pipeline
        raise TileProbeError(f"cannot read the pipeline {text!r}: {error}") from error
