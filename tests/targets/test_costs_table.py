"""The table of costs says what was measured: what is dear is dearer than what is not, by about as much."""

import itertools

import pytest
from benchmarks.costs import STATED, UNIT_NS

# ns an element as `python -m benchmarks.costs` printed it (docs/reports.md): one alone, one more
MEASURED = {
    "div": (0.05, 0.12),
    "sqrt": (0.05, 0.19),
    "rsqrt": (0.25, 0.32),
    "exp": (0.28, 0.91),
    "exp2": (0.30, 0.81),
    "log": (0.63, 1.27),
    "sin": (0.81, 1.15),
    "erf": (0.87, 1.52),
    "int div": (0.94, 1.54),
}


@pytest.mark.parametrize("name", MEASURED)
def test_the_table_lies_between_the_first_operation_and_one_more(name):
    alone, more = MEASURED[name]
    assert 0.9 * alone <= UNIT_NS * STATED[name] <= 1.1 * more


def test_dear_operations_come_in_the_order_that_was_measured():
    order = sorted(MEASURED, key=lambda name: MEASURED[name][0])
    stated = [STATED[name] for name in order]
    for before, after in itertools.pairwise(stated):
        assert after > 0.65 * before, order
