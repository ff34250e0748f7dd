"""Models are compiled for frequent values of inputs that code must know."""

import gc
import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.compiler.frontend.variants.variant_uses import FREQUENT_USES
from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants, value_inputs, with_values
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.sync.interpreter_turns import turns

Array = np.ndarray[Any, Any]
SHAPE = (2, 3, 4)
#: How long compiling in the background may take on a busy machine.
LIMIT_S = 60.0


def one_operator(
    code: str, number: Sequence[int], options: str | None = None, *, is_open: bool = False, **values: Any
) -> nd.Model:
    """Returns a model of one operator on an input of `SHAPE` and an input of integers.

    If it is open, executions may have inputs of other lengths.
    """
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor(SHAPE, shape_signature=(-1,) * len(SHAPE)) if is_open else graph.tensor(SHAPE)
    given = graph.tensor(number, "INT32", has_rank=not number)
    result = graph.tensor(SHAPE, shape_signature=(-1,) * len(SHAPE))
    graph.operator(code, (source, given), (result,), options, **values)
    graph.inputs, graph.outputs = (source, given), (result,)
    return nd.load_tflite(file.build())


def transposition() -> nd.Model:
    return one_operator("TRANSPOSE", (3,))


def source() -> Array:
    return np.arange(24, dtype=np.float32).reshape(SHAPE)


def order(*axes: int) -> Array:
    return np.array(axes, np.int32)


def reusable(compilation: nd.Compilation, given: Array, output: Array) -> nd.Execution:
    """Returns an execution on `source()` and these integers."""
    execution = nd.Execution(compilation, reusable=True)
    for index, array in enumerate((source(), given)):
        execution.set_input(index, array)
    execution.set_output(0, output)
    return execution


def variants_of(compilation: nd.Compilation) -> ValueVariants:
    prepared = compilation.plan.steps[0].prepared_model
    assert isinstance(prepared, ValueVariants)
    return prepared


def wait_for(prepared: ValueVariants, count: int) -> None:
    limit = time.monotonic() + LIMIT_S
    while len(prepared._variants) < count and time.monotonic() < limit:
        time.sleep(0.02)
    assert len(prepared._variants) == count


@pytest.mark.parametrize(
    ("model", "numbers"),
    [
        (transposition(), [(2, 0, 1), (0, 2, 1), (2, 1, 0)]),
        (one_operator("CUMSUM", (), "CumsumOptions"), [0, 1, -1]),
        (one_operator("REVERSE_V2", (1,)), [(0,), (2,), (-2,)]),
        (one_operator("RESHAPE", (3,)), [(4, -1, 1), (1, 3, 8), (-1, 1, 1)]),
    ],
    ids=["TRANSPOSE", "CUMSUM", "REVERSE_V2", "RESHAPE"],
)
def test_results_are_those_of_references(model: nd.Model, numbers: Sequence[Any]) -> None:
    compilation, reference = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    given = np.array(numbers[0], np.int32)
    output = np.zeros(24, np.float32)
    execution = reusable(compilation, given, output)

    def check(number: Any) -> None:
        given[...] = number
        (wanted,) = reference.run(source(), given)
        (found,) = compilation.run(source(), given)
        np.testing.assert_array_equal(found, wanted)
        execution.compute()
        assert execution.output_dimensions(0) == wanted.shape
        np.testing.assert_array_equal(output, wanted.reshape(-1))

    prepared = variants_of(compilation)
    for count, number in enumerate(numbers[:2], start=1):
        for _ in range(FREQUENT_USES):
            check(number)
        wait_for(prepared, count)
    for _ in range(4):
        for number in numbers:
            for _ in range(3):
                check(number)


