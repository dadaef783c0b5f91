"""How a pass pipeline travels to a compilation: as one word of Triton's instrumentation mode.

The mode is a comma list that Triton keeps in every kernel's key, in memory and on disk. Our word holds the
whole pipeline, so that a kernel compiled elsewhere (a worker process, another run) needs nothing but its key.
"""

from __future__ import annotations

import base64
import binascii
import zlib

from tileprobe.errors import TileProbeError

_WORD = "tileprobe:"
# In the place of a pipeline: the kernel is only to carry what it says about itself, down to a GPU's own IR. There it is
# assembly that does nothing: loops with a print in them are not pipelined.
SAYS = "says"


def with_pipeline(mode: str, pipeline: str) -> str:
    """`mode` with our word added; a word of ours that was there is replaced."""
    packed = base64.urlsafe_b64encode(zlib.compress(pipeline.encode(), 9)).decode()
    return ",".join([*_others(mode), _WORD + packed])


def pipeline_in(mode: str) -> str | None:
    """The pass pipeline that a mode asks for; None when it is not for us."""
    for word in mode.split(","):
        if not word.strip().startswith(_WORD):
            continue
        try:
            return zlib.decompress(base64.urlsafe_b64decode(word.strip()[len(_WORD) :])).decode()
        except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
            raise TileProbeError(f"the instrumentation mode {word!r} is damaged: {error}") from error
    return None


def _others(mode: str) -> list[str]:
    return [word for word in mode.split(",") if word.strip() and not word.strip().startswith(_WORD)]
