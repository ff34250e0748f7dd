"""Supported operations and capabilities of the sample devices."""

import pytest
from support.daemon.processes import running_daemon
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.sample.device import create_all, create_float_fast, create_minimal, create_quant
from neurald.hal import registry
from neurald.hal.device import BufferDescription, BufferRole, Performance, PrepareOptions
from neurald.hal.errors import BadData, MissedDeadlinePersistent, OpFailed
from neurald.hal.model.types import OperandType

FLOAT, QUANT = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM
SIGNED, BOOL = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_BOOL8
NAMES = [name for name in registry.BUILT_IN if name.startswith("sample-")]


def binary(
    kind: nd.OperandType, operation: nd.OperationType = nd.OperationType.ADD, *, is_open: bool = False
) -> nd.Model:
    builder = nd.ModelBuilder()
    scale = 0.5 if kind in (QUANT, SIGNED) else 0.0
    shape = (0, 2) if is_open else (2, 2)
    first, second, output = (builder.add_operand(kind, shape, scale=scale) for _ in range(3))
    inputs = [first, second]
    if operation is nd.OperationType.ADD:
        activation = builder.add_operand(nd.OperandType.INT32)
        builder.set_operand_value(activation, 0)
        inputs.append(activation)
    builder.add_operation(operation, inputs, [output])
    builder.identify_inputs_and_outputs([first, second], [output])
    return builder.finish()


def select(kind: nd.OperandType) -> nd.Model:
    builder = nd.ModelBuilder()
    scale = 0.5 if kind is QUANT else 0.0
    condition = builder.add_operand(BOOL, (2,))
    first, second, output = (builder.add_operand(kind, (2,), scale=scale) for _ in range(3))
    builder.add_operation(nd.OperationType.SELECT, [condition, first, second], [output])
    builder.identify_inputs_and_outputs([condition, first, second], [output])
    return builder.finish()


def supports(name: str, model: nd.Model) -> bool:
    (verdict,) = registry.create_device(name).supported_operations(model)
    assert verdict.ok == (not verdict.reason)
    return verdict.ok


@sweep("name", NAMES)
def test_devices_are_named_like_their_drivers(name: str) -> None:
    assert registry.create_device(name).name == name


@sweep(
    ("name", "float32", "relaxed", "quant8"),
    [
        ("sample-float-fast", (0.8, 1.2), (0.7, 1.1), (1.0, 1.0)),
        ("sample-float-slow", (1.3, 0.7), (1.2, 0.6), (1.0, 1.0)),
        ("sample-quant", (50.0, 1.0), (50.0, 1.0), (50.0, 1.0)),
        ("sample-minimal", (0.4, 0.5), (0.4, 0.5), (1.0, 1.0)),
        ("sample-all", (1.1, 1.1), (1.1, 1.1), (1.1, 1.1)),
    ],
)
def test_capabilities(
    name: str, float32: tuple[float, float], relaxed: tuple[float, float], quant8: tuple[float, float]
) -> None:
    capabilities = registry.create_device(name).capabilities()
    found = (
        capabilities.operand_performance[FLOAT],
        capabilities.relaxed_float32_tensor,
        capabilities.operand_performance[QUANT],
    )
    expected = (float32, relaxed, quant8)
    assert found == tuple(Performance(exec_time=time, power_usage=power) for time, power in expected)
    assert capabilities.operand_performance.keys() == set(OperandType)


def test_which_devices_support_an_operation() -> None:
    of_floats = {"sample-float-fast", "sample-float-slow"}
    for model, supporting in (
        (binary(FLOAT), of_floats | {"sample-minimal"}),
        (binary(FLOAT, nd.OperationType.MAXIMUM), of_floats),
        (binary(QUANT), {"sample-quant"}),
        (binary(SIGNED), {"sample-quant"}),
        (binary(OperandType.TENSOR_FLOAT16), set()),
        (select(FLOAT), of_floats),
        (select(QUANT), {"sample-quant"}),
    ):
        assert {name for name in NAMES if supports(name, model)} == supporting | {"sample-all"}


