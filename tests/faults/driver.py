"""Drivers for fault tests: sample devices controlled by a file.

`first` adds and `second` multiplies.

The file `$NEURALD_FAULT` holds one word, which is read before every execution: `delay` makes it
wait, `lie` reports wrong shapes, `fail` raises, `endless` does not return until the file changes,
`die in execute` kills the process. Before every preparation `die in prepare` does so. Any other
word has no effect. The measured performance of a device differs from start to start.
"""

import os
import random
import signal
import time
from pathlib import Path

from support.devices.faulty import Execute, Faulty

from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape, PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request
from neurald.hal.records import replace

FAULT_VARIABLE = "NEURALD_FAULT"
DELAY_S = 0.3
_LOOK_S = 0.01


def _word(path: Path) -> str:
    """Returns the word; "" if the file is missing, or is being removed."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _executing(path: Path) -> Execute:
    def execute(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
        fault = _word(path)
        while _word(path) == "endless":
            time.sleep(_LOOK_S)
        if fault == "die in execute":
            _die()
        if fault == "fail":
            raise OpFailed("it was told to fail")
        if fault == "delay":
            time.sleep(DELAY_S)
        result = right.execute(request, options)
        if fault == "lie":
            wrong = OutputShape(dimensions=(1 << 20, 1 << 10))
            return replace(result, output_shapes=(wrong,) * len(result.output_shapes))
        return result

    return execute


class _Forgetting(Faulty):
    """Keeps no list of prepared models, which would hold their memory."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if _word(_fault_path()) == "die in prepare":
            _die()
        prepared = super().prepare_model(model, options)
        self.prepared.clear()
        return prepared


def _fault_path() -> Path:
    return Path(os.environ.get(FAULT_VARIABLE, "/nonexistent"))


def _device(name: str, operation: OperationType) -> Faulty:
    execute = _executing(_fault_path())
    measured = 0.3 + random.random() * 0.3  # always faster than the CPU
    return _Forgetting(execute, name, performance=measured, supports=lambda each: each is operation)


def create_first() -> Faulty:
    """Creates the device that adds."""
    return _device("first", OperationType.ADD)


def create_second() -> Faulty:
    """Creates the device that multiplies."""
    return _device("second", OperationType.MUL)
