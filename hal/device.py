"""The interface between the runtime and drivers: devices and prepared models.

An in-process device and a device behind a socket (`neurald.hal.rpc.client.device`) implement the
same Protocols, so either can replace the other. Models and requests are validated before these
calls (`neurald.hal.validation`), in the runtime and again in a daemon, so a driver only receives
valid ones.
"""

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct, field

from neurald.hal.errors import BadData, MissedDeadlinePersistent, MissedDeadlineTransient
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
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in
from neurald.hal.sync.fence import Fence

#: How many seconds a WHILE may run, unless the execution sets another limit, and the longest limit.
DEFAULT_LOOP_TIMEOUT_S = 2.0
MAX_LOOP_TIMEOUT_S = 15.0
#: How many threads one execution may use.
MAX_THREADS = 1024

#: The largest duration in nanoseconds. Android uses the next number for unknown durations.
MAX_DURATION_NS = 2**64 - 2

#: The value of `KernelTime.label` for an operation that runs on its reference, because it has no
#: kernel.
REFERENCE = "reference"

#: The length of `PrepareOptions.cache_key` if it is not empty.
CACHE_KEY_BYTES = 32
#: How many cache files of each kind a prepared model may need.
MAX_CACHE_FILES = 32


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether a device supports an operation; `reason` explains to people why not."""

    ok: bool
    reason: str = ""


class Performance(Struct, frozen=True, kw_only=True):
    """Execution time and power of a device relative to the CPU device (1.0); smaller is better."""

    exec_time: float
    power_usage: float


class Capabilities(Struct, frozen=True, kw_only=True):
    """Performance figures of a device (`Capabilities.aidl`).

    Attributes:
        operand_performance: by operand type; a missing type counts as infinitely slow.
        relaxed_float32_scalar: for scalars of models that allow float16 precision.
        relaxed_float32_tensor: for tensors of models that allow float16 precision.
        if_performance: of the IF operation itself.
        while_performance: of the WHILE operation itself.
    """

    operand_performance: Mapping[OperandType, Performance] = field(
        default_factory=lambda: MappingProxyType({})
    )
    relaxed_float32_scalar: Performance
    relaxed_float32_tensor: Performance
    if_performance: Performance
    while_performance: Performance


class Link(Struct, frozen=True, kw_only=True):
    """The link to the daemon of a device on another host, as measured.

    Attributes:
        latency_s: the time of a call without data.
        bytes_per_s: how fast data moves.
    """

    latency_s: float
    bytes_per_s: float


class HasLink(Protocol):
    """An optional interface of a `Device` that may be on another host."""

    def link(self) -> Link | None:
        """Returns its link; None if there is none, or if it cannot be measured now."""
        ...


class CacheFilesNeeded(Struct, frozen=True, kw_only=True):
    """How many cache files a prepared model of a device needs. (0, 0) means that it caches nothing.

    Raises:
        BadData: a number is not in 0 to 32. Such a device is not registered.
    """

    model: int = 0
    data: int = 0

    def __post_init__(self) -> None:
        for kind, count in (("model", self.model), ("data", self.data)):
            if not 0 <= count <= MAX_CACHE_FILES:
                raise BadData(
                    f"a device needs {count} {kind} cache files; 0 to {MAX_CACHE_FILES} are expected"
                )

    def __bool__(self) -> bool:
        """Returns whether the device caches anything."""
        return bool(self.model or self.data)


class Variants(Protocol):
    """Stores what a prepared model compiles later, for shapes that are only known at execution.

    Artifacts are those of `PreparedModel.artifact`. Failures of the cache are not reported here.
    Thread-safe.
    """

    def load(self, name: bytes) -> "Artifact | None":
        """Returns the artifact of this name for the same model, device and options, or None."""
        ...

    def store(self, name: bytes, artifact: "Artifact", compile_ms: float) -> None:
        """Stores an artifact, if possible.

        Args:
            name: of the variant.
            artifact: to store.
            compile_ms: how long compiling it took.
        """
        ...


class Artifact(Struct, frozen=True, kw_only=True):
    """A compiled model as it is cached: as many memories as `Device.cache_files_needed` says.

    Attributes:
        model: data that determines what is executed, for example machine code.
        data: data that only determines values, for example packed weights.
        seal: proves that a driver daemon made the artifact; empty for devices in this process.
        is_verified: whether the content was compared with a digest that this installation has
            authenticated, so that the driver need not look for damages.
    """

    model: tuple[Memory, ...] = ()
    data: tuple[Memory, ...] = ()
    seal: bytes = b""
    is_verified: bool = False


#: Shapes of inputs that a model leaves open, by operand.
InputShapes = Mapping[int, tuple[int, ...]]


class CompileResult(Struct, frozen=True, kw_only=True):
    """The result of `neurald.hal.compiling.contract.CompilesApart.compile`.

    Attributes:
        note: information that the driver passes to itself.
        artifact: None if nothing is compiled.
    """

    note: str = ""
    artifact: Artifact | None = None


class Compiler(Protocol):
    """Compiles one model in another process. Thread-safe."""

    def compile(
        self,
        shapes: InputShapes | None = None,
        *,
        is_open: bool = False,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> CompileResult:
        """Calls `CompilesApart.compile` for the model in another process.

        Args:
            shapes: of inputs that the model leaves open, by operand.
            is_open: see `CompilesApart.compile`.
            deadline_s: on the clock of `time.monotonic()`; None for no limit.
            cancellation: ends the wait and the other process.

        Raises:
            MissedDeadlineTransient: the deadline passed; the other process is ended.
            Cancelled: it was cancelled, or the client is gone; the other process is ended.
            ResourceExhaustedPersistent: compiling exceeds the limit of time or memory that the
                message names.
            OpFailed: the other process crashed.
            Error: what `CompilesApart.compile` raises.
        """
        ...


class PrepareOptions(Struct, frozen=True, kw_only=True):
    """How to prepare a model.

    Attributes:
        preference: what to optimise for.
        priority: of the executions.
        deadline_s: on the clock of `time.monotonic()`; None for no limit.
        threads: how many threads one execution may use, at most `MAX_THREADS`; None leaves it to
            the driver.
        cache_key: 32 bytes that identify model, device and options, if `PreparedModel.artifact`
            will be called; empty if nothing is cached.
        variants: stores what is compiled for shapes known at execution; None if nothing is cached.
            It does not reach a device in another process, whose daemon has a storage of its own.
        shared: stores what all models of the device share, such as kernels; None if nothing is
            cached, or if the models are of clients that must not affect each other.
        cancellation: ends the preparation; None if it cannot be cancelled.
        compiler: compiles the model in another process; None if the device must compile in this
            one. Only given to devices that can use it, see
            `neurald.hal.compiling.contract.CompilesApart`.
        attributes: values of compilation attributes of extensions, all of which the device
            declares.
    """

    preference: Preference = Preference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_s: float | None = None
    threads: int | None = None
    cache_key: bytes = b""
    variants: Variants | None = None
    shared: Variants | None = None
    attributes: tuple[AttributeValue, ...] = ()
    cancellation: Cancellation | None = None
    compiler: Compiler | None = None

    def require_time(self) -> None:
        """Raises MissedDeadlinePersistent if the deadline has passed before the preparation began."""
        if self.deadline_s is not None and time.monotonic() >= self.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the model could be prepared")

    def require_wanted(self, where: str) -> None:
        """Raises an error if the preparation must stop. Drivers call it while they compile.

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


