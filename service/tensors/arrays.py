"""Reads, writes and generates a model's inputs and outputs as arrays.

In an `.npz` file an array is named after its tensor, or by position (`input_0`, `output_0`, …). It
can only be named by position if the model's names are missing, not unique, or not valid as file
names. Strings are stored as arrays of NumPy's bytes and text types.
"""

import io
import math
import os
import stat
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.strings import as_strings
from neurald.hal.model.types import MAX_OPERAND_BYTES, OperandType
from neurald.hal.process.files.output_file import open_output
from neurald.hal.wording import listed
from neurald.service.tensors.files import open_archive, open_regular

Array = np.ndarray[Any, np.dtype[Any]]
#: The lowest and highest values of inputs, by their keys.
Ranges = Mapping[str, tuple[float, float]]

#: The seed of all random inputs.
SEED = 0

_MAX_NAME_LENGTH = 200
#: Maximum of random integers of 32 bits and more, which are often indices into short tables.
_MAX_RANDOM_INDEX = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One input or output of a model.

    Attributes:
        key: its name in a file.
        alias: its name by position, such as `input_0` or `output_0`, which also identifies it.
        operand: the operand of the main graph.
    """

    key: str
    alias: str
    operand: Operand

    def describe(self) -> str:
        """Returns the name, type and shape for messages."""
        is_text = self.operand.type is OperandType.TENSOR_STRING
        kind = "strings" if is_text else self.operand.type.dtype
        return f"{self.key!r} ({describe_type(kind, self.operand.dimensions)})"


def describe_type(kind: "np.dtype[Any] | str", shape: tuple[int, ...] | None) -> str:
    """Returns text such as `float32 [?, 8]`, where a question mark is an unspecified dimension."""
    if shape is None:
        return f"{kind} of any shape"
    return f"{kind} [{', '.join(str(d) if d else '?' for d in shape)}]"


def known_inputs(slots: Sequence[Slot]) -> str:
    """Says for a message what the inputs are, and which names by position stand for them."""
    names = [
        repr(slot.key) if slot.alias == slot.key else f"{slot.key!r} (or {slot.alias!r})" for slot in slots
    ]
    return f"the inputs are {listed(names)}" if names else "the model has no inputs"


def input_slots(model: Model) -> tuple[Slot, ...]:
    """Returns the inputs of the main graph, in order."""
    return _slots(model, model.inputs, model.input_names, "input")


def output_slots(model: Model) -> tuple[Slot, ...]:
    """Returns the outputs of the main graph, in order."""
    return _slots(model, model.outputs, model.output_names, "output")


def _slots(model: Model, indexes: Sequence[int], names: Sequence[str], kind: str) -> tuple[Slot, ...]:
    aliases = [f"{kind}_{position}" for position in range(len(indexes))]
    usable = len(set(names)) == len(indexes) and all(map(_is_file_name, names))
    keys = names if usable else aliases
    return tuple(
        # A name that is another tensor's key cannot be an alias.
        Slot(key=key, alias=key if alias in keys else alias, operand=model.main.operands[index])
        for key, alias, index in zip(keys, aliases, indexes, strict=True)
    )


def _is_file_name(name: str) -> bool:
    return (
        0 < len(name) <= _MAX_NAME_LENGTH
        and name.isprintable()
        and "\\" not in name
        and not name.startswith("/")
        and ".." not in name.split("/")
    )


def random_inputs(
    slots: Sequence[Slot],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = SEED,
    ranges: Ranges | None = None,
) -> list[Array]:
    """Generates random arrays, which are always the same for the same arguments.

    A slot whose key is in `shapes` gets that shape; otherwise unspecified dimensions are 1. Numbers
    of a slot whose key is in `ranges` are in that range. Other floats are in [0, 1), other integers
    of 8 and 16 bits cover their whole range, and wider ones are from 0 to 99. Strings are the
    digits of numbers from 0 to 99.
    """
    rng = np.random.default_rng(seed)
    given, limits = shapes or {}, ranges or {}
    arrays = []
    for slot in slots:
        shape = given.get(slot.key, tuple(d or 1 for d in slot.operand.dimensions or ()))
        if slot.key in limits:
            arrays.append(_random_between(rng, slot.operand.type.dtype, shape, *limits[slot.key]))
        else:
            arrays.append(_random(rng, slot.operand, shape))
    return arrays


#: Maximum size of an array's header. Those that NumPy writes have about a hundred bytes.
_MAX_HEADER_BYTES = 1 << 16
_LENGTH = struct.Struct("<I")
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: DEFLATE expands one byte to at most 1032 bytes.
_MAX_EXPANSION = 1032
#: Allowance for small members, in which headers count.
_EXPANSION_ALLOWANCE_BYTES = 1 << 10


def _random_between(
    rng: np.random.Generator, dtype: "np.dtype[Any]", shape: tuple[int, ...], low: float, high: float
) -> Array:
    if dtype.kind == "f":
        # The difference of the limits may be infinite.
        share = rng.random(shape)
        return (low * (1 - share) + high * share).astype(dtype)
    return rng.integers(int(low), int(high), shape, dtype.name, endpoint=True)


def _random(rng: np.random.Generator, operand: Operand, shape: tuple[int, ...]) -> Array:
    dtype = operand.type.dtype
    if dtype.kind == "O":
        return as_strings(
            rng.integers(0, _MAX_RANDOM_INDEX, shape, endpoint=True).astype(np.bytes_), "a number"
        )
    if dtype.kind == "c":
        return (rng.random(shape) + 1j * rng.random(shape)).astype(dtype)
    if dtype.kind == "f":
        # Rounding to float16 may give 1.0, which does not matter.
        return rng.random(shape, np.float32).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.itemsize >= 4:
        return rng.integers(0, _MAX_RANDOM_INDEX, shape, dtype.name, endpoint=True)
    info = np.iinfo(dtype.name)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def read_inputs(path: Path, slots: Sequence[Slot]) -> list[Array]:
    """Reads the inputs of a model from an `.npz` file, in the model's order.

    Nothing in the file is unpickled. The data of an array is read only if its header has the
    expected type and shape.

    Raises:
        BadData: the file is not an `.npz` file, or an input is missing, unknown, duplicated, or has
            the wrong type or shape.
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        try:
            archive = open_archive(file)
        except BadData:
            names = ", ".join(slot.key for slot in slots)
            raise BadData(
                f"{path} is not an .npz file; numpy.savez writes one, given an array for each input by name: "
                f"{names}"
            ) from None
        with archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            chosen = _match(path, members, slots)
            return [_read(archive, info, path, slot) for info, slot in zip(chosen, slots, strict=True)]


