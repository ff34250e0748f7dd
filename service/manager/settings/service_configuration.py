"""The execution service's configuration: options of `neurald serve`, then `[service]`.

How single models are served, batches included, is in the repository, in their `config.pbtxt`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from neurald.hal.errors import BadData
from neurald.hal.process.address import Address
from neurald.service.manager.settings.setting_choice import SettingChoice

#: The settings in the order in which they are shown, and the option of the command line of each.
OPTIONS: Final = {
    "grpc": "--grpc",
    "http": "--http",
    "web": "--web",
    "repositories": "--repository",
    "load_models": "--load-model",
    "model_control_mode": "--model-control-mode",
    "repository_poll_s": "--repository-poll-secs",
    "allow_client_shm": "--allow-client-shm",
    "http_restricted_api": "--http-restricted-api",
    "grpc_restricted_protocol": "--grpc-restricted-protocol",
    "http_header_forward_pattern": "--http-header-forward-pattern",
    "grpc_header_forward_pattern": "--grpc-header-forward-pattern",
    "tls": "--tls",
    "auth_token_file": "--auth-token-file",
    "insecure": "--insecure",
}
#: Among the names of models to load at the start: all models of the repository.
ALL_MODELS: Final = "*"
#: Modes of model control, with Triton's names: nobody loads models after the start; clients do, and
#: choose which; the repository is looked at again and again. By default clients do, and all models
#: are loaded at the start.
DEFAULT_MODE: Final = ""
NONE: Final = "none"
EXPLICIT: Final = "explicit"
POLL: Final = "poll"
MODES: Final = (NONE, EXPLICIT, POLL)
_MAX_POLL_S: Final = 86_400.0
LIMIT_OPTION: Final = "--service-limit"
TRACE_OPTION: Final = "--trace-config"
#: The mode of traces, and what may precede the names of its settings. Triton has others, too.
_TRACE_MODE: Final = "triton"
_TRACE_LEVELS: Final = ("OFF", "TIMESTAMPS", "TENSORS")
METRICS_OPTION: Final = "--metrics-config"
_METRICS_SWITCHES: Final = ("counter_latencies", "histogram_latencies", "summary_latencies")
_MAX_QUANTILES: Final = 32
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
#: Settings that are addresses to listen at. A number is a port of this host, with or without
#: quotation marks.
_ADDRESSES: Final = ("grpc", "http", "web")
#: Settings that are paths of the file system.
_PATHS: Final = ("tls", "auth_token_file")


class ServiceLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on the clients of the execution service.

    Attributes:
        message_bytes: the size of the largest request that is accepted.
        total_bytes: the size of all requests that are in the service at once, and that of the
            files of all models that clients have sent.
        streams: the number of concurrent calls of a connection over gRPC.
        connections: the number of connections over HTTP.
        queue: the number of requests that wait for one model.
        load_s: seconds that loading a model may take.
    """

    message_bytes: int = 64 << 20
    total_bytes: int = 1 << 30
    streams: int = 128
    connections: int = 1024
    queue: int = 1024
    load_s: float = 600.0


class TraceConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The requests that are traced until a client changes it.

    Attributes:
        file: the file that receives traces; empty for the log.
        level: `OFF`, `TIMESTAMPS` or `TENSORS`.
        rate: every so many requests one is traced.
        count: how many are traced; -1 for no limit.
        log_frequency: how many traces have a file of their own; 0 for one file.
    """

    file: str = ""
    level: str = "OFF"
    rate: int = 1000
    count: int = -1
    log_frequency: int = 0


class MetricsConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metrics of latencies that there are, with Triton's names.

    Attributes:
        counter_latencies: whether there are sums of latencies.
        histogram_latencies: whether there is a histogram of the latencies of requests.
        summary_latencies: whether there are quantiles of latencies.
        summary_quantiles: these quantiles, each with the error that Triton may make, such as
            `0.5:0.05,0.99:0.001`.
    """

    counter_latencies: bool = True
    histogram_latencies: bool = False
    summary_latencies: bool = False
    summary_quantiles: str = "0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001"

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The quantiles without their errors; empty if there is to be none.

        Raises:
            ValueError: they are not valid.
        """
        pairs = [each.split(":") for each in self.summary_quantiles.split(",")]
        found = [(float(quantile), float(error)) for quantile, error in pairs]
        if not all(0 <= each <= 1 for pair in found for each in pair) or len(found) > _MAX_QUANTILES:
            raise ValueError
        return tuple(quantile for quantile, _ in found) if self.summary_latencies else ()


class ServiceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that the table `[service]`, or the command line, has; None for all others.

    Attributes: see `ServiceConfiguration`. An address may be an integer, the port of this host.
    """

    grpc: str | int | None = None
    http: str | int | None = None
    web: str | int | None = None
    repositories: tuple[str, ...] | None = None
    load_models: tuple[str, ...] | None = None
    model_control_mode: str | None = None
    repository_poll_s: float | None = None
    allow_client_shm: bool | None = None
    http_restricted_api: tuple[str, ...] | None = None
    grpc_restricted_protocol: tuple[str, ...] | None = None
    http_header_forward_pattern: str | None = None
    grpc_header_forward_pattern: str | None = None
    tls: str | None = None
    auth_token_file: str | None = None
    insecure: bool | None = None
    limits: dict[str, int | float] = {}
    trace: dict[str, int | str] = {}
    metrics: dict[str, bool | str] = {}


class ServiceConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings with which the execution service is started.

    Attributes:
        grpc, http: addresses to listen at, `host:port`.
        web: the address of the live page. Without any of the three there is no service.
        repositories: folders of models.
        load_models: names of the models to load at the start; `*` is all, and so is none unless
            the mode is `explicit`.
        model_control_mode: one of `MODES`, or `DEFAULT_MODE`.
        repository_poll_s: how often the repository is looked at in the mode `poll`.
        allow_client_shm: whether clients may name shared memory.
        http_restricted_api, grpc_restricted_protocol: groups of calls that need a header.
        http_header_forward_pattern, grpc_header_forward_pattern: names of headers that become
            parameters of inferences.
        tls: the folder of a certificate, for encrypted connections; empty for none.
        auth_token_file: the file with the token that clients send; empty for none.
        insecure: whether other hosts are served without encryption.
        limits: the limits of clients.
        trace: which requests are traced.
        metrics: which metrics of latencies there are.
    """

    grpc: str = ""
    http: str = ""
    web: str = ""
    repositories: tuple[str, ...] = ()
    load_models: tuple[str, ...] = ()
    model_control_mode: str = DEFAULT_MODE
    repository_poll_s: float = 15.0
    allow_client_shm: bool = False
    http_restricted_api: tuple[str, ...] = ()
    grpc_restricted_protocol: tuple[str, ...] = ()
    http_header_forward_pattern: str = ""
    grpc_header_forward_pattern: str = ""
    tls: str = ""
    auth_token_file: str = ""
    insecure: bool = False
    limits: ServiceLimits = ServiceLimits()
    trace: TraceConfiguration = TraceConfiguration()
    metrics: MetricsConfiguration = MetricsConfiguration()

    @property
    def is_wanted(self) -> bool:
        """True if there is an address to listen at."""
        return bool(self.grpc or self.http or self.web)


def chosen_service(
    flags: ServiceTable | None, from_file: ServiceTable | None, path: Path, sources: dict[str, str]
) -> ServiceConfiguration:
    """Returns the settings in force, and notes where each comes from.

    Args:
        flags: the flags of the command line.
        from_file: the table of the file.
        path: the path of the file.
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
        if name in _ADDRESSES:
            value = _checked_address(_source(choice, name), value)
        values[name] = value
    limits = _chosen(choice, "limits", plain.limits, (LIMIT_OPTION, flags.limits), from_file.limits)
    for field in msgspec.structs.fields(limits):
        value = getattr(limits, field.name)
        if isinstance(value, str) or not 0 < value < 2**62 or (field.type is int and value % 1):
            raise BadData(
                f"{_source(choice, f'limits.{field.name}')} is {value!r}; a positive number is expected"
            )
    _check_model_control(choice, values["model_control_mode"], values["repository_poll_s"])
    trace = _chosen(choice, "trace", plain.trace, (TRACE_OPTION, flags.trace), from_file.trace)
    _check_trace(choice, trace)
    metrics = _chosen(choice, "metrics", plain.metrics, (METRICS_OPTION, flags.metrics), from_file.metrics)
    _check_metrics(choice, metrics)
    found = ServiceConfiguration(**values, limits=limits, trace=trace, metrics=metrics)
    sources |= {f"service.{name}": source for name, source in choice.sources.items()}
    if (found.grpc or found.http) and not found.repositories:
        raise BadData(
            "the execution service needs the folder of its models: --repository FOLDER, or repositories in "
            "the table [service]"
        )
    if flags.repositories and not found.is_wanted:
        raise BadData("--repository is for the execution service; start it with --grpc, --http or --web")
    return found


def _chosen(
    choice: SettingChoice,
    key: str,
    plain: _Struct,
    flags: tuple[str, Mapping[str, Any]],
    from_file: Mapping[str, Any],
) -> _Struct:
    """Returns a table in the table of the service.

    Args:
        choice: the choice of settings.
        key: name of the table.
        plain: its default values.
        flags: the option for its values, and those that it has.
        from_file: values of the file.

    Raises:
        BadData: a name is not known.
    """
    names = plain.__struct_fields__
    for place, given in ((f"service.{key} ({choice.path})", from_file), flags):
        for name in given:
            if name not in names:
                raise BadData(f"{place}: {name!r} is not one of {', '.join(names)}")
    return type(plain)(
        **{
            name: choice.of_flag_or_file(
                f"{key}.{name}", (flags[0], flags[1].get(name)), from_file.get(name), getattr(plain, name)
            )
            for name in names
        }
    )


