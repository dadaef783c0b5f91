"""What each handler over lanes should do, in NumPy and in fractions, by its name: `REFERENCES[name](given)`.

A reference answers a dictionary: rows of the result under their numbers, predicate results under "P0", "P1".
`GIVEN[name]` names the kind of inputs, of which its answer depends on every part.
"""

from __future__ import annotations

import lane_floats  # noqa: F401  they put references into the table
import lane_integers  # noqa: F401
from lane_known import FLOATS, GIVEN, REFERENCES, SPECIAL

__all__ = ["FLOATS", "GIVEN", "REFERENCES", "SPECIAL"]
