"""Takes the six novels of Jane Austen out of Debian's r-cran-janeaustenr package.

In: the .deb file (`apt-get download r-cran-janeaustenr`). Out: one text file, a blank line between
paragraphs. The package stores R character vectors; only that much of R's format is read here, and nothing
is executed.
"""

from __future__ import annotations

import argparse
import bz2
import io
import lzma
import struct
import tarfile
import zlib
from pathlib import Path

RDB = "./usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
FRONT_MATTER_LINES = 10  # title and author of each novel


def ar_members(data: bytes):
    """Yields (name, contents) of a Unix `ar` archive, which is what a .deb is."""
    if data[:8] != b"!<arch>\n":
        raise SystemExit("not a .deb file: it does not start with '!<arch>'")
    at = 8
    while at + 60 <= len(data):
        name, size = data[at : at + 16].decode().strip().rstrip("/"), int(data[at + 48 : at + 58])
        yield name, data[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def rdb_of(deb: Path) -> bytes:
    for name, contents in ar_members(deb.read_bytes()):
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(contents)) as tar:
                member = tar.extractfile(RDB)
                assert member is not None
                return member.read()
    raise SystemExit(f"{deb}: no data.tar in it")


def chunks(rdb: bytes):
    """Yields the decompressed objects of an R lazy-load database."""
    at = 0
    while at < len(rdb):
        kind = rdb[at + 4 : at + 5]
        if kind == b"Z":
            stream = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2}])
            at += 5
        elif kind == b"2":
            stream, at = bz2.BZ2Decompressor(), at + 5
        else:
            stream, at = zlib.decompressobj(), at + 4
        out = stream.decompress(rdb[at:])
        at = len(rdb) - len(stream.unused_data)
        yield out


def strings(data: bytes) -> list[str]:
    """The strings of a serialised R character vector (XDR format, version 2 or 3)."""
    if data[:2] != b"X\n":
        raise SystemExit("an R object that is not in XDR format")
    version = struct.unpack(">i", data[2:6])[0]
    at = 14
    if version == 3:
        at += 4 + struct.unpack(">i", data[14:18])[0]
    kind, count = data[at + 3], struct.unpack(">i", data[at + 4 : at + 8])[0]
    if kind != 16:
        return []
    at += 8
    out = []
    for _ in range(count):
        size = struct.unpack(">i", data[at + 4 : at + 8])[0]
        out.append(data[at + 8 : at + 8 + size].decode("utf-8", "replace"))
        at += 8 + size
    return out


def paragraphs(lines: list[str]) -> str:
    """Joins the hard-wrapped lines of each paragraph: where a printer broke lines is not worth learning."""
    text, paragraph = [], []
    for line in [*lines[FRONT_MATTER_LINES:], ""]:
        if line.strip():
            paragraph.append(line.strip())
        elif paragraph:
            text.append(" ".join(paragraph))
            paragraph = []
    return "\n\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("deb", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    novels = [paragraphs(lines) for lines in map(strings, chunks(rdb_of(args.deb))) if len(lines) > 1000]
    table = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "_": "", "\u2009": " "})
    args.out.write_text("\n\n".join(novels).translate(table).replace("  ", " "), encoding="utf-8")
    print(f"{len(novels)} novels, {args.out.stat().st_size:,} bytes -> {args.out}")


if __name__ == "__main__":
    main()
