"""Opens connections to devices in daemons, and finds out why that fails."""

import contextlib
import time
from pathlib import Path

from neurald._proto import device_pb2
from neurald.hal.device import Capabilities
from neurald.hal.errors import (
    BadData,
    DeadObject,
    MissedDeadlineTransient,
    UnavailableDevice,
    Unreachable,
    Withdrawn,
)
from neurald.hal.process.activation import is_vacant
from neurald.hal.process.address import Address
from neurald.hal.process.fork import require_grpc
from neurald.hal.rpc.client.connection import CONNECT_TIMEOUT_S, Connection
from neurald.hal.rpc.client.reach import require_listener
from neurald.hal.rpc.client.tls_refusal import refusal, serves_tls
from neurald.hal.rpc.transport.tls_files import TlsContent, TlsFiles
from neurald.hal.rpc.wire.device import DeviceDescription, capabilities_from_wire, description_from_wire

#: How long a client waits until a service manager listens in the place of a driver that died.
_MAX_GAP_S = 1.0
_GAP_POLL_S = 0.01
#: How many connections are opened while the process that accepts them is about to stop.
_MAX_REFUSALS = 12


def open_connection(
    address: Address,
    deadline_s: float | None = None,
    token_file: Path | None = None,
    tls: TlsFiles | None = None,
) -> tuple[Connection, DeviceDescription, Capabilities]:
    """Opens a connection; returns it with the description and capabilities of its device.

    Raises:
        UnavailableDevice: there is no daemon, or it does not answer; the message says which.
        Error: the daemon refuses a session.
    """
    require_grpc()
    if tls is not None and address.path is not None:
        raise BadData(f"{address} is a UNIX socket; TLS is for TCP")
    began_s = time.monotonic()
    limit = began_s + CONNECT_TIMEOUT_S
    limit = limit if deadline_s is None else min(limit, deadline_s)
    refusals = 0
    while True:
        before = _listener(address)
        try:
            return _open_once(address, limit, token_file, tls)
        except Withdrawn as error:
            # On TCP its successor may listen at the same port, and get every second connection.
            refusals += 1
            if refusals >= _MAX_REFUSALS or time.monotonic() >= limit:
                raise UnavailableDevice(str(error)) from None
            time.sleep(_GAP_POLL_S)
        except UnavailableDevice:
            now_s = time.monotonic()
            if now_s < began_s + _MAX_GAP_S and address.path is not None and is_vacant(address.path):
                time.sleep(_GAP_POLL_S)
                continue
            # Another process may have taken over the address in the meantime.
            if _listener(address) == before or now_s >= limit:
                raise


def _listener(address: Address) -> object:
    """Returns a value that differs for different listeners at a UNIX socket."""
    if address.path is None:
        return None
    try:
        status = address.path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _open_once(
    address: Address, limit: float, token_file: Path | None, tls: TlsFiles | None
) -> tuple[Connection, DeviceDescription, Capabilities]:
    """Opens a connection to the process that listens now; see `_open`."""
    content = None if tls is None else tls.read()
    if content is not None:
        content.require_timely("this client")
    require_listener(address, limit)
    try:
        connection = Connection(address, limit, token_file, content)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(connection.close)
            capabilities = connection.call("GetCapabilities", device_pb2.GetCapabilitiesRequest(), limit)
            description = description_from_wire(connection.description)
            measured = capabilities_from_wire(capabilities.capabilities, description.declared_extensions)
            cleanup.pop_all()
    except (DeadObject, MissedDeadlineTransient) as error:
        if isinstance(error, Withdrawn):
            raise
        # A daemon that is silent would not answer another handshake either.
        is_silent = isinstance(error, Unreachable | MissedDeadlineTransient)
        reason = "" if is_silent else _tls_failure(address, tls, content, limit)
        raise UnavailableDevice(reason or str(error)) from None
    except BadData as error:
        raise UnavailableDevice(
            f"the process at {address} is not a driver daemon of this version: {error}"
        ) from None
    return connection, description, measured


def _tls_failure(address: Address, tls: TlsFiles | None, content: TlsContent | None, limit_s: float) -> str:
    """Returns why client and daemon do not agree on TLS, as a sentence; empty if they do."""
    if address.path is not None:
        return ""
    if tls is not None and content is not None:
        return refusal(address, tls, content, limit_s)
    if serves_tls(address, limit_s):
        return f"the daemon at {address} uses TLS; pass the folder with your certificate as tls="
    return ""
