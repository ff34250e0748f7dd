import numpy as np
import pytest

from neurald.hal.errors import BadData
from neurald.runtime.function.conversion import converted, dequantized, quantized, require_match
from neurald.runtime.function.tensor_info import TensorInfo

MAX_MESSAGE = 500
INT8 = TensorInfo(name="x", shape=(3,), dtype=np.dtype(np.int8), scale=0.5, zero_point=-3)


def test_quantisation_rounds_and_saturates() -> None:
    given = np.array([-1e30, -64.0, -0.2, 0.0, 0.2, 0.3, 65.0, np.inf])
    assert quantized(given, INT8).tolist() == [-128, -128, -3, -3, -3, -2, 127, 127]
    values = np.arange(-128, 128).astype(np.int8)
    np.testing.assert_array_equal(quantized(dequantized(values, INT8), INT8), values)


def test_every_channel_has_its_scale() -> None:
    info = TensorInfo(
        name="x", shape=(None, 2), dtype=np.dtype(np.int8), scales=(0.5, 0.25), quantized_dimension=1
    )
    given = np.array([[1.0, 1.0], [-2.0, 100.0]])
    assert converted(given, info).tolist() == [[2, 4], [-4, 127]]
    np.testing.assert_array_equal(dequantized(np.array([[2, 4]], np.int8), info), [[1, 1]])
    for wrong in (np.ones(2), np.ones((1, 3))):
        with pytest.raises(BadData, match="2 scales along dimension 1; an array of shape"):
            converted(wrong, info)


def test_values_that_a_type_holds() -> None:
    plain = TensorInfo(name="x", shape=(1,), dtype=np.dtype(np.uint8))
    assert converted([255], plain).dtype == np.uint8
    for value in ([256], [-1], [0.5]):
        with pytest.raises(BadData, match="cannot hold all given values"):
            converted(value, plain)
    real = TensorInfo(name="x", shape=(1,), dtype=np.dtype(np.float32))
    assert converted(np.array([0.1]), real).dtype == np.float32
    with pytest.raises(BadData, match="cannot be converted"):
        converted(["a"], real)


def test_real_numbers_may_lose_digits_but_not_become_infinite() -> None:
    half = TensorInfo(name="x", shape=(2,), dtype=np.dtype(np.float16))
    assert converted([0.1, np.inf], half).tolist() == [np.float16(0.1), np.inf]
    assert np.isnan(converted([np.nan], half)).all()
    for value in ([70_000.0], [70_000], [-1e300]):
        with pytest.raises(BadData, match="cannot hold all given values"):
            converted(value, half)


def test_complex_numbers() -> None:
    info = TensorInfo(name="x", shape=(2,), dtype=np.dtype(np.complex64))
    found = converted([1 + 2j, 3], info)
    assert found.dtype == np.complex64
    assert found.tolist() == [1 + 2j, 3]
    with pytest.raises(BadData, match="cannot hold all given values"):
        converted([1e300j], info)
    with pytest.raises(BadData, match="complex128 cannot be converted"):
        converted([1j], INT8)


def test_messages_do_not_repeat_long_values() -> None:
    with pytest.raises(BadData) as raised:
        require_match(bytes(100_000), INT8, BadData("refused"))
    assert "is not an array of int8: numpy.frombuffer(data, numpy.int8) makes one" in str(raised.value)
    assert len(str(raised.value)) < MAX_MESSAGE
