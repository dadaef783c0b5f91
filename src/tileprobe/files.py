"""The one way to write a file: whole or not at all.

`write_file` takes bytes or text, in one piece or many; `write_json` what JSON can say; `replacing` hands out the
name of a temporary file for those who write it themselves. It lies beside its target and is moved there when it is
complete; when anything goes wrong it is removed, the target stays as it was, and the error names the file.

Behind a symbolic link it is the link's target that is replaced: the link stays. What is no file (a device, a FIFO, a
descriptor such as /dev/stdout) is never replaced: once the content is complete, it is written into it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tileprobe.errors import TileProbeError

_LINKS = 40  # in a row, as many as Linux follows
_WRONG = {stat.S_IFBLK: "a disk", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}


def cache_home() -> Path:
    """Where what can be made again is kept: `TILEPROBE_CACHE_DIR`, else `tileprobe` in the user's cache folder."""
    home = os.environ.get("TILEPROBE_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tileprobe"
    return Path(home) if home else user


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary file to write, which becomes `path` when the block ends well."""
    temporary: Path | None = None
    try:
        target = _target(path)
        straight = isinstance(target, int) or _is_stream(target)
        folder = None if isinstance(target, int) or straight else target.parent
        name = f"descriptor-{target}" if isinstance(target, int) else target.name
        handle, made = tempfile.mkstemp(dir=folder, prefix=f".{name[:200]}.")
        temporary = Path(made)
        os.close(handle)
        yield temporary
        if straight:
            _pour(temporary, target)
        elif isinstance(target, Path):
            os.chmod(temporary, _mode(target))  # mkstemp makes files that only their owner can read
            os.replace(temporary, target)
    except OSError as error:
        raise _cannot(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Says before a long run that its result would have nowhere to go."""
    try:
        target = _target(path)
        if isinstance(target, int) or _is_stream(target):
            if not isinstance(target, int) and not os.access(target, os.W_OK):
                raise TileProbeError(f"cannot write {os.fspath(path)}: Permission denied")
            return
        folder = target.absolute().parent
        if not folder.is_dir():
            raise TileProbeError(f"cannot write {os.fspath(path)}: there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise TileProbeError(f"cannot write {os.fspath(path)}: the folder {folder} is read-only")
    except OSError as error:
        raise _cannot(path, error) from error


def write_file(
    path: str | os.PathLike[str],
    content: str | bytes | Iterable[str] | Iterable[bytes],
    *,
    make_folder: bool = False,
) -> None:
    """Writes the content, text as UTF-8. `make_folder` makes the folder it goes to if there is none."""
    pieces = (content,) if isinstance(content, str | bytes) else content
    if make_folder:
        _make_folder(Path(path).parent)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        for piece in pieces:
            file.write(piece.encode("utf-8", "backslashreplace") if isinstance(piece, str) else piece)


def write_json(path: str | os.PathLike[str], data: Any, *, make_folder: bool = False) -> None:
    text = json.dumps(data, indent=1, ensure_ascii=False)
    write_file(path, text + "\n", make_folder=make_folder)


def _target(path: str | os.PathLike[str]) -> Path | int:
    """What a path leads to: a file that may not be there yet, or a descriptor of this process."""
    at = Path(path)
    if "\0" in str(at):
        raise OSError("no file has a name with a zero byte")
    for _ in range(_LINKS):
        number = _descriptor(at)
        if number is not None:
            return number
        if not at.is_symlink():
            return at
        at = at.parent / os.readlink(at)
    raise OSError(f"more than {_LINKS} symbolic links lead from one to the next")


def _descriptor(path: Path) -> int | None:
    """The number of `/dev/fd/1` and its kind: opening it anew would begin at the start of what was written."""
    folder = os.path.realpath(path.parent)
    ours = folder in (f"/proc/{os.getpid()}/fd", "/proc/self/fd")
    return int(path.name) if ours and path.name.isdecimal() else None


def _is_stream(path: Path) -> bool:
    """Whether it is written into as it is, being a device or a FIFO; what cannot be written is said."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
    if kind in _WRONG:
        raise OSError(f"it is {_WRONG[kind]}")
    return kind != stat.S_IFREG


def _pour(temporary: Path, target: Path | int) -> None:
    with open(temporary, "rb") as source, _opened(target) as sink:
        shutil.copyfileobj(source, sink)


def _opened(target: Path | int) -> BinaryIO:
    if isinstance(target, int):
        return os.fdopen(os.dup(target), "wb")
    return os.fdopen(os.open(target, os.O_WRONLY | os.O_NOCTTY), "wb")  # nothing is made, nothing is cut off


def _mode(target: Path) -> int:
    """The mode of the file that is replaced; of a new one what the umask says."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode) & 0o777
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TileProbeError(f"cannot make the folder {folder}: {error.strerror}") from error


def _cannot(path: str | os.PathLike[str], error: OSError) -> TileProbeError:
    return TileProbeError(f"cannot write {os.fspath(path)}: {error.strerror or error}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
