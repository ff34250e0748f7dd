"""Repeated runs on inputs of a frequent size use the code for that size, once compiled."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.models.small import add_model
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.compiler.frontend.variants import shape_specialization, variant_uses
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.compiler.frontend.variants.variant_uses import VariantUses
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.open_model import CpuOpenModel
from neurald.hal.errors import OutOfMemory, ResourceExhaustedTransient
from neurald.hal.execution.background_worker import SubmittedWork, worker
from neurald.hal.sync.interpreter_turns import turns


def runs(compilation: nd.Compilation, given: np.ndarray) -> Callable[[], Any]:
    return lambda: compilation.run(given, given)[0]


def requests(compilation: nd.Compilation, given: np.ndarray) -> Callable[[], Any]:
    result = np.zeros_like(given)

    def run() -> np.ndarray:
        result[...] = 0
        execution = nd.Execution(compilation)
        execution.set_input(0, given)
        execution.set_input(1, given)
        execution.set_output(0, result)
        execution.compute()
        return result

    return run


def computations(compilation: nd.Compilation, given: np.ndarray) -> Callable[[], Any]:
    execution, result = nd.Execution(compilation, reusable=True), np.zeros_like(given)
    execution.set_input(0, given)
    execution.set_input(1, given)
    execution.set_output(0, result)

    def run() -> np.ndarray:
        result[...] = 0
        execution.compute()
        return result

    return run


@pytest.mark.parametrize("repeating", [runs, computations])
def test_frequent_sizes_are_specialised(
    repeating: Callable[..., Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variant_uses, "FREQUENT_USES", 6)
    replaced, replace = threading.Event(), SpecializingModel.replace_variant

    def replacing(self: SpecializingModel, shapes: Any, variant: Any) -> None:
        replace(self, shapes, variant)
        replaced.set()

    def refuse(*_: object) -> None:
        pytest.fail("the code for this size is not used")

    monkeypatch.setattr(SpecializingModel, "replace_variant", replacing)
    given = np.ones((40, 3), np.float32)
    compilation = nd.CompilationBuilder(add_model((0, 3)), [CpuDevice()]).finish()
    run = repeating(compilation, given)
    for _ in range(10):
        assert (run() == 2).all()
    assert replaced.wait(60)
    for _ in range(5):
        assert (run() == 2).all()
    monkeypatch.setattr(VariantUses, "add", refuse)
    monkeypatch.setattr(CpuOpenModel, "run_arrays", refuse)
    for _ in range(10):
        assert (run() == 2).all()


def test_frequent_sizes_without_faster_code_are_compiled_once_however_they_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(variant_uses, "FREQUENT_USES", 3)
    compiled: list[object] = []

    def compile_later(_: object, shapes: object) -> SubmittedWork:
        compiled.append(shapes)
        return SubmittedWork()

    monkeypatch.setattr(SpecializingModel, "_specialize_later", compile_later)
    compilation = nd.CompilationBuilder(add_model((0, 3)), [CpuDevice()]).finish()
    for rows in (40, 41):
        given = np.ones((rows, 3), np.float32)
        used = [repeating(compilation, given) for repeating in (runs, requests, computations, computations)]
        for _ in range(20):
            for run in used:
                assert (run() == 2).all()
    assert compiled == [((40, 3), (40, 3)), ((41, 3), (41, 3))]


@pytest.mark.parametrize("repeating", [runs, computations])
def test_calls_give_way_to_code_for_their_size(
    repeating: Callable[..., Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variant_uses, "FREQUENT_USES", 3)
    go, given_way, given = threading.Event(), list[float | None](), np.ones((40, 3), np.float32)

    def specialized(*arguments: Any) -> None:
        go.wait(60)
        arguments[0]().replace_variant(arguments[3], None)

    monkeypatch.setattr(shape_specialization, "_specialized", specialized)
    monkeypatch.setattr(turns, "give_way", given_way.append)
    compilation = nd.CompilationBuilder(add_model((0, 3)), [CpuDevice()]).finish()
    run = repeating(compilation, given)
    for _ in range(20):
        run()
    # Not the first one, which compiles, nor those before the size is frequent.
    assert 10 <= len(given_way) <= 18
    go.set()
    # The worker does its work one by one: this is done once the code for the size has ended.
    ended = threading.Event()
    assert worker.submit(lambda _: ended.set()) is not None
    assert ended.wait(60)
    given_way.clear()
    for _ in range(20):
        run()
    assert not given_way


def test_a_size_whose_code_lacked_memory_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_uses, "FREQUENT_USES", 3)
    replaced, tries, failures = threading.Event(), 0, 0
    specialized, replace = shape_specialization._specialized, SpecializingModel.replace_variant

    def lacking(*arguments: Any) -> None:
        nonlocal tries, failures
        tries += 1

        def refuse(*_: object) -> Any:
            raise OutOfMemory("there is none")

        reference, model, specialize, *rest = arguments
        try:
            specialized(reference, model, refuse if tries == 1 else specialize, *rest)
        except (OutOfMemory, ResourceExhaustedTransient):
            failures += 1
            raise

    def replacing(self: SpecializingModel, shapes: Any, variant: Any) -> None:
        replace(self, shapes, variant)
        if variant is not None:
            replaced.set()

    monkeypatch.setattr(shape_specialization, "_specialized", lacking)
    monkeypatch.setattr(SpecializingModel, "replace_variant", replacing)
    given = np.ones((43, 3), np.float32)
    compilation = nd.CompilationBuilder(add_model((0, 3)), [CpuDevice()]).finish()

    def run() -> bool:
        assert (compilation.run(given, given)[0] == 2).all()
        return replaced.is_set()

    wait_until(run)
    # On a machine that is short of memory, further tries may lack it, too.
    assert failures >= 1
    assert tries == failures + 1


def test_new_sizes_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = nd.CompilationBuilder(add_model((0, 3)), [CpuDevice()]).finish()
    given = np.ones((40, 3), np.float32)
    assert (compilation.run(given, given)[0] == 2).all()

    def refuse(*_: object) -> None:
        pytest.fail("a new size takes the way of requests")

    monkeypatch.setattr(SpecializingModel, "execute", refuse)
    # Nothing is prepared for a size that is not repeated.
    monkeypatch.setattr(CpuOpenModel, "for_shapes", refuse)
    for rows in (41, 17, 300, 41, 200, 17, 41):
        given = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        (found,) = compilation.run(given, given)
        np.testing.assert_array_equal(found, 2 * given)
