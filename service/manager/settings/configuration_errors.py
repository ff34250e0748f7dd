"""Reports mistakes in the configuration file in the words of that file."""

import difflib
import enum
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from neurald.hal.decoding import converted

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`")
_NO_MEMBER: Final = re.compile(r"Invalid enum value (.*)")
_TYPES: Final = re.compile(r"Expected `(.*)`, got `(.*)`")
#: How msgspec names types, in the words of TOML.
_NAMES: Final = {
    "object": "a table",
    "array": "an array",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
}


def mistake(content: object, kind: Any, place: str = "") -> str:
    """Describes the first mistake in a table of the configuration; empty if there is none.

    Args:
        content: the content of the table.
        kind: the struct of its settings.
        place: its name, empty for the whole file.
    """
    try:
        converted(content, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
    else:
        return ""
    path = path.removesuffix("`").removeprefix(".")
    before, is_in_table, _ = path.partition("[...]")
    if is_in_table and isinstance(content, Mapping):
        # msgspec does not say in which of the tables it is.
        tables: Any = content
        for name in filter(None, before.split(".")):
            tables = tables[name]
        for name, table in tables.items():
            for inner in _value_types(kind, before):
                if found := mistake(table, inner, _joined(place, before, name)):
                    return found
    return _described(message, path, kind, place)


def _described(message: str, path: str, kind: Any, place: str) -> str:
    """Describes a mistake by msgspec's message about the value at a path in a struct."""
    where = _joined(place, path)
    if unknown := _UNKNOWN.fullmatch(message):
        known = [name for each in _types_at(kind, path) for name in getattr(each, "__struct_fields__", ())]
        close = difflib.get_close_matches(unknown[1], known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
        return f"{_joined(where, unknown[1])!r} is not a setting; {hint}"
    if value := _NO_MEMBER.fullmatch(message):
        kinds = [each for each in _types_at(kind, path) if isinstance(each, enum.EnumType)]
        members = [member.value for each in kinds for member in list[Any](each)]
        return f"{where} is {value[1]}; expected is one of {', '.join(members)}"
    if found := _TYPES.fullmatch(message):
        expected = [_NAMES.get(each, each) for each in found[1].split(" | ") if each != "null"]
        return f"{where} is {_NAMES.get(found[2], found[2])}; {' or '.join(expected)} is expected"
    return f"{where}: {message}" if where else message


def _joined(*names: str) -> str:
    return ".".join(filter(None, names))


def _types_at(kind: Any, path: str) -> list[Any]:
    """Returns the types that the value at a path in a struct may have."""
    found = [kind]
    for name in filter(None, path.partition("[")[0].split(".")):
        found = [inner for each in found for inner in _field_types(each, name)]
    return found


def _field_types(kind: Any, name: str) -> Iterator[Any]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            if field.encode_name == name:
                is_union = isinstance(field.type, types.UnionType)
                yield from typing.get_args(field.type) if is_union else (field.type,)


def _value_types(kind: Any, path: str) -> Iterator[Any]:
    """Yields the types of a table's values under any names: that at a path, or the type itself."""
    for each in _types_at(kind, path):
        if typing.get_origin(each) is dict:
            yield typing.get_args(each)[1]
