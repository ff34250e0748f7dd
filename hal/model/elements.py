"""Views the bytes of a value as an array, and arrays as the elements to store."""

import math
from typing import Final

from neurald.hal.lazy_numpy import np
from neurald.hal.model.strings import decode_strings, encode_strings
from neurald.hal.model.types import OperandType


def stored_array(source: memoryview, operand_type: OperandType, shape: tuple[int, ...]) -> "np.ndarray":
    """Views bytes as an array; strings and bools are copied.

    Bools are copied because any byte but 0 is true, and NumPy needs a 1.

    Args:
        source: exactly the bytes of the value; a string buffer may be longer.
        operand_type: the operand type of the value.
        shape: the shape of the value.

    Raises:
        BadData: the bytes are not a buffer of that many strings.
    """
    if operand_type is OperandType.TENSOR_STRING:
        return decode_strings(source, shape)
    dtype = operand_type.dtype
    if dtype.kind == "b":
        return np.asarray(np.frombuffer(source, np.uint8) != 0).reshape(shape)
    return np.frombuffer(source, dtype).reshape(shape)


#: A part of an array is copied if the array is more than this factor larger: a view keeps the
#: memory of all elements.
MAX_KEPT_FACTOR: Final = 2


def first_elements(array: "np.ndarray", shape: tuple[int, ...]) -> "np.ndarray":
    """Returns an array's first elements in this shape; a copy if they are a small part."""
    found = array.reshape(-1)[: math.prod(shape)].reshape(shape)
    return found if MAX_KEPT_FACTOR * found.nbytes >= array.nbytes else found.copy()


def as_elements(array: "np.ndarray", operand_type: OperandType) -> "np.ndarray":
    """Returns `array`, viewed as raw elements if the type is a vendor's.

    Args:
        array: an array of any type. If it is not C-contiguous, or its elements have another size,
            it is returned unchanged.
        operand_type: the required type of its elements.
    """
    dtype = operand_type.dtype
    is_raw = dtype.kind == "V" and isinstance(array, np.ndarray) and not array.dtype.hasobject
    if is_raw and array.dtype.itemsize == dtype.itemsize and array.flags.c_contiguous:
        return array.view(dtype)
    return array


def array_to_store(array: "np.ndarray", operand_type: OperandType) -> "np.ndarray":
    """Returns the contiguous data to store for an array: its elements, or a string buffer.

    Raises:
        BadData: there are more strings than a buffer can hold.
    """
    if operand_type is OperandType.TENSOR_STRING:
        return encode_strings(array)
    return np.ascontiguousarray(array)
