"""Lists the devices of this process and of driver daemons."""

import logging
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

from neurald.hal import registry
from neurald.hal.api_arguments import file_path, instance
from neurald.hal.device import Device
from neurald.hal.errors import Error
from neurald.hal.process.fork import notice_fork
from neurald.runtime.devices.daemons import connected_addresses, connection_to, run_concurrently
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.devices.measuring import measure_soon, on_demand_connections
from neurald.runtime.devices.remotes import configured_remotes

if TYPE_CHECKING:
    from neurald.hal.rpc.client.device import RemoteDevice

_LOGGER = logging.getLogger(__name__)


def devices(deadline_s: float | None = None) -> tuple[Device, ...]:
    """Returns the devices that are ready, without starting a process; see `listing.devices`.

    Drivers of which nothing is known are measured in the background.

    Args:
        deadline_s: when to stop waiting for answers, on the clock of `time.monotonic()`.

    Raises:
        BadData: NEURALD_AUTOSTART is neither 0 nor 1.
    """
    notice_fork()
    found = (*registry.running_daemons(), *_remote_addresses())
    on_demand = on_demand_connections()
    measure_soon(on_demand)
    addresses = dict.fromkeys((*found, *[each.address for each in on_demand], *connected_addresses()))
    if not addresses:
        return (cpu_device(),)
    asked = [
        daemon for daemon in map(connection_to, addresses) if not daemon.is_backing_off and not daemon.is_new
    ]
    answers = run_concurrently([partial(daemon.find, deadline_s) for daemon in asked], deadline_s)
    devices: dict[str, Device] = {cpu_device().name: cpu_device()}
    for daemon, answer in zip(asked, answers, strict=True):
        if answer is None:
            _LOGGER.warning("ignoring the daemon at %s, which has not answered in time", daemon.address)
        elif isinstance(answer, Error):
            # The application already knows that a daemon to which it was connected is gone, and
            # that a driver cannot start is no news after the first time.
            is_news = daemon.address in found and not daemon.starts_manager and daemon.fails_anew(answer)
            level = logging.WARNING if is_news else logging.DEBUG
            place = "" if daemon.address in str(answer) else f" at {daemon.address}"
            _LOGGER.log(level, "ignoring the driver daemon%s: %s", place, answer)
        elif devices.setdefault(answer.name, answer) is not answer:
            _LOGGER.debug(
                "ignoring the daemon at %s, because another device has the name of its device", daemon.address
            )
    return tuple(devices.values())


def _remote_addresses() -> list[str]:
    """Returns the addresses of the daemons on other hosts that are configured."""
    addresses = []
    for settings in configured_remotes().values():
        connection = connection_to(settings.address)
        connection.use_tls(settings.files())
        addresses.append(connection.address)
    return addresses


def connect(
    address: str,
    *,
    token_file: str | PathLike[str] | None = None,
    tls: str | PathLike[str] | None = None,
) -> "RemoteDevice":
    """Connects to the driver daemon at `unix:///path` or `host:port` and returns its device.

    A daemon serves only clients that present its token. The token of a daemon of the same user is
    found automatically. For a daemon of another user, or behind a forwarded port (`ssh -L`), its
    operator hands out a copy of the token file. A daemon on another host uses mutual TLS instead:
    its operator issues a certificate for the client (`neurald cert issue`).

    Until the device is closed, `devices()` lists it, and compilations that name no devices may use
    it.

    Args:
        address: the address of the daemon.
        token_file: a copy of the daemon's token file. For a daemon on TCP the default is the file
            that NEURALD_TOKEN_FILE names.
        tls: the folder with the client's certificate, its key and the daemon's authority, as
            `neurald cert issue` made it: `cert.pem`, `key.pem` and `ca.pem`.

    Raises:
        BadData: the address has neither form, or a token would leave this host unencrypted.
        BadState: the token file or a file of `tls` cannot be read, or is not valid; or the
            application is connected to this address with another certificate.
        UnavailableDevice: the daemon cannot be reached, or a certificate is refused; the message
            says why.
    """
    path = None if token_file is None else file_path(token_file, "the token file").absolute()
    connection = connection_to(instance(address, str, "the address"))
    if tls is None:
        return connection.connect(token_file=path)
    from neurald.hal.rpc.transport.tls_files import TlsFiles

    return connection.connect(tls=TlsFiles.in_folder(file_path(tls, "the folder of certificates")))