def _match(path: Path, members: dict[str, zipfile.ZipInfo], slots: Sequence[Slot]) -> list[zipfile.ZipInfo]:
    expected = ", ".join(slot.describe() for slot in slots) or "no inputs"
    chosen = []
    left = dict(members)
    for slot in slots:
        found = [left.pop(name) for name in dict.fromkeys((slot.key, slot.alias)) if name in left]
        if not found:
            names = ", ".join(map(repr, members)) or "nothing"
            raise BadData(f"{path} lacks input {slot.describe()}; it contains {names}")
        if len(found) > 1:
            raise BadData(f"{path} contains both {slot.key!r} and {slot.alias!r}, which name the same input")
        chosen.append(found[0])
    if left:
        names = ", ".join(map(repr, left))
        raise BadData(f"{path} contains {names}, which the model has no input for; it expects {expected}")
    return chosen


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, slot: Slot) -> Array:
    want = slot.operand
    if info.compress_type not in _COMPRESSIONS or info.file_size > _max_expanded_bytes(info.compress_size):
        raise BadData(
            f"{path}: {info.filename} claims to expand {info.compress_size} bytes to {info.file_size} "
            f"(compression method {info.compress_type}); numpy.savez does not write such files"
        )
    try:
        with archive.open(info) as member:
            shape, dtype = read_header(member)
        # A header that declares more data than the file has would cause a large allocation.
        has_enough_data = math.prod(shape) * max(1, dtype.itemsize) <= info.file_size
    # Damaged bytes make zipfile, zlib and NumPy raise almost any exception.
    except Exception as error:
        raise BadData(f"{path}: {info.filename} cannot be read: {error}") from None
    is_text = want.type is OperandType.TENSOR_STRING
    dtype_fits = dtype.kind in "SU" if is_text else dtype.newbyteorder("<") == want.type.dtype
    if not dtype_fits or not shape_fits(shape, want.dimensions):
        raise BadData(f"{path}: {info.filename} is {describe_type(dtype, shape)}; expected {slot.describe()}")
    try:
        if not has_enough_data:
            raise ValueError(f"{info.file_size} bytes are too few for the shape {list(shape)}")
        with archive.open(info) as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
            # At the end of the member the archive verifies its checksum.
            member.read(1)
    except Exception as error:
        raise BadData(f"{path}: {info.filename} cannot be read: {error}") from None
    if is_text:
        return as_strings(array, f"{path}: {info.filename}")
    return np.ascontiguousarray(array, want.type.dtype).reshape(shape)


