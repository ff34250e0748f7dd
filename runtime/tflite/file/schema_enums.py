"""The numbers of TFLite's schema, from the modules of the schema package.

That package imports all of its hundreds of modules at once, so the few that are needed are loaded
individually.
"""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any


def _enumeration(name: str) -> Any:
    package = find_spec("tflite")
    folders = [] if package is None else package.submodule_search_locations or []
    for folder in folders:
        spec = spec_from_file_location(f"{__name__}.{name}", Path(folder) / f"{name}.py")
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return getattr(module, name)
    raise ImportError("the package tflite is missing: pip install tflite", name="tflite")


if TYPE_CHECKING:
    from tflite.ActivationFunctionType import ActivationFunctionType as ActivationFunctionType
    from tflite.BuiltinOperator import BuiltinOperator as BuiltinOperator
    from tflite.BuiltinOptions import BuiltinOptions as BuiltinOptions
    from tflite.BuiltinOptions2 import BuiltinOptions2 as BuiltinOptions2
    from tflite.DimensionType import DimensionType as DimensionType
    from tflite.FullyConnectedOptionsWeightsFormat import (
        FullyConnectedOptionsWeightsFormat as FullyConnectedOptionsWeightsFormat,
    )
    from tflite.LSHProjectionType import LSHProjectionType as LSHProjectionType
    from tflite.LSTMKernelType import LSTMKernelType as LSTMKernelType
    from tflite.Padding import Padding as Padding
    from tflite.SparseIndexVector import SparseIndexVector as SparseIndexVector
    from tflite.TensorType import TensorType as TensorType
else:
    ActivationFunctionType = _enumeration("ActivationFunctionType")
    BuiltinOperator = _enumeration("BuiltinOperator")
    BuiltinOptions = _enumeration("BuiltinOptions")
    BuiltinOptions2 = _enumeration("BuiltinOptions2")
    DimensionType = _enumeration("DimensionType")
    FullyConnectedOptionsWeightsFormat = _enumeration("FullyConnectedOptionsWeightsFormat")
    LSHProjectionType = _enumeration("LSHProjectionType")
    LSTMKernelType = _enumeration("LSTMKernelType")
    Padding = _enumeration("Padding")
    SparseIndexVector = _enumeration("SparseIndexVector")
    TensorType = _enumeration("TensorType")
