"""Runs an unmodified program of LiteRT, TensorFlow Lite or `tf.lite` on neurald.

The modules from which such programs import are replaced in this process before the program starts.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import neurald.litert as replacement
from neurald.runtime.litert import calibration, metrics

_INTEL: Final = ("IntelOpenVinoGraphBackend", "IntelOpenVinoOptions", "IntelOpenVinoPerformanceMode")
_QUALCOMM: Final = (
    "QualcommBackend",
    "QualcommDspPerformanceMode",
    "QualcommGraphIOTensorMemType",
    "QualcommGraphPriority",
    "QualcommHtpPerformanceMode",
    "QualcommLogLevel",
    "QualcommOptimizationLevel",
    "QualcommOptions",
    "QualcommProfiling",
)

#: The modules of LiteRT's package, and the names that programs import from them.
_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "interpreter": (
        "Delegate",
        "Interpreter",
        "InterpreterWithCustomOps",
        "OpResolverType",
        "SignatureRunner",
        "load_delegate",
    ),
    "compiled_model": (
        "CompiledModel",
        "CpuKernelMode",
        "CpuOptions",
        "Environment",
        "EnvironmentOptions",
        "GpuOptions",
        "HardwareAccelerator",
        "IntelOpenVinoOptions",
        "Options",
        "QualcommOptions",
        "TensorBuffer",
    ),
    "tensor_buffer": ("TensorBuffer",),
    "hardware_accelerator": ("HardwareAccelerator",),
    "environment": ("Environment", "EnvironmentOptions"),
    "options": (
        "CpuKernelMode",
        "CpuOptions",
        "GpuOptions",
        "HardwareAccelerator",
        "Options",
        *_INTEL,
        *_QUALCOMM,
    ),
    "cpu_options": ("CpuKernelMode", "CpuOptions"),
    "cpu_kernel_mode": ("CpuKernelMode",),
    "gpu_options": ("GpuOptions",),
    "intel_openvino_options": _INTEL,
    "qualcomm_options": _QUALCOMM,
}
#: The version of LiteRT whose interface neurald has.
_VERSION: Final = "2.3.0"
_PACKAGE: Final = "ai_edge_litert"
#: Modules of LiteRT's package whose names are not neurald's, too.
_WHOLE: Final = {"_pywrap_tfl_calibration": calibration, "metrics_portable": metrics}
_OLD_PACKAGE: Final = "tflite_runtime"
_TENSORFLOW: Final = "tensorflow"


def replace_modules() -> None:
    """Puts neurald's classes under the names that programs import.

    These are `ai_edge_litert`, `tflite_runtime` and `tensorflow.lite`.

    Raises:
        RuntimeError: one of the packages is imported already.
    """
    for package in (_PACKAGE, _OLD_PACKAGE, _TENSORFLOW):
        if package in sys.modules:
            raise RuntimeError(f"{package} is imported already; replace_modules() must come before it")
    _add_package(_PACKAGE, _MODULES)
    # LiteRT's own calibration would follow the handle of an interpreter as an address.
    for name, module in _WHOLE.items():
        sys.modules[f"{_PACKAGE}.{name}"] = module
        setattr(sys.modules[_PACKAGE], name, module)
    _add_package(_OLD_PACKAGE, {"interpreter": _MODULES["interpreter"]})
    if importlib.util.find_spec(_TENSORFLOW) is None:
        tensorflow = ModuleType(_TENSORFLOW)
        tensorflow.lite = _lite()  # type: ignore[attr-defined]
        sys.modules[_TENSORFLOW] = tensorflow
    else:
        sys.meta_path.insert(0, _TensorFlowFinder())


def _add_package(name: str, modules: Mapping[str, tuple[str, ...]]) -> None:
    """Adds a package with neurald's modules; others come from the installed one, if there is one."""
    package = ModuleType(name)
    package.__version__ = _VERSION  # type: ignore[attr-defined]
    installed = importlib.util.find_spec(name)
    package.__path__ = list(installed.submodule_search_locations or ()) if installed else []
    sys.modules[name] = package
    for module_name, names in modules.items():
        module = _module(f"{name}.{module_name}", names)
        setattr(package, module_name, module)
        sys.modules[module.__name__] = module


def _module(name: str, names: Sequence[str]) -> ModuleType:
    """Returns a module with neurald's classes, which are imported when they are first used."""
    module = ModuleType(name)

    def read(attribute: str) -> Any:
        if attribute not in names:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        value = getattr(replacement, attribute)
        setattr(module, attribute, value)
        return value

    vars(module).update(__getattr__=read, __all__=list(names), __dir__=lambda: sorted(names))
    return module


def _lite() -> SimpleNamespace:
    """Returns what programs use of `tf.lite`."""
    experimental = SimpleNamespace(
        load_delegate=replacement.load_delegate, OpResolverType=replacement.OpResolverType
    )
    return SimpleNamespace(Interpreter=replacement.Interpreter, experimental=experimental)


class _TensorFlowFinder(importlib.abc.MetaPathFinder):
    """Replaces TensorFlow's interpreter when the program imports an installed TensorFlow."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _TENSORFLOW:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(_TENSORFLOW)
        if spec is not None and spec.loader is not None:
            spec.loader = _TensorFlowLoader(spec.loader)
        return spec


class _TensorFlowLoader(importlib.abc.Loader):
    """Loads TensorFlow, and then replaces its interpreter.

    Args:
        loader: of TensorFlow.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        lite = _lite()
        module.lite.Interpreter = lite.Interpreter
        module.lite.experimental.load_delegate = lite.experimental.load_delegate
        module.lite.experimental.OpResolverType = lite.experimental.OpResolverType


def run_program(arguments: Sequence[str]) -> None:
    """Runs a program with its arguments.

    Args:
        arguments: a file, or `-m` and the name of a module; then the arguments of the program.

    Raises:
        SystemExit: no program is named, or the program ends with a status.
    """
    usage = "usage: python -m neurald.litert {PROGRAM.py | -m MODULE} [ARGUMENT ...]"
    is_module = arguments[:1] == ["-m"]
    names = arguments[1:] if is_module else arguments
    if not names or names[0] in ("-h", "--help"):
        raise SystemExit(
            f"{usage}\n\nRuns a program of LiteRT or TensorFlow Lite on neurald." if names else usage
        )
    replace_modules()
    if is_module:
        sys.argv = [names[0], *names[1:]]
        runpy.run_module(names[0], run_name="__main__", alter_sys=True)
        return
    path = Path(names[0])
    if not path.exists():
        raise SystemExit(f"{path}: there is no such file")
    sys.argv = [str(path), *names[1:]]
    sys.path[0] = str(path.resolve().parent)
    runpy.run_path(str(path), run_name="__main__")
