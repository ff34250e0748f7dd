"""Steps on other hosts: the time of transfers is weighed against the time that is saved."""

import pytest
from msgspec.structs import replace
from support.models.small import add_model

import neurald as nd
from neurald.hal.device import Capabilities, Link, Performance, Verdict
from neurald.runtime.partitioning import links
from neurald.runtime.partitioning.options import Partitioning
from neurald.runtime.partitioning.partitioner import partition
from neurald.runtime.partitioning.placement import Candidate

FAST_LINK = Link(latency_s=1e-9, bytes_per_s=1e15)


def capabilities(exec_time: float) -> Capabilities:
    performance = Performance(exec_time=exec_time, power_usage=1.0)
    return Capabilities(
        operand_performance=dict.fromkeys(nd.OperandType, performance),
        relaxed_float32_scalar=performance,
        relaxed_float32_tensor=performance,
        if_performance=performance,
        while_performance=performance,
    )


def candidates(model: nd.Model, link: Link | None, exec_time: float = 0.1) -> tuple[Candidate, ...]:
    verdicts = {0: (Verdict(ok=True),) * len(model.main.operations)}
    return (
        Candidate(name="cpu", verdicts=verdicts, capabilities=capabilities(1.0), is_cpu=True),
        Candidate(name="gpu@host", verdicts=verdicts, capabilities=capabilities(exec_time), link=link),
    )


def placed(model: nd.Model, link: Link | None, exec_time: float = 0.1) -> tuple[int, str]:
    result = partition(
        model, candidates(model, link, exec_time), nd.Preference.FAST_SINGLE_ANSWER, Partitioning()
    )
    (placement,) = {each.device for each in result.placements[0]}
    return placement, result.reasons[0]


def convolution(size: int, depth: int) -> nd.Model:
    builder = nd.ModelBuilder()
    tensor = nd.OperandType.TENSOR_FLOAT32
    image = builder.add_operand(tensor, (1, size, size, depth))
    filters = builder.add_operand(tensor, (depth, 3, 3, depth))
    bias = builder.add_operand(tensor, (depth,))
    output = builder.add_operand(tensor, (1, size, size, depth))
    import numpy as np

    builder.set_operand_value(filters, np.zeros((depth, 3, 3, depth), np.float32))
    builder.set_operand_value(bias, np.zeros(depth, np.float32))
    scalars = []
    for value in (1, 1, 1, 0):
        scalars.append(builder.add_operand(nd.OperandType.INT32))
        builder.set_operand_value(scalars[-1], value)
    builder.add_operation(nd.OperationType.CONV_2D, [image, filters, bias, *scalars], [output])
    builder.identify_inputs_and_outputs([image], [output])
    return builder.finish()


@pytest.fixture(autouse=True)
def speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "multiplications_per_s", lambda: 1e9)


def test_transfers_that_take_longer_than_they_save() -> None:
    model = add_model((64, 64))  # 48 KiB, which take 0.2 ms here
    assert placed(model, None)[0] == 1
    assert placed(model, FAST_LINK)[0] == 1
    for slow in (replace(FAST_LINK, latency_s=1e-3), replace(FAST_LINK, bytes_per_s=1e8)):
        device, reason = placed(model, slow)
        assert device == 0
        assert "the link to gpu@host needs" in reason
        assert "would save about 0.1" in reason
    # Nothing is saved by a device that is no faster.
    assert placed(model, FAST_LINK, exec_time=1.0)[0] == 0


def test_much_work_on_little_data_is_worth_it() -> None:
    model = convolution(32, 64)  # 38 million multiplications, 512 KiB
    office = Link(latency_s=1e-3, bytes_per_s=1e8)
    assert placed(model, office)[0] == 1
    assert placed(model, replace(office, bytes_per_s=1e7))[0] == 0
    assert placed(model, replace(office, latency_s=0.1))[0] == 0


def test_open_shapes_and_missing_cpu_devices_are_left_alone() -> None:
    slow = Link(latency_s=10.0, bytes_per_s=1.0)
    model = add_model((64, 64))
    (_, remote) = candidates(model, slow)
    result = partition(model, [remote], nd.Preference.FAST_SINGLE_ANSWER, Partitioning())
    assert result.placements[0][0].device == 0
    builder = nd.ModelBuilder()
    tensor = nd.OperandType.TENSOR_FLOAT32
    first, second, output = (builder.add_operand(tensor, (0, 3)) for _ in range(3))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.ADD, [first, second, activation], [output])
    builder.identify_inputs_and_outputs([first, second], [output])
    assert placed(builder.finish(), slow)[0] == 1


def test_the_speed_of_this_host_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert links.multiplications_per_s() > 1e7
    assert links.multiplications_per_s() == links.multiplications_per_s()
