"""The devices of other hosts that a user has configured: tables `[remotes.NAME]`, or a variable."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from neurald.hal.errors import BadData, BadState
from neurald.hal.process.address import Address
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.configuration_file import configuration_path, read_configuration

if TYPE_CHECKING:
    from neurald.hal.rpc.transport.tls_files import TlsFiles

logger = logging.getLogger(__name__)

#: Environment variables: the daemons of other hosts, `NAME=HOST:PORT` or `HOST:PORT`, separated by
#: commas, instead of those of the file; and the folder with the certificate for all those that name
#: none.
REMOTES_VARIABLE = "NEURALD_REMOTES"
TLS_VARIABLE = "NEURALD_TLS"


class RemoteSettings(Struct, frozen=True, kw_only=True):
    """The daemon of another host, a table `[remotes.NAME]` of the configuration file.

    Attributes:
        address: the address of the daemon, `host:port`.
        tls: the folder with the client's certificate, as `neurald cert issue` made it.
        tls_cert, tls_key, tls_ca: files that are not in this folder.
    """

    address: str
    tls: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""

    def files(self) -> "TlsFiles | None":
        """Returns the files for mutual TLS; None if none are set, not even by NEURALD_TLS.

        Raises:
            BadData: some are missing.
        """
        from neurald.hal.rpc.transport.tls_files import TlsFiles

        folder = self.tls or environment_variable(TLS_VARIABLE) or ""
        named = (self.tls_cert, self.tls_key, self.tls_ca)
        if not folder and not any(named):
            return None
        if not folder and not all(named):
            raise BadData(
                f"{self.address}: TLS needs the folder tls, or each of tls_cert, tls_key and tls_ca"
            )
        found = TlsFiles.in_folder(Path(folder))
        certificate, key, authority = (
            Path(os.path.expanduser(name)).absolute() if name else None  # noqa: PTH111 - never raises
            for name in named
        )
        return TlsFiles(
            certificate=certificate or found.certificate,
            key=key or found.key,
            authority=authority or found.authority,
        )


def read_remotes(content: Mapping[str, object], where: str) -> dict[str, RemoteSettings]:
    """Returns the remotes of a configuration file, by name.

    Args:
        content: the content of the file.
        where: names the file in messages.

    Raises:
        BadData: a key is unknown, or a value is not valid; the message names it.
    """
    tables = content.get("remotes", {})
    if not isinstance(tables, Mapping):
        raise BadData(f"{where}: remotes is not a table; [remotes.NAME] is expected")
    known = RemoteSettings.__struct_fields__
    found = {}
    for name, table in tables.items():
        what = f"{where}: remotes.{name}"
        if not isinstance(table, Mapping):
            raise BadData(f"{what} is not a table; [remotes.{name}] is expected")
        for key, value in table.items():
            if key not in known:
                raise BadData(f"{what} has the key {key!r}, which is not known; there are {', '.join(known)}")
            if not isinstance(value, str):
                raise BadData(f"{what}.{key} is {value!r}; text is expected")
        if "address" not in table:
            raise BadData(f'{what} has no address; address = "HOST:PORT" is expected')
        found[str(name)] = _checked(RemoteSettings(**table), what)
    return found


def remotes_of_environment() -> dict[str, RemoteSettings] | None:
    """Returns the remotes that NEURALD_REMOTES names; None if it is not set.

    Raises:
        BadData: one is not valid.
    """
    text = environment_variable(REMOTES_VARIABLE)
    if text is None:
        return None
    found = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, equals, address = each.rpartition("=")
        found[name if equals else each] = _checked(RemoteSettings(address=address), REMOTES_VARIABLE)
    return found


def configured_remotes() -> dict[str, RemoteSettings]:
    """Returns the remotes of the environment, or else of the configuration file.

    A configuration that is not valid is reported in the log, once, and has no remotes.
    """
    global _reported
    try:
        found = remotes_of_environment()
        if found is None:
            path, is_chosen = configuration_path()
            found = read_remotes(_content(path, must_exist=is_chosen), str(path))
    except (BadData, BadState) as error:
        if _reported != str(error):
            _reported = str(error)
            logger.warning("no devices of other hosts are used: %s", error)
        return {}
    return found


def _checked(settings: RemoteSettings, what: str) -> RemoteSettings:
    try:
        address = Address.parse(settings.address)
    except BadData as error:
        raise BadData(f"{what}: {error}") from None
    if address.path is not None:
        raise BadData(f"{what}: {settings.address} is a UNIX socket; host:port is expected")
    settings.files()
    return settings


def _content(path: Path, *, must_exist: bool) -> Mapping[str, object]:
    """Returns the content of the configuration file, which is read again once it has changed."""
    global _kept
    try:
        status = os.stat(path)  # noqa: PTH116 - for the speed
        identity: object = (path, status.st_ino, status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        if not must_exist:
            return {}
        identity = None
    except OSError:
        identity = None
    if identity is None or _kept is None or _kept[0] != identity:
        content = read_configuration(path, must_exist=must_exist)
        _kept = (identity, content)
    return _kept[1]


_reported = ""
_kept: tuple[object, Mapping[str, object]] | None = None