def test_lengths_of_a_transform_that_are_inputs(
    compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lowering failed with an exception that the user saw as a warning."""
    file = TfliteModel()
    graph = file.subgraph()
    rows, lengths = graph.tensor((4, 8)), graph.tensor((2,), "INT32")
    result = graph.tensor((4, 5), "COMPLEX64", shape_signature=(-1, -1))
    graph.operator("RFFT2D", (rows, lengths), (result,))
    graph.inputs, graph.outputs = (rows, lengths), (result,)
    model, given = nd.load_tflite(file.build()), np.arange(32, dtype=np.float32).reshape(4, 8)
    found, wanted = (
        nd.CompilationBuilder(model, [device]).finish().run(given, order(4, 8))[0]
        for device in (CpuDevice(), ReferenceDevice())
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_calls_give_way_to_code_for_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    go, given_way = threading.Event(), list[float | None]()
    specialize = ValueVariants.specialize

    def specialize_later(self: ValueVariants, *arguments: Any) -> None:
        assert go.wait(LIMIT_S)
        specialize(self, *arguments)

    monkeypatch.setattr(ValueVariants, "specialize", specialize_later)
    monkeypatch.setattr(turns, "give_way", given_way.append)
    compilation = nd.CompilationBuilder(transposition(), [CpuDevice()]).finish()
    given, output = order(2, 0, 1), np.zeros((4, 2, 3), np.float32)
    execution = reusable(compilation, given, output)
    for _ in range(FREQUENT_USES - 1):
        execution.compute()
    assert not given_way
    for _ in range(5):
        execution.compute()
        compilation.run(source(), given)
    assert len(given_way) >= 9
    go.set()
    wait_for(variants_of(compilation), 1)
    given_way.clear()
    for _ in range(5):
        execution.compute()
        compilation.run(source(), given)
    assert not given_way


def test_variants_replace_references(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = nd.CompilationBuilder(transposition(), [CpuDevice()]).finish()
    given, output = order(2, 0, 1), np.zeros((4, 2, 3), np.float32)
    execution = reusable(compilation, given, output)
    for _ in range(FREQUENT_USES + 1):
        execution.compute()
    wait_for(variants_of(compilation), 1)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it runs on references")

    monkeypatch.setattr(ReferenceModel, "execute", refuse)
    monkeypatch.setattr(ReferenceModel, "results", refuse)
    for _ in range(3):
        execution.compute()
        (found,) = compilation.run(source(), given)
        np.testing.assert_array_equal(found, source().transpose(2, 0, 1))
        np.testing.assert_array_equal(output, found)


def test_models_with_open_dimensions_have_variants_for_each_shape() -> None:
    compilation = nd.CompilationBuilder(one_operator("TRANSPOSE", (3,), is_open=True), [CpuDevice()]).finish()
    specializing = compilation.plan.steps[0].prepared_model
    assert isinstance(specializing, SpecializingModel)
    for shape in (SHAPE, (3, 1, 5)):
        given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for axes in ((2, 0, 1), (0, 2, 1)):
            for _ in range(FREQUENT_USES):
                (found,) = compilation.run(given, order(*axes))
                np.testing.assert_array_equal(found, given.transpose(axes))
        prepared = specializing._variants.latest()
        assert isinstance(prepared, ValueVariants)
        wait_for(prepared, 2)
        for axes in ((2, 0, 1), (1, 2, 0), (0, 2, 1)):
            for _ in range(3):
                (found,) = compilation.run(given, order(*axes))
                np.testing.assert_array_equal(found, given.transpose(axes))


def test_values_of_shapes_that_a_model_leaves_open() -> None:
    model = one_operator("TRANSPOSE", (3,), is_open=True)
    (tensor, axes), reference = model.main.inputs, ReferenceModel(model)
    assert value_inputs(model, reference) == (1,)
    known = with_values(model, (1,), (order(1, 2, 0).tobytes(),), {tensor: (0, 2, 3), axes: (3,)})
    assert known.main.inputs == (tensor,)
    assert known.main.operands[axes].dimensions == (3,)


def test_wrong_values_are_refused_as_before() -> None:
    compilation = nd.CompilationBuilder(transposition(), [CpuDevice()]).finish()
    for _ in range(FREQUENT_USES + 3):
        with pytest.raises(nd.OpFailed):
            compilation.run(source(), order(0, 1, 3))
    (found,) = compilation.run(source(), order(1, 0, 2))
    np.testing.assert_array_equal(found, source().transpose(1, 0, 2))
    assert not variants_of(compilation)._variants


def test_other_arrays_with_the_bytes_of_known_values_are_refused() -> None:
    compilation = nd.CompilationBuilder(one_operator("REVERSE_V2", (1,)), [CpuDevice()]).finish()
    for _ in range(FREQUENT_USES):
        compilation.run(source(), order(1))
    wait_for(variants_of(compilation), 1)
    for _ in range(3):
        (found,) = compilation.run(source(), order(1))
        np.testing.assert_array_equal(found, source()[:, ::-1])
        others = order(1).view(np.float32), order(1).view(np.uint32), order(1).reshape(1, 1), order(1, 1)
        for arrays in (*((source(), each) for each in others), (source(), order(1), source()), (order(1),)):
            with pytest.raises(nd.BadData):
                compilation.run(*arrays)


def test_requests_are_forgotten_with_their_memory() -> None:
    compilation = nd.CompilationBuilder(transposition(), [CpuDevice()]).finish()
    prepared, axes = variants_of(compilation), order(2, 0, 1)
    for _ in range(FREQUENT_USES):
        compilation.run(source(), axes)
    wait_for(prepared, 1)
    execution = reusable(compilation, axes, np.zeros((4, 2, 3), np.float32))
    for _ in range(3):
        execution.compute()
    assert prepared._requests
    del execution
    gc.collect()
    assert not prepared._requests


def test_variants_do_not_replace_the_model_in_the_cache(tmp_path: Path) -> None:
    for turn in range(2):
        builder = nd.CompilationBuilder(transposition(), [CpuDevice()])
        builder.set_caching(tmp_path, bytes(32))
        compilation = builder.finish()
        for _ in range(FREQUENT_USES):
            compilation.run(source(), order(2, 0, 1))
        wait_for(variants_of(compilation), 1)
        for axes in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            (found,) = compilation.run(source(), order(*axes))
            np.testing.assert_array_equal(found, source().transpose(axes), err_msg=str(turn))


def test_inputs_that_code_must_know() -> None:
    device = CpuDevice()
    model = transposition()
    prepared = device.prepare_model(model, PrepareOptions())
    assert isinstance(prepared, ValueVariants)
    assert value_inputs(model, prepared.base) == (1,)
    known = with_values(model, (1,), (order(2, 1, 0).tobytes(),))
    whole: Any = device.prepare_model(known, PrepareOptions())
    assert len(known.main.inputs) == 1
    assert not isinstance(whole, ValueVariants)
    assert value_inputs(known, whole) == ()
    long = one_operator("GATHER", (17,), "GatherOptions", Axis=0)
    base: Any = ReferenceModel(long)
    assert value_inputs(long, base) == ()


def test_roles_of_device_memory() -> None:
    compilation = nd.CompilationBuilder(transposition(), [CpuDevice()]).finish()
    prepared = variants_of(compilation)
    assert prepared.operand(0, is_output=False).dimensions == SHAPE
    assert not prepared.tolerates_changing_inputs
    assert prepared.artifact() is None
    memory = nd.MemoryDesc().add_input_role(compilation, 0).finish().allocate()
    assert memory.size == source().nbytes
