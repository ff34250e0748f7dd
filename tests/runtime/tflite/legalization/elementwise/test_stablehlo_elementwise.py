import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, shaped, types
from support.tflite.results import run_operator

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.compilation_builder import CompilationBuilder


@pytest.mark.parametrize("type_", ["INT8", "UINT8", "INT16", "INT32", "INT64", "UINT32", "BOOL"])
def test_and(load: Load, type_: str) -> None:
    dtype = np.dtype(type_.lower())
    x, y = np.array([0, 1, 1, 1], dtype), np.array([0, 0, 1, 1], dtype)
    tensor = shaped(4, type_=type_)
    model = load("STABLEHLO_AND", [tensor, tensor], tensor)
    assert types(model) == [OperationType.TFLITE_STABLEHLO_AND]
    (result,) = CompilationBuilder(model).finish().run(x, y)
    np.testing.assert_array_equal(result, x & y)


def test_shift_left(load: Load) -> None:
    tensor = shaped(5, type_="INT8")
    x, bits = np.array([1, -3, 127, 5, 5], np.int8), np.array([7, 2, 1, 8, -1], np.int8)
    result = run_operator(load, x, bits, code="STABLEHLO_SHIFT_LEFT", inputs=[tensor, tensor], output=tensor)
    assert result == [-128, -12, -2, 0, 0]
    with pytest.raises(BadData, match="TENSOR_FLOAT32"):
        load("STABLEHLO_SHIFT_LEFT", [shaped(5), shaped(5)], shaped(5))


@pytest.mark.parametrize("kind", ["FLOAT32", "INT32", "INT8", "BOOL"])
@pytest.mark.parametrize("name", ["ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"])
def test_elementwise(load: Load, kind: str, name: str) -> None:
    source = shaped(3, type_=kind)
    model = load(f"STABLEHLO_{name}", (source, source), source)
    android = {"MULTIPLY": "MUL"}.get(name, name)
    is_plain = kind in ("FLOAT32", "INT32")
    assert types(model) == [OperationType[android if is_plain else f"TFLITE_STABLEHLO_{name}"]]
    function = getattr(np, {"MULTIPLY": "multiply"}.get(name, name.lower()))
    dtype = {"FLOAT32": np.float32, "INT32": np.int32, "INT8": np.int8, "BOOL": np.bool_}[kind]
    x: Array = np.array([100, 3, 0]).astype(dtype)
    y: Array = np.array([100, 0, 0]).astype(dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run_references(model, x, y)[0], function(x, y))
