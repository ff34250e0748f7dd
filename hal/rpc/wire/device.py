"""Converts properties of devices and options of calls; see `neurald.hal.rpc.wire.model`."""

import math
import re
from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from neurald._proto import device_pb2, types_pb2
from neurald.hal.device import (
    CACHE_KEY_BYTES,
    MAX_LOOP_TIMEOUT_S,
    MAX_THREADS,
    CacheFilesNeeded,
    CacheRecord,
    Capabilities,
    Device,
    ExecuteOptions,
    Performance,
    PrepareOptions,
    Verdict,
    declared_extensions,
)
from neurald.hal.errors import BadData
from neurald.hal.model.extension import AttributeUse, Extension
from neurald.hal.model.types import DeviceType, FeatureLevel, Preference, Priority
from neurald.hal.rpc.wire.extension import (
    ExtensionNumbers,
    attributes_from_wire,
    attributes_to_wire,
    extension_to_wire,
    extensions_from_wire,
)
from neurald.hal.rpc.wire.model import member, text
from neurald.hal.sync.deadline import deadline_in, remaining_s
from neurald.hal.wording import printable


class DeviceDescription(Struct, frozen=True, kw_only=True):
    """The properties of a device that never change."""

    name: str
    type: DeviceType
    version: str
    feature_level: FeatureLevel
    extensions: tuple[str, ...]
    cache_files_needed: CacheFilesNeeded
    declared_extensions: tuple[Extension, ...] = ()


class DeviceStatus(IntEnum):
    """The state of a daemon's device (`DeviceStatus.aidl`).

    It is OFFLINE while the daemon drains before it stops, and while the device hangs.
    """

    UNKNOWN = 0
    AVAILABLE = 1
    BUSY = 2
    OFFLINE = 3


class Access(IntEnum):
    """Who may call a daemon.

    OWN_USER: its own user and root, by the mode of its socket. TOKEN: clients that have its token.
    ANYBODY: every client. CERTIFICATE: clients with a certificate of its authority. LISTED_USERS:
    users of the host whom its operator admits.
    """

    UNKNOWN = 0
    OWN_USER = 1
    TOKEN = 2
    ANYBODY = 3
    CERTIFICATE = 4
    LISTED_USERS = 5


class DaemonStatus(Struct, frozen=True, kw_only=True):
    """The resources that a daemon holds for all its clients, and its protection.

    Attributes:
        device: state of the device.
        sessions: open sessions.
        prepared_models: the prepared models of all sessions.
        memories: the memories of all sessions.
        calls: preparations, executions and reads under way.
        access: who may call.
        sandbox: the restrictions of its process that are in force.
    """

    device: DeviceStatus
    sessions: int
    prepared_models: int
    memories: int
    calls: int
    access: Access = Access.UNKNOWN
    sandbox: tuple[str, ...] = ()


# Options. A deadline is sent as the remaining time, since two hosts have no clock in common.


def _deadline_from_wire(message: device_pb2.PrepareOptions | device_pb2.ExecuteOptions) -> float | None:
    if not message.HasField("deadline_s"):
        return None
    if math.isinf(message.deadline_s):
        raise BadData("the deadline is infinite; omit it for no deadline")
    return deadline_in(message.deadline_s, "a deadline")


def prepare_options_to_wire(options: PrepareOptions) -> device_pb2.PrepareOptions:
    """Encodes options of a preparation.

    Raises:
        BadData: a number is larger than its field.
    """
    try:
        return device_pb2.PrepareOptions(
            preference=options.preference,  # type: ignore[arg-type]
            priority=options.priority,  # type: ignore[arg-type]
            deadline_s=remaining_s(options.deadline_s),
            threads=options.threads,
            cache_key=options.cache_key,
            attributes=attributes_to_wire(options.attributes),
        )
    except (ValueError, TypeError) as error:
        raise BadData(f"the options cannot be sent: {error}") from None


