"""LiteRT's Python API on neurald: a drop-in for `ai_edge_litert`.

`python -m neurald.litert PROGRAM.py` runs an unmodified program. Names are imported when they are
first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neurald.runtime.litert.compiled_model.compiled_model import CompiledModel
    from neurald.runtime.litert.compiled_model.environment import Environment, EnvironmentOptions
    from neurald.runtime.litert.compiled_model.intel_openvino_options import (
        IntelOpenVinoGraphBackend,
        IntelOpenVinoOptions,
        IntelOpenVinoPerformanceMode,
    )
    from neurald.runtime.litert.compiled_model.options import (
        CpuKernelMode,
        CpuOptions,
        GpuOptions,
        HardwareAccelerator,
        Options,
    )
    from neurald.runtime.litert.compiled_model.qualcomm_options import (
        QualcommBackend,
        QualcommDspPerformanceMode,
        QualcommGraphIOTensorMemType,
        QualcommGraphPriority,
        QualcommHtpPerformanceMode,
        QualcommLogLevel,
        QualcommOptimizationLevel,
        QualcommOptions,
        QualcommProfiling,
    )
    from neurald.runtime.litert.compiled_model.tensor_buffer import TensorBuffer
    from neurald.runtime.litert.interpreter.delegate import Delegate, load_delegate
    from neurald.runtime.litert.interpreter.interpreter import (
        Interpreter,
        InterpreterWithCustomOps,
        OpResolverType,
    )
    from neurald.runtime.litert.interpreter.signature_runner import SignatureRunner
    from neurald.runtime.tflite.graph.custom_operators import CustomFunction, CustomOperators

_HOMES = {
    "CompiledModel": "litert.compiled_model.compiled_model",
    "CpuKernelMode": "litert.compiled_model.options",
    "CpuOptions": "litert.compiled_model.options",
    "CustomFunction": "tflite.graph.custom_operators",
    "CustomOperators": "tflite.graph.custom_operators",
    "Delegate": "litert.interpreter.delegate",
    "Environment": "litert.compiled_model.environment",
    "EnvironmentOptions": "litert.compiled_model.environment",
    "GpuOptions": "litert.compiled_model.options",
    "HardwareAccelerator": "litert.compiled_model.options",
    "IntelOpenVinoGraphBackend": "litert.compiled_model.intel_openvino_options",
    "IntelOpenVinoOptions": "litert.compiled_model.intel_openvino_options",
    "IntelOpenVinoPerformanceMode": "litert.compiled_model.intel_openvino_options",
    "Interpreter": "litert.interpreter.interpreter",
    "InterpreterWithCustomOps": "litert.interpreter.interpreter",
    "OpResolverType": "litert.interpreter.interpreter",
    "Options": "litert.compiled_model.options",
    "QualcommBackend": "litert.compiled_model.qualcomm_options",
    "QualcommDspPerformanceMode": "litert.compiled_model.qualcomm_options",
    "QualcommGraphIOTensorMemType": "litert.compiled_model.qualcomm_options",
    "QualcommGraphPriority": "litert.compiled_model.qualcomm_options",
    "QualcommHtpPerformanceMode": "litert.compiled_model.qualcomm_options",
    "QualcommLogLevel": "litert.compiled_model.qualcomm_options",
    "QualcommOptimizationLevel": "litert.compiled_model.qualcomm_options",
    "QualcommOptions": "litert.compiled_model.qualcomm_options",
    "QualcommProfiling": "litert.compiled_model.qualcomm_options",
    "SignatureRunner": "litert.interpreter.signature_runner",
    "TensorBuffer": "litert.compiled_model.tensor_buffer",
    "load_delegate": "litert.interpreter.delegate",
}

__all__ = [
    "CompiledModel",
    "CpuKernelMode",
    "CpuOptions",
    "CustomFunction",
    "CustomOperators",
    "Delegate",
    "Environment",
    "EnvironmentOptions",
    "GpuOptions",
    "HardwareAccelerator",
    "IntelOpenVinoGraphBackend",
    "IntelOpenVinoOptions",
    "IntelOpenVinoPerformanceMode",
    "Interpreter",
    "InterpreterWithCustomOps",
    "OpResolverType",
    "Options",
    "QualcommBackend",
    "QualcommDspPerformanceMode",
    "QualcommGraphIOTensorMemType",
    "QualcommGraphPriority",
    "QualcommHtpPerformanceMode",
    "QualcommLogLevel",
    "QualcommOptimizationLevel",
    "QualcommOptions",
    "QualcommProfiling",
    "SignatureRunner",
    "TensorBuffer",
    "load_delegate",
]


def _imported(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'neurald.litert' has no attribute {name!r}")
    from neurald.hal.process.memory.gc_pause import paused_gc
    from neurald.hal.process.msgspec_import import import_msgspec

    # Nothing that an import creates is garbage, but looking for some takes a tenth of its time.
    with paused_gc():
        import_msgspec()
        value = getattr(import_module(f"neurald.runtime.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise accept every misspelled name.
    __getattr__ = _imported


def __dir__() -> list[str]:
    return sorted(__all__)
