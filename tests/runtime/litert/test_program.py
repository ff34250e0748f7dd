"""Unmodified programs run on neurald; each runs in a process of its own."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.daemon.processes import bare_environment
from support.tflite.litert_files import sums

_PROGRAM = """
import sys
import numpy as np
{imports}

interpreter = Interpreter(model_path=sys.argv[1])
interpreter.allocate_tensors()
for details in interpreter.get_input_details():
    interpreter.set_tensor(details["index"], np.ones(details["shape"], details["dtype"]))
interpreter.invoke()
print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist(), __name__, Interpreter.__module__)
"""


def run(
    folder: Path, *arguments: str, given: str = "", path: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs a program.

    Args:
        folder: the current one.
        arguments: of `neurald.litert`.
        given: standard input.
        path: is added to the path of modules.
    """
    environment = bare_environment()
    if path is not None:
        environment["PYTHONPATH"] += os.pathsep + str(path)
    return subprocess.run(
        [sys.executable, "-m", "neurald.litert", *arguments],
        env=environment,
        input=given,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "imports",
    [
        "from ai_edge_litert.interpreter import Interpreter",
        "from tflite_runtime.interpreter import Interpreter",
        "import tensorflow as tf; Interpreter = tf.lite.Interpreter",
        "import tensorflow.lite as tflite; Interpreter = tflite.Interpreter",
        "from tensorflow import lite; Interpreter = lite.Interpreter; lite.experimental.load_delegate",
        "from tensorflow.lite.python.interpreter import Interpreter, load_delegate",
    ],
)
def test_a_program(tmp_path: Path, imports: str) -> None:
    (tmp_path / "app.py").write_text(_PROGRAM.format(imports=imports))
    sums().write(tmp_path / "m.tflite")
    found = run(tmp_path, "app.py", "m.tflite")
    assert found.stderr == ""
    assert found.stdout.split(" __main__ ")[0] == "[[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]"
    assert "neurald" in found.stdout
    assert run(tmp_path, "-m", "app", "m.tflite").stdout == found.stdout
    assert run(tmp_path, "-c", _PROGRAM.format(imports=imports), "m.tflite").stdout == found.stdout


_CHOICE = """
from importlib.util import find_spec
for name in (
    "ai_edge_litert", "ai_edge_litert.interpreter", "ai_edge_litert.compiled_model",
    "tflite_runtime", "tflite_runtime.interpreter",
    "tensorflow", "tensorflow.lite", "tensorflow.lite.python.interpreter",
):
    found = find_spec(name)
    print(found.name, found.submodule_search_locations is not None)
"""


def test_programs_find_the_packages_before_they_import_one(tmp_path: Path) -> None:
    found = run(tmp_path, "-c", _CHOICE)
    assert found.stderr == ""
    lines = [line.split() for line in found.stdout.splitlines()]
    assert len(lines) == 8
    for name, is_package in lines:
        assert is_package == str(not name.endswith(("interpreter", "model"))), name


def test_what_is_missing_without_tensorflow_says_why(tmp_path: Path) -> None:
    for text in ("tf.constant(1)", "tf.lite.TFLiteConverter", "tf.lite.experimental.Analyzer"):
        found = run(tmp_path, "-c", f"import tensorflow as tf\n{text}")
        last = found.stderr.splitlines()[-1]
        assert last.startswith("AttributeError: module 'tensorflow")
        assert "TensorFlow is not installed, and of it neurald has only tf.lite.Interpreter" in last
    assert run(tmp_path, "-c", "import tensorflow as tf\nprint(hasattr(tf, 'keras'))").stdout == "False\n"


def test_the_text_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 7\n")
    text = (
        "import sys, helper\nfrom tflite_runtime import interpreter\nprint(sys.argv, helper.VALUE, __name__)"
    )
    assert run(tmp_path, "-c", text, "-x", "y").stdout == "['-c', '-x', 'y'] 7 __main__\n"
    assert run(tmp_path, "-", "y", given=text).stdout == "['-', 'y'] 7 __main__\n"
    for arguments, given in ((("-c", "raise KeyError(3)"), ""), (("-",), "raise KeyError(3)")):
        found = run(tmp_path, *arguments, given=given)
        assert found.returncode == 1
        assert found.stderr.endswith("KeyError: 3\n")