def prepare_options_from_wire(
    message: device_pb2.PrepareOptions, extensions: Sequence[Extension] = ()
) -> PrepareOptions:
    """Decodes options of a preparation, for a device that declares these extensions.

    Raises:
        BadData: a number is unknown or out of range, or an attribute is not declared.
    """
    threads = message.threads if message.HasField("threads") else None
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise BadData(f"{threads} threads; 1 to {MAX_THREADS} are expected")
    if len(message.cache_key) not in (0, CACHE_KEY_BYTES):
        raise BadData(
            f"the cache key has {len(message.cache_key)} bytes; {CACHE_KEY_BYTES} are expected, or none"
        )
    return PrepareOptions(
        preference=member(Preference, message.preference, "preference"),
        priority=member(Priority, message.priority, "priority"),
        deadline_s=_deadline_from_wire(message),
        threads=threads,
        cache_key=message.cache_key,
        attributes=attributes_from_wire(message.attributes, AttributeUse.COMPILATION, extensions),
    )


def encode_prepare_options(options: PrepareOptions) -> bytes:
    """Encodes options for another process on this host, see `decode_prepare_options`."""
    return prepare_options_to_wire(options).SerializeToString()


def decode_prepare_options(data: bytes) -> PrepareOptions:
    """Decodes options that `encode_prepare_options` encoded."""
    return prepare_options_from_wire(device_pb2.PrepareOptions.FromString(data))


def cache_record_to_wire(record: CacheRecord) -> device_pb2.Kept:
    """Encodes a cache record."""
    return device_pb2.Kept(key=record.key, was_there=record.was_there, compile_ms=record.compile_ms)


def cache_record_from_wire(message: device_pb2.PrepareModelReply) -> CacheRecord | None:
    """Decodes the cache record of a reply; None if it has none, or an invalid one."""
    kept = message.kept
    is_valid = re.fullmatch("[0-9a-f]{64}", kept.key) and 0 <= kept.compile_ms < math.inf
    if not is_valid:
        return None
    return CacheRecord(key=kept.key, was_there=kept.was_there, compile_ms=kept.compile_ms)


def execute_options_to_wire(options: ExecuteOptions) -> device_pb2.ExecuteOptions:
    """Encodes options of an execution."""
    return device_pb2.ExecuteOptions(
        measure=options.measure,
        deadline_s=remaining_s(options.deadline_s),
        loop_timeout_s=options.loop_timeout_s,
        attributes=attributes_to_wire(options.attributes),
    )


def execute_options_from_wire(
    message: device_pb2.ExecuteOptions, extensions: Sequence[Extension] = ()
) -> ExecuteOptions:
    """Decodes options of an execution, for a device that declares these extensions.

    A loop timeout that is too long is reduced to the maximum.

    Raises:
        BadData: a time is negative or NaN, or an attribute is not declared.
    """
    if not message.loop_timeout_s >= 0:
        raise BadData(f"loop timeout of {message.loop_timeout_s} s; at least 0 is expected")
    return ExecuteOptions(
        measure=message.measure,
        deadline_s=_deadline_from_wire(message),
        loop_timeout_s=min(message.loop_timeout_s, MAX_LOOP_TIMEOUT_S),
        attributes=attributes_from_wire(message.attributes, AttributeUse.EXECUTION, extensions),
    )


# Devices


def description_to_wire(device: Device) -> device_pb2.DescribeReply:
    """Encodes the properties of a device."""
    return device_pb2.DescribeReply(
        name=device.name,
        type=device.type,  # type: ignore[arg-type]
        version=device.version,
        feature_level=device.feature_level,  # type: ignore[arg-type]
        extensions=device.extensions,
        model_cache_files=device.cache_files_needed.model,
        data_cache_files=device.cache_files_needed.data,
        declared_extensions=map(extension_to_wire, declared_extensions(device)),
    )


def description_from_wire(message: device_pb2.DescribeReply) -> DeviceDescription:
    """Decodes the properties of a device.

    Raises:
        BadData: a number is unknown, or the declaration of an extension is not valid.
    """
    return DeviceDescription(
        name=printable(message.name),
        type=member(DeviceType, message.type, "device type"),
        version=printable(message.version),
        feature_level=_feature_level(message.feature_level),
        extensions=tuple(map(printable, message.extensions)),
        declared_extensions=extensions_from_wire(message.declared_extensions),
        cache_files_needed=CacheFilesNeeded(model=message.model_cache_files, data=message.data_cache_files),
    )


def _feature_level(number: int) -> FeatureLevel:
    """Returns the newest feature level that both ends know."""
    known = [level for level in FeatureLevel if level <= number]
    if not known:
        raise BadData(f"feature level is {number}; {FeatureLevel.LEVEL_1} is the lowest")
    return max(known)


