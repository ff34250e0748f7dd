"""The normalisation that TFLite's metadata tools store in a model's file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from support.tflite.builder import TfliteModel

from neurald.service.tensors.packed_normalization import Normalization, packed_normalization


class Metadata:
    """Writes a file of the metadata's schema: tables as dictionaries by field number."""

    def __init__(self) -> None:
        self._builder = flatbuffers.Builder(256)

    def finish(self, root: dict[int, Any], identifier: bytes = b"M001") -> bytes:
        self._builder.Finish(self._table(root), file_identifier=identifier)
        return bytes(self._builder.Output())

    def _table(self, fields: dict[int, Any]) -> int:
        values = {number: self._value(value) for number, value in fields.items()}
        self._builder.StartObject(8)
        for number, (value, is_reference) in values.items():
            if is_reference:
                self._builder.PrependUOffsetTRelativeSlot(number, value, 0)
            else:
                self._builder.PrependUint8Slot(number, value, 0)
        return int(self._builder.EndObject())

    def _value(self, value: Any) -> tuple[int, bool]:
        if isinstance(value, int):
            return value, False
        if isinstance(value, dict):
            return self._table(value), True
        if isinstance(value, np.ndarray):
            return int(self._builder.CreateNumpyVector(value)), True
        tables = [self._table(each) for each in value]
        self._builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            self._builder.PrependUOffsetTRelative(table)
        return int(self._builder.EndVector()), True


def normalizing(means: Sequence[float], stds: Sequence[float]) -> bytes:
    """Returns metadata whose first input has a unit of another kind, and one that normalises."""
    numbers = {0: np.array(means, np.float32), 1: np.array(stds, np.float32)}
    units = [{0: 3, 1: {}}, {0: 1, 1: numbers}]
    return Metadata().finish({3: [{2: [{4: units}]}]})


def written(path: Path, content: bytes | None, name: str = "TFLITE_METADATA") -> Path:
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((1, 4, 4, 3), name="x")
    graph.inputs, graph.outputs = (x,), (x,)
    if content is not None:
        file.metadata = {"min_runtime_version": b"1.5.0", name: content}
    path.write_bytes(file.build())
    return path


@pytest.mark.parametrize(
    ("means", "stds"), [((127.5,), (127.5,)), ((0.0,), (255.0,)), ((103.5, 116.25, 123.75), (1.0, 2.0, 3.0))]
)
def test_numbers_of_the_first_input(
    tmp_path: Path, means: tuple[float, ...], stds: tuple[float, ...]
) -> None:
    path = written(tmp_path / "m.tflite", normalizing(means, stds))
    assert packed_normalization(path) == Normalization(means=means, stds=stds)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"no flatbuffer",
        Metadata().finish({}),
        Metadata().finish({3: []}),
        Metadata().finish({3: [{2: []}]}),
        Metadata().finish({3: [{2: [{4: [{0: 3, 1: {}}]}]}]}),
        normalizing((1.0,), (0.0,)),
        normalizing((float("nan"),), (1.0,)),
        normalizing((1.0, 2.0), (1.0,)),
        normalizing((), (1.0,)),
    ],
)
def test_files_that_do_not_say(tmp_path: Path, content: bytes | None) -> None:
    assert packed_normalization(written(tmp_path / "m.tflite", content)) is None


def test_other_files(tmp_path: Path) -> None:
    good = normalizing((1.0,), (2.0,))
    assert packed_normalization(written(tmp_path / "m.tflite", good, name="OTHER")) is None
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("neither a model nor anything else")
    for name in ("empty", "text", "missing", "."):
        assert packed_normalization(tmp_path / name) is None


def test_damaged_files_say_nothing_wrong(tmp_path: Path) -> None:
    path = written(tmp_path / "m.tflite", normalizing((1.0,), (2.0,)))
    content = path.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(content)
        for place in random.integers(0, len(content), 3).tolist():
            damaged[place] = int(random.integers(0, 256))
        path.write_bytes(damaged)
        found = packed_normalization(path)
        assert found is None or (all(found.stds) and np.isfinite([*found.means, *found.stds]).all())
        path.write_bytes(content[: int(random.integers(1, len(content)))])
        packed_normalization(path)
