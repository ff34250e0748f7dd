"""Unmodified programs run on neurald; each runs in a process of its own."""

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


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "neurald.litert", *arguments],
        env=bare_environment(),
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
    for arguments, words in (
        ((), "usage:"),
        (("nothing.py",), "there is no such file"),
        (("--help",), "usage:"),
    ):
        found = run(tmp_path, *arguments)
        assert found.returncode == 1
        assert words in found.stderr
