import numpy as np
import pytest
from support.devices.lying import LyingDevice
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.hal.model.operation_type import OperationType
from neurald.service.benchmark.model_check import ModelCheck, check_rows

KIND = nd.OperandType.TENSOR_FLOAT32
INPUTS = [[np.full((1, 4), value, np.float32)] for value in (0.5, 2.0)]


def model_of(kind: OperationType) -> nd.Model:
    builder = nd.ModelBuilder()
    given, found = (builder.add_operand(KIND, (1, 4)) for _ in range(2))
    builder.add_operation(kind, [given], [found])
    builder.identify_inputs_and_outputs([given], [found])
    return builder.finish()


@pytest.fixture
def check() -> ModelCheck:
    return ModelCheck(model_of(OperationType.TANH), ["out"], nd.open_device("reference"), INPUTS)


def test_right_and_wrong_results(check: ModelCheck) -> None:
    found = check.check(nd.open_device("cpu"), threads=1)
    assert (found["result"], found["operations"], found["runs"], found["reason"]) == ("right", 1, 2, "")
    found = check.check(LyingDevice(kind=OperationType.TANH), None)
    assert found["result"] == "wrong"
    assert found["reason"].startswith("output 0: ")
    assert found["outputs"][0]["max_abs"] > 0
    assert check_rows([found], 1)[0][:3] == ("lying", "1 of 1", "1")


def test_a_device_that_runs_nothing(check: ModelCheck) -> None:
    found = check.check(SampleDevice("nothing", supports=lambda operation: False), None)
    assert (found["result"], found["operations"]) == ("not run", 0)


def test_a_device_that_runs_a_part_is_checked_beside_the_cpu() -> None:
    builder = nd.ModelBuilder()
    given, between, last = (builder.add_operand(KIND, (1, 4)) for _ in range(3))
    builder.add_operation(OperationType.TANH, [given], [between])
    builder.add_operation(OperationType.LOGISTIC, [between], [last])
    builder.identify_inputs_and_outputs([given], [last])
    check = ModelCheck(builder.finish(), ["out"], nd.open_device("reference"), INPUTS)
    device = SampleDevice("half", performance=99.0, supports=lambda kind: kind is OperationType.TANH)
    found = check.check(device, None)
    assert (found["result"], found["operations"], found["runs"]) == ("right", 1, 2)


def test_random_numbers_are_refused() -> None:
    builder = nd.ModelBuilder()
    logits = builder.add_operand(KIND, (1, 4))
    count = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(count, 3)
    seeds = builder.add_operand(nd.OperandType.TENSOR_INT32, (2,))
    builder.set_operand_value(seeds, np.array([1, 2], np.int32))
    found = builder.add_operand(nd.OperandType.TENSOR_INT32, (1, 3))
    builder.add_operation(OperationType.RANDOM_MULTINOMIAL, [logits, count, seeds], [found])
    builder.identify_inputs_and_outputs([logits], [found])
    with pytest.raises(nd.Error, match="random numbers"):
        ModelCheck(builder.finish(), ["out"], nd.open_device("reference"), INPUTS)
