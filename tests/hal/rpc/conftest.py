"""Fixtures of the tests of remote devices: a device, a daemon in this process, and its client."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.peer import Peer, ring_threads
from support.models.addition import AddingDevice, addition
from support.waiting import wait_until

from neurald.hal.device import PrepareOptions
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.rpc.server.server import DeviceServer


@pytest.fixture
def device() -> AddingDevice:
    return AddingDevice()


@pytest.fixture
def server(tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    yield server
    server.stop()
    wait_until(lambda: ring_threads() == 0)


@pytest.fixture
def remote(server: DeviceServer) -> Iterator[RemoteDevice]:
    remote = connect(str(server.address))
    yield remote
    remote.close()


@pytest.fixture
def prepared(remote: RemoteDevice) -> RemotePreparedModel:
    """A model of the client that adds one to three elements."""
    return remote.prepare_model(addition(np.ones(3, np.float32)), PrepareOptions())


@pytest.fixture
def peer(server: DeviceServer) -> Iterator[Peer]:
    peer = Peer(server)
    yield peer
    peer.close()
