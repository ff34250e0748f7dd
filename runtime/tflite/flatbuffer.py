"""Reads an untrusted flatbuffer.

The accessors that the schema compiler generates trust every offset. Here each table, vector and
string is checked to lie inside the file before it is accessed.

The format: a table starts with the distance to its vtable, which holds its own size, the table's
size and, field by field, the field's offset in the table (0: absent, the field has its default).
Offsets to other objects are unsigned and point forwards, so references form no cycle. But several
may refer to the same object, which would let a small file expand hugely: the total amount read is
limited to a small multiple of the file.
"""

import struct
from collections.abc import Iterator
from typing import Any

from neurald.hal.errors import BadData

NumberFormat = struct.Struct

INT8 = NumberFormat("<b")
UINT8 = NumberFormat("<B")
UINT16 = NumberFormat("<H")
BOOL = NumberFormat("<?")
INT32 = NumberFormat("<i")
UINT32 = NumberFormat("<I")
UINT64 = NumberFormat("<Q")
INT64 = NumberFormat("<q")
FLOAT32 = NumberFormat("<f")

_VTABLE_HEADER = NumberFormat("<HH")
#: Number of fields whose offsets are read at once, and the formats of so many offsets.
_MAX_OFFSETS = 16
_OFFSETS = tuple(NumberFormat(f"<{count}H") for count in range(_MAX_OFFSETS + 1))

#: Maximum number of tables to visit, as in the format's own verifier.
MAX_TABLES = 1_000_000
#: Maximum number of bytes of vectors and strings to read: a factor of the file size, and an upper
#: limit.
_MAX_READS_PER_BYTE = 4
_MAX_READ_BYTES = 1 << 27


class Flatbuffer:
    """The bytes of a file, and the remaining read budget.

    Args:
        data: the whole file, contiguous bytes.
        identifier: the four characters that identify the schema.

    Raises:
        BadData: the file has another identifier, or is too short for one.
    """

    __slots__ = ("_bytes_left", "_tables_left", "data", "size")

    def __init__(self, data: memoryview, identifier: bytes) -> None:
        self.data = data
        self.size = data.nbytes
        if self.size < 8:
            raise BadData(f"a file of {self.size} bytes is too short for a header")
        found = bytes(data[4:8])
        if found != identifier:
            raise BadData(f"the file has the identifier {found!r}; {identifier!r} is expected")
        self._bytes_left = min(_MAX_READS_PER_BYTE * self.size, _MAX_READ_BYTES)
        self._tables_left = MAX_TABLES

    @property
    def root(self) -> "Table":
        """The root table."""
        return Table(self, self.follow(0))

    def follow(self, position: int) -> int:
        """Follows the offset stored at `position`; four bytes at the target lie inside the file."""
        (distance,) = UINT32.unpack_from(self.data, position)
        target: int = position + distance
        if distance == 0 or target + 4 > self.size:
            raise BadData(
                f"the offset at byte {position} leads to byte {target}; the file has {self.size} bytes"
            )
        return target

    def vector(self, position: int, item_size: int) -> tuple[int, int]:
        """Returns the start and length of the vector at `position`, which lies inside the file."""
        (count,) = UINT32.unpack_from(self.data, position)
        start = position + 4
        if count * item_size > self.size - start:
            raise BadData(
                f"the vector at byte {position} has {count} elements of {item_size} bytes; "
                f"the file has {self.size} bytes"
            )
        return start, count

    def spend_bytes(self, size_bytes: int) -> None:
        """Charges bytes that are about to be read to the budget."""
        self._bytes_left -= size_bytes
        if self._bytes_left < 0:
            raise BadData(
                "the file has too many bytes of vectors and strings, or refers to the same ones too often"
            )

    def spend_table(self) -> None:
        """Charges a table that is about to be read to the budget."""
        self._tables_left -= 1
        if self._tables_left < 0:
            raise BadData(f"the file has more than {MAX_TABLES} tables")


