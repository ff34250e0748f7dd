"""Drivers for one operation each, which count their executions where a kill does not lose them.

`$NEURALD_PLANS` is a folder. The file `slow-DEVICE` in it makes a device take ten times as long.
"""

import mmap
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from support.devices.simulated import SimulatedDevice

from neurald.hal.device import ExecutionResult
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request

FOLDER_VARIABLE = "NEURALD_PLANS"
KINDS = (OperationType.TANH, OperationType.LOGISTIC)
_SECONDS = 1e-3
_SLOWNESS = 10.0
#: Executions begun and ended.
_COUNTS = struct.Struct("2q")


def driver_of(kind: OperationType) -> str:
    """Returns the factory of the device for a type of operations."""
    return f"faults.plans.driver:create_{kind.name.lower()}"


def counts_of(folder: Path, device: str, rows: int) -> tuple[int, int]:
    """Returns how many executions a device has begun and ended so far, in all of its processes.

    Args:
        folder: see the module.
        device: its name.
        rows: of the inputs, by which executions are told apart.
    """
    file = folder / f"counts-{device}-{rows}"
    begun, ended = _COUNTS.unpack(file.read_bytes()) if file.exists() else (0, 0)
    return begun, ended


class CountingDevice(SimulatedDevice):
    """Counts executions before and after they compute."""

    def __init__(self, kind: OperationType) -> None:
        super().__init__(kind.name.lower(), default_s=_SECONDS, supports=(kind,).__contains__)
        self._folder = Path(os.environ[FOLDER_VARIABLE])
        self._lock = threading.Lock()
        self._counts: dict[int, mmap.mmap] = {}

    def run(self, model: Model, request: Request, compute: Callable[[], ExecutionResult]) -> ExecutionResult:
        (rows, *_) = model.main.operands[model.main.inputs[0]].dimensions or (0,)
        self.slowness = _SLOWNESS if (self._folder / f"slow-{self.name}").exists() else 1.0
        self._count(rows, 1, 0)
        result = super().run(model, request, compute)
        self._count(rows, 0, 1)
        return result

    def _count(self, rows: int, begun: int, ended: int) -> None:
        with self._lock:
            counts = self._counts.get(rows)
            if counts is None:
                counts = self._counts[rows] = self._mapped(rows)
            before = _COUNTS.unpack_from(counts)
            _COUNTS.pack_into(counts, 0, before[0] + begun, before[1] + ended)

    def _mapped(self, rows: int) -> mmap.mmap:
        with (self._folder / f"counts-{self.name}-{rows}").open("a+b") as file:
            file.truncate(_COUNTS.size)
            return mmap.mmap(file.fileno(), _COUNTS.size)


def create_tanh() -> CountingDevice:
    """Creates the device for TANH."""
    return CountingDevice(OperationType.TANH)


def create_logistic() -> CountingDevice:
    """Creates the device for LOGISTIC."""
    return CountingDevice(OperationType.LOGISTIC)
