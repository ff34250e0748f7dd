"""Devices that fail, wait or return wrong results on demand."""

import threading
from collections.abc import Callable, Mapping

from support.devices.fakes import FakePreparedModel

from neurald.drivers.sample import device as drivers_sample
from neurald.drivers.sample.config import SampleConfig
from neurald.hal.device import (
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    Performance,
    PreparedModel,
    PrepareOptions,
)
from neurald.hal.errors import DeadObject, Error
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request
from neurald.hal.model.types import OperandType


class SampleDevice(drivers_sample.SampleDevice):
    """The sample driver with configurable name, capabilities and operations.

    Records the models that it prepares.
    """

    def __init__(
        self,
        name: str = "sample",
        *,
        performance: Mapping[OperandType, Performance] | float = 1.0,
        power: float = 1.0,
        supports: Callable[[OperationType], bool] = lambda _: True,
    ) -> None:
        if isinstance(performance, float):
            performance = dict.fromkeys(OperandType, Performance(exec_time=performance, power_usage=power))
        default = Performance(exec_time=1.0, power_usage=1.0)
        capabilities = Capabilities(
            operand_performance=performance,
            relaxed_float32_scalar=default,
            relaxed_float32_tensor=Performance(exec_time=0.25, power_usage=0.25),
            if_performance=default,
            while_performance=default,
        )

        def unsupported_reason(operation: Operation, graph: Subgraph) -> str:
            return "" if supports(operation.type) else "not on this device"

        super().__init__(
            SampleConfig(name=name, capabilities=capabilities, unsupported_reason=unsupported_reason)
        )
        self.prepared: list[Model] = []

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        self.prepared.append(model)
        return self.wrap(super().prepare_model(model, options))

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        return prepared


class AnsweringDevice(SampleDevice):
    """Its prepared models return the result of `answer` for a request."""

    def __init__(self, answer: Callable[[Request], ExecutionResult]) -> None:
        super().__init__("answering")
        self._answer = answer

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        answer = self._answer

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                return answer(request)

        return Prepared()


class PausedDevice(SampleDevice):
    """Its executions wait until `proceed` is set."""

    def __init__(self) -> None:
        super().__init__("paused")
        self.started = threading.Event()
        self.proceed = threading.Event()

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.started.set()
                assert device.proceed.wait(30)
                return prepared.execute(request, options)

        return Prepared()


class FailingDevice(SampleDevice):
    """A fast device whose executions raise `error`, unless it is None.

    Preparing a model raises a DeadObject as well.
    """

    def __init__(self, name: str = "failing", error: Error | None = None) -> None:
        super().__init__(name, performance=0.5)
        self.error = error
        self.executions = 0

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if isinstance(self.error, DeadObject):
            raise DeadObject(f"{self.name} is gone")
        return super().prepare_model(model, options)

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.executions += 1
                if device.error is not None:
                    raise device.error
                return prepared.execute(request, options)

        return Prepared()
