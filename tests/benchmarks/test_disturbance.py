"""The benchmark of disturbance compares calls beside a compiling process with calls without one."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.models.small import add_model
from support.tflite.builder import TfliteModel
from support.waiting import wait_until


@pytest.fixture
def disturbance(import_benchmark: Callable[..., Any]) -> Any:
    """Imports the benchmark."""
    return import_benchmark("disturbance", "startup")


def test_calls_are_measured_while_another_model_is_compiled(disturbance: ModuleType, tmp_path: Path) -> None:
    model = TfliteModel()
    graph = model.subgraph()
    x, y = graph.tensor((2, 3), name="x"), graph.tensor((2, 3), name="y")
    graph.operator("TANH", (x,), (y,))
    graph.inputs, graph.outputs = (x,), (y,)
    path = model.write(tmp_path / "model.tflite")
    with disturbance.compiling(add_model()) as process:
        name, alone, beside, ratio, ratio_mean = disturbance.measure(path, process, 0.1)
    assert (name, alone > 0, beside > 0) == ("model", True, True)
    assert ratio == pytest.approx(beside / alone)
    assert ratio_mean > 0


def test_all_compiling_processes_are_stopped_and_end(disturbance: ModuleType) -> None:
    with disturbance.compiling(add_model()) as process:
        # Threads of earlier tests may have had other pools.
        server = disturbance.separate_compiler._pools["cpu", False].process
        process.signal(signal.SIGSTOP)
        wait_until(lambda: Path(f"/proc/{server}/stat").read_text().split(")")[1].split()[0] == "T")
        ended = process.ended
        process.signal(signal.SIGCONT)
        wait_until(lambda: process.ended > ended + 1)
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
