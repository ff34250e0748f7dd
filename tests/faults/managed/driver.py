"""Driver of the kill matrix and of the update test; files in `$NEURALD_MATRIX` control it.

The device adds. While the file `armed` holds the name of a phase, calls of that phase write the id
of the process to the file `entered` and wait until `armed` is gone; `PHASE lie` makes them answer
wrongly instead. An execution of a multiplication is poison: it waits for the file `strike`, whose
word says what it does then: `abort`, `memory` (takes all memory that the process may have) or
`endless`. The file `version` holds the version of the device, and `start` what its factory does:
`fail` or `hang`.
"""

import contextlib
import math
import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path

from support.devices.faulty import FaultyPrepared
from support.devices.misbehaving import SampleDevice

from neurald.drivers.sample.artifact import read_artifact
from neurald.hal.device import (
    Artifact,
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    OutputShape,
    Performance,
    PreparedModel,
    PrepareOptions,
    Verdict,
)
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request
from neurald.hal.records import replace

FOLDER_VARIABLE = "NEURALD_MATRIX"
DRIVER = "faults.managed.driver:create"
_LOOK_S = 0.002
#: The longest time for which a call waits.
_MAX_HOLD_S = 8.0
_PIECE_BYTES = 64 << 20
_MEMORY_HELD_S = 0.3


def _word(name: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        return (_folder() / name).read_text()
    return ""


def _folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE])


def _lies(phase: str) -> bool:
    """Waits if the phase is armed; returns whether the answer must be wrong."""
    armed, _, manner = _word("armed").partition(" ")
    if armed != phase:
        return False
    (_folder() / "entered").write_text(str(os.getpid()))
    if manner == "lie":
        return True
    end = time.monotonic() + _MAX_HOLD_S
    while _word("armed") and time.monotonic() < end:
        time.sleep(_LOOK_S)
    return False


def _poison() -> None:
    (_folder() / "swallowed").write_text(str(os.getpid()))
    end = time.monotonic() + _MAX_HOLD_S
    while not (word := _word("strike")) and time.monotonic() < end:
        time.sleep(_LOOK_S)
    if word == "abort":
        os.abort()
    pieces = []
    if word == "memory":
        try:
            while True:
                pieces.append(mmap.mmap(-1, _PIECE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        except OSError:
            time.sleep(_MEMORY_HELD_S)
            raise MemoryError from None
    while word == "endless":
        time.sleep(_LOOK_S)


class MatrixDevice(SampleDevice):
    """See the module."""

    executions_at_once = 8

    def __init__(self) -> None:
        super().__init__(
            "matrix",
            performance=0.1,
            supports=lambda kind: kind in (OperationType.ADD, OperationType.MUL),
        )
        self.version = _word("version") or "1"

    def capabilities(self) -> Capabilities:
        found = super().capabilities()
        if _lies("connect"):
            wrong = Performance(exec_time=math.nan, power_usage=-1.0)
            return replace(found, if_performance=wrong, relaxed_float32_tensor=wrong)
        return found

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        if _lies("query"):
            return ()
        return super().supported_operations(model)

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if _lies("prepare"):
            return None  # type: ignore[return-value]
        prepared = super().prepare_model(model, options)
        self.prepared.clear()
        return _controlled(prepared, model)

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if _lies("load"):
            return None  # type: ignore[return-value]
        model = read_artifact(artifact, self.declared_extensions)
        return _controlled(super().prepare_model_from_cache(artifact, options), model)


def _controlled(prepared: PreparedModel, model: Model) -> PreparedModel:
    is_poison = any(each.type is OperationType.MUL for each in model.main.operations)

    def execute(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
        if is_poison:
            _poison()
        elif _lies("execute"):
            shapes = (OutputShape(dimensions=(1 << 20, 1 << 10)),) * len(request.outputs)
            return ExecutionResult(output_shapes=shapes)
        return right.execute(request, options)

    return FaultyPrepared(prepared, execute)


def create() -> MatrixDevice:
    """Creates the device, unless it is to fail."""
    if (word := _word("start")) == "fail":
        raise RuntimeError("the new version does not start")
    while word == "hang":
        time.sleep(_LOOK_S)
    return MatrixDevice()
