import io
import tracemalloc
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Dimensions, Lifetime, OperandType
from neurald.service.tensors.arrays import (
    Slot,
    input_slots,
    known_inputs,
    output_slots,
    random_inputs,
    read_inputs,
    write_outputs,
)

Array = np.ndarray[Any, np.dtype[Any]]

TENSOR_TYPES = [kind for kind in OperandType if kind.is_tensor]


def slot(
    key: str = "x",
    kind: OperandType = OperandType.TENSOR_FLOAT32,
    dimensions: Dimensions = (2, 3),
    alias: str = "input_0",
) -> Slot:
    return Slot(key=key, alias=alias, operand=Operand(type=kind, dimensions=dimensions))


def model(names: Sequence[str], kind: str = "input") -> Model:
    operands = tuple(
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(n + 1,), lifetime=Lifetime.SUBGRAPH_INPUT)
        for n in range(len(names))
    )
    indexes = tuple(range(len(names)))
    graph = Subgraph(operands=operands, operations=(), inputs=indexes, outputs=indexes)
    return Model(
        main=graph,
        input_names=tuple(names) if kind == "input" else (),
        output_names=tuple(names) if kind == "output" else (),
    )


def keys(slots: Sequence[Slot]) -> list[str]:
    return [s.key for s in slots]


def test_slots_go_by_tensor_name_and_by_position() -> None:
    slots = input_slots(model(["a", "b/c:0"]))
    assert keys(slots) == ["a", "b/c:0"]
    assert [s.alias for s in slots] == ["input_0", "input_1"]
    assert slots[1].operand.dimensions == (2,)


@sweep(
    "names",
    [
        ["a", "a"],
        ["", "b"],
        ["/etc/passwd", "b"],
        ["../a", "b"],
        ["a\\b", "c"],
        ["a\nb", "c"],
        ["a\x1b[2J", "c"],
        ["a" * 300, "b"],
    ],
)
def test_names_that_are_no_names_for_files_give_way_to_positions(names: list[str]) -> None:
    assert keys(output_slots(model(names, "output"))) == ["output_0", "output_1"]


def test_missing_names_give_way_to_positions() -> None:
    three = model(["a", "b", "c"])
    nameless = Model(main=three.main)
    assert keys(input_slots(nameless)) == ["input_0", "input_1", "input_2"]


def test_a_tensor_name_that_looks_like_a_position_wins() -> None:
    # Keras calls the inputs of a second network input_1 and input_2.
    slots = input_slots(model(["input_1", "input_2"]))
    assert [(s.key, s.alias) for s in slots] == [("input_1", "input_0"), ("input_2", "input_2")]


@sweep("kind", TENSOR_TYPES, ids=lambda kind: kind.name)
@sweep("shape", [(3, 5), (), (0, 4)])
def test_random_inputs_have_type_and_shape_and_repeat(kind: OperandType, shape: tuple[int, ...]) -> None:
    first, second = random_inputs([slot(kind=kind, dimensions=shape)] * 2)
    (again, _) = random_inputs([slot(kind=kind, dimensions=shape)] * 2)
    assert first.dtype == kind.dtype
    assert first.shape == tuple(d or 1 for d in shape)
    np.testing.assert_array_equal(first, again)
    assert first.size < 4 or not np.array_equal(first, second)


@sweep("kind", [OperandType.FLOAT32, OperandType.INT32, OperandType.UINT32, OperandType.BOOL])
def test_random_scalars(kind: OperandType) -> None:
    (value,) = random_inputs([slot(kind=kind, dimensions=())])
    assert value.shape == ()
    assert value.dtype == kind.dtype


def test_random_ranges() -> None:
    floats, bytes_, integers, unknown = random_inputs(
        [
            slot(dimensions=(5000,)),
            slot(kind=OperandType.TENSOR_QUANT8_ASYMM_SIGNED, dimensions=(5000,)),
            slot(kind=OperandType.TENSOR_INT32, dimensions=(5000,)),
            slot(dimensions=None),
        ]
    )
    assert floats.min() >= 0
    assert floats.max() <= 1
    assert (bytes_.min(), bytes_.max()) == (-128, 127)
    assert (integers.min(), integers.max()) == (0, 99)
    assert unknown.shape == ()


@sweep("kind", TENSOR_TYPES, ids=lambda kind: kind.name)
@sweep("shape", [(2, 3), (), (0, 4), (1, 1, 1, 1, 7)])
@sweep("save", [np.savez, np.savez_compressed])
def test_inputs_are_read_by_name_or_position(
    tmp_path: Path, kind: OperandType, shape: tuple[int, ...], save: Callable[..., None]
) -> None:
    (array,) = random_inputs([slot(kind=kind, dimensions=tuple(d or 1 for d in shape))])
    array = array[:0] if 0 in shape else array
    # Objects would have to be pickled.
    saved = array.astype(np.bytes_) if kind is OperandType.TENSOR_STRING else array
    for name in ("some/tensor:0", "input_0"):
        save(tmp_path / "in.npz", **{name: saved})
        (read,) = read_inputs(tmp_path / "in.npz", [slot("some/tensor:0", kind, shape)])
        assert read.dtype == kind.dtype
        assert read.shape == array.shape
        assert read.flags.c_contiguous
        np.testing.assert_array_equal(read, array)


