"""Examines the installed packages and drivers."""

import importlib
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final

from neurald._version import __version__
from neurald.hal.registry import GROUP, default_drivers, entry_points, load_driver
from neurald.service.diagnosis.finding import Finding, Severity

#: Packages without which parts do not work, by the extra that installs them, with their modules.
_OPTIONAL: Final = (
    ("opencl", "pyopencl", "pyopencl", "the OpenCL driver"),
    ("tls", "cryptography", "cryptography", "daemons of other hosts"),
)
#: The packages whose versions matter most, with modules of them. Modules that the compiler of
#: Protocol Buffers has written cannot be imported beside an older protobuf.
_REQUIRED: Final = (
    ("numpy", "numpy"),
    ("llvmlite", "llvmlite"),
    ("grpcio", "grpc"),
    ("grpcio-health-checking", "grpc_health.v1.health_pb2"),
    ("grpcio-reflection", "grpc_reflection.v1alpha.reflection_pb2"),
    ("protobuf", "google.protobuf"),
    ("msgspec", "msgspec"),
    ("tflite", "tflite"),
)


def examine_installation() -> Iterator[Finding]:
    """Yields the versions of neurald and what it needs, and whether each driver can be imported."""
    yield Finding(subject="neurald", found=f"{__version__} on Python {platform.python_version()}")
    for package, module in _REQUIRED:
        yield _required(package, module)
    for extra, package, module, purpose in _OPTIONAL:
        yield _optional(extra, package, module, purpose)
    for name in default_drivers():
        yield _driver(name)
    yield from _namesakes()


def _required(package: str, module: str) -> Finding:
    try:
        importlib.import_module(module)
        return Finding(subject=package, found=metadata.version(package))
    except Exception as error:
        return Finding(
            subject=package,
            found=f"cannot be imported: {type(error).__name__}: {error}",
            severity=Severity.PROBLEM,
            advice=f"{sys.executable} -m pip check, which names the packages that do not fit together; give "
            f"them all, and {package}, to one {sys.executable} -m pip install --force-reinstall",
        )


def _optional(extra: str, package: str, module: str, purpose: str) -> Finding:
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return Finding(
            subject=package,
            found=f"not installed; {purpose} cannot be used",
            severity=Severity.NOTE,
            advice=f"{sys.executable} -m pip install 'neurald[{extra}]'",
        )
    try:
        importlib.import_module(module)
    except Exception as error:
        return Finding(
            subject=package,
            found=f"{version} cannot be imported: {type(error).__name__}: {error}",
            severity=Severity.PROBLEM,
            advice=f"{sys.executable} -m pip install --force-reinstall 'neurald[{extra}]'",
        )
    return Finding(subject=package, found=version)


def _driver(name: str) -> Finding:
    try:
        load_driver(name)
    except Exception as error:
        return Finding(
            subject=f"driver {name}",
            found=f"cannot be imported: {type(error).__name__}: {error}",
            severity=Severity.PROBLEM,
            advice="mend or remove its package",
        )
    return Finding(subject=f"driver {name}", found="its factory can be imported")


def _namesakes() -> Iterator[Finding]:
    """Yields drivers of several packages that have the same name."""
    packages: dict[str, list[str]] = {}
    for entry in entry_points(GROUP):
        packages.setdefault(entry.name, []).append(entry.dist.name if entry.dist else entry.value)
    for name, found in packages.items():
        if len(found) > 1:
            yield Finding(
                subject=f"driver {name}",
                found=f"{', '.join(sorted(found))} install a driver of this name; which one is used is not defined",
                severity=Severity.WARNING,
                advice="remove all of these packages but one",
            )
