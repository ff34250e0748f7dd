"""Declarations of vendor extensions and their types, also when they come from other processes."""

import pytest
from support.sweeps import sweep

import neurald as nd
from neurald._proto import types_pb2
from neurald.drivers.sample.device import create_all
from neurald.drivers.sample.extension import EXTENSION, TENSOR_PIXELS
from neurald.hal.errors import BadData, Error, ResourceExhaustedPersistent
from neurald.hal.model.extension import (
    MAX_EXTENSIONS,
    Extension,
    ExtensionAttribute,
    ExtensionOperandType,
    ExtensionOperation,
    extension_of,
    vendor_extensions,
)
from neurald.hal.rpc.wire.extension import extension_to_wire, extensions_from_wire
from neurald.hal.rpc.wire.model import decode_model, encode_model, model_from_wire, model_to_wire
from neurald.hal.validation.model_rules import validate_model

pytestmark = pytest.mark.quick

FLOAT = nd.OperandType.TENSOR_FLOAT32


def kind(code: int = 0, name: str = "TENSOR", element_bytes: int = 4) -> ExtensionOperandType:
    return ExtensionOperandType(code=code, name=name, is_tensor=True, element_bytes=element_bytes)


def to_pixels() -> nd.Model:
    builder = nd.ModelBuilder([create_all()])
    gray = builder.add_operand(FLOAT, (2, 3))
    pixels = builder.add_operand(builder.extension_operand_type(EXTENSION.name, 0), (2, 3))
    builder.set_operand_extension_data(pixels, b"rgb")
    builder.add_operation(builder.extension_operation_type(EXTENSION.name, 1), [gray], [pixels])
    builder.identify_inputs_and_outputs([gray], [pixels])
    return builder.finish()


@sweep(
    "name",
    ["", "vendor", "Com.vendor", "com..x", ".com.x", "com.x.", "com.x\n", "com.vendör", "a." + 300 * "b"],
)
def test_names(name: str) -> None:
    with pytest.raises(BadData, match=r"a name like com\.vendor\.name"):
        Extension(name=name)


@sweep(
    ("make", "words"),
    [
        (lambda: kind(code=0x10000), "code 65536; 0 to 65535"),
        (lambda: kind(code=-1), "code -1"),
        (lambda: kind(name="a b"), "letters, digits and _"),
        (lambda: kind(element_bytes=0), "an element of 0 bytes"),
        (lambda: kind(element_bytes=1 << 20), "an element of 1048576 bytes"),
        (
            lambda: Extension(name="com.x", operand_types=(kind(), kind(name="B"))),
            "two operand types have the same code",
        ),
        (
            lambda: Extension(name="com.x", operand_types=(kind(), kind(code=1))),
            "two operand types have the same name",
        ),
        (
            lambda: Extension(
                name="com.x",
                operations=tuple(ExtensionOperation(code=n, name=f"O{n}") for n in range(5000)),
            ),
            "5000 operations; at most 4096",
        ),
        (
            lambda: Extension(
                name="com.x",
                compilation_attributes=(
                    ExtensionAttribute(code=0, name="A"),
                    ExtensionAttribute(code=0, name="B"),
                ),
            ),
            "two compilation attributes have the same code",
        ),
        (
            lambda: Extension(
                name="com.x",
                execution_attributes=(
                    ExtensionAttribute(code=0, name="A"),
                    ExtensionAttribute(code=1, name="A"),
                ),
            ),
            "two execution attributes have the same name",
        ),
        (lambda: ExtensionAttribute(code=1 << 16, name="A"), "code 65536; 0 to 65535"),
        (lambda: Extension(name="neurald.tflite"), "part of neurald"),
    ],
)
def test_declarations_that_are_none(make: object, words: str) -> None:
    with pytest.raises(BadData, match=words):
        make()  # type: ignore[operator]


def test_declarations_are_values_whatever_their_order() -> None:
    types = (kind(0, "A"), kind(1, "B"))
    first = Extension(name="com.vendor.order", operand_types=types)
    second = Extension(name="com.vendor.order", operand_types=types[::-1])
    assert first == second
    assert first.operand_type(1) is second.operand_type(1)
    other = Extension(name="com.vendor.order", operand_types=types[:1])
    assert other.operand_type(0) is not first.operand_type(0)
    assert extension_of(first.operand_type(0)) == first
    assert nd.OperandType(int(first.operand_type(0))) is first.operand_type(0)
    assert first.operand_type(0) not in list(nd.OperandType)


def test_messages_number_extensions_by_themselves() -> None:
    model = to_pixels()
    message = model_to_wire(model, ())
    assert message.main.operations[0].type == 0x20001
    assert [each.name for each in message.extensions] == ["org.neurald.sample"]
    found = decode_model(encode_model(model), (), (EXTENSION,))
    assert found.main == model.main
    assert found.main.operands[1].type is TENSOR_PIXELS
    assert found.main.operands[1].extension_data == b"rgb"
    assert vendor_extensions(found) == (EXTENSION,)
    validate_model(found)


def hostile() -> list[tuple[types_pb2.Model, str]]:
    found = []

    def case(words: str) -> types_pb2.Model:
        message = model_to_wire(to_pixels(), ())
        found.append((message, words))
        return message

    del case("operation 0: type is 131073, which is not known|operand 1: type").extensions[:]
    case("org.neurald.sample is declared differently").extensions[0].operand_types[0].element_bytes = 4
    case("com.other.name is not known here").extensions[0].name = "com.other.name"
    case("a name like").extensions[0].name = "../../etc"
    case("an element of 0 bytes").extensions[0].operand_types[0].element_bytes = 0
    case("has no operation 9").main.operations[0].type = 0x20009  # type: ignore[assignment]
    case("type is 196609").main.operations[0].type = 0x30001  # type: ignore[assignment]
    case("type is -131071").main.operations[0].type = -131071  # type: ignore[assignment]
    case("has no operand type 5").main.operands[1].type = 0x20005  # type: ignore[assignment]
    message = case("declared twice")
    message.extensions.append(message.extensions[0])
    case("takes no extension data").main.operands[0].extension_data = b"x"
    case("at most 1048576").main.operands[1].extension_data = bytes(1 << 21)
    case("must be a finite").main.operands[1].scale = float("nan")
    message = case("more than 2")
    message.main.operands[1].dimensions.sizes[:] = [1 << 16, 1 << 15]
    case("has no outputs|is never written").main.operations[0].outputs[:] = []
    return found


@sweep(("message", "words"), hostile())
def test_hostile_models(message: types_pb2.Model, words: str) -> None:
    with pytest.raises(BadData, match=words):
        validate_model(model_from_wire(message, (), (EXTENSION,)))


def test_too_many_extensions() -> None:
    messages = [extension_to_wire(Extension(name=f"com.x{n}")) for n in range(MAX_EXTENSIONS + 1)]
    with pytest.raises(ResourceExhaustedPersistent, match="65 extensions are declared; at most 64"):
        extensions_from_wire(messages)
    assert len(extensions_from_wire(messages[1:])) == MAX_EXTENSIONS


def test_a_model_is_nothing_where_there_is_no_extension() -> None:
    with pytest.raises(Error, match=r"extension org\.neurald\.sample is not known here"):
        decode_model(encode_model(to_pixels()), ())
