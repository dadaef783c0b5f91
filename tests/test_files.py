"""One way to write a file: whole or not at all."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.files import check_writable, replacing, write_file, write_json


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
    with pytest.raises(TileProbeError, match=r"cannot write .*folder: it is a folder"):
        write_file(tmp_path / "folder", "x")
    with pytest.raises(TileProbeError, match=r"cannot write .*none/a: No such file"):
        write_file(tmp_path / "none" / "a", "x")
    write_file(tmp_path / "none" / "b" / "a", "x", make_folder=True)
    assert (tmp_path / "none" / "b" / "a").read_text() == "x"
    (tmp_path / "file").write_text("")
    with pytest.raises(TileProbeError, match="cannot make the folder"):
        write_file(tmp_path / "file" / "a", "x", make_folder=True)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "none"]


def test_a_file_keeps_its_mode(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    write_file(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640


def read_fifo(path):
    """Reads a FIFO in a thread; `join` it, then look at the list."""
    found = []
    thread = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    thread.start()
    return thread, found


def test_a_fifo_is_written_into_and_stays(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    check_writable(path)
    thread, found = read_fifo(path)
    write_json(path, {"a": "x" * 300_000})
    thread.join(60)
    assert json.loads(found[0])["a"] == "x" * 300_000
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["fifo"]


def test_nothing_goes_into_a_fifo_unless_all_is_there(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(RuntimeError, match="the writer broke"):
        write_file(path, broken())  # opening the FIFO would wait for a reader for ever
    assert stat.S_ISFIFO(path.stat().st_mode)


def device(path, major, minor):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        with open(path, "wb"):
            return path
    except PermissionError:
        pytest.skip("devices can be made by a superuser only")


def test_a_device_stays_what_it_is(tmp_path):
    """Copies of /dev/null and /dev/full; those of the machine are left alone."""
    null, full = device(tmp_path / "null", 1, 3), device(tmp_path / "full", 1, 7)
    write_file(null, "x" * 100_000)
    with pytest.raises(TileProbeError, match=r"cannot write .*full: No space left on device"):
        write_file(full, "x")
    for path in (null, full):
        check_writable(path)
        assert stat.S_ISCHR(path.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["full", "null"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "deep").mkdir()
    target = tmp_path / "deep" / "file"
    target.write_text("old")
    links = [tmp_path / "one", tmp_path / "two"]
    links[0].symlink_to("deep/file")
    links[1].symlink_to(links[0])
    with open(target) as before:
        write_file(links[1], "new")
        assert before.read() == "old"  # another file took its place, whole
    assert [link.is_symlink() for link in links] == [True, True]
    assert target.read_text() == "new"
    assert os.listdir(tmp_path / "deep") == ["file"]


def test_a_link_that_leads_to_no_file_makes_one(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("made")
    check_writable(link)
    write_file(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "made").read_text() == "x"


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for write in (check_writable, lambda path: write_file(path, "x")):
        with pytest.raises(TileProbeError, match=r"cannot write .*symbolic links"):
            write(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()


def test_a_socket_is_refused(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        with pytest.raises(TileProbeError, match="it is a socket"):
            write_file(path, "x")
        with pytest.raises(TileProbeError, match="it is a socket"):
            check_writable(path)
    assert stat.S_ISSOCK(path.stat().st_mode)


def test_a_descriptor_is_written_where_it_stands(tmp_path):
    """`--json /dev/stdout > file`: what the script printed before stays. The link is one of our own."""
    out = tmp_path / "out"
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    text = (
        "import sys; from tileprobe.files import write_file; "
        "print('before', flush=True); write_file(sys.argv[1], 'x\\n')"
    )
    for name in (str(tmp_path / "stdout"), "/dev/fd/1", "/proc/self/fd/1"):
        with open(out, "wb") as file:
            subprocess.run([sys.executable, "-c", text, name], stdout=file, check=True, timeout=60)
        assert out.read_text() == "before\nx\n"


def test_names_that_no_file_can_have(tmp_path):
    for name in ("a\0b", "x" * 5000):
        for write in (
            check_writable,
            lambda path: write_file(path, "x"),
            lambda p: write_file(p, "x", make_folder=True),
        ):
            with pytest.raises(TileProbeError, match="cannot write"):
                write(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_nobody_else_writes_files():
    """Every file that the package leaves behind goes through `tileprobe.files`."""
    source = Path(__file__).resolve().parents[1] / "src" / "tileprobe"
    found = []
    for path in source.rglob("*.py"):
        words = (
            "os.replace(",
            ".replace(path)",
            ".write_text(",
            ".write_bytes(",
            ".rename(path)",
            "shutil.move(",
        )
        found += [f"{path.name}: {word}" for word in words if word in path.read_text(encoding="utf-8")]
    assert found == ["files.py: os.replace("]
