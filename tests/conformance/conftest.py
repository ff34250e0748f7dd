"""Every conformance case runs on the CPU device: compiled in this process, and on its references through a socket."""

from collections.abc import Iterator

import pytest
from support.daemon import daemon_process

import neurald as nd


@pytest.fixture(scope="session")
def daemon_address() -> Iterator[str]:
    with daemon_process("cpu", environment={"NEURALD_CPU_COMPILER": "off"}) as (_, address):
        yield address


@pytest.fixture(params=["in process", "socket"])
def device(request: pytest.FixtureRequest) -> nd.Device:
    if request.param == "in process":
        return nd.devices()[0]
    return nd.connect(request.getfixturevalue("daemon_address"))
