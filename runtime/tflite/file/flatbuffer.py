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
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.runtime.tflite.file.other_formats import HEAD_BYTES, other_format

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
#: Number of fields that a vtable is kept for. Kept are those of the first tables: files have a few
#: vtables, which many tables share.
_MAX_FIELDS = 32
_MAX_VTABLES = 1024
#: Number of bytes of the distance to the vtable, with which a table starts.
_TABLE_HEAD_BYTES = 4
#: Number of layouts that are kept for later files, mostly of the same converter.
_MAX_LAYOUTS = 512

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

    __slots__ = ("_bytes_left", "_tables_left", "_vtables", "data", "readers", "size")

    def __init__(self, data: memoryview, identifier: bytes) -> None:
        self.data = data
        self.size = data.nbytes
        if self.size < 8:
            raise BadData(f"it is not a .tflite file: {self.size} bytes are too few for a header")
        found = bytes(data[4:8])
        if found != identifier:
            known = other_format(bytes(data[:HEAD_BYTES]))
            if known is not None:
                raise BadData(f"it is not a .tflite file, but {known}")
            raise BadData(
                f"it is not a .tflite file: its identifier is {found!r}; {identifier!r} is expected"
            )
        self._bytes_left = min(_MAX_READS_PER_BYTE * self.size, _MAX_READ_BYTES)
        self._tables_left = MAX_TABLES
        self._vtables: dict[int, _Vtable] = {}
        #: The readers of options, by kind.
        self.readers: dict[str, TableReader] = {}

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

    def vtable(self, table: int) -> "_Vtable":
        """Returns the vtable of the table at a position; both lie inside the file."""
        self.spend_table()
        (distance,) = INT32.unpack_from(self.data, table)
        position = table - distance
        found = self._vtables.get(position)
        if found is None:
            found = self._read_vtable(table, position)
            if len(self._vtables) < _MAX_VTABLES:
                self._vtables[position] = found
        if table + found.table_size > self.size:
            raise BadData(
                f"the table at byte {table} has {found.table_size} bytes; at least 4, inside the file's "
                f"{self.size} bytes, are expected"
            )
        return found

    def _read_vtable(self, table: int, position: int) -> "_Vtable":
        if not 0 <= position <= self.size - 4:
            raise BadData(f"the table at byte {table} has its vtable at byte {position}, outside the file")
        vtable_size, size = _VTABLE_HEADER.unpack_from(self.data, position)
        if vtable_size < 4 or vtable_size % 2 or position + vtable_size > self.size:
            raise BadData(
                f"the vtable at byte {position} has {vtable_size} bytes; an even size of at least 4, inside "
                f"the file's {self.size} bytes, is expected"
            )
        if size < 4:
            raise BadData(
                f"the table at byte {table} has {size} bytes; at least 4, inside the file's {self.size} "
                "bytes, are expected"
            )
        count = min((vtable_size - 4) // 2, _MAX_FIELDS)
        return _Vtable(
            position=position,
            table_size=size,
            offsets=struct.unpack_from(f"<{count}H", self.data, position + 4),
        )

    def numbers(self, position: int, kind: NumberFormat) -> tuple[Any, ...]:
        """Reads the vector of numbers at `position`."""
        data = self.data
        (count,) = UINT32.unpack_from(data, position)
        start = position + 4
        size_bytes = count * kind.size
        if size_bytes > self.size - start:
            self.vector(position, kind.size)
        # As `spend_bytes` does, which is called to raise its error.
        self._bytes_left -= size_bytes
        if self._bytes_left < 0:
            self.spend_bytes(0)
        if count == 1:
            return kind.unpack_from(data, start)
        return struct.unpack_from(f"<{count}{kind.format[-1]}", data, start)

    def text(self, position: int) -> str:
        """Reads the text at `position`."""
        start, length = self.vector(position, 1)
        self.spend_bytes(length)
        try:
            return str(self.data[start : start + length], "utf-8")
        except UnicodeDecodeError:
            raise BadData(f"the text at byte {start} is not UTF-8") from None

    def spend_table(self) -> None:
        """Charges a table that is about to be read to the budget."""
        self._tables_left -= 1
        if self._tables_left < 0:
            raise BadData(f"the file has more than {MAX_TABLES} tables")

    def spend_bytes(self, size_bytes: int) -> None:
        """Charges bytes that are about to be read to the budget."""
        self._bytes_left -= size_bytes
        if self._bytes_left < 0:
            raise BadData(
                "the file has too many bytes of vectors and strings, or refers to the same ones too often"
            )


class _Vtable(Struct, frozen=True, kw_only=True):
    """The offsets of the fields in tables of one form; 0 for absent fields.

    Attributes:
        position: its own position in the file.
        table_size: the size of each table, in bytes.
    """

    position: int
    table_size: int
    offsets: tuple[int, ...]

    def offset(self, field: int, size_bytes: int, table: int) -> int:
        """Returns the offset of a field in the table at `table`; 0 if it is absent."""
        offset = self.offsets[field] if field < len(self.offsets) else 0
        if offset and (offset < _TABLE_HEAD_BYTES or offset + size_bytes > self.table_size):
            raise BadData(f"field {field} of the table at byte {table} lies outside the table")
        return offset


class FieldFormat(Struct, frozen=True, kw_only=True):
    """A field of a table.

    Attributes:
        number: the number in the schema.
        kind: the kind of a number; None for a reference to another object.
        default: the default of a number.
    """

    number: int
    kind: NumberFormat | None = None
    default: float = 0


class _Layout(Struct, frozen=True, kw_only=True):
    """The places of the fields of a `TableReader` in tables with the same vtable.

    Attributes:
        table_size: the size of each table, in bytes.
        format: the format of the fields that are present, in the order of their offsets.
        pick: takes these fields and all defaults, and returns all fields in the reader's order.
        references: position among the fields, and offset in the table.
    """

    table_size: int
    format: NumberFormat
    pick: Callable[[tuple[Any, ...]], Sequence[Any]]
    references: tuple[tuple[int, int], ...]


class TableReader:
    """Reads the same fields of many tables, all fields of a table at once.

    The positions of fields are checked once for each vtable.

    Args:
        file: the file.
        fields: the fields to read.
    """

    def __init__(self, file: Flatbuffer, fields: Sequence[FieldFormat]) -> None:
        self._file = file
        self._fields = tuple(fields)
        self._defaults = tuple(field.default for field in fields)
        self._layouts: dict[int, _Layout] = {}
        #: The vtables that have no layout.
        self._unusual: set[int] = set()

    def read(self, position: int) -> list[Any]:
        """Reads the table at a position.

        Returns:
            The value of each field. For a reference, the position of an object that has at least
            four bytes inside the file; 0 if it is absent.

        Raises:
            BadData: the table, one of the fields or a referenced object exceeds the file.
        """
        file = self._file
        data, size = file.data, file.size
        # The usual case of `Flatbuffer.vtable`, without its call.
        layout = self._layouts.get(position - INT32.unpack_from(data, position)[0])
        if layout is None or position + layout.table_size > size:
            vtable = file.vtable(position)
            layout = self._new_layout(vtable)
            if layout is None:
                return self._one_by_one(vtable, position)
        else:
            file.spend_table()
        found = list(layout.pick(layout.format.unpack_from(data, position) + self._defaults))
        for number, offset in layout.references:
            at = position + offset
            target = at + found[number]
            if target == at or target + 4 > size:
                file.follow(at)
            found[number] = target
        return found

    def _new_layout(self, vtable: _Vtable) -> _Layout | None:
        """Returns the layout of the first table with a vtable; None if it has none."""
        key = vtable.position
        if key in self._unusual:
            return None
        layout = _layout(self._fields, vtable.table_size, vtable.offsets)
        if layout is None:
            self._unusual.add(key)
        elif len(self._layouts) < _MAX_VTABLES:
            self._layouts[key] = layout
        return layout

    def _one_by_one(self, vtable: _Vtable, position: int) -> list[Any]:
        """Reads the table at a position whose fields are laid out as no writer does.

        Raises:
            BadData: one of them lies outside the table.
        """
        found: list[Any] = []
        for field in self._fields:
            kind = field.kind or UINT32
            offset = vtable.offset(field.number, kind.size, position)
            if not offset:
                found.append(field.default)
            elif field.kind is None:
                found.append(self._file.follow(position + offset))
            else:
                found.append(kind.unpack_from(self._file.data, position + offset)[0])
        return found


@lru_cache(maxsize=_MAX_LAYOUTS)
def _layout(fields: tuple[FieldFormat, ...], table_size: int, offsets: tuple[int, ...]) -> _Layout | None:
    """Returns the layout of tables; files of the same converter have the same ones.

    Args:
        fields: the fields to read.
        table_size, offsets: see `_Vtable`.

    Returns:
        None if fields overlap, or are outside the table.
    """
    present = sorted(
        (offset, number, field.kind or UINT32)
        for number, field in enumerate(fields)
        if (offset := offsets[field.number] if field.number < len(offsets) else 0)
    )
    # The distance to the vtable comes first.
    text, end = [f"<{_TABLE_HEAD_BYTES}x"], _TABLE_HEAD_BYTES
    for offset, _, kind in present:
        if offset < end:
            return None
        text.append(f"{offset - end}x{kind.format[-1]}")
        end = offset + kind.size
    if end > table_size:
        return None
    places = [len(present) + number for number in range(len(fields))]
    for place, (_, number, _) in enumerate(present):
        places[number] = place
    return _Layout(
        table_size=table_size,
        format=NumberFormat("".join(text)),
        pick=itemgetter(*places) if len(places) > 1 else itemgetter(slice(0, len(places))),
        references=tuple((number, offset) for offset, number, _ in present if fields[number].kind is None),
    )


class Table:
    """A table inside its file, with a valid vtable.

    Fields are identified by their number in the schema.

    Every method raises BadData if the field, or the object that it refers to, exceeds the table or
    the file.
    """

    __slots__ = ("_position", "_vtable", "file")

    def __init__(self, file: Flatbuffer, position: int) -> None:
        self.file = file
        self._position = position
        self._vtable = file.vtable(position)

    def _find(self, field: int, size_bytes: int) -> int:
        """Returns the position of a field in the file; 0 if it is absent."""
        offset = self._vtable.offset(field, size_bytes, self._position)
        return self._position + offset if offset else 0

    def read(self, kind: str, fields: Sequence[FieldFormat]) -> list[Any]:
        """Reads several fields at once; see `TableReader`.

        Args:
            kind: the kind of the table. All tables of a kind are read with the same fields.
            fields: the fields.
        """
        reader = self.file.readers.get(kind)
        if reader is None:
            reader = self.file.readers[kind] = TableReader(self.file, fields)
        return reader.read(self._position)

    def _follow(self, field: int) -> int:
        """Returns the position of the object that a field refers to; 0 if it is absent."""
        position = self._find(field, 4)
        return self.file.follow(position) if position else 0

    def integer(self, field: int, kind: NumberFormat, default: int = 0) -> int:
        """Reads an integer or boolean field."""
        position = self._find(field, kind.size)
        return int(kind.unpack_from(self.file.data, position)[0]) if position else default

    def real(self, field: int, default: float = 0.0) -> float:
        """Reads a float32 field."""
        position = self._find(field, 4)
        return float(FLOAT32.unpack_from(self.file.data, position)[0]) if position else default

    def table(self, field: int) -> "Table | None":
        """Reads the table that the field refers to; None if it is absent."""
        position = self._follow(field)
        return Table(self.file, position) if position else None

    def tables(self, field: int) -> "TableVector":
        """Reads the field's vector of tables; empty if it is absent."""
        position = self._follow(field)
        start, count = self.file.vector(position, 4) if position else (0, 0)
        return TableVector(self.file, start, count)

    def integers(self, field: int, kind: NumberFormat = INT32) -> tuple[int, ...]:
        """Reads the field's vector of integers; empty if it is absent."""
        return self._numbers(field, kind)

    def reals(self, field: int) -> tuple[float, ...]:
        """Reads the field's vector of float32 numbers; empty if it is absent."""
        return self._numbers(field, FLOAT32)

    def _numbers(self, field: int, kind: NumberFormat) -> tuple[Any, ...]:
        position = self._follow(field)
        return self.file.numbers(position, kind) if position else ()

    def span(self, field: int) -> tuple[int, int] | None:
        """Returns the position and length of the field's byte vector in the file.

        None if it is absent.
        """
        position = self._follow(field)
        return self.file.vector(position, 1) if position else None

    def string(self, field: int) -> str | None:
        """Reads the field's text; None if it is absent."""
        position = self._follow(field)
        return self.file.text(position) if position else None


class TableVector:
    """A vector of tables; each is checked on access."""

    __slots__ = ("_count", "_file", "_start")

    def __init__(self, file: Flatbuffer, start: int, count: int) -> None:
        self._file = file
        self._start = start
        self._count = count

    def __len__(self) -> int:
        return self._count

    def position(self, index: int) -> int:
        """Returns the position of the table at `index`, from 0 to the length (exclusive)."""
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._file.follow(self._start + 4 * index)

    def positions(self) -> Iterator[int]:
        """Returns the positions of all tables, each read when it is asked for."""
        file, at = self._file, self._start
        for (distance,) in UINT32.iter_unpack(file.data[at : at + 4 * self._count]):
            target = at + distance
            if not distance or target + 4 > file.size:
                file.follow(at)
            yield target
            at += 4

    def __getitem__(self, index: int) -> Table:
        """Returns the table at `index`, from 0 to the length (exclusive)."""
        return Table(self._file, self.position(index))

    def __iter__(self) -> Iterator[Table]:
        return (self[index] for index in range(self._count))