def test_every_tensor_must_have_a_supported_type() -> None:
    builder = nd.ModelBuilder()
    source, result = builder.add_operand(QUANT, (2,), scale=0.5), builder.add_operand(FLOAT, (2,))
    builder.add_operation(nd.OperationType.DEQUANTIZE, [source], [result])
    builder.identify_inputs_and_outputs([source], [result])
    model = builder.finish()
    assert {name for name in NAMES if supports(name, model)} == {"sample-all"}
    (verdict,) = create_quant().supported_operations(model)
    assert verdict.reason == "DEQUANTIZE with TENSOR_FLOAT32; expected 8-bit asymmetric tensors"


def test_control_flow_is_supported_if_its_graphs_are() -> None:
    builder = nd.ModelBuilder()
    condition = builder.add_operand(BOOL, (1,))
    branches = [builder.add_operand(nd.OperandType.MODEL) for _ in range(2)]
    first, second, output = (builder.add_operand(FLOAT, (2, 2)) for _ in range(3))
    for branch in branches:
        builder.set_operand_value_from_model(branch, binary(FLOAT, nd.OperationType.MAXIMUM))
    builder.add_operation(nd.OperationType.IF, [condition, *branches, first, second], [output])
    builder.identify_inputs_and_outputs([condition, first, second], [output])
    model = builder.finish()
    assert supports("sample-all", model)
    assert not supports("sample-float-fast", model)


def test_unsupported_models_are_not_prepared() -> None:
    with pytest.raises(BadData, match="sample-quant: ADD of TENSOR_FLOAT32; expected 8-bit"):
        create_quant().prepare_model(binary(FLOAT), PrepareOptions())
    with pytest.raises(BadData, match="sample-minimal: MAXIMUM is not one of ADD, CONCATENATION, CONV_2D"):
        create_minimal().prepare_model(binary(FLOAT, nd.OperationType.MAXIMUM), PrepareOptions())


def test_a_deadline_in_the_past() -> None:
    with pytest.raises(MissedDeadlinePersistent):
        create_all().prepare_model(binary(FLOAT), PrepareOptions(deadline_s=0.0))


def test_memory_for_roles() -> None:
    device = create_all()
    prepared = device.prepare_model(binary(FLOAT), PrepareOptions())
    other = device.prepare_model(binary(QUANT), PrepareOptions())
    is_open = device.prepare_model(binary(FLOAT, is_open=True), PrepareOptions())
    output, source = (
        BufferRole(prepared_model=prepared, index=0),
        BufferRole(prepared_model=prepared, index=1),
    )

    def described(
        *roles: BufferRole, outputs: tuple[BufferRole, ...] = (), shape: tuple[int, ...] | None = None
    ) -> BufferDescription:
        return BufferDescription(dimensions=shape, input_roles=roles, output_roles=outputs)

    assert device.allocate(described(source, outputs=(output,))).size == 16
    opened = BufferRole(prepared_model=is_open, index=0)
    assert device.allocate(described(opened, shape=(3, 2))).size == 24
    with pytest.raises(OpFailed, match="unknown size"):
        device.allocate(described(opened))
    for wrong in (
        described(),
        described(source, BufferRole(prepared_model=other, index=0)),
        described(BufferRole(prepared_model=prepared, index=2)),
        described(source, shape=(3, 2)),
    ):
        with pytest.raises(BadData):
            device.allocate(wrong)
    with pytest.raises(
        BadData, match="sample-float-fast: a role refers to a model that this device did not prepare"
    ):
        create_float_fast().allocate(described(source))


def test_a_daemon_serves_the_device() -> None:
    with running_daemon(driver="sample-float-fast") as address:
        device = nd.connect(address)
        assert device.name.startswith("sample-float-fast@")
        assert [verdict.ok for verdict in device.supported_operations(binary(FLOAT))] == [True]
        assert [verdict.ok for verdict in device.supported_operations(binary(QUANT))] == [False]
