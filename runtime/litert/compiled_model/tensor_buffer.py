"""LiteRT's TensorBuffer: memory for an input or output of a compiled model."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

#: The names of the element types that details show; those of others are "unknown".
_SHOWN: Final = {
    *("float64", "float32", "float16", "bool"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32)),
    *("int64", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
}
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
        """Creates a buffer of one dimension that is the memory of an array.

        Raises:
            ValueError: it is not a contiguous array of a supported type.
        """
        _check(data_array)
        if not data_array.flags.c_contiguous:
            raise ValueError("data_array must be C-contiguous for zero-copy host-memory binding")
        return cls(data_array.reshape(-1))

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The memory.

        Raises:
            RuntimeError: the buffer is destroyed.
        """
        return self._memory("GetTensorBuffer")

    def _memory(self, call: str) -> np.ndarray[Any, Any]:
        if self._array is None:
            raise RuntimeError(f"{call}: invalid capsule: the tensor buffer has been destroyed")
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
        """Copies an array's elements like `write`, also of types that programs cannot write."""
        target = self._memory("WriteTensorBuffer").reshape(-1)
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
        if not _is_supported(dtype):
            raise ValueError(f"Unsupported dtype: {output_dtype}")
        result = np.empty(num_elements, dtype)
        stored = self._memory("ReadTensorToBuffer").reshape(-1).view(np.uint8)
        if result.nbytes > stored.size:
            raise RuntimeError("ReadTensorToBuffer: destination buffer is larger than the tensor buffer")
        result.reshape(-1).view(np.uint8)[:] = stored[: result.nbytes]
        return result

    def get_tensor_details(self) -> dict[str, Any]:
        """Returns type and shape."""
        array = self._memory("GetTensorDetails")
        return {"dtype": shown_type(array.dtype), "shape": list(array.shape)}

    def destroy(self) -> None:
        """Releases the memory; further uses fail."""
        self._array = None


def zeros(shape: Sequence[int], dtype: Any) -> TensorBuffer:
    """Returns a new buffer."""
    return TensorBuffer(np.zeros(tuple(shape), dtype))


def shown_type(dtype: "np.dtype[Any]") -> str:
    """Returns the name that details show of an element type."""
    return dtype.name if dtype.name in _SHOWN else "unknown"


def _is_supported(dtype: "np.dtype[Any]") -> bool:
    return dtype.isnative and dtype.name in _SUPPORTED


def _check(array: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise ValueError("data_array must be a NumPy array")
    if not _is_supported(array.dtype):
        raise ValueError(f"Unsupported dtype: {array.dtype}")
