"""Operations are bound to kernels, and computed where their inputs are constants."""

import importlib

import numpy as np
import pytest
from support.cpu.first_tier import prepared, results
from support.cpu.layers import FLOAT, INT32, LayerBuilder, values

import neurald as nd
from neurald.drivers.cpu.first_tier.binding.binder import FAMILIES, Binder
from neurald.drivers.cpu.first_tier.bound_call import BoundCall
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.errors import OpFailed
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.graph import Operation
from neurald.hal.records import replace


def test_weights_may_be_computed_from_constants() -> None:
    """Models with 16-bit weights convert them before they are read."""
    build = LayerBuilder(0)
    half = nd.OperandType.TENSOR_FLOAT16
    given = build.operand(FLOAT, (3, 8))
    stored = build.constant(half, build.rng.normal(size=(5, 8)).astype(np.float16))
    weights = build.operand(FLOAT, (5, 8))
    build.builder.add_operation(nd.OperationType.CAST, [stored], [weights])
    bias = build.constant(FLOAT, values(build.rng, FLOAT, (5,)))
    output = build.operand(FLOAT, (3, 5))
    inputs = [given, weights, bias, build.scalar(0)]
    model = build.model(nd.OperationType.FULLY_CONNECTED, inputs, output, [given])
    found = prepared(model)
    assert isinstance(found, CpuPreparedModel)
    assert [each.operations for each in found.profile()] == [(1,)]
    array = values(build.rng, FLOAT, (3, 8))
    (expected,) = results(ReferenceModel(model), model, [array])
    np.testing.assert_allclose(results(found, model, [array])[0], expected, rtol=1e-5)


