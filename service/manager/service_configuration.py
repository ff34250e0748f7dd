"""The configuration of the execution service: options of `neurald serve` before the table `[service]`.

How single models are served, batches included, is in the repository, in their `config.pbtxt`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from neurald.hal.errors import BadData
from neurald.service.manager.setting_choice import SettingChoice

#: The settings in the order in which they are shown, and the option of the command line of each.
OPTIONS: Final = {
    "grpc": "--grpc",
    "http": "--http",
    "web": "--web",
    "repositories": "--repository",
    "load_models": "--load-model",
    "model_control": "--no-model-control",
    "allow_client_shm": "--allow-client-shm",
    "tls": "--tls",
    "auth_token_file": "--auth-token-file",
    "insecure": "--insecure",
}
LIMIT_OPTION: Final = "--service-limit"
#: Settings that are paths of the file system.
_PATHS: Final = ("tls", "auth_token_file")


class ServiceLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients of the execution service may use.

    Attributes:
        message_bytes: the largest request.
        total_bytes: of all requests that are there at once.
        streams: concurrent calls of a connection over gRPC.
        connections: over HTTP.
        queue: requests that wait for one model.
        load_s: seconds that loading a model may take.
    """

    message_bytes: int = 64 << 20
    total_bytes: int = 1 << 30
    streams: int = 128
    connections: int = 1024
    queue: int = 1024
    load_s: float = 600.0


class ServiceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that the table `[service]`, or the command line, has; None for all others.

    Attributes: see `ServiceConfiguration`.
    """

    grpc: str | None = None
    http: str | None = None
    web: str | None = None
    repositories: tuple[str, ...] | None = None
    load_models: tuple[str, ...] | None = None
    model_control: bool | None = None
    allow_client_shm: bool | None = None
    tls: str | None = None
    auth_token_file: str | None = None
    insecure: bool | None = None
    limits: dict[str, int | float] = {}


class ServiceConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """How the execution service is started.

    Attributes:
        grpc, http: addresses to listen at, `host:port`.
        web: the address of the live page. Without any of the three there is no service.
        repositories: folders of models.
        load_models: names of the models to load at the start; empty for all.
        model_control: whether clients may load and unload models.
        allow_client_shm: whether clients may name shared memory.
        tls: the folder of a certificate, for encrypted connections; empty for none.
        auth_token_file: the file with the token that clients send; empty for none.
        insecure: whether other hosts are served without encryption.
        limits: of clients.
    """

    grpc: str = ""
    http: str = ""
    web: str = ""
    repositories: tuple[str, ...] = ()
    load_models: tuple[str, ...] = ()
    model_control: bool = True
    allow_client_shm: bool = False
    tls: str = ""
    auth_token_file: str = ""
    insecure: bool = False
    limits: ServiceLimits = ServiceLimits()

    @property
    def is_wanted(self) -> bool:
        """True if there is an address to listen at."""
        return bool(self.grpc or self.http or self.web)


def chosen_service(
    flags: ServiceTable | None, from_file: ServiceTable | None, path: Path, sources: dict[str, str]
) -> ServiceConfiguration:
    """Returns the settings in force, and notes where each comes from.

    Args:
        flags: of the command line.
        from_file: the table of the file.
        path: of the file.
        sources: receives the source of each setting, by its name after `service.`.

    Raises:
        BadData: a value is not valid, or they contradict each other.
    """
    flags, from_file = flags or ServiceTable(), from_file or ServiceTable()
    choice = SettingChoice(path)
    plain = ServiceConfiguration()
    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        value = choice.of_flag_or_file(
            name, (option, getattr(flags, name)), getattr(from_file, name), getattr(plain, name)
        )
        if choice.sources[name] == str(path):
            value = _absolute(f"service.{name} ({path})", name, value)
        values[name] = value
    limits: dict[str, Any] = {}
    for field in msgspec.structs.fields(ServiceLimits):
        key = f"limits.{field.name}"
        limits[field.name] = choice.of_flag_or_file(
            key,
            (LIMIT_OPTION, flags.limits.get(field.name)),
            from_file.limits.get(field.name),
            getattr(plain.limits, field.name),
        )
        source = f"service.{key} ({choice.sources[key]})"
        if not 0 < limits[field.name] < 2**62 or (field.type is int and limits[field.name] % 1):
            raise BadData(f"{source} is {limits[field.name]!r}; a positive number is expected")
    for place, table in ((f"service.limits ({path})", from_file), (LIMIT_OPTION, flags)):
        for name in table.limits:
            if name not in limits:
                raise BadData(f"{place}: {name!r} is not one of {', '.join(limits)}")
    found = ServiceConfiguration(**values, limits=ServiceLimits(**limits))
    sources |= {f"service.{name}": source for name, source in choice.sources.items()}
    if (found.grpc or found.http) and not found.repositories:
        raise BadData(
            "the execution service needs the folder of its models: --repository FOLDER, or repositories in "
            "the table [service]"
        )
    if flags.repositories and not found.is_wanted:
        raise BadData("--repository is for the execution service; start it with --grpc, --http or --web")
    return found


def parsed_limits(given: Sequence[str]) -> dict[str, int | float]:
    """Returns the limits of options, each `NAME=NUMBER`.

    Raises:
        BadData: one has no number.
    """
    values: dict[str, int | float] = {}
    for each in given:
        name, _, text = each.partition("=")
        try:
            values[name] = int(text) if text.isdecimal() else float(text)
        except ValueError:
            raise BadData(f"{LIMIT_OPTION} {each!r}: NAME=NUMBER is expected") from None
    return values


def _absolute(where: str, name: str, value: Any) -> Any:
    """Returns the value of a file, in which paths have to be absolute or begin with `~`."""
    if name == "repositories":
        return tuple(_path(where, each) for each in value)
    return _path(where, value) if name in _PATHS and value else value


def _path(where: str, text: str) -> str:
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise BadData(f"{where} has {text!r}; an absolute path, or one that begins with ~, is expected")
    return str(path)
