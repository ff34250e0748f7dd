"""LiteRT's Python API on neurald: a drop-in for `ai_edge_litert`.

`python -m neurald.litert PROGRAM.py` runs an unmodified program.
"""

from neurald.runtime.litert.compiled_model import CompiledModel
from neurald.runtime.litert.delegate import Delegate, load_delegate
from neurald.runtime.litert.environment import Environment, EnvironmentOptions
from neurald.runtime.litert.interpreter import Interpreter, InterpreterWithCustomOps, OpResolverType
from neurald.runtime.litert.options import (
    CpuKernelMode,
    CpuOptions,
    GpuOptions,
    HardwareAccelerator,
    Options,
)
from neurald.runtime.litert.signature_runner import SignatureRunner
from neurald.runtime.litert.tensor_buffer import TensorBuffer
from neurald.runtime.tflite.custom_operators import CustomFunction, CustomOperators

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
    "Interpreter",
    "InterpreterWithCustomOps",
    "OpResolverType",
    "Options",
    "SignatureRunner",
    "TensorBuffer",
    "load_delegate",
]
