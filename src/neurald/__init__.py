"""Android NN for Linux: build or load a model, compile it for the devices that are there, run it.

Names are imported when they are first used: `import neurald` alone costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

from neurald._module_finder import find_modules_by_path
from neurald._version import __version__

# That of `typing`, whose import takes longer than all others here, and during which Ctrl-C shows a
# traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from neurald.hal.device import Device as Device
    from neurald.hal.device import Verdict as Verdict
    from neurald.hal.errors import BadData as BadData
    from neurald.hal.errors import BadState as BadState
    from neurald.hal.errors import Cancelled as Cancelled
    from neurald.hal.errors import DeadObject as DeadObject
    from neurald.hal.errors import Error as Error
    from neurald.hal.errors import Incomplete as Incomplete
    from neurald.hal.errors import MissedDeadlinePersistent as MissedDeadlinePersistent
    from neurald.hal.errors import MissedDeadlineTransient as MissedDeadlineTransient
    from neurald.hal.errors import MissingFile as MissingFile
    from neurald.hal.errors import OpFailed as OpFailed
    from neurald.hal.errors import OutOfMemory as OutOfMemory
    from neurald.hal.errors import OutputInsufficientSize as OutputInsufficientSize
    from neurald.hal.errors import ResourceExhaustedPersistent as ResourceExhaustedPersistent
    from neurald.hal.errors import ResourceExhaustedTransient as ResourceExhaustedTransient
    from neurald.hal.errors import ResultCode as ResultCode
    from neurald.hal.errors import UnavailableDevice as UnavailableDevice
    from neurald.hal.errors import UnexpectedNull as UnexpectedNull
    from neurald.hal.errors import Unmappable as Unmappable
    from neurald.hal.errors import WrongType as WrongType
    from neurald.hal.memory.pool import Memory as Memory
    from neurald.hal.model.model import Model as Model
    from neurald.hal.model.operation_type import OperationType as OperationType
    from neurald.hal.model.types import DeviceType as DeviceType
    from neurald.hal.model.types import Duration as Duration
    from neurald.hal.model.types import FeatureLevel as FeatureLevel
    from neurald.hal.model.types import FusedActivation as FusedActivation
    from neurald.hal.model.types import OperandType as OperandType
    from neurald.hal.model.types import PaddingScheme as PaddingScheme
    from neurald.hal.model.types import Preference as Preference
    from neurald.hal.model.types import Priority as Priority
    from neurald.runtime.cache_warming import warm as warm
    from neurald.runtime.compilation import Compilation as Compilation
    from neurald.runtime.compilation_builder import CompilationBuilder as CompilationBuilder
    from neurald.runtime.devices.asking import supported_operations as supported_operations
    from neurald.runtime.devices.discovery import connect as connect
    from neurald.runtime.devices.listing import devices as devices
    from neurald.runtime.devices.local import open_device as open_device
    from neurald.runtime.execution.background.event import Event as Event
    from neurald.runtime.execution.burst import Burst as Burst
    from neurald.runtime.execution.execution import Execution as Execution
    from neurald.runtime.execution.measurement.receipt import ExecutionReceipt as ExecutionReceipt
    from neurald.runtime.function.compile import compile as compile  # noqa: A004
    from neurald.runtime.function.compiled_function import CompiledFunction as CompiledFunction
    from neurald.runtime.function.tensor_info import TensorInfo as TensorInfo
    from neurald.runtime.memory_desc import MemoryDesc as MemoryDesc
    from neurald.runtime.metrics import metrics as metrics
    from neurald.runtime.model_builder import ModelBuilder as ModelBuilder
    from neurald.runtime.partitioning.options import Partitioning as Partitioning
    from neurald.runtime.partitioning.options import PartitioningMode as PartitioningMode
    from neurald.runtime.partitioning.overrides import forbid as forbid
    from neurald.runtime.partitioning.overrides import pin as pin
    from neurald.runtime.partitioning.overrides import prefer as prefer
    from neurald.runtime.plan.progress import StepProgress as StepProgress
    from neurald.runtime.plan.startup import Startup as Startup
    from neurald.runtime.plan.status import CompilationStatus as CompilationStatus
    from neurald.runtime.plan.status import StepStatus as StepStatus
    from neurald.runtime.plan.status import StepTier as StepTier
    from neurald.runtime.plan_files.plan_file import load_plan as load_plan
    from neurald.runtime.plan_files.plan_file import save_plan as save_plan
    from neurald.runtime.serving.service import ServedModel as ServedModel
    from neurald.runtime.serving.service import Service as Service
    from neurald.runtime.serving.service import connect_service as connect_service
    from neurald.runtime.tflite import load_tflite as load_tflite
    from neurald.runtime.tracing.trace import Trace as Trace
    from neurald.runtime.tracing.trace import trace as trace

_HOMES = {
    "BadData": "hal.errors",
    "BadState": "hal.errors",
    "Burst": "runtime.execution.burst",
    "Cancelled": "hal.errors",
    "Compilation": "runtime.compilation",
    "CompilationBuilder": "runtime.compilation_builder",
    "CompilationStatus": "runtime.plan.status",
    "CompiledFunction": "runtime.function.compiled_function",
    "DeadObject": "hal.errors",
    "Device": "hal.device",
    "DeviceType": "hal.model.types",
    "Duration": "hal.model.types",
    "Error": "hal.errors",
    "Event": "runtime.execution.background.event",
    "Execution": "runtime.execution.execution",
    "ExecutionReceipt": "runtime.execution.measurement.receipt",
    "FeatureLevel": "hal.model.types",
    "FusedActivation": "hal.model.types",
    "Incomplete": "hal.errors",
    "Memory": "hal.memory.pool",
    "MemoryDesc": "runtime.memory_desc",
    "MissedDeadlinePersistent": "hal.errors",
    "MissedDeadlineTransient": "hal.errors",
    "MissingFile": "hal.errors",
    "Model": "hal.model.model",
    "ModelBuilder": "runtime.model_builder",
    "OpFailed": "hal.errors",
    "OperandType": "hal.model.types",
    "OperationType": "hal.model.operation_type",
    "OutOfMemory": "hal.errors",
    "OutputInsufficientSize": "hal.errors",
    "PaddingScheme": "hal.model.types",
    "Partitioning": "runtime.partitioning.options",
    "PartitioningMode": "runtime.partitioning.options",
    "Preference": "hal.model.types",
    "Priority": "hal.model.types",
    "ResourceExhaustedPersistent": "hal.errors",
    "ResourceExhaustedTransient": "hal.errors",
    "ResultCode": "hal.errors",
    "ServedModel": "runtime.serving.service",
    "Service": "runtime.serving.service",
    "Startup": "runtime.plan.startup",
    "StepProgress": "runtime.plan.progress",
    "StepStatus": "runtime.plan.status",
    "StepTier": "runtime.plan.status",
    "TensorInfo": "runtime.function.tensor_info",
    "Trace": "runtime.tracing.trace",
    "UnavailableDevice": "hal.errors",
    "UnexpectedNull": "hal.errors",
    "Unmappable": "hal.errors",
    "Verdict": "hal.device",
    "WrongType": "hal.errors",
    "compile": "runtime.function.compile",
    "connect": "runtime.devices.discovery",
    "connect_service": "runtime.serving.service",
    "devices": "runtime.devices.listing",
    "forbid": "runtime.partitioning.overrides",
    "load_plan": "runtime.plan_files.plan_file",
    "load_tflite": "runtime.tflite",
    "metrics": "runtime.metrics",
    "open_device": "runtime.devices.local",
    "pin": "runtime.partitioning.overrides",
    "prefer": "runtime.partitioning.overrides",
    "save_plan": "runtime.plan_files.plan_file",
    "supported_operations": "runtime.devices.asking",
    "trace": "runtime.tracing.trace",
    "warm": "runtime.cache_warming",
}

__all__ = ["__version__", *_HOMES]

find_modules_by_path()


def _imported(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'neurald' has no attribute {name!r}")
    try:
        from neurald.hal.process.memory.gc_pause import paused_gc
        from neurald.hal.process.msgspec_import import import_msgspec

        # Nothing that an import creates is garbage, but looking for some takes a tenth of its time.
        with paused_gc():
            import_msgspec()
            value = getattr(import_module(f"neurald.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("neurald."):
            raise ImportError(
                f"{error.name} is missing: src/neurald has lost its links to the top-level folders (a zip unpacked "
                "without symbolic links?); use git clone, or an installed wheel"
            ) from error
        raise
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise accept every misspelled name.
    __getattr__ = _imported


def __dir__() -> list[str]:
    return sorted(__all__)
