"""Drivers of plans, which count their executions where a kill does not lose them.

Two have one operation each, one has all operations, and two keep values in memory of their own.
`$NEURALD_PLANS` is a folder. The file `slow-DEVICE` in it makes a device take ten times as long,
and while there is the file `hang-DEVICE`, no execution ends. Executions of `LIED_ROWS` rows or
more, except the first ones of a process, return one flipped bit."""

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from support.devices.buffers import KeepingDevice
from support.devices.simulated import SimulatedDevice

from neurald.hal.device import ExecutionResult
from neurald.hal.lazy_numpy import np
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request

FOLDER_VARIABLE = "NEURALD_PLANS"
KINDS = (OperationType.TANH, OperationType.LOGISTIC)
#: The functions that create devices, by their names.
DRIVERS = {
    name: f"faults.plans.driver:create_{name}" for name in ("tanh", "logistic", "whole", "here", "there")
}
#: From this many rows of inputs on, results are wrong.
LIED_ROWS = 11
#: This many executions of a process are right at first, since the first one is always verified.
_RIGHT_AT_FIRST = 20
#: A bit of the exponent, so that the value is far from the right one.
_LIED_BIT = 24
_SECONDS = 1e-3
#: The longest time for which an execution hangs, if nobody ends it.
_MAX_HANG_S = 10.0
_LOOK_S = 1e-3
_SLOWNESS = 10.0
#: Executions begun and ended.
_COUNTS = struct.Struct("2q")


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

    def __init__(
        self, name: str, supports: Callable[[OperationType], bool], performance: float = 0.5
    ) -> None:
        super().__init__(name, default_s=_SECONDS, performance=performance, supports=supports)
        self._folder = Path(os.environ[FOLDER_VARIABLE])
        self._to_be_right = _RIGHT_AT_FIRST
        self._lock = threading.Lock()
        self._counts: dict[int, mmap.mmap] = {}

    def run(self, model: Model, request: Request, compute: Callable[[], ExecutionResult]) -> ExecutionResult:
        (rows, *_) = model.main.operands[model.main.inputs[0]].dimensions or (0,)
        self.slowness = _SLOWNESS if (self._folder / f"slow-{self.name}").exists() else 1.0
        self._count(rows, 1, 0)
        hang, end_s = self._folder / f"hang-{self.name}", time.monotonic() + _MAX_HANG_S
        while hang.exists() and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
        result = super().run(model, request, compute)
        if rows >= LIED_ROWS:
            self._to_be_right -= 1
            if self._to_be_right < 0:
                _flip(request)
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


def _flip(request: Request) -> None:
    (output, *_) = request.outputs
    view = request.pools[output.pool or 0].view(output.offset, output.length)
    np.frombuffer(view, np.uint32)[0] ^= np.uint32(1 << _LIED_BIT)


def create_tanh() -> CountingDevice:
    """Creates the device for TANH."""
    return CountingDevice("tanh", (OperationType.TANH,).__contains__)


def create_logistic() -> CountingDevice:
    """Creates the device for LOGISTIC."""
    return CountingDevice("logistic", (OperationType.LOGISTIC,).__contains__)


def create_whole() -> CountingDevice:
    """Creates the device for all operations, which Android's rule uses for none."""
    return CountingDevice("whole", lambda _: True, performance=2.0)


def create_here() -> KeepingDevice:
    """Creates a device for MUL with memory of its own."""
    return KeepingDevice("here", (OperationType.MUL,).__contains__)


def create_there() -> KeepingDevice:
    """Creates another one."""
    return KeepingDevice("there", (OperationType.MUL,).__contains__)