_PROCESSES = """
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

{imports}

def run(path):
    interpreter = Interpreter(path)
    interpreter.allocate_tensors()
    interpreter.invoke()
    return Interpreter.__module__.split(".")[0]

if __name__ == "__main__":
    for way in ("fork", "spawn", "forkserver"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(way)) as pool:
            print(way, pool.submit(run, sys.argv[1]).result())
"""


@pytest.mark.parametrize(
    "imports",
    [
        "from ai_edge_litert.interpreter import Interpreter",
        "from tflite_runtime.interpreter import Interpreter",
        "import tensorflow as tf; Interpreter = tf.lite.Interpreter",
    ],
)
def test_processes_that_a_program_starts(tmp_path: Path, imports: str) -> None:
    (tmp_path / "app.py").write_text(_PROCESSES.format(imports=imports))
    sums().write(tmp_path / "m.tflite")
    for program in (("app.py",), ("-m", "app")):
        found = run(tmp_path, *program, "m.tflite")
        assert found.stderr == ""
        assert found.stdout == "fork neurald\nspawn neurald\nforkserver neurald\n"


def test_an_installed_package_is_replaced_in_other_processes(tmp_path: Path) -> None:
    """Adds a folder behind the program's in the path, where installed packages are."""
    installed, folder = tmp_path / "site", tmp_path / "program"
    for name in ("ai_edge_litert", "tensorflow/lite/python", "tensorflow/lite/experimental"):
        (installed / name).mkdir(parents=True)
        (installed / name / "interpreter.py").write_text("Interpreter = None\n")
    for name in ("", "/lite", "/lite/python", "/lite/experimental"):
        (installed / f"tensorflow{name}/__init__.py").write_text("VALUE = 7\n")
    (installed / "tensorflow/__init__.py").write_text("from . import lite\nVALUE = 7\n")
    (installed / "tensorflow/lite/__init__.py").write_text(
        "from . import experimental\nfrom .python import lite\nInterpreter = None\n"
    )
    (installed / "tensorflow/lite/python/lite.py").write_text("from .interpreter import Interpreter\n")
    folder.mkdir()
    imports = (
        "from importlib.util import find_spec\nassert find_spec('tensorflow')\n"
        "import tensorflow as tf\nassert tf.VALUE == 7\n"
        "from tensorflow.lite.python.interpreter import Interpreter as third\n"
        "from ai_edge_litert.interpreter import Interpreter\nassert third is tf.lite.Interpreter is Interpreter\n"
        "assert sys.modules['tensorflow.lite.python.lite'].Interpreter is Interpreter"
    )
    (folder / "app.py").write_text(_PROCESSES.format(imports=imports))
    sums().write(folder / "m.tflite")
    found = run(folder, "app.py", "m.tflite", path=installed)
    assert found.stderr == ""
    assert found.stdout == "fork neurald\nspawn neurald\nforkserver neurald\n"


#: What the modules of ai-edge-litert 2.3 define or pass on, but for those that only its tools use.
PUBLIC = {
    "compiled_model": "CompiledModel",
    "cpu_kernel_mode": "CpuKernelMode",
    "cpu_options": "CpuOptions",
    "environment": "Environment EnvironmentOptions",
    "gpu_options": "GpuOptions",
    "hardware_accelerator": "HardwareAccelerator",
    "intel_openvino_options": "IntelOpenVinoGraphBackend IntelOpenVinoOptions IntelOpenVinoPerformanceMode",
    "interpreter": "Delegate Interpreter InterpreterWithCustomOps OpResolverType SignatureRunner load_delegate",
    "metrics_interface": "TFLiteMetricsInterface",
    "metrics_portable": "TFLiteConverterMetrics TFLiteMetrics",
    "option_utils": "optional_bool_to_int optional_enum_to_int",
    "options": "CpuKernelMode CpuOptions GpuOptions IntelOpenVinoGraphBackend IntelOpenVinoOptions "
    "IntelOpenVinoPerformanceMode Options QualcommBackend QualcommDspPerformanceMode "
    "QualcommGraphIOTensorMemType QualcommGraphPriority QualcommHtpPerformanceMode QualcommLogLevel "
    "QualcommOptimizationLevel QualcommOptions QualcommProfiling",
    "qualcomm_options": "QualcommBackend QualcommDspPerformanceMode QualcommGraphIOTensorMemType "
    "QualcommGraphPriority QualcommHtpPerformanceMode QualcommLogLevel QualcommOptimizationLevel "
    "QualcommOptions QualcommProfiling",
    "tensor_buffer": "TensorBuffer",
}


