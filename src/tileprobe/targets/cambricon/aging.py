"""A flash that ages: one model of errors for time and for values.

In: the machine's `[aging]` constants and an `Age` (cycles, days, temperature, reads since pages were written, and what
is done about it). Out: the bit error rate, the chance that each attempt to read a page fails, and how often pages are
rewritten. The engine takes the chances as reads that are repeated and pages that are rewritten; the functional model
flips bits by the same rate on the same pages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import Machine

BOLTZMANN_EV = 8.617333262e-5  # a kelvin (CODATA 2018)
KELVIN = 273.15
AUTO = -1.0
LIFE_STEPS = 16  # parts of the cycles that are left, each at the rate of its middle
SCRUB_CHANCE = 1e-3  # `auto` rewrites pages before more than one read in a thousand has to be repeated


@dataclass(frozen=True)
class Age:
    """The state of the oldest pages, for which all are taken, and the policy. 0 of `reclaim` or `refresh`: never."""

    cycles: float = 0.0  # of program and erase that blocks have seen
    days: float = 0.0  # since the pages were written
    celsius: float = 30.0
    reads: float = 0.0  # of a page since it was written
    reclaim: float = 0.0  # pages are rewritten after so many reads
    refresh: float = 0.0  # and after so many days
    tokens_a_day: float = 0.0  # 0: as many as the machine makes
    seed: int = 0


def parse_age(text: str) -> Age:
    """`cycles=1000,days=30,celsius=40,reads=500,reclaim=auto,refresh=10,tokens_a_day=20000`, any of `Age`'s fields."""
    known = {f.name for f in fields(Age)}
    found: dict[str, float] = {}
    for pair in text.replace(";", ",").split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if name not in known or not equals:
            raise TileProbeError(
                f"--age {pair.strip()!r}: write NAME=NUMBER, with a name of {', '.join(sorted(known))}"
            )
        if name in found:
            raise TileProbeError(f"--age: {name} is given twice")
        if value == "auto" and name in ("reclaim", "refresh"):
            found[name] = AUTO
            continue
        try:
            number = float(value)
        except ValueError:
            raise TileProbeError(f"--age {name}={value}: expected a number") from None
        if not math.isfinite(number) or number < (-KELVIN + 1 if name == "celsius" else 0.0):
            raise TileProbeError(f"--age {name}={value}: expected a number that is not negative")
        found[name] = number
    seed = found.pop("seed", 0.0)
    if seed != int(seed):
        raise TileProbeError(f"--age seed={seed:g}: expected a whole number")
    return replace(Age(), **found, seed=int(seed))


@dataclass(frozen=True)
class Wear:
    """What the age means for pages: the engine and the functional model take it from here."""

    age: Age  # with `reclaim` and `refresh` decided, `days` and `reads` of the oldest pages
    rate: float  # bits read wrong by the first attempt
    fails: np.ndarray  # the chance that attempt n fails
    rewrites: float  # of a page, for each time that it is read; without the refresh, which needs the speed

    def rate_of(self, retries: int, machine: Machine) -> float:
        """Of the attempt after so many retries."""
        return self.rate * machine.aging.retry_factor ** min(retries, machine.aging.most_retries)


def acceleration(machine: Machine, celsius: float) -> float:
    """How much faster charge is lost than at the temperature of the constants (Arrhenius)."""
    a = machine.aging
    inverse = 1.0 / (a.reference_celsius + KELVIN) - 1.0 / (celsius + KELVIN)
    return math.exp(a.activation_ev / BOLTZMANN_EV * inverse)


def parts_of_rate(machine: Machine, age: Age) -> tuple[float, float, float]:
    """Bit error rate by wear, by retention and by read disturb. A page that holds data was programmed at least once."""
    a, cycles = machine.aging, max(age.cycles, 1.0)
    hours = 24.0 * age.days * acceleration(machine, age.celsius)
    return (
        a.rber_base + a.rber_wear * cycles**a.wear_power,
        a.rber_retention * cycles**a.retention_cycles_power * hours**a.retention_power,
        a.rber_disturb * cycles**a.disturb_cycles_power * age.reads**a.disturb_power,
    )


def chance_of_failure(machine: Machine, rate: float) -> float:
    """That a page has a sector with more wrong bits than its code corrects; check bits count as those of a BCH code."""
    return _chance(machine.aging.correctable_bits, machine.aging.sector_bytes, machine.flash.page_bytes, rate)


