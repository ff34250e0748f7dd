"""The options of `neurald serve` for the execution service."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand

if TYPE_CHECKING:
    from neurald.service.inference.server.settings import ServiceLimits, ServiceSettings
    from neurald.service.manager.configuration import Configuration

#: What `--grpc` and `--http` mean without an address: where clients of Triton look.
_DEFAULTS: Final = {"--grpc": "127.0.0.1:8001", "--http": "127.0.0.1:8000"}
_MAX_TOKEN_BYTES: Final = 4096


class ServeCommand(TyperCommand):
    """A command whose options `--grpc` and `--http` may stand without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Gives these options their default values, and parses the command line."""
        complete: list[str] = []
        for position, argument in enumerate(args):
            complete.append(argument)
            following = args[position + 1] if position + 1 < len(args) else "-"
            if argument in _DEFAULTS and following.startswith("-"):
                complete.append(_DEFAULTS[argument])
        return super().parse_args(ctx, complete)


def service_settings(
    configuration: "Configuration",
    *,
    grpc: str | None,
    http: str | None,
    repositories: Sequence[Path],
    load: Sequence[str],
    allow_control: bool,
    allow_client_shm: bool,
    tls: Path | None,
    token_file: Path | None,
    insecure: bool,
    limits: Sequence[str],
    drain_s: float,
) -> "ServiceSettings | None":
    """Returns the settings of the execution service; None if no address is given.

    Raises:
        BadData: the options contradict each other, or a value is not valid.
        BadState: a file cannot be read.
    """
    from neurald.hal.errors import BadData
    from neurald.hal.lanes.opening import SERVICE_SOCKET
    from neurald.hal.process.runtime_directory import runtime_directory
    from neurald.hal.rpc.transport.tls_files import TlsFiles
    from neurald.service.inference.models.model_worker import WorkerOptions
    from neurald.service.inference.server.settings import ServiceSettings
    from neurald.service.logs.choices import LogFormat

    if grpc is None and http is None:
        if repositories:
            raise BadData("--repository is for the execution service; start it with --grpc or --http")
        return None
    if not repositories:
        raise BadData("the execution service needs --repository FOLDER, the folder of its models")
    files = None if tls is None else TlsFiles.in_folder(tls)
    return ServiceSettings(
        grpc=_address(grpc),
        http=_address(http),
        socket=str(runtime_directory() / SERVICE_SOCKET),
        repositories=tuple(str(each.absolute()) for each in repositories),
        load=tuple(load) or None,
        allow_control=allow_control,
        allow_client_shm=allow_client_shm,
        tls_certificate="" if files is None else str(files.certificate),
        tls_key="" if files is None else str(files.key),
        tls_authority="" if files is None else str(files.authority),
        token="" if token_file is None else _token(token_file),
        insecure=insecure,
        limits=_limits(limits),
        workers=WorkerOptions(
            log_format=LogFormat.TEXT
            if configuration.log_format is LogFormat.AUTO
            else configuration.log_format,
            log_level=configuration.log_level,
        ),
        drain_s=drain_s,
    )


def _address(text: str | None) -> str:
    """Returns an address; a number alone is a port of this host."""
    if text is None:
        return ""
    return f"127.0.0.1:{text}" if text.isdecimal() else text


def _token(file: Path) -> str:
    from neurald.hal.errors import BadState
    from neurald.hal.rpc.transport.certificate import read_file

    content = read_file(file, "the token", is_secret=True)
    token = content[:_MAX_TOKEN_BYTES].decode("latin-1").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadState(f"the token in {file} is not one word of printable ASCII")
    return token


def _limits(given: Sequence[str]) -> "ServiceLimits":
    import msgspec

    from neurald.hal.errors import BadData
    from neurald.service.inference.server.settings import ServiceLimits

    values: dict[str, float] = {}
    known = {field.name: field for field in msgspec.structs.fields(ServiceLimits)}
    for each in given:
        name, _, text = each.partition("=")
        if name not in known:
            raise BadData(f"--service-limit {each!r}: {name!r} is not one of {', '.join(known)}")
        try:
            value = known[name].type(text)
        except ValueError:
            value = -1
        if not 0 < value < 2**62:
            raise BadData(f"--service-limit {each!r}: a positive number is expected")
        values[name] = value
    return ServiceLimits(**values)  # type: ignore[arg-type]
