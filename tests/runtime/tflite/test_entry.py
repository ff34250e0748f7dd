"""Subgraphs are converted once for each set of shapes, and kept like whole files."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.litert_files import composite, counter, sums

from neurald.hal.cache.key import graphs_digest
from neurald.hal.memory import mapped_file
from neurald.hal.memory.pool import HostMemory
from neurald.runtime.tflite.conversion import entry_conversion
from neurald.runtime.tflite.entry import load_entry
from neurald.runtime.tflite.file.content import file_content
from neurald.runtime.tflite.file.schema import TfliteFile
from neurald.runtime.tflite.graph.custom_operators import CustomOperators
from neurald.runtime.tflite.kept.stored_entry import Entry, restored_entry


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mapped_file, "_REST_NS", 20_000_000)


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Returns a list to which each conversion adds its shapes."""
    found: list[object] = []
    convert = entry_conversion.convert_entry

    def counted(*arguments: object, **more: object) -> Entry:
        found.append(arguments[3])
        return convert(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(entry_conversion, "convert_entry", counted)
    return found


def loaded(
    content: Path | bytes,
    shapes: Mapping[int, Sequence[int]] | None = None,
    operators: CustomOperators | None = None,
    *,
    keeps_all: bool = False,
) -> Entry:
    _, memory = file_content(content)
    file = TfliteFile(memory.view())
    return load_entry(file, memory, 0, shapes=shapes or {}, keeps_all=keeps_all, custom_operators=operators)


def written(model: TfliteModel, path: Path) -> Path:
    model.write(path)
    time.sleep(0.05)
    return path


def assert_same(one: Entry, other: Entry) -> None:
    assert graphs_digest(one.model) == graphs_digest(other.model)
    assert (one.inputs, one.outputs, dict(one.origins)) == (other.inputs, other.outputs, dict(other.origins))
    assert [each.name for each in one.model.state] == [each.name for each in other.model.state]
    for first, second in zip(one.model.state, other.model.state, strict=True):
        np.testing.assert_array_equal(first.initial, second.initial)


@pytest.mark.parametrize("is_file", [True, False])
@pytest.mark.parametrize("keeps_all", [False, True])
@pytest.mark.parametrize("model", [sums, composite, counter])
def test_a_subgraph_is_converted_once(
    tmp_path: Path, conversions: list[object], model: object, is_file: bool, keeps_all: bool
) -> None:
    path = written(model(), tmp_path / "m.tflite")  # type: ignore[operator]
    content = path if is_file else path.read_bytes()
    first, second = loaded(content, keeps_all=keeps_all), loaded(content, keeps_all=keeps_all)
    assert len(conversions) == 1
    assert_same(first, second)
    loaded(content, keeps_all=not keeps_all)
    assert len(conversions) == 2


def test_each_set_of_shapes_is_another_one(tmp_path: Path, conversions: list[object]) -> None:
    path = written(sums(None), tmp_path / "m.tflite")
    for _ in range(2):
        for length in (4, 5, 0):
            shapes = {0: (2, length), 1: (2, length)}
            entry = loaded(path, shapes)
            found = [entry.model.main.operands[index].dimensions for index in entry.model.inputs]
            assert found == [(2, length), (2, length)]
    assert len(conversions) == 3


def test_changed_files_are_converted_again(tmp_path: Path, conversions: list[object]) -> None:
    path = written(sums(), tmp_path / "m.tflite")
    loaded(path)
    written(sums(None), path)
    loaded(path)
    assert len(conversions) == 2


def test_functions_of_an_application_are_not_kept(tmp_path: Path, conversions: list[object]) -> None:
    path = written(sums(), tmp_path / "m.tflite")
    operators = CustomOperators()
    operators.add("Mine", lambda inputs, _: inputs[0] or np.zeros(1))
    for _ in range(2):
        loaded(path, operators=operators)
    assert len(conversions) == 2


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x94\x01\x02\x03\x04", b"\x94\x90\x90\x90\xc4\x01x"])
def test_what_is_of_another_version_is_no_entry(content: bytes) -> None:
    assert restored_entry(content, HostMemory(b"x"), lambda: (b"", HostMemory(b""))) is None
