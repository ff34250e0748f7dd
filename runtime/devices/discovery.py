"""Lists the devices of this process and of driver daemons, and asks them what they support."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, partial
from os import PathLike
from typing import TYPE_CHECKING

from neurald.hal import registry
from neurald.hal.api_arguments import file_path, instance, shown
from neurald.hal.device import Device, Verdict
from neurald.hal.errors import BadData, BadState, Error, UnexpectedNull
from neurald.hal.extension_support import refused_operations
from neurald.hal.model.numbering import positions_by_number
from neurald.hal.model.types import Model
from neurald.runtime.devices.daemons import connected_addresses, connection_to, run_concurrently
from neurald.runtime.devices.driver_faults import checked, convert_driver_faults, feature_level
from neurald.runtime.devices.extensions import conflicts
from neurald.runtime.devices.measuring import measure_soon, on_demand_connections
from neurald.runtime.devices.remotes import configured_remotes
from neurald.runtime.model.feature_level_slice import slice_for

if TYPE_CHECKING:
    from neurald.hal.rpc.client.device import RemoteDevice

_LOGGER = logging.getLogger(__name__)


@cache
def cpu_device() -> Device:
    """Returns the CPU device of this process, the fallback for all others."""
    return registry.create_device("cpu")


def devices(deadline_s: float | None = None) -> tuple[Device, ...]:
    """Returns the devices that are ready, without starting a process; see `listing.devices`.

    Drivers of which nothing is known are measured in the background.

    Args:
        deadline_s: when to stop waiting for answers, on the clock of `time.monotonic()`.

    Raises:
        BadData: NEURALD_AUTOSTART is neither 0 nor 1.
    """
    found = (*registry.running_daemons(), *_remote_addresses())
    on_demand = on_demand_connections()
    measure_soon(on_demand)
    addresses = dict.fromkeys((*found, *(each.address for each in on_demand), *connected_addresses()))
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
            _LOGGER.log(level, "ignoring a driver daemon: %s", answer)
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


def open_device(driver: str) -> Device:
    """Creates a device of an installed driver in this process, without a daemon.

    A fault of the driver is then a fault of the application: nothing restarts it. `devices()` does
    not list the device; a compilation uses it if it is in the list of devices.

    Args:
        driver: the name of a driver, such as "opencl", or `module:factory`. "cpu" is the device
            that `devices()` lists.

    Raises:
        BadData: the argument is not a string, or the factory does not return a device.
        UnavailableDevice: there is no such driver, or its device is not available on this machine.
        Error: what the factory raises.
    """
    name = instance(driver, str, "the driver")
    return cpu_device() if name == cpu_device().name else registry.create_device(name)


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
        address: of the daemon.
        token_file: a copy of the daemon's token file. For a daemon on TCP the default is the file
            that NEURALD_TOKEN_FILE names.
        tls: the folder with the client's certificate, its key and the daemon's authority, as
            `neurald cert issue` made it: `cert.pem`, `key.pem` and `ca.pem`.

    Raises:
        BadData: the address has neither form, or a token would leave this host unencrypted.
        BadState: the token file or a file of `tls` cannot be read, or is not valid.
        UnavailableDevice: the daemon cannot be reached, or a certificate is refused; the message
            says why.
    """
    path = None if token_file is None else file_path(token_file, "the token file").absolute()
    connection = connection_to(instance(address, str, "the address"))
    if tls is None:
        return connection.connect(token_file=path)
    from neurald.hal.rpc.transport.tls_files import TlsFiles

    return connection.connect(tls=TlsFiles.in_folder(file_path(tls, "the folder of certificates")))


def supported_operations(model: Model, devices: Sequence[Device]) -> dict[str, tuple[Verdict, ...]]:
    """Asks each device which operations of the main graph it supports.

    A device that fails, or returns the wrong number of verdicts, supports nothing.

    Returns:
        For each device name, one verdict per operation, in the order in which the application added
            the operations.

    Raises:
        BadState: the model is not finished.
        BadData: there is no device, or one is listed twice.
        UnexpectedNull: `model` is None.
    """
    if model is None:
        raise UnexpectedNull("model is None")
    if not isinstance(model, Model):
        raise BadState(f"{type(model).__name__} is not a Model returned by ModelBuilder.finish()")
    found = verdicts_in_execution_order(model, devices)
    positions = positions_by_number(model.main).values()
    return {name: tuple(verdicts[position] for position in positions) for name, verdicts in found.items()}


