import struct

import flatbuffers
import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.runtime.tflite.file.flatbuffer import (
    BOOL,
    FLOAT32,
    INT8,
    INT32,
    INT64,
    UINT32,
    FieldFormat,
    Flatbuffer,
    Table,
    TableReader,
)

pytestmark = pytest.mark.quick

MAGIC = b"TEST"


def everything() -> bytes:
    """Builds a root with a field of every kind."""
    builder = flatbuffers.Builder(0)
    text = builder.CreateString("für")
    span = builder.CreateByteVector(b"abc")
    builder.StartVector(8, 2, 8)
    for number in (-1, 2**40):
        builder.PrependInt64(number)
    numbers = builder.EndVector()
    builder.StartObject(1)
    builder.PrependInt32Slot(0, 7, 0)
    leaf = builder.EndObject()
    builder.StartVector(4, 2, 4)
    builder.PrependUOffsetTRelative(leaf)
    builder.PrependUOffsetTRelative(leaf)
    leaves = builder.EndVector()
    builder.StartObject(9)
    builder.PrependInt8Slot(0, -5, 0)
    builder.PrependBoolSlot(1, True, False)
    builder.PrependFloat32Slot(2, 0.5, 0)
    builder.PrependUOffsetTRelativeSlot(3, text, 0)
    builder.PrependUOffsetTRelativeSlot(4, span, 0)
    builder.PrependUOffsetTRelativeSlot(5, numbers, 0)
    builder.PrependUOffsetTRelativeSlot(6, leaf, 0)
    builder.PrependUOffsetTRelativeSlot(7, leaves, 0)
    builder.Finish(builder.EndObject(), file_identifier=MAGIC)
    return bytes(builder.Output())


def opened(content: bytes) -> Table:
    return Flatbuffer(memoryview(content), MAGIC).root


def test_every_kind_of_field() -> None:
    content = everything()
    root = opened(content)
    assert root.integer(0, INT8) == -5
    assert root.integer(1, BOOL) == 1
    assert root.real(2) == 0.5
    assert root.string(3) == "für"
    span = root.span(4)
    assert span is not None
    assert content[span[0] : sum(span)] == b"abc"
    assert root.integers(5, INT64) == (2**40, -1)
    leaf = root.table(6)
    assert leaf is not None
    assert leaf.integer(0, INT32) == 7
    assert [table.integer(0, INT32) for table in root.tables(7)] == [7, 7]
    assert len(root.tables(7)) == 2
    with pytest.raises(IndexError):
        _ = root.tables(7)[2]


@sweep("field", [8, 20, 30_000])
def test_absent_fields_have_their_defaults(field: int) -> None:
    root = opened(everything())
    assert root.integer(field, UINT32, 9) == 9
    assert root.real(field, 1.5) == 1.5
    assert root.string(field) is None
    assert root.span(field) is None
    assert root.table(field) is None
    assert root.integers(field) == ()
    assert root.reals(field) == ()
    assert list(root.tables(field)) == []


def file_of(root: bytes, *, start: int = 8) -> bytes:
    """Builds a file whose root lies at `start`."""
    return struct.pack("<I", start) + MAGIC + bytes(start - 8) + root


def table_of(*fields: tuple[int, bytes]) -> bytes:
    """Builds a table with fields at the given offsets; its vtable precedes it."""
    size = 4 + sum(len(data) for _, data in fields)
    vtable = struct.pack(f"<{2 + len(fields)}H", 4 + 2 * len(fields), size, *(offset for offset, _ in fields))
    vtable += bytes(-len(vtable) % 4)
    body = b"".join(data for _, data in fields)
    return vtable + struct.pack("<i", len(vtable)) + body


def with_vector(count: int) -> bytes:
    """Builds a root whose field 0 is a vector of 4 bytes that claims to have `count` elements."""
    vtable_and_table = table_of((4, struct.pack("<I", 4)))
    content = struct.pack("<I", 8 + 8) + MAGIC + vtable_and_table
    return content + struct.pack("<I", count) + b"\xff\xff\xff\xff"


def test_a_vector_must_fit_before_it_is_read() -> None:
    assert opened(with_vector(1)).integers(0) == (-1,)
    assert opened(with_vector(4)).span(0) == (28, 4)
    for count in (2, 2**30, 2**32 - 1):
        with pytest.raises(BadData, match=f"{count} elements"):
            opened(with_vector(count)).integers(0)
        with pytest.raises(BadData, match="elements"):
            len(opened(with_vector(count)).tables(0))
    with pytest.raises(BadData, match="5 elements"):
        opened(with_vector(5)).string(0)


def test_text_must_be_utf8() -> None:
    with pytest.raises(BadData, match="not UTF-8"):
        opened(with_vector(4)).string(0)


