"""Converted models in the cache: found for an unchanged file, and equal to a new conversion."""

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from support.tflite.builder import TfliteModel

from neurald.hal.cache.key import graphs_digest
from neurald.hal.cache.sources import sources_digest
from neurald.hal.cache.store import Cache
from neurald.hal.errors import BadData
from neurald.hal.memory import mapped_file
from neurald.hal.memory.pool import HostMemory, SharedMemory
from neurald.hal.model.model import Model
from neurald.hal.process.threads.postponed import POSTPONED, PostponedWork
from neurald.hal.records import replace
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.model.feature_level_slice import levels_of
from neurald.runtime.tflite import load_tflite
from neurald.runtime.tflite.conversion import file_conversion
from neurald.runtime.tflite.kept import converted
from neurald.runtime.tflite.kept.stored_model import stored_model


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mapped_file, "_REST_NS", 20_000_000)


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Returns a list to which each conversion adds its signature."""
    found: list[str | None] = []
    convert = file_conversion.convert

    def counted(*arguments: object) -> Model:
        found.append(arguments[1])  # type: ignore[arg-type]
        return convert(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(file_conversion, "convert", counted)
    return found


def packed(path: Path, data: bytes = b"\x21\x43\x65") -> Path:
    """Writes a model with a constant of 4 bits, which the conversion unpacks."""
    model = TfliteModel()
    graph = model.subgraph()
    x = graph.tensor((1, 6), name="x")
    weights = graph.tensor((1, 6), "INT4", name="w", data=data, scale=0.5)
    between, y = graph.tensor((1, 1)), graph.tensor((1, 1), name="y")
    graph.operator("FULLY_CONNECTED", (x, weights), (between,), "FullyConnectedOptions")
    graph.operator("ADD", (between, between), (y,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    model.write(path)
    time.sleep(0.05)
    return path


def constants(model: Model) -> list[tuple[str, bytes]]:
    found = [(operand.name, model.constant(operand)) for operand in model.main.operands]
    return [(name, value.tobytes()) for name, value in found if value is not None]


def assert_same(model: Model, other: Model) -> None:
    assert graphs_digest(model) == graphs_digest(other)
    assert list(levels_of(model)) == list(levels_of(other))
    assert constants(model) == constants(other)
    assert [each.name for each in model.main.operands] == [each.name for each in other.main.operands]
    assert (model.input_names, model.output_names) == (other.input_names, other.output_names)
    assert model.signatures == other.signatures
    for first, second in zip(model.state, other.state, strict=True):
        assert first.name == second.name
        np.testing.assert_array_equal(first.initial, second.initial)
        assert first.initial.dtype == second.initial.dtype


def test_sources_are_only_read_once_there_are_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path / "packed.tflite")
    asked: list[tuple[str, ...]] = []

    def counted(*folders: str) -> str:
        asked.append(folders)
        return sources_digest(*folders)

    monkeypatch.setattr(converted, "sources_digest", counted)
    first = load_tflite(path)
    assert not asked
    POSTPONED.finish_all()
    assert asked == [converted.CONVERSION_SOURCES]
    monkeypatch.setattr(file_conversion, "convert", lambda *_: pytest.fail("the file was converted again"))
    assert_same(load_tflite(path), first)


def test_an_unchanged_file_is_converted_once(path: Path, conversions: list[str | None]) -> None:
    packed(path)
    first, second, third = (load_tflite(path) for _ in range(3))
    assert conversions == [None]
    assert_same(first, second)
    assert_same(first, third)
    assert second.outline.has_references


def test_what_is_stored_is_copied_once_outside_of_the_process(path: Path) -> None:
    model = load_tflite(packed(path))
    pools = [HostMemory(b"sixteen bits"), HostMemory(b""), HostMemory(bytes(100)), HostMemory(b"end")]
    stored = stored_model(replace(model, pools=(*model.pools[:1], *pools)))
    assert stored is not None
    # Its pages are not in this process, which has those of the memories already.
    assert isinstance(stored.added, SharedMemory)
    assert bytes(stored.added.view()) == b"sixteen bits" + bytes(52 + 128) + b"end"


def test_a_load_does_not_wait_for_the_cache(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = PostponedWork()
    monkeypatch.setattr(work, "_has_thread", True)  # Starts none.
    monkeypatch.setattr(converted, "POSTPONED", work)
    load_tflite(packed(path))
    assert not Cache(tmp_path / "cache" / "neurald").verify()
    work.finish_all()
    assert len(Cache(tmp_path / "cache" / "neurald").verify()) == 2


@pytest.mark.parametrize("shape", [(), (1,), (3, 2), (0, 2)])
def test_variables(path: Path, conversions: list[str | None], shape: tuple[int, ...]) -> None:
    model = TfliteModel()
    graph = model.subgraph()
    handle = graph.tensor((), "RESOURCE")
    x, y, z = graph.tensor(shape, name="x"), graph.tensor(shape, name="y"), graph.tensor(shape, name="z")
    graph.operator("VAR_HANDLE", (), (handle,), "VarHandleOptions", SharedName="v")
    graph.operator("READ_VARIABLE", (handle,), (y,))
    graph.operator("ADD", (x, y), (z,), "AddOptions")
    graph.operator("ASSIGN_VARIABLE", (handle, z), ())
    graph.inputs, graph.outputs = (x,), (z,)
    initialise = model.subgraph()
    inner = initialise.tensor((), "RESOURCE")
    size = int(np.prod(shape))
    start = initialise.tensor(shape, data=[float(n) for n in range(size)])
    initialise.operator("VAR_HANDLE", (), (inner,), "VarHandleOptions", SharedName="v")
    initialise.operator("ASSIGN_VARIABLE", (inner, start), ())
    initialise.inputs, initialise.outputs = (), ()
    graph.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=1)
    graph.operators.insert(0, graph.operators.pop())
    model.write(path)
    time.sleep(0.05)
    first, second = load_tflite(path), load_tflite(path)
    assert conversions == [None]
    assert first.state
    assert_same(first, second)


def test_a_changed_file_is_converted_again(path: Path, conversions: list[str | None]) -> None:
    packed(path)
    before = load_tflite(path)
    packed(path, b"\x11\x11\x11")
    after = load_tflite(path)
    assert len(conversions) == 2
    assert constants(before) != constants(after)


def test_a_file_that_was_just_written_is_not_kept(
    path: Path, conversions: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_file, "_REST_NS", 10**12)
    packed(path)
    load_tflite(path)
    load_tflite(path)
    assert len(conversions) == 2


def test_bytes_are_converted_each_time(path: Path, conversions: list[str | None]) -> None:
    content = packed(path).read_bytes()
    load_tflite(content)
    load_tflite(content)
    assert len(conversions) == 2


@pytest.mark.parametrize("damage", [b"", b"\0", b"x" * 200])
def test_a_damaged_entry_is_as_good_as_none(
    path: Path, tmp_path: Path, conversions: list[str | None], damage: bytes
) -> None:
    first = load_tflite(packed(path))
    POSTPONED.finish_all()
    for file in (tmp_path / "cache").rglob("head"):
        file.chmod(0o600)
        file.write_bytes(damage)
    second = load_tflite(path)
    assert len(conversions) == 2
    assert_same(first, second)


def test_without_a_usable_cache_files_are_converted(
    path: Path, tmp_path: Path, conversions: list[str | None]
) -> None:
    packed(path)
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "neurald").write_bytes(b"not a directory")
    load_tflite(path)
    load_tflite(path)
    assert len(conversions) == 2


def test_each_signature_has_an_entry(path: Path, conversions: list[str | None]) -> None:
    packed(path)
    load_tflite(path)
    with pytest.raises(BadData, match="no signature 'a'"):
        load_tflite(path, signature="a")
    load_tflite(path)
    assert conversions == [None, "a"]


def test_entries_are_listed_like_others(path: Path, tmp_path: Path) -> None:
    load_tflite(packed(path))
    POSTPONED.finish_all()
    entries = Cache(tmp_path / "cache" / "neurald").verify()
    assert not any(entry.damage for entry in entries)
    manifests = [entry.manifest for entry in entries if entry.manifest is not None]
    assert sorted(each.parts.variant for each in manifests) == ["", "graphs"]
    assert all("FULLY_CONNECTED" in each.origin.model for each in manifests)


def test_graphs_are_not_read_for_a_start_and_converted_again_if_they_are_lost(
    path: Path, tmp_path: Path, conversions: list[str | None]
) -> None:
    first = load_tflite(packed(path))
    value = np.ones((1, 6), np.float32)
    expected = CompilationBuilder(first).finish().run(value)
    CompilationBuilder(first, [cpu_device()]).finish()  # waits for the optimised code
    POSTPONED.finish_all()
    for manifest in [each.manifest for each in Cache(tmp_path / "cache" / "neurald").verify()]:
        assert manifest is not None
        if manifest.parts.variant == "graphs":
            shutil.rmtree(tmp_path / "cache" / "neurald" / manifest.key)
    second = load_tflite(path)
    compilation = CompilationBuilder(second).finish()
    np.testing.assert_array_equal(compilation.run(value), expected)
    assert "hit" in str(compilation.report)
    assert conversions == [None]
    assert_same(first, second)
    assert conversions == [None, None]