def test_constant_results_are_outputs() -> None:
    build = LayerBuilder(0)
    given = build.operand(FLOAT, (3, 4))
    stored = build.constant(FLOAT, values(build.rng, FLOAT, (4, 3)))
    turned, total = build.operand(FLOAT, (3, 4)), build.operand(FLOAT, (3, 4))
    order = build.constant(INT32, np.array([1, 0], np.int32))
    build.builder.add_operation(nd.OperationType.TRANSPOSE, [stored, order], [turned])
    build.builder.add_operation(nd.OperationType.ADD, [given, turned, build.scalar(0)], [total])
    build.builder.identify_inputs_and_outputs([given], [turned, total])
    model = build.builder.finish()
    found, array = prepared(model), values(build.rng, FLOAT, (3, 4))
    assert isinstance(found, CpuPreparedModel)
    expected = results(ReferenceModel(model), model, [array])
    for one, other in zip(results(found, model, [array]), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_kernels_read_no_constants_without_elements() -> None:
    build = LayerBuilder(0)
    given, negative = build.operand(FLOAT, (4,)), build.operand(FLOAT, (4,))
    data = build.constant(FLOAT, values(build.rng, FLOAT, (3,)))
    segments = build.constant(INT32, np.array([4, 5, 6], np.int32))
    count, output = build.constant(INT32, np.array(7, np.int32)), build.operand(FLOAT, (7,))
    build.builder.add_operation(
        nd.OperationType.TFLITE_UNSORTED_SEGMENT_MAX, [data, segments, count], [output]
    )
    build.builder.add_operation(nd.OperationType.NEG, [given], [negative])
    build.builder.identify_inputs_and_outputs([given], [output, negative])
    model = build.builder.finish()
    operands = list(model.main.operands)
    for index in (data, segments):
        operands[index] = replace(operands[index], dimensions=(3, 0), value=b"")
    model = replace(model, main=replace(model.main, operands=tuple(operands)))
    array = values(build.rng, FLOAT, (4,))
    found = results(prepared(model), model, [array])
    np.testing.assert_array_equal(found[0], np.full(7, np.finfo(np.float32).min))
    np.testing.assert_array_equal(found[1], -array)


@pytest.mark.parametrize(
    ("operation", "given", "output", "number"),
    [
        (nd.OperationType.RESHAPE, (2, 3), (60, 7), (6, 1)),
        (nd.OperationType.TFLITE_RESHAPE, (2, 3), (60, 7), (6, 1)),
        (nd.OperationType.TFLITE_BROADCAST_TO, (4, 3), (400, 3), (4, 3)),
        (nd.OperationType.TFLITE_BROADCAST_TO, (2, 4, 3), (4, 3), (4, 3)),
        (nd.OperationType.TILE, (4, 3), (401, 3), (1, 1)),
    ],
)
def test_kernels_stay_inside_inputs_if_only_executions_know_shapes(
    operation: nd.OperationType, given: tuple[int, ...], output: tuple[int, ...], number: tuple[int, ...]
) -> None:
    build = LayerBuilder(0)
    source, shape = build.operand(FLOAT, given), build.operand(INT32, (2,))
    model = build.model(operation, [source, shape], build.operand(FLOAT, output), [source, shape])
    found = prepared(model)
    assert isinstance(found, ReferenceModel)
    with pytest.raises(OpFailed):
        results(found, model, [values(build.rng, FLOAT, given), np.array(number, np.int32)])


def repeating_model() -> nd.Model:
    """Builds sums and products of matrices, some of which differ in one fact only."""
    build = LayerBuilder(0)
    add, multiply = nd.OperationType.ADD, nd.OperationType.BATCH_MATMUL
    first, second = build.operand(FLOAT, (4, 5, 5)), build.operand(FLOAT, (4, 5, 5))
    none, relu = build.scalar(0), build.scalar(1)
    true, false = (build.scalar(value, nd.OperandType.BOOL) for value in (True, False))
    addends = [build.constant(FLOAT, values(build.rng, FLOAT, (5,))) for _ in range(2)]
    found = []
    for kind, inputs in (
        (add, (first, second, none)),
        (add, (second, first, none)),
        (add, (first, second, relu)),
        (add, (first, first, none)),
        (add, (first, addends[0], none)),
        (add, (second, addends[0], none)),
        (add, (second, addends[1], none)),
        (multiply, (first, second, false, true)),
        (multiply, (second, first, false, true)),
        (multiply, (second, first, false, false)),
        (multiply, (second, second, false, false)),
    ):
        output = build.operand(FLOAT, (4, 5, 5))
        build.builder.add_operation(kind, [*inputs], [output])
        found.append(output)
    build.builder.identify_inputs_and_outputs([first, second], found)
    return build.builder.finish()


def test_operations_of_a_form_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []
    bind = Binder._bind

    def counted(binder: Binder, position: int, operation: Operation) -> list[BoundCall] | None:
        bound.append(position)
        return bind(binder, position, operation)

    monkeypatch.setattr(Binder, "_bind", counted)
    model = repeating_model()
    found = prepared(model)
    assert isinstance(found, CpuPreparedModel)
    assert bound == [0, 2, 3, 4, 6, 7, 9, 10]
    rng = np.random.default_rng(2)
    arrays = [values(rng, FLOAT, (4, 5, 5)) for _ in range(2)]
    expected = results(ReferenceModel(model), model, arrays)
    for one, other in zip(results(found, model, arrays), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_messages_name_the_operands_of_their_operation() -> None:
    build = LayerBuilder(0)
    arrays = [build.operand(INT32, (3,)) for _ in range(3)]
    outputs = [build.operand(INT32, (3,)) for _ in range(2)]
    for divisor, output in zip(arrays[1:], outputs, strict=True):
        build.builder.add_operation(nd.OperationType.TFLITE_FLOOR_DIV, [arrays[0], divisor], [output])
    build.builder.identify_inputs_and_outputs(arrays, outputs)
    model = build.builder.finish()
    found = prepared(model)
    assert isinstance(found, CpuPreparedModel)
    messages = [call.messages for call in found.native.executable.calls]
    assert len({*messages}) == len(messages) == 2


def test_unexpected_errors_are_logged(monkeypatch: pytest.MonkeyPatch, unexpected_errors: list[str]) -> None:
    def fail(binder: Binder, calls: list[BoundCall], operation: Operation) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Binder, "_are_right", fail)
    build = LayerBuilder(0)
    given, output = build.operand(FLOAT, (3,)), build.operand(FLOAT, (3,))
    model = build.model(nd.OperationType.TFLITE_NEG, [given], output, [given])
    assert not isinstance(prepared(model), CpuPreparedModel)
    (message,) = unexpected_errors
    assert message.startswith("operation 0, TFLITE_NEG, runs on references")
    assert "ZeroDivisionError" in message
    unexpected_errors.clear()


@pytest.mark.parametrize("family", FAMILIES)
def test_families_have_their_operations(family: str) -> None:
    module = importlib.import_module(f"neurald.drivers.cpu.first_tier.binding.{family}")
    assert set(module.BINDINGS) == set(FAMILIES[family])
