"""Devices that misbehave, or wait, on command."""

import threading
from collections.abc import Callable, Mapping, Sequence

from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.device import (
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    Performance,
    PreparedModel,
    PrepareOptions,
    Verdict,
)
from neurald.hal.operation_type import OperationType
from neurald.hal.types import DeviceType, Model, OperandType, Request


class SampleDevice(CpuDevice):
    """The CPU device with another name, capabilities and choice of operations."""

    type = DeviceType.ACCELERATOR

    def __init__(
        self,
        name: str = "sample",
        *,
        performance: Mapping[OperandType, Performance] | float = 1.0,
        power: float = 1.0,
        supports: Callable[[OperationType], bool] = lambda _: True,
    ) -> None:
        self.name = name
        if isinstance(performance, float):
            performance = dict.fromkeys(OperandType, Performance(exec_time=performance, power_usage=power))
        self._performance = performance
        self._supports = supports
        self.prepared: list[Model] = []

    def capabilities(self) -> Capabilities:
        default = Performance(exec_time=1.0, power_usage=1.0)
        return Capabilities(
            operand_performance=self._performance,
            relaxed_float32_scalar=default,
            relaxed_float32_tensor=Performance(exec_time=0.25, power_usage=0.25),
            if_performance=default,
            while_performance=default,
        )

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        return tuple(
            Verdict(ok=True) if self._supports(o.type) else Verdict(ok=False, reason="not on this device")
            for o in model.main.operations
        )

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        self.prepared.append(model)
        return self.wrap(super().prepare_model(model, options))

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        return prepared


class AnsweringDevice(SampleDevice):
    """Its prepared models answer whatever `answer` makes of the request."""

    def __init__(self, answer: Callable[[Request], ExecutionResult]) -> None:
        super().__init__("answering")
        self._answer = answer

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        answer = self._answer

        class Prepared:
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

        class Prepared:
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.started.set()
                assert device.proceed.wait(30)
                return prepared.execute(request, options)

        return Prepared()
