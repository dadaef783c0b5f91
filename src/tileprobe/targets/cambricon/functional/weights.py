"""Reads the tensors of a Hugging Face folder: safetensors files, one or many. Nothing in them is executed.

In: a folder. Out: `Tensors`, which hands out float32 arrays by name and checks their shapes. Pickled weights
(`pytorch_model.bin`) are refused: unpickling a file runs whatever code it holds.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from tileprobe.errors import TileProbeError

FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}


class Tensors:
    """The tensors of a folder by name; the files stay closed between reads."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._file_of: dict[str, Path] = {}
        for path in _files(folder):
            for name in _names(path):
                self._file_of.setdefault(name, path)

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def names(self) -> list[str]:
        return sorted(self._file_of)

    def check(self, name: str, shape: tuple[int, ...]) -> tuple[Path, str, int, int]:
        """(file, type, first byte, end) of a tensor; an error when missing, misshapen or of another type."""
        if name not in self._file_of:
            raise TileProbeError(
                f"{self.folder}: no tensor {name!r} in its safetensors files; config.json asks for it with "
                f"shape {list(shape)}"
            )
        path = self._file_of[name]
        dtype, found, start, stop = _entry(path, name)
        if tuple(found) != tuple(shape):
            raise TileProbeError(
                f"{path.name}: tensor {name!r} has shape {list(found)}, config.json asks for {list(shape)}"
            )
        if dtype not in FLOATS:
            raise TileProbeError(
                f"{path.name}: tensor {name!r} is {dtype}; expected one of {', '.join(FLOATS)}: give the "
                "unquantised weights, they are quantised here"
            )
        return path, dtype, start, stop

    def get(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The tensor as float32, checked; its values must be finite."""
        path, dtype, start, stop = self.check(name, shape)
        count = int(np.prod(shape, dtype=np.int64))
        raw = np.fromfile(path, FLOATS[dtype], count, offset=start)
        if raw.size != count or stop - start != raw.nbytes:
            raise TileProbeError(f"{path}: tensor {name!r} is cut short; copy the file again")
        values = _widen(raw, dtype).reshape(shape)
        if not np.isfinite(values).all():
            raise TileProbeError(f"{path.name}: tensor {name!r} holds values that are not finite")
        return values


def _widen(raw: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "BF16":  # the upper half of a float32
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32)


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise TileProbeError(
            f"no folder {folder}: give a Hugging Face folder with config.json and safetensors"
        )
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = [p.name for p in folder.glob("*.bin")]
        hint = f"; {pickled[0]} is a pickle and is never opened: convert it to safetensors" if pickled else ""
        raise TileProbeError(f"{folder}: no .safetensors file in it{hint}")
    return files


def _names(path: Path) -> list[str]:
    """The names in a file, after the safetensors library has checked that the file is whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "np") as file:
            return list(file.keys())
    except (SafetensorError, OSError) as error:
        raise TileProbeError(f"{path} is no whole safetensors file: {error}; copy it again") from None


def _entry(path: Path, name: str) -> tuple[str, list[int], int, int]:
    """(type, shape, first byte, last byte + 1): NumPy has no bfloat16, so the bytes are read here."""
    with path.open("rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        entry = json.loads(file.read(size))[name]
    start, stop = entry["data_offsets"]
    return entry["dtype"], entry["shape"], 8 + size + start, 8 + size + stop
