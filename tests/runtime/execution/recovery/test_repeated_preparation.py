"""Steps are prepared again once, and executions wait for that only as long as they may."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.devices.misbehaving import FailingDevice
from support.models.small import add_model, bound_execution

import neurald as nd
from neurald.hal.device import ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.errors import Cancelled, DeadObject, MissedDeadlineTransient
from neurald.hal.model.model import Model
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.execution.recovery.repeated_preparation import RepeatedPreparation

#: Longer than any test takes.
_LONG_S = 60.0


class Preparing:
    """A preparation that ends when it is told to."""

    def __init__(self) -> None:
        self.may_end, self.count = threading.Event(), 0
        self.result = FailingDevice().prepare_model(add_model(), PrepareOptions())

    def __call__(self) -> PreparedModel:
        self.count += 1
        assert self.may_end.wait(_LONG_S)
        return self.result


def test_a_preparation_under_way_is_not_begun_again() -> None:
    prepare, repeated = Preparing(), RepeatedPreparation("device")
    assert len({id(repeated.begin(prepare)) for _ in range(3)}) == 1
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(repeated.wait, prepare, ExecuteOptions()) for _ in range(4)]
        prepare.may_end.set()
        assert all(each.result(_LONG_S) is prepare.result for each in waiting)


def test_limits_of_executions_end_the_wait_and_not_the_preparation() -> None:
    prepare, repeated = Preparing(), RepeatedPreparation("device")
    with pytest.raises(MissedDeadlineTransient, match="while device prepared the step again"):
        repeated.wait(prepare, ExecuteOptions(deadline_s=time.monotonic() + 0.01))
    cancellation = Cancellation()
    timer = threading.Timer(0.05, cancellation.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        repeated.wait(prepare, ExecuteOptions(cancellation=cancellation))
    timer.join()
    prepare.may_end.set()
    assert repeated.wait(prepare, ExecuteOptions(deadline_s=time.monotonic() + _LONG_S)) is prepare.result
    assert prepare.count == 1


def test_a_failed_preparation_is_tried_again() -> None:
    repeated, failures = RepeatedPreparation("device"), []

    def fail() -> PreparedModel:
        failures.append(DeadObject("gone"))
        raise failures[-1]

    for count in (1, 2):
        with pytest.raises(DeadObject, match="gone") as caught:
            repeated.wait(fail, ExecuteOptions())
        assert len(failures) == count
        assert caught.value is not failures[-1]


class SlowDevice(FailingDevice):
    """A device that prepares further models when it is told to."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.may_prepare, self.count = threading.Event(), 0

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        self.count += 1
        if self.count > 1:
            assert self.may_prepare.wait(_LONG_S)
        return super().prepare_model(model, options)


def test_an_execution_with_a_time_limit_does_not_wait_for_a_device_that_prepares_its_step_again() -> None:
    device = SlowDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    device.error = DeadObject("gone")
    execution, _ = bound_execution(compilation)
    with pytest.raises(nd.Error, match="gone"):
        execution.compute()
    device.error = None
    execution, _ = bound_execution(compilation)
    execution.set_timeout(0.05)
    with pytest.raises(nd.Error) as caught:
        execution.compute()
    assert caught.value.code is nd.ResultCode.MISSED_DEADLINE_TRANSIENT
    device.may_prepare.set()
    execution, output = bound_execution(compilation)
    execution.compute()
    assert (output == 3).all()
    assert device.count == 2
