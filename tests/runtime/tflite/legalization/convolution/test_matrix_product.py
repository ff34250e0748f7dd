from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, shaped, types
from support.tflite.weights import exact_floats, random_bytes

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("kind", ["floats", "broadcast", "quantized", "hybrid"])
def test_batch_matmul(load: Load, kind: str, *, adjoint: bool, asymmetric: bool) -> None:
    first, second = exact_floats(2, 3, 4), random_bytes(2, 4, 5)
    second = second[:1] if kind == "broadcast" else second
    fed = second.swapaxes(1, 2) if adjoint else second
    quantized: dict[str, Any] = {"type_": "INT8", "scale": 1.0}
    model = load(
        "BATCH_MATMUL",
        (
            shaped(2, 3, 4, **(quantized if kind == "quantized" else {})),
            fixed(fed, "INT8", scale=1.0) if kind in ("quantized", "hybrid") else fixed(fed),
        ),
        shaped(0, **({"type_": "INT8", "scale": 1000.0} if kind == "quantized" else {})),
        "BatchMatMulOptions",
        AdjY=adjoint,
        AsymmetricQuantizeInputs=asymmetric,
    )
    is_android = kind in ("floats", "quantized")
    name = "BATCH_MATMUL" if is_android else "TFLITE_BATCH_MATMUL"
    assert types(model) == [OperationType[name]]
    (result,) = run_references(model, first)
    expected = first @ second
    if kind == "quantized":
        np.testing.assert_allclose(result, np.clip(expected / 1000, -128, 127), atol=0.51)
    else:
        np.testing.assert_allclose(result, expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (4, 4), (1, 1, 4, 3), (2, 4)])
@pytest.mark.parametrize("back", [1, 2])
def test_a_matrix_with_several_scales(
    load: Load, shape: tuple[int, ...], back: int, *, adjoint: bool
) -> None:
    """LiteRT reads the scales as those of the columns, for any dimension in the file."""
    matrix = random_bytes(*shape)
    quantized = matrix.swapaxes(-1, -2) if adjoint else matrix
    axis = len(shape) - back
    scales = [0.25 * (position + 1) for position in range(quantized.shape[axis])]
    fields: dict[str, Any] = {"scale": scales, "quantized_dimension": axis}
    columns = shape[-1]
    arguments: Any = (
        "BATCH_MATMUL",
        (shaped(*shape[:-2], 5, shape[-2]), fixed(quantized, "INT8", **fields)),
        shaped(0),
        "BatchMatMulOptions",
    )
    if len(scales) < columns:
        with pytest.raises(BadData, match="the columns of the product"):
            load(*arguments, AdjY=adjoint)
        return
    x = exact_floats(*shape[:-2], 5, shape[-2])
    (result,) = run_references(load(*arguments, AdjY=adjoint), x)
    expected = (x @ matrix) * np.array(scales[:columns])
    np.testing.assert_allclose(result, expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("is_real", [False, True])
def test_batch_matmul_of_bytes_with_scales_by_channel(load: Load, *, is_real: bool) -> None:
    """A converter may leave the result of quantised matrices as real numbers."""
    first, second = random_bytes(2, 3, 4).astype(np.int8), random_bytes(2, 4, 5)
    scales = np.array([0.5, 1, 2, 4, 8], np.float32)
    model = load(
        "BATCH_MATMUL",
        (
            shaped(2, 3, 4, type_="INT8", scale=0.25),
            fixed(second, "INT8", scale=scales.tolist(), quantized_dimension=2),
        ),
        shaped(0, **({} if is_real else {"type_": "INT8", "scale": 2000.0})),
        "BatchMatMulOptions",
    )
    (result,) = run_references(model, first)
    expected = first.astype(np.float32) * 0.25 @ (second * scales)
    if is_real:
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    else:
        np.testing.assert_allclose(result, np.clip(expected / 2000, -128, 127), atol=0.51)