@sweep(
    ("content", "message"),
    [
        (b"", "0 bytes are too few"),
        (b"\x08\0\0\0TES", "7 bytes are too few"),
        (b"\x08\0\0\0ABCD" + bytes(16), "identifier"),
        (b"\0\0\0\0TEST" + bytes(16), "leads to byte 0"),
        (b"\xff\xff\xff\xffTEST" + bytes(16), "leads to byte 4294967295"),
        (b"\x15\0\0\0TEST" + bytes(16), "leads to byte 21"),
        (file_of(struct.pack("<i", 9) + bytes(8)), "vtable at byte -1"),
        (file_of(struct.pack("<i", -100) + bytes(8)), "vtable at byte 108"),
        (file_of(struct.pack("<i", -(2**31)) + bytes(8)), "vtable"),
        (file_of(struct.pack("<i", -10) + bytes(8)), "vtable at byte 18"),
        (file_of(struct.pack("<iHH", -4, 2, 4)), "2 bytes"),
        (file_of(struct.pack("<iHHI", -4, 5, 4, 0)), "5 bytes"),
        (file_of(struct.pack("<iHH", -4, 5, 4)), "5 bytes"),
        (file_of(struct.pack("<iHH", -4, 6, 4)), "6 bytes"),
        (file_of(struct.pack("<iHH", -4, 4, 3)), "3 bytes"),
        (file_of(struct.pack("<iHH", -4, 4, 9)), "9 bytes"),
    ],
)
def test_a_damaged_root(content: bytes, message: str) -> None:
    with pytest.raises(BadData, match=message):
        opened(content)


def test_positions_of_tables_are_checked_one_by_one() -> None:
    tables = opened(everything()).tables(7)
    assert list(tables.positions()) == [tables.position(number) for number in range(2)]
    # The only element of the vector leads out of the file.
    positions = opened(with_vector(1)).tables(0).positions()
    with pytest.raises(BadData, match="leads to byte"):
        next(positions)


def test_objects_may_end_with_the_file() -> None:
    root = opened(file_of(struct.pack("<iHH", -4, 4, 4)))
    assert root.integer(0, INT32, 9) == 9
    assert opened(struct.pack("<I", 16) + MAGIC + table_of((4, struct.pack("<f", 0.5)))).real(0) == 0.5
    assert len(opened(with_vector(1)).tables(0)) == 1


@sweep("offset", [1, 3, 5, 8, 65535])
def test_a_field_must_lie_inside_its_table(offset: int) -> None:
    root = opened(struct.pack("<I", 16) + MAGIC + table_of((offset, bytes(4))) + bytes(64))
    with pytest.raises(BadData, match="outside the table"):
        root.integer(0, INT32)
    with pytest.raises(BadData, match="outside the table"):
        root.table(0)


def test_repeated_references_are_limited() -> None:
    """All elements of a vector refer to one table with a long vector: the read budget is spent."""
    builder = flatbuffers.Builder(0)
    long = builder.CreateByteVector(bytes(4000))
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, long, 0)
    leaf = builder.EndObject()
    builder.StartVector(4, 500, 4)
    for _ in range(500):
        builder.PrependUOffsetTRelative(leaf)
    leaves = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, leaves, 0)
    builder.Finish(builder.EndObject(), file_identifier=MAGIC)
    root = opened(bytes(builder.Output()))
    with pytest.raises(BadData, match="too often"):
        _ = [table.integers(0, INT8) for table in root.tables(0)]


def test_repeated_texts_are_limited() -> None:
    builder = flatbuffers.Builder(0)
    text = builder.CreateString("x" * 4000)
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    builder.Finish(builder.EndObject(), file_identifier=MAGIC)
    root = opened(bytes(builder.Output()))
    with pytest.raises(BadData, match="too often"):
        _ = [root.string(0) for _ in range(10)]


def test_the_number_of_tables_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.runtime.tflite.file.flatbuffer.MAX_TABLES", 2)
    with pytest.raises(BadData, match="more than 2 tables"):
        list(opened(everything()).tables(7))
    content = everything()
    fields = reader(content, (0, INT8))
    # The first one has its fields located, the second one is read as that was.
    assert [fields.read(root_position(content)) for _ in range(2)] == [[-5], [-5]]
    with pytest.raises(BadData, match="more than 2 tables"):
        fields.read(root_position(content))


def test_float_vectors() -> None:
    assert FLOAT32.size == 4
    content = with_vector(1)[:-4] + struct.pack("<f", -2.5)
    assert opened(content).reals(0) == (-2.5,)


def reader(content: bytes, *fields: tuple[int, object]) -> TableReader:
    file = Flatbuffer(memoryview(content), MAGIC)
    return TableReader(file, [FieldFormat(number=n, kind=kind, default=9) for n, kind in fields])  # type: ignore[arg-type]


