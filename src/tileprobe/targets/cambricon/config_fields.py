"""Fields of a Hugging Face configuration, each checked as it is read: its name is in every error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tileprobe.errors import TileProbeError

MOST = 2**24  # of anything: beyond it a field is a slip of the pen, and sums of products would not be exact
MOST_OF = {
    "num_hidden_layers": 4096,
    "num_local_experts": 4096,
    "num_experts": 4096,
    "n_routed_experts": 4096,
}


@dataclass(frozen=True)
class Fields:
    config: dict[str, Any]
    where: str
    family: str

    def error(self, field: str, what: str) -> TileProbeError:
        return TileProbeError(f"{self.where}: `{field}` {what}")

    def size(self, field: str, default: int | None = None) -> int:
        """One or more; `default` where the field is missing or null."""
        value = self.config.get(field)
        if value is None:
            if default is None:
                raise self._missing(field)
            return default
        return self._whole(field, value, 1)

    def count(self, field: str, needed: bool = False) -> int:
        """Zero or more; zero where the field is missing or null."""
        value = self.config.get(field)
        if value is None:
            if needed:
                raise self._missing(field)
            return 0
        return self._whole(field, value, 0)

    def flag(self, field: str, default: bool) -> bool:
        value = self.config.get(field, default)
        if not isinstance(value, bool):
            raise self.error(field, f"must be true or false, found {value!r}")
        return value

    def word(self, field: str, default: str) -> str:
        value = self.config.get(field, default)
        if not isinstance(value, str) or not value:
            raise self.error(field, f"must be a name, found {value!r}")
        return value

    def _missing(self, field: str) -> TileProbeError:
        return TileProbeError(
            f"{self.where}: the field `{field}` is missing, which {self.family} models need"
        )

    def _whole(self, field: str, value: Any, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            kind = "a positive whole number" if least else "a whole number, zero or more"
            raise self.error(field, f"must be {kind}, found {value!r}")
        most = MOST_OF.get(field, MOST)
        if value > most:
            raise self.error(field, f"is {value:,}; no more than {most:,} are simulated")
        return value
