"""Runs test suites and models of other projects on neurald.litert, unmodified.

    PYTHON tests/outside/run.py quantizer CHECKOUT     # google-ai-edge/ai-edge-quantizer
    PYTHON tests/outside/run.py interpreter CHECKOUT   # google-ai-edge/LiteRT
    PYTHON tests/outside/run.py keras FOLDER           # keras-team/keras, or the package's folder
    PYTHON tests/outside/run.py onnx CHECKOUT          # onnx/tensorflow-onnx
    PYTHON tests/outside/run.py models FOLDER          # all .tflite and .bin files below it

PYTHON needs ai-edge-litert and neurald's dependencies; for `quantizer` also ai-edge-quantizer,
pytest and absl-py, for `interpreter` and `keras` tensorflow-cpu, and for `onnx` also onnx,
onnxruntime and parameterized. `--litert` runs a suite on LiteRT itself, to compare. `models`
computes each file in LiteRT with and without XNNPACK, and lists those that neurald refuses or
computes differently from both.

The suites are not part of neurald: their checkouts come from the projects themselves.
"""

import argparse
import importlib.util
import os
import sys
import types
import unittest
from pathlib import Path
from typing import Any

#: Tests that run a native delegate, which only LiteRT's build has and neurald refuses.
DELEGATES = {
    "InterpreterDelegateTest": (
        "testDelegate",
        "testDestructionOrder",
        "testMultipleInterpreters",
        "testOptions",
    )
}
#: Tests that LiteRT's package cannot pass without the libraries of LiteRT's build. For neurald
#: a module in Python takes the place of the one with custom operators.
NATIVE = {
    "InterpreterCustomOpsTest": (
        "testRegistererByFunc",
        "testRegistererByName",
        "testRegisterGenAIOpsFailure",
    ),
    "InterpreterDelegateTest": (*DELEGATES["InterpreterDelegateTest"], "testFail"),
    "InterpreterTest": ("testSparseTensorAccess",),
}

#: A test of ai-edge-quantizer that expects an error for results which LiteRT's delegate does not
#: keep. neurald has them.
KEPT = (
    "ai_edge_quantizer/utils/tfl_interpreter_utils_test.py::TflUtilsSingleSignatureModelTest"
    "::test_get_tensor_name_to_content_map_fails_no_preserve_all_tensors",
)
#: Tests of tf2onnx that fail on LiteRT, too, with NumPy 2 and today's ONNX.
STALE = (
    "test_backend.py::BackendTests::test_equal_string",
    "test_backend.py::BackendTests::test_onehot_rank0",
)
#: Its files with models of LiteRT.
_ONNX = (
    "test_backend.py",
    "test_cond.py",
    "test_einsum_ml.py",
    "test_loops.py",
    "test_tflite_postprocess.py",
)
#: Options of pytest. Those in the configurations of suites need plugins.
_OWN_OPTIONS = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=")
#: A model that is not in every checkout of ai-edge-quantizer, and the tests that read it.
LANGUAGE_MODEL = "ai_edge_quantizer/tests/models/test_tok_tfl_llm.litertlm"
LANGUAGE_MODEL_TESTS = "ai_edge_quantizer/utils/litertlm_utils_test.py"

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "src")]


def run_quantizer(checkout: Path) -> int:
    """Runs ai-edge-quantizer's tests."""
    import pytest
    from ai_edge_litert import interpreter

    is_litert = not interpreter.Interpreter.__module__.startswith("neurald.")
    left_out = [] if is_litert else [f"--deselect={test}" for test in KEPT]
    if not (checkout / LANGUAGE_MODEL).exists():
        left_out.append(f"--ignore={LANGUAGE_MODEL_TESTS}")
    sys.path.insert(0, str(checkout))
    os.chdir(checkout)
    # Some of its files have the same name.
    options = [*_OWN_OPTIONS, "--import-mode=importlib", "--rootdir=."]
    return int(pytest.main([*options, *left_out, "ai_edge_quantizer"]))


def run_keras(folder: Path) -> int:
    """Runs the tests of Keras that export models and compare LiteRT's results with Keras's."""
    import pytest

    os.environ["KERAS_BACKEND"] = "tensorflow"
    return int(pytest.main([*_OWN_OPTIONS, str(folder / "keras/src/export/litert_test.py")]))