def test_every_public_name_is_neuralds(tmp_path: Path) -> None:
    lines = [
        f"from ai_edge_litert import {module}\nfrom ai_edge_litert.{module} import {', '.join(names.split())}\n"
        f"assert {names.split()[0]}.__module__.startswith('neurald.'), {names.split()[0]}\n"
        for module, names in PUBLIC.items()
    ]
    lines.append(
        "from ai_edge_litert import metrics_interface, metrics_portable, option_utils\n"
        "assert issubclass(metrics_portable.TFLiteConverterMetrics, metrics_interface.TFLiteMetricsInterface)\n"
        "metrics_portable.TFLiteConverterMetrics().export_metrics()\n"
        "assert [option_utils.optional_bool_to_int(x) for x in (None, False, 5)] == [-1, 0, 1]\n"
        "assert [option_utils.optional_enum_to_int(x) for x in (None, 3)] == [-1, 3]\n"
    )
    (tmp_path / "app.py").write_text("".join(lines))
    found = run(tmp_path, "app.py")
    assert found.stderr == ""
    assert found.returncode == 0


def test_its_status_and_imports(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("STATUS = 3\n")
    (tmp_path / "app.py").write_text(
        "from ai_edge_litert.compiled_model import CompiledModel\n"
        "from ai_edge_litert.hardware_accelerator import HardwareAccelerator\n"
        "from ai_edge_litert.compiled_model import EnvironmentOptions, CpuOptions, QualcommOptions\n"
        "from ai_edge_litert.options import IntelOpenVinoGraphBackend, QualcommLogLevel, Options\n"
        "from ai_edge_litert.qualcomm_options import QualcommHtpPerformanceMode\n"
        "from ai_edge_litert.intel_openvino_options import IntelOpenVinoOptions\n"
        "from ai_edge_litert.metrics_portable import TFLiteMetrics\n"
        "import ai_edge_litert\nassert ai_edge_litert.__version__ == '2.3.0'\n"
        "import helper, sys\nassert CompiledModel.__module__.startswith('neurald')\nsys.exit(helper.STATUS)\n"
    )
    assert run(tmp_path, "app.py").returncode == 3


def test_the_rest_of_an_installed_package_stays(tmp_path: Path) -> None:
    package = tmp_path / "ai_edge_litert"
    (package / "tools").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('its libraries are not needed')\n")
    (package / "interpreter.py").write_text("Interpreter = None\n")
    (package / "tools" / "__init__.py").write_text("")
    (package / "tools" / "mine.py").write_text("VALUE = 7\n")
    (tmp_path / "app.py").write_text(
        "from ai_edge_litert import _pywrap_tfl_calibration, interpreter\n"
        "from ai_edge_litert.tools.mine import VALUE\n"
        "print(VALUE, interpreter.Interpreter.__module__, _pywrap_tfl_calibration.__name__)\n"
    )
    found = run(tmp_path, "app.py")
    assert found.stderr == ""
    value, *modules = found.stdout.split()
    assert value == "7"
    assert all(module.startswith("neurald.") for module in modules)


def test_no_program(tmp_path: Path) -> None:
    for arguments, status, words in (
        ((), 2, "usage:"),
        (("-c",), 2, "usage:"),
        (("-m",), 2, "usage:"),
        (("nothing.py",), 2, "nothing.py: there is no such file"),
        (("-m", "nothing"), 1, "there is no module nothing"),
        (("-m", "nothing.at.all"), 1, "there is no module nothing.at.all"),
        (("--help",), 0, ""),
    ):
        found = run(tmp_path, *arguments)
        assert found.returncode == status
        assert (words in found.stderr) if words else not found.stderr
        assert found.stdout.startswith("usage:") is (status == 0)
        assert all(len(line) <= 80 for line in (found.stdout + found.stderr).splitlines())
    (tmp_path / "app.py").write_text("import nothing\n")
    assert "ModuleNotFoundError: No module named 'nothing'" in run(tmp_path, "-m", "app").stderr


def test_stand_ins_as_modules_of_neurald_change_nothing() -> None:
    before = set(sys.modules)
    for name in ("ai_edge_litert", "tflite_runtime", "tensorflow"):
        importlib.import_module(f"neurald.runtime.litert.stand_ins.{name}")
    assert not {"ai_edge_litert", "tflite_runtime", "tensorflow"} & (set(sys.modules) - before)