def _source(choice: SettingChoice, key: str) -> str:
    return f"service.{key} ({choice.sources[key]})"


def _check_model_control(choice: SettingChoice, mode: str, poll_s: float) -> None:
    if mode not in (DEFAULT_MODE, *MODES):
        raise BadData(
            f"{_source(choice, 'model_control_mode')} is {mode!r}; one of {', '.join(MODES)} is expected"
        )
    if not 0 < poll_s <= _MAX_POLL_S:
        raise BadData(
            f"{_source(choice, 'repository_poll_s')} is {poll_s:g}; seconds above 0, up to {_MAX_POLL_S:g}, are "
            "expected"
        )


def _check_trace(choice: SettingChoice, trace: TraceConfiguration) -> None:
    if trace.level not in _TRACE_LEVELS:
        raise BadData(
            f"{_source(choice, 'trace.level')} is {trace.level!r}; one of {', '.join(_TRACE_LEVELS)} is expected"
        )
    for name, least in (("rate", 0), ("count", -1), ("log_frequency", 0)):
        value = getattr(trace, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
            raise BadData(
                f"{_source(choice, f'trace.{name}')} is {value!r}; a number from {least} to {2**31 - 1} is expected"
            )
    if not isinstance(trace.file, str) or (trace.file and not Path(trace.file).is_absolute()):
        raise BadData(f"{_source(choice, 'trace.file')} is {trace.file!r}; an absolute path is expected")


def _check_metrics(choice: SettingChoice, metrics: MetricsConfiguration) -> None:
    for name in _METRICS_SWITCHES:
        value = getattr(metrics, name)
        if not isinstance(value, bool):
            raise BadData(f"{_source(choice, f'metrics.{name}')} is {value!r}; true or false is expected")
    try:
        _ = metrics.quantiles
    except (ValueError, AttributeError):
        raise BadData(
            f"{_source(choice, 'metrics.summary_quantiles')} is {metrics.summary_quantiles!r}; 1 to "
            f"{_MAX_QUANTILES} pairs QUANTILE:ERROR of numbers from 0 to 1, separated by commas, are expected"
        ) from None


def parsed_metrics(given: Sequence[str]) -> dict[str, bool | str]:
    """Returns the settings of metrics of options, each `NAME=VALUE`.

    Raises:
        BadData: one has no value.
    """
    values: dict[str, bool | str] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise BadData(f"{METRICS_OPTION} {each!r}: NAME=VALUE is expected")
        values[name] = {"true": True, "false": False}.get(text.lower(), text)
    return values


def parsed_trace(given: Sequence[str]) -> dict[str, int | str]:
    """Returns the settings of traces of options, each `NAME=VALUE`; a path may be relative.

    Options of Triton are taken as they are: `triton,file=FILE` and `mode=triton`.

    Raises:
        BadData: one has no value, or is for another mode of Triton.
    """
    values: dict[str, int | str] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise BadData(f"{TRACE_OPTION} {each!r}: NAME=VALUE is expected")
        prefix, _, name = name.rpartition(",")
        is_mode = name == "mode" and not prefix
        mode = text if is_mode else prefix or _TRACE_MODE
        if mode != _TRACE_MODE:
            raise BadData(
                f"{TRACE_OPTION} {each!r}: the mode of traces is {mode!r}; only {_TRACE_MODE!r}, which writes "
                "them to a file or the log, is supported"
            )
        if is_mode:
            continue
        is_number = text.removeprefix("-").isdecimal() and len(text) < 12
        values[name] = int(text) if is_number and name != "file" else text
        if name == "file" and text:
            values[name] = str(Path(text).absolute())
    return values


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


def full_address(text: str) -> str:
    """Returns an address; a number alone is a port of this host."""
    return f"127.0.0.1:{text}" if text.isdecimal() else text


def _checked_address(where: str, value: str | int) -> str:
    """Returns an address as text, empty for none; raises BadData if it is not valid."""
    text = str(value)
    try:
        if text:
            Address.parse(full_address(text))
    except BadData as error:
        raise BadData(f"{where}: {error}; a number alone is a port of this host") from None
    return text


def _absolute(where: str, name: str, value: Any) -> Any:
    """Returns the value of a file, in which paths have to be absolute or begin with `~`."""
    if name == "repositories":
        return tuple(_path(where, each) for each in value)
    return _path(where, value) if name in _PATHS and value else value


def _path(where: str, text: str) -> str:
    path = Path(os.path.expanduser(text))  # noqa: PTH111 - never raises
    if not path.is_absolute() or "\0" in text:
        raise BadData(f"{where} has {text!r}; an absolute path, or one that begins with ~, is expected")
    return str(path)
