"""The chaos campaign notices what it is there for; `make chaos` does it to real runs, many times."""

import pytest
from fuzz.chaos.scenarios import SCENARIOS
from fuzz.chaos.trial import OLD, OUTPUTS, trial

from tileprobe.trace.trace import Trace


@pytest.fixture
def one():
    with trial("test") as made:
        yield made


def test_older_files_are_as_good_as_whole_ones(one):
    assert one.whole_or_old() == 0
    assert not one.wrong


@pytest.mark.parametrize(("name", "half"), [*zip(OUTPUTS, (b"PAR1 half", b'{"kernels": [', b""))])
def test_a_file_that_is_half_written_is_found(one, name, half):
    (one.folder / name).write_bytes(half)
    assert one.whole_or_old() == 1
    assert "neither whole nor old" in one.wrong[0]


def test_launches_that_are_lost_are_found(one):
    from fuzz.inputs.traces import corpus

    trace, *documents = OUTPUTS
    (one.folder / trace).write_bytes(corpus()[1])  # six launches, of which no work says more
    for name in documents:
        (one.folder / name).write_text("{}")
    assert Trace.load(one.folder / trace).launches
    one.kept(10**6)
    assert "launches in the trace of 1000000" in one.wrong[0]


def test_an_output_that_is_missing_is_found(one):
    assert (one.folder / OUTPUTS[0]).read_text() == OLD
    one.kept(0)
    assert one.wrong == ["an output was not written"]


def test_tracebacks_hangs_and_leftovers_are_found(one, monkeypatch):
    monkeypatch.setattr("fuzz.chaos.trial.LIMIT_S", 1.0)
    one.run(["sh", "-c", "echo 'Traceback (most recent call last)' >&2; touch .half"])
    assert "Traceback" in one.wrong[0]
    assert one.leftovers() == [".half"]
    one.run(["sleep", "30"])
    assert "it hung" in one.wrong[1]


@pytest.mark.parametrize("name", ["kill -9", "full disk", "closed pipe"])
def test_a_trial_of_each_that_the_tests_of_endings_do_not_have(name):
    with trial(f"{name}/7") as made:
        SCENARIOS[name](made)
    assert not made.wrong
