import os
from pathlib import Path

import numpy as np
import pytest

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import Dimensions, OperandType
from neurald.service.tensors.arrays import Slot
from neurald.service.tensors.single_inputs import parse_ranges, read_files


def slot(
    key: str = "x",
    kind: OperandType = OperandType.TENSOR_FLOAT32,
    dimensions: Dimensions = (2, 3),
    alias: str = "input_0",
) -> Slot:
    return Slot(key=key, alias=alias, operand=Operand(type=kind, dimensions=dimensions))


FLOATS = slot()
BYTES = slot("a=b", OperandType.TENSOR_QUANT8_ASYMM, (0, 2), "input_1")
STRINGS = slot("words", OperandType.TENSOR_STRING, (2,), "input_2")
BOOLS = slot("mask", OperandType.TENSOR_BOOL8, (3,), "input_3")
SLOTS = (FLOATS, BYTES, STRINGS, BOOLS)


def test_ranges() -> None:
    found = parse_ranges(["x=-1:2.5", "a=b=0:255"], SLOTS)
    assert found == {"x": (-1.0, 2.5), "a=b": (0, 255)}
    assert parse_ranges(["input_1=3:3"], SLOTS) == {"a=b": (3, 3)}
    wide = slot("n", OperandType.TENSOR_INT64)
    assert parse_ranges([f"n={-(2**63)}:{2**63 - 1}"], [wide]) == {"n": (-(2**63), 2**63 - 1)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["x=2:1"], "'x=2:1' of input 'x' .float32 .2, 3.. cannot be read; expected NAME=LOW:HIGH"),
        (["x=1"], "cannot be read"),
        (["x=nan:1"], "cannot be read"),
        (["x=0:inf"], "cannot be read"),
        (["a=b=0:1.5"], "cannot be read"),
        (["a=b=0:256"], "cannot be read"),
        (["words=0:1"], "has no numbers"),
        (["mask=0:1"], "has no numbers"),
        (["y=0:1"], r"names no input; the inputs are 'x' \(or 'input_0'\), 'a=b' \(or 'input_1'\)"),
        (["x=0:1", "input_0=0:1"], "input 'x' already has one"),
    ],
)
def test_wrong_ranges(settings: list[str], message: str) -> None:
    with pytest.raises(BadData, match=message):
        parse_ranges(settings, SLOTS)


def test_bytes_alone(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    values.tofile(tmp_path / "x")
    (tmp_path / "b=1").write_bytes(bytes([1, 2, 3, 4]))
    (tmp_path / "s").write_bytes(b"one\0\0")
    (tmp_path / "m").write_bytes(bytes([0, 1, 7]))
    settings = [f"x={tmp_path}/x", f"a=b={tmp_path}/b=1", f"words={tmp_path}/s", f"input_3={tmp_path}/m"]
    found = read_files(settings, SLOTS, {"a=b": (2, 2)})
    np.testing.assert_array_equal(found["x"], values)
    np.testing.assert_array_equal(found["a=b"], np.array([[1, 2], [3, 4]], np.uint8))
    assert found["words"].tolist() == [b"one", b""]
    assert found["mask"].tolist() == [False, True, True]


def test_files_of_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3)))
    np.save(tmp_path / "b.npy", np.ones((5, 2), np.uint8))
    np.save(tmp_path / "s.npy", np.array(["eins", "zwei"]))
    settings = [f"{key}={tmp_path}/{name}.npy" for key, name in (("x", "x"), ("a=b", "b"), ("words", "s"))]
    found = read_files(settings, SLOTS, {})
    assert found["x"].dtype == np.dtype("<f4")
    assert found["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["a=b"].shape == (5, 2)
    assert found["words"].tolist() == [b"eins", b"zwei"]


@pytest.mark.parametrize(
    ("content", "setting", "message"),
    [
        (bytes(23), "x", "has 23 bytes; 24 are expected for input 'x', which is float32 .2, 3."),
        (b"a\0b\0c\0", "words", "has 3 strings; 2 are expected for input 'words'"),
        (b"\x93NUMPY", "x", "cannot be read"),
        (b"\x93NUMPY\x02\0\xff\xff\xff\xff", "x", "header of 4294967295 bytes is too long"),
    ],
)
def test_wrong_files(tmp_path: Path, content: bytes, setting: str, message: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(BadData, match=message):
        read_files([f"{setting}={tmp_path}/f"], SLOTS, {})


def test_wrong_files_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    for wrong in (np.zeros((2, 3)), np.zeros((3, 2), np.float32), np.array([[1, None]], object)):
        np.save(path, wrong, allow_pickle=True)
        with pytest.raises(BadData, match=r"expected 'x' .float32 .2, 3.."):
            read_files([f"x={path}"], SLOTS, {})
    np.save(path, np.zeros((2, 3), np.float32))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(BadData, match="bytes are too few for the shape"):
        read_files([f"x={path}"], SLOTS, {})


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="names no file"):
        read_files(["x="], SLOTS, {})
    with pytest.raises(FileNotFoundError):
        read_files([f"x={tmp_path}/none"], SLOTS, {})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadData, match="not a regular file"):
        read_files([f"x={tmp_path}/pipe"], SLOTS, {})
