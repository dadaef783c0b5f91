"""The checksum of a file is that of all its bytes with zeros in its own place, however it is read."""

import zlib

import pytest

from tileprobe.trace import checksum


def file_of(path, body):
    """Something that ends as a Parquet file does: a description, its length, a magic number."""
    description = b"schema" + checksum.PLACE.encode() + b"more"
    path.write_bytes(body + description + len(description).to_bytes(4, "little") + b"PAR1")
    return path


@pytest.mark.parametrize("piece", [3, 7, 1 << 22])
def test_pieces_make_no_difference(tmp_path, piece, monkeypatch):
    path = file_of(tmp_path / "t", bytes(range(256)) * 3)
    whole = path.read_bytes()
    monkeypatch.setattr(checksum, "_PIECE", piece)
    checksum.seal(path)
    sealed = path.read_bytes()
    assert f"{zlib.crc32(whole):08x}".encode() in sealed
    assert len(sealed) == len(whole)
    assert checksum.sealed(path)
    assert not checksum.broken(path)


@pytest.mark.parametrize("at", [0, 5, 767, -1, -9])
def test_a_changed_byte_is_seen(tmp_path, at):
    path = file_of(tmp_path / "t", bytes(range(256)) * 3)
    checksum.seal(path)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert checksum.broken(path)


def test_a_long_description_is_read_to_its_beginning(tmp_path):
    """Sources of many kernels may take more than 16 MB: what lies in front of them is still found."""
    path = tmp_path / "t"
    description = checksum.PLACE.encode() + b" " * (1 << 24)
    path.write_bytes(b"body" + description + len(description).to_bytes(4, "little") + b"PAR1")
    checksum.seal(path)
    assert checksum.sealed(path)
    with path.open("r+b") as file:
        file.write(b"B")
    assert checksum.broken(path)
