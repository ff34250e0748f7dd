"""Runs an unmodified program of LiteRT, TensorFlow Lite or `tf.lite` on neurald.

The modules from which such programs import are replaced in this process before the program starts,
and in processes that it starts by `multiprocessing` when they import one, see `stand_ins`.
"""

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

import neurald.litert as replacement
from neurald.runtime.litert.compiled_model import option_numbers
from neurald.runtime.litert.interpreter import calibration, metrics

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
_WHOLE: Final = {
    "_pywrap_tfl_calibration": calibration,
    "metrics_interface": metrics,
    "metrics_portable": metrics,
    "option_utils": option_numbers,
}
_OLD_PACKAGE: Final = "tflite_runtime"
_TENSORFLOW: Final = "tensorflow"
_PACKAGES: Final = (_PACKAGE, _OLD_PACKAGE, _TENSORFLOW)
_USAGE: Final = "usage: python -m neurald.litert {FILE | -m MODULE | -c TEXT | -} [ARGUMENT ...]"
_STAND_INS: Final = str(Path(__file__).parent / "stand_ins")


def replace_modules() -> None:
    """Puts neurald's classes under the names that programs import.

    These are `ai_edge_litert`, `tflite_runtime` and `tensorflow.lite`.

    Raises:
        RuntimeError: one of the packages is imported already.
    """
    for package in _PACKAGES:
        if package in sys.modules:
            raise RuntimeError(f"{package} is imported already; replace_modules() must come before it")
    _add_package(_PACKAGE, _MODULES)
    # LiteRT's own calibration would follow the handle of an interpreter as an address.
    for name, module in _WHOLE.items():
        sys.modules[f"{_PACKAGE}.{name}"] = module
        setattr(sys.modules[_PACKAGE], name, module)
    _add_package(_OLD_PACKAGE, {"interpreter": _MODULES["interpreter"]})
    if _installed(_TENSORFLOW) is None:
        _add_tensorflow()
    else:
        sys.meta_path.insert(0, _TensorFlowFinder())
    if _STAND_INS not in sys.path:
        # Behind the folder of the program.
        sys.path.insert(1, _STAND_INS)


def stand_in(name: str) -> None:
    """Replaces the modules in a process that has found a module of `stand_ins`.

    Args:
        name: the name by which it is imported.
    """
    if name not in _PACKAGES:
        return  # It is imported as a module of neurald.
    del sys.modules[name]
    replace_modules()
    import_module(name)


def _installed(name: str) -> importlib.machinery.ModuleSpec | None:
    """Finds a package that is not a stand-in."""
    before = sys.path.copy()
    sys.path[:] = [each for each in before if each != _STAND_INS]
    try:
        return importlib.util.find_spec(name)
    finally:
        sys.path[:] = before


def _add_package(name: str, modules: Mapping[str, tuple[str, ...]]) -> None:
    """Adds a package with neurald's modules; others come from the installed one, if any."""
    package = _new_module(name, is_package=True)
    package.__version__ = _VERSION  # type: ignore[attr-defined]
    installed = _installed(name)
    package.__path__ = list(installed.submodule_search_locations or ()) if installed else []
    sys.modules[name] = package
    for module_name, names in modules.items():
        module = _module(f"{name}.{module_name}", names)
        setattr(package, module_name, module)
        sys.modules[module.__name__] = module


def _new_module(name: str, *, is_package: bool = False) -> ModuleType:
    """Returns an empty module that programs find, as those that exist on disk."""
    module = ModuleType(name)
    # Programs ask for it to choose one of the packages that are installed.
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=is_package)
    return module


def _module(name: str, names: Sequence[str]) -> ModuleType:
    """Returns a module with neurald's classes, which are imported when they are first used."""
    module = _new_module(name)

    def read(attribute: str) -> Any:
        if attribute not in names:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        value = getattr(replacement, attribute)
        setattr(module, attribute, value)
        return value

    vars(module).update(__getattr__=read, __all__=list(names), __dir__=lambda: sorted(names))
    return module