def _max_expanded_bytes(compressed: int) -> int:
    """Returns the maximum size to which NumPy's compression methods can expand compressed bytes."""
    return _MAX_EXPANSION * compressed + _EXPANSION_ALLOWANCE_BYTES


def read_header(member: IO[bytes]) -> "tuple[tuple[int, ...], np.dtype[Any]]":
    """Reads the header of an array that `numpy.save` wrote, and returns its shape and type.

    Raises:
        ValueError: it is damaged, or unusually long.
    """
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
    elif version == (2, 0):
        # NumPy accepts a length of up to 4 GiB and reads that many bytes before it checks anything.
        prefix = member.read(_LENGTH.size)
        length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else 0
        if length > _MAX_HEADER_BYTES:
            raise ValueError(
                f"its header of {length} bytes is too long; expected at most {_MAX_HEADER_BYTES}"
            )
        shape, _, dtype = np.lib.format.read_array_header_2_0(io.BytesIO(prefix + member.read(length)))
    else:
        raise ValueError(f"its format version is {version[0]}.{version[1]}; expected 1.0 or 2.0")
    return shape, dtype


def shape_fits(shape: tuple[int, ...], dimensions: tuple[int, ...] | None) -> bool:
    """Returns True if an array of this shape fits an operand of these dimensions."""
    if dimensions is None:
        return True
    return len(shape) == len(dimensions) and all(
        want in (0, found) for found, want in zip(shape, dimensions, strict=True)
    )


def write_outputs(path: Path, slots: Sequence[Slot], arrays: Sequence[Array]) -> None:
    """Writes the outputs of a model to an `.npz` file.

    Raises:
        BadData: strings cannot be written, because one ends with a zero byte or they are too long.
        OSError: the file cannot be written.
    """
    stored = [_to_write(np.asarray(array), slot) for slot, array in zip(slots, arrays, strict=True)]
    # numpy.savez reserves the names `file` and `allow_pickle` for its own arguments.
    with open_output(path) as file, zipfile.ZipFile(_sought(file), "w") as archive:
        for slot, array in zip(slots, stored, strict=True):
            with archive.open(f"{slot.key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


class _Stream:
    """A device or pipe, whose position is not told: devices say that it is always 0."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write, self.flush = file.write, file.flush


def _sought(file: IO[bytes]) -> Any:
    """Returns a file for `zipfile`, which goes back to the sizes of members where it can."""
    return file if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else _Stream(file)


def _to_write(array: Array, slot: Slot) -> Array:
    """Pads strings with zero bytes to equal length; returns other arrays unchanged."""
    if slot.operand.type is not OperandType.TENSOR_STRING:
        return array
    strings: list[bytes] = array.reshape(-1).tolist()
    if any(string.endswith(b"\0") for string in strings):
        raise BadData(
            f"output {slot.key!r} has a string that ends with a zero byte, which .npz files cannot represent"
        )
    longest = max(map(len, strings), default=0)
    if longest * len(strings) > MAX_OPERAND_BYTES:
        raise BadData(
            f"output {slot.key!r} has {len(strings)} strings of up to {longest} bytes, which do not fit "
            "into an .npz file, where all strings of an array have the same size"
        )
    return np.array(strings, f"S{max(1, longest)}").reshape(array.shape)
