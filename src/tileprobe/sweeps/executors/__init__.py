"""Where points run: `local`, `dask` or `ray`, or the address of a cluster; one executor a file.

A user's own cluster is named as `dask://host:port` or `ray://host:port`. Packages of clusters are extras, imported
with the executor.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.executors.base import Executor

_NEEDS = {"dask": "distributed", "ray": "ray"}
WAYS = "local, dask, ray, dask://host:port or ray://host:port"


def open_executor(on: str, jobs: int = 0) -> Executor:
    """The executor that `--on` names; `jobs` are processes, where it starts them itself."""
    name, _, address = on.partition("://")
    if name == "local" and not address:
        from tileprobe.sweeps.executors.local import Local

        return Local(jobs)
    if name not in _NEEDS or ("://" in on and not _is_address(address)):
        raise TileProbeError(f"--on {on!r}: expected {WAYS}")
    if address and jobs:
        raise TileProbeError(
            f"--jobs is for processes that are started here; {on} has the workers that it has"
        )
    if find_spec(_NEEDS[name]) is None:
        raise TileProbeError(
            f"--on {name} needs a package that is not there: pip install 'tileprobe[{name}]'"
        )
    module = import_module(f"tileprobe.sweeps.executors.{name}")
    return module.connect(address, jobs)


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon and port.isdecimal() and 0 < int(port) < 65536) and not set(text) & set(" /@")
