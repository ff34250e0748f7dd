"""The configuration of the service manager: flags before environment before file.

The file is TOML. An unknown key is an error that names it, because a misspelled limit would be no
limit.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from neurald.hal.accounting.limits import parse_limits
from neurald.hal.admission.access.sharing import Sharing
from neurald.hal.decoding import converted
from neurald.hal.errors import BadData
from neurald.hal.process.activation import OTHER_SOCKETS
from neurald.hal.process.address import Address
from neurald.hal.process.autostart import AUTOSTART_VARIABLE, autostart_from_environment
from neurald.hal.process.files.configuration_file import (
    DRIVERS_VARIABLE,
    configuration_path,
    listed_drivers,
    read_configuration,
)
from neurald.hal.registry import default_drivers, require_driver
from neurald.runtime.devices.remotes import (
    REMOTES_VARIABLE,
    RemoteSettings,
    read_remotes,
    remotes_of_environment,
)
from neurald.service.daemon.admitted_users import group_number, sharing_of
from neurald.service.logs.choices import LogFormat, LogLevel
from neurald.service.manager.settings.configuration_errors import mistake
from neurald.service.manager.settings.service_configuration import (
    ServiceConfiguration,
    ServiceTable,
    chosen_service,
)
from neurald.service.manager.settings.setting_choice import (
    DEFAULT,
    SettingChoice,
    member_of,
    number_of_seconds,
)
from neurald.service.sandbox.mode import SandboxMode

#: Environment variables: the idle time and the drain time in seconds, and the level and the format
#: of the log.
IDLE_VARIABLE = "NEURALD_SERVE_IDLE_S"
DRAIN_VARIABLE = "NEURALD_SERVE_DRAIN_S"
LOG_LEVEL_VARIABLE = "NEURALD_LOG_LEVEL"
LOG_FORMAT_VARIABLE = "NEURALD_LOG_FORMAT"
#: The group that the machine's service serves, unless the operator chooses others.
SERVICE_GROUP: Final = "neurald"
_TLS_FIELDS: Final = ("tls", "tls_cert", "tls_key", "tls_ca")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class DriverSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one driver, a table `[drivers.NAME]` of the file.

    Attributes:
        driver: an installed driver, or `module:factory`; empty for the name of the table.
        idle_s: stops it when it has had no session for this long; 0 never does. None takes the
            manager's value.
        start_s: how long it may take to start.
        update_s: how long a new process may take to become ready that replaces one which serves.
        spare: whether its processes are forked from one that has loaded their modules, and another
            one, with the driver loaded, waits to take the place of one that dies.
        watchdog_s: how long it may be silent before it counts as hanging.
        drain_s: how long running calls may take when it stops. None takes the manager's value.
        log_level: the least level of its log. None takes the manager's value.
        users, groups: whom it serves besides the manager's own user: names or numbers. None takes
            the manager's value.
        listen: where it serves clients with certificates, `host:port`, also on other hosts. It then
            runs all the time. Empty for nowhere.
        tls: the folder with its certificate, as `neurald cert issue` made it.
        tls_cert, tls_key, tls_ca: files that are not in this folder.
        limits: the limits of clients, as for `neurald driver --limit`.
        sandbox, writable, readable: as for `neurald driver`; paths are absolute or begin with ~.
        environment: variables of its process, in addition to those of the manager.
    """

    driver: str = ""
    idle_s: float | None = None
    start_s: float = 60.0
    update_s: float = 9.0
    spare: bool = True
    watchdog_s: float = 2.0
    drain_s: float | None = None
    log_level: LogLevel | None = None
    users: tuple[str | int, ...] | None = None
    groups: tuple[str | int, ...] | None = None
    listen: str = ""
    tls: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""
    limits: dict[str, str | int] = {}
    sandbox: SandboxMode = SandboxMode.AUTO
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    environment: dict[str, str] = {}


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file."""

    autostart: bool | None = None
    idle_s: float | None = None
    drain_s: float | None = None
    log_level: LogLevel | None = None
    log_format: LogFormat | None = None
    users: tuple[str | int, ...] | None = None
    groups: tuple[str | int, ...] | None = None
    group: str | int | None = None
    socket_mode: str | None = None
    drivers: dict[str, DriverSettings] | None = None
    service: ServiceTable | None = None
    remotes: dict[str, dict[str, str]] = {}


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that an operator gave on the command line.

    Attributes:
        drivers: the drivers to supervise; empty for those of the environment or the file, or else
            the installed ones for devices other than the CPU.
        idle_s, drain_s, log_level, log_format: None for the values of the environment or the file.
        system: whether the manager serves the machine, or else its user.
        service: the service of the execution service.
    """

    drivers: tuple[str, ...] = ()
    idle_s: float | None = None
    drain_s: float | None = None
    log_level: LogLevel | None = None
    log_format: LogFormat | None = None
    system: bool = False
    service: ServiceTable | None = None


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that are in force.

    Attributes:
        autostart: whether applications start a manager when they need one.
        drain_s: how long running calls and requests may take at the end.
        log_level: the log level of the manager's own log.
        log_format: the log format of the manager's log, which includes what drivers log.
        system: whether the manager serves the machine, or else its user.
        group: the group of the sockets of the machine's service.
        socket_mode: permissions of the sockets, in octal.
        drivers: by name, complete: no value is None and no `driver` is empty.
        service: how the execution service is started.
        remotes: the daemons of other hosts that applications of this user find.
        sources: the sources for the name of each setting, where its value comes from.
    """

    autostart: bool
    drain_s: float
    log_level: LogLevel
    log_format: LogFormat
    system: bool
    group: str
    socket_mode: str
    drivers: dict[str, DriverSettings]
    service: ServiceConfiguration
    remotes: dict[str, RemoteSettings]
    sources: dict[str, str]


def load_configuration(file: Path | None = None, flags: Flags | None = None) -> Configuration:
    """Loads the configuration.

    Args:
        file: the configuration file; None for the one that NEURALD_CONFIG names, or else the user's
            or the system's if it exists.
        flags: settings of the command line.

    Raises:
        BadState: the file cannot be read.
        BadData: a setting is unknown or invalid; the message names it and its source.
    """
    flags = flags or Flags()
    path, is_chosen = configuration_path(file, is_system=flags.system)
    content = _read(path, must_exist=is_chosen)
    choice = SettingChoice(path)
    shared: dict[str, Any] = {
        "idle_s": choice.of(
            "idle_s", ("--idle", flags.idle_s), IDLE_VARIABLE, number_of_seconds, content.idle_s, 300.0
        ),
        "drain_s": choice.of(
            "drain_s", ("--drain", flags.drain_s), DRAIN_VARIABLE, number_of_seconds, content.drain_s, 30.0
        ),
    }
    for name, seconds in shared.items():
        _seconds(f"{name} ({choice.sources[name]})", seconds)
    level = choice.of(
        "log_level",
        ("--log-level", flags.log_level),
        LOG_LEVEL_VARIABLE,
        member_of(LogLevel),
        content.log_level,
        None,
    )
    log_format = choice.of(
        "log_format",
        ("--log-format", flags.log_format),
        LOG_FORMAT_VARIABLE,
        member_of(LogFormat),
        content.log_format,
        LogFormat.AUTO,
    )
    choice.sources["system"] = "--system" if flags.system else DEFAULT
    group = choice.of_file("group", None if content.group is None else str(content.group), SERVICE_GROUP)
    socket_mode = choice.of_file("socket_mode", content.socket_mode, "0660" if flags.system else "0600")
    try:
        sharing_of((), (), socket_mode)
    except BadData as error:
        raise BadData(f"socket_mode ({choice.sources['socket_mode']}): {error}") from None
    shared |= {
        "log_level": level or LogLevel.NOTICE,
        "users": choice.of_file("users", content.users, ()),
        "groups": choice.of_file("groups", content.groups, (group,) if flags.system else ()),
    }
    names = _chosen_drivers(flags.drivers, content.drivers, path, choice.sources)
    complete = {
        name: _complete(
            name,
            (content.drivers or {}).get(name, DriverSettings()),
            shared,
            str(path),
            choice.sources,
        )
        for name in names
    }
    _require_different_ports(complete)
    return Configuration(
        autostart=_chosen_autostart(content.autostart, path, choice.sources),
        drain_s=shared["drain_s"],
        log_level=level or LogLevel.INFO,
        log_format=log_format,
        system=flags.system,
        group=group,
        socket_mode=socket_mode,
        drivers=complete,
        service=chosen_service(flags.service, content.service, path, choice.sources),
        remotes=_chosen_remotes(content, path, choice.sources),
        sources=choice.sources,
    )


def _require_different_ports(drivers: Mapping[str, DriverSettings]) -> None:
    """Raises BadData if two drivers serve other hosts at the same port."""
    names: dict[int, str] = {}
    for name, settings in drivers.items():
        if settings.listen:
            port = Address.parse(settings.listen).port
            other = names.setdefault(port, name)
            if other != name:
                raise BadData(f"drivers.{name}.listen: port {port} is that of the driver {other}")


def _chosen_remotes(content: _File, path: Path, sources: dict[str, str]) -> dict[str, RemoteSettings]:
    found = remotes_of_environment()
    source = REMOTES_VARIABLE
    if found is None:
        found, source = read_remotes({"remotes": content.remotes}, str(path)), str(path)
    for name in found:
        sources[f"remotes.{name}"] = source
    return found


def load_for_this_machine(file: Path | None = None, flags: Flags | None = None) -> Configuration:
    """Loads the configuration, and requires that the users and groups in it exist.

    So must the drivers that are named by flags. One of the file may have been removed since, which
    does not keep the others from being served.

    Raises:
        BadState, BadData: as for `load_configuration`.
        UnavailableDevice: there is no driver of a name.
    """
    found = load_configuration(file, flags)
    for name in flags.drivers if flags is not None else ():
        require_driver(found.drivers[name].driver)
    for name, settings in found.drivers.items():
        try:
            driver_sharing(settings, found.socket_mode)
        except BadData as error:
            raise BadData(f"users or groups of the driver {name}: {error}") from None
    if found.system:
        try:
            group_number(found.group)
        except BadData as error:
            raise BadData(f"group ({found.sources['group']}): {error}") from None
    return found


def driver_sharing(settings: DriverSettings, socket_mode: str) -> Sharing:
    """Returns whom a driver serves.

    Raises:
        BadData: there is no such user or group, or the mode is not valid.
    """
    return sharing_of(settings.users or (), settings.groups or (), socket_mode)


def _complete(
    name: str, settings: DriverSettings, shared: Mapping[str, Any], file: str, sources: dict[str, str]
) -> DriverSettings:
    """Returns the settings of a driver with the manager's values where it has none of its own."""
    written = _written(settings)
    for field in DriverSettings.__struct_fields__:
        sources[f"drivers.{name}.{field}"] = file if field in written else DEFAULT
    for field, value in shared.items():
        if getattr(settings, field) is None:
            settings = msgspec.structs.replace(settings, **{field: value})
            sources[f"drivers.{name}.{field}"] = sources[field]
    if not settings.driver:
        settings = msgspec.structs.replace(settings, driver=name)
    _check(name, settings, sources)
    paths = {
        field: tuple(
            _absolute(f"drivers.{name}.{field} ({sources[f'drivers.{name}.{field}']})", value)
            for value in getattr(settings, field)
        )
        for field in ("writable", "readable")
    }
    return msgspec.structs.replace(settings, **paths)


