from typing import Any

import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import (
    QUANT8_TYPES,
    Given,
    call_of,
    evaluate,
    given,
    level_of,
    scalars,
    stored_values,
    wanted,
)
from support.operations.weighted_sums import (
    FLOAT32,
    PER_CHANNEL,
    QUANT8,
    SAME,
    SIGNED,
    TYPES,
    Case,
    assert_as_expected,
    random_case,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.convolution import grouped_convolution
from neurald.hal.operations.machinery.call import Array
from neurald.hal.records import replace

GROUPED = OperationType.GROUPED_CONV_2D
IDS = [f"{data.name}-{weights.name}" for data, weights in TYPES]


def part(source: Given, index: slice, scales: tuple[float, ...] = ()) -> Given:
    """Returns some rows along the first dimension; a per-channel filter keeps their scales."""
    operand = source.operand
    per_channel = operand.type is PER_CHANNEL
    quant = ChannelQuant(dimension=0, scales=scales[index]) if per_channel else None
    return given(operand.type, value(source)[index], operand.scale, operand.zero_point, channel_quant=quant)


class Grouped:
    """A grouped convolution, and an ordinary convolution for each of its groups."""

    def __init__(
        self, generator: np.random.Generator, types: tuple[OperandType, OperandType], shape: Any
    ) -> None:
        while True:
            case = random_case(generator, types, shape=shape)
            if case.placement.dilation is None:
                break
        channels = len(value(case.filter))
        self.groups = int(generator.choice([g for g in range(1, channels + 1) if channels % g == 0]))
        self.case = replace(case, placement=replace(case.placement, nchw=bool(generator.integers(2))))
        width = channels // self.groups
        self.parts: list[Case] = []
        for group in range(self.groups):
            rows = slice(group * width, (group + 1) * width)
            values = case.values
            if group:
                operand, size = values.operand, value(values).shape
                quantized = (
                    stored_values(generator, operand.type, size)
                    if operand.type in QUANT8_TYPES
                    else generator.standard_normal(size)
                )
                values = given(operand.type, quantized, operand.scale, operand.zero_point)
            self.parts.append(
                replace(
                    self.case,
                    values=values,
                    filter=part(case.filter, rows, case.scales),
                    bias=part(case.bias, rows),
                    scales=case.scales[rows],
                )
            )

    @property
    def inputs(self) -> tuple[Given, ...]:
        operand = self.case.values.operand
        values = np.concatenate([value(each.values) for each in self.parts], axis=3)
        values = np.moveaxis(values, 3, 1) if self.case.placement.nchw else values
        return (
            given(operand.type, values, operand.scale, operand.zero_point),
            self.case.filter,
            self.case.bias,
            *self.case.placement.scalars(self.groups, activation=self.case.activation),
        )

    def assert_result(self, result: Array) -> None:
        for each, values in zip(
            self.parts, np.split(result, self.groups, axis=1 if self.case.placement.nchw else 3), strict=True
        ):
            assert_as_expected(each, np.ascontiguousarray(values))


@sweep("seed", range(20))
@sweep("types", TYPES, ids=IDS)
def test_against_the_definition(types: tuple[OperandType, OperandType], seed: int) -> None:
    grouped = Grouped(np.random.default_rng(seed), types, None)
    grouped.assert_result(evaluate(GROUPED, grouped.inputs, grouped.case.output))


@sweep("types", TYPES, ids=IDS)
def test_no_images(types: tuple[OperandType, OperandType]) -> None:
    grouped = Grouped(np.random.default_rng(2), types, (0, 5, 4, 2))
    result = evaluate(GROUPED, grouped.inputs, grouped.case.output)
    assert len(result) == 0
    grouped.assert_result(result)


@sweep("limit", [1, 7, 60, 1000])
@sweep("types", TYPES, ids=IDS)
def test_the_block_size_does_not_change_results(
    types: tuple[OperandType, OperandType], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouped_convolution, "_BLOCK", limit)
    grouped = Grouped(np.random.default_rng(limit), types, (2, 6, 5, 2))
    grouped.assert_result(evaluate(GROUPED, grouped.inputs, grouped.case.output))


@sweep("depth", [1024, 9001])
def test_sums_too_large_for_float32_are_exact(depth: int) -> None:
    values = np.full((1, 1, 1, 2 * depth), 127)
    filter_ = np.full((2, 1, 1, depth), -128)
    filter_[1, 0, 0, -1] += 1
    sums = [127 * 128 * -depth, 127 * 128 * -depth + 127]
    inputs = [
        given(SIGNED, values, 1.0),
        given(SIGNED, filter_, 1.0),
        given(OperandType.TENSOR_INT32, [-sums[0], -sums[0]], 1.0),
        *scalars(SAME, 1, 1, 2, 0, False),
    ]
    assert evaluate(GROUPED, inputs, wanted(SIGNED, 1.0)).ravel().tolist() == [0, 127]


def small_inputs(values: Any, filter_: Any, groups: int, channels: int = 4) -> list[Given]:
    return [
        given(FLOAT32, np.zeros(values)),
        given(FLOAT32, np.zeros(filter_)),
        given(FLOAT32, np.zeros(channels)),
        *scalars(SAME, 1, 1, groups, 0, False),
    ]


@sweep(
    ("values", "filter_", "groups", "message"),
    [
        ((1, 3, 3, 4), (4, 2, 2, 3), 2, "filter .* has depth 3 and .* has 4; 2 groups of the same depth"),
        ((1, 3, 3, 0), (4, 2, 2, 0), 2, "has depth 0"),
        ((1, 3, 3, 6), (4, 2, 2, 2), 3, "has 4 output channels; a multiple of the 3 groups is expected"),
        ((1, 3, 3, 4), (4, 2, 2, 2), 0, "groups of GROUPED_CONV_2D.* is 0; it must be at least 1"),
        ((1, 3, 3, 4), (4, 0, 2, 2), 2, "height of the window is 0"),
        ((1, 3, 3, 4), (6, 2, 2, 2), 2, r"bias .* has shape \[4\]; \[6\]"),
    ],
)
def test_refuses_shapes(values: Any, filter_: Any, groups: int, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(GROUPED, small_inputs(values, filter_, groups), wanted(FLOAT32))


def test_refuses_activations_and_channel_dimensions() -> None:
    inputs = small_inputs((1, 3, 3, 4), (4, 2, 2, 2), 2)
    inputs[-2] = scalars(4)[0]
    with pytest.raises(BadData, match=r"activation of GROUPED_CONV_2D.* is 4"):
        evaluate(GROUPED, inputs, wanted(FLOAT32))
    inputs = [
        given(QUANT8, np.zeros((1, 3, 3, 4)), 1.0),
        given(
            PER_CHANNEL, np.zeros((2, 2, 2, 2)), channel_quant=ChannelQuant(dimension=3, scales=(1.0, 1.0))
        ),
        given(OperandType.TENSOR_INT32, np.zeros(2)),
        *scalars(SAME, 1, 1, 2, 0, False),
    ]
    with pytest.raises(BadData, match=r"channels along dimension 3; 0 is expected"):
        DEFINITIONS[GROUPED].check(call_of(GROUPED, inputs, wanted(QUANT8, 1.0)))


def test_level_and_counts() -> None:
    inputs = small_inputs((1, 3, 3, 4), (4, 2, 2, 2), 2)
    assert level_of(GROUPED, inputs, wanted(FLOAT32)) == FeatureLevel.LEVEL_3
    with pytest.raises(BadData, match=r"GROUPED_CONV_2D has 8 inputs and 1 output; 9 or 12 inputs"):
        level_of(GROUPED, inputs[:-1], wanted(FLOAT32))
