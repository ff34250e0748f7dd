"""Models compiled for any lengths of their open dimensions compute what references do."""

from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from support.cpu.open_models import LABELS, LEAST, MODELS, elementwise, fully_connected
from support.models.net import FLOAT, INT32, Net, Shape
from support.opencl.models import request_of

import neurald as nd
from neurald.drivers.compiler.memory.open_step import OpenLocation
from neurald.drivers.cpu.device import CpuDevice, process_settings
from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.cpu.open_artifact import read_open_artifact
from neurald.drivers.cpu.open_model import CpuOpenModel
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.executable import BandedCalls
from neurald.drivers.cpu.target.target import host_target
from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult
from neurald.hal.errors import BadData, Cancelled, MissedDeadlinePersistent
from neurald.hal.execution.array_model import ExecutionLimits
from neurald.hal.execution.reference_graph import ExecutionState, ReferenceGraph
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Request
from neurald.hal.sync.cancellation import Cancellation

Op = nd.OperationType
Array = np.ndarray[Any, np.dtype[Any]]
LENGTHS = (2, 3, 4, 5, 7, 8, 13, 14, 15, 16, 17, 31, 33, 64, 100, 129)


def shapes_of(model: nd.Model, length: int) -> list[Shape]:
    operands = [model.main.operands[index] for index in model.main.inputs]
    return [tuple(each or length for each in operand.dimensions or ()) for operand in operands]


def given(model: nd.Model, length: int) -> list[Array]:
    chosen = np.random.default_rng(length)
    found = []
    for index, shape in zip(model.main.inputs, shapes_of(model, length), strict=True):
        kind = model.main.operands[index].type
        values = chosen.standard_normal(shape) * 2 if kind is FLOAT else chosen.integers(-128, 128, shape)
        found.append(np.asarray(values, kind.dtype))
    return found


def expected(model: nd.Model, inputs: list[Array]) -> list[Array]:
    graph = ReferenceGraph(model, model.main)
    return graph.run(inputs, ExecutionState((), ExecutionLimits(ExecuteOptions())))


def compiled_open(model: nd.Model, length: int) -> CpuOpenModel:
    preparation = Preparation(host_target(process_settings()), 1, keeps_artifact=True)
    shapes = dict(zip(model.main.inputs, shapes_of(model, length), strict=True))
    found = preparation.open(model, shapes)
    assert found is not None
    return found


def check(model: nd.Model, opened: CpuOpenModel, length: int) -> bool:
    """Compares the results for a length; returns False if the code does not support it."""
    variant = opened.for_shapes(shapes_of(model, length))
    if variant is None:
        return False
    assert isinstance(variant.prepared, CpuPreparedModel)
    inputs = given(model, length)
    results = variant.prepared.native.run_arrays(inputs)
    request, written = request_of(model, inputs, [each.shape for each in results])
    # It runs in memory that has the sizes of the variant, or of earlier ones.
    executed = opened.execute(shapes_of(model, length), request, ExecuteOptions())
    assert executed is not None
    assert [each.dimensions for each in executed.output_shapes] == [each.shape for each in results]
    for found, other, wanted in zip(results, written, expected(model, inputs), strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_array_equal(found, other)
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(found, wanted)
    return True


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_references_for_every_length(name: str) -> None:
    model = MODELS[name]()
    opened = compiled_open(model, 64)
    supported = {length for length in LENGTHS if check(model, opened, length)}
    assert supported >= {length for length in LENGTHS if length >= LEAST.get(name, 2)}
    labels = [call.label for call in read_open_artifact(opened.artifact()).opened.template.calls]
    assert any(LABELS.get(name, "") in label for label in labels), labels


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODELS)
def test_code_for_short_lengths_is_right(name: str) -> None:
    model = MODELS[name]()
    opened = compiled_open(model, 3)
    assert check(model, opened, 3)
    for length in LENGTHS:
        check(model, opened, length)


@cache
def cached_artifact() -> tuple[nd.Model, Artifact]:
    model = fully_connected()
    return model, compiled_open(model, 64).artifact()


def test_an_artifact_restores_the_model() -> None:
    model, artifact = cached_artifact()
    opened = ArtifactLoader(CpuDevice()._target, threads=1).restore_open(model, artifact)
    for length in LENGTHS:
        assert check(model, opened, length)


def test_other_shapes_are_not_supported() -> None:
    model, artifact = cached_artifact()
    opened = ArtifactLoader(CpuDevice()._target, threads=1).restore_open(model, artifact)
    for shapes in ([(5, 25)], [(5, 24, 1)], [None], [], [(0, 24)], [(1, 24)], [(1 << 40, 24)]):
        assert opened.for_shapes(shapes) is None


