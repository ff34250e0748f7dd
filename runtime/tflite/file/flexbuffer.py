"""Reads the options of custom operators: a map of numbers and vectors in the FlexBuffers format.

The data is untrusted.

The last byte is the width of the root, the byte before it its type, and the root itself precedes
both. A value's type byte holds the kind (upper 6 bits) and the width of the data it refers to
(lower 2 bits: 1, 2, 4 or 8 bytes). A map is a vector of values, followed by their type bytes and
preceded by its length, the width of its key vector, and the offset to that vector. Offsets count
backwards from where they are stored. A vector is preceded by its length, unless its type tells it,
and followed by the type bytes of its elements, unless its type tells theirs.
"""

import struct

from neurald.hal.errors import BadData

_INTEGER, _UNSIGNED, _FLOAT, _MAP, _BOOLEAN = 1, 2, 3, 9, 26
_VECTOR = 10
#: Types of vectors of elements of one type: this type, and their number, None if it is stored.
_VECTORS: dict[int, tuple[int, int | None]] = {
    11: (_INTEGER, None),
    12: (_UNSIGNED, None),
    13: (_FLOAT, None),
    36: (_BOOLEAN, None),
    **{
        16 + 3 * (count - 2) + place: (kind, count)
        for count in (2, 3, 4)
        for place, kind in enumerate((_INTEGER, _UNSIGNED, _FLOAT))
    },
}
_INDIRECT = {6: _INTEGER, 7: _UNSIGNED, 8: _FLOAT}
_FORMATS = {
    _INTEGER: {1: "<b", 2: "<h", 4: "<i", 8: "<q"},
    _UNSIGNED: {1: "<B", 2: "<H", 4: "<I", 8: "<Q"},
    _FLOAT: {2: "<e", 4: "<f", 8: "<d"},
}
_FORMATS[_BOOLEAN] = _FORMATS[_UNSIGNED]
#: More keys than any operator has options, and more elements than any option has.
_MAX_KEYS = 1000
_MAX_KEY_BYTES = 200

OptionValue = int | float | bool
_Vector = tuple[OptionValue | None, ...]


class FlexMap:
    """A map of numbers and vectors of numbers.

    Args:
        data: all its bytes.

    Raises:
        BadData: the data is damaged, not a map, or has too many keys. Methods raise it for keys
            that are missing or not of the requested type.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        if len(data) < 3:
            raise BadData(f"options of {len(data)} bytes are not a map")
        width, packed = data[-1], data[-2]
        if width not in (1, 2, 4, 8) or packed >> 2 != _MAP:
            raise BadData(f"options of kind {packed >> 2} and width {width} are not a map")
        position = self._follow(len(data) - 2 - width, width)
        self._values = self._read(position, 1 << (packed & 3))

    def _bytes(self, position: int, length: int) -> bytes:
        if position < 0 or position + length > len(self._data):
            raise BadData(f"byte {position} lies outside the {len(self._data)} bytes of options")
        return self._data[position : position + length]

    def _unsigned(self, position: int, width: int) -> int:
        return int.from_bytes(self._bytes(position, width), "little")

    def _follow(self, position: int, width: int) -> int:
        return position - self._unsigned(position, width)

    def _count(self, position: int, width: int, what: str) -> int:
        """Returns the number of elements that are stored at `position`."""
        count = self._unsigned(position - width, width)
        if count > _MAX_KEYS:
            raise BadData(f"options have {count} {what}; at most {_MAX_KEYS} are expected")
        return count

    def _read(self, position: int, width: int) -> dict[str, OptionValue | _Vector | None]:
        """Reads the map at `position`; values that are not numbers or vectors become None."""
        count = self._count(position, width, "keys")
        keys = self._follow(position - 3 * width, width)
        key_width = self._unsigned(position - 2 * width, width)
        if key_width not in (1, 2, 4, 8):
            raise BadData(f"the keys of options have width {key_width}; 1, 2, 4 or 8 is expected")
        types = self._bytes(position + count * width, count)
        return {
            self._key(self._follow(keys + number * key_width, key_width)): self._element(
                position + number * width, width, types[number]
            )
            for number in range(count)
        }

    def _key(self, position: int) -> str:
        self._bytes(position, 1)
        name, end, _ = self._data[position : position + _MAX_KEY_BYTES].partition(b"\0")
        if not end:
            raise BadData(f"a key of options has no end within {_MAX_KEY_BYTES} bytes")
        return name.decode("utf-8", "replace")

    def _element(self, position: int, width: int, packed: int) -> OptionValue | _Vector | None:
        if packed >> 2 == _VECTOR or packed >> 2 in _VECTORS:
            return self._vector(self._follow(position, width), 1 << (packed & 3), packed >> 2)
        return self._value(position, width, packed)

    def _vector(self, position: int, width: int, kind: int) -> _Vector:
        """Reads the vector at `position`; elements that are not numbers become None."""
        element, count = _VECTORS.get(kind, (None, None))
        if count is None:
            count = self._count(position, width, "elements")
        places = range(position, position + count * width, width)
        if element is None:
            types = self._bytes(position + count * width, count)
            return tuple(self._value(at, width, packed) for at, packed in zip(places, types, strict=True))
        return tuple(self._value(at, width, element << 2) for at in places)

    def _value(self, position: int, width: int, packed: int) -> OptionValue | None:
        kind = packed >> 2
        if kind in _INDIRECT:
            position, width, kind = self._follow(position, width), 1 << (packed & 3), _INDIRECT[kind]
        layout = _FORMATS.get(kind, {}).get(width)
        if layout is None:
            return None
        (value,) = struct.unpack(layout, self._bytes(position, width))
        return bool(value) if kind == _BOOLEAN else value

    def _number(self, name: str) -> OptionValue:
        value = self._values.get(name)
        if value is None or isinstance(value, tuple):
            raise BadData(f"options have no number {name!r}")
        return value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def integers(self, name: str) -> tuple[int, ...]:
        """Returns the elements of a vector of integers."""
        vector = self._values.get(name)
        if not isinstance(vector, tuple) or not all(isinstance(each, int) for each in vector):
            raise BadData(f"options have no integers {name!r}")
        return tuple(int(each or 0) for each in vector)

    def integer(self, name: str, default: int | None = None) -> int:
        """Returns an integer; `default` if the key is missing."""
        if default is not None and name not in self._values:
            return default
        value = self._number(name)
        if value != value or abs(value) > 1 << 62:
            raise BadData(f"the option {name!r} is {value}; a whole number is expected")
        return int(value)

    def real(self, name: str) -> float:
        """Returns a number."""
        return float(self._number(name))

    def boolean(self, name: str, *, default: bool) -> bool:
        """Returns a boolean; `default` if the key is missing."""
        return bool(self._number(name)) if name in self._values else default
