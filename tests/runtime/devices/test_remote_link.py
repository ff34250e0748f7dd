"""Links to other hosts that are cut, stall, or are slow: no call is lost or wrong."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.daemon.certificates import issue, make_authority
from support.daemon.link import Link
from support.models.small import add_model
from support.tiers import Tier, current_tier

import neurald as nd
from neurald.hal.admission.access.served_clients import ServedClients
from neurald.hal.process.address import Address
from neurald.hal.registry import create_device
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.runtime.devices.daemons import DaemonConnection

SHAPE = (64, 64)
CUTS = 100 if current_tier() is Tier.FULL else 30


class Host:
    """Another host: a daemon behind a link, whose executions are counted."""

    def __init__(self, server: DeviceServer, link: Link) -> None:
        self.link = link
        self.executions = 0
        run = server.handler.executions.run_with_data

        def counted(*arguments: Any, **options: Any) -> Any:
            self.executions += 1
            return run(*arguments, **options)

        server.handler.executions.run_with_data = counted  # type: ignore[method-assign]


@pytest.fixture(params=["plain", "tls"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """A host whose device is connected."""
    with ExitStack() as stack:
        gpu = laptop = None
        if request.param == "tls":
            pytest.importorskip("cryptography", reason="TLS needs neurald[tls]")
            authority = make_authority(tmp_path / "tls")
            gpu, laptop = issue(authority, "gpu", ["127.0.0.1"]), issue(authority, "laptop")
        device = create_device("sample-float-fast")
        clients = ServedClients(tls=gpu, insecure=gpu is None)
        server = DeviceServer(device, Address.parse("127.0.0.1:0"), clients=clients)
        server.start()
        stack.callback(server.stop)
        link = stack.enter_context(Link(server.address.port))
        remote = nd.connect(link.address, tls=None if laptop is None else laptop.certificate.parent)
        stack.callback(remote.close)
        yield Host(server, link)


@pytest.mark.parametrize("host", ["tls"], indirect=True)
def test_a_certificate_that_was_not_checked_is_not_taken_for_valid(host: Host, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="TLS needs neurald[tls]")
    stranger = issue(make_authority(tmp_path / "other"), "stranger").certificate.parent
    address = host.link.address
    with pytest.raises(nd.BadState, match=r"without the certificate .*stranger"):
        nd.connect(address, tls=stranger)
    connected = nd.connect(address)
    connected.close()
    with pytest.raises(nd.UnavailableDevice, match="not from an authority of"):
        nd.connect(address, tls=stranger)
    # What failed changes nothing.
    again = nd.connect(address)
    assert again.name == connected.name
    again.close()


def test_of_two_threads_with_other_certificates_one_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, refused = DaemonConnection("127.0.0.1:9"), []
    device = SimpleNamespace(is_alive=True)
    monkeypatch.setattr(DaemonConnection, "_connected", lambda *_: device)

    def connect(name: str) -> None:
        path = Path(name)
        try:
            connection.connect(tls=TlsFiles(certificate=path, key=path, authority=path))
        except nd.BadState:
            refused.append(name)

    threads = [threading.Thread(target=connect, args=(name,)) for name in ("a", "b")]
    with connection._lock:
        for thread in threads:
            thread.start()
        # Both have found no connection by then, or the second one finds it a moment later.
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert len(refused) == 1


class Application:
    """Makes calls with devices that neurald chooses, and checks every result."""

    def __init__(self) -> None:
        self.compilation = nd.CompilationBuilder(add_model(SHAPE)).finish()
        assert len(self.compilation.plan.steps) == 1
        self.calls = 0
        self.slowest_s = 0.0

    def call(self) -> None:
        self.calls += 1
        values = np.full(SHAPE, self.calls, np.float32)
        started = time.monotonic()
        (result,) = self.compilation.run(values, np.ones(SHAPE, np.float32))
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)
        assert np.array_equal(result, values + 1)

    def is_remote(self, host: Host) -> bool:
        """Makes a call; returns whether the remote device has run it."""
        before = host.executions
        self.call()
        return host.executions > before

    def call_until_remote(self, host: Host, limit_s: float = 30.0) -> None:
        end = time.monotonic() + limit_s
        while not self.is_remote(host):
            assert time.monotonic() < end, "the device is not used again"


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("host", [pytest.param("plain", marks=pytest.mark.full), "tls"], indirect=True)
def test_a_link_that_is_cut_many_times(host: Host) -> None:
    rng = random.Random(7)
    application = Application()
    application.call_until_remote(host)
    for number in range(CUTS):
        cut = threading.Timer(rng.random() * 0.01, host.link.cut, kwargs={"refuse": number % 4 == 0})
        cut.start()
        while cut.is_alive():
            application.call()
        for _ in range(3):
            application.call()
        host.link.restore()
        application.call_until_remote(host)
    assert host.link.connections > CUTS
    assert application.slowest_s < 5


@pytest.mark.timed
def test_a_link_that_stalls(host: Host) -> None:
    application = Application()
    application.call_until_remote(host)
    host.link.stall()
    for _ in range(5):
        application.call()
    assert application.slowest_s < 4, "silence is noticed within two seconds"
    host.link.cut()
    host.link.resume()
    application.call_until_remote(host)


def test_a_slow_link_carries_on(host: Host) -> None:
    host.link.delay_s = 0.05
    application = Application()
    application.call_until_remote(host)
    for _ in range(5):
        assert application.is_remote(host)