def test_order_is_the_models(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", b=np.zeros(2, np.float32), a=np.ones(2, np.float32))
    a, b = read_inputs(
        tmp_path / "in.npz", [slot("a", dimensions=(2,)), slot("b", dimensions=(2,), alias="input_1")]
    )
    assert a.tolist() == [1, 1]
    assert b.tolist() == [0, 0]


def test_unspecified_dimensions_take_any_size(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((4, 3), np.float32))
    assert read_inputs(tmp_path / "in.npz", [slot(dimensions=(0, 3))])[0].shape == (4, 3)
    assert read_inputs(tmp_path / "in.npz", [slot(dimensions=None)])[0].shape == (4, 3)


def test_fortran_order_and_foreign_byte_order_are_understood(tmp_path: Path) -> None:
    values = np.arange(6, dtype=">f4").reshape(2, 3, order="F")
    np.savez(tmp_path / "in.npz", x=values)
    (read,) = read_inputs(tmp_path / "in.npz", [slot()])
    assert read.dtype == np.dtype("<f4")
    assert read.flags.c_contiguous
    np.testing.assert_array_equal(read, values)


RIGHT = np.zeros((2, 3), np.float32)


@sweep(
    ("arrays", "words"),
    [
        ({"y": RIGHT}, ["lacks input 'x' (float32 [2, 3])", "'y'"]),
        ({}, ["lacks input 'x'", "nothing"]),
        ({"x": RIGHT, "z": RIGHT}, ["'z'", "no input for", "'x' (float32 [2, 3])"]),
        ({"x": RIGHT, "input_0": RIGHT}, ["both 'x' and 'input_0'"]),
        ({"x": RIGHT.astype(np.float64)}, ["x.npy is float64 [2, 3]", "expected 'x' (float32 [2, 3])"]),
        ({"x": RIGHT.astype(np.int8)}, ["int8", "float32"]),
        ({"x": RIGHT.T.copy()}, ["float32 [3, 2]", "float32 [2, 3]"]),
        ({"x": RIGHT[0]}, ["float32 [3]", "float32 [2, 3]"]),
        ({"x": np.array([["a", "b", "c"]] * 2)}, ["<U1", "float32 [2, 3]"]),
    ],
    ids=range(9),
)
def test_what_does_not_fit_is_refused_by_name(
    tmp_path: Path, arrays: dict[str, Any], words: list[str]
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(BadData) as caught:
        read_inputs(tmp_path / "in.npz", [slot()])
    for word in words:
        assert word in str(caught.value)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.array([[print] * 3] * 2, object))
    with pytest.raises(BadData, match="object"):
        read_inputs(tmp_path / "in.npz", [slot()])


STRINGS = slot(kind=OperandType.TENSOR_STRING, dimensions=(2, 2))


def test_strings_are_read_as_bytes_or_text(tmp_path: Path) -> None:
    expected = [[b"a\0b", b""], [b"\xc3\xa9", b"xyz"]]
    for array in (np.array(expected), np.array([["a\0b", ""], ["\u00e9", "xyz"]])):
        np.savez(tmp_path / "in.npz", x=array)
        (read,) = read_inputs(tmp_path / "in.npz", [STRINGS])
        assert read.dtype == object
        assert read.tolist() == expected


@sweep(
    ("array", "words"),
    [
        (np.zeros((2, 2)), "float64 [2, 2]; expected 'x' (strings [2, 2])"),
        (np.array([b"a"]), "|S1 [1]; expected 'x' (strings [2, 2])"),
        (np.array([["\ud800", ""]] * 2), "cannot be encoded"),
    ],
)
def test_what_are_no_such_strings_is_refused(tmp_path: Path, array: Array, words: str) -> None:
    np.savez(tmp_path / "in.npz", x=array)
    with pytest.raises(BadData) as caught:
        read_inputs(tmp_path / "in.npz", [STRINGS])
    assert words in str(caught.value)


def test_pickled_strings_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.array([[b"a", b"b"]] * 2, object))
    with pytest.raises(BadData, match=r"object \[2, 2\]; expected 'x' \(strings"):
        read_inputs(tmp_path / "in.npz", [STRINGS])


def test_strings_are_written_as_bytes(tmp_path: Path) -> None:
    written = np.array([[b"a\0b", b""], [b"\xff", b"x"]], object)
    write_outputs(tmp_path / "out.npz", [STRINGS], [written])
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["x"].dtype == np.dtype("S3")
        assert archive["x"].tolist() == written.tolist()
    write_outputs(tmp_path / "out.npz", [STRINGS], [np.empty((2, 0), object)])
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["x"].shape == (2, 0)


