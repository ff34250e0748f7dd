"""The driver's side of the HAL contract, checked with supported models.

Each rule is a function that raises `Broken` if the device violates it, and `Declined` if the device
permissibly refuses. Any other `Error` also means a violation.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from neurald.hal.device import MAX_CACHE_FILES, Performance
from neurald.hal.errors import Error, ResultCode
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import Extension
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import (
    DeviceType,
    FeatureLevel,
    Lifetime,
    Model,
    Operand,
    OperandType,
    Operation,
    Subgraph,
)
from neurald.hal.sync.fence import Fence
from neurald.service.conformance.cases.mutation import request_mutations
from neurald.service.conformance.cases.runner import (
    LIMIT_S,
    WAYS,
    Layout,
    bind,
    execute_options,
    outputs,
    prepare_options,
    with_open_outputs,
    wrong,
)
from neurald.service.conformance.rules.cache import cache, damaged_cache_files
from neurald.service.conformance.rules.load import at_the_same_time, many_models
from neurald.service.conformance.rules.memory import (
    dropped_models,
    memory_of_the_device,
    verdicts_are_cheap,
)
from neurald.service.conformance.rules.rule import (
    Broken,
    Declined,
    Subject,
    prepared_of,
    require,
    require_right,
)
from neurald.service.conformance.rules.time import cancellation, deadline_of_a_run, past_deadlines


def identity(subject: Subject) -> None:
    """Requires valid identification: name, version, feature level and declared extensions."""
    device = subject.device
    require(bool(device.name), "the device has no name")
    require(bool(device.version), "the device has no version")
    require(device.feature_level in tuple(FeatureLevel), f"feature level {device.feature_level} is not known")
    require(all(isinstance(name, str) and name for name in device.extensions), "an extension has no name")
    require(isinstance(device.type, DeviceType), f"type {device.type!r} is not known")
    needed = device.cache_files_needed
    require(
        0 <= needed.model <= MAX_CACHE_FILES and 0 <= needed.data <= MAX_CACHE_FILES,
        f"{needed} are more cache files than {MAX_CACHE_FILES} of a kind",
    )
    again = (device.name, device.version, device.feature_level, device.extensions, device.type)
    require(
        again == (device.name, device.version, device.feature_level, device.extensions, device.type),
        "name, version, feature level, extensions or type changes from one question to the next",
    )
    declared = tuple(getattr(device, "declared_extensions", ()))
    for extension in declared:
        require(isinstance(extension, Extension), f"{extension!r} is no declaration of an extension")
        listed = [each.name for each in declared].count(extension.name)
        require(
            extension.name in device.extensions and listed == 1,
            f"the extension {extension.name} is declared, and not listed once",
        )


def capabilities(subject: Subject) -> None:
    """Requires positive, finite times and power figures."""
    found = subject.device.capabilities()
    figures: dict[str, Performance] = {
        kind.name: performance for kind, performance in found.operand_performance.items()
    }
    figures |= {
        name: getattr(found, name)
        for name in (
            "relaxed_float32_scalar",
            "relaxed_float32_tensor",
            "if_performance",
            "while_performance",
        )
    }
    for name, performance in figures.items():
        for value in (performance.exec_time, performance.power_usage):
            require(math.isfinite(value) and value > 0, f"{name} has {value}; a positive number is expected")
    require(
        any(kind in found.operand_performance for kind in OperandType), "no operand type has a performance"
    )


def verdicts(subject: Subject) -> None:
    """Requires one stable verdict per operation, with a reason for each refusal."""
    cases = (subject.case, *subject.others)
    first = [tuple(subject.device.supported_operations(case.model)) for case in cases]
    kept = [subject.device.prepare_model(case.model, prepare_options()) for case in cases]
    second = [tuple(subject.device.supported_operations(case.model)) for case in reversed(cases)][::-1]
    del kept
    for case, one, other in zip(cases, first, second, strict=True):
        expected = len(case.model.main.operations)
        require(len(one) == expected, f"{len(one)} verdicts; the model has {expected} operations")
        require(one == other, f"{case.name}: two answers on one model differ: {one}, and later {other}")
        require(all(v.ok or v.reason for v in one), "an operation is refused without a reason")


def same_in_all_ways(subject: Subject) -> None:
    """Requires equal bits from calls, bursts and fenced executions."""
    prepared = prepared_of(subject)
    found: dict[str, bytes] = {}
    for way, execute in WAYS.items():
        bound = bind(subject.case)
        result = execute(prepared, bound.request, execute_options())
        text = wrong(subject.case, bound, result)
        require(not text, f"{way}: {text}")
        found[way] = b"".join(value.tobytes() for value in outputs(subject.case, bound, result))
    require(len(set(found.values())) == 1, f"results differ between {', '.join(found)}")


def fences(subject: Subject) -> None:
    """Requires that a fenced execution waits for its dependencies."""
    prepared = prepared_of(subject)
    bound, before = bind(subject.case), Fence()
    execution = prepared.execute_fenced(bound.request, (before,), execute_options())
    require(not execution.fence.wait(0.05), "its fence signalled before its dependency")
    before.signal()
    require(execution.fence.wait(LIMIT_S), f"its fence has not signalled after {LIMIT_S:g} s")
    text = wrong(subject.case, bound, execution.result())
    require(not text, text)


def open_outputs(subject: Subject) -> None:
    """Requires that outputs of unspecified shape are computed, and their shape reported."""
    model = with_open_outputs(subject.case.model)
    (verdict, *_) = subject.device.supported_operations(model)
    if not verdict.ok:
        raise Declined(verdict.reason)
    prepared = subject.device.prepare_model(model, prepare_options())
    require_right(subject, bind(subject.case), prepared, "with open outputs")
    for way, execute in WAYS.items():
        if way == "fenced":
            continue  # Fenced outputs must be fully specified.
        bound = bind(subject.case, short=True, layout=Layout.SCATTERED)
        result = execute(prepared, bound.request, execute_options())
        require(not result.is_sufficient, f"{way}: a buffer that is too small was reported as sufficient")
        damage = bound.damage()
        require(not damage, f"{way}, with a buffer that is too small: {damage}")
        shapes = [shape.dimensions for shape in result.output_shapes]
        expected = [value.shape for value in subject.case.expected]
        require(shapes == expected, f"{way}: the shapes are said to be {shapes}; {expected} are expected")


def control_flow(subject: Subject) -> None:
    """Requires that an IF, if supported, gives the results of its branches."""
    model = _behind_if(subject.case.model)
    if subject.device.feature_level < FeatureLevel.LEVEL_4:
        raise Declined(f"feature level {subject.device.feature_level.name} has no control flow")
    (verdict,) = subject.device.supported_operations(model)
    if not verdict.ok:
        raise Declined(verdict.reason)
    prepared = subject.device.prepare_model(model, prepare_options())
    require_right(subject, bind(subject.case), prepared, "behind an IF")


def _behind_if(model: Model) -> Model:
    """Wraps a model in an IF with a constant condition that always runs it."""
    graph = model.main
    branch = Operand(type=OperandType.MODEL, lifetime=Lifetime.SUBGRAPH, subgraph=0)
    condition = Operand(
        type=OperandType.TENSOR_BOOL8, dimensions=(1,), lifetime=Lifetime.CONSTANT_COPY, value=b"\x01"
    )
    ends = tuple(graph.operands[index] for index in (*graph.inputs, *graph.outputs))
    inputs = tuple(range(3, 3 + len(graph.inputs)))
    outputs = tuple(range(3 + len(graph.inputs), 3 + len(ends)))
    operation = Operation(type=OperationType.IF, inputs=(0, 1, 2, *inputs), outputs=outputs)
    main = Subgraph(
        operands=(condition, branch, branch, *ends), operations=(operation,), inputs=inputs, outputs=outputs
    )
    return replace(model, main=main, referenced=(graph,))


def timing(subject: Subject) -> None:
    """Requires durations that are not negative, with device time included in driver time."""
    prepared = prepared_of(subject)
    options = replace(execute_options(), measure=True)
    found = prepared.execute(bind(subject.case).request, options).timing
    for value in (found.on_device_ns, found.in_driver_ns):
        require(value is None or value >= 0, f"a duration of {value} ns")
    if found.on_device_ns is not None and found.in_driver_ns is not None:
        require(
            found.on_device_ns <= found.in_driver_ns,
            f"{found.on_device_ns} ns on the device, {found.in_driver_ns} ns in the driver",
        )


def profile(subject: Subject) -> None:
    """Requires profiles that refer to existing operations, and that profiling changes no result."""
    prepared = prepared_of(subject)
    require_right(subject, bind(subject.case), prepared, "before a profile")
    kernels = prepared.profile()
    if not kernels:
        raise Declined("it does not report the times of its kernels")
    count = len(subject.case.model.main.operations)
    for kernel in kernels:
        require(kernel.duration_ns >= 0, f"kernel {kernel.name!r} ran {kernel.duration_ns} ns")
        require(
            all(0 <= position < count for position in kernel.operations),
            f"kernel {kernel.name!r} computes operations {kernel.operations} of {count}",
        )
    require_right(subject, bind(subject.case), prepared, "after a profile")


def shared_memory(subject: Subject) -> None:
    """Requires that arguments may lie in shared memory."""
    bound = bind(subject.case, allocate=Memory.allocate)
    require_right(subject, bound, prepared_of(subject), "in shared memory")


def invalid_requests(subject: Subject) -> None:
    """Requires that a request that does not match its model is refused."""
    if not subject.is_remote:
        raise Declined("an in-process device only gets valid requests")
    prepared = prepared_of(subject)
    for what, request in request_mutations(bind(subject.case).request):
        _require_refused(partial(prepared.execute, request, execute_options()), what)
    require_right(subject, bind(subject.case), prepared, "after invalid requests")


def _require_refused(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except Error as error:
        if error.code is not ResultCode.BAD_DATA:
            raise Broken(f"{what}: {error.code.name}: {error}; expected BAD_DATA") from None
    else:
        raise Broken(f"{what}: it was accepted")


RULES: Mapping[str, Callable[[Subject], None]] = {
    "identity": identity,
    "capabilities": capabilities,
    "verdicts": verdicts,
    "verdicts are cheap": verdicts_are_cheap,
    "past deadlines": past_deadlines,
    "sync, burst and fenced agree": same_in_all_ways,
    "fences are waited for": fences,
    "executions at the same time": at_the_same_time,
    "models at the same time": many_models,
    "open outputs, small buffers": open_outputs,
    "control flow": control_flow,
    "timing": timing,
    "profile": profile,
    "shared memory": shared_memory,
    "invalid requests": invalid_requests,
    "cache": cache,
    "damaged cache files": damaged_cache_files,
    "memory of the device": memory_of_the_device,
    "dropped models": dropped_models,
    "deadline of a run": deadline_of_a_run,
    "cancellation": cancellation,
}
