"""Runs conformance cases on the CPU device.

It compiles in this process, and runs references behind a socket.
"""

from collections.abc import Iterator

import pytest
from support.daemon.processes import daemon_process
from support.devices.places import PLACES

import neurald as nd


@pytest.fixture(scope="session")
def daemon_address() -> Iterator[str]:
    with daemon_process("cpu", environment={"NEURALD_CPU_COMPILER": "off"}) as (_, address):
        yield address


@pytest.fixture
def device(request: pytest.FixtureRequest) -> nd.Device:
    """Returns the device of one of `support.devices.places.PLACES`, an indirect parameter."""
    if request.param == PLACES[0]:
        return nd.devices()[0]
    return nd.connect(request.getfixturevalue("daemon_address"))