class ExecuteOptions(Struct, frozen=True, kw_only=True):
    """How to run a request.

    Attributes:
        measure: report `ExecutionResult.timing`.
        deadline_s: on the clock of `time.monotonic()`; None for no limit.
        loop_timeout_s: how long one WHILE operation may run.
        cancellation: checked between operations and inside long ones; None if it cannot be
            cancelled.
        attributes: values of execution attributes of extensions, all of which the device declares.
    """

    measure: bool = False
    deadline_s: float | None = None
    loop_timeout_s: float = DEFAULT_LOOP_TIMEOUT_S
    cancellation: Cancellation | None = None
    attributes: tuple[AttributeValue, ...] = ()

    def require_time(self) -> None:
        """Raises MissedDeadlinePersistent if the deadline has passed before the execution began."""
        if self.deadline_s is not None and time.monotonic() >= self.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the execution started")

    def limited_to(self, seconds: float | None) -> "ExecuteOptions":
        """Returns the options with a deadline in so many seconds, if that is earlier."""
        limit = deadline_in(seconds)
        if limit is None:
            return self
        return replace(self, deadline_s=limit if self.deadline_s is None else min(limit, self.deadline_s))


class OutputShape(Struct, frozen=True, kw_only=True):
    """The actual shape of an output, and whether the request's buffer was large enough for it.

    Attributes:
        dimensions: of the output.
        sufficient: whether the buffer was large enough.
        length: the size in bytes of an output of type TENSOR_STRING, which its shape does not
            determine.
    """

    dimensions: Dimensions
    sufficient: bool = True
    length: int | None = None

    def size_bytes(self, operand_type: OperandType) -> int | None:
        """Returns the size of an output of that type in bytes, None if it is not known."""
        if operand_type is OperandType.TENSOR_STRING:
            return self.length
        return None if self.dimensions is None else byte_size(operand_type, self.dimensions)