def verdicts_in_execution_order(
    model: Model, devices: Sequence[Device], deadline_s: float | None = None
) -> dict[str, tuple[Verdict, ...]]:
    """Asks each device like `supported_operations`, but returns the verdicts in execution order.

    Daemons are queried concurrently, each in a thread of its own; devices of this process are
    queried in the calling thread.

    Args:
        model: a finished model.
        devices: devices with different names.
        deadline_s: when to stop waiting for daemons, on the clock of `time.monotonic()`. A daemon
            that has not answered by then supports nothing.

    Raises:
        BadData: there is no device, or one is listed twice.
    """
    check_devices(devices)
    disabled = conflicts(devices)
    remote = [device for device in devices if device.is_remote]
    answers = run_concurrently([partial(_verdicts, model, device, disabled) for device in remote], deadline_s)
    late = Verdict(ok=False, reason="it has not answered before the compilation's deadline")
    verdicts = {
        device.name: answer if isinstance(answer, tuple) else (late,) * len(model.main.operations)
        for device, answer in zip(remote, answers, strict=True)
    }
    return {
        device.name: verdicts.get(device.name) or _verdicts(model, device, disabled) for device in devices
    }


def check_devices(devices: Sequence[Device]) -> None:
    """Raises BadData unless the argument is a non-empty sequence of distinct devices."""
    if isinstance(devices, str | bytes) or not isinstance(devices, Sequence):
        raise BadData(f"the devices are {shown(devices)}; a list of devices is expected")
    if not devices:
        raise BadData("the list of devices is empty")
    for device in devices:
        if not isinstance(getattr(device, "name", None), str):
            raise BadData(f"{device!r} is not a device; neurald.devices() lists the devices")
    if len({device.name for device in devices}) < len(devices):
        name, count = Counter(device.name for device in devices).most_common(1)[0]
        raise BadData(f"device {name} is listed {count} times")


def _verdicts(model: Model, device: Device, disabled: Mapping[str, str]) -> tuple[Verdict, ...]:
    """Asks a device and returns one verdict per operation.

    The device is asked only about operations that its feature level and extensions include.
    """
    try:
        level = feature_level(device)
        with convert_driver_faults(device.name):
            refused = refused_operations(model, device, disabled)
    except Error as error:
        _LOGGER.warning("%s supports nothing: %s", device.name, error)
        return (Verdict(ok=False, reason=str(error)),) * len(model.main.operations)
    part, positions = slice_for(model, level, refused)
    if part is model:
        return _answers(model, device)
    newer = f"newer than its feature level, {level.name}"
    verdicts = [
        Verdict(ok=False, reason=refused.get(position, newer))
        for position in range(len(model.main.operations))
    ]
    answers = _answers(part, device) if positions else ()
    for position, answer in zip(positions, answers, strict=True):
        verdicts[position] = answer
    return tuple(verdicts)


def _answers(model: Model, device: Device) -> tuple[Verdict, ...]:
    expected = len(model.main.operations)
    try:
        with convert_driver_faults(device.name):
            verdicts = tuple(device.supported_operations(model))
            for kind in {type(verdict): verdict for verdict in verdicts}.values():
                checked(kind, Verdict, device.name, "supported_operations()")
    except Error as error:
        _LOGGER.warning("%s supports nothing: %s", device.name, error)
        return (Verdict(ok=False, reason=str(error)),) * expected
    if len(verdicts) != expected:
        reason = f"it returned {len(verdicts)} verdicts for {expected} operations"
        _LOGGER.warning("%s supports nothing: %s", device.name, reason)
        return (Verdict(ok=False, reason=reason),) * expected
    return verdicts