def _read(path: Path, *, must_exist: bool) -> _File:
    content = read_configuration(path, must_exist=must_exist)
    if found := mistake(content, _File):
        raise BadData(f"the configuration file {path}: {found}")
    return converted(content, _File)


def _chosen_autostart(from_file: bool | None, path: Path, sources: dict[str, str]) -> bool:
    named = autostart_from_environment()
    value = from_file if named is None else named
    source = str(path) if named is None else AUTOSTART_VARIABLE
    sources["autostart"] = DEFAULT if value is None else source
    return value is not False


def _chosen_drivers(
    flag: Sequence[str], from_file: Mapping[str, Any] | None, path: Path, sources: dict[str, str]
) -> tuple[str, ...]:
    listed = listed_drivers()
    if flag:
        names, sources["drivers"] = tuple(flag), "--driver"
    elif listed:
        names, sources["drivers"] = listed, DRIVERS_VARIABLE
    elif from_file is not None:
        names, sources["drivers"] = tuple(from_file), str(path)
    else:
        names, sources["drivers"] = default_drivers(), DEFAULT
    for name in names:
        if not _NAME.fullmatch(name) or f"{name}.sock" in OTHER_SOCKETS:
            others = " and ".join(repr(each.removesuffix(".sock")) for each in sorted(OTHER_SOCKETS))
            raise BadData(
                f"{sources['drivers']} names a driver {name!r}; a name of letters, digits, '_', '-' and '.' is "
                f"expected, other than {others}. A table "
                "[drivers.NAME] in the configuration file gives a module:factory a name"
            )
        if names.count(name) > 1:
            raise BadData(f"{sources['drivers']} names the driver {name} twice; once is expected")
    return names


