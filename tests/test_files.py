"""One way to write a file: whole or not at all."""

import json
import os

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.files import replacing, write_file, write_json


def test_text_bytes_and_pieces(tmp_path):
    path = tmp_path / "a.txt"
    for content, expected in (
        ("µ\n", "µ\n".encode()),
        (b"\x00\xff", b"\x00\xff"),
        (iter(["a", "b"]), b"ab"),
        ([], b""),
    ):
        write_file(path, content)
        assert path.read_bytes() == expected
    write_json(path, {"a": "µ"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": "µ"}
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_mode_is_what_the_umask_says(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_file(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "a").st_mode & 0o777 == 0o666 & ~mask


def broken():
    yield "half"
    raise RuntimeError("the writer broke")


def interrupted(path):
    with replacing(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    write_file(path, "old")
    with pytest.raises(RuntimeError, match="the writer broke"):
        write_file(path, broken())
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_errors_name_the_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(TileProbeError, match=r"cannot write .*folder: Is a directory"):
        write_file(tmp_path / "folder", "x")
    with pytest.raises(TileProbeError, match=r"cannot write .*none/a: No such file"):
        write_file(tmp_path / "none" / "a", "x")
    write_file(tmp_path / "none" / "b" / "a", "x", make_folder=True)
    assert (tmp_path / "none" / "b" / "a").read_text() == "x"
    (tmp_path / "file").write_text("")
    with pytest.raises(TileProbeError, match="cannot make the folder"):
        write_file(tmp_path / "file" / "a", "x", make_folder=True)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "none"]
