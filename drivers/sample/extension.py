"""The vendor extension of the sample driver: operations and operand types that Android NN lacks.

The extension has two operand types: pictures (tensors whose elements are pixels of three bytes) and
weights (a scalar of three float32). Its two operations convert between pictures and float32
tensors. An extension consists of five parts:

- the declaration, which clients see, and by which the runtime decides whether two devices have the
  same extension (`EXTENSION`);
- a signature for each operation, with the types and ranks of its operands (`Form` and `row`);
- a shape rule for each operation, which returns the shapes of its outputs;
- an implementation of each operation, which is a kernel on a real device;
- a parser for the values of attributes, which refuses invalid values.

Extension data are bytes that an application attaches to an operand. Those of a picture give the
order of a pixel's channels: `rgb` (the default) or `bgr`.

Attributes are bytes that an application attaches to a compilation or to an execution. `ROUNDING` of
a compilation selects how gray values are rounded to integers: `nearest` (the default) or `down`.
`ORIENTATION` of an execution selects the order of the rows of output pictures: `upright` (the
default) or `flipped`.
"""

from collections.abc import Callable, Sequence

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.extension import (
    Extension,
    ExtensionAttribute,
    ExtensionOperandType,
    ExtensionOperation,
)
from neurald.hal.model.extension_attribute import AttributeValue, attribute_value
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, row, scalar, tensor
from neurald.hal.types import FeatureLevel, Model, OperandType, Operation, Subgraph
from neurald.hal.validation.shape_inference import declared_shape

EXTENSION = Extension(
    name="org.neurald.sample",
    operand_types=(
        ExtensionOperandType(code=0, name="TENSOR_PIXELS", is_tensor=True, element_bytes=3),
        ExtensionOperandType(code=1, name="WEIGHTS", is_tensor=False, element_bytes=12),
    ),
    operations=(
        ExtensionOperation(code=0, name="PIXELS_TO_GRAY"),
        ExtensionOperation(code=1, name="GRAY_TO_PIXELS"),
    ),
    compilation_attributes=(ExtensionAttribute(code=0, name="ROUNDING"),),
    execution_attributes=(ExtensionAttribute(code=0, name="ORIENTATION"),),
)

TENSOR_PIXELS = EXTENSION.operand_type(0)
WEIGHTS = EXTENSION.operand_type(1)
PIXELS_TO_GRAY = EXTENSION.operation_type(0)
GRAY_TO_PIXELS = EXTENSION.operation_type(1)
ROUNDING = 0
ORIENTATION = 0

_CHANNEL_ORDERS = (b"", b"rgb", b"bgr")


def _check_channel_order(call: Call) -> None:
    for name in ("pixels", "gray"):
        data = call.operand(name).extension_data
        if data not in _CHANNEL_ORDERS:
            raise BadData(f"{call.name(name)} has extension data {data[:16]!r}; expected rgb or bgr")


def _same_shape(call: Call) -> tuple[Shape, ...]:
    return (call.shape(next(iter(call.binding.inputs))),)


def _reordered(values: Array, data: bytes) -> Array:
    """Converts pixels from the order of their extension data to red, green and blue, or back."""
    return values[..., ::-1] if data == b"bgr" else values


def _pixels_to_gray(call: Call) -> tuple[Array, ...]:
    pixels = np.ascontiguousarray(call.array("pixels"))
    channels = pixels.view(np.uint8).reshape(*pixels.shape, 3)
    # Another process may change shared memory, so the weights are copied before they are used.
    weights = np.frombuffer(call.array("weights").tobytes(), "<f4")
    real = _reordered(channels, call.operand("pixels").extension_data).astype(np.float32)
    return (np.clip(real @ weights, 0.0, 255.0).astype(np.float32),)


def gray_to_pixels(call: Call, round_gray: Callable[[Array], Array] = np.rint) -> tuple[Array, ...]:
    """Computes GRAY_TO_PIXELS.

    Args:
        call: the operation and its arguments.
        round_gray: rounds gray values to integers.
    """
    gray = np.nan_to_num(np.clip(call.array("gray"), 0.0, 255.0))
    channels = np.repeat(round_gray(gray).astype(np.uint8)[..., np.newaxis], 3, axis=-1)
    return (np.ascontiguousarray(channels).view(TENSOR_PIXELS.dtype).reshape(gray.shape),)


def rounding(attributes: Sequence[AttributeValue]) -> Callable[[Array], Array]:
    """Returns the function that rounds gray values in a compilation with these attributes.

    Raises:
        BadData: the value of ROUNDING is invalid.
    """
    value = attribute_value(attributes, EXTENSION, ROUNDING)
    if value not in (None, b"nearest", b"down"):
        raise BadData(f"attribute ROUNDING of {EXTENSION.name} is {value[:16]!r}; expected nearest or down")
    return np.floor if value == b"down" else np.rint


def is_flipped(attributes: Sequence[AttributeValue]) -> bool:
    """Returns True if an execution with these attributes writes the rows of pictures in reverse.

    Raises:
        BadData: the value of ORIENTATION is invalid.
    """
    value = attribute_value(attributes, EXTENSION, ORIENTATION)
    if value not in (None, b"upright", b"flipped"):
        raise BadData(
            f"attribute ORIENTATION of {EXTENSION.name} is {value[:16]!r}; expected upright or flipped"
        )
    return value == b"flipped"


DEFINITIONS = {
    definition.type: definition
    for definition in (
        Definition(
            type=PIXELS_TO_GRAY,
            forms=(
                Form(
                    inputs=(tensor("pixels", TENSOR_PIXELS, rank=2), scalar("weights", WEIGHTS)),
                    outputs=(tensor("gray", OperandType.TENSOR_FLOAT32, rank=2),),
                ),
            ),
            rows=(row(FeatureLevel.LEVEL_3),),
            checks=(_check_channel_order,),
            shape=_same_shape,
            reference=_pixels_to_gray,
            arithmetic=frozenset(("pixels", "weights")),
        ),
        Definition(
            type=GRAY_TO_PIXELS,
            forms=(
                Form(
                    inputs=(tensor("gray", OperandType.TENSOR_FLOAT32, rank=2),),
                    outputs=(tensor("pixels", TENSOR_PIXELS, rank=2),),
                ),
            ),
            rows=(row(FeatureLevel.LEVEL_3),),
            checks=(_check_channel_order,),
            shape=_same_shape,
            reference=gray_to_pixels,
            arithmetic=frozenset(("gray",)),
        ),
    )
}


def extension_unsupported_reason(model: Model, graph: Subgraph, operation: Operation) -> str:
    """Returns the reason why an operation of the extension is not supported, or "".

    The runtime cannot check operations of vendor extensions, so the driver does. Values and shapes
    that are not known yet are checked when the operation runs.
    """
    definition = DEFINITIONS[operation.type]
    try:
        call = Call(
            definition.bind(operation, graph.operands),
            graph.operands,
            lambda index: declared_shape(graph.operands[index]),
            lambda index: model.constant(graph.operands[index]),
        )
        definition.check(call)
        definition.output_shapes(call)
    except UnknownValue:
        return ""
    except BadData as error:
        return str(error)
    return ""