def test_strings_that_would_be_changed_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="ends with a zero"):
        write_outputs(tmp_path / "out.npz", [STRINGS], [np.array([[b"a\0", b""]] * 2, object)])
    assert not (tmp_path / "out.npz").exists()


def npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def archive(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)


@sweep(
    "content",
    [b"", b"hello", b"\x93NUMPY", b"\x93NUMPY\x09\x00v\x00{}", npy(RIGHT)[:-1], npy(RIGHT)[:60], b"\0" * 200],
    ids=range(7),
)
def test_damaged_members_are_refused(tmp_path: Path, content: bytes) -> None:
    archive(tmp_path / "in.npz", x=content)
    with pytest.raises(BadData, match=r"x\.npy cannot be read"):
        read_inputs(tmp_path / "in.npz", [slot()])


def test_a_header_that_promises_too_much_is_not_believed(tmp_path: Path) -> None:
    header = npy(RIGHT)[:128].replace(b"(2, 3), }            ", b"(4000000000000, 3), }")
    archive(tmp_path / "in.npz", x=header)
    with pytest.raises(BadData, match=r"too few for the shape \[4000000000000, 3\]"):
        read_inputs(tmp_path / "in.npz", [slot(dimensions=(0, 3))])


@pytest.mark.parametrize("length", [0xFFFFFFF0, 300 << 20, (1 << 16) + 1])
def test_headers_without_an_end_are_not_read(tmp_path: Path, length: int) -> None:
    """The header of a small file claims an enormous length, to which it would expand."""
    path = tmp_path / "inputs.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        header = b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little")
        archive.writestr("x.npy", header + b" " * min(length, 300 << 20))
    tracemalloc.start()
    with pytest.raises(BadData, match="header of"):
        read_inputs(path, [slot()])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 16 << 20


def test_members_that_claim_more_than_they_can_hold_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 28,)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue())
    content = path.read_bytes()
    entry = content.rindex(b"PK\x01\x02")
    path.write_bytes(content[: entry + 24] + (0xFFFFFFF0).to_bytes(4, "little") + content[entry + 28 :])
    with pytest.raises(BadData, match="claims to expand 76 bytes to 4294967280"):
        read_inputs(path, [slot(dimensions=(0,))])


def test_no_npz_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "in.npz"
    good = io.BytesIO()
    np.savez(good, x=RIGHT)
    for content in (
        b"",
        b"text\n",
        rng.bytes(1000),
        npy(RIGHT),
        good.getvalue()[:-30],
        b"PK\x05\x06" + bytes(18),
    ):
        path.write_bytes(content)
        with pytest.raises(BadData):
            read_inputs(path, [slot()])
    with pytest.raises(FileNotFoundError):
        read_inputs(tmp_path / "absent.npz", [slot()])
    with pytest.raises(BadData, match="regular"):
        read_inputs(Path("/dev/zero"), [slot()])
    with pytest.raises(IsADirectoryError):
        read_inputs(tmp_path, [slot()])


def test_random_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    good = io.BytesIO()
    np.savez_compressed(good, x=np.arange(6, dtype=np.float32).reshape(2, 3))
    path = tmp_path / "in.npz"
    for _ in range(300):
        content = bytearray(good.getvalue())
        for position in rng.integers(0, len(content), 3):
            content[position] = rng.integers(0, 256)
        path.write_bytes(content)
        try:
            (array,) = read_inputs(path, [slot()])
        except BadData:
            continue
        assert array.shape == (2, 3)


def test_outputs_are_read_back(tmp_path: Path) -> None:
    # Names that are parameters of numpy.savez are allowed.
    names = ["file", "allow_pickle", "a/b:0", "ü"]
    arrays = [np.arange(n, dtype=np.float32) for n in range(4)]
    slots = [slot(name) for name in names]
    write_outputs(tmp_path / "out.npz", slots, arrays)
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert sorted(file.files) == sorted(names)
        for name, array in zip(names, arrays, strict=True):
            np.testing.assert_array_equal(file[name], array)


def test_writing_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        write_outputs(tmp_path / "absent" / "out.npz", [slot()], [RIGHT])


def test_random_numbers_are_in_the_given_ranges() -> None:
    slots = [slot("x", dimensions=(50,)), slot("n", OperandType.TENSOR_INT32, (50,), "input_1")]
    floats, integers = random_inputs(slots, ranges={"x": (-2.0, 3.0), "n": (-1, 1)})
    assert -2 <= floats.min() < 0 < 1 < floats.max() <= 3
    assert set(integers.tolist()) == {-1, 0, 1}
    assert integers.dtype == np.int32
    largest = float(np.finfo(np.float32).max)
    (widest,) = random_inputs(slots[:1], ranges={"x": (-largest, largest)})
    assert np.isfinite(widest).all()


def test_known_inputs() -> None:
    assert known_inputs([]) == "the model has no inputs"
    unnamed, named = slot("input_0"), slot("x", alias="input_1")
    assert known_inputs([unnamed, named]) == "the inputs are 'input_0' and 'x' (or 'input_1')"
