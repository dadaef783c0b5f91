"""Points for the benchmark of sweeps."""

from typing import Any


def nothing(settings: dict[str, Any]) -> dict[str, Any]:
    return {"x": settings["x"]}
