import time
from itertools import pairwise

import numpy as np
import pytest
from support.devices.lying import LyingDevice
from support.devices.misbehaving import SampleDevice
from support.models.chains import chain, ramp

import neurald as nd
from neurald.hal.device import Device, ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.execution.verification.captured_run import CapturedRun
from neurald.runtime.execution.verification.investigation import Investigation, WrongOperations

KINDS = ["ADD", "TANH", "ADD", "LOGISTIC", "SUB", "MUL", "ADD", "TANH", "SUB"]


def prepare(device: Device, model: Model) -> PreparedModel:
    return device.prepare_model(model, PrepareOptions())


def search(model: Model, device: Device, cancellation: Cancellation | None = None) -> WrongOperations:
    run = CapturedRun.on_arrays(model, [ramp()])
    cpu = nd.devices()[0]
    return Investigation(run, "given", device, cpu, prepare, cancellation or Cancellation()).search()


@pytest.mark.parametrize("kind", ["ADD", "TANH", "LOGISTIC", "SUB", "MUL"])
def test_the_first_wrong_operation_is_found(kind: str) -> None:
    found = search(chain(KINDS * 3), LyingDevice(kind=OperationType[kind], bit=30))
    position = KINDS.index(kind)
    assert found.operations == range(position, position + 1)
    assert found.is_certain
    assert found.pattern.text.startswith(kind)
    assert f"operation {position} {kind}, found among 27 operations in" in found.narrowing
    assert "differ" in found.difference


def test_operations_that_are_wrong_together_are_found_together() -> None:
    class FusingDevice(SampleDevice):
        """TANH after ADD is one kernel, which is wrong; both are right alone."""

        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
            kinds = [each.type.name for each in model.main.operations]
            pairs = list(pairwise(kinds))
            kind = OperationType.TANH if ("ADD", "TANH") in pairs else None
            return LyingDevice("fusing", kind, bit=30).prepare_model(model, options)

    found = search(chain(KINDS[2:]), FusingDevice("fusing"))
    assert found.operations == range(4, 6)
    assert "operation 4 ADD, operation 5 TANH" in found.narrowing


def test_a_fault_that_does_not_occur_again_is_one_of_the_whole_step() -> None:
    model = chain(KINDS)
    found = search(model, SampleDevice("right"))
    assert len(found.operations) == len(KINDS)
    assert found.narrowing == "not narrowed: the same inputs gave right results afterwards"
    assert found.difference == "given"


def test_parts_that_the_device_cannot_run_alone_are_not_wrong() -> None:
    class WholeDevice(LyingDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
            if len(model.main.operations) < 5:
                raise OpFailed("too small")
            return super().prepare_model(model, options)

    found = search(chain(KINDS), WholeDevice(kind=OperationType.MUL, bit=30))
    assert found.operations == range(1, 6)


def test_a_search_ends_when_it_is_cancelled() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    begun = time.monotonic()
    found = search(chain(KINDS * 3), LyingDevice(bit=30), cancellation)
    assert time.monotonic() - begun < 20
    assert len(found.operations) > 1


def test_inputs_are_kept_as_they_were() -> None:
    model = chain(["ADD"])
    array = ramp()
    run = CapturedRun.on_arrays(model, [array])
    (found,) = run.input_arrays()
    assert found is not None
    np.testing.assert_array_equal(found, ramp())
    cpu = prepare(nd.devices()[0], model)
    result, memories = run.execute(cpu, ExecuteOptions())
    (output,) = run.output_arrays(result, memories)
    np.testing.assert_allclose(output, array + np.linspace(0.5, 1.5, 64, dtype=np.float32), rtol=1e-6)
