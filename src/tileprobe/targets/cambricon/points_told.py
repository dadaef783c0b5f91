"""What the points of a sweep or a search share that a reader has to know: constants that no source states, and notes.

In: settings of the points that have a result. Out, once for all of them: each constant with its values and sources and
in how many points it is used, and what of the models' configurations is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tileprobe.targets.cambricon.assumptions import assumptions_before
from tileprobe.targets.cambricon.command import settings_of
from tileprobe.targets.cambricon.points import OPTIONS, given

# of the options, those that decide which constants a point uses; of the others it matters only that they are there
_DECIDE = ("device", "weights", "mode", "slicing", "prefill", "prefill_split", "kv")
_SPILL = "spill"  # where it is the model and its context that decide


@dataclass(frozen=True)
class Told:
    assumed: dict[
        str, list[dict[str, Any]]
    ]  # section.constant -> value, source, points: one of each that there is
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        return {"assumed": self.assumed, "notes": self.notes}


def told_of(points: Iterable[Mapping[str, Any]]) -> Told:
    alike: Counter[tuple[Any, ...]] = Counter()
    one: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    models: dict[tuple[str, bool], Mapping[str, Any]] = {}
    for settings in points:
        key = _alike(settings)
        alike[key] += 1
        one.setdefault(key, settings)
        models.setdefault((settings["model"], bool(settings.get("mha"))), settings)
    found: dict[str, Counter[tuple[Any, str]]] = {}
    for key, count in alike.items():
        for name, entry in assumptions_before(*settings_of(given(one[key]))).items():
            found.setdefault(name, Counter())[entry["value"], entry["source"]] += count
    assumed = {
        name: [{"value": value, "source": source, "points": n} for (value, source), n in entries.items()]
        for name, entries in found.items()
    }
    notes = [
        f"{model.name}: {note}"
        for model, _, _ in (settings_of(given(settings)) for settings in models.values())
        for note in model.notes
    ]
    return Told(assumed, list(dict.fromkeys(notes)))


def _alike(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Points of the same use the same constants; a constant that is varied is the user's, whatever its value."""
    decide = settings if settings.get("kv") == _SPILL else {name: settings.get(name) for name in _DECIDE}
    constants = tuple(sorted(name for name in settings if name not in OPTIONS))
    aged, several = bool(settings.get("age")), (settings.get("packages") or 1) > 1
    return repr(sorted(decide.items())), repr(settings.get("set")), constants, aged, several