def _chance(correctable: int, sector_bytes: int, page_bytes: int, rate: float) -> float:
    bits = 8 * sector_bytes
    beyond = _more_than(correctable, bits + correctable * bits.bit_length(), min(rate, 0.5))
    sectors = max(page_bytes // sector_bytes, 1)
    return -math.expm1(sectors * math.log1p(-beyond)) if beyond < 1.0 else 1.0


def _more_than(limit: int, n: int, p: float) -> float:
    """P(X > limit) of a binomial distribution."""
    if p <= 0.0 or limit >= n:
        return 0.0
    at_least = p * n < limit  # sum the smaller side
    ks = np.arange(limit + 1, n + 1) if at_least else np.arange(0, limit + 1)
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in ks[:2000]]
    terms = np.array(logs) + ks[:2000] * math.log(p) + (n - ks[:2000]) * math.log1p(-p)
    total = min(float(np.exp(terms).sum()), 1.0)
    return total if at_least else 1.0 - total


def most_rate(machine: Machine) -> float:
    """The bit error rate up to which pages need no rewriting."""
    return _most_rate(machine.aging.correctable_bits, machine.aging.sector_bytes, machine.flash.page_bytes)


@cache
def _most_rate(correctable: int, sector_bytes: int, page_bytes: int) -> float:
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        fits = _chance(correctable, sector_bytes, page_bytes, middle) <= SCRUB_CHANCE
        low, high = (middle, high) if fits else (low, middle)
    return low


def wear_of(machine: Machine, age: Age) -> Wear:
    """Decide what is `auto`, and what the age means."""
    age = _decided(machine, age)
    rate = sum(parts_of_rate(machine, age))
    if rate >= 0.5:
        raise TileProbeError(
            f"a flash of {age.cycles:g} cycles, {age.days:g} days at {age.celsius:g} C and {age.reads:g} reads has a "
            f"bit error rate of {rate:.2g}, beyond all that its model describes: nothing of the data is left"
        )
    a = machine.aging
    fails = np.array(
        [chance_of_failure(machine, rate * a.retry_factor**n) for n in range(a.most_retries + 1)]
    )
    return Wear(age, rate, fails, 1.0 / age.reclaim if age.reclaim else 0.0)


def _decided(machine: Machine, age: Age) -> Age:
    """`auto`: what base rate and wear leave of the code's strength is for retention and for reads, a half each."""
    if AUTO in (age.reclaim, age.refresh):
        fresh = replace(age, days=0.0, reads=0.0)
        left = most_rate(machine) - parts_of_rate(machine, fresh)[0]
        if left <= 0:
            raise TileProbeError(
                f"after {age.cycles:g} cycles pages of {machine.name} fail as soon as they are written: "
                f"no rewriting helps; the code corrects {machine.aging.correctable_bits} bits in "
                f"{machine.aging.sector_bytes} bytes"
            )
        if age.reclaim == AUTO:
            age = replace(age, reclaim=max(1.0, _reached(machine, fresh, "reads", left / 2)))
        if age.refresh == AUTO:
            age = replace(age, refresh=_reached(machine, fresh, "days", left / 2))
    # never: nothing of what is lost by it
    age = replace(age, reclaim=age.reclaim if math.isfinite(age.reclaim) else 0.0,
                  refresh=age.refresh if math.isfinite(age.refresh) else 0.0)  # fmt: skip
    return replace(age, days=age.refresh or age.days, reads=age.reclaim or age.reads)


def _reached(machine: Machine, age: Age, what: str, rate: float) -> float:
    """The reads or days after which their part of the rate is so large."""
    a, one = machine.aging, parts_of_rate(machine, replace(age, **{what: 1.0}))
    part, power = (one[2], a.disturb_power) if what == "reads" else (one[1], a.retention_power)
    if part <= 0.0 or power <= 0.0:
        return math.inf
    return math.exp(min(math.log(rate / part) / power, 700.0))


def rewrites_per_read(wear: Wear, steps_a_day: float, stored_per_read: float) -> float:
    """Rewrites that a page read stands for: of the pages that were read, and of all that have got too old."""
    refresh = wear.age.refresh * steps_a_day
    return wear.rewrites + (stored_per_read / refresh if refresh else 0.0)


def life_days(
    machine: Machine, age: Age, steps_a_day: float, pages_read: float, pages_stored: float
) -> float:
    """Days until blocks have seen all their cycles, when rewriting is spread evenly over the whole flash. What is
    `auto` gets shorter with every cycle; a flash whose pages fail as soon as they are written has no days left.
    """
    pages, left = (
        machine.capacity_bytes / machine.flash.page_bytes,
        machine.flash.endurance_cycles - age.cycles,
    )
    part, days = max(left, 0.0) / LIFE_STEPS, 0.0
    for n in range(LIFE_STEPS):
        try:
            wear = wear_of(machine, replace(age, cycles=age.cycles + (n + 0.5) * part))
        except TileProbeError:
            break
        a_day = steps_a_day * pages_read * rewrites_per_read(wear, steps_a_day, pages_stored / pages_read)
        if a_day == 0.0:
            return math.inf
        days += part * pages / a_day
    return days
