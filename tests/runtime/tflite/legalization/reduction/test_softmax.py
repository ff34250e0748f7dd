import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import (
    Load,
    random,
    shaped,
)

from neurald.hal.errors import BadData


def test_log_softmax(load: Load) -> None:
    x = random(2, 3)
    logarithms = run_references(load("LOG_SOFTMAX", (shaped(2, 3),), shaped(2, 3)), x)[0]
    np.testing.assert_allclose(np.exp(logarithms).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("type_", ["FLOAT32", "FLOAT16"])
def test_softmax(load: Load, type_: str) -> None:
    data = shaped(2, 5, type_=type_)
    model = load("SOFTMAX", (data,), data, "SoftmaxOptions", Beta=0.5)
    x = random(2, 5)
    (result,) = run_references(model, x)
    powers = np.exp(x / 2)
    tolerance = 1e-5 if type_ == "FLOAT32" else 1e-2
    np.testing.assert_allclose(result, powers / powers.sum(axis=1, keepdims=True), rtol=tolerance)


def test_softmax_refuses_a_beta_out_of_range(load: Load) -> None:
    half = shaped(2, 5, type_="FLOAT16")
    with pytest.raises(BadData, match="too large for FLOAT16"):
        load("SOFTMAX", (half,), half, "SoftmaxOptions", Beta=1e6)
    for beta in (float("-inf"), float("inf"), float("nan")):
        with pytest.raises(BadData, match="beta"):
            load("SOFTMAX", (shaped(2, 5),), shaped(2, 5), "SoftmaxOptions", Beta=beta)
