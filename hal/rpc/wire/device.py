"""What devices say, and the options of calls, as protobuf messages and back; see `neurald.hal.rpc.wire.model`."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDescription:
    """What a device says about itself once and for all."""

    name: str
    type: DeviceType
    version: str
    feature_level: FeatureLevel
    extensions: tuple[str, ...]
    cache_files_needed: CacheFilesNeeded
    declared_extensions: tuple[Extension, ...] = ()


class DeviceStatus(IntEnum):
    """What a daemon's device does now (`DeviceStatus.aidl`); OFFLINE while it drains before it stops, or hangs."""

    UNKNOWN = 0
    AVAILABLE = 1
    BUSY = 2
    OFFLINE = 3


class Access(IntEnum):
    """Who may call a daemon: its own user and root, by the modes of its socket; whoever shows its token; or anybody."""

    UNKNOWN = 0
    OWN_USER = 1
    TOKEN = 2
    ANYBODY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """What a daemon holds for all its clients, and what protects others from them.

    Attributes:
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


# Options. A deadline travels as the time that is left, since clocks of two hosts have nothing in common.


def _deadline_from_wire(message: device_pb2.PrepareOptions | device_pb2.ExecuteOptions) -> float | None:
    if not message.HasField("deadline_s"):
        return None
    if math.isinf(message.deadline_s):
        raise BadData("a deadline in an infinite time; leave it out for none")
    return deadline_in(message.deadline_s, "a deadline")


def prepare_options_to_wire(options: PrepareOptions) -> device_pb2.PrepareOptions:
    """A message for `options`.

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
    """The options that a message holds, for a device that declares these extensions.

    Raises:
        BadData: a number is not known or outside its limits, or an attribute is not declared.
    """
    threads = message.threads if message.HasField("threads") else None
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise BadData(f"{threads} threads; 1 to {MAX_THREADS} are expected")
    if len(message.cache_key) not in (0, CACHE_KEY_BYTES):
        raise BadData(
            f"a cache key of {len(message.cache_key)} bytes; {CACHE_KEY_BYTES} are expected, or none"
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
    """What `decode_prepare_options` takes, in another process on this host."""
    return prepare_options_to_wire(options).SerializeToString()


def decode_prepare_options(data: bytes) -> PrepareOptions:
    """The options that `encode_prepare_options` wrote."""
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
    """A message for `options`."""
    return device_pb2.ExecuteOptions(
        measure=options.measure,
        deadline_s=remaining_s(options.deadline_s),
        loop_timeout_s=options.loop_timeout_s,
        attributes=attributes_to_wire(options.attributes),
    )


def execute_options_from_wire(
    message: device_pb2.ExecuteOptions, extensions: Sequence[Extension] = ()
) -> ExecuteOptions:
    """The options that a message holds, for a device that declares these extensions. A long loop timeout is cut to the maximum.

    Raises:
        BadData: a time is negative or no number, or an attribute is not declared.
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
    """A message for what `device` says about itself."""
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
    """What a device behind a socket says about itself.

    Raises:
        BadData: a number is not known, or an extension is not declared as one can be.
    """
    return DeviceDescription(
        name=message.name,
        type=member(DeviceType, message.type, "device type"),
        version=message.version,
        feature_level=_feature_level(message.feature_level),
        extensions=tuple(message.extensions),
        declared_extensions=extensions_from_wire(message.declared_extensions),
        cache_files_needed=CacheFilesNeeded(model=message.model_cache_files, data=message.data_cache_files),
    )


def _feature_level(number: int) -> FeatureLevel:
    """The newest level that both ends know."""
    known = [level for level in FeatureLevel if level <= number]
    if not known:
        raise BadData(f"feature level is {number}; {FeatureLevel.LEVEL_1} is the lowest")
    return max(known)


def status_to_wire(status: DaemonStatus) -> device_pb2.GetStatusReply:
    """A message for `status`."""
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
    """The status that a message holds.

    Raises:
        BadData: a number is not known.
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
    """A message for verdicts."""
    return device_pb2.GetSupportedOperationsReply(
        verdicts=(types_pb2.Verdict(ok=verdict.ok, reason=text(verdict.reason)) for verdict in verdicts)
    )


def verdicts_from_wire(
    message: device_pb2.GetSupportedOperationsReply, operations: int
) -> tuple[Verdict, ...]:
    """Verdicts on a model with that many operations.

    Raises:
        BadData: another number of verdicts is told.
    """
    if len(message.verdicts) != operations:
        raise BadData(f"the daemon told {len(message.verdicts)} verdicts on {operations} operations")
    return tuple(Verdict(ok=verdict.ok, reason=verdict.reason) for verdict in message.verdicts)


def capabilities_to_wire(
    capabilities: Capabilities, extensions: Sequence[Extension] = ()
) -> types_pb2.Capabilities:
    """A message for `capabilities`, sorted by operand type.

    Args:
        capabilities: of a device.
        extensions: that it declares.

    Raises:
        BadData: an operand type belongs to none of these.
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
    """The capabilities that a message holds, of a device that declares these extensions.

    Raises:
        BadData: an operand type is not known, or a performance is not positive.
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
            f"performance {message.exec_time}, {message.power_usage}; positive numbers are expected"
        )
    return Performance(exec_time=message.exec_time, power_usage=message.power_usage)
