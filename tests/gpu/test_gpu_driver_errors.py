"""A GPU's driver that fails in the middle, at each of the calls that a session makes: launches run once each, and it is
said what is missing."""

import pytest
from fake_gpu import Tensor, fake_gpu
from kernels_session import add

from tileprobe.errors import TileProbeError
from tileprobe.session.session import Session
from tileprobe.targets.gpu.driver_library import DriverLibrary

N, BLOCK = 1024, 128
CALLS = [
    "context",
    "capturing",
    "allocate",
    "zero",
    "write",
    "event",
    "record",
    "elapsed",
    "end_event",
    "read",
]


@pytest.fixture
def failing(monkeypatch):
    """Makes the n-th call of a sort fail; memory is asked for twice."""
    asked: dict[str, int] = {}
    call = DriverLibrary._call
    wanted: dict = {}

    def counted(self, what, *arguments):
        asked[what] = asked.get(what, 0) + 1
        if wanted and what == wanted["what"] and 0 <= asked[what] - wanted["nth"] <= (what == "allocate"):
            raise wanted["error"]
        return call(self, what, *arguments)

    monkeypatch.setattr(DriverLibrary, "_call", counted)

    def fail(what, nth, error):
        asked.clear()
        wanted.update(what=what, nth=nth, error=error)

    return fail


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize(
    "error", [MemoryError("no memory left for records"), TileProbeError("the driver cannot")]
)
@pytest.mark.parametrize("what", CALLS)
def test_a_call_that_fails_takes_no_launch_away(what, nth, error, failing, monkeypatch):
    with fake_gpu("cuda:90", monkeypatch) as gpu:
        x, y = Tensor(N), Tensor(N)
        add[(3,)](x, y, N, BLOCK=BLOCK)
        before = len(gpu.launches)
        failing(what, nth, error)
        with Session(min_cost=0.0, alternate=False) as session:
            for _ in range(3):
                add[(3,)](x, y, N, BLOCK=BLOCK)
        assert len(gpu.launches) == before + 3
        assert any(
            str(error) in text for text in (*session.problems.values(), *session.trace.meta.get("notes", ()))
        )
        probed = [launch for launch in session.trace.launches if launch.probed]
        rows = session.trace.intervals
        assert len(probed) >= 1
        assert all(len(rows.filter(rows["launch"] == one.id)) for one in probed)
