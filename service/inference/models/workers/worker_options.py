"""Holds the options of the processes that run models."""

import msgspec

from neurald.service.logs.choices import LogFormat, LogLevel
from neurald.service.sandbox.mode import SandboxMode


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Says how workers are started.

    Attributes:
        sandbox: restricts them.
        log_format, log_level: the log format and log level of their logs.
    """

    sandbox: SandboxMode = SandboxMode.AUTO
    log_format: LogFormat = LogFormat.AUTO
    log_level: LogLevel = LogLevel.NOTICE