def _written(settings: DriverSettings) -> frozenset[str]:
    """Returns the fields that differ from their defaults."""
    plain = DriverSettings()
    return frozenset(
        name for name in DriverSettings.__struct_fields__ if getattr(settings, name) != getattr(plain, name)
    )


def _check(name: str, settings: DriverSettings, sources: Mapping[str, str]) -> None:
    """Raises BadData unless the values of a driver's settings are valid."""

    def where(field: str) -> str:
        return f"drivers.{name}.{field} ({sources[f'drivers.{name}.{field}']})"

    for field in ("idle_s", "start_s", "update_s", "watchdog_s", "drain_s"):
        _seconds(where(field), getattr(settings, field), may_be_zero=field in ("idle_s", "drain_s"))
    try:
        parse_limits(limit_arguments(settings))
    except BadData as error:
        raise BadData(f"{where('limits')}: {error}") from None
    try:
        tls_arguments(settings)
    except BadData as error:
        raise BadData(f"{where('listen')}: {error}") from None
    for variable, value in settings.environment.items():
        if not variable or set(variable) & {"=", "\0"} or "\0" in value:
            raise BadData(f"{where('environment')}: {variable!r} is not a variable that a process can have")


def limit_arguments(settings: DriverSettings) -> list[str]:
    """Returns the limits as arguments of `neurald driver --limit`."""
    return [f"{name}={value}" for name, value in settings.limits.items()]


