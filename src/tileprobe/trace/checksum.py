"""A checksum in a Parquet file: damage is known before a reader of Parquet sees it.

Readers trust the sizes that pages say, and one that is damaged may ask for more memory than there is, which ends the
process. In comes a file that was written with `PLACE` under the key `KEY`; `seal` puts the CRC-32 of all its bytes
there, `broken` says whether they still have it. A file that has none (older versions wrote such, and who rewrites a
file with other tools does) is taken as it is.
"""

from __future__ import annotations

import zlib
from pathlib import Path

KEY = "tileprobe.crc32"
_MARK = "tileprobe-crc32:"
PLACE = f"{_MARK}00000000"
_PIECE = 1 << 22
_FOOTER = 8  # bytes: the length of the description before it, and a magic number


def seal(path: Path) -> None:
    at = _place(path)
    if at is None:
        raise ValueError(f"there is no place for a checksum in {path}")
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(f"{_crc(path, at):08x}".encode())


def sealed(path: Path) -> bool:
    return _place(path) is not None


def broken(path: Path) -> bool:
    at = _place(path)
    if at is None:
        return False
    with open(path, "rb") as file:
        file.seek(at)
        said = file.read(8)
    return said != f"{_crc(path, at):08x}".encode()


def _place(path: Path) -> int | None:
    """Where the checksum is: in the description at the end of the file."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - _FOOTER))
        length = int.from_bytes(file.read(4), "little")
        start = max(0, size - _FOOTER - length)
        file.seek(start)
        found = file.read().rfind(_MARK.encode())
    return None if found < 0 else start + found + len(_MARK)


def _crc(path: Path, at: int) -> int:
    """Of the whole file, with zeros in place of the checksum."""
    crc, done = 0, 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            data = bytearray(piece)
            for n in range(max(at, done), min(at + 8, done + len(data))):
                data[n - done] = ord("0")
            crc, done = zlib.crc32(data, crc), done + len(data)
    return crc
