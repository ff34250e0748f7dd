from pathlib import Path

import pytest
from support.tflite.builder import TfliteModel
from support.tflite.operator import (
    SIGN_BIT,
    Load,
    shaped,
)

from neurald.hal.errors import BadData
from neurald.hal.model.types import Lifetime
from neurald.hal.wording import inputs_and_outputs
from neurald.runtime.tflite import load_tflite


@pytest.mark.parametrize("activation", [SIGN_BIT, 6, -1])
@pytest.mark.parametrize(
    ("code", "options"), [("ADD", "AddOptions"), ("CONCATENATION", "ConcatenationOptions")]
)
def test_an_unknown_activation(load: Load, code: str, options: str, activation: int) -> None:
    with pytest.raises(BadData, match="fused activation"):
        load(code, (shaped(2), shaped(2)), shaped(2), options, FusedActivationFunction=activation)


@pytest.mark.parametrize(
    ("code", "count", "options", "allowed"),
    [
        ("ADD", 1, "AddOptions", "2 inputs and 1 output"),
        ("ADD", 3, "AddOptions", "2 inputs and 1 output"),
        ("RELU", 0, None, "1 input and 1 output"),
        ("RELU", 2, None, "1 input and 1 output"),
        ("CONCATENATION", 0, "ConcatenationOptions", "1 or more inputs and 1 output"),
        ("CONV_2D", 4, "Conv2DOptions", "2 or 3 inputs and 1 output"),
        ("FULLY_CONNECTED", 1, "FullyConnectedOptions", "2 or 3 inputs and 1 or 2 outputs"),
    ],
)
def test_numbers_of_inputs(load: Load, code: str, count: int, options: str | None, allowed: str) -> None:
    has = inputs_and_outputs(count, 1)
    with pytest.raises(BadData, match=f"operator 0 {code}: it has {has}; {allowed} are expected"):
        load(code, [shaped(2, 2)] * count, shaped(2, 2), options)


def test_an_input_that_must_not_be_omitted(load: Load) -> None:
    with pytest.raises(BadData, match="input 1 is omitted"):
        load("ADD", (shaped(2), None), shaped(2), "AddOptions")


def test_options_of_another_operator(load: Load) -> None:
    with pytest.raises(BadData, match="its options are Pool2DOptions; AddOptions are expected"):
        load("ADD", (shaped(2), shaped(2)), shaped(2), "Pool2DOptions")


def test_scalars_are_shared(tmp_path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = (graph.tensor((2,)),)
    for _ in range(3):
        graph.outputs = (graph.tensor((2,)),)
        graph.operator("ADD", (graph.inputs[0], graph.inputs[0]), graph.outputs, "AddOptions")
    model = load_tflite(file.write(tmp_path / "model.tflite"))
    assert [operand.lifetime for operand in model.main.operands].count(Lifetime.CONSTANT_COPY) == 1
