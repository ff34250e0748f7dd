"""The configuration of a model: `config.pbtxt` as Triton knows it, and its consequences.

Fields that make no sense here, such as those for other frameworks, have no effect, and the log
names them. Those that would change what clients get, such as sequences and ensembles, are refused.
"""

import logging
import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import msgspec
from google.protobuf import json_format, text_format

from neurald.hal.device.execution import DEFAULT_LOOP_TIMEOUT_S, MAX_LOOP_TIMEOUT_S
from neurald.hal.lanes.opening import TensorDescription
from neurald.hal.records import DECODE_ERRORS
from neurald.service.inference.protocol.element_types import config_type
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.messages import POOL, ModelConfig
from neurald.service.inference.repository.config_fields import (
    MAX_DEPTH,
    DeepNesting,
    fields_of_json,
    fields_of_text,
    misspelt_field,
    unknown_fields,
    with_colons,
)
from neurald.service.inference.repository.queue_policy import Priorities, QueuePolicy
from neurald.service.inference.repository.reshapes import reshape_fault
from neurald.service.inference.worker.orders import LoadOrder, ModelDescription, Warmup

logger = logging.getLogger(__name__)

PLATFORM: Final = "neurald_tflite"
BACKEND: Final = "neurald"
#: Backends in a configuration that mean `.tflite` files.
_BACKENDS: Final = ("", BACKEND, "tensorflow_lite", "tflite", "armnn_tflite", "litert")
_REFUSED: Final = (
    "ensemble_scheduling",
    "sequence_batching",
    "batch_input",
    "batch_output",
)
_MAX_JSON_CHARACTERS: Final = 1 << 20
_MAX_INSTANCES: Final = 64
_MAX_BATCH: Final = 65_536
_MAX_DELAY_S: Final = 10.0
#: The histogram whose bounds `model_metrics` may choose, those without it, and how many may be.
HISTOGRAM_FAMILY: Final = "nv_inference_first_response_histogram_ms"
_DEFAULT_BOUNDS_MS: Final = (100.0, 500.0, 2000.0, 5000.0)
_MAX_BOUNDS: Final = 64
#: With what errors of a client's configuration begin, as in Triton.
_OVERRIDE: Final = "Invalid config override: "
#: Maximum number of characters of the names of fields without effect in the log.
_MAX_SHOWN: Final = 500


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration by which a model is served.

    Attributes:
        file_name: the file name of a version's file; empty for the default.
        max_batch_size: 0 for a model without batches.
        batches: whether requests are put together.
        preferred_sizes: sizes of batches that are run without waiting.
        delay_s: how long a request waits for others.
        instances: number of workers.
        lanes: number of runs that each worker has at once.
        priorities: the priorities of requests, and how many may wait for how long.
        histogram_ms: the bounds of the histogram of latencies in milliseconds, as in Triton.
        order: the order for the workers.
    """

    file_name: str
    max_batch_size: int
    batches: bool
    preferred_sizes: tuple[int, ...]
    delay_s: float
    instances: int
    lanes: int
    priorities: Priorities
    histogram_ms: tuple[float, ...]
    order: LoadOrder


def parse_config(name: str, text: str) -> Any:
    """Parses the text of a configuration, which is not trusted.

    Returns:
        A message ModelConfig.

    Raises:
        ServiceError: it is not valid, or has fields that this service cannot obey.
    """
    try:
        fields = set(fields_of_text(text))
    except DeepNesting as error:
        raise ServiceError(Status.INVALID, f"config.pbtxt of {name} is not valid: {error}") from None
    _refuse(name, fields)
    config = ModelConfig()
    try:
        text_format.Parse(with_colons(text), config, allow_unknown_field=True, descriptor_pool=POOL)
    except (text_format.ParseError, RecursionError, ValueError) as error:
        raise ServiceError(Status.INVALID, f"config.pbtxt of {name} is not valid: {error}") from None
    _report(name, fields)
    return config


def parse_config_json(name: str, text: str) -> Any:
    """Parses a configuration in JSON, with which a client loads a model; see `parse_config`."""
    if len(text) > _MAX_JSON_CHARACTERS:
        raise ServiceError(
            Status.INVALID,
            f"the configuration of {name} has {len(text)} characters; {_MAX_JSON_CHARACTERS} may be",
        )
    config = ModelConfig()
    try:
        json_format.Parse(
            text,
            config,
            ignore_unknown_fields=True,
            descriptor_pool=POOL,
            max_recursion_depth=MAX_DEPTH,
        )
        given = msgspec.json.decode(text)
    except (json_format.ParseError, ValueError, *DECODE_ERRORS) as error:
        raise ServiceError(
            Status.INVALID, f"{_OVERRIDE}the configuration of {name} is not valid: {error}"
        ) from None
    if not isinstance(given, dict):
        raise ServiceError(Status.INVALID, f"{_OVERRIDE}the configuration of {name} is not a JSON object")
    fields = set(fields_of_json(given, ModelConfig.DESCRIPTOR))
    _refuse(name, fields)
    _report(name, fields)
    return config


def _refuse(name: str, fields: Iterable[tuple[str, ...]]) -> None:
    for field in _REFUSED:
        if (field,) in fields:
            raise ServiceError(
                Status.INVALID, f"the model {name} is configured with {field}, which is not supported"
            )


def _report(name: str, fields: Iterable[tuple[str, ...]]) -> None:
    """Logs which fields of a configuration have no effect.

    Raises:
        ServiceError: one is misspelt, so that it would have no effect by mistake.
    """
    if unknown := unknown_fields(fields, ModelConfig.DESCRIPTOR):
        for path in sorted(unknown):
            meant = misspelt_field(path, ModelConfig.DESCRIPTOR)
            if meant is not None:
                raise ServiceError(
                    Status.INVALID,
                    f"the model {name} is configured with {'.'.join(path)}, which is no field; {meant} seems to be "
                    "meant",
                )
        shown = ", ".join(".".join(each) for each in sorted(unknown))
        if len(shown) > _MAX_SHOWN:
            shown = f"{shown[:_MAX_SHOWN]}… ({len(unknown)} fields)"
        logger.warning("the model %s is configured with fields that have no effect here: %s", name, shown)


def settings_of(name: str, config: Any) -> ModelSettings:
    """Returns how a model with this configuration is served.

    Raises:
        ServiceError: a value is not valid.
    """

    def refuse(what: str) -> ServiceError:
        return ServiceError(Status.INVALID, f"the configuration of the model {name}: {what}")

    if config.name and config.name != name:
        raise refuse(f"its name is {config.name!r}")
    if config.backend not in _BACKENDS:
        raise refuse(f"the backend is {config.backend!r}; models are .tflite files, backend {BACKEND!r}")
    if config.model_transaction_policy.decoupled:
        raise refuse("decoupled models are not supported; remove model_transaction_policy")
    if not 0 <= config.max_batch_size <= _MAX_BATCH:
        raise refuse(f"max_batch_size is {config.max_batch_size}; 0 to {_MAX_BATCH} are expected")
    batching = config.dynamic_batching
    delay_s = batching.max_queue_delay_microseconds / 1e6
    if delay_s > _MAX_DELAY_S:
        raise refuse(f"max_queue_delay_microseconds is more than {_MAX_DELAY_S:g} s")
    instances = sum(max(1, group.count) for group in config.instance_group) or 1
    if instances > _MAX_INSTANCES:
        raise refuse(f"it has {instances} instances; {_MAX_INSTANCES} may be")
    given = {key: each.string_value for key, each in config.parameters.items()}
    threads, lanes = (
        _number(name, key, given.get(key, default), most)
        for key, default, most in (("threads", "0", 1024), ("lanes", "2", 64))
    )
    startup = given.get("startup", "optimized")
    if startup not in ("optimized", "instant"):
        raise refuse(f"startup is {startup!r}; optimized or instant is expected")
    loop_timeout_s = _seconds(name, "loop_timeout", given.get("loop_timeout", str(DEFAULT_LOOP_TIMEOUT_S)))
    kinds = {group.kind for group in config.instance_group}
    device_type = {frozenset({1}): "gpu", frozenset({2}): "cpu"}.get(frozenset(kinds), "")
    joins_requests = config.HasField("dynamic_batching") and config.max_batch_size > 1
    return ModelSettings(
        file_name=config.default_model_filename,
        max_batch_size=config.max_batch_size,
        batches=joins_requests,
        preferred_sizes=tuple(batching.preferred_batch_size),
        delay_s=delay_s,
        instances=instances,
        lanes=max(1, lanes),
        priorities=_priorities(name, batching),
        histogram_ms=_histogram_bounds(name, config),
        order=LoadOrder(
            name=name,
            devices=tuple(each.strip() for each in given.get("device", "").split(",") if each.strip()),
            device_type=device_type,
            threads=threads,
            signature=given.get("signature", ""),
            is_batched=config.max_batch_size > 0,
            startup=startup,
            loop_timeout_s=loop_timeout_s,
            warmups=tuple(map(_warmup, config.model_warmup)),
            joins_requests=joins_requests,
        ),
    )


def _priorities(name: str, batching: Any) -> Priorities:
    levels, default = batching.priority_levels, batching.default_priority_level
    policies = batching.priority_queue_policy
    if not levels:
        # As in Triton, they are for priorities that nobody can ask for.
        for field in ("default_priority_level", "priority_queue_policy"):
            if getattr(batching, field):
                logger.warning(
                    "the model %s is configured with %s, which has no effect without priority_levels",
                    name,
                    field,
                )
        return Priorities(policy=_policy(batching.default_queue_policy))
    if not 1 <= default <= levels:
        raise ServiceError(
            Status.INVALID,
            f"the configuration of the model {name}: default_priority_level is {default}; with the priority_levels "
            f"{levels}, 1 to {levels} is expected",
        )
    for level in policies:
        if not 1 <= level <= levels:
            raise ServiceError(
                Status.INVALID,
                f"the configuration of the model {name}: priority_queue_policy is given for {level}, but "
                f"priority_levels is {levels}",
            )
    return Priorities(
        levels=levels,
        default=default,
        policy=_policy(batching.default_queue_policy),
        policies={level: _policy(each) for level, each in policies.items()},
    )


def _policy(config: Any) -> QueuePolicy:
    return QueuePolicy(
        size=config.max_queue_size,
        timeout_s=config.default_timeout_microseconds / 1e6,
        delays=config.timeout_action == config.DELAY,
        allows_shorter=config.timeout_action == config.DELAY and config.allow_timeout_override,
    )


def _histogram_bounds(name: str, config: Any) -> tuple[float, ...]:
    found = _DEFAULT_BOUNDS_MS
    for control in config.model_metrics.metric_control:
        where = f"the configuration of the model {name}: model_metrics"
        if control.metric_identifier.family != HISTOGRAM_FAMILY:
            raise ServiceError(
                Status.INVALID,
                f"{where} has the family {control.metric_identifier.family!r}; {HISTOGRAM_FAMILY} is expected",
            )
        found = tuple(control.histogram_options.buckets)
        is_rising = all(first < second for first, second in pairwise((0.0, *found, math.inf)))
        if not found or not is_rising or len(found) > _MAX_BOUNDS:
            raise ServiceError(
                Status.INVALID,
                f"{where} has the buckets {list(found[:_MAX_BOUNDS])}; 1 to {_MAX_BOUNDS} numbers above 0, each "
                "larger than the one before, are expected",
            )
    return found


def _number(name: str, key: str, text: str, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= most:
        raise ServiceError(
            Status.INVALID,
            f"the configuration of the model {name}: {key} is {text[:100]!r}; 0 to {most} are expected",
        )
    return value


def _seconds(name: str, key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MAX_LOOP_TIMEOUT_S:
        raise ServiceError(
            Status.INVALID,
            f"the configuration of the model {name}: {key} is {text[:100]!r}; up to {MAX_LOOP_TIMEOUT_S:g} seconds "
            "are expected",
        )
    return value


def _warmup(config: Any) -> Warmup:
    for key, each in config.inputs.items():
        if each.WhichOneof("input_data_type") == "input_data_file":
            raise ServiceError(
                Status.INVALID, f"the warm-up {config.name}: input_data_file of {key} is not supported"
            )
    return Warmup(
        shapes={key: tuple(each.dims) for key, each in config.inputs.items() if each.dims},
        batch=config.batch_size,
        is_random=any(each.random_data for each in config.inputs.values()),
        count=config.count or 1,
    )


def versions_to_serve(config: Any, found: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the versions that the policy of a configuration chooses among the existing ones."""
    choice = config.version_policy.WhichOneof("policy_choice")
    if choice == "all":
        return found
    if choice == "specific":
        return tuple(each for each in found if each in config.version_policy.specific.versions)
    count = config.version_policy.latest.num_versions or 1
    return found[-count:]


