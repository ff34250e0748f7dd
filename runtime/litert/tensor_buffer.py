"""LiteRT's TensorBuffer: memory for an input or output of a compiled model."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

#: The names of the element types that programs can write and read: LiteRT's, of which three belong
#: to ml_dtypes, and int16.
_SUPPORTED: Final = {
    *("float32", "float16", "int32", "int16", "int8", "uint8", "bool"),
    *("bfloat16", "float8_e4m3fn", "float8_e5m2"),
}


class TensorBuffer:
    """Memory for a tensor.

    Args:
        array: the memory.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array: np.ndarray[Any, Any] | None = array

    @classmethod
    def create_from_host_memory(cls, data_array: np.ndarray[Any, Any]) -> "TensorBuffer":
        """Creates a buffer that is the memory of an array.

        Raises:
            ValueError: it is not a contiguous array of a supported type.
        """
        _check(data_array)
        if not data_array.flags.c_contiguous:
            raise ValueError("data_array must be C-contiguous for zero-copy host-memory binding")
        return cls(data_array)

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The memory.

        Raises:
            RuntimeError: the buffer is destroyed.
        """
        if self._array is None:
            raise RuntimeError("the tensor buffer has been destroyed")
        return self._array

    @property
    def capsule(self) -> "TensorBuffer":
        """The buffer, as something that programs can only pass on.

        Raises:
            ValueError: the buffer is destroyed.
        """
        if self._array is None:
            raise ValueError("TensorBuffer has been destroyed")
        return self

    def write(self, data_array: np.ndarray[Any, Any]) -> None:
        """Copies the elements of an array to the beginning of the buffer.

        Raises:
            ValueError: it is not an array of the buffer's type.
            RuntimeError: it has more elements than the buffer, or the buffer is destroyed.
        """
        _check(data_array)
        self.store(data_array)

    def store(self, data_array: np.ndarray[Any, Any]) -> None:
        """Copies the elements of an array like `write`, also of types that programs cannot write."""
        target = self.array.reshape(-1)
        if data_array.dtype != target.dtype:
            raise ValueError(f"data_array has type {data_array.dtype}; the tensor buffer has {target.dtype}")
        if data_array.size > target.size:
            raise RuntimeError("WriteTensorBuffer: source buffer is larger than the tensor buffer")
        target[: data_array.size] = data_array.reshape(-1)

    def read(self, num_elements: int, output_dtype: Any) -> np.ndarray[Any, Any]:
        """Returns a copy of the first elements, of one dimension.

        Args:
            num_elements: their number.
            output_dtype: the type as which the bytes are read.

        Raises:
            ValueError: the type is not supported, or the number is negative.
            TypeError: it is not a number of elements.
            RuntimeError: the buffer has fewer elements, or is destroyed.
        """
        try:
            dtype = np.dtype(output_dtype)
        except TypeError as error:
            raise ValueError(f"Unsupported dtype: {output_dtype}") from error
        if dtype.name not in _SUPPORTED:
            raise ValueError(f"Unsupported dtype: {output_dtype}")
        result = np.empty(num_elements, dtype)
        stored = self.array.reshape(-1).view(np.uint8)
        if result.nbytes > stored.size:
            raise RuntimeError("ReadTensorToBuffer: destination buffer is larger than the tensor buffer")
        result.reshape(-1).view(np.uint8)[:] = stored[: result.nbytes]
        return result

    def get_tensor_details(self) -> dict[str, Any]:
        """Returns type and shape."""
        return {"dtype": self.array.dtype.name, "shape": list(self.array.shape)}

    def destroy(self) -> None:
        """Releases the memory; further uses fail."""
        self._array = None


def zeros(shape: Sequence[int], dtype: Any) -> TensorBuffer:
    """Returns a new buffer."""
    return TensorBuffer(np.zeros(tuple(shape), dtype))


def _check(array: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise ValueError("data_array must be a NumPy array")
    if array.dtype.name not in _SUPPORTED:
        raise ValueError(f"Unsupported dtype: {array.dtype}")
