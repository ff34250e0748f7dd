"""The frozen values that describe a model and a request, shared by runtime, wire and drivers.

Dimensions follow Android with one addition. A dimension of 0 is unspecified; `None` instead of a
tuple means that even the rank is unspecified (Android writes that as rank 0, and `ModelBuilder`
accepts it). A tensor of rank 0, `()`, is a true scalar tensor, as in TFLite.
"""

import math
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Self

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.enum_members import add_member
from neurald.hal.model.operation_type import TFLITE_EXTENSION_BASE, OperationType
from neurald.hal.model.strings import decode_strings, encode_strings, least_bytes
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace

Dimensions = tuple[int, ...] | None

#: Maximum size of one operand: it must fit in 32 bits.
MAX_OPERAND_BYTES = 0xFFFF_FFFF


class OperandType(IntEnum):
    """Android NN's operand types, and those of `neurald.tflite`.

    The names are those of `OperandType.aidl`, except that SUBGRAPH is called MODEL. Operand types
    of vendor extensions are added at run time; see `neurald.hal.model.extension`.
    """

    FLOAT32 = 0
    INT32 = 1
    UINT32 = 2
    TENSOR_FLOAT32 = 3
    TENSOR_INT32 = 4
    TENSOR_QUANT8_ASYMM = 5
    BOOL = 6
    TENSOR_QUANT16_SYMM = 7
    TENSOR_FLOAT16 = 8
    TENSOR_BOOL8 = 9
    FLOAT16 = 10
    TENSOR_QUANT8_SYMM_PER_CHANNEL = 11
    TENSOR_QUANT16_ASYMM = 12
    TENSOR_QUANT8_SYMM = 13
    TENSOR_QUANT8_ASYMM_SIGNED = 14
    MODEL = 15

    # Of the extension `neurald.tflite`.
    TENSOR_INT64 = TFLITE_EXTENSION_BASE
    TENSOR_UINT32 = TFLITE_EXTENSION_BASE + 1
    TENSOR_UINT64 = TFLITE_EXTENSION_BASE + 2
    TENSOR_FLOAT64 = TFLITE_EXTENSION_BASE + 3
    TENSOR_COMPLEX64 = TFLITE_EXTENSION_BASE + 4
    #: The only type whose size does not follow from the shape; see `neurald.hal.model.strings`.
    TENSOR_STRING = TFLITE_EXTENSION_BASE + 5
    TENSOR_COMPLEX128 = TFLITE_EXTENSION_BASE + 6

    @property
    def is_tensor(self) -> bool:
        """True if operands of this type have dimensions."""
        return self not in _SCALARS

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """The NumPy type of one stored element; object for strings, which are stored as a buffer.

        Raises:
            BadData: the type is MODEL, which has no elements.
        """
        if self is OperandType.MODEL:
            raise BadData("an operand of type MODEL holds a model, not data")
        found = _DTYPES.get(self)
        if found is None:
            found = _DTYPES[self] = np.dtype(_FORMATS[self])
        return found


_SCALARS = {
    OperandType.FLOAT32,
    OperandType.INT32,
    OperandType.UINT32,
    OperandType.BOOL,
    OperandType.FLOAT16,
    OperandType.MODEL,
}

#: The NumPy types of elements, as text.
_FORMATS: dict[OperandType, str] = {
    OperandType.FLOAT32: "<f4",
    OperandType.INT32: "<i4",
    OperandType.UINT32: "<u4",
    OperandType.TENSOR_FLOAT32: "<f4",
    OperandType.TENSOR_INT32: "<i4",
    OperandType.TENSOR_QUANT8_ASYMM: "u1",
    OperandType.BOOL: "?",
    OperandType.TENSOR_QUANT16_SYMM: "<i2",
    OperandType.TENSOR_FLOAT16: "<f2",
    OperandType.TENSOR_BOOL8: "?",
    OperandType.FLOAT16: "<f2",
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL: "i1",
    OperandType.TENSOR_QUANT16_ASYMM: "<u2",
    OperandType.TENSOR_QUANT8_SYMM: "i1",
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: "i1",
    OperandType.TENSOR_INT64: "<i8",
    OperandType.TENSOR_UINT32: "<u4",
    OperandType.TENSOR_UINT64: "<u8",
    OperandType.TENSOR_FLOAT64: "<f8",
    OperandType.TENSOR_COMPLEX64: "<c8",
    OperandType.TENSOR_STRING: "O",
    OperandType.TENSOR_COMPLEX128: "<c16",
}


