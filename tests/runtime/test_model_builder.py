"""ModelBuilder: Android NN's rules for states and data; failed calls change nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.errors import error_code
from support.sweeps import sweep

import neurald as nd
from neurald.hal.model.types import Lifetime

pytestmark = pytest.mark.quick

T = nd.OperandType
ADD = nd.OperationType.ADD


def add_model(builder: nd.ModelBuilder, *, dimensions: tuple[int, ...] = (2, 3)) -> tuple[int, int, int, int]:
    """Adds the operands and the operation of `output = first + second`, without identifying inputs
    and outputs.
    """
    first = builder.add_operand(T.TENSOR_FLOAT32, dimensions)
    second = builder.add_operand(T.TENSOR_FLOAT32, dimensions)
    activation = builder.add_operand(T.INT32)
    output = builder.add_operand(T.TENSOR_FLOAT32, dimensions)
    builder.set_operand_value(activation, 0)
    builder.add_operation(ADD, [first, second, activation], [output])
    return first, second, activation, output


BAD_DATA, BAD_STATE = nd.ResultCode.BAD_DATA, nd.ResultCode.BAD_STATE


def test_two_operations_then_every_call_is_bad_state() -> None:
    builder = nd.ModelBuilder()
    first, second, activation, middle = add_model(builder)
    output = builder.add_operand(T.TENSOR_FLOAT32, (2, 3))
    builder.add_operation(ADD, [middle, second, activation], [output])
    builder.identify_inputs_and_outputs([first, second], [output])
    model = builder.finish()
    assert [o.type for o in model.main.operations] == [ADD, ADD]
    memory = nd.Memory.allocate(24)
    for call in (
        lambda: builder.add_operand(T.FLOAT32),
        lambda: builder.set_operand_value(activation, 1),
        lambda: builder.set_operand_value_from_memory(second, memory, 0, 24),
        lambda: builder.add_operation(ADD, [first, second, activation], [output]),
        lambda: builder.identify_inputs_and_outputs([first], [output]),
        lambda: builder.relax_computation_float32_to_float16(True),
        builder.finish,
    ):
        assert error_code(call) is BAD_STATE


def test_operations_in_any_order_are_sorted() -> None:
    builder = nd.ModelBuilder()
    a, b, c, d = (builder.add_operand(T.TENSOR_FLOAT32, (2,)) for _ in range(4))
    none = builder.add_operand(T.INT32)
    builder.set_operand_value(none, 0)
    builder.add_operation(ADD, [c, a, none], [d])
    builder.add_operation(ADD, [b, a, none], [c])
    builder.add_operation(ADD, [a, a, none], [b])
    builder.identify_inputs_and_outputs([a], [d])
    compilation = nd.CompilationBuilder(builder.finish()).finish()
    (result,) = compilation.run(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(result, [4, 8])


def cycle(builder: nd.ModelBuilder) -> None:
    a, b, c = (builder.add_operand(T.TENSOR_FLOAT32, (2,)) for _ in range(3))
    none = builder.add_operand(T.INT32)
    builder.set_operand_value(none, 0)
    builder.add_operation(ADD, [a, c, none], [b])
    builder.add_operation(ADD, [b, a, none], [c])
    builder.identify_inputs_and_outputs([a], [c])


def unwritten(builder: nd.ModelBuilder) -> None:
    first, _, _, output = add_model(builder)
    builder.identify_inputs_and_outputs([first], [output])


def unwritten_output(builder: nd.ModelBuilder) -> None:
    first, second, _, output = add_model(builder)
    extra = builder.add_operand(T.TENSOR_FLOAT32, (2, 3))
    builder.identify_inputs_and_outputs([first, second], [output, extra])


def written_twice(builder: nd.ModelBuilder) -> None:
    first, second, activation, output = add_model(builder)
    builder.add_operation(ADD, [second, first, activation], [output])
    builder.identify_inputs_and_outputs([first, second], [output])


def written_input(builder: nd.ModelBuilder) -> None:
    first, second, activation, output = add_model(builder)
    builder.add_operation(ADD, [second, output, activation], [first])
    builder.identify_inputs_and_outputs([first, second], [output])


@sweep("make", [cycle, unwritten, unwritten_output, written_twice, written_input], ids=lambda f: f.__name__)
def test_a_graph_without_order_can_never_be_finished(
    make: Callable[[nd.ModelBuilder], None],
) -> None:
    builder = nd.ModelBuilder()
    make(builder)
    assert error_code(builder.finish) is BAD_DATA
    assert error_code(builder.finish) is BAD_STATE
    assert error_code(lambda: builder.add_operand(T.FLOAT32)) is BAD_STATE


def test_empty_model() -> None:
    assert error_code(nd.ModelBuilder().finish) is BAD_DATA


def test_inputs_and_outputs_are_refused_and_the_call_can_be_repeated() -> None:
    builder = nd.ModelBuilder()
    first, second, activation, output = add_model(builder)
    for inputs, outputs in (
        ([first, first, second], [output]),
        ([first, second], [output, output]),
        ([first, second, activation], [output]),
        ([first, second, output], [output]),
        ([first, 99], [output]),
        ([first, -1], [output]),
    ):
        assert error_code(builder.identify_inputs_and_outputs, inputs, outputs) is BAD_DATA
    builder.identify_inputs_and_outputs([first, second], [output])
    assert error_code(lambda: builder.identify_inputs_and_outputs([first], [output])) is BAD_DATA
    assert builder.finish().main.inputs == (first, second)


def test_a_model_without_outputs_can_still_be_mended() -> None:
    builder = nd.ModelBuilder()
    first, second, _, output = add_model(builder)
    builder.set_operand_value(first, np.ones((2, 3), np.float32))
    builder.set_operand_value(second, np.ones((2, 3), np.float32))
    with pytest.raises(nd.Error, match="no output; at least one"):
        builder.finish()
    builder.identify_inputs_and_outputs([], [output])
    (result,) = nd.CompilationBuilder(builder.finish()).finish().run()
    np.testing.assert_array_equal(result, np.full((2, 3), 2))


@sweep(
    ("value", "reason"),
    [
        (np.zeros((2, 2), np.float32), "bytes"),
        (np.zeros((2, 3), np.float64), "float64"),
        (np.zeros((2, 3), np.int32), "int32"),
        ("text", "cannot be stored"),
    ],
)
def test_wrong_constants(value: Any, reason: str) -> None:
    builder = nd.ModelBuilder()
    index = builder.add_operand(T.TENSOR_FLOAT32, (2, 3))
    with pytest.raises(nd.Error, match=reason) as caught:
        builder.set_operand_value(index, value)
    assert caught.value.code is BAD_DATA


@sweep("dimensions", [(), (0,), (2, 0)])
def test_constants_are_fully_specified(dimensions: tuple[int, ...]) -> None:
    builder = nd.ModelBuilder()
    index = builder.add_operand(T.TENSOR_FLOAT32, dimensions)
    assert error_code(lambda: builder.set_operand_value(index, np.zeros(2, np.float32))) is BAD_DATA


@sweep(("length", "copied"), [(32, True), (33, False)])
def test_small_constants_are_copied_at_once_large_ones_at_finish(length: int, *, copied: bool) -> None:
    builder = nd.ModelBuilder()
    first, second, _, output = add_model(builder, dimensions=(length,))
    value = np.ones(length, np.float32)
    builder.set_operand_value(second, value)
    value[:] = 2
    builder.identify_inputs_and_outputs([first], [output])
    model = builder.finish()
    value[:] = 3
    (result,) = nd.CompilationBuilder(model).finish().run(np.zeros(length, np.float32))
    np.testing.assert_array_equal(result, 1 if copied else 2)


def test_several_large_constants_share_a_pool() -> None:
    builder = nd.ModelBuilder()
    source = builder.add_operand(T.TENSOR_FLOAT32, (5, 11))
    none = builder.add_operand(T.INT32)
    builder.set_operand_value(none, 0)
    total, expected = source, np.zeros((5, 11), np.float32)
    for step in range(3):
        constant = builder.add_operand(T.TENSOR_FLOAT32, (5, 11))
        value = np.random.default_rng(step).random((5, 11), np.float32)
        builder.set_operand_value(constant, value)
        output = builder.add_operand(T.TENSOR_FLOAT32, (5, 11))
        builder.add_operation(ADD, [total, constant, none], [output])
        total, expected = output, expected + value
    builder.identify_inputs_and_outputs([source], [total])
    model = builder.finish()
    assert len(model.pools) == 1
    (result,) = nd.CompilationBuilder(model).finish().run(np.zeros((5, 11), np.float32))
    np.testing.assert_array_equal(result, expected)


def test_constants_from_memory_are_not_copied() -> None:
    memory = nd.Memory.allocate(256)
    np.frombuffer(memory.view(64, 24), np.float32)[:] = range(6)
    builder = nd.ModelBuilder()
    first, second, _, output = add_model(builder)
    for offset, length in ((64, 20), (64, 28), (250, 24), (-1, 24)):
        refused = error_code(builder.set_operand_value_from_memory, second, memory, offset, length)
        assert refused is BAD_DATA
    builder.set_operand_value_from_memory(second, memory, 64, 24)
    builder.identify_inputs_and_outputs([first], [output])
    model = builder.finish()
    assert model.pools == (memory,)
    (result,) = nd.CompilationBuilder(model).finish().run(np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(result, np.arange(1, 7).reshape(2, 3))


@sweep(
    ("operand_type", "good", "bad"),
    [
        (T.FLOAT32, {}, {"scale": 1.0}),
        (T.INT32, {}, {"zero_point": 1}),
        (T.UINT32, {}, {"scale": 1.0}),
        (T.BOOL, {}, {"scale": 1.0}),
        (T.FLOAT16, {}, {"zero_point": 1}),
        (T.TENSOR_FLOAT32, {}, {"scale": 1.0}),
        (T.TENSOR_FLOAT16, {}, {"zero_point": -1}),
        (T.TENSOR_BOOL8, {}, {"scale": 0.5}),
        (T.TENSOR_INT32, {"scale": 0.5}, {"scale": -0.5}),
        (T.TENSOR_INT32, {}, {"zero_point": 1}),
        (T.TENSOR_QUANT8_ASYMM, {"scale": 0.5, "zero_point": 255}, {"scale": 0.5, "zero_point": 256}),
        (T.TENSOR_QUANT8_ASYMM, {"scale": 0.5}, {"scale": 0.0}),
        (
            T.TENSOR_QUANT8_ASYMM_SIGNED,
            {"scale": 0.5, "zero_point": -128},
            {"scale": 0.5, "zero_point": 128},
        ),
        (T.TENSOR_QUANT8_ASYMM_SIGNED, {"scale": 0.5}, {"scale": float("nan")}),
        (T.TENSOR_QUANT8_SYMM, {"scale": 0.5}, {"scale": 0.5, "zero_point": 1}),
        (T.TENSOR_QUANT16_SYMM, {"scale": 0.5}, {"scale": 0.5, "zero_point": 1}),
        (
            T.TENSOR_QUANT16_ASYMM,
            {"scale": 0.5, "zero_point": 65535},
            {"scale": 0.5, "zero_point": 65536},
        ),
        (
            T.TENSOR_QUANT8_SYMM_PER_CHANNEL,
            {"channel_quant": (1, [0.5, 0.25])},
            {"channel_quant": (1, [0.5])},
        ),
        (
            T.TENSOR_QUANT8_SYMM_PER_CHANNEL,
            {"channel_quant": (0, [0.5, 0.25])},
            {"channel_quant": (2, [0.5, 0.25])},
        ),
        (
            T.TENSOR_QUANT8_SYMM_PER_CHANNEL,
            {"channel_quant": (0, [0.5, 0.25])},
            {"channel_quant": (0, [0.5, -0.25])},
        ),
        (
            T.TENSOR_QUANT8_SYMM_PER_CHANNEL,
            {"channel_quant": (0, [0.5, 0.25])},
            {"channel_quant": (0, [0.5, 0.25]), "scale": 1.0},
        ),
        (T.TENSOR_FLOAT32, {}, {"channel_quant": (0, [0.5, 0.25])}),
    ],
)
def test_scale_and_zero_point_rules(
    operand_type: nd.OperandType, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    dimensions = (2, 2) if operand_type.is_tensor else ()
    builder = nd.ModelBuilder()
    assert builder.add_operand(operand_type, dimensions, **good) == 0
    assert error_code(lambda: builder.add_operand(operand_type, dimensions, **bad)) is BAD_DATA
    assert builder.add_operand(operand_type, dimensions, **good) == 1


@sweep(
    ("operand_type", "dimensions"),
    [
        (T.FLOAT32, (1,)),
        (T.TENSOR_FLOAT32, (-1,)),
        (T.TENSOR_FLOAT32, (1 << 16, 1 << 16)),
        (T.TENSOR_FLOAT32, (1 << 40, 1 << 40)),
        (T.TENSOR_FLOAT32, (1,) * 17),
        (99, (1,)),
    ],
)
def test_operands_that_are_refused(operand_type: Any, dimensions: tuple[int, ...]) -> None:
    builder = nd.ModelBuilder()
    assert error_code(lambda: builder.add_operand(operand_type, dimensions)) is BAD_DATA
    assert builder.add_operand(T.INT32) == 0


def test_operations_that_do_not_match_their_signature() -> None:
    builder = nd.ModelBuilder()
    first, second, activation, output = add_model(builder)
    integers = builder.add_operand(T.TENSOR_INT32, (2, 3))
    deep = builder.add_operand(T.TENSOR_FLOAT32, (1, 1, 1, 2, 3))
    for operation_type, inputs, outputs, message in (
        (ADD, [first, second], [output], "inputs"),
        (ADD, [first, second, activation, activation], [output], "inputs"),
        (ADD, [first, second, activation], [], "outputs"),
        (ADD, [first, integers, activation], [output], f"operand {integers}"),
        (ADD, [first, second, first], [output], f"operand {first} "),
        (ADD, [first, deep, activation], [output], f"operand {deep}.*rank 5"),
        (ADD, [first, second, activation], [77], "no operand 77"),
        (-5, [first], [output], "-5; a member of OperationType"),
    ):
        with pytest.raises(nd.Error, match=message) as caught:
            builder.add_operation(operation_type, inputs, outputs)  # type: ignore[arg-type]
        assert caught.value.code is BAD_DATA


def test_omitting_a_required_argument_is_refused() -> None:
    builder = nd.ModelBuilder()
    first, second, _, output = add_model(builder)
    builder.set_operand_value(second, None)
    builder.identify_inputs_and_outputs([first], [output])
    with pytest.raises(nd.Error, match="omitted"):
        builder.finish()
    builder.set_operand_value(second, np.ones((2, 3), np.float32))
    assert builder.finish().main.operands[second].lifetime is Lifetime.CONSTANT_COPY


def test_relaxed() -> None:
    for allow in (True, False):
        builder = nd.ModelBuilder()
        first, second, _, output = add_model(builder)
        builder.identify_inputs_and_outputs([first, second], [output])
        builder.relax_computation_float32_to_float16(allow)
        assert builder.finish().relaxed is allow


def test_failed_calls_change_nothing() -> None:
    builder = nd.ModelBuilder()
    first, second, activation, output = add_model(builder)
    builder.set_operand_value(activation, 1)
    for call in (
        lambda: builder.add_operand(T.TENSOR_QUANT8_ASYMM, (2,)),
        lambda: builder.set_operand_value(activation, 2.5),
        lambda: builder.set_operand_value(99, 0),
        lambda: builder.set_operand_value(-1, 0),
        lambda: builder.add_operation(ADD, [first], [output]),
        lambda: builder.identify_inputs_and_outputs([first, second, activation], [output]),
    ):
        assert error_code(call) is BAD_DATA
    builder.identify_inputs_and_outputs([first, second], [output])
    compilation = nd.CompilationBuilder(builder.finish()).finish()
    (result,) = compilation.run(np.full((2, 3), -4, np.float32), np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(result, np.zeros((2, 3)))


def test_dead_operands_are_left_out() -> None:
    builder = nd.ModelBuilder()
    builder.add_operand(T.TENSOR_FLOAT32, (7,))
    first, second, _, output = add_model(builder)
    builder.identify_inputs_and_outputs([first, second], [output])
    assert len(builder.finish().main.operands) == 4


def test_names() -> None:
    builder = nd.ModelBuilder()
    first = builder.add_operand(T.TENSOR_FLOAT32, (2,), name="left")
    second = builder.add_operand(T.TENSOR_FLOAT32, (2,))
    none = builder.add_operand(T.INT32)
    builder.set_operand_value(none, 0)
    output = builder.add_operand(T.TENSOR_FLOAT32, (2,))
    builder.add_operation(ADD, [first, second, none], [output])
    builder.identify_inputs_and_outputs([first, second], [output])
    model = builder.finish()
    assert model.input_names == ("left", "input_1")
    assert model.output_names == ("output_0",)