def root_position(content: bytes) -> int:
    return int.from_bytes(content[:4], "little")


def test_fields_read_together_are_those_read_one_by_one() -> None:
    content = everything()
    file = Flatbuffer(memoryview(content), MAGIC)
    kinds = ((5, None), (0, INT8), (8, INT32), (2, FLOAT32), (1, BOOL), (3, None), (30_000, UINT32))
    fields = [FieldFormat(number=number, kind=kind, default=9) for number, kind in kinds]
    numbers, small, absent, real, flag, text, beyond = TableReader(file, fields).read(root_position(content))
    assert (small, absent, real, flag, beyond) == (-5, 9, 0.5, True, 9)
    assert file.numbers(numbers, INT64) == (2**40, -1)
    assert file.text(text) == "für"


def test_fields_of_one_kind_of_table_are_read_in_the_same_way() -> None:
    content = everything()
    leaf = opened(content).table(6)
    assert leaf is not None
    fields = [FieldFormat(number=0, kind=INT32), FieldFormat(number=1, kind=INT32)]
    assert [leaf.read("leaf", fields) for _ in range(2)] == [[7, 0], [7, 0]]


@sweep("fields", [(), ((0, INT8),), ((8, UINT32),), ((6, None),)])
def test_few_fields(fields: tuple[tuple[int, object], ...]) -> None:
    content = everything()
    root = opened(content)
    found = reader(content, *fields).read(root_position(content))
    expected = [root.table(6) is not None if kind is None else root.integer(n, kind, 9) for n, kind in fields]  # type: ignore[arg-type]
    assert [
        bool(value) if kind is None else value for value, (_, kind) in zip(found, fields, strict=True)
    ] == expected


def test_fields_that_overlap_are_read_one_by_one() -> None:
    # A vtable of two fields at the same offset.
    content = struct.pack("<I4sHHHHiI", 16, MAGIC, 8, 8, 4, 4, 8, 0x01020304)
    found = reader(content, (0, UINT32), (1, INT8)).read(16)
    assert found == [0x01020304, 4]


@sweep("size", range(8, 24))
def test_a_table_that_is_cut_off(size: int) -> None:
    content = struct.pack("<I4sHHHHiI", 16, MAGIC, 8, 8, 4, 0, 8, 0x01020304)[:size]
    file = Flatbuffer(memoryview(content), MAGIC)
    with pytest.raises(BadData):
        TableReader(file, [FieldFormat(number=0, kind=UINT32)]).read(file.follow(0))


def test_layouts_of_earlier_files_are_checked_against_each_file() -> None:
    content = struct.pack("<I4sHHHHiI", 16, MAGIC, 8, 8, 4, 0, 8, 7)
    assert reader(content, (0, UINT32)).read(16) == [7]
    with pytest.raises(BadData):
        reader(content[:-1], (0, UINT32)).read(16)
    # The same offsets in a table that ends before the field does.
    smaller = struct.pack("<I4sHHHHiI", 16, MAGIC, 8, 7, 4, 0, 8, 7)
    with pytest.raises(BadData, match="field 0 of the table at byte 16 lies outside the table"):
        reader(smaller, (0, UINT32)).read(16)
    # Other fields at the same offsets.
    assert reader(content, (1, UINT32), (0, INT8)).read(16) == [9, 7]


def test_a_table_like_an_earlier_one_must_lie_inside_the_file() -> None:
    content = struct.pack("<I4sHHHHiIiI", 16, MAGIC, 6, 8, 4, 0, 8, 7, 16, 5)
    whole, cut = reader(content, (0, UINT32)), reader(content[:-1], (0, UINT32))
    assert [whole.read(16), whole.read(24)] == [[7], [5]]
    assert cut.read(16) == [7]
    with pytest.raises(BadData, match="the table at byte 24 has 8 bytes"):
        cut.read(24)


@sweep("offset", [1, 3, 5, 8, 0xFFFF])
def test_a_field_outside_of_its_table(offset: int) -> None:
    content = struct.pack("<I4sHHHHiI", 16, MAGIC, 8, 8, offset, 0, 8, 0)
    with pytest.raises(BadData, match="field 0 of the table at byte 16 lies outside the table"):
        reader(content, (0, UINT32), (1, UINT32)).read(16)


@sweep("distance", [0, 1, 1 << 20, (1 << 32) - 1])
def test_a_reference_out_of_the_file(distance: int) -> None:
    content = struct.pack("<I4sHHHHiI", 16, MAGIC, 8, 8, 4, 0, 8, distance)
    with pytest.raises(BadData, match="the offset at byte 20 leads to"):
        reader(content, (0, None), (1, UINT32)).read(16)