class Timing(Struct, frozen=True, kw_only=True):
    """Durations of an execution in nanoseconds; None where a device cannot measure them.

    Attributes:
        on_device_ns: time of computing on the device; part of `in_driver_ns`.
        in_driver_ns: time that the driver had the execution, without the time in queues.
        queued_ns: time that the execution waited for others to end.
    """

    on_device_ns: int | None = None
    in_driver_ns: int | None = None
    queued_ns: int | None = None

    def queued_for(self, waited_ns: int) -> "Timing":
        """Returns the timing of an execution that had waited so long in a queue before."""
        return replace(self, queued_ns=min((self.queued_ns or 0) + max(0, waited_ns), MAX_DURATION_NS))

    def after_waiting(self, waited_ns: int) -> "Timing":
        """Returns the timing from `waited_ns` earlier on, which counts as time in the driver."""
        if self.in_driver_ns is None:
            return self
        return replace(self, in_driver_ns=min(self.in_driver_ns + waited_ns, MAX_DURATION_NS))


class StepDuration(Struct, frozen=True, kw_only=True):
    """The durations of one step of a plan, over all its runs in one execution, in nanoseconds.

    Attributes:
        step: its position among the plan's steps.
        device: name of the device that it was planned for.
        runs: how often it ran: several times in a loop, or when a buffer had to grow; never in a
            branch that was not taken.
        compute_ns: computing on the device; None if the device cannot measure it.
        overhead_ns: in the driver, other than computing; None if the device cannot measure it.
        queue_ns: waiting for other executions to end; None if the device cannot measure it.
        transfer_ns: in the calls, but outside of the driver and its queue: data transfer. All of
            the time if the device cannot measure the other parts.
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
        """The total duration of its calls."""
        return (self.compute_ns or 0) + (self.overhead_ns or 0) + (self.queue_ns or 0) + self.transfer_ns


class KernelTime(Struct, frozen=True, kw_only=True):
    """The duration of one kernel of a prepared model.

    Attributes:
        name: of the kernel, or of whatever else computes the operations.
        duration_ns: on the device.
        operations: positions in the main graph of the operations that it computes. A kernel may
            compute several operations, and several kernels one operation.
        label: how it computes, for people: "tile 64x64, tensor cores" for example, or `REFERENCE`.
    """

    name: str
    duration_ns: int
    operations: tuple[int, ...]
    label: str = ""

    @property
    def is_reference(self) -> bool:
        """True if this is the reference of an operation, not a kernel."""
        return self.label == REFERENCE


class ExecutionResult(Struct, frozen=True, kw_only=True):
    """The outcome of an execution. If an output did not fit, only the shapes are defined.

    Attributes:
        output_shapes: one for each output.
        timing: if it was to be measured.
        step_durations: of a plan, if they were to be measured; devices leave it empty.
    """

    output_shapes: tuple[OutputShape, ...]
    timing: Timing = Timing()
    step_durations: tuple[StepDuration, ...] = ()

    @property
    def is_sufficient(self) -> bool:
        """True if every output fitted its buffer."""
        return all(shape.sufficient for shape in self.output_shapes)


class CacheRecord(Struct, frozen=True, kw_only=True):
    """The entry of a prepared model in a cache that was loaded or stored without an artifact call.

    Such entries are those of a daemon's own cache, and of variants.

    Attributes:
        key: of the entry, in hexadecimal.
        was_there: whether it existed before, so that nothing was compiled.
        compile_ms: how long compiling took.
    """

    key: str
    was_there: bool
    compile_ms: float


class Burst(Protocol):
    """Runs one prepared model many times in quick succession, one execution at a time.

    It keeps the resources of executions between them.
    """

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the model, see `PreparedModel.execute`; memories of earlier requests are kept."""
        ...

    def close(self) -> None:
        """Releases all memories; the burst cannot be used afterwards."""
        ...