#: Size of an element of the built-in types.
_ITEM_BYTES = {
    kind: {"?": 1, "O": 8}.get(text) or int(text.lstrip("<cfiu")) for kind, text in _FORMATS.items()
}
#: The NumPy types that have been used.
_DTYPES: dict[OperandType, "np.dtype[np.generic]"] = {}


def add_operand_type(number: int, name: str, element_bytes: int, *, is_tensor: bool) -> None:
    """Registers an operand type of a vendor's extension; see `neurald.hal.model.extension`."""
    kind = add_member(OperandType, number, name)
    _FORMATS[kind] = f"V{element_bytes}"
    if not is_tensor:
        _SCALARS.add(kind)


class FeatureLevel(IntEnum):
    """Android NN's feature levels, which say what operations a device may be asked to run."""

    LEVEL_1 = 27
    LEVEL_2 = 28
    LEVEL_3 = 29
    LEVEL_4 = 30
    LEVEL_5 = 31
    LEVEL_6 = 1000006
    LEVEL_7 = 1000007
    LEVEL_8 = 1000008
    #: Above all released levels: experimental on Android.
    EXPERIMENTAL = 0x7FFF_FFFF


class Lifetime(IntEnum):
    """The source of an operand's value (`OperandLifeTime.aidl`)."""

    TEMPORARY_VARIABLE = 0
    SUBGRAPH_INPUT = 1
    SUBGRAPH_OUTPUT = 2
    CONSTANT_COPY = 3
    CONSTANT_POOL = 4
    NO_VALUE = 5
    SUBGRAPH = 6

    @property
    def is_constant(self) -> bool:
        """True if the value is part of the model."""
        return self in _CONSTANT


_CONSTANT = frozenset((Lifetime.CONSTANT_COPY, Lifetime.CONSTANT_POOL))


class DeviceType(IntEnum):
    """The kind of hardware of a device (`DeviceType.aidl`)."""

    UNKNOWN = 0
    OTHER = 1
    CPU = 2
    GPU = 3
    ACCELERATOR = 4


class Preference(IntEnum):
    """The goal that a compilation optimises for."""

    LOW_POWER = 0
    FAST_SINGLE_ANSWER = 1
    SUSTAINED_SPEED = 2


class Priority(IntEnum):
    """Rank of a compilation's executions among those of the same user.

    See `neurald.hal.admission.admission_queue`.
    """

    LOW = 90
    MEDIUM = 100
    HIGH = 110


class Duration(IntEnum):
    """The part of an execution that a duration covers."""

    ON_HARDWARE = 0
    IN_DRIVER = 1
    FENCED_ON_HARDWARE = 2
    FENCED_IN_DRIVER = 3


class FusedActivation(IntEnum):
    """The activation that an operation applies to its result."""

    NONE = 0
    RELU = 1
    RELU1 = 2
    RELU6 = 3


class PaddingScheme(IntEnum):
    """Implicit padding of windowed operations."""

    SAME = 1
    VALID = 2


