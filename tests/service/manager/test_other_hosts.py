"""Drivers of a service manager that serve other hosts: who is admitted, and what replaces them."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.certificates import issue, make_authority
from support.daemon.managed import Managed
from support.models.addition import addition, one_plus, request
from support.process.ports import free_port
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import DeadObject, UnavailableDevice
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.hal.rpc.wire.device import Access
from neurald.service.certificates.authority import Authority
from neurald.service.manager.state import DriverState

_TESTS = Path(__file__).parents[2]

pytest.importorskip("cryptography", reason="TLS needs neurald[tls]")


@pytest.fixture
def authority(folder: Path) -> Authority:
    return make_authority(folder / "tls")


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def managed(folder: Path, authority: Authority, address: str) -> Iterator[Managed]:
    certificate = issue(authority, "gpu", ["127.0.0.1"]).certificate
    settings = {
        "listen": address,
        "tls": str(certificate.parent),
        "sandbox": "auto",
        "writable": [str(folder / "driver")],
        "readable": [str(_TESTS)],
    }
    with Managed(folder, "--idle", "0.2", settings=settings) as found:
        found.wait_for(DriverState.READY)
        yield found


def test_two_certificates_are_two_users_and_others_are_refused(
    managed: Managed, authority: Authority, address: str, folder: Path
) -> None:
    devices = [connect(address, tls=issue(authority, name)) for name in ("laptop", "desk")]
    local = connect(str(managed.address))
    for device in (*devices, local):
        assert one_plus(device, 1) == 2
    assert devices[0].status().access is Access.CERTIFICATE
    assert local.status().access is Access.OWN_USER
    assert local.status().sessions == 3
    stranger = issue(make_authority(folder / "other"), "stranger")
    naive = TlsFiles(
        certificate=stranger.certificate, key=stranger.key, authority=authority.folder / "ca.pem"
    )
    for tls, reason in ((None, "uses TLS"), (stranger, "is not from an authority"), (naive, "refuses")):
        with pytest.raises(UnavailableDevice, match=reason):
            connect(address, tls=tls)
    shown = managed.command("status")
    assert f"adder: serves other hosts at {address}, with certificates" in shown.stdout
    assert managed.status().listen == address


def test_it_runs_without_clients_and_after_its_death(
    managed: Managed, authority: Authority, address: str
) -> None:
    client = issue(authority, "laptop")
    device = connect(address, tls=client)
    assert one_plus(device, 1) == 2
    (process,) = managed.starts
    device.close()
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: managed.status().deaths == 1)
    wait_until(lambda: len(managed.starts) == 2)
    assert managed.wait_for(DriverState.READY).sessions == 0
    assert one_plus(connect(address, tls=client), 1) == 2


@pytest.mark.full
def test_an_update_loses_no_call_of_another_host(
    managed: Managed, authority: Authority, address: str
) -> None:
    device = connect(address, tls=issue(authority, "laptop"))
    for number in (2, 3, 4):
        managed.command("restart", "adder")
        while managed.status().process != managed.starts[-1] or len(managed.starts) < number:
            assert _added(device)
    assert _added(device)


def _added(device: RemoteDevice) -> bool:
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    result = np.zeros(2, np.float32)
    # A prepared model belongs to one process; applications prepare it again.
    with contextlib.suppress(DeadObject):
        prepared.execute(request(np.ones(2, np.float32), result), ExecuteOptions())
        return float(result[0]) == 2
    return one_plus(device, 1) == 2


def test_a_new_address_is_served_and_the_old_one_no_more(
    managed: Managed, authority: Authority, address: str
) -> None:
    client = issue(authority, "laptop")
    other = f"127.0.0.1:{free_port()}"
    managed.configure(listen=other, tls=str(authority.folder / "gpu"))
    managed.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(managed.starts) == 2 and managed.status().process == managed.starts[1])
    assert one_plus(connect(other, tls=client), 1) == 2

    def is_refused() -> bool:
        try:
            connect(address, tls=client).close()
        except UnavailableDevice:
            return True
        return False

    wait_until(is_refused)
