import numpy as np
import pytest

from neurald.litert import TensorBuffer


def test_elements_are_written_and_read() -> None:
    buffer = TensorBuffer.create_from_host_memory(np.zeros((2, 3), np.float32))
    buffer.write(np.array([1, 2], np.float32))
    assert buffer.read(3, np.float32).tolist() == [1, 2, 0]
    assert buffer.read(1, np.int32).tolist() == [np.float32(1).view(np.int32)]
    assert buffer.get_tensor_details() == {"dtype": "float32", "shape": [6]}


def test_host_memory_is_not_copied() -> None:
    array = np.zeros(2, np.int8)
    TensorBuffer.create_from_host_memory(array).write(np.array([1, 2], np.int8))
    assert array.tolist() == [1, 2]


def test_what_does_not_fit() -> None:
    buffer = TensorBuffer(np.zeros(2, np.float32))
    for value, kind in (
        (np.zeros(3, np.float32), RuntimeError),
        (np.zeros(2, np.int32), ValueError),
        (np.zeros(2), ValueError),
        (np.zeros(2, ">f4"), ValueError),
        ([1.0], ValueError),
    ):
        with pytest.raises(kind):
            buffer.write(value)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="larger"):
        buffer.read(3, np.float32)
    with pytest.raises(ValueError, match="negative dimensions"):
        buffer.read(-1, np.float32)
    with pytest.raises(ValueError, match="Unsupported dtype"):
        buffer.read(1, np.int64)
    with pytest.raises(ValueError, match="Unsupported dtype: int64"):
        TensorBuffer.create_from_host_memory(np.arange(4))
    with pytest.raises(ValueError, match="contiguous"):
        TensorBuffer.create_from_host_memory(np.zeros((4, 4), np.float32)[:, ::2])


def test_a_destroyed_buffer() -> None:
    buffer = TensorBuffer(np.zeros(2, np.float32))
    buffer.destroy()
    buffer.destroy()
    for call, name in (
        (lambda: buffer.read(1, np.float32), "ReadTensorToBuffer"),
        (lambda: buffer.write(np.zeros(2, np.float32)), "WriteTensorBuffer"),
        (buffer.get_tensor_details, "GetTensorDetails"),
    ):
        with pytest.raises(RuntimeError, match=f"{name}: invalid capsule: .* destroyed"):
            call()


def test_a_destroyed_buffer_has_no_capsule() -> None:
    buffer = TensorBuffer.create_from_host_memory(np.zeros(2, np.float32))
    assert buffer.capsule is buffer
    buffer.destroy()
    with pytest.raises(ValueError, match="TensorBuffer has been destroyed"):
        _ = buffer.capsule