def absent_versions(config: Any, found: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the versions that the policy of a configuration names and that do not exist."""
    return tuple(sorted({*config.version_policy.specific.versions}.difference(found)))


def completed(config: Any, name: str, loaded: ModelDescription) -> Any:
    """Returns a configuration with what follows from the model.

    Raises:
        ServiceError: the configuration contradicts the model.
    """
    result = ModelConfig()
    result.CopyFrom(config)
    result.name, result.platform, result.backend = name, PLATFORM, BACKEND
    is_batched = config.max_batch_size > 0
    for kind, declared, actual in (
        ("input", result.input, loaded.inputs),
        ("output", result.output, loaded.outputs),
    ):
        _check(name, kind, declared, actual, is_batched=is_batched)
        given = {each.name: _copy(each) for each in declared}
        del declared[:]
        for tensor in actual:
            entry = declared.add(name=tensor.name, dims=dims_of(tensor, is_batched=is_batched))
            wanted = given.get(tensor.name)
            entry.data_type = (
                POOL.FindEnumTypeByName("inference.DataType").values_by_name[config_type(tensor.kind)].number
            )
            if wanted is None:
                continue
            if wanted.HasField("reshape"):
                entry.dims[:] = wanted.dims
                entry.reshape.CopyFrom(wanted.reshape)
            elif tensor.shape is None:
                entry.dims[:] = wanted.dims or [-1]
            elif wanted.dims:
                entry.dims[:] = map(_fixed, entry.dims, wanted.dims)
            if kind == "output":
                entry.label_filename = wanted.label_filename
            else:
                entry.format, entry.optional = wanted.format, wanted.optional
    if not result.instance_group:
        result.instance_group.add(name=f"{name}_0", count=1, kind=0)
    if result.version_policy.WhichOneof("policy_choice") is None:
        result.version_policy.latest.num_versions = 1
    if not result.default_model_filename:
        result.default_model_filename = "model.tflite"
    return result


def _copy(message: Any) -> Any:
    result = type(message)()
    result.CopyFrom(message)
    return result


def _fixed(length: int, declared: int) -> int:
    """Returns a length that is known to the model or to its configuration; else -1."""
    return declared if length < 0 else length


def dims_of(tensor: TensorDescription, *, is_batched: bool) -> list[int]:
    """Returns the lengths of a tensor as configurations have them: without that of the batch."""
    shape = [-1] if tensor.shape is None else list(tensor.shape)
    return shape[1:] if is_batched else shape


def _check(
    name: str, kind: str, declared: Any, actual: tuple[TensorDescription, ...], *, is_batched: bool
) -> None:
    by_name = {tensor.name: tensor for tensor in actual}
    for each in declared:
        tensor = by_name.get(each.name)
        if tensor is None:
            raise ServiceError(
                Status.INVALID,
                f"the configuration of the model {name} has the {kind} {each.name!r}; the model has "
                f"{', '.join(repr(known) for known in by_name) or 'none'}",
            )
        declared_type = each.DESCRIPTOR.fields_by_name["data_type"].enum_type.values_by_number.get(
            each.data_type
        )
        if each.data_type and (declared_type is None or declared_type.name != config_type(tensor.kind)):
            shown = each.data_type if declared_type is None else declared_type.name
            raise ServiceError(
                Status.INVALID,
                f"the configuration of the model {name}: the {kind} {each.name!r} is {shown}; in the model "
                f"it is {config_type(tensor.kind)}",
            )
        dims = dims_of(tensor, is_batched=is_batched)
        has_reshape = each.HasField("reshape")
        if has_reshape and (fault := reshape_fault(list(each.dims), list(each.reshape.shape))):
            raise ServiceError(
                Status.INVALID, f"the configuration of the model {name}: the {kind} {each.name!r} {fault}"
            )
        if not has_reshape and any(length < -1 for length in each.dims):
            raise ServiceError(
                Status.INVALID,
                f"the configuration of the model {name}: the {kind} {each.name!r} has the dims {list(each.dims)}; "
                "lengths are -1 if they are open",
            )
        wanted = each.reshape.shape if has_reshape else each.dims
        fits = len(dims) == len(wanted) and all(
            -1 in (known, given) or known == given for known, given in zip(dims, wanted, strict=True)
        )
        if (each.dims or has_reshape) and tensor.shape is not None and not fits:
            raise ServiceError(
                Status.INVALID,
                f"the configuration of the model {name}: the {kind} {each.name!r} has the "
                f"{'reshape' if has_reshape else 'dims'} {list(wanted)}; in the model they are {dims}",
            )
