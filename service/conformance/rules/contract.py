"""The rules of the HAL's contract for drivers, checked with supported models.

Each rule is a function. It raises `RuleViolation` if the device violates the rule, and `Declined`
if the rule does not apply or the device may refuse. Any other `Error` is a violation as well.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

from neurald.hal.device import MAX_CACHE_FILES, Performance
from neurald.hal.errors import Error, ResultCode
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import Extension
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import DeviceType, FeatureLevel, Lifetime, OperandType
from neurald.hal.records import replace
from neurald.hal.sync.fence import Fence
from neurald.service.conformance.cases.mutation import request_mutations
from neurald.service.conformance.cases.runner import (
    CALL_TIMEOUT_S,
    EXECUTION_MODES,
    Layout,
    bind,
    execute_options,
    find_error,
    outputs,
    prepare_options,
    with_open_outputs,
)
from neurald.service.conformance.rules.cache import cache, damaged_cache_files
from neurald.service.conformance.rules.load import concurrent_executions, concurrent_models
from neurald.service.conformance.rules.memory import (
    device_memory,
    release_of_models,
    verdicts_are_cheap,
)
from neurald.service.conformance.rules.rule import (
    Declined,
    RuleViolation,
    Subject,
    prepare_case,
    require,
    require_correct,
)
from neurald.service.conformance.rules.time import cancellation, deadline_during_execution, past_deadlines


def identity(subject: Subject) -> None:
    """Requires a valid and stable name, version, feature level, type and declared extensions."""
    device = subject.device
    require(bool(device.name), "the device has no name")
    require(bool(device.version), "the device has no version")
    require(device.feature_level in tuple(FeatureLevel), f"unknown feature level {device.feature_level}")
    require(
        all(isinstance(name, str) and name for name in device.extensions),
        "the name of an extension is empty or not a string",
    )
    require(isinstance(device.type, DeviceType), f"unknown device type {device.type!r}")
    needed = device.cache_files_needed
    require(
        0 <= needed.model <= MAX_CACHE_FILES and 0 <= needed.data <= MAX_CACHE_FILES,
        f"{needed}; expected 0 to {MAX_CACHE_FILES} files of each kind",
    )
    again = (device.name, device.version, device.feature_level, device.extensions, device.type)
    require(
        again == (device.name, device.version, device.feature_level, device.extensions, device.type),
        "the name, version, feature level, extensions or type changed between two reads",
    )
    declared = tuple(getattr(device, "declared_extensions", ()))
    for extension in declared:
        require(
            isinstance(extension, Extension), f"a declared extension is {extension!r}; expected an Extension"
        )
        listed = [each.name for each in declared].count(extension.name)
        require(
            extension.name in device.extensions and listed == 1,
            f"the extension {extension.name} must be declared once and listed in `extensions`",
        )


def capabilities(subject: Subject) -> None:
    """Requires positive and finite figures of time and power."""
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
            require(math.isfinite(value) and value > 0, f"{name} has {value}; expected a positive number")
    require(
        any(kind in found.operand_performance for kind in OperandType),
        "the capabilities contain no operand type",
    )


def verdicts(subject: Subject) -> None:
    """Requires one verdict per operation, which never changes, and a reason for each refusal."""
    cases = (subject.case, *subject.others)
    first = [tuple(subject.device.supported_operations(case.model)) for case in cases]
    prepared = [subject.device.prepare_model(case.model, prepare_options()) for case in cases]
    second = [tuple(subject.device.supported_operations(case.model)) for case in reversed(cases)][::-1]
    del prepared
    for case, one, other in zip(cases, first, second, strict=True):
        expected = len(case.model.main.operations)
        require(len(one) == expected, f"{len(one)} verdicts for a model with {expected} operations")
        require(one == other, f"{case.name}: the verdicts changed from {one} to {other}")
        require(all(v.ok or v.reason for v in one), "an operation is refused without a reason")


def execution_modes_agree(subject: Subject) -> None:
    """Requires bit-identical outputs of synchronous, burst and fenced executions."""
    prepared = prepare_case(subject)
    found: dict[str, bytes] = {}
    for mode, execute in EXECUTION_MODES.items():
        bound = bind(subject.case)
        result = execute(prepared, bound.request, execute_options())
        error = find_error(subject.case, bound, result)
        require(not error, f"{mode}: {error}")
        found[mode] = b"".join(value.tobytes() for value in outputs(subject.case, bound, result))
    require(len(set(found.values())) == 1, f"the outputs of {', '.join(found)} executions differ")


def fences(subject: Subject) -> None:
    """Requires that a fenced execution waits for its dependencies."""
    prepared = prepare_case(subject)
    bound, before = bind(subject.case), Fence()
    execution = prepared.execute_fenced(bound.request, (before,), execute_options())
    require(not execution.fence.wait(0.05), "the execution's fence signalled before its dependency")
    before.signal()
    require(
        execution.fence.wait(CALL_TIMEOUT_S),
        f"the execution's fence has not signalled after {CALL_TIMEOUT_S:g} s",
    )
    error = find_error(subject.case, bound, execution.result())
    require(not error, error)


def open_outputs(subject: Subject) -> None:
    """Requires that outputs of unspecified shape are computed and their shapes reported.

    A buffer that is too small must be reported, and nothing may be written outside of it.
    """
    model = with_open_outputs(subject.case.model)
    (verdict, *_) = subject.device.supported_operations(model)
    if not verdict.ok:
        raise Declined(verdict.reason)
    prepared = subject.device.prepare_model(model, prepare_options())
    require_correct(subject, bind(subject.case), prepared, "with open outputs")
    for mode, execute in EXECUTION_MODES.items():
        if mode == "fenced":
            continue  # Fenced outputs must be fully specified.
        bound = bind(subject.case, short=True, layout=Layout.SCATTERED)
        result = execute(prepared, bound.request, execute_options())
        require(not result.is_sufficient, f"{mode}: a buffer that is too small was reported as sufficient")
        damage = bound.damage()
        require(not damage, f"{mode}, with a buffer that is too small: {damage}")
        shapes = [shape.dimensions for shape in result.output_shapes]
        expected = [value.shape for value in subject.case.expected]
        require(shapes == expected, f"{mode}: the reported shapes are {shapes}; expected {expected}")


def control_flow(subject: Subject) -> None:
    """Requires that an IF, if it is supported, has the outputs of its branches."""
    model = _inside_if(subject.case.model)
    if subject.device.feature_level < FeatureLevel.LEVEL_4:
        raise Declined(f"feature level {subject.device.feature_level.name} has no control flow")
    (verdict,) = subject.device.supported_operations(model)
    if not verdict.ok:
        raise Declined(verdict.reason)
    prepared = subject.device.prepare_model(model, prepare_options())
    require_correct(subject, bind(subject.case), prepared, "inside an IF")


def _inside_if(model: Model) -> Model:
    """Wraps a model in an IF with a constant condition that always runs it."""
    graph = model.main
    branch = Operand(type=OperandType.MODEL, lifetime=Lifetime.SUBGRAPH, subgraph=0)
    condition = Operand(
        type=OperandType.TENSOR_BOOL8, dimensions=(1,), lifetime=Lifetime.CONSTANT_COPY, value=b"\x01"
    )
    outer = tuple(graph.operands[index] for index in (*graph.inputs, *graph.outputs))
    inputs = tuple(range(3, 3 + len(graph.inputs)))
    outputs = tuple(range(3 + len(graph.inputs), 3 + len(outer)))
    operation = Operation(type=OperationType.IF, inputs=(0, 1, 2, *inputs), outputs=outputs)
    main = Subgraph(
        operands=(condition, branch, branch, *outer), operations=(operation,), inputs=inputs, outputs=outputs
    )
    return replace(model, main=main, referenced=(graph,))


def timing(subject: Subject) -> None:
    """Requires non-negative durations. The time on the device is part of that in the driver."""
    prepared = prepare_case(subject)
    options = replace(execute_options(), measure=True)
    found = prepared.execute(bind(subject.case).request, options).timing
    for value in (found.on_device_ns, found.in_driver_ns):
        require(value is None or value >= 0, f"a duration is {value} ns; expected at least 0")
    if found.on_device_ns is not None and found.in_driver_ns is not None:
        require(
            found.on_device_ns <= found.in_driver_ns,
            f"{found.on_device_ns} ns on the device exceed {found.in_driver_ns} ns in the driver",
        )


def profile(subject: Subject) -> None:
    """Requires that a profile refers to existing operations and has no effect on outputs."""
    prepared = prepare_case(subject)
    require_correct(subject, bind(subject.case), prepared, "before a profile")
    kernels = prepared.profile()
    if not kernels:
        raise Declined("the device reports no times of kernels")
    count = len(subject.case.model.main.operations)
    for kernel in kernels:
        require(
            kernel.duration_ns >= 0,
            f"kernel {kernel.name!r} took {kernel.duration_ns} ns; expected at least 0",
        )
        require(
            all(0 <= position < count for position in kernel.operations),
            f"kernel {kernel.name!r} computes operations {kernel.operations}; the model has {count}",
        )
    require_correct(subject, bind(subject.case), prepared, "after a profile")


def shared_memory(subject: Subject) -> None:
    """Requires that arguments may lie in shared memory."""
    bound = bind(subject.case, allocate=Memory.allocate)
    require_correct(subject, bound, prepare_case(subject), "in shared memory")


def invalid_requests(subject: Subject) -> None:
    """Requires that requests that do not match the model are refused."""
    if not subject.is_remote:
        raise Declined("a device in this process only gets valid requests")
    prepared = prepare_case(subject)
    for what, request in request_mutations(bind(subject.case).request):
        _require_refused(partial(prepared.execute, request, execute_options()), what)
    require_correct(subject, bind(subject.case), prepared, "after invalid requests")


def _require_refused(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except Error as error:
        if error.code is not ResultCode.BAD_DATA:
            raise RuleViolation(f"{what}: {error.code.name}: {error}; expected BAD_DATA") from None
    else:
        raise RuleViolation(f"{what}: it was accepted; expected BAD_DATA")


#: The rules by name, in the order in which they are checked.
RULES: Mapping[str, Callable[[Subject], None]] = {
    "identity": identity,
    "capabilities": capabilities,
    "verdicts": verdicts,
    "verdicts are cheap": verdicts_are_cheap,
    "past deadlines": past_deadlines,
    "execution modes agree": execution_modes_agree,
    "dependencies of fenced executions": fences,
    "concurrent executions": concurrent_executions,
    "concurrent models": concurrent_models,
    "open outputs, small buffers": open_outputs,
    "control flow": control_flow,
    "timing": timing,
    "profile": profile,
    "shared memory": shared_memory,
    "invalid requests": invalid_requests,
    "cache": cache,
    "damaged cache files": damaged_cache_files,
    "device memory": device_memory,
    "release of models": release_of_models,
    "deadline during an execution": deadline_during_execution,
    "cancellation": cancellation,
}
