"""Sample devices that record the requests of their models."""

from collections.abc import Callable, Sequence

from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.model.request import Request


class RecordingDevice(SampleDevice):
    """Records the requests of its models, and lets `answer` change their results."""

    def __init__(
        self,
        name: str,
        types: Sequence[nd.OperationType],
        answer: Callable[[Request, ExecutionResult], ExecutionResult] = lambda _, result: result,
    ) -> None:
        super().__init__(name, performance=0.5, supports=lambda kind: kind in types)
        self.requests: list[Request] = []
        self._answer = answer

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.requests.append(request)
                return device._answer(request, prepared.execute(request, options))

        return Prepared()


class RemoteRecordingDevice(RecordingDevice):
    """A device that reports to be remote."""

    is_remote = True
