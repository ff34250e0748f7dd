"""Remembers the properties and measurements of devices whose drivers start on demand.

There is a small file for each driver (`neurald.runtime.devices.kept_file`), and for each choice of
its device by variables and by the configuration file. It is written whenever an application
connects to the driver and finds something new. A file that is damaged, or of another version of
neurald, counts as absent: the driver is then measured again.
"""

import math
import os
import sys
import time
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import msgspec
from msgspec import Struct

from neurald._version import __version__
from neurald.hal.decoding import from_json
from neurald.hal.device import CacheFilesNeeded, Capabilities, Device, Performance, declared_extensions
from neurald.hal.digests import hex_digest_of
from neurald.hal.errors import BadData
from neurald.hal.model.extension import Extension
from neurald.hal.model.types import DeviceType, FeatureLevel, OperandType
from neurald.hal.process.address import Address
from neurald.hal.process.environment import variables_with
from neurald.hal.process.files.configuration_file import configuration_path
from neurald.hal.records import DECODE_ERRORS
from neurald.runtime.devices import kept_file

_FORMAT: Final = f"1 {__version__}"
_MAX_TEXT: Final = 4096
#: A driver that could not start is tried again after this time. A user who changes the machine does
#: not wait for that: `neurald devices` tries at once.
RETRY_S: Final = 600.0
_FIRST_VENDOR_TYPE: Final = 2 << 16
#: What the names of variables begin with that decide which device a driver has: those of drivers,
#: of OpenCL's loaders and implementations, and of vendors. Those of a driver of somebody else begin
#: with NEURALD_ and its name.
_DECISIVE: Final = (
    "NEURALD_CPU_",
    "NEURALD_OPENCL_",
    "OCL_",
    "OPENCL_",
    "POCL_",
    "RUSTICL_",
    "CUDA_",
    "HIP_",
    "ROCR_",
    "LD_LIBRARY_PATH",
)
#: A number that a restart of the machine changes.
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Measurement(Struct, frozen=True, kw_only=True):
    """The properties of a device when an application last connected to it; see `Device`."""

    name: str
    type: DeviceType
    version: str
    feature_level: FeatureLevel
    extensions: tuple[str, ...]
    declared_extensions: tuple[Extension, ...]
    cache_files_needed: CacheFilesNeeded
    capabilities: Capabilities

    @classmethod
    def of(cls, device: Device, name: str) -> Self:
        """Returns the properties of a device.

        Args:
            device: the device that is connected to.
            name: the name of the device in its own process.
        """
        return cls(
            name=name,
            type=device.type,
            version=device.version,
            feature_level=device.feature_level,
            extensions=tuple(device.extensions),
            declared_extensions=declared_extensions(device),
            cache_files_needed=device.cache_files_needed,
            capabilities=device.capabilities(),
        )


class Failure(Struct, frozen=True, kw_only=True):
    """A driver whose process could not serve its device.

    Attributes:
        reason: the reason of the failure.
        is_due: whether it is time to try again.
    """

    reason: str
    is_due: bool


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file: either `device` or `failure`."""

    format: str
    address: str
    device: "_Device | None" = None
    failure: str = ""
    boot: str = ""
    failed_at_s: float = 0.0


class _Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `Measurement`. Enumerations are names, performance is a pair of time and power."""

    name: str
    type: str
    version: str
    feature_level: int
    extensions: list[str]
    declared_extensions: list[Extension]
    cache_files_needed: tuple[int, int]
    operand_performance: dict[str, tuple[float, float]]
    other_performance: tuple[
        tuple[float, float], tuple[float, float], tuple[float, float], tuple[float, float]
    ]


def load(address: Address) -> Measurement | Failure | None:
    """Returns what is known about the driver at an address; None if nothing is."""
    for data in kept_file.contents(_file_name(address)):
        try:
            content = from_json(data, _File)
            if content.format != _FORMAT or content.address != str(address):
                continue
            if content.device is not None:
                return _measurement(content.device)
        except (BadData, ValueError, TypeError, KeyError, *DECODE_ERRORS):
            continue
        if content.failure and content.boot == _boot():
            age_s = time.time() - content.failed_at_s
            return Failure(reason=content.failure, is_due=not 0 <= age_s < RETRY_S)
    return None


