"""What the runtime and every driver agree on: the Protocols of a device and of a prepared model.

An in-process device and one behind a socket (`neurald.hal.remote`) implement the same Protocols, so one can stand for the
other anywhere. Validation happens before these calls (`neurald.hal.validate`), in the runtime and again in a daemon: a driver
gets valid models and requests only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from neurald.hal.types import (
    DeviceType,
    Dimensions,
    FeatureLevel,
    Model,
    OperandType,
    Preference,
    Priority,
    Request,
)

#: WHILE stops after this many seconds unless the execution says otherwise; longer ones are cut to the maximum.
LOOP_TIMEOUT_DEFAULT_S = 2.0
LOOP_TIMEOUT_MAXIMUM_S = 15.0


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
    """How many cache files a prepared model of a device needs, each at most 32; (0, 0): it caches nothing."""

    model: int = 0
    data: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    """How to prepare a model.

    Attributes:
        deadline_s: on the clock of `time.monotonic()`; None for no limit.
        threads: how many threads one execution may use; None leaves it to the driver.
    """

    preference: Preference = Preference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_s: float | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteOptions:
    """How to run a request.

    Attributes:
        measure: report `ExecutionResult.timing`.
        deadline_s: on the clock of `time.monotonic()`; None for no limit.
        loop_timeout_s: how long one WHILE operation may run.
    """

    measure: bool = False
    deadline_s: float | None = None
    loop_timeout_s: float = LOOP_TIMEOUT_DEFAULT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputShape:
    """The real shape of an output, and whether the request's buffer was large enough for it."""

    dimensions: Dimensions
    sufficient: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Nanoseconds; None where a device cannot tell. Time on the device is part of the time in the driver."""

    on_device_ns: int | None = None
    in_driver_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """What came of an execution. With an insufficient output, no output is defined: only shapes are."""

    output_shapes: tuple[OutputShape, ...]
    timing: Timing = Timing()

    @property
    def is_sufficient(self) -> bool:
        """Whether every output fitted its buffer."""
        return all(shape.sufficient for shape in self.output_shapes)


class PreparedModel(Protocol):
    """A model that a device has compiled. Executions may run at the same time."""

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the model and returns when its outputs are written.

        Raises:
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline or the loop timeout passed.
            DeadObject: the driver is gone.
            Error: anything else that went wrong; outputs are then undefined.
        """
        ...


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
        """Differs between any two drivers whose compiled artefacts or results differ."""
        ...

    @property
    def feature_level(self) -> FeatureLevel:
        """The newest operations it may be asked to run."""
        ...

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the extensions whose operations it may run."""
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