def status_to_wire(status: DaemonStatus) -> device_pb2.GetStatusReply:
    """Encodes the status of a daemon."""
    return device_pb2.GetStatusReply(
        status=status.device,  # type: ignore[arg-type]
        sessions=status.sessions,
        prepared_models=status.prepared_models,
        memories=status.memories,
        calls=status.calls,
        access=status.access,  # type: ignore[arg-type]
        sandbox=status.sandbox,
    )


def status_from_wire(message: device_pb2.GetStatusReply) -> DaemonStatus:
    """Decodes the status of a daemon.

    Raises:
        BadData: a number is unknown.
    """
    return DaemonStatus(
        device=member(DeviceStatus, message.status, "device status"),
        sessions=message.sessions,
        prepared_models=message.prepared_models,
        memories=message.memories,
        calls=message.calls,
        access=member(Access, message.access, "access"),
        sandbox=tuple(message.sandbox),
    )


def verdicts_to_wire(verdicts: Iterable[Verdict]) -> device_pb2.GetSupportedOperationsReply:
    """Encodes verdicts."""
    return device_pb2.GetSupportedOperationsReply(
        verdicts=(types_pb2.Verdict(ok=verdict.ok, reason=text(verdict.reason)) for verdict in verdicts)
    )


def verdicts_from_wire(
    message: device_pb2.GetSupportedOperationsReply, operations: int
) -> tuple[Verdict, ...]:
    """Decodes the verdicts for a model with that many operations.

    Raises:
        BadData: the number of verdicts differs.
    """
    if len(message.verdicts) != operations:
        raise BadData(f"the daemon returned {len(message.verdicts)} verdicts for {operations} operations")
    return tuple(
        Verdict(ok=verdict.ok, reason=printable(verdict.reason, keeps_lines=True))
        for verdict in message.verdicts
    )


def capabilities_to_wire(
    capabilities: Capabilities, extensions: Sequence[Extension] = ()
) -> types_pb2.Capabilities:
    """Encodes capabilities, sorted by operand type.

    Args:
        capabilities: the capabilities of a device.
        extensions: the extensions that the device declares.

    Raises:
        BadData: an operand type belongs to an undeclared extension.
    """
    numbers = ExtensionNumbers(extensions)
    numbered = {
        numbers.number(kind): performance for kind, performance in capabilities.operand_performance.items()
    }
    entry = types_pb2.Capabilities.OperandPerformance
    return types_pb2.Capabilities(
        operand_performance=(
            entry(type=kind, performance=_performance_to_wire(performance))  # type: ignore[arg-type]
            for kind, performance in sorted(numbered.items())
        ),
        relaxed_float32_scalar=_performance_to_wire(capabilities.relaxed_float32_scalar),
        relaxed_float32_tensor=_performance_to_wire(capabilities.relaxed_float32_tensor),
        if_performance=_performance_to_wire(capabilities.if_performance),
        while_performance=_performance_to_wire(capabilities.while_performance),
    )


def _performance_to_wire(performance: Performance) -> types_pb2.Performance:
    return types_pb2.Performance(exec_time=performance.exec_time, power_usage=performance.power_usage)


def capabilities_from_wire(
    message: types_pb2.Capabilities, extensions: Sequence[Extension] = ()
) -> Capabilities:
    """Decodes the capabilities of a device that declares these extensions.

    Raises:
        BadData: an operand type is unknown, or a figure is not positive.
    """
    numbers = ExtensionNumbers(extensions)
    return Capabilities(
        operand_performance={
            numbers.operand_type(entry.type, "operand type"): _performance_from_wire(entry.performance)
            for entry in message.operand_performance
        },
        relaxed_float32_scalar=_performance_from_wire(message.relaxed_float32_scalar),
        relaxed_float32_tensor=_performance_from_wire(message.relaxed_float32_tensor),
        if_performance=_performance_from_wire(message.if_performance),
        while_performance=_performance_from_wire(message.while_performance),
    )


def _performance_from_wire(message: types_pb2.Performance) -> Performance:
    if not (message.exec_time > 0 and message.power_usage > 0):
        raise BadData(
            f"performance figures are {message.exec_time} and {message.power_usage}; positive numbers are expected"
        )
    return Performance(exec_time=message.exec_time, power_usage=message.power_usage)
