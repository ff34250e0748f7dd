"""What the runtime and every driver agree on: the Protocols of a device and of a prepared model.

An in-process device and one behind a socket (`neurald.hal.rpc.client.device`) implement the same Protocols, so one can stand for the
other anywhere. Validation happens before these calls (`neurald.hal.validation.model_rules`), in the runtime and again in a daemon: a driver
gets valid models and requests only.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from neurald.hal.errors import BadData, MissedDeadlineTransient
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import Extension
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.types import (
    DeviceType,
    Dimensions,
    FeatureLevel,
    Model,
    OperandType,
    Preference,
    Priority,
    Request,
    byte_size,
)
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in
from neurald.hal.sync.fence import Fence

#: WHILE stops after this many seconds unless the execution says otherwise; longer ones are cut to the maximum.
DEFAULT_LOOP_TIMEOUT_S = 2.0
MAX_LOOP_TIMEOUT_S = 15.0
#: Threads that one execution may be given.
MAX_THREADS = 1024

#: The largest time in nanoseconds that can be told; Android has one more for times that are not known.
MAX_DURATION_NS = 2**64 - 2

#: What `KernelTime.label` is where an operation runs on its reference, because it has no kernel.
REFERENCE = "reference"

#: Bytes of `PrepareOptions.cache_key`, where it is given.
CACHE_KEY_BYTES = 32
#: Of each kind that a prepared model may need.
MAX_CACHE_FILES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a device runs an operation; `reason` says why not, for people."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Time and power of a device relative to the CPU device (1.0); smaller is better."""

    exec_time: float
    power_usage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """How good a device is at what (`Capabilities.aidl`).

    Attributes:
        operand_performance: by operand type; a type that is missing counts as infinitely slow.
        relaxed_float32_scalar, relaxed_float32_tensor: for models that allow float16 precision.
        if_performance, while_performance: of the control-flow operations themselves.
    """

    operand_performance: Mapping[OperandType, Performance] = field(
        default_factory=lambda: MappingProxyType({})
    )
    relaxed_float32_scalar: Performance
    relaxed_float32_tensor: Performance
    if_performance: Performance
    while_performance: Performance


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFilesNeeded:
    """How many cache files a prepared model of a device needs; (0, 0): it caches nothing.

    Raises:
        BadData: it is none of 0 to 32 of either kind. Such a device is not registered.
    """

    model: int = 0
    data: int = 0

    def __post_init__(self) -> None:
        for kind, count in (("model", self.model), ("data", self.data)):
            if not 0 <= count <= MAX_CACHE_FILES:
                raise BadData(f"{count} {kind} cache files are needed; 0 to {MAX_CACHE_FILES} are expected")

    def __bool__(self) -> bool:
        """Whether there is something to cache."""
        return bool(self.model or self.data)


class Variants(Protocol):
    """Where a prepared model keeps what it compiles later, for shapes that only executions tell. Thread-safe.

    Its artifacts are as `PreparedModel.artifact` gives them. What goes wrong with a cache is nobody's business here.
    """

    def load(self, name: bytes) -> "Artifact | None":
        """What was stored by this name for the same model, device and options; None if nothing is there."""
        ...

    def store(self, name: bytes, artifact: "Artifact", compile_ms: float) -> None:
        """Keeps what took so long to compile, if that is possible."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What a device has compiled, as it is kept in a cache: as many memories as `Device.cache_files_needed` says.

    Attributes:
        model: what decides about what is executed, machine code for example.
        data: what only decides about values, packed weights for example.
        seal: what a driver daemon proves with that it made them; devices in this process have none.
    """

    model: tuple[Memory, ...] = ()
    data: tuple[Memory, ...] = ()
    seal: bytes = b""


