"""Reads the state that the live page of an execution service shows, for `neurald top`."""

import http.client
from typing import Final

import msgspec

from neurald.hal.decoding import from_json
from neurald.hal.errors import BadData, UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.process.files.bounded_read import read_at_most
from neurald.hal.records import DECODE_ERRORS
from neurald.service.manager.snapshot import DriverSnapshot

_TIMEOUT_S: Final = 10.0
#: Maximum size in bytes of an answer.
_MAX_BYTES: Final = 1 << 26
_MAX_MESSAGE: Final = 300


class ModelState(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a model; what is not known is None.

    Attributes:
        name, version: the name and version of the model.
        is_ready: whether it takes requests.
        reason: why it does not, or what is wrong with a later version.
        devices: the devices that run it.
        waiting, running: requests.
        requests, failures, refused: how many there were.
        latency_ms: percentiles of the latest requests by name, such as `p50`.
    """

    name: str
    version: str = ""
    is_ready: bool = False
    reason: str = ""
    devices: tuple[str, ...] = ()
    waiting: int | None = None
    running: int | None = None
    requests: int | None = None
    failures: int | None = None
    refused: int | None = None
    latency_ms: dict[str, float] | None = None


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """An execution service, and the drivers of its machine.

    Attributes:
        models: all versions.
        drivers: the drivers of the service manager.
        drivers_problem: why there are no drivers, if the manager does not answer.
        connections: clients over HTTP.
        request_bytes: memory of requests.
    """

    models: tuple[ModelState, ...]
    drivers: tuple[DriverSnapshot, ...]
    drivers_problem: str = ""
    connections: int = 0
    request_bytes: int = 0


def read_page_state(address: str, token: str = "") -> PageState:
    """Asks a live page for its state.

    Args:
        address: host and port of `neurald serve --web`.
        token: the token of the service, if it wants one. It is sent without encryption, so only
            within this host.

    Raises:
        BadData: the address is not valid, the token would be sent to another host, or the answer is
            not that of a live page.
        UnavailableDevice: nobody answers there, or the token is not accepted.
    """
    place = Address.parse(address)
    if place.path is not None:
        raise BadData(f"{address} is a UNIX socket; the host:port of a live page is expected")
    if token and not place.is_loopback:
        raise BadData(
            f"the token would be sent to {address} without encryption; forward a port of this host to the page "
            "with `ssh -L`, and name that"
        )
    try:
        connection = http.client.HTTPConnection(place.host, place.port, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", "/state", headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            content = read_at_most(answer, _MAX_BYTES)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnavailableDevice(
            f"no live page answers at {address} ({error}); `neurald serve --web` has one"
        ) from None
    if answer.status != http.client.OK:
        text = content[:_MAX_MESSAGE].decode(errors="replace")
        raise UnavailableDevice(
            f"no live page is at {address}: the answer has status {answer.status}, {text}"
        )
    try:
        if len(content) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes")
        return from_json(content, PageState)
    except (ValueError, *DECODE_ERRORS) as error:
        raise BadData(f"what answers at {address} is not a live page of neurald: {error}") from None
