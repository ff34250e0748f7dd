"""Sizes that are data take as much memory as they need, and are limited as on references."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.models.plans import executed
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.instances.step_memory import StepMemory
from neurald.drivers.cpu.target.open_executable import Grown, OpenExecutable
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.errors import Error, OutOfMemory
from neurald.hal.operations.machinery.call import Array


def _sized_by_data(operator: str) -> tuple[nd.Model, list[Array], list[Array]]:
    """Returns a model whose output's size is data, and inputs for a small and a large one."""
    file = TfliteModel()
    graph = file.subgraph()
    large = (1 << 31) - 1
    image = np.ones((1, 2, 2, 1), np.float32)
    options: dict[str, Any] = {}
    sizes: list[Any]
    if operator == "RANGE":
        given: list[Any] = [np.int32(0)]
        sizes = [np.int32(5), np.int32(large)]
        tensors = [graph.tensor((), "INT32", has_rank=True) for _ in range(2)]
        step = graph.tensor((), "INT32", data=np.array(1, np.int32), has_rank=True)
        inputs, name = [*tensors, step], "RangeOptions"
    else:
        given = [image if "RESIZE" in operator else np.ones(2, np.float32)]
        sizes = [
            np.array(each, np.int32)
            for each in {
                "PAD": ([[1, 2]], [[large, 1]]),
                "FILL": ([3, 2], [large, 2]),
                "BROADCAST_TO": ([3, 2], [large, 2]),
            }.get(operator, ([3, 5], [large, 40_000]))
        ]
        if operator == "FILL":
            given = []
        tensors = [*(graph.tensor(each.shape) for each in given), graph.tensor(sizes[0].shape, "INT32")]
        value = graph.tensor((), "FLOAT32", data=np.array(2, np.float32), has_rank=True)
        inputs, name = [*tensors, *([value] if operator == "FILL" else [])], None
        if "RESIZE" in operator:
            name = "ResizeBilinearOptions" if "BILINEAR" in operator else "ResizeNearestNeighborOptions"
            options = {"AlignCorners": False, "HalfPixelCenters": False}
    rank = {"RANGE": 1, "PAD": 1, "FILL": 2, "BROADCAST_TO": 2}.get(operator, 4)
    kind = "INT32" if operator == "RANGE" else "FLOAT32"
    output = graph.tensor((1,) * rank, kind, shape_signature=(-1,) * rank)
    graph.operator(operator, inputs, [output], name, **options)
    graph.inputs, graph.outputs = tensors, [output]
    return nd.load_tflite(file.build()), [*given, sizes[0]], [*given, sizes[1]]


@sweep("operator", ["BROADCAST_TO", "FILL", "PAD", "RANGE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_sizes_that_are_data_are_limited_as_on_references(operator: str, compiles_here: None) -> None:
    """No memory is mapped for an operand of more than 2^32 - 1 bytes, and others follow."""
    model, small, large = _sized_by_data(operator)
    expected = nd.CompilationBuilder(model, [ReferenceDevice()]).finish().run(*small)[0]
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    for _ in range(2):
        np.testing.assert_array_equal(compilation.run(*small)[0], expected)
        with pytest.raises(Error, match=r"more than 2\^32 - 1 bytes"):
            compilation.run(*large)


def test_lengths_beyond_all_limits_run_on_references(
    monkeypatch: pytest.MonkeyPatch, compiles_here: None
) -> None:
    """Lengths may fit by themselves, and not with others that are unknown yet."""
    asked: list[Sequence[int]] = []

    def refused(executable: OpenExecutable, capacities: Sequence[int]) -> Grown:
        asked.append(capacities)
        raise OutOfMemory(f"values of lengths up to {list(capacities)} exceed all limits")

    model, given, _ = _sized_by_data("BROADCAST_TO")
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    compilation.run(*given)
    monkeypatch.setattr(OpenExecutable, "grown", refused)
    found = compilation.run(given[0], np.array([3_000, 2], np.int32))[0]
    np.testing.assert_array_equal(found, np.ones((3_000, 2), np.float32))
    assert asked


@pytest.mark.parametrize("shape", [(0, 2, 0, 1), (4, 1, 0, 0), (3, 1, 2, 0), (2, 0, 3, 1)])
def test_few_elements_around_nothing_are_all_that_is_written(
    shape: tuple[int, ...], compiles_here: None
) -> None:
    """They do not fill a vector, however many sizes their number is computed from."""
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = [graph.tensor(shape, "INT32"), graph.tensor((4, 2), "INT32")]
    graph.outputs = [graph.tensor((1,) * 4, "INT32", shape_signature=(-1,) * 4)]
    graph.operator("PAD", graph.inputs, graph.outputs, "PadOptions")
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    for pads in ([[1, 1], [2, 1], [0, 2], [0, 1]], [[0, 1], [1, 0], [0, 2], [0, 1]], [[1, 0]] * 4):
        padded = tuple(np.add(shape, np.sum(pads, 1)).tolist())
        memory = np.full(2048, 7, np.int32)
        output = memory[1024 : 1024 + np.prod(padded)].reshape(padded)
        executed(compilation, [np.zeros(shape, np.int32), np.array(pads, np.int32)], [output])
        assert not output.any()
        assert (memory != 7).sum() == output.size


def test_a_long_axis_takes_no_memory_for_others(monkeypatch: pytest.MonkeyPatch, compiles_here: None) -> None:
    """Lengths that are not known yet are not taken to be as long as in other executions."""
    taken: list[int] = []

    class Counted(StepMemory):
        def __init__(self, size_bytes: int) -> None:
            taken.append(size_bytes)
            super().__init__(size_bytes)

    monkeypatch.setattr("neurald.drivers.cpu.native.instances.instance.StepMemory", Counted)
    file = TfliteModel()
    graph = file.subgraph()
    value, shape = graph.tensor((1,)), graph.tensor((4,), "INT32")
    output = graph.tensor((1,) * 4, shape_signature=(-1,) * 4)
    graph.operator("BROADCAST_TO", [value, shape], [output], "BroadcastToOptions")
    graph.inputs, graph.outputs = [value, shape], [output]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    for lengths in ((30_000, 1, 1, 1), (1, 1, 1, 30_000), (1, 300, 300, 1), (2, 3, 4, 5)):
        found = compilation.run(np.full(1, 7, np.float32), np.array(lengths, np.int32))[0]
        assert found.shape == lengths
        assert (found == 7).all()
    assert 0 < max(taken) < 1 << 28
