import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from neurald.service.benchmark import peer_process
from neurald.service.benchmark.peers import PEERS_VARIABLE, measure_peers, peer_rows
from neurald.service.console.measurement import RunControl, summarise
from neurald.service.demo.digits import MODEL

INPUTS = [np.zeros((1, 8, 8, 1), np.uint8)]
ONCE = RunControl(runs=2, min_s=0, max_s=30)


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Makes a program the Python of other runtimes."""
    path = folder / "bin" / "python"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(PEERS_VARIABLE, str(folder))


def test_what_runtimes_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"version": "1.2", "start_ms": 5.0, "latencies_ms": [1.0, 3.0], "peak_bytes": 2**20}
    fake(tmp_path, monkeypatch, f"import sys; print({json.dumps(document)!r})")
    found = measure_peers(Path(MODEL), tmp_path / "m.onnx", INPUTS, 1, ONCE, ONCE)
    assert [each["engine"] for each in found] == ["litert", "openvino", "onnxruntime"]
    assert found[0]["steady"]["median_ms"] == 2
    (row, *_) = peer_rows(found, summarise([0.001]))
    assert row == ("litert 1.2", "5.0", "2.000", "2.800", "0.50", "1 MiB")


def test_runtimes_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(
        tmp_path, monkeypatch, "import sys; sys.exit(f\"No module named '{sys.argv[3]}'\" if 0 else 'broken')"
    )
    found = measure_peers(Path(MODEL), None, INPUTS, 1, ONCE, ONCE)
    assert [each["error"] for each in found] == ["status 1: broken"] * 2
    assert peer_rows(found, summarise([0.001]))[0] == ("litert", "", "", "", "", "status 1: broken")


def test_a_python_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PEERS_VARIABLE, str(tmp_path))
    (found, *_) = measure_peers(Path(MODEL), None, INPUTS, 1, ONCE, ONCE)
    assert "No such file" in found["error"]


@pytest.mark.parametrize(("engine", "module"), [("litert", "ai_edge_litert"), ("openvino", "openvino")])
def test_installed_runtimes(engine: str, module: str) -> None:
    python = Path(os.environ.get(PEERS_VARIABLE, sys.prefix)) / "bin" / "python"
    if subprocess.run([python, "-s", "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{module} is not installed")
    found = {each["engine"]: each for each in measure_peers(Path(MODEL), None, INPUTS, 1, ONCE, ONCE)}
    assert found[engine]["steady"]["runs"] >= 2
    assert found[engine]["start_ms"] > 0


def test_openvino_computes_as_precisely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks OpenVINO for float32, since it takes bfloat16 by itself on processors that have it."""
    library = MagicMock(__version__="1")
    monkeypatch.setitem(sys.modules, "openvino", library)
    peer_process.openvino(str(MODEL), [], 3)
    _, device, options = library.Core().compile_model.call_args.args
    assert device == "CPU"
    assert options["INFERENCE_PRECISION_HINT"] == "f32"
    assert options["INFERENCE_NUM_THREADS"] == 3
