"""Makes the helpers of these tests importable; a fixture that interprets every launch of a test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def alongside():
    """Every launch is interpreted too; the test fails if the outcomes differ or the order of points matters."""
    from alongside import Alongside

    watch = Alongside()
    watch.install()
    try:
        yield watch
    finally:
        watch.remove()
    assert not watch.found, "\n".join(watch.found)