#: Shapes of inputs, by operand, where a model leaves them open.
InputShapes = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What `neurald.hal.compiling.contract.CompilesApart.compile` has made.

    Attributes:
        note: what the driver tells itself about it.
        artifact: None where nothing is compiled.
    """

    note: str = ""
    artifact: Artifact | None = None


class Compiler(Protocol):
    """Compiles one model in another process. Thread-safe."""

    def compile(
        self,
        shapes: InputShapes | None = None,
        *,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Compiled:
        """What `CompilesApart.compile` makes of the model.

        Args:
            shapes: of inputs, by operand, where the model leaves them open.
            deadline_s: on the clock of `time.monotonic()`; None for no limit.
            cancellation: ends the wait and the other process.

        Raises:
            MissedDeadlineTransient: the deadline passed; the other process is ended.
            Cancelled: it was cancelled, or the client is gone; likewise.
            ResourceExhaustedPersistent: compiling takes more time or memory than it may; the message says which.
            OpFailed: the other process has died of the model.
            Error: what `CompilesApart.compile` raises.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    """How to prepare a model.

    Attributes:
        deadline_s: on the clock of `time.monotonic()`; None for no limit.
        threads: how many threads one execution may use, at most `MAX_THREADS`; None leaves it to the driver.
        cache_key: 32 bytes that stand for model, device and options, where `PreparedModel.artifact` will be asked for;
            none where nothing is cached.
        variants: keeps what is compiled for shapes that executions tell; None where nothing is cached. What a client gives
            for a device in another process stays in the client: its daemon has variants of its own.
        cancellation: ends the preparation; None: nobody will cancel.
        compiler: compiles the model in another process; None where a device compiles where it is. It is given to devices that
            can use it, see `neurald.hal.compiling.contract.CompilesApart`.
        attributes: values of compilation attributes of extensions, all of which the device declares.
    """

    preference: Preference = Preference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_s: float | None = None
    threads: int | None = None
    cache_key: bytes = b""
    variants: Variants | None = None
    attributes: tuple[AttributeValue, ...] = ()
    cancellation: Cancellation | None = None
    compiler: Compiler | None = None

    def require_wanted(self, where: str) -> None:
        """Raises if the preparation is not to go on. Drivers call it between kernels, for example.

        Args:
            where: for the message: "before the model was compiled".

        Raises:
            Cancelled: it was cancelled, or its client is gone.
            MissedDeadlineTransient: its deadline has passed.
        """
        if self.cancellation is not None:
            self.cancellation.require_not_cancelled(where)
        if self.deadline_s is not None and time.monotonic() >= self.deadline_s:
            raise MissedDeadlineTransient(f"the deadline passed {where}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteOptions:
    """How to run a request.

    Attributes:
        measure: report `ExecutionResult.timing`.
        deadline_s: on the clock of `time.monotonic()`; None for no limit.
        loop_timeout_s: how long one WHILE operation may run.
        cancellation: looked at between operations and inside of long ones; None: nobody will cancel.
        attributes: values of execution attributes of extensions, all of which the device declares.
    """

    measure: bool = False
    deadline_s: float | None = None
    loop_timeout_s: float = DEFAULT_LOOP_TIMEOUT_S
    cancellation: Cancellation | None = None
    attributes: tuple[AttributeValue, ...] = ()

    def limited_to(self, seconds: float | None) -> "ExecuteOptions":
        """The same, with a deadline in so many seconds where that is earlier; see `deadline_in`."""
        limit = deadline_in(seconds)
        if limit is None:
            return self
        return replace(self, deadline_s=limit if self.deadline_s is None else min(limit, self.deadline_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputShape:
    """The real shape of an output, and whether the request's buffer was large enough for it.

    Attributes:
        length: of an output of type TENSOR_STRING the bytes that it has, which its shape does not tell.
    """

    dimensions: Dimensions
    sufficient: bool = True
    length: int | None = None

    def size_bytes(self, operand_type: OperandType) -> int | None:
        """Bytes of an output of that type, None where that is not known."""
        if operand_type is OperandType.TENSOR_STRING:
            return self.length
        return None if self.dimensions is None else byte_size(operand_type, self.dimensions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Nanoseconds; None where a device cannot tell. Time on the device is part of the time in the driver.

    Attributes:
        on_device_ns: while the device computed.
        in_driver_ns: while the driver had the execution, without the time in queues.
        queued_ns: while the execution waited for others to end.
    """

    on_device_ns: int | None = None
    in_driver_ns: int | None = None
    queued_ns: int | None = None

    def queued_for(self, waited_ns: int) -> "Timing":
        """Returns the timing of an execution that had waited for so long before."""
        return replace(self, queued_ns=min((self.queued_ns or 0) + max(0, waited_ns), MAX_DURATION_NS))

    def after_waiting(self, waited_ns: int) -> "Timing":
        """The timing from `waited_ns` earlier on, which counts as time in the driver."""
        if self.in_driver_ns is None:
            return self
        return replace(self, in_driver_ns=min(self.in_driver_ns + waited_ns, MAX_DURATION_NS))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDuration:
    """Where the time of one step of a plan went, over all its runs in one execution. Nanoseconds.

    Attributes:
        step: its position among the plan's steps.
        device: name of the device that it was planned for.
        runs: how often it ran: in a loop, or again after a buffer had to grow, more than once; in a branch not taken, never.
        compute_ns: on the device; None where the device cannot tell.
        overhead_ns: in the driver apart from that; None where the device cannot tell.
        queue_ns: of waiting until others had ended; None where the device cannot tell.
        transfer_ns: of the calls, outside of the driver and its queue: data on its way. All of the time where the device
            cannot tell.
    """

    step: int
    device: str
    runs: int
    compute_ns: int | None
    overhead_ns: int | None
    queue_ns: int | None
    transfer_ns: int

    @property
    def total_ns(self) -> int:
        """From the calls to their ends."""
        return (self.compute_ns or 0) + (self.overhead_ns or 0) + (self.queue_ns or 0) + self.transfer_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """How long one kernel of a prepared model ran.

    Attributes:
        name: of the kernel, or of what else computes the operations.
        duration_ns: on the device.
        operations: the positions in the main graph of the operations that it computes; a kernel may compute several, and
            several kernels one.
        label: how it computes, for people: "tile 64x64, tensor cores" for example, or `REFERENCE`.
    """

    name: str
    duration_ns: int
    operations: tuple[int, ...]
    label: str = ""

    @property
    def is_reference(self) -> bool:
        """Whether it is no kernel at all, but the reference of its operation."""
        return self.label == REFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """What came of an execution. With an insufficient output, no output is defined: only shapes are.

    Attributes:
        output_shapes: one for each output.
        timing: if it was to be measured.
        step_durations: of a plan, if they were to be measured; devices leave it empty.
        is_sufficient: whether every output fitted its buffer; follows from the shapes.
    """

    output_shapes: tuple[OutputShape, ...]
    timing: Timing = Timing()
    step_durations: tuple[StepDuration, ...] = ()
    is_sufficient: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_sufficient", all(shape.sufficient for shape in self.output_shapes))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRecord:
    """What a driver daemon keeps of a prepared model in a cache of its own, in place of giving an artifact.

    Attributes:
        key: of the entry, in hexadecimal.
        was_there: whether it was there already, so that nothing was compiled.
        compile_ms: how long compiling took.
    """

    key: str
    was_there: bool
    compile_ms: float


class Burst(Protocol):
    """Executions of one prepared model in quick succession, one at a time. What they need stays at hand meanwhile."""

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. Memories of earlier requests cost nothing when they come again."""
        ...

    def close(self) -> None:
        """Lets go of all memories; the burst is not used again."""
        ...


class FencedExecution(Protocol):
    """An execution that was started and is awaited by its fence."""

    @property
    def fence(self) -> Fence:
        """Signals once the execution is over, also when it failed or its driver died."""
        ...

    def result(self) -> ExecutionResult:
        """What came of it; waits for the fence. `timing` counts from the launch.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        ...

    @property
    def timing_after_fences(self) -> Timing:
        """Like the result's timing, but from when the last fence that it waited for had signalled."""
        ...


class PreparedModel(Protocol):
    """A model that a device has compiled. Executions may run at the same time."""

    @property
    def tolerates_changing_inputs(self) -> bool:
        """Whether an execution stays inside its memories even if another process changes its inputs meanwhile.

        True only where no address is ever computed from the value of an input, or of what is a view of one.
        Outputs are in any case never read back.
        """
        ...

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the model and returns when its outputs are written.

        Raises:
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline or the loop timeout passed; the outputs are
                undefined, and the driver works on for as short a time as it can.
            Cancelled: `options.cancellation` was cancelled in time; likewise.
            DeadObject: the driver is gone.
            Error: anything else that went wrong; outputs are then undefined.
        """
        ...

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> FencedExecution:
        """Starts an execution that runs once all of `wait_for` have signalled, and returns at once.

        Args:
            request: whose outputs are all fully specified.
            wait_for: fences of this or of other devices.
            options: as for `execute`.
            after_fences_s: how long it may take once the fences have signalled; None for no limit.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def create_burst(self) -> Burst:
        """A burst of its own for one caller.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def artifact(self) -> Artifact | None:
        """What `Device.prepare_model_from_cache` takes, or None: the device caches nothing, or no key was given.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def profile(self) -> Sequence[KernelTime]:
        """The time of each kernel, in the order in which they run; empty where the device cannot tell.

        It is that of a run of its own, on whatever the buffers hold or on zeros; with unspecified dimensions, with the
        shapes of the last execution. No execution that runs at the same time is disturbed but in its time.

        Raises:
            DeadObject: the driver is gone.
            Error: the run failed.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferRole:
    """A use of a buffer: input or output `index` of a prepared model.

    Attributes:
        probability: how likely the buffer is used so, in (0, 1].
    """

    prepared_model: PreparedModel
    index: int
    probability: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferDescription:
    """What a device buffer is for. All roles have the same operand type and quantisation."""

    dimensions: Dimensions
    input_roles: tuple[BufferRole, ...] = ()
    output_roles: tuple[BufferRole, ...] = ()


class DeclaresExtensions(Protocol):
    """What a device has beside, if it takes operations or operand types of vendors' extensions."""

    @property
    def declared_extensions(self) -> tuple[Extension, ...]:
        """The vendors' extensions that `Device.extensions` names, as whoever made them declares them."""
        ...


def declared_extensions(device: "Device") -> tuple[Extension, ...]:
    """Those of `DeclaresExtensions.declared_extensions` that the device also lists; none for a device without it."""
    declared: tuple[Extension, ...] = getattr(device, "declared_extensions", ())
    return tuple(extension for extension in declared if extension.name in device.extensions)


class Device(Protocol):
    """One accelerator. Thread-safe; outlives the models that it prepared."""

    @property
    def name(self) -> str:
        """Unique among the devices of a process."""
        ...

    @property
    def type(self) -> DeviceType:
        """What kind of hardware it is."""
        ...

    @property
    def version(self) -> str:
        """Differs between any two drivers whose compiled artifacts or results differ."""
        ...

    @property
    def is_remote(self) -> bool:
        """True if it is in another process, which takes only shared memory without a copy."""
        ...

    @property
    def feature_level(self) -> FeatureLevel:
        """The newest operations it may be asked to run."""
        ...

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the extensions whose operations it may run; it is not asked about those of any other.

        `neurald.tflite` is part of this package. A vendor's extension is declared, see `DeclaresExtensions`.
        """
        ...

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        """What a prepared model of it needs to be kept in a cache."""
        ...

    def capabilities(self) -> Capabilities:
        """Measured against the CPU device, not invented."""
        ...

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """One verdict for each operation of the main graph. Cheap and pure: nothing is compiled.

        An IF or WHILE is supported only if every operation of the graphs it refers to is.
        """
        ...

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
        """Compiles a model, every operation of which the device supports.

        Raises:
            BadData: it has an operation that the device does not support.
            MissedDeadlineTransient, MissedDeadlinePersistent: not ready before `options.deadline_s`.
            DeadObject: the driver is gone.
        """
        ...

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
        """Makes the prepared model that `artifact` was taken from again, without compiling.

        Integrity has been checked: these are the bytes that a device of this name and version gave under
        `options.cache_key`. What a driver makes of them it checks all the same.

        Raises:
            BadData, OpFailed: it is no artifact of this device.
            DeadObject: the driver is gone.
        """
        ...

    def allocate(self, description: BufferDescription) -> Memory:
        """Memory of the device's own for the roles that are described, for use in requests.

        Raises:
            BadData: the description contradicts itself, or a prepared model is not one of this device.
            OpFailed: the device offers no such memory.
        """
        ...
