"""A real Dask cluster and a real Ray instance of this machine, whose workers are killed in the middle.

Each is started once, by processes of its own; what they leave behind is looked for at the end.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import psutil
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.executors import open_executor
from tileprobe.sweeps.executors.base import Lost
from tileprobe.sweeps.executors.local import Local

PATH = os.pathsep.join(filter(None, sys.path))
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def below(pid):
    """A process and all that it started, as far as they are alive."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def alive(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


class Cluster:
    """Processes of a cluster, each the first of a session of its own."""

    def __init__(self):
        self.started = []
        self.all = set()

    def start(self, *command, **environment):
        process = subprocess.Popen(
            [sys.executable, *command], start_new_session=True,
            env={**os.environ, "PYTHONPATH": PATH, **environment}, **QUIET,
        )  # fmt: skip
        self.started.append(process)
        return process

    def close(self):
        for process in self.started:
            self.all.update(below(process.pid))
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for process in self.all:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        assert until(lambda: not any(map(alive, self.all)))


@pytest.fixture
def cluster():
    with contextlib.closing(Cluster()) as found:
        yield found


def check_once(found, log, count, more):
    """Every point has its result, once; few of them were begun more than once."""
    assert [e["result"]["y"] for e in found] == [x * x for x in range(count)]
    ran = [int(line.split()[0]) for line in log.read_text().splitlines()]
    assert set(ran) == set(range(count))
    assert len(ran) <= count + more


def points(log, count, sleep=0.02):
    return [{"x": x, "sleep": sleep, "log": str(log)} for x in range(count)]


class Killing:
    """Is told of progress, and does each deed when so many points have ended."""

    def __init__(self, **deeds):
        self.deeds = {int(name.removeprefix("at_")): deed for name, deed in deeds.items()}

    def __call__(self, standing):
        for at in [at for at in self.deeds if standing.ended >= at]:
            self.deeds.pop(at)()


class Dask(Cluster):
    def __init__(self, folder):
        super().__init__()
        self.file = folder / "scheduler.json"
        self.scheduler = self.start(
            "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", str(self.file),
        )  # fmt: skip
        assert until(self.file.exists), "no scheduler"
        address = json.loads(self.file.read_text())["address"]
        self.on = "dask://" + address.removeprefix("tcp://")

    def worker(self):
        return self.start(
            "-m", "distributed.cli.dask_worker", "--scheduler-file", str(self.file), "--no-nanny", "--nthreads", "1",
            "--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(self.file.parent),
        )  # fmt: skip


def test_dask_with_workers_and_scheduler_killed(swept, tmp_path):
    pytest.importorskip("distributed")
    log = tmp_path / "log"
    with contextlib.closing(Dask(tmp_path)) as dask:
        first, second = dask.worker(), dask.worker()
        executor = open_executor(dask.on)
        assert until(lambda: sum(executor.client.nthreads().values()) == 2)
        deeds = Killing(
            at_8=first.kill, at_16=lambda: dask.worker() and second.kill(), at_50=dask.scheduler.kill
        )
        with pytest.raises(Lost, match=r"the Dask scheduler at dask://127\.0\.0\.1:.* is gone"):
            swept(executor, "square", points(log, 80), tell=deeds)
        assert not deeds.deeds
    lines = (tmp_path / "s.jsonl").read_text().splitlines()
    assert 50 < len(lines) < 81
    check_once(swept(Local(2), "square", points(log, 80)), log, 80, more=50)
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 81


RAY = """
import json, os, sys, time, ray
found = ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=80_000_000,
                 log_to_driver=False, _temp_dir=sys.argv[2])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(found.address_info["address"])
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(1000)
"""


@pytest.fixture
def short():
    """Ray's sockets have to have short names."""
    with tempfile.TemporaryDirectory(prefix="tp", ignore_cleanup_errors=True) as folder:
        yield folder


