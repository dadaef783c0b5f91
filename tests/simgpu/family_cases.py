"""All cases of families, with names."""

from __future__ import annotations

from collections.abc import Iterator

import family_arrivals  # noqa: F401  they register their groups
import family_barriers  # noqa: F401
import family_copies  # noqa: F401
import family_formats  # noqa: F401
import family_groups  # noqa: F401
import family_lanes  # noqa: F401
import family_loop  # noqa: F401
import family_memory  # noqa: F401
import family_order  # noqa: F401
import family_reductions  # noqa: F401
import family_remote  # noqa: F401
import family_scalar  # noqa: F401
import family_tiles  # noqa: F401
from family_machine import GROUPS, Case


def named() -> Iterator[tuple[str, Case]]:
    for name, make in GROUPS.items():
        for n, case in enumerate(make()):
            yield f"{name} {n}", case
