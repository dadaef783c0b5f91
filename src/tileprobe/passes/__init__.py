"""Portable passes, one a file, for any IR with a `Structure`: select, instrument, user-probes, merge-probes,
sample, assign-slots, probe-to-record. The name of a file here is the name of its pass; a new pass is a new file.

`available` knows these and the passes of the targets; `pipeline` reads a text such as
`select{kinds=dot},instrument`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module

from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import ArgSpecParseError

from tileprobe.errors import TileProbeError
from tileprobe.plugins import targets

Importer = Callable[[], type[ModulePass]]


def available() -> dict[str, Importer]:
    """Every pass: name -> what imports it."""
    found = passes_in(__name__)
    for target in targets().values():
        found |= target.passes()
    return found


def passes_in(package: str) -> dict[str, Importer]:
    """The passes of a package, one a module: the module's name is the pass's, with underscores."""
    modules = pkgutil.iter_modules(import_module(package).__path__)
    return {
        module.name.replace("_", "-"): _importer(f"{package}.{module.name}")
        for module in modules
        if not module.name.startswith("_")
    }


def _importer(module: str) -> Importer:
    def load() -> type[ModulePass]:
        name = module.rsplit(".", 1)[1].replace("_", "-")
        for value in vars(import_module(module)).values():
            if isinstance(value, type) and issubclass(value, ModulePass) and vars(value).get("name") == name:
                return value
        raise TileProbeError(f"{module} defines no pass named {name!r}")

    return load


def pipeline(text: str) -> PassPipeline:
    """The passes of a pipeline string: `select{kinds=dot},instrument,assign-slots,probe-to-record`."""
    known = available()
    try:
        return PassPipeline.parse_spec(known, text)
    except (ValueError, TypeError) as error:
        names = ", ".join(sorted(known))
        raise TileProbeError(f"cannot read the pipeline {text!r}: {error}; the passes are {names}") from error
    except (Exception, ArgSpecParseError) as error:  # xDSL's own is no Exception
        raise TileProbeError(f"cannot read the pipeline {text!r}: {error}") from error
