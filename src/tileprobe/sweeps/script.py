"""A point that is a script: `tileprobe run` with settings of its own, in a process of its own; out come the figures of
its kernels.

A setting with the name of an option of `tileprobe run` is that option; every other one is in the script's environment,
and takes the place of `{NAME}` in its arguments.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.outcome import Failed

VALUES = ("target", "threads", "clock", "numerics", "probes", "programs")  # options with a value
FLAGS = ("timed", "cold", "warm", "check", "dense")  # options that are there or not
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_SAYS = 600  # characters of what a script that failed said last


def arguments(words: list[str], values: Mapping[str, str]) -> list[str]:
    """The script and its arguments, with the settings in their places."""
    found = list(words)
    for name, text in values.items():
        found[1:] = [word.replace("{" + name + "}", text) for word in found[1:]]
    return found


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Options of `tileprobe run` as one writes them."""
    words = []
    for name, value in options.items():
        if name in VALUES:
            words += [f"--{name}", str(value)]
        elif value in (True, "true"):
            words.append(f"--{name}")
        elif value not in (False, "false"):
            raise TileProbeError(f"{name} is true or false, found {value!r}")
    return words


def run_point(settings: dict[str, Any]) -> dict[str, Any]:
    """Runs the script to its end, and gives the time of its kernels."""
    values: dict[str, str] = settings["set"]
    ours = {name: value for name, value in values.items() if name in (*VALUES, *FLAGS)}
    own = {name: value for name, value in values.items() if name not in ours}
    with tempfile.TemporaryDirectory(prefix="tileprobe-sweep-") as folder:
        figures = Path(folder, "figures.json")
        options = option_words({**settings["options"], **ours})
        command = [sys.executable, "-m", "tileprobe", "run", "--quiet", "--json", str(figures), *options]
        with open(Path(folder, "output"), "w+b") as output:
            done = subprocess.run(
                [*command, *arguments(settings["script"], own)], env={**os.environ, **own},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False, preexec_fn=_end_with_parent,
            )  # fmt: skip
            size = output.seek(0, os.SEEK_END)
            output.seek(max(size - _SAYS, 0))
            last = ("..." if size > _SAYS else "") + output.read().decode(errors="replace").strip()
        if done.returncode or not figures.exists():
            raise Failed(f"the script ended with status {done.returncode}: {last}")
        return figures_of(json.loads(figures.read_text()))


def _end_with_parent() -> None:
    """Ray kills the children of a worker that dies, but not theirs."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def figures_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of a run: the time in kernels, and each kernel's launches and time of a launch."""
    kernels = document["kernels"]
    if not kernels:
        raise TileProbeError("the script launched no Triton kernel")
    if document["unit"] != "ns":
        unit = document["unit"]
        found: dict[str, Any] = {unit: sum(kernel["total_ns"] or 0 for kernel in kernels)}
        return found | {f"{kernel['label']} launches": kernel["launches"] for kernel in kernels}
    found = {"kernels_us": sum(kernel["total_ns"] or 0.0 for kernel in kernels) / 1e3}
    for kernel in kernels:
        name, each = kernel["label"], kernel["duration_ns"]
        found |= {f"{name} launches": kernel["launches"], f"{name} us": None if each is None else each / 1e3}
        if kernel.get("cycles") is not None:
            found[f"{name} cycles"] = kernel["cycles"]
    return found


def columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as columns of a table: numbers as numbers."""
    return {name: _number(text) for name, text in settings["set"].items()}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