class ChannelQuant(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Scales of a TENSOR_QUANT8_SYMM_PER_CHANNEL operand, one for each index along `dimension`."""

    dimension: int
    scales: tuple[float, ...]


class Location(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A byte range in one of a model's pools."""

    pool: int
    offset: int
    length: int


class Operand(Struct, frozen=True, kw_only=True, array_like=True, eq=False, gc=False):
    """A value of a model: its type, shape and quantisation, and the bytes of a constant.

    Attributes:
        dimensions: see the module's docstring; `()` for scalar types.
        scale, zero_point: real value = (quantised value - zero_point) * scale; 0 if the type has
            none.
        value: the bytes of a CONSTANT_COPY operand.
        location: where the bytes of a CONSTANT_POOL operand are.
        subgraph: for a SUBGRAPH operand, the index into `Model.referenced`.
        name: for messages and `.npz` keys; need not be unique.
        extension_data: for an operand of a vendor's type, bytes that its devices interpret.
        number: its number in messages, see `neurald.hal.model.numbering`; None for its index.
    """

    type: OperandType
    dimensions: Dimensions = ()
    scale: float = 0.0
    zero_point: int = 0
    channel_quant: ChannelQuant | None = None
    lifetime: Lifetime = Lifetime.TEMPORARY_VARIABLE
    value: bytes = b""
    location: Location | None = None
    subgraph: int | None = None
    name: str = ""
    extension_data: bytes = b""
    number: int | None = None

    def __eq__(self, other: object) -> bool:
        """Compares everything but the number."""
        return isinstance(other, Operand) and _compared(self) == _compared(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of `Struct` compares identities

    def __hash__(self) -> int:
        return hash(_compared(self))

    @property
    def is_fully_specified(self) -> bool:
        """True if the rank and all dimensions are known."""
        return self.dimensions is not None and (0 not in self.dimensions or self.lifetime.is_constant)


def _compared(record: Struct) -> tuple[object, ...]:
    """Returns the fields of a record by which it is compared: all but its number."""
    return tuple([getattr(record, name) for name in record.__struct_fields__ if name != "number"])


def counted(count: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 input` or `3 inputs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def byte_size(operand_type: OperandType, dimensions: tuple[int, ...]) -> int:
    """Returns the size in bytes of a dense value; the minimum size for strings."""
    if operand_type is OperandType.TENSOR_STRING:
        return least_bytes(math.prod(dimensions))
    size = _ITEM_BYTES.get(operand_type)
    return math.prod(dimensions) * (operand_type.dtype.itemsize if size is None else size)


def value_size(operand_type: OperandType, dimensions: Dimensions) -> int | None:
    """Returns the size of a value in bytes; None if type and dimensions do not determine it."""
    if dimensions is None or 0 in dimensions or operand_type is OperandType.TENSOR_STRING:
        return None
    return byte_size(operand_type, dimensions)


class Operation(Struct, frozen=True, kw_only=True, array_like=True, eq=False, gc=False):
    """One operation of a subgraph: the operands that it reads and writes, by index.

    Attributes:
        number: its number in messages, see `neurald.hal.model.numbering`; None for its position.
    """

    type: OperationType
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    number: int | None = None

    def __eq__(self, other: object) -> bool:
        """Compares everything but the number."""
        return isinstance(other, Operation) and _compared(self) == _compared(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of `Struct` compares identities

    def __hash__(self) -> int:
        return hash(_compared(self))


class Subgraph(Struct, frozen=True, kw_only=True, array_like=True, eq=False, weakref=True):
    """Operands and operations in execution order; `inputs` and `outputs` are operand indexes.

    Attributes:
        number: of the graph in the application's model: 0 for the main graph, k + 1 for
            `Model.referenced[k]`. `Model` assigns missing numbers.
    """

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    number: int = 0

    @property
    def operation_numbers(self) -> tuple[int, ...]:
        """The application's numbers of all operations, in execution order."""
        return tuple([n if each.number is None else each.number for n, each in enumerate(self.operations)])

    def __eq__(self, other: object) -> bool:
        """Compares everything but the number."""
        return isinstance(other, Subgraph) and _compared(self) == _compared(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of `Struct` compares identities

    def __hash__(self) -> int:
        return hash(_compared(self))

    def __repr__(self) -> str:
        return (
            f"<Subgraph of {counted(len(self.operations), 'operation')}, "
            f"{counted(len(self.operands), 'operand')}, {counted(len(self.inputs), 'input')}, "
            f"{counted(len(self.outputs), 'output')}>"
        )


class SignatureNames(Struct, frozen=True, kw_only=True, array_like=True):
    """A named entry point of a `.tflite` file: the names of its inputs and outputs, in order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class StateVariable(Struct, frozen=True, kw_only=True, eq=False):
    """A value that persists from one execution to the next.

    An execution reads it as one of the model's inputs and returns its new value as one of the
    outputs.

    Attributes:
        name: for messages.
        initial: value before the first execution.
    """

    name: str
    initial: "np.ndarray"


class ModelContent(Struct, frozen=True, kw_only=True, eq=False):
    """The graphs of a model and the memories of their constants; see `Model`."""

    main: Subgraph
    referenced: tuple[Subgraph, ...] = ()
    pools: tuple[Memory, ...] = ()


class Outline(Struct, frozen=True, kw_only=True, array_like=True, eq=False):
    """Describes what a start needs to know of a model that was compiled earlier.

    Attributes:
        inputs, outputs: those of the main graph.
        input_operands, output_operands: the same as operands.
        operations: the application's numbers of the main graph's operations.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_operands: tuple[Operand, ...]
    output_operands: tuple[Operand, ...]
    operations: tuple[int, ...]

    @classmethod
    def of(cls, graph: Subgraph) -> Self:
        """Returns the outline of a model with this main graph."""
        operands = graph.operands
        return cls(
            inputs=graph.inputs,
            outputs=graph.outputs,
            input_operands=tuple([operands[index] for index in graph.inputs]),
            output_operands=tuple([operands[index] for index in graph.outputs]),
            operations=graph.operation_numbers,
        )


class Model:
    """A finished model, which never changes. Compared by identity; pools are referenced, never copied.

    The graphs and pools of a model that was converted earlier are read when somebody asks for them.

    Attributes:
        main: the graph that executions run.
        referenced: the graphs that IF and WHILE operations of any graph refer to.
        pools: the memories that hold CONSTANT_POOL operands.
        relaxed: whether float32 may be computed with the range and precision of float16.
        state: variables of the model. They are the last of `main.inputs` and of `main.outputs`, in
            this order.
        input_names, output_names: for each input and output that is not a state variable.
        signatures: the entry points that the model's file declares.
    """

    __slots__ = (
        "__weakref__",
        "_content",
        "_outline",
        "input_names",
        "output_names",
        "relaxed",
        "signatures",
        "state",
    )

    #: Or what reads it.
    _content: ModelContent | Callable[[], ModelContent]
    _outline: Outline | None
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    relaxed: bool
    signatures: Mapping[str, SignatureNames]
    state: tuple[StateVariable, ...]

    def __init__(
        self,
        *,
        main: Subgraph,
        referenced: tuple[Subgraph, ...] = (),
        pools: tuple[Memory, ...] = (),
        relaxed: bool = False,
        state: tuple[StateVariable, ...] = (),
        input_names: tuple[str, ...] = (),
        output_names: tuple[str, ...] = (),
        signatures: Mapping[str, SignatureNames] = MappingProxyType({}),
    ) -> None:
        if not all(graph.number for graph in referenced):
            referenced = tuple(
                [
                    graph if graph.number else replace(graph, number=position)
                    for position, graph in enumerate(referenced, start=1)
                ]
            )
        self._set(
            _content=ModelContent(main=main, referenced=referenced, pools=pools),
            _outline=None,
            relaxed=relaxed,
            state=state,
            input_names=input_names,
            output_names=output_names,
            signatures=signatures,
        )

    @classmethod
    def read_later(
        cls,
        outline: Outline,
        read: Callable[[], ModelContent],
        *,
        state: tuple[StateVariable, ...],
        input_names: tuple[str, ...],
        output_names: tuple[str, ...],
        signatures: Mapping[str, SignatureNames],
    ) -> Self:
        """Returns a model whose content is read when it is needed.

        Args:
            outline: of the main graph.
            read: returns the content, whose referenced graphs are numbered. Several threads may
                call it, at first.
            state, input_names, output_names, signatures: see the class.
        """
        model = cls.__new__(cls)
        model._set(
            _content=read,
            _outline=outline,
            relaxed=False,
            state=state,
            input_names=input_names,
            output_names=output_names,
            signatures=signatures,
        )
        return model

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a finished model does not change, so {name!r} cannot be set")

    def __replace__(self, **changes: Any) -> Self:
        """Returns a copy with the given attributes changed."""
        kept = {name: getattr(self, name) for name in _MODEL_ATTRIBUTES if name not in changes}
        return type(self)(**kept, **changes)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        """Pickles the model with its constants, so that it needs its file no more."""
        values = {name: getattr(self, name) for name in _MODEL_ATTRIBUTES}
        values["pools"] = tuple([bytes(pool.view()) for pool in self.pools])
        values["signatures"] = dict(self.signatures)
        return _unpickled_model, (values,)

    def __repr__(self) -> str:
        graphs = f", {counted(len(self.referenced), 'referenced graph')}" if self.referenced else ""
        operations = len(self.main.operations) + sum(len(graph.operations) for graph in self.referenced)
        return (
            f"<Model of {counted(operations, 'operation')}{graphs}, "
            f"{counted(len(self.inputs), 'input')}, {counted(len(self.outputs), 'output')}>"
        )

    @property
    def content(self) -> ModelContent:
        """The graphs and the memories of their constants, which are read now if they have not been.

        Raises:
            Error: they cannot be read.
        """
        found = self._content
        if isinstance(found, ModelContent):
            return found
        read = found()
        with _reading:
            # Another thread may have been faster.
            if isinstance(self._content, ModelContent):
                return self._content
            self._set(_content=read)
        return read

    @property
    def main(self) -> Subgraph:
        """See the class."""
        return self.content.main

    @property
    def referenced(self) -> tuple[Subgraph, ...]:
        """See the class."""
        return self.content.referenced

    @property
    def pools(self) -> tuple[Memory, ...]:
        """See the class."""
        return self.content.pools

    @property
    def outline(self) -> Outline:
        """What is known without reading the content. The model must have been validated."""
        found = self._outline
        if found is None:
            found = Outline.of(self.main)
            self._set(_outline=found)
        return found

    @property
    def inputs(self) -> tuple[int, ...]:
        """The operands of `main` that an execution is given: its inputs without state variables."""
        inputs = self.main.inputs if self._outline is None else self._outline.inputs
        return inputs[: len(inputs) - len(self.state)]

    @property
    def outputs(self) -> tuple[int, ...]:
        """The operands of `main` that an execution returns: its outputs without state variables."""
        outputs = self.main.outputs if self._outline is None else self._outline.outputs
        return outputs[: len(outputs) - len(self.state)]

    @property
    def input_operands(self) -> tuple[Operand, ...]:
        """The operands that `inputs` are."""
        operands = self.outline.input_operands
        return operands[: len(operands) - len(self.state)]

    @property
    def output_operands(self) -> tuple[Operand, ...]:
        """The operands that `outputs` are."""
        operands = self.outline.output_operands
        return operands[: len(operands) - len(self.state)]

    def constant(self, operand: Operand) -> "np.ndarray | None":
        """Returns the value of a constant operand; None for any other lifetime.

        The array is read-only, has the operand's shape, and is not a copy except for bools and
        strings. The model must have been validated.
        """
        if operand.lifetime is Lifetime.CONSTANT_COPY:
            if not operand.type.is_tensor:
                return _scalar_array(operand.value, operand.type)
            source = memoryview(operand.value)
        elif operand.lifetime is Lifetime.CONSTANT_POOL and operand.location is not None:
            place = operand.location
            source = self.pools[place.pool].view(place.offset, place.length)
        else:
            return None
        array = stored_array(source, operand.type, operand.dimensions or ())
        array.flags.writeable = False
        return array


#: What a model is made with.
_MODEL_ATTRIBUTES = (
    "main",
    "referenced",
    "pools",
    "relaxed",
    "state",
    "input_names",
    "output_names",
    "signatures",
)


def _unpickled_model(values: dict[str, Any]) -> Model:
    """Returns a model from its attributes, with the bytes of its pools instead of memories."""
    pools = [
        SharedMemory.constant(memoryview(pool)) if pool else HostMemory(pool) for pool in values["pools"]
    ]
    return Model(**{**values, "pools": tuple(pools)})


#: Held while a model gets the content that was read.
_reading = forkable_lock()


@lru_cache(maxsize=4096)
def _scalar_array(value: bytes, operand_type: OperandType) -> "np.ndarray":
    """Returns the read-only array of a scalar. Cached, because models repeat a few values."""
    array = stored_array(memoryview(value), operand_type, ())
    array.flags.writeable = False
    return array


def stored_array(source: memoryview, operand_type: OperandType, shape: tuple[int, ...]) -> "np.ndarray":
    """Views bytes as an array; strings and bools are copied.

    Bools are copied because any byte but 0 is true, and NumPy needs a 1.

    Args:
        source: exactly the bytes of the value; a string buffer may be longer.
        operand_type: of the value.
        shape: of the value.

    Raises:
        BadData: the bytes are not a buffer of that many strings.
    """
    if operand_type is OperandType.TENSOR_STRING:
        return decode_strings(source, shape)
    dtype = operand_type.dtype
    if dtype.kind == "b":
        return np.asarray(np.frombuffer(source, np.uint8) != 0).reshape(shape)
    return np.frombuffer(source, dtype).reshape(shape)


def first_elements(array: "np.ndarray", shape: tuple[int, ...]) -> "np.ndarray":
    """Returns the first elements of an array in this shape; a copy if they take little of its memory."""
    found = array.reshape(-1)[: math.prod(shape)].reshape(shape)
    return found if 2 * found.nbytes >= array.nbytes else found.copy()


def as_elements(array: "np.ndarray", operand_type: OperandType) -> "np.ndarray":
    """Returns `array`, viewed as raw elements if the type is a vendor's.

    Args:
        array: of any type. If it is not C-contiguous, or its elements have another size, it is
            returned unchanged.
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


class Argument(Struct, frozen=True, kw_only=True):
    """One input or output of a request.

    Attributes:
        pool: index into the request's pools; None for an omitted optional argument.
        offset, length: the bytes of the argument in that pool.
        dimensions: its shape; None for the model's. Outputs may have unspecified dimensions (0).
        padding: number of bytes after the argument that the device may read or overwrite.
    """

    pool: int | None = None
    offset: int = 0
    length: int = 0
    dimensions: Dimensions = None
    padding: int = 0


class Request(Struct, frozen=True, kw_only=True, weakref=True):
    """The arguments of one execution, in the order of the model's inputs and outputs."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    pools: tuple[Memory, ...]