def test_requests_that_are_left_to_the_model_for_their_size() -> None:
    model = elementwise()
    opened, inputs = compiled_open(model, 64), given(model, 7)
    shapes = shapes_of(model, 7)
    (wanted,) = expected(model, inputs)
    options = ExecuteOptions()

    def executed(request: Request, options: ExecuteOptions = options) -> ExecutionResult | None:
        return opened.execute(shapes, request, options)

    request, (found,) = request_of(model, inputs, [wanted.shape])
    assert executed(request, ExecuteOptions(measure=True)) is None
    assert executed(request_of(model, [None] * len(inputs), [wanted.shape])[0]) is None
    assert executed(request_of(model, inputs, [(2,)])[0]) is None
    assert opened.execute([(1,)] * len(inputs), request, options) is None
    assert np.all(found == 77)
    with pytest.raises(MissedDeadlinePersistent):
        executed(request, ExecuteOptions(deadline_s=0.0))
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        executed(request, ExecuteOptions(cancellation=cancellation))
    assert executed(request) is not None
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def test_damaged_artifacts_are_refused() -> None:
    _, artifact = cached_artifact()
    (head,), (data,) = artifact.model, artifact.data
    content = bytes(head.view())
    for damaged in (content[:-1], content[:100] + b"?" + content[101:], b"", b"ncpu0002" + content[8:]):
        with pytest.raises(BadData):
            read_open_artifact(Artifact(model=(HostMemory(damaged),), data=(data,)))
    with pytest.raises(BadData, match="one model and one data"):
        read_open_artifact(Artifact(model=(), data=(data,)))
    with pytest.raises(BadData, match="bytes of constants"):
        read_open_artifact(Artifact(model=(head,), data=(HostMemory(b"1"),)))


@pytest.mark.parametrize(
    "change",
    [
        {"symbols": ()},
        {"symbols": (((7, 0),),)},
        {"symbols": ((),)},
        {"work_items": ()},
        {"work_items": (10_000, 0)},
        {"locations": ()},
        {"locations": ((None,), (None,))},
        {"inputs": ()},
        {"extents": ()},
        {"scratch_bytes": (-1,)},
        {"names": {"%extent.1": 10_000}},
    ],
)
def test_inconsistent_executables_are_refused(change: dict[str, Any]) -> None:
    _, artifact = cached_artifact()
    opened = read_open_artifact(artifact).opened
    opened.check()
    with pytest.raises(BadData):
        msgspec.structs.replace(opened, **change).check()


def test_executables_that_do_not_fit_other_lengths_are_refused() -> None:
    _, artifact = cached_artifact()
    opened = read_open_artifact(artifact).opened
    longer = [msgspec.structs.replace(each, dimensions=(0, *each.dimensions)) for each in opened.outputs]
    banded = BandedCalls(first=0, calls=2, turn=1, min_threads=1, max_threads=1, streams=(), table=bytes(32))
    for change, what in (
        ({"outputs": tuple(longer)}, "do not match"),
        ({"locations": tuple((None,) * len(each) for each in opened.locations)}, "in the arena"),
        ({"template": msgspec.structs.replace(opened.template, banded=(banded,))}, "has bands"),
    ):
        with pytest.raises(BadData, match=what):
            msgspec.structs.replace(opened, **change).check()


def test_locations_beyond_the_values_are_refused() -> None:
    _, artifact = cached_artifact()
    opened = read_open_artifact(artifact).opened
    places = [
        tuple(None if place is None else OpenLocation(1000, place.offset) for place in each)
        for each in opened.locations
    ]
    with pytest.raises(BadData, match="beyond"):
        msgspec.structs.replace(opened, locations=tuple(places)).check()


@pytest.mark.parametrize("rank", [2, 3])
def test_transposed_convolutions_to_shapes_that_follow_from_open_ones(rank: int) -> None:
    """The operand with the shape of the result has lengths."""
    net = Net()
    source = net.input((1, *[0] * rank, 2))
    shape = net.add(Op.TFLITE_SHAPE, [source], (rank + 2,), INT32)
    factors = net.constant([1, *[2] * rank, 2], INT32)
    wanted = net.add(Op.TFLITE_MUL, [shape, factors, net.number(0)], (rank + 2,), INT32)
    same, stride, none = net.number(1), net.number(2), net.number(0)
    if rank == 2:
        no = net.number(0, nd.OperandType.BOOL)
        inputs = [source, net.floats(4, 3, 3, 2), net.floats(4), wanted, same, stride, stride, none, no]
        operation = Op.TRANSPOSE_CONV_2D
    else:
        steps = [stride, stride, stride, same, same, same]
        inputs = [wanted, source, net.floats(2, 2, 2, 4, 2), net.floats(4), same, *steps, none]
        operation = Op.TFLITE_CONV_3D_TRANSPOSE
    model = net.finish(net.add(operation, inputs, (1, *[0] * rank, 4)))
    opened = compiled_open(model, 7)
    assert all(check(model, opened, length) for length in (7, 3, 8, 11))
