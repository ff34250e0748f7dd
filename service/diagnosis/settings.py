"""Examines the configuration file and the environment variables."""

import difflib
import os
from collections.abc import Iterator
from typing import Final

from neurald.hal.errors import BadData, BadState
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.configuration_file import configuration_path
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.manager.settings.configuration import load_configuration

#: The environment variables that neurald, its benchmarks and its tests read.
VARIABLES: Final = (
    "NEURALD_AUTOSTART",
    "NEURALD_CACHE_MAX_BYTES",
    "NEURALD_COMPILE_AFTER_EXIT",
    "NEURALD_CONFIG",
    "NEURALD_CPU_COMPILER",
    "NEURALD_CPU_TARGET",
    "NEURALD_DEBUG",
    "NEURALD_LARGE_MODELS",
    "NEURALD_LOG_FORMAT",
    "NEURALD_LOG_LEVEL",
    "NEURALD_MACHINE_DIRECTORY",
    "NEURALD_OPENCL_DEVICE",
    "NEURALD_OPENCL_KERNELS",
    "NEURALD_OPENCL_PRECISION",
    "NEURALD_OPENCL_STORAGE",
    "NEURALD_OPENCL_SUMS",
    "NEURALD_OPENCL_TUNING",
    "NEURALD_PEERS",
    "NEURALD_POLICY",
    "NEURALD_REMOTES",
    "NEURALD_REPOSITORIES",
    "NEURALD_SECRET_FILE",
    "NEURALD_SERVE_DRAIN_S",
    "NEURALD_SERVE_DRIVERS",
    "NEURALD_SERVE_IDLE_S",
    "NEURALD_STARTUP",
    "NEURALD_TEST_DATA",
    "NEURALD_THREADS",
    "NEURALD_TLS",
    "NEURALD_TOKEN_FILE",
    "NEURALD_UPDATE_GOLDEN",
)
_PREFIX: Final = "NEURALD_"
#: Names with the same prefix are alike to begin with.
_LIKENESS: Final = 0.8


def examine_settings() -> Iterator[Finding]:
    """Yields whether the configuration file is valid, and which variables are set."""
    path, is_chosen = configuration_path()
    try:
        load_configuration()
    except (BadData, BadState) as error:
        yield Finding(
            subject="configuration",
            found=str(error),
            severity=Severity.PROBLEM,
            advice="no service manager starts with it; `neurald config` shows what is in force once it is mended",
        )
    else:
        found = str(path) if is_chosen or path.exists() else "no file; the defaults are in force"
        yield Finding(subject="configuration", found=found)
    for name in sorted(each for each in os.environ if each.startswith(_PREFIX)):
        if name in VARIABLES:
            yield Finding(subject=name, found=f"is {environment_variable(name)!r}")
            continue
        close = difflib.get_close_matches(name, VARIABLES, 1, _LIKENESS)
        yield Finding(
            subject=name,
            found="is set, and neurald reads no such variable",
            severity=Severity.WARNING,
            advice=f"{close[0]} may be meant" if close else "remove it",
        )
