"""What every device must do whatever it computes: the driver's side of the HAL, checked with one model that it supports.

Each rule is a function that raises `Broken` where the device breaks it, and `Declined` where the device may say no. What an
`Error` that is raised otherwise means is a broken rule too.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from neurald.hal.device import (
    Artifact,
    BufferDescription,
    BufferRole,
    Device,
    ExecuteOptions,
    Performance,
    PreparedModel,
    PrepareOptions,
)
from neurald.hal.errors import (
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    ResultCode,
)
from neurald.hal.extension import Extension
from neurald.hal.fence import Fence
from neurald.hal.memory import HostMemory, Memory
from neurald.hal.operation_type import OperationType
from neurald.hal.types import (
    FeatureLevel,
    Lifetime,
    Model,
    Operand,
    OperandType,
    Operation,
    Subgraph,
)
from neurald.service.conformance.case import Case
from neurald.service.conformance.mutation import request_mutations
from neurald.service.conformance.runner import (
    LIMIT_S,
    WAYS,
    Bound,
    bind,
    execute_options,
    fenced,
    outputs,
    prepare_options,
    with_open_outputs,
    wrong,
)

#: A call whose deadline has passed must come back within this time.
_QUICK_S = 2.0
_THREADS = 8
_RUNS = 10
_DAMAGES = 64


class Broken(Exception):
    """A device breaks a rule; the message says how."""


class Declined(Exception):
    """A device says no where it may; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What rules are checked with.

    Attributes:
        device: that is checked.
        case: one that it supports, with outputs of several elements.
        is_remote: it is behind a socket, where nothing that comes in can be trusted.
    """

    device: Device
    case: Case
    is_remote: bool


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise Broken(message)


def _prepared(subject: Subject) -> PreparedModel:
    return subject.device.prepare_model(subject.case.model, prepare_options())


def _require_right(subject: Subject, bound: Bound, prepared: PreparedModel, what: str) -> None:
    result = prepared.execute(bound.request, execute_options())
    found = wrong(subject.case, outputs(subject.case, bound, result))
    _require(not found, f"{what}: {found}")


def identity(subject: Subject) -> None:
    """Name and version are texts, feature level is one, and every extension that is declared is listed."""
    device = subject.device
    _require(bool(device.name), "the device has no name")
    _require(bool(device.version), "the device has no version")
    _require(
        device.feature_level in tuple(FeatureLevel), f"feature level {device.feature_level} is not known"
    )
    _require(all(isinstance(name, str) and name for name in device.extensions), "an extension has no name")
    declared = tuple(getattr(device, "declared_extensions", ()))
    for extension in declared:
        _require(isinstance(extension, Extension), f"{extension!r} is no declaration of an extension")
        listed = [each.name for each in declared].count(extension.name)
        _require(
            extension.name in device.extensions and listed == 1,
            f"the extension {extension.name} is declared, and not listed once",
        )


def capabilities(subject: Subject) -> None:
    """Every time and power is a positive, finite number."""
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
            _require(math.isfinite(value) and value > 0, f"{name} has {value}; a positive number is expected")
    _require(
        any(kind in found.operand_performance for kind in OperandType), "no operand type has a performance"
    )


def verdicts(subject: Subject) -> None:
    """There is one verdict for each operation, the same when asked again, and a no has a reason."""
    model = subject.case.model
    first, second = (tuple(subject.device.supported_operations(model)) for _ in range(2))
    expected = len(model.main.operations)
    _require(len(first) == expected, f"{len(first)} verdicts; the model has {expected} operations")
    _require([v.ok for v in first] == [v.ok for v in second], "two answers on one model differ")
    _require(all(v.ok or v.reason for v in first), "an operation is refused without a reason")


def past_deadlines(subject: Subject) -> None:
    """A call that is too late comes back at once and says so."""
    prepared = _prepared(subject)
    past = time.monotonic() - 1.0
    bound = bind(subject.case)

    def prepare() -> object:
        return subject.device.prepare_model(subject.case.model, PrepareOptions(deadline_s=past))

    def execute() -> object:
        return prepared.execute(bound.request, ExecuteOptions(deadline_s=past))

    def execute_fenced() -> object:
        return fenced(prepared, bound.request, ExecuteOptions(deadline_s=past))

    for what, call in (("prepare_model", prepare), ("execute", execute), ("execute_fenced", execute_fenced)):
        started = time.monotonic()
        try:
            call()
        except (MissedDeadlinePersistent, MissedDeadlineTransient):
            elapsed = time.monotonic() - started
            _require(elapsed < _QUICK_S, f"{what}: told after {elapsed:.1f} s that it was too late")
        else:
            raise Broken(f"{what}: it did not mind that its deadline had passed")


def same_in_all_ways(subject: Subject) -> None:
    """Calls, bursts and fenced executions give the same bits."""
    prepared = _prepared(subject)
    found: dict[str, bytes] = {}
    for way, execute in WAYS.items():
        bound = bind(subject.case)
        result = execute(prepared, bound.request, execute_options())
        text = wrong(subject.case, outputs(subject.case, bound, result))
        _require(not text, f"{way}: {text}")
        found[way] = bytes(bound.outputs.view())
    _require(len(set(found.values())) == 1, f"results differ between {', '.join(found)}")


def fences(subject: Subject) -> None:
    """A fenced execution waits for what it is told to wait for."""
    prepared = _prepared(subject)
    bound, before = bind(subject.case), Fence()
    execution = prepared.execute_fenced(bound.request, (before,), execute_options())
    _require(not execution.fence.wait(0.05), "its fence signalled before the one that it was to wait for")
    before.signal()
    _require(execution.fence.wait(LIMIT_S), f"its fence has not signalled after {LIMIT_S:g} s")
    text = wrong(subject.case, outputs(subject.case, bound, execution.result()))
    _require(not text, text)


def at_the_same_time(subject: Subject) -> None:
    """Executions of one prepared model may overlap."""
    prepared = _prepared(subject)
    barrier = threading.Barrier(_THREADS)

    def work() -> None:
        barrier.wait(LIMIT_S)
        for _ in range(_RUNS):
            _require_right(subject, bind(subject.case), prepared, f"one of {_THREADS} executions at a time")

    with ThreadPoolExecutor(_THREADS) as pool:
        for running in [pool.submit(work) for _ in range(_THREADS)]:
            running.result()


def open_outputs(subject: Subject) -> None:
    """Outputs whose shape the model leaves open are computed, and their shape is told."""
    model = with_open_outputs(subject.case.model)
    (verdict, *_) = subject.device.supported_operations(model)
    if not verdict.ok:
        raise Declined(verdict.reason)
    prepared = subject.device.prepare_model(model, prepare_options())
    _require_right(subject, bind(subject.case), prepared, "with open outputs")
    for way, execute in WAYS.items():
        if way == "fenced":
            continue  # Its outputs must be fully specified.
        bound = bind(subject.case, short=True)
        result = execute(prepared, bound.request, execute_options())
        _require(not result.is_sufficient, f"{way}: a buffer that is too small is said to be large enough")
        shapes = [shape.dimensions for shape in result.output_shapes]
        expected = [value.shape for value in subject.case.expected]
        _require(shapes == expected, f"{way}: the shapes are said to be {shapes}; {expected} are expected")


def control_flow(subject: Subject) -> None:
    """An IF whose branches are supported gives what they give, if the device takes IF at all."""
    model = _behind_if(subject.case.model)
    if subject.device.feature_level < FeatureLevel.LEVEL_4:
        raise Declined(f"feature level {subject.device.feature_level.name} has no control flow")
    (verdict,) = subject.device.supported_operations(model)
    if not verdict.ok:
        raise Declined(verdict.reason)
    prepared = subject.device.prepare_model(model, prepare_options())
    _require_right(subject, bind(subject.case), prepared, "behind an IF")


def _behind_if(model: Model) -> Model:
    """A model that runs another one, whatever its condition, which is a constant."""
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
    """Time on the device is part of that in the driver, and neither is negative."""
    prepared = _prepared(subject)
    options = replace(execute_options(), measure=True)
    found = prepared.execute(bind(subject.case).request, options).timing
    for value in (found.on_device_ns, found.in_driver_ns):
        _require(value is None or value >= 0, f"a duration of {value} ns")
    if found.on_device_ns is not None and found.in_driver_ns is not None:
        _require(
            found.on_device_ns <= found.in_driver_ns,
            f"{found.on_device_ns} ns on the device, {found.in_driver_ns} ns in the driver",
        )


def profile(subject: Subject) -> None:
    """The times of kernels are of operations that there are, and taking them changes no result."""
    prepared = _prepared(subject)
    _require_right(subject, bind(subject.case), prepared, "before a profile")
    kernels = prepared.profile()
    if not kernels:
        raise Declined("it does not tell the times of its kernels")
    count = len(subject.case.model.main.operations)
    for kernel in kernels:
        _require(kernel.duration_ns >= 0, f"kernel {kernel.name!r} ran {kernel.duration_ns} ns")
        _require(
            all(0 <= position < count for position in kernel.operations),
            f"kernel {kernel.name!r} computes operations {kernel.operations} of {count}",
        )
    _require_right(subject, bind(subject.case), prepared, "after a profile")


def shared_memory(subject: Subject) -> None:
    """Arguments may lie in shared memory."""
    bound = bind(subject.case, allocate=Memory.allocate)
    _require_right(subject, bound, _prepared(subject), "in shared memory")


def invalid_requests(subject: Subject) -> None:
    """A request that does not go with its model is refused."""
    if not subject.is_remote:
        raise Declined("a device of this process is given valid requests only")
    prepared = _prepared(subject)
    for what, request in request_mutations(bind(subject.case).request):
        _require_refused(partial(prepared.execute, request, execute_options()), what)
    _require_right(subject, bind(subject.case), prepared, "after invalid requests")


def _require_refused(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except Error as error:
        if error.code is not ResultCode.BAD_DATA:
            raise Broken(f"{what}: {error.code.name}: {error}; BAD_DATA is expected") from None
    else:
        raise Broken(f"{what}: it was accepted")


def cache(subject: Subject) -> None:
    """What is kept in a cache gives the same model again, and damaged bytes are no danger."""
    device = subject.device
    needed = device.cache_files_needed
    if not needed.model and not needed.data:
        raise Declined("the device caches nothing")
    options = replace(prepare_options(), cache_key=bytes(range(32)))
    artifact = device.prepare_model(subject.case.model, options).artifact()
    if artifact is None:
        raise Broken(f"{needed.model} and {needed.data} cache files are needed, and none is given")
    counts = len(artifact.model), len(artifact.data)
    expected = needed.model, needed.data
    _require(counts == expected, f"{counts} cache files are given; {expected} are needed")
    prepared = device.prepare_model_from_cache(artifact, options)
    _require_right(subject, bind(subject.case), prepared, "prepared from cache")
    for what, damaged in _damaged(artifact):
        try:
            device.prepare_model_from_cache(damaged, options)
        except Error:
            continue
        # A device in this process relies on the digest that the cache keeps; a daemon has its own.
        _require(not subject.is_remote, f"{what}: it was accepted")
    short = replace(artifact, model=artifact.model[:-1]) if artifact.model else artifact
    if short is not artifact:
        _require_error(lambda: device.prepare_model_from_cache(short, options), "a cache file less")
    _require_right(subject, bind(subject.case), _prepared(subject), "after damaged cache files")


def _require_error(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except Error:
        return
    raise Broken(f"{what}: it was accepted")


def _damaged(artifact: Artifact) -> list[tuple[str, Artifact]]:
    """One bit of a file that decides what is executed is another, or bytes are missing at its end."""
    found = []
    for number, memory in enumerate(artifact.model):
        content = bytes(memory.view())
        for position in range(0, len(content), max(1, len(content) // _DAMAGES)):
            changed = bytearray(content)
            changed[position] ^= 1 << (position % 8)
            found.append((f"a flipped bit in byte {position} of model file {number}", bytes(changed), number))
        found.append((f"model file {number} without its end", content[: len(content) // 2] or b"\0", number))
    return [
        (
            what,
            replace(
                artifact,
                model=(*artifact.model[:number], HostMemory(content), *artifact.model[number + 1 :]),
            ),
        )
        for what, content, number in found
    ]


def memory_of_the_device(subject: Subject) -> None:
    """Memory for an output takes what an execution writes."""
    prepared = _prepared(subject)
    role = BufferRole(prepared_model=prepared, index=0)
    expected = subject.case.expected[0]
    description = BufferDescription(dimensions=expected.shape, output_roles=(role,))
    try:
        memory = subject.device.allocate(description)
    except OpFailed as error:
        raise Declined(str(error)) from None
    _require(memory.size >= 0, f"memory of {memory.size} bytes")
    missing = replace(description, output_roles=(replace(role, index=len(subject.case.expected)),))
    _require_error(lambda: subject.device.allocate(missing), "memory for an output that there is not")
    if subject.is_remote:
        nothing = BufferDescription(dimensions=expected.shape)
        _require_error(lambda: subject.device.allocate(nothing), "memory for nothing")


RULES: Mapping[str, Callable[[Subject], None]] = {
    "identity": identity,
    "capabilities": capabilities,
    "verdicts": verdicts,
    "past deadlines": past_deadlines,
    "sync, burst and fenced agree": same_in_all_ways,
    "fences are waited for": fences,
    "executions at the same time": at_the_same_time,
    "open outputs, small buffers": open_outputs,
    "control flow": control_flow,
    "timing": timing,
    "profile": profile,
    "shared memory": shared_memory,
    "invalid requests": invalid_requests,
    "cache": cache,
    "memory of the device": memory_of_the_device,
}
