"""The runtime's time for a step is measured on any device that runs some operation."""

import pytest
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.drivers.sample.prepared_model import SamplePreparedModel
from neurald.hal.device import PrepareOptions
from neurald.hal.model.model import Model
from neurald.runtime.costs.table import Average, CostTable
from neurald.runtime.execution.step_calibration import with_step

Op = nd.OperationType
#: Tens of thousands of times as long as a step takes, also on a busy machine.
EARLIER_S = 1.0
EARLIER = CostTable(step=Average(seconds=EARLIER_S))


@pytest.mark.parametrize("kind", [Op.ADD, Op.RELU, Op.LOGISTIC, Op.MUL, Op.CONV_2D])
def test_one_operation_is_enough(kind: nd.OperationType) -> None:
    device = SampleDevice("one", supports=(kind,).__contains__)
    table = with_step(CostTable(launch=Average(seconds=2.0)), device, EARLIER)
    assert table.launch == Average(seconds=2.0)
    assert table.step is not None
    assert 1e-6 < table.step.seconds < EARLIER_S / 10
    assert table.step.measurements > 1


def test_a_device_that_runs_none_keeps_what_was_known() -> None:
    assert (
        with_step(CostTable(), SampleDevice("none", supports=lambda _: False), EARLIER).step == EARLIER.step
    )

    class Claiming(SampleDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> SamplePreparedModel:
            raise RuntimeError("broken")

    assert with_step(CostTable(), Claiming("claiming"), EARLIER).step == EARLIER.step


def test_the_cpu_device_is_measured_too() -> None:
    table = with_step(CostTable(), nd.devices()[0], EARLIER)
    assert table.step is not None
    assert table.step.seconds < EARLIER_S / 10
