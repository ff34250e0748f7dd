"""Every conformance case runs on every device that can be had here, in process and through a socket."""

from collections.abc import Iterator

import pytest
from support.daemon import running_daemon

import neurald as nd


@pytest.fixture(scope="session")
def daemon_address() -> Iterator[str]:
    with running_daemon(driver="cpu") as address:
        yield address


@pytest.fixture(params=["in process", "socket"])
def device(request: pytest.FixtureRequest) -> nd.Device:
    if request.param == "in process":
        return nd.devices()[0]
    return nd.connect(request.getfixturevalue("daemon_address"))
