"""A sweep of test functions, as a command would run it."""

import pytest

from tileprobe.sweeps.driver import Driver, Rules
from tileprobe.sweeps.ledger import Ledger
from tileprobe.sweeps.points import Work


@pytest.fixture
def swept(tmp_path):
    """Runs points on an executor, and gives the entries by x; the file is `tmp_path/s.jsonl`."""

    def run(executor, call, settings, tell=lambda standing: None, kind="test", **rules):
        ledger = Ledger(tmp_path / "s.jsonl", kind)
        driver = Driver(Work(f"sweep_functions:{call}", "1"), ledger, executor, Rules(**rules), tell)
        try:
            wanted = driver.run(settings, len(settings))
            return [ledger[digest] for digest in wanted]
        finally:
            executor.close()
            ledger.close()

    return run
