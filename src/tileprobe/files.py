"""Files are written whole or not at all.

`write_file` takes bytes or text, in one piece or many; `write_json` what JSON can say; `replacing` hands out the
name of a temporary file for those who write it themselves. It lies beside its target and is moved there when it is
complete; when anything goes wrong it is removed, the target stays as it was, and the error names the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary file to write, which becomes `path` when the block ends well."""
    path = Path(path)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        os.close(handle)
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes files that only their owner can read
        os.replace(temporary, path)
    except OSError as error:
        raise TileProbeError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


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
            file.write(piece.encode() if isinstance(piece, str) else piece)


def write_json(path: str | os.PathLike[str], data: Any, *, make_folder: bool = False) -> None:
    text = json.dumps(data, indent=1, ensure_ascii=False)
    write_file(path, text + "\n", make_folder=make_folder)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TileProbeError(f"cannot make the folder {folder}: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
