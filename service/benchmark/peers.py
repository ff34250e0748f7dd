"""Measures other runtimes beside neurald, where they are installed."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neurald.hal.process.environment import environment_variable
from neurald.service.benchmark.durations import milliseconds
from neurald.service.console.measurement import RunControl, summarise

Array = np.ndarray[Any, np.dtype[Any]]

#: The virtual environment that has other runtimes, if this one does not.
PEERS_VARIABLE = "NEURALD_PEERS"

_PROGRAM = Path(__file__).with_name("peer_process.py")
#: What each runtime reads.
_MODULES: Mapping[str, str] = {
    "litert": "ai_edge_litert",
    "openvino": "openvino",
    "onnxruntime": "onnxruntime",
}
#: Seconds that a runtime may take beyond the measurement itself.
_PATIENCE_S = 120.0


def measure_peers(
    model: Path,
    onnx: Path | None,
    inputs: Sequence[Array],
    threads: int,
    warmup: RunControl,
    control: RunControl,
) -> list[dict[str, Any]]:
    """Runs LiteRT, OpenVINO and, with an ONNX file of the same model, ONNX Runtime.

    Each runs in a process of its own, with the same inputs and number of threads.

    Args:
        model: a .tflite file.
        onnx: the same model for ONNX Runtime; None to leave that out.
        inputs: the inputs of a run.
        threads: number of threads.
        warmup, control: how often the model is run.

    Returns:
        For each runtime: `engine`, and either `error` or its version, `start_ms` to load the model
        and run it once, the distribution of latencies, and `peak_bytes`, the largest memory of its
        process.
    """
    python = _python()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "inputs.npz"
        named: dict[str, Any] = {f"input_{position:03}": array for position, array in enumerate(inputs)}
        np.savez(stored, **named)
        for engine, module in _MODULES.items():
            file = onnx if engine == "onnxruntime" else model
            if file is None:
                continue
            command = [python, "-s", str(_PROGRAM), engine, str(file), str(stored), str(threads)]
            command += [str(control.runs), str(control.min_s), str(control.max_s)]
            command += [str(warmup.runs), str(warmup.min_s)]
            found.append({"engine": engine, **_measured(command, module, warmup, control)})
    return found


def _python() -> str:
    """Returns the Python that has the other runtimes."""
    folder = environment_variable(PEERS_VARIABLE)
    return str(Path(folder) / "bin" / "python") if folder else sys.executable


def _measured(command: Sequence[str], module: str, warmup: RunControl, control: RunControl) -> dict[str, Any]:
    limit_s = warmup.max_s + control.max_s + _PATIENCE_S
    try:
        process = subprocess.run(command, capture_output=True, timeout=limit_s, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return {"error": f"it did not end within {limit_s:.0f} s"}
    except OSError as error:
        return {"error": str(error)}
    if process.returncode:
        last = process.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it died"]
        missing = f"No module named '{module}'" in last[0]
        return {"error": "it is not installed" if missing else f"status {process.returncode}: {last[0]}"}
    document = json.loads(process.stdout)
    latencies = document.pop("latencies_ms")
    return {**document, "steady": summarise([each / 1e3 for each in latencies])}


def peer_rows(found: Sequence[Mapping[str, Any]], ours: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Returns the rows of a table: runtime, start, median, p90, neurald relative to it, memory.

    Args:
        found: the found from `measure_peers`.
        ours: the distribution of neurald's latencies.
    """
    rows: list[tuple[str, ...]] = []
    for each in found:
        if "error" in each:
            rows.append((each["engine"], "", "", "", "", each["error"]))
            continue
        steady = each["steady"]
        rows.append(
            (
                f"{each['engine']} {each['version'].split('-')[0]}",
                f"{each['start_ms']:.1f}",
                milliseconds(steady["median_ms"]),
                milliseconds(steady["p90_ms"]),
                f"{ours['median_ms'] / steady['median_ms']:.2f}",
                f"{each['peak_bytes'] / 2**20:.0f} MiB",
            )
        )
    return rows