def test_ray_with_workers_killed(swept, tmp_path, short, cluster, monkeypatch):
    """Workers, and the processes beside them in which points run."""
    pytest.importorskip("ray")
    log, file = tmp_path / "log", tmp_path / "address"
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    head = cluster.start("-c", RAY, str(file), short)
    assert until(file.exists), "no Ray"
    monkeypatch.setenv("RAY_ADDRESS", file.read_text())
    executor = open_executor("ray")

    def kill(what):
        cluster.all.update(below(head.pid))
        named = [p for p in below(head.pid) if re.search(what, " ".join(p.cmdline()))]
        assert named
        named[0].kill()

    worker = "^ray::(perform|IDLE)"
    deeds = Killing(
        at_8=lambda: kill(worker), at_16=lambda: kill(r"sweeps\.worker"), at_24=lambda: kill(worker)
    )
    found = swept(executor, "square", points(log, 50), tell=deeds)
    assert not deeds.deeds
    check_once(found, log, 50, more=40)
    assert sum(e["attempts"] for e in found) > 50  # the driver tried what died again


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_ray_by_its_address_with_workers_and_the_client_server_killed(
    swept, tmp_path, short, cluster, monkeypatch
):
    """As from a machine outside of the cluster: a driver that loses its server says so, and does not wait for ever."""
    pytest.importorskip("ray")
    pytest.importorskip("grpc")
    log, port = tmp_path / "log", free_port()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv(
        "RAY_CLIENT_RECONNECT_GRACE_PERIOD", "3"
    )  # seconds in which Ray tries to find it again
    head = cluster.start(
        "-m", "ray.scripts.scripts", "start", "--head", "--block", "--node-ip-address", "127.0.0.1", "--port=0",
        f"--ray-client-server-port={port}", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats",
        "--object-store-memory=80000000", f"--temp-dir={short}",
    )  # fmt: skip
    executor = until(lambda: answering(f"ray://127.0.0.1:{port}"), 120.0)
    assert executor, "no Ray"

    def kill(what, count):
        cluster.all.update(below(head.pid))
        named = [p for p in below(head.pid) if alive(p) and re.search(what, " ".join(p.cmdline()))]
        assert named
        for process in named[:count]:
            process.kill()

    deeds = Killing(
        at_8=lambda: kill("^ray::(perform|IDLE)", 1), at_30=lambda: kill(r"ray\.util\.client\.server", 9)
    )
    with pytest.raises(Lost, match=rf"ray://127\.0\.0\.1:{port} is gone"):
        swept(executor, "square", points(log, 80), tell=deeds)
    assert not deeds.deeds
    there = len((tmp_path / "s.jsonl").read_text().splitlines()) - 1
    assert 30 <= there < 80
    check_once(swept(Local(2), "square", points(log, 80)), log, 80, more=60)
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 81


def answering(on):
    try:
        return open_executor(on)
    except TileProbeError:
        return None


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_an_address_that_does_not_answer(name, monkeypatch):
    package = {"dask": "distributed", "ray": "ray"}[name]
    pytest.importorskip(package)
    if name == "dask":
        from tileprobe.sweeps.executors import dask

        monkeypatch.setattr(dask, "CONNECT_S", 1.0)
    else:
        import ray

        def refuse(**options):
            raise ConnectionError(f"nobody at {options['address']}")

        monkeypatch.setattr(ray, "init", refuse)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(
            TileProbeError, match=f"answers at .*127.0.0.1:{port} .*: .*(dask scheduler|ray start)"
        ):
            open_executor(f"{name}://127.0.0.1:{port}")


def test_a_dask_cluster_for_this_run_alone(swept, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", PATH)
    log = tmp_path / "log"
    found = swept(open_executor("dask", 1), "square", points(log, 5, sleep=0.0))
    check_once(found, log, 5, more=0)
    (worker,) = {int(line.split()[1]) for line in log.read_text().splitlines()}
    assert until(lambda: not psutil.pid_exists(worker))
