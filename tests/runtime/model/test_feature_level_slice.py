"""A device is never asked about an operation that is newer than its feature level."""

import numpy as np
import pytest
from support.devices.misbehaving import SampleDevice
from support.models.small import FLOAT, add_model

import neurald as nd
from neurald.hal.device import Verdict
from neurald.hal.model.model import Model
from neurald.hal.model.types import FeatureLevel
from neurald.hal.validation.model_rules import validate_model
from neurald.runtime.model import feature_level_slice
from neurald.runtime.model.feature_level_slice import slice_for


def mixed() -> nd.Model:
    """Builds a chain of ADD (level 1), EXP (level 3), ADD, HARD_SWISH (level 4) and ADD."""
    builder = nd.ModelBuilder()
    source, addend = (builder.add_operand(FLOAT, (2, 3)) for _ in range(2))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    value = source
    for operation_type in ("ADD", "EXP", "ADD", "HARD_SWISH", "ADD"):
        result = builder.add_operand(FLOAT, (2, 3))
        inputs = [value, addend, none] if operation_type == "ADD" else [value]
        builder.add_operation(nd.OperationType[operation_type], inputs, [result])
        value = result
    builder.identify_inputs_and_outputs([source, addend], [value])
    return builder.finish()


class OldDevice(SampleDevice):
    def __init__(self, level: FeatureLevel) -> None:
        super().__init__("old")
        self.feature_level = level
        self.asked: list[Model] = []

    def supported_operations(self, model: nd.Model) -> tuple[Verdict, ...]:
        validate_model(model)
        self.asked.append(model)
        return tuple(super().supported_operations(model))


def test_newer_operations_are_not_offered() -> None:
    for level, expected in (
        (FeatureLevel.LEVEL_1, [True, False, True, False, True]),
        (FeatureLevel.LEVEL_3, [True, True, True, False, True]),
        (FeatureLevel.LEVEL_4, [True] * 5),
    ):
        device = OldDevice(level)
        model = mixed()
        verdicts = nd.supported_operations(model, [device])["old"]
        assert [verdict.ok for verdict in verdicts] == expected
        (asked,) = device.asked
        assert len(asked.main.operations) == sum(expected)
        assert (asked is model) is all(expected)
        assert all(
            ok or f"feature level, {level.name}" in v.reason for ok, v in zip(expected, verdicts, strict=True)
        )


def test_levels_are_not_looked_at_for_a_device_of_the_newest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    device, model = OldDevice(FeatureLevel.LEVEL_8), mixed()
    monkeypatch.setattr(feature_level_slice, "levels_of", lambda _: pytest.fail("they are"))
    assert all(verdict.ok for verdict in nd.supported_operations(model, [device])["old"])
    assert device.asked == [model]


def test_a_slice_has_the_operands_between_as_inputs_and_outputs() -> None:
    part, positions = slice_for(mixed(), FeatureLevel.LEVEL_1)
    assert positions == (0, 2, 4)
    assert len(part.main.inputs) == 4  # the two inputs of the model, and the results of EXP and HARD_SWISH
    assert len(part.main.outputs) == 3  # the operands of EXP and HARD_SWISH, and the output of the model
    validate_model(part)


def test_a_device_that_is_too_old_for_everything_is_not_asked() -> None:
    builder = nd.ModelBuilder()
    source, result = (builder.add_operand(FLOAT, (2, 3)) for _ in range(2))
    builder.add_operation(nd.OperationType.EXP, [source], [result])
    builder.identify_inputs_and_outputs([source], [result])
    device = OldDevice(FeatureLevel.LEVEL_1)
    (verdict,) = nd.supported_operations(builder.finish(), [device])["old"]
    assert not verdict.ok
    assert not device.asked


def test_default_arguments_are_left_out() -> None:
    builder = nd.ModelBuilder()
    image = builder.add_operand(FLOAT, (1, 5, 5, 1))
    weights = builder.add_operand(FLOAT, (1, 3, 3, 1))
    builder.set_operand_value(weights, np.ones((1, 3, 3, 1), np.float32))
    bias = builder.add_operand(FLOAT, (1,))
    builder.set_operand_value(bias, [0.0])
    numbers = []
    for value in (1, 1, 1, 1, 1, 1, 0):
        numbers.append(builder.add_operand(nd.OperandType.INT32))
        builder.set_operand_value(numbers[-1], value)
    layout = builder.add_operand(nd.OperandType.BOOL)
    builder.set_operand_value(layout, False)
    dilations = [builder.add_operand(nd.OperandType.INT32) for _ in range(2)]
    for dilation in dilations:
        builder.set_operand_value(dilation, 1)
    result = builder.add_operand(FLOAT, (1, 5, 5, 1))
    inputs = [image, weights, bias, *numbers, layout, *dilations]
    builder.add_operation(nd.OperationType.CONV_2D, inputs, [result])
    builder.identify_inputs_and_outputs([image], [result])
    model = builder.finish()
    assert len(inputs) == 13
    assert len(model.main.operations[0].inputs) == 10
    assert validate_model(model) is FeatureLevel.LEVEL_1
    device = OldDevice(FeatureLevel.LEVEL_2)
    compilation = nd.CompilationBuilder(model, [device]).finish()
    (sums,) = compilation.run(np.ones((1, 5, 5, 1), np.float32))
    assert sums[0, 2, 2, 0] == 9


def test_other_values_stay() -> None:
    for dilations, count in (((1, 2), 10), ((1, 1), 7)):
        builder = nd.ModelBuilder()
        image = builder.add_operand(FLOAT, (1, 9, 9, 1))
        weights = builder.add_operand(FLOAT, (1, 3, 3, 1))
        builder.set_operand_value(weights, np.ones((1, 3, 3, 1), np.float32))
        bias = builder.add_operand(FLOAT, (1,))
        builder.set_operand_value(bias, [0.0])
        inputs = [image, weights, bias]
        for value in (1, 1, 1, 0, False, *dilations):
            kind = nd.OperandType.BOOL if value is False else nd.OperandType.INT32
            inputs.append(builder.add_operand(kind))
            builder.set_operand_value(inputs[-1], value)
        result = builder.add_operand(FLOAT, (1, 9, 9, 1))
        builder.add_operation(nd.OperationType.CONV_2D, inputs, [result])
        builder.identify_inputs_and_outputs([image], [result])
        assert len(builder.finish().main.operations[0].inputs) == count


def test_an_old_device_runs_what_is_old_enough() -> None:
    device = OldDevice(FeatureLevel.LEVEL_1)
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    ones = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(compilation.run(ones, ones)[0], ones + 1)