def store(address: Address, device: Device) -> None:
    """Remembers a device that an application has connected to, if a file can be written."""
    found = Measurement.of(device, device.name.removesuffix(f"@{address.short_name}"))
    if load(address) != found:
        _write(address, _File(format=_FORMAT, address=str(address), device=_encoded(found)))


def store_failure(address: Address, reason: str) -> None:
    """Remembers that a driver's process could not serve its device, if a file can be written."""
    _write(
        address,
        _File(
            format=_FORMAT,
            address=str(address),
            failure=reason[:_MAX_TEXT] or "it cannot start",
            boot=_boot(),
            failed_at_s=time.time(),
        ),
    )


def decisive_prefixes(driver: str) -> tuple[str, ...]:
    """Returns what the names of variables begin with that decide which device a driver has."""
    own = "".join(letter if letter.isalnum() else "_" for letter in driver.upper())
    return *_DECISIVE, f"NEURALD_{own}_"


def _file_name(address: Address) -> str:
    choice = variables_with(*decisive_prefixes(address.short_name)), _configuration()
    key = f"{address}\0{choice}"
    return f"{hex_digest_of(key.encode(errors='surrogateescape'))[:32]}.json"


def _configuration() -> tuple[str, int, int] | None:
    """Returns what tells a state of the configuration file, which may set variables of drivers."""
    path, _ = configuration_path()
    try:
        found = os.stat(path)  # noqa: PTH116 - this happens in each listing of devices
    except (OSError, ValueError):
        return None
    return str(path), found.st_mtime_ns, found.st_size


def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _write(address: Address, content: _File) -> None:
    kept_file.write(_file_name(address), msgspec.json.encode(content))


def _encoded(found: Measurement) -> _Device:
    capabilities = found.capabilities

    def pair(performance: Performance) -> tuple[float, float]:
        # JSON has no infinity.
        return min(performance.exec_time, sys.float_info.max), min(
            performance.power_usage, sys.float_info.max
        )

    return _Device(
        name=found.name,
        type=found.type.name,
        version=found.version,
        feature_level=int(found.feature_level),
        extensions=list(found.extensions),
        declared_extensions=list(found.declared_extensions),
        cache_files_needed=(found.cache_files_needed.model, found.cache_files_needed.data),
        operand_performance={
            kind.name: pair(each)
            for kind, each in capabilities.operand_performance.items()
            # Types of vendors' extensions have other numbers in each process.
            if kind < _FIRST_VENDOR_TYPE
        },
        other_performance=(
            pair(capabilities.relaxed_float32_scalar),
            pair(capabilities.relaxed_float32_tensor),
            pair(capabilities.if_performance),
            pair(capabilities.while_performance),
        ),
    )


def _measurement(content: _Device) -> Measurement:
    """Checks the content of a file.

    Raises:
        BadData, ValueError, KeyError: a value is not valid.
    """
    for text in (content.name, content.version, *content.extensions):
        if not text.isprintable() or len(text) > _MAX_TEXT:
            raise BadData(
                f"a name, version or extension is {text[:40]!r}; at most {_MAX_TEXT} printable characters are expected"
            )
    if not content.name:
        raise BadData("the device has no name")
    model_files, data_files = content.cache_files_needed
    others = [_performance(*figures) for figures in content.other_performance]
    return Measurement(
        name=content.name,
        type=DeviceType[content.type],
        version=content.version,
        feature_level=FeatureLevel(content.feature_level),
        extensions=tuple(content.extensions),
        declared_extensions=tuple(content.declared_extensions),
        cache_files_needed=CacheFilesNeeded(model=model_files, data=data_files),
        capabilities=Capabilities(
            operand_performance=MappingProxyType(
                {OperandType[name]: _performance(*each) for name, each in content.operand_performance.items()}
            ),
            relaxed_float32_scalar=others[0],
            relaxed_float32_tensor=others[1],
            if_performance=others[2],
            while_performance=others[3],
        ),
    )


def _performance(exec_time: float, power_usage: float) -> Performance:
    if not (math.isfinite(exec_time) and math.isfinite(power_usage) and min(exec_time, power_usage) > 0):
        raise BadData(f"performance is ({exec_time}, {power_usage}); positive, finite numbers are expected")
    return Performance(exec_time=exec_time, power_usage=power_usage)