def tls_arguments(settings: DriverSettings) -> list[str]:
    """Returns where a driver serves other hosts, as arguments of `neurald driver`.

    Raises:
        BadData: the settings are not valid, or incomplete.
    """
    named = {field: getattr(settings, field) for field in _TLS_FIELDS}
    if not settings.listen:
        if any(named.values()):
            raise BadData(f"{', '.join(filter(named.get, named))} needs listen, the address for other hosts")
        return []
    address = Address.parse(settings.listen)
    if address.path is not None or not address.port:
        raise BadData(f"{settings.listen!r} is not the address for other hosts; host:port is expected")
    if not settings.tls and not (settings.tls_cert and settings.tls_key and settings.tls_ca):
        raise BadData(
            f"{settings.listen} needs the folder tls, or each of tls_cert, tls_key and tls_ca; see neurald cert"
        )
    arguments = ["--listen-tls", settings.listen]
    for field, value in named.items():
        if value:
            arguments += [f"--{field.replace('_', '-')}", _absolute(field, value)]
    return arguments


def _absolute(where: str, value: str) -> str:
    """Returns an absolute path; raises BadData if a path is neither that nor begins with ~."""
    try:
        path = Path(value).expanduser()
    except RuntimeError:
        path = Path(value)
    if not path.is_absolute() or "\0" in value:
        raise BadData(f"{where} is {value!r}; an absolute path, or one that begins with ~, is expected")
    return str(path)


def _seconds(where: str, value: float, *, may_be_zero: bool = True) -> float:
    if not math.isfinite(value) or value < 0 or (value == 0 and not may_be_zero):
        least = "at least 0" if may_be_zero else "more than 0"
        raise BadData(f"{where} is {value!r}; a finite number of seconds, {least}, is expected")
    return value