def _add_tensorflow() -> None:
    """Adds what programs use of TensorFlow, which is not installed."""
    path = ""
    for name in (_TENSORFLOW, "lite", "python"):
        parent, path = path, f"{path}.{name}".lstrip(".")
        module = _part_of_tensorflow(path)
        if parent:
            setattr(sys.modules[parent], name, module)
    interpreter = _module(f"{path}.interpreter", _MODULES["interpreter"])
    sys.modules[interpreter.__name__] = module.interpreter = interpreter  # type: ignore[attr-defined]
    lite = sys.modules[f"{_TENSORFLOW}.lite"]
    lite.experimental = _part_of_tensorflow(f"{lite.__name__}.experimental")  # type: ignore[attr-defined]
    _replace_in(lite)


def _part_of_tensorflow(path: str) -> ModuleType:
    """Adds an empty module, which says so of everything that a program misses in it."""

    def missing(attribute: str) -> NoReturn:
        raise AttributeError(
            f"module {path!r} has no attribute {attribute!r}: TensorFlow is not installed, and of it neurald "
            "has only tf.lite.Interpreter, tf.lite.experimental.load_delegate and OpResolverType"
        )

    module = sys.modules[path] = _new_module(path, is_package=True)
    module.__path__ = []
    vars(module)["__getattr__"] = missing
    return module


def _replace_in(lite: Any) -> None:
    """Replaces what programs use of `tf.lite`."""
    lite.Interpreter = replacement.Interpreter
    lite.experimental.load_delegate = replacement.load_delegate
    lite.experimental.OpResolverType = replacement.OpResolverType


class _TensorFlowFinder(importlib.abc.MetaPathFinder):
    """Replaces TensorFlow's interpreter when the program imports an installed TensorFlow."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _TENSORFLOW:
            return None
        sys.meta_path.remove(self)
        try:
            spec = _installed(_TENSORFLOW)
        finally:
            # A program that only asks whether there is TensorFlow may import it later.
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _TensorFlowLoader(spec.loader)
        return spec


class _TensorFlowLoader(importlib.abc.Loader):
    """Loads TensorFlow, and then replaces its interpreter.

    Args:
        loader: the loader of TensorFlow.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _replace_in(module.lite)
        # Where TensorFlow itself has them from, and modules that have imported them from there.
        interpreter = import_module(f"{_TENSORFLOW}.lite.python.interpreter")
        names = _MODULES["interpreter"]
        originals = {name: vars(interpreter)[name] for name in names if name in vars(interpreter)}
        for path, other in list(sys.modules.items()):
            if path.startswith(f"{_TENSORFLOW}.lite."):
                for name, original in originals.items():
                    if name in vars(other) and vars(other)[name] is original:
                        setattr(other, name, getattr(replacement, name))
        for name in names:
            setattr(interpreter, name, getattr(replacement, name))


def run_program(arguments: Sequence[str]) -> None:
    """Runs a program with its arguments, as Python does.

    Args:
        arguments: a file, `-m` and the name of a module, `-c` and the text of a program, or `-` for
            a program from standard input; then the arguments of the program.

    Raises:
        SystemExit: no program is named, or the program ends with a status.
    """
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(f"{_USAGE}\n\nRuns a program of LiteRT or TensorFlow Lite on neurald.\n")
        return
    named = arguments[1:] if arguments[:1] in (["-m"], ["-c"]) else arguments
    if not named:
        _refuse(_USAGE)
    replace_modules()
    first, *others = named
    if arguments[0] == "-m":
        sys.argv = [first, *others]
        if _is_missing(first):
            _refuse(f"there is no module {first}", status=1)
        runpy.run_module(first, run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *others]
        _run_text(first, "<string>")
    elif first == "-":
        sys.argv = ["-", *others]
        _run_text(sys.stdin.read(), "<stdin>")
    else:
        path = Path(first)
        if not path.exists():
            _refuse(f"{path}: there is no such file\n{_USAGE}")
        sys.argv = [first, *others]
        sys.path[0] = str(path.resolve().parent)
        runpy.run_path(first, run_name="__main__")


def _refuse(text: str, status: int = 2) -> NoReturn:
    sys.stderr.write(text + "\n")
    raise SystemExit(status)


def _is_missing(name: str) -> bool:
    """Returns whether there is no module of this name."""
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError as error:
        # The program may import something else that is missing.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return True
        raise


def _run_text(text: str, origin: str) -> None:
    """Runs the text of a program as the main module."""
    main = ModuleType("__main__")
    main.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    sys.path[0] = ""
    exec(compile(text, origin, "exec"), vars(main))  # noqa: S102 - the program that the user gives