def run_onnx(checkout: Path) -> int:
    """Runs tests of tf2onnx on models of LiteRT.

    They compare LiteRT's results with TensorFlow's and with ONNX Runtime's of the converted model.
    """
    import pytest

    own = {"TF2ONNX_SKIP_TF_TESTS": "True", "TF2ONNX_SKIP_TFJS_TESTS": "True"}
    os.environ.update(own, TF2ONNX_RUN_TFL_CONSISTENCY_TEST="True")
    sys.path.insert(0, str(checkout))
    os.chdir(checkout / "tests")
    # Its tests take arguments of this program for their own.
    del sys.argv[1:]
    left_out = [f"--deselect=tests/{test}" for test in STALE]
    return int(pytest.main([*_OWN_OPTIONS, *left_out, f"--rootdir={checkout}", *_ONNX]))


def run_interpreter(checkout: Path) -> int:
    """Runs LiteRT's interpreter_test.py.

    What it imports from LiteRT's source tree is replaced by the package's modules, the models that
    its build makes by `litert_data`, and the custom operators by `registered_operators`.
    """
    # Before TensorFlow, which is slow to import.
    from outside.litert_data import write_models

    folder = checkout / "tflite" / "python"
    found = write_models()
    import tensorflow
    from ai_edge_litert import interpreter, metrics_portable
    from tensorflow.python.platform import resource_loader

    lite = {"TFLiteConverterV2": tensorflow.lite.TFLiteConverter, "Interpreter": interpreter.Interpreter}
    _add_module("tflite.python", interpreter=interpreter)
    _add_module("tflite.python.lite", **lite)
    _add_module("tflite.python.metrics", metrics=metrics_portable)
    _add_module("tflite.python.testdata")
    is_litert = not interpreter.Interpreter.__module__.startswith("neurald.")
    registerers: dict[str, Any] = {}
    if not is_litert:
        from outside import registered_operators

        registerers = vars(registered_operators)
        # LiteRT finds functions in all of the process by their names, and neurald in the program.
        sys.modules["__main__"].__dict__["TF_TestRegisterer"] = registerers["TF_TestRegisterer"]
    _add_module("tflite.python.testdata._pywrap_test_registerer", **registerers)
    sys.modules["tflite.python.interpreter"] = interpreter
    sys.modules["tflite.python.metrics.metrics"] = metrics_portable
    resource_loader.get_path_to_datafile = lambda path: str(
        found / path if (found / path).exists() else (folder / path).resolve()
    )
    spec = importlib.util.spec_from_file_location("interpreter_test", folder / "interpreter_test.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for name, tests in (NATIVE if is_litert else DELEGATES).items():
        for test in tests:
            skipped = unittest.skip("needs libraries of LiteRT's build")(lambda _: None)
            setattr(getattr(module, name), test, skipped)
    # Its setUp() opens the delegate.
    delegate = {"setUp": lambda _: None, "_delegate_file": str(folder / "testdata" / "test_delegate.so")}
    for name, value in delegate.items():
        setattr(module.InterpreterDelegateTest, name, value)
    result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromModule(module))
    return 0 if result.wasSuccessful() else 1


def _add_module(name: str, **names: Any) -> None:
    module = types.ModuleType(name)
    module.__dict__.update({**names, "__name__": name}, __path__=[])
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    setattr(sys.modules.get(parent) or importlib.import_module(parent), child, module)


def run_models(folder: Path) -> int:
    """Computes all files of a folder with LiteRT and neurald."""
    from outside.models import compare

    files = sorted(path for ending in ("tflite", "bin") for path in folder.rglob(f"*.{ending}"))
    problems = 0
    for path in files:
        found = compare(path)
        if found:
            problems += 1
            print(f"{path.relative_to(folder)}: {found}", flush=True)
    print(f"{len(files)} files, {problems} problems")
    return 1 if problems else 0


SUITES = {
    "interpreter": run_interpreter,
    "keras": run_keras,
    "models": run_models,
    "onnx": run_onnx,
    "quantizer": run_quantizer,
}


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--litert", action="store_true", help="run the suite on LiteRT itself")
    options = parser.parse_args()
    os.environ.setdefault("NEURALD_AUTOSTART", "0")
    if not options.litert and options.suite != "models":
        from neurald.runtime.litert.program import replace_modules

        replace_modules()
    return SUITES[options.suite](options.folder.resolve())


if __name__ == "__main__":
    sys.exit(main())
