"""Devices with a settable speed: what they compute is right, and how long it takes is simulated."""

import os
import random
import threading
import time
from collections.abc import Callable, Mapping

from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel, PrepareOptions, Timing
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request
from neurald.hal.records import replace


class SimulatedDevice(SampleDevice):
    """A device that runs one execution at a time, and sleeps for as long as it would compute.

    Attributes:
        seconds: by type of operation, of one operation; the others take `default_s`.
        launch_s: of an execution.
        bytes_per_s: how fast inputs and outputs move.
        slowness: a factor of everything, for a device that throttles.
        jitter: the share by which a time varies at random.
        executions: how many there were.
        is_busy: whether one runs.
    """

    def __init__(
        self,
        name: str,
        *,
        seconds: Mapping[OperationType, float] | None = None,
        default_s: float = 0.0,
        launch_s: float = 0.0,
        bytes_per_s: float = float("inf"),
        jitter: float = 0.0,
        performance: float = 0.5,
        power: float = 1.0,
        supports: Callable[[OperationType], bool] = lambda _: True,
    ) -> None:
        super().__init__(name, performance=performance, power=power, supports=supports)
        self.seconds = dict(seconds or {})
        self.default_s = default_s
        self.launch_s = launch_s
        self.bytes_per_s = bytes_per_s
        self.jitter = jitter
        self.slowness = 1.0
        self.executions = 0
        self.is_busy = False
        self._turn = threading.Lock()
        self._random = random.Random(1)

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        return SimulatedModel(self, model, super().prepare_model(model, options))

    def duration_s(self, model: Model, request: Request) -> float:
        moved = sum(argument.length for argument in (*request.inputs, *request.outputs))
        computing = sum(self.seconds.get(each.type, self.default_s) for each in model.main.operations)
        exact = self.launch_s + moved / self.bytes_per_s + computing
        return exact * self.slowness * (1 + self._random.uniform(-self.jitter, self.jitter))

    def run(self, model: Model, request: Request, compute: Callable[[], ExecutionResult]) -> ExecutionResult:
        with self._turn:
            self.is_busy = True
            end_s = time.perf_counter() + self.duration_s(model, request)
            result = compute()
            self.executions += 1
            left_s = end_s - time.perf_counter()
            if left_s > 0:
                time.sleep(left_s)
            self.is_busy = False
        return result


class SimulatedModel(FakePreparedModel):
    def __init__(self, device: SimulatedDevice, model: Model, right: PreparedModel) -> None:
        self._device = device
        self._model = model
        self._right = right

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        result = self._device.run(self._model, request, lambda: self._right.execute(request, options))
        # The real device's own times would say nothing about the simulated one.
        return replace(result, timing=Timing())


#: Seconds of the operation of the devices below; daemons are given it.
SECONDS_VARIABLE = "SIMULATED_SECONDS"


def _one(kind: OperationType) -> SimulatedDevice:
    seconds = float(os.environ.get(SECONDS_VARIABLE, "0"))
    return SimulatedDevice(kind.name.lower(), default_s=seconds, supports=(kind,).__contains__)


def create_tanh() -> SimulatedDevice:
    """Creates a device for TANH; `support.devices.simulated:create_tanh` as a driver."""
    return _one(OperationType.TANH)


def create_logistic() -> SimulatedDevice:
    """Creates a device for LOGISTIC."""
    return _one(OperationType.LOGISTIC)