class Table:
    """A table inside its file, with a valid vtable.

    Fields are identified by their number in the schema.

    Every method raises BadData if the field, or the object that it refers to, exceeds the table or
    the file.
    """

    __slots__ = ("_end", "_file", "_offsets", "_position", "_vtable", "_vtable_end")

    def __init__(self, file: Flatbuffer, position: int) -> None:
        file.spend_table()
        (distance,) = INT32.unpack_from(file.data, position)
        vtable = position - distance
        if not 0 <= vtable <= file.size - 4:
            raise BadData(f"the table at byte {position} has its vtable at byte {vtable}, outside the file")
        vtable_size, size = _VTABLE_HEADER.unpack_from(file.data, vtable)
        if vtable_size < 4 or vtable_size % 2 or vtable + vtable_size > file.size:
            raise BadData(
                f"the vtable at byte {vtable} has {vtable_size} bytes; an even size of at least 4, inside "
                "the "
                f"file's {file.size} bytes, is expected"
            )
        if size < 4 or position + size > file.size:
            raise BadData(
                f"the table at byte {position} has {size} bytes; at least 4, inside the file's {file.size} "
                "bytes, are expected"
            )
        self._file = file
        self._position = position
        self._end = position + size
        self._vtable = vtable
        self._vtable_end = vtable + vtable_size
        # The offsets of the first fields, read at once.
        count = min((vtable_size - 4) // 2, _MAX_OFFSETS)
        self._offsets = _OFFSETS[count].unpack_from(file.data, vtable + 4)

    def _find(self, field: int, size_bytes: int) -> int:
        """Returns the position of a field in the file; 0 if it is absent."""
        if field < len(self._offsets):
            offset = self._offsets[field]
        elif field < _MAX_OFFSETS:
            return 0
        else:
            entry = self._vtable + 4 + 2 * field
            if entry >= self._vtable_end:
                return 0
            (offset,) = UINT16.unpack_from(self._file.data, entry)
        if offset == 0:
            return 0
        position: int = self._position + offset
        if offset < 4 or position + size_bytes > self._end:
            raise BadData(f"field {field} of the table at byte {self._position} lies outside the table")
        return position

    def _follow(self, field: int) -> int:
        """Returns the position of the object that a field refers to; 0 if it is absent."""
        position = self._find(field, 4)
        return self._file.follow(position) if position else 0

    def integer(self, field: int, kind: NumberFormat, default: int = 0) -> int:
        """Reads an integer or boolean field."""
        position = self._find(field, kind.size)
        return int(kind.unpack_from(self._file.data, position)[0]) if position else default

    def real(self, field: int, default: float = 0.0) -> float:
        """Reads a float32 field."""
        position = self._find(field, 4)
        return float(FLOAT32.unpack_from(self._file.data, position)[0]) if position else default

    def table(self, field: int) -> "Table | None":
        """Reads the table that the field refers to; None if it is absent."""
        position = self._follow(field)
        return Table(self._file, position) if position else None

    def tables(self, field: int) -> "TableVector":
        """Reads the field's vector of tables; empty if it is absent."""
        position = self._follow(field)
        start, count = self._file.vector(position, 4) if position else (0, 0)
        return TableVector(self._file, start, count)

    def integers(self, field: int, kind: NumberFormat = INT32) -> tuple[int, ...]:
        """Reads the field's vector of integers; empty if it is absent."""
        return self._numbers(field, kind)

    def reals(self, field: int) -> tuple[float, ...]:
        """Reads the field's vector of float32 numbers; empty if it is absent."""
        return self._numbers(field, FLOAT32)

    def _numbers(self, field: int, kind: NumberFormat) -> tuple[Any, ...]:
        position = self._follow(field)
        if not position:
            return ()
        start, count = self._file.vector(position, kind.size)
        self._file.spend_bytes(count * kind.size)
        return struct.unpack_from(f"<{count}{kind.format[-1]}", self._file.data, start)

    def span(self, field: int) -> tuple[int, int] | None:
        """Returns the position and length of the field's byte vector in the file.

        None if it is absent.
        """
        position = self._follow(field)
        return self._file.vector(position, 1) if position else None

    def string(self, field: int) -> str | None:
        """Reads the field's text; None if it is absent."""
        span = self.span(field)
        if span is None:
            return None
        start, length = span
        self._file.spend_bytes(length)
        try:
            return str(self._file.data[start : start + length], "utf-8")
        except UnicodeDecodeError:
            raise BadData(f"the text at byte {start} is not UTF-8") from None


class TableVector:
    """A vector of tables; each is checked on access."""

    __slots__ = ("_count", "_file", "_start")

    def __init__(self, file: Flatbuffer, start: int, count: int) -> None:
        self._file = file
        self._start = start
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Table:
        """Returns the table at `index`, from 0 to the length (exclusive)."""
        if not 0 <= index < self._count:
            raise IndexError(index)
        return Table(self._file, self._file.follow(self._start + 4 * index))

    def __iter__(self) -> Iterator[Table]:
        return (self[index] for index in range(self._count))
