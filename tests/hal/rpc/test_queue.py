"""Queue times of executions in a daemon, for calls, fenced executions and bursts."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice
from support.models.small import add_model, bound_execution

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.model.request import Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer

RUN_S = 0.2


class OneAtATime(SampleDevice):
    """A device that runs one execution at a time, each for this long."""

    executions_at_once = 1

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                time.sleep(RUN_S)
                return prepared.execute(request, options)

        return Prepared()


def call(compilation: nd.Compilation, execution: nd.Execution) -> None:
    execution.compute()


def fenced(compilation: nd.Compilation, execution: nd.Execution) -> None:
    execution.start_compute_with_dependencies().wait()


def burst(compilation: nd.Compilation, execution: nd.Execution) -> None:
    with compilation.create_burst() as created:
        execution.compute(burst=created)


@pytest.mark.timed
@pytest.mark.parametrize("way", [call, fenced, burst])
def test_waiting_is_told_apart(tmp_path: Path, way: Callable[[nd.Compilation, nd.Execution], None]) -> None:
    server = DeviceServer(OneAtATime("slow"), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    try:
        device = connect(str(server.address))
        compilation = nd.CompilationBuilder(add_model(), [device]).finish()
        executions = [bound_execution(compilation)[0] for _ in range(3)]
        for execution in executions:
            execution.set_measure_timing()
        threads = [threading.Thread(target=way, args=(compilation, each)) for each in executions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        waited = sorted(each.step_durations()[0].queue_ns or 0 for each in executions)
        assert waited[0] < RUN_S * 0.5e9
        assert waited[1] > RUN_S * 0.5e9
        assert waited[2] > RUN_S * 1.4e9
        device.close()
    finally:
        server.stop()