class FencedExecution(Protocol):
    """An execution that was started and signals its end by a fence."""

    @property
    def fence(self) -> Fence:
        """Signals once the execution is over, also if it failed or its driver died."""
        ...

    def result(self) -> ExecutionResult:
        """Waits for the fence and returns the result. Its `timing` counts from the launch.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        ...

    @property
    def timing_after_fences(self) -> Timing:
        """The timing from when the last fence that it waited for had signalled."""
        ...


class PreparedModel(Protocol):
    """A model that a device has compiled. Executions may run at the same time."""

    @property
    def tolerates_changing_inputs(self) -> bool:
        """True if an execution stays inside its memories even if a process changes its inputs.

        True only if no address is ever computed from the value of an input or of a view of one.
        Outputs are never read back.
        """
        ...

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the model and returns when its outputs are written.

        Raises:
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline or the loop timeout
                passed; the outputs are undefined, and the driver stops as soon as it can.
            Cancelled: `options.cancellation` was cancelled in time; the outputs are undefined, and
                the driver stops as soon as it can.
            DeadObject: the driver is gone.
            Error: any other failure; the outputs are undefined.
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
            request: all its outputs are fully specified.
            wait_for: fences of this or of other devices.
            options: as for `execute`.
            after_fences_s: how long it may take once the fences have signalled; None for no limit.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def create_burst(self) -> Burst:
        """Creates a burst for one caller.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def artifact(self) -> Artifact | None:
        """Returns an artifact for `Device.prepare_model_from_cache`.

        Returns:
            None if the device caches nothing, or no cache key was given.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def profile(self) -> Sequence[KernelTime]:
        """Returns the time of each kernel in execution order, if the device can measure it.

        The times are those of a separate run on the current content of the buffers, or on zeros;
        open dimensions are those of the last execution. Concurrent executions are not affected
        except in their duration.

        Raises:
            DeadObject: the driver is gone.
            Error: the run failed.
        """
        ...


class BufferRole(Struct, frozen=True, kw_only=True):
    """A use of a buffer: input or output `index` of a prepared model.

    Attributes:
        prepared_model: the prepared model.
        index: of its input or output.
        probability: how likely the buffer is used so, in (0, 1].
    """

    prepared_model: PreparedModel
    index: int
    probability: float = 1.0


class BufferDescription(Struct, frozen=True, kw_only=True):
    """The uses of a device buffer. All roles have the same operand type and quantisation."""

    dimensions: Dimensions
    input_roles: tuple[BufferRole, ...] = ()
    output_roles: tuple[BufferRole, ...] = ()


class DeclaresExtensions(Protocol):
    """An optional interface of a device that supports vendor extensions."""

    @property
    def declared_extensions(self) -> tuple[Extension, ...]:
        """The vendor extensions that `Device.extensions` names, as their vendors declare them."""
        ...


class KnowsLoss(Protocol):
    """An optional interface of a device that can be lost, such as one that was unplugged."""

    @property
    def is_lost(self) -> bool:
        """True if this process can never use it again. A supervised daemon is then replaced."""
        ...


class OpensAhead(Protocol):
    """An optional interface of a device that takes long to open, and is opened for its first model."""

    def open_ahead(self) -> None:
        """Opens the device, if it is not open. A daemon calls this while its first client connects.

        Raises:
            Error: it cannot be opened, as the next call will find out, too.
        """
        ...


def declared_extensions(device: "Device") -> tuple[Extension, ...]:
    """Returns the declared extensions that the device also lists; none if it declares none."""
    declared: tuple[Extension, ...] = getattr(device, "declared_extensions", ())
    return tuple(extension for extension in declared if extension.name in device.extensions)


class Device(Protocol):
    """An accelerator. Thread-safe; it outlives the models that it prepared."""

    @property
    def name(self) -> str:
        """Unique among the devices of a process."""
        ...

    @property
    def type(self) -> DeviceType:
        """The kind of hardware."""
        ...

    @property
    def version(self) -> str:
        """A version that differs between drivers whose artifacts or results differ."""
        ...

    @property
    def is_remote(self) -> bool:
        """True if the device is in another process, which can use only shared memory uncopied."""
        ...

    @property
    def feature_level(self) -> FeatureLevel:
        """The feature level of the newest operations that it may be asked to run."""
        ...

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the extensions whose operations it may be asked to run.

        `neurald.tflite` is part of this package. A vendor's extension is declared, see
        `DeclaresExtensions`.
        """
        ...

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        """How many cache files a prepared model needs."""
        ...

    def capabilities(self) -> Capabilities:
        """Returns performance figures, measured relative to the CPU device."""
        ...

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """Returns a verdict for each operation of the main graph, without compiling anything.

        An IF or WHILE is supported only if every operation of the graphs that it refers to is.
        """
        ...

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
        """Compiles a model. The device supports each of its operations.

        Raises:
            BadData: the device does not support an operation.
            MissedDeadlineTransient, MissedDeadlinePersistent: it was not ready before
                `options.deadline_s`.
            DeadObject: the driver is gone.
        """
        ...

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
        """Restores the prepared model that `artifact` was taken from, without compiling.

        The caller has checked the integrity: these are the bytes that a device of this name and
        version returned for `options.cache_key`. The driver checks their meaning nevertheless.

        Raises:
            BadData, OpFailed: it is not an artifact of this device.
            DeadObject: the driver is gone.
        """
        ...

    def allocate(self, description: BufferDescription) -> Memory:
        """Allocates memory of the device for the described roles, for use in requests.

        Raises:
            BadData: the description contradicts itself, or a prepared model belongs to another
                device.
            OpFailed: the device offers no such memory.
        """
        ...
