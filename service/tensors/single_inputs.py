"""Reads values of single inputs: `--input NAME=FILE`, and `--input-range NAME=LOW:HIGH`."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.strings import as_strings
from neurald.hal.model.types import MAX_OPERAND_BYTES, OperandType
from neurald.service.tensors.arrays import (
    Array,
    Ranges,
    Slot,
    describe_type,
    known_inputs,
    read_header,
    shape_fits,
)
from neurald.service.tensors.files import open_regular
from neurald.service.tensors.shapes import Shapes

_Value = TypeVar("_Value")

#: How each file of NumPy's format for one array begins.
_NPY: Final = b"\x93NUMPY"


def parse_ranges(settings: Sequence[str], slots: Sequence[Slot]) -> Ranges:
    """Parses the ranges of random inputs from the command line.

    Args:
        settings: values of the form `NAME=LOW:HIGH`, where the name is that of an input, or
            `input_0` and so on.
        slots: the model's inputs.

    Returns:
        The lowest and highest values of the inputs that a setting names, by the inputs' keys.

    Raises:
        BadData: a setting is invalid, names an unknown input or one twice, or has a range that the
            input's type does not have.
    """

    def parse(slot: Slot, text: str, setting: str) -> tuple[float, float]:
        dtype = slot.operand.type.dtype
        if dtype.kind not in "fiu":
            raise BadData(f"range {setting!r}: input {slot.describe()} has no numbers to choose from")
        number: type[float] = float if dtype.kind == "f" else int
        limits = np.finfo(dtype.name) if dtype.kind == "f" else np.iinfo(dtype.name)
        low_text, _, high_text = text.partition(":")
        try:
            low, high = number(low_text), number(high_text)
        except ValueError:
            low, high = math.nan, math.nan
        if not number(limits.min) <= low <= high <= number(limits.max):
            raise BadData(
                f"range {setting!r} of input {slot.describe()} cannot be read; expected NAME=LOW:HIGH with "
                "numbers of the input's type, such as ids=0:999"
            )
        return low, high

    return _by_key("range", settings, slots, parse)


def read_files(settings: Sequence[str], slots: Sequence[Slot], shapes: Shapes) -> dict[str, Array]:
    """Reads the inputs that have files of their own.

    A file is one that `numpy.save` wrote, or has the bytes of the elements alone, in this machine's
    order. Strings end with zero bytes. Nothing is unpickled.

    Args:
        settings: values of the form `NAME=FILE`, where the name is that of an input, or `input_0`
            and so on.
        slots: the model's inputs.
        shapes: the shapes of inputs that the model leaves open, by the inputs' keys. Other open
            lengths are 1 where a file has bytes alone.

    Returns:
        The arrays by the inputs' keys.

    Raises:
        BadData: a setting is invalid, names an unknown input or one twice, or a file does not go
            with its input.
        OSError: a file cannot be read.
    """

    def read(slot: Slot, text: str, setting: str) -> Array:
        if not text:
            raise BadData(f"input {setting!r} names no file; expected NAME=FILE, such as x=image.bin")
        path = Path(text)
        with open_regular(path) as file:
            is_npy = file.read(len(_NPY)) == _NPY
            file.seek(0)
            if is_npy:
                return _read_npy(file, path, slot)
            default = tuple(length or 1 for length in slot.operand.dimensions or ())
            return _read_bytes(file, path, slot, shapes.get(slot.key, default))

    return dict(_by_key("input", settings, slots, read))


def _by_key(
    what: str, settings: Sequence[str], slots: Sequence[Slot], parse: Callable[[Slot, str, str], _Value]
) -> Mapping[str, _Value]:
    """Returns what each setting `NAME=TEXT` gives an input, by the inputs' keys."""
    by_name = {name: slot for slot in slots for name in (slot.alias, slot.key)}
    found: dict[str, _Value] = {}
    for setting in settings:
        # Names and files may have equals signs, too.
        named = [name for name in by_name if setting.startswith(f"{name}=")]
        if not named:
            raise BadData(f"{what} {setting!r} names no input; {known_inputs(slots)}")
        name = max(named, key=len)
        slot = by_name[name]
        if slot.key in found:
            raise BadData(
                f"{what} {setting!r}: input {slot.key!r} already has one; give at most one for each"
            )
        found[slot.key] = parse(slot, setting[len(name) + 1 :], setting)
    return found


def _read_npy(file: BinaryIO, path: Path, slot: Slot) -> Array:
    want = slot.operand
    is_text = want.type is OperandType.TENSOR_STRING
    # Damaged bytes make NumPy raise almost any exception.
    try:
        shape, dtype = read_header(file)
        has_enough_data = math.prod(shape) * dtype.itemsize <= _size(file) - file.tell()
    except Exception as error:
        raise BadData(f"{path} cannot be read: {error}") from None
    dtype_fits = dtype.kind in "SU" if is_text else dtype.newbyteorder("<") == want.type.dtype
    if not dtype_fits or not shape_fits(shape, want.dimensions):
        raise BadData(f"{path} is {describe_type(dtype, shape)}; expected {slot.describe()}")
    if not has_enough_data:
        raise BadData(f"{path} cannot be read: {_size(file)} bytes are too few for the shape {list(shape)}")
    file.seek(0)
    array = np.lib.format.read_array(file, allow_pickle=False)
    if is_text:
        return as_strings(array, str(path))
    return np.ascontiguousarray(array, want.type.dtype).reshape(shape)


def _read_bytes(file: BinaryIO, path: Path, slot: Slot, shape: tuple[int, ...]) -> Array:
    count, size = math.prod(shape), _size(file)
    if slot.operand.type is OperandType.TENSOR_STRING:
        if size > MAX_OPERAND_BYTES:
            raise BadData(f"{path} has {size} bytes; an operand has at most {MAX_OPERAND_BYTES}")
        strings = file.read(size).removesuffix(b"\0").split(b"\0")
        if len(strings) != count:
            raise BadData(
                f"{path} has {len(strings)} strings; {count} are expected for input {slot.describe()}"
            )
        return as_strings(np.array(strings, object).reshape(shape), str(path))
    dtype = slot.operand.type.dtype
    if size != count * dtype.itemsize:
        raise BadData(
            f"{path} has {size} bytes; {count * dtype.itemsize} are expected for input {slot.key!r}, which is "
            f"{describe_type(dtype, shape)}"
        )
    array = np.frombuffer(file.read(size), dtype).reshape(shape)
    # A byte of a bool may be any number in other tools.
    return array.view(np.uint8).astype(bool) if dtype.kind == "b" else array


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
