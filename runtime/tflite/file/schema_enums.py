"""The numbers of TFLite's schema, from the modules of the schema package.

That package imports all of its hundreds of modules at once, so the few that are needed are loaded
individually, when they are first imported from here. What few files need is read as an attribute of
this module where it is used.
"""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

_package = find_spec("tflite")
_folders = [] if _package is None else _package.submodule_search_locations or []


_NAMES = (
    "ActivationFunctionType",
    "BuiltinOperator",
    "BuiltinOptions",
    "BuiltinOptions2",
    "DimensionType",
    "FullyConnectedOptionsWeightsFormat",
    "LSHProjectionType",
    "LSTMKernelType",
    "Padding",
    "SparseIndexVector",
    "TensorType",
)


def _enumeration(name: str) -> Any:
    for folder in _folders:
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

    def __getattr__(name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(f"module {__name__} has no attribute {name}", name=name, obj=None)
        found = globals()[name] = _enumeration(name)
        return found
