"""Variants of models with unspecified dimensions are compiled once for all processes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from support.cpu.compiled_parts import FLOAT, Op, in_parts

import neurald as nd
from neurald.drivers.compiler.frontend.variants import variant_uses
from neurald.drivers.compiler.frontend.variants.open_variants import OpenVariants
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.preparation import Preparation
from neurald.hal.cache.store import Cache
from neurald.hal.device import Artifact, ExecuteOptions
from neurald.hal.errors import OutOfMemory
from neurald.hal.memory.pool import HostMemory
from neurald.runtime.plan.prepared_step import CacheOutcome

pytestmark = pytest.mark.quick

TOKEN = bytes(32)


def scaled(factor: float) -> nd.Model:
    builder = nd.ModelBuilder()
    source, result = (builder.add_operand(FLOAT, (0, 3)) for _ in range(2))
    weights = builder.add_operand(FLOAT, (3,))
    builder.set_operand_value(weights, np.full(3, factor, np.float32))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(Op.MUL, [source, weights, activation], [result])
    builder.identify_inputs_and_outputs([source], [result])
    return builder.finish()


def compiled(directory: Path | None, factor: float = 2) -> nd.Compilation:
    cpu = CpuDevice()
    builder = nd.CompilationBuilder(scaled(factor), [cpu])
    builder.set_caching(directory, TOKEN if directory else b"")
    return builder.finish()


def check(compilation: nd.Compilation, rows: int, factor: float = 2) -> None:
    given = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    (result,) = compilation.run(given)
    np.testing.assert_array_equal(result, given * factor)


def entries(directory: Path) -> list[Path]:
    """Returns the entries of models, without that of the kernels that all models share."""
    found = []
    for each in Cache(directory).entries():
        assert each.manifest is not None
        if not each.manifest.parts.variant.startswith("kernels"):
            found.append(directory / each.key)
    return found


def count(directory: Path) -> int:
    return len(entries(directory))


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Records the shapes that were compiled; none is compiled again because it is frequent."""
    found: list[object] = []
    monkeypatch.setattr(variant_uses, "FREQUENT_USES", 1 << 30)
    prepare = Preparation.prepare

    def counted(self: Preparation, model: nd.Model, shapes: object = None) -> object:
        found.append(shapes)
        return prepare(self, model, shapes)  # type: ignore[arg-type]

    monkeypatch.setattr(Preparation, "prepare", counted)
    prepare_open = Preparation.open

    def counted_open(self: Preparation, model: nd.Model, shapes: Mapping[int, tuple[int, ...]]) -> object:
        found.append("open")
        return prepare_open(self, model, shapes)

    monkeypatch.setattr(Preparation, "open", counted_open)
    return found


def test_shapes_are_compiled_once(tmp_path: Path, compilations: list[object]) -> None:
    for _ in range(2):
        compilation = compiled(tmp_path)
        assert compilation.report.steps[0].cache is CacheOutcome.MISS
        for rows in (1, 4, 1, 5, 100, 1):
            check(compilation, rows)
    assert compilations == [{0: (1, 3)}, "open"]
    assert count(tmp_path) == 2


def test_other_weights_are_another_model(tmp_path: Path, compilations: list[object]) -> None:
    for factor in (2.0, 3.0):
        check(compiled(tmp_path, factor), 5, factor)
    assert len(compilations) == 2


def test_unreadable_entries_are_compiled_again(tmp_path: Path, compilations: list[object]) -> None:
    check(compiled(tmp_path), 2)
    (entry,) = entries(tmp_path)
    path = entry / "head"
    path.write_bytes(path.read_bytes()[:-1])
    check(compiled(tmp_path), 2)
    check(compiled(tmp_path), 2)
    assert len(compilations) == 2


def test_refused_entries_are_compiled_again(
    tmp_path: Path, compilations: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(compiled(tmp_path), 2)
    with monkeypatch.context() as patch:
        patch.setattr("neurald.drivers.cpu.open_artifact._MAGIC", b"another!")
        check(compiled(tmp_path), 2)
    assert len(compilations) == 2


def test_without_a_cache_nothing_is_stored(tmp_path: Path, compilations: list[object]) -> None:
    for _ in range(2):
        check(compiled(None), 2)
    assert len(compilations) == 2


def test_a_full_cache_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURALD_CACHE_MAX_BYTES", "10")
    check(compiled(tmp_path), 2)
    assert count(tmp_path) == 0


@pytest.mark.parametrize("rows", [4, 0])
def test_a_model_in_parts_is_compiled_once(tmp_path: Path, compilations: list[object], rows: int) -> None:
    cpu = CpuDevice()
    results = []
    for outcome in (CacheOutcome.MISS, CacheOutcome.HIT if rows else CacheOutcome.MISS):
        builder = nd.CompilationBuilder(in_parts(rows), [cpu])
        builder.set_caching(tmp_path, TOKEN)
        compilation = builder.finish()
        report = compilation.report.steps[0]
        assert report.cache is outcome
        assert report.is_stored == bool(rows)
        assert (tmp_path / report.key).exists() == bool(rows)
        given = np.arange(12, dtype=np.float32).reshape(4, 3)
        results.append(compilation.run(given))
        (step,) = compilation.profile()
        assert any(kernel.is_reference for kernel in step.kernels)
        assert not all(kernel.is_reference for kernel in step.kernels)
    # Compiling it for any number of rows, and for any multiple of four, was tried, too.
    assert len(compilations) == (1 if rows else 3)
    np.testing.assert_array_equal(results[0][0], 4 * given * given)
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


def test_what_cannot_be_stored_is_used_all_the_same() -> None:
    class Unstored:
        def artifact(self) -> Artifact:
            raise OutOfMemory("there is no memory for an artifact")

    class NoVariants:
        record = None

        def load(self, name: bytes) -> None:
            return None

        def store(self, name: bytes, artifact: Artifact, compile_ms: float) -> None:
            raise AssertionError("nothing can be stored")

    found = Unstored()
    variants = OpenVariants[Unstored](
        model=scaled(2),
        compile_open=lambda *_: found,
        restore=lambda *_: found,
        variants=NoVariants(),
    )
    assert variants.get(0, [{}], ExecuteOptions()) is found


@pytest.mark.parametrize("fits", [0, 2, 3])
def test_all_examples_are_tried_before_it_is_cached_that_none_can_be_compiled(fits: int) -> None:
    """The outcome is the same in a process that finds it in the cache."""

    class Found:
        def artifact(self) -> Artifact:
            return Artifact(model=(HostMemory(b"open"),), data=(HostMemory(b"-"),))

    class Stored:
        record = None

        def __init__(self) -> None:
            self.artifacts: dict[bytes, Artifact] = {}

        def load(self, name: bytes) -> Artifact | None:
            return self.artifacts.get(name)

        def store(self, name: bytes, artifact: Artifact, compile_ms: float) -> None:
            assert name not in self.artifacts
            self.artifacts[name] = artifact

    found, tried = Found(), list[int]()

    def compile_open(
        model: nd.Model, shapes: Mapping[int, tuple[int, ...]], limits: ExecuteOptions
    ) -> Found | None:
        (length,) = shapes[0]
        tried.append(length)
        return found if length == fits else None

    stored = Stored()
    for _ in range(2):
        variants = OpenVariants[Found](
            model=scaled(2), compile_open=compile_open, restore=lambda *_: found, variants=stored
        )
        result = variants.get(0, ({0: (length,)} for length in range(3)), ExecuteOptions())
        assert result is (found if fits < 3 else None)
        assert variants.kept(0) is result
    assert tried == [*range(min(fits, 2) + 1)]
