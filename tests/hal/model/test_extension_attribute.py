"""Attributes of vendor extensions: checks of received ones, and their part in cache keys."""

import pytest
from support.models.small import add_model
from support.sweeps import sweep

from neurald._proto import device_pb2, types_pb2
from neurald.drivers.sample.device import create_all
from neurald.drivers.sample.extension import EXTENSION
from neurald.hal.cache.key import key_parts
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData
from neurald.hal.model.extension import AttributeUse, Extension, ExtensionAttribute, declaration_digest
from neurald.hal.model.extension_attribute import (
    MAX_VALUE_BYTES,
    MAX_VALUES,
    AttributeValue,
    attribute_value,
    check_attributes,
)
from neurald.hal.records import replace
from neurald.hal.rpc.wire.device import (
    execute_options_from_wire,
    execute_options_to_wire,
    prepare_options_from_wire,
    prepare_options_to_wire,
)
from neurald.hal.rpc.wire.extension import extension_to_wire, extensions_from_wire

WIDE = Extension(
    name="com.vendor.attributes",
    compilation_attributes=tuple(ExtensionAttribute(code=n, name=f"C{n}") for n in range(MAX_VALUES + 1)),
    execution_attributes=(ExtensionAttribute(code=7, name="E"),),
)


def given(code: int, value: bytes = b"value", extension: Extension = WIDE) -> AttributeValue:
    return AttributeValue(extension=extension, code=code, value=value)


def test_declarations_travel_with_their_attributes() -> None:
    assert extensions_from_wire([extension_to_wire(WIDE), extension_to_wire(EXTENSION)]) == (WIDE, EXTENSION)


def test_values_travel_with_the_options() -> None:
    compilation = PrepareOptions(attributes=(given(1), given(0, b""), given(0, b"down", EXTENSION)))
    declared = (EXTENSION, WIDE)
    assert prepare_options_from_wire(prepare_options_to_wire(compilation), declared) == compilation
    execution = ExecuteOptions(attributes=(given(7, bytes(range(256))),))
    assert execute_options_from_wire(execute_options_to_wire(execution), declared) == execution
    assert attribute_value(compilation.attributes, EXTENSION, 0) == b"down"
    assert attribute_value(compilation.attributes, WIDE, 0) == b""
    assert attribute_value(compilation.attributes, WIDE, 2) is None


@sweep(
    ("values", "words"),
    [
        ([given(99)], r"has no compilation attribute 99; it has 0 \(C0\), 1 .*, 7 \(C7\) and 57 others"),
        ([given(1 << 31)], "has no compilation attribute 2147483648"),
        ([given(1), given(2), given(1, b"other")], "attribute 1 of com.vendor.attributes already"),
        ([given(n) for n in range(MAX_VALUES + 1)], "one compilation has 65 attributes; at most 64"),
        ([given(0, bytes(MAX_VALUE_BYTES)), given(1, b"1")], "have 65537 bytes; at most 65536"),
    ],
)
def test_values_that_are_refused(values: list[AttributeValue], words: str) -> None:
    with pytest.raises(BadData, match=words):
        check_attributes(values, AttributeUse.COMPILATION)
    message = prepare_options_to_wire(PrepareOptions(attributes=tuple(values)))
    with pytest.raises(BadData, match=words):
        prepare_options_from_wire(message, (WIDE,))


def test_executions_and_compilations_have_attributes_of_their_own() -> None:
    check_attributes([given(7)], AttributeUse.EXECUTION)
    with pytest.raises(BadData, match=r"has no execution attribute 0; it has 7 \(E\)"):
        check_attributes([given(0)], AttributeUse.EXECUTION)
    with pytest.raises(BadData, match="has no execution attribute 0"):
        execute_options_from_wire(
            execute_options_to_wire(ExecuteOptions(attributes=(given(0),))), (EXTENSION, WIDE)
        )


def test_an_extension_that_the_device_has_otherwise_is_refused() -> None:
    options = ExecuteOptions(attributes=(given(7),))
    message = execute_options_to_wire(options)
    with pytest.raises(BadData, match=r"'com\.vendor\.attributes', which the device does not declare"):
        execute_options_from_wire(message, (EXTENSION,))
    renamed = replace(WIDE, execution_attributes=(ExtensionAttribute(code=7, name="OTHER"),))
    with pytest.raises(BadData, match="the device declares differently"):
        execute_options_from_wire(message, (renamed,))
    message.attributes[0].ClearField("declaration")
    with pytest.raises(BadData, match="the device declares differently"):
        execute_options_from_wire(message, (WIDE,))
    hostile = device_pb2.ExecuteOptions(attributes=[types_pb2.AttributeValue(extension="x" * 10_000)])
    with pytest.raises(BadData) as told:
        execute_options_from_wire(hostile, (WIDE,))
    assert len(str(told.value)) < 200


def test_keys_depend_on_the_values_and_not_on_their_order() -> None:
    model, device = add_model((2,)), create_all()

    def key(*values: AttributeValue) -> bytes:
        return key_parts(model, device, PrepareOptions(attributes=values), constants="").key()

    other = replace(WIDE, name="com.vendor.other")
    keys = [
        key(),
        key(given(0)),
        key(given(0, b"")),
        key(given(1)),
        key(given(0, extension=other)),
        key(given(0), given(1)),
    ]
    assert len(set(keys)) == len(keys)
    assert key(given(1), given(0)) == keys[-1]
    parts = [
        key_parts(model, device, PrepareOptions(attributes=(given(0, value),)), constants="")
        for value in (b"a", b"b")
    ]
    assert parts[1].changes_since(parts[0]) == ("the values of extension attributes changed",)
    assert declaration_digest(WIDE) != declaration_digest(other)
