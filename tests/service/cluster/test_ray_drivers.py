"""Driver daemons in a Ray cluster of two nodes."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.certificates import make_authority
from support.daemon.processes import python_path
from support.inference import zoo
from support.waiting import wait_until

import neurald as nd
from neurald.hal.errors import Error, UnavailableDevice
from neurald.service.cluster.ray_drivers import DriverActor, RayDrivers


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="the extra [ray] is not installed")
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = python_path()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20})
    found.add_node(num_cpus=1, object_store_memory=80 << 20)
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


def run(address: str, path: Path, tls: Path | None = None) -> Any:
    compilation = nd.CompilationBuilder(nd.load_tflite(path), [nd.connect(address, tls=tls)], 1).finish()
    return compilation.run(np.arange(4, dtype=np.float32).reshape(1, 4))[0].reshape(-1).tolist()


def daemon_at(address: str) -> str:
    """Returns the id of the daemon that listens at an address; empty while there is none."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if address in words and "driver" in words:
                return entry.name
    return ""


def test_daemons_are_on_all_nodes_and_come_again(cluster: Any, tmp_path: Path) -> None:
    path = tmp_path / "same.tflite"
    path.write_bytes(zoo.reshaping())
    with RayDrivers("cpu", count=2, options={"num_cpus": 1}) as drivers:
        addresses = drivers.addresses(120)
        assert len(set(addresses)) == 2
        assert len(set(drivers.nodes(120))) == 2
        for address in addresses:
            assert run(address, path) == [0, 1, 2, 3]
        first = daemon_at(addresses[0])
        os.kill(int(first), signal.SIGKILL)
        wait_until(lambda: daemon_at(addresses[0]) not in ("", first))
        assert drivers.addresses(120) == addresses
        assert run(addresses[0], path) == [0, 1, 2, 3]
        import ray

        # An actor that dies is started again, and its daemon at another address.
        ray.kill(drivers._actors[1], no_restart=False)
        again = drivers.addresses(120)
        assert again[0] == addresses[0]
        assert run(again[1], path) == [0, 1, 2, 3]

    def is_gone() -> bool:
        try:
            nd.connect(again[0])
        except Error:
            return True
        return False

    wait_until(is_gone)


#: Keeps two daemons on this node, until its input ends.
TWO_ACTORS = """
import sys, time
from types import SimpleNamespace
sys.modules["ray"] = SimpleNamespace(util=SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1"))
from neurald.service.cluster.ray_drivers import DriverActor
actors = [DriverActor("cpu", sys.argv[1]) for _ in range(2)]
while not all(actor.address() for actor in actors):
    time.sleep(0.05)
print(*(actor.address() for actor in actors), flush=True)
sys.stdin.read()
"""


def test_several_daemons_of_a_node_serve_other_hosts(tmp_path: Path) -> None:
    """None takes the socket of the driver, which another daemon of the node may have."""
    pytest.importorskip("cryptography", reason="certificates need neurald[tls]")
    authority = make_authority(tmp_path / "authority")
    nodes, client = authority.issue("nodes", ["127.0.0.1"]), authority.issue("client")
    path = tmp_path / "same.tflite"
    path.write_bytes(zoo.reshaping())
    environment = {**os.environ, "PYTHONPATH": python_path(), "XDG_RUNTIME_DIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", TWO_ACTORS, str(nodes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        killer = threading.Timer(120, process.kill)
        killer.start()
        try:
            addresses = process.stdout.readline().split()
            assert len(set(addresses)) == 2
            for address in addresses:
                assert run(address, path, tls=client) == [0, 1, 2, 3]
        finally:
            killer.cancel()
            process.stdin.close()


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnavailableDevice, match=r"pip install 'neurald\[ray\]'"):
        RayDrivers()


def test_a_daemon_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()
    attempts = []

    def run(command: list[str], **_: object) -> None:
        attempts.append(command)
        if len(attempts) == 1:
            raise OSError(errno.ENOMEM, "no memory")
        started.set()
        threading.Event().wait()

    monkeypatch.setattr(subprocess, "run", run)
    actor = DriverActor("cpu", None)
    assert started.wait(30)
    assert attempts[0] == attempts[1]
    assert "--until-exit-of" in attempts[0]
    # Nothing listens yet.
    assert actor.address() == ""
