"""The interface between the runtime and drivers: devices and prepared models.

An in-process device and a device behind a socket (`neurald.hal.rpc.client.device`) implement the
same Protocols, so either can replace the other. Models and requests are validated before these
calls (`neurald.hal.validation`), in the runtime and again in a daemon, so a driver only receives
valid ones.
"""

from neurald.hal.device.capabilities import Capabilities, Link, Performance, Verdict
from neurald.hal.device.device import (
    BufferDescription,
    BufferRole,
    DeclaresExtensions,
    Device,
    HasLink,
    KnowsLoss,
    MeasuresItself,
    OpenDevice,
    OpensAhead,
    RunsConcurrently,
    declared_extensions,
    executions_at_once,
    require_supported,
)
from neurald.hal.device.execution import (
    COPY_IN,
    COPY_OUT,
    DEFAULT_LOOP_TIMEOUT_S,
    MAX_DURATION_NS,
    MAX_LOOP_TIMEOUT_S,
    REFERENCE,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    OutputShape,
    StepDuration,
    Timing,
)
from neurald.hal.device.preparation import (
    CACHE_KEY_BYTES,
    MAX_CACHE_FILES,
    MAX_THREADS,
    Artifact,
    CacheFilesNeeded,
    CacheRecord,
    Compiler,
    CompileResult,
    InputShapes,
    PrepareOptions,
    Variants,
)
from neurald.hal.device.prepared_model import Burst, FencedExecution, ImprovesLater, PreparedModel

__all__ = [
    "CACHE_KEY_BYTES",
    "COPY_IN",
    "COPY_OUT",
    "DEFAULT_LOOP_TIMEOUT_S",
    "MAX_CACHE_FILES",
    "MAX_DURATION_NS",
    "MAX_LOOP_TIMEOUT_S",
    "MAX_THREADS",
    "REFERENCE",
    "Artifact",
    "BufferDescription",
    "BufferRole",
    "Burst",
    "CacheFilesNeeded",
    "CacheRecord",
    "Capabilities",
    "CompileResult",
    "Compiler",
    "DeclaresExtensions",
    "Device",
    "ExecuteOptions",
    "ExecutionResult",
    "FencedExecution",
    "HasLink",
    "ImprovesLater",
    "InputShapes",
    "KernelTime",
    "KnowsLoss",
    "Link",
    "MeasuresItself",
    "OpenDevice",
    "OpensAhead",
    "OutputShape",
    "Performance",
    "PrepareOptions",
    "PreparedModel",
    "RunsConcurrently",
    "StepDuration",
    "Timing",
    "Variants",
    "Verdict",
    "declared_extensions",
    "executions_at_once",
    "require_supported",
]
