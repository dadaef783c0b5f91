"""Chances that belong to a page: the same number whenever and wherever it is asked for.

Which pages need a second read, and which of their bits are flipped, follow from the seed and the physical number of the
page alone. So the engine's time and the functional model's values speak of the same pages.
"""

from __future__ import annotations

import numpy as np

from tileprobe.targets.jit import inline


@inline
def mix(state):
    """One step of splitmix64 (Steele, Lea and Flood, 2014): 64 well mixed bits."""
    word = state + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@inline
def uniform_of(seed, number):
    """A number between 0 and 1 of a page."""
    word = mix(mix(np.uint64(seed)) ^ mix(np.uint64(number) + np.uint64(0xD1342543DE82EF95)))
    return (np.float64(word >> np.uint64(11)) + 0.5) * 2.0**-53


@inline
def retries_of(fails, seed, number):
    """How often the page is read again, when attempt n fails with chance fails[n]; as long as `fails` when the last
    attempt fails, too.
    """
    chance = uniform_of(seed, number)
    count = 0
    while count < fails.shape[0] and chance < fails[count]:
        count += 1
    return count
