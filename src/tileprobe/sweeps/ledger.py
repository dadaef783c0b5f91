"""The file of a sweep's results: a line for each point that came to an end, only ever appended to.

Each line is JSON with a checksum in front of all else. A last line that was torn (the driver was killed, the disk was
full) is cut off when the sweep goes on; damage anywhere else is an error that names the line, since what is lost there
cannot be known. One driver at a time has the file, by a lock that ends with its process.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.outcome import DONE, KINDS

FORMAT = 1
_HEADER = b'{"crc": "'  # of every line
_HEAD = len(_HEADER + b'00000000", ')
_SYNC_S = 2.0  # what a power cut may take; a killed driver loses nothing


class Ledger:
    """Lines by the digest of their point: the last one counts."""

    def __init__(self, path: Path, kind: str, restart: bool = False) -> None:
        self.path, self.kind = path, kind
        self.places: dict[
            str, tuple[int, str]
        ] = {}  # digest -> where its line begins, and the kind of outcome
        self.torn = 0  # bytes of a last line that was cut off
        self.synced = time.monotonic()
        self.file = self._open()
        try:
            self._lock()
            if restart:
                self.file.truncate(0)
            self._read()
        except BaseException:
            self.file.close()
            raise

    def _open(self) -> BinaryIO:
        if self.path.exists() and not self.path.is_file():  # a device is read without an end
            raise TileProbeError(f"cannot write {self.path}: it is no file")
        try:
            return open(self.path, "a+b")
        except OSError as error:
            raise TileProbeError(f"cannot write {self.path}: {error.strerror}") from None

    def _lock(self) -> None:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TileProbeError(
                f"another sweep writes {self.path}: wait for its end, or give this one another --out"
            ) from None
        except OSError as error:
            raise TileProbeError(f"{self.path} cannot be locked: {error.strerror}") from None

    def _read(self) -> None:
        self.file.seek(0)
        at = 0
        for number, line in enumerate(self.file, 1):
            if not line.endswith(b"\n"):
                break
            entry = _parsed(line)
            if entry is None:
                raise TileProbeError(
                    f"{self.path}, line {number}: it is damaged, or no line of a sweep's results. Remove the line to"
                    " run its point again, or begin anew with --restart or another --out"
                )
            if number == 1:
                self._check_header(entry)
            elif not isinstance(entry.get("point"), str) or entry.get("outcome") not in KINDS:
                raise TileProbeError(f"{self.path}, line {number}: it is no result of a point")
            else:
                self.places[entry["point"]] = at, entry["outcome"]
            at += len(line)
        size = self.file.seek(0, os.SEEK_END)
        self.torn = size - at
        self.file.seek(0)
        if at == 0 and not _HEADER.startswith(
            self.file.read(len(_HEADER))[: self.torn]
        ):  # no header that was torn
            raise TileProbeError(f"{self.path} is not the result of a sweep: give another --out")
        if self.torn:
            self.file.truncate(at)
        if at == 0:
            self._write({"sweep": self.kind, "format": FORMAT})

    def _check_header(self, entry: dict[str, Any]) -> None:
        found = entry.get("sweep")
        if not isinstance(found, str) or entry.get("format") != FORMAT:
            raise TileProbeError(
                f"{self.path} is not the result of a sweep of this version: give another --out"
            )
        if found != self.kind:
            raise TileProbeError(
                f"{self.path} has the results of another sweep ({found}), not of {self.kind}: give another --out, or"
                " --restart to begin it anew"
            )

    def add(self, entry: dict[str, Any]) -> None:
        """Appends what came of a point: digest, settings and outcome. It is in the file when this returns."""
        at = self.file.seek(0, os.SEEK_END)
        self._write(entry)
        self.places[entry["point"]] = at, entry["outcome"]

    def _write(self, entry: dict[str, Any]) -> None:
        body = json.dumps(entry).encode()
        line = b'{"crc": "%08x", ' % zlib.crc32(body) + body[1:] + b"\n"
        try:
            while line:  # past Python's buffer, which would be written again when the file is closed
                line = line[os.write(self.file.fileno(), line) :]
            if time.monotonic() - self.synced > _SYNC_S:
                os.fsync(self.file.fileno())
                self.synced = time.monotonic()
        except OSError as error:
            raise TileProbeError(
                f"cannot write {self.path}: {error.strerror}. All results before are in it; make room, and run the same"
                " command to go on"
            ) from None

    def __contains__(self, digest: str) -> bool:
        """Whether the point has a result."""
        return self.outcome(digest) == DONE

    def outcome(self, digest: str) -> str | None:
        """What came of it, if anything did."""
        return self.places.get(digest, (0, None))[1]

    def __getitem__(self, digest: str) -> dict[str, Any]:
        """The line of a point."""
        self.file.seek(self.places[digest][0])
        return self._entry(self.file.readline())

    def _entry(self, line: bytes) -> dict[str, Any]:
        entry = _parsed(line)
        if entry is None:
            raise TileProbeError(f"{self.path} was changed by something else while the sweep ran")
        return entry

    def entries(self) -> Iterator[dict[str, Any]]:
        """What counts of each point, in the order in which they ended."""
        for at, _ in sorted(self.places.values()):
            self.file.seek(at)
            yield self._entry(self.file.readline())

    def close(self) -> None:
        self.file.close()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The entry of a line; None when it is none, or another than was written."""
    if not line.startswith(_HEADER) or line[17:_HEAD] != b'", ':
        return None
    body = b"{" + line[_HEAD:].rstrip(b"\n")
    if line[9:17] != b"%08x" % zlib.crc32(body):
        return None
    try:
        entry = json.loads(body)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
