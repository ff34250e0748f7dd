"""The options of `neurald serve` for the execution service."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand

if TYPE_CHECKING:
    from neurald.service.inference.server.settings import ServiceSettings
    from neurald.service.manager.settings.configuration import Configuration
    from neurald.service.manager.settings.service_configuration import ServiceConfiguration

#: What these options mean without an address. Clients of Triton look at the first two.
_DEFAULTS: Final = {"--grpc": "127.0.0.1:8001", "--http": "127.0.0.1:8000", "--web": "127.0.0.1:8080"}
_MAX_TOKEN_BYTES: Final = 4096


class ServeCommand(TyperCommand):
    """A command whose options `--grpc`, `--http` and `--web` may stand without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Gives these options their default values, and parses the command line."""
        complete: list[str] = []
        for position, argument in enumerate(args):
            complete.append(argument)
            following = args[position + 1] if position + 1 < len(args) else "-"
            if argument in _DEFAULTS and following.startswith("-"):
                complete.append(_DEFAULTS[argument])
        return super().parse_args(ctx, complete)


def service_settings(configuration: "Configuration") -> "ServiceSettings | None":
    """Returns the settings of the execution service; None if no address is configured.

    Args:
        configuration: the configuration of the service manager.

    Raises:
        BadState: a file cannot be read.
    """
    from neurald.hal.process.activation import SERVICE_SOCKET
    from neurald.hal.process.files.runtime_directory import runtime_directory
    from neurald.hal.rpc.transport.tls_files import TlsFiles
    from neurald.service.inference.models.workers.worker_options import WorkerOptions
    from neurald.service.inference.server.settings import ServiceSettings
    from neurald.service.logs.choices import LogFormat
    from neurald.service.manager.settings.service_configuration import (
        DEFAULT_MODE,
        EXPLICIT,
        POLL,
        full_address,
    )

    chosen = configuration.service
    if not chosen.is_wanted:
        return None
    files = None if not chosen.tls else TlsFiles.in_folder(Path(chosen.tls))
    return ServiceSettings(
        grpc=full_address(chosen.grpc),
        http=full_address(chosen.http),
        web=full_address(chosen.web),
        system=configuration.system,
        socket=str(runtime_directory() / SERVICE_SOCKET),
        repositories=tuple(str(Path(each).absolute()) for each in chosen.repositories),
        load=_models_at_start(chosen),
        allow_control=chosen.model_control_mode in (DEFAULT_MODE, EXPLICIT),
        poll_s=chosen.repository_poll_s if chosen.model_control_mode == POLL else 0.0,
        allow_client_shm=chosen.allow_client_shm,
        http_restricted_api=chosen.http_restricted_api,
        grpc_restricted_protocol=chosen.grpc_restricted_protocol,
        http_header_forward_pattern=chosen.http_header_forward_pattern,
        grpc_header_forward_pattern=chosen.grpc_header_forward_pattern,
        tls_certificate="" if files is None else str(files.certificate),
        tls_key="" if files is None else str(files.key),
        tls_authority="" if files is None else str(files.authority),
        token=read_token(Path(chosen.auth_token_file)) if chosen.auth_token_file else "",
        insecure=chosen.insecure,
        limits=chosen.limits,
        trace=chosen.trace,
        metrics=chosen.metrics,
        workers=WorkerOptions(
            log_format=LogFormat.TEXT
            if configuration.log_format is LogFormat.AUTO
            else configuration.log_format,
            log_level=configuration.log_level,
        ),
        drain_s=configuration.drain_s,
    )


def _models_at_start(chosen: "ServiceConfiguration") -> tuple[str, ...] | None:
    """Returns the names of the models to load at the start; None for all."""
    from neurald.service.manager.settings.service_configuration import ALL_MODELS, EXPLICIT

    if ALL_MODELS in chosen.load_models:
        return None
    return chosen.load_models or (() if chosen.model_control_mode == EXPLICIT else None)


def read_token(file: Path) -> str:
    """Returns the token of the execution service that a file of its operator has.

    Raises:
        BadState: the file is not a secret, or has no token.
    """
    from neurald.hal.errors import BadState
    from neurald.hal.rpc.transport.certificate import read_file

    content = read_file(file, "the token file", is_secret=True)
    token = content[:_MAX_TOKEN_BYTES].decode("latin-1").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadState(f"the token file {file} has no token; one word of printable ASCII is expected")
    return token
