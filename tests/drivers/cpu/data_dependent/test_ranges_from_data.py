"""Ranges whose starts, limits or steps are data have the elements of those of references."""

import logging
from collections.abc import Callable

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.errors import Error
from neurald.hal.operations.machinery.call import Array


@sweep("kind", ["INT32", "INT64"])
def test_ranges_all_of_whose_inputs_are_data(
    kind: str, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The first lengths for which code was generated made it valid for empty ones only."""
    caplog.set_level(logging.INFO)
    caplog.clear()
    file = TfliteModel()
    graph = file.subgraph()
    inputs = [graph.tensor((), kind, has_rank=True) for _ in range(3)]
    output = graph.tensor((1,), kind, shape_signature=(-1,))
    graph.operator("RANGE", inputs, [output], "RangeOptions")
    graph.inputs, graph.outputs = inputs, [output]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    rising = (0, 10, 1), (5, 100, 7), (3, 4, 9), (0, 1000, 1), (1, 3, 1)
    for numbers in (*rising, (9, -9, -4), (6, 6, 2), (-7, 8, 5), (0, -1000, -1)):
        (found,) = compilation.run(*(np.array(each, kind.lower()) for each in numbers))
        assert found.tolist() == list(range(*numbers))
    assert "on references" not in caplog.text
    for numbers in ((0, -1, 5), (3, 9, -2), (1, 5, 0)):
        with pytest.raises(Error):
            compilation.run(*(np.array(each, kind.lower()) for each in numbers))


def test_a_range_of_as_many_numbers_as_known(compiles_here: None, caplog: pytest.LogCaptureFixture) -> None:
    """Counts, for example, positions of next tokens: the limit less the start is no data."""
    caplog.set_level(logging.INFO)
    file = TfliteModel()
    graph = file.subgraph()
    start, limit = (graph.tensor((), "INT32", has_rank=True) for _ in range(2))
    numbers = graph.tensor((8,), "INT32", shape_signature=(-1,))
    eight, one = (graph.tensor((), "INT32", data=np.array(each, np.int32), has_rank=True) for each in (8, 1))
    graph.operator("ADD", [start, eight], [limit], "AddOptions")
    graph.operator("RANGE", [start, limit, one], [numbers], "RangeOptions")
    graph.inputs, graph.outputs = [start], [numbers]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    for first in (0, 5, -3, 1000):
        (found,) = compilation.run(np.array(first, np.int32))
        assert found.tolist() == list(range(first, first + 8))
    assert "on references" not in caplog.text


@pytest.mark.parametrize("limit", [8, 16, 32, 33, 64, 65, 128])
def test_sums_of_ranges_from_a_number_that_may_be_0(limit: int, compiles_here: None) -> None:
    """Whole blocks of vectors leave no elements for the vector with a mask."""
    file = TfliteModel()
    graph = file.subgraph()
    given, axes = graph.tensor((1,), "INT32"), graph.tensor((1,), "INT32", data=np.zeros(1, np.int32))
    start, total = (graph.tensor((), "INT32", has_rank=True) for _ in range(2))
    numbers = graph.tensor((1,), "INT32", shape_signature=(-1,))
    last, one = (
        graph.tensor((), "INT32", data=np.array(each, np.int32), has_rank=True) for each in (limit, 1)
    )
    graph.operator("SUM", [given, axes], [start], "ReducerOptions")
    graph.operator("RANGE", [start, last, one], [numbers], "RangeOptions")
    graph.operator("SUM", [numbers, axes], [total], "ReducerOptions")
    graph.inputs, graph.outputs = [given], [total]
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    for first in (0, 1, 2, limit - 1, limit):
        (found,) = compilation.run(np.array([first], np.int32))
        assert found == sum(range(first, limit))


def test_ranges_of_floats_that_are_data(compiles_here: None, caplog: pytest.LogCaptureFixture) -> None:
    """Elements are sums in order, as those of the reference, and errors are reported."""
    caplog.set_level(logging.INFO)
    file = TfliteModel()
    graph = file.subgraph()
    inputs = [graph.tensor((), has_rank=True) for _ in range(3)]
    output = graph.tensor((1,), shape_signature=(-1,))
    graph.operator("RANGE", inputs, [output], "RangeOptions")
    graph.inputs, graph.outputs = inputs, [output]
    model = nd.load_tflite(file.build())

    def found(device: nd.Device) -> Callable[..., Array]:
        builder = nd.CompilationBuilder(model, [device])
        builder.set_caching(None)
        run = builder.finish().run
        return lambda *numbers: run(*(np.array(each, np.float32) for each in numbers))[0]

    compiled, expected = found(CpuDevice()), found(ReferenceDevice())
    good = [(0, 10, 1), (0, 1, 0.1), (3, -50, -0.7), (0.1, 700, 1 / 3), (5, 5, 2), (5, 5, -2), (1, 1.5, 9)]
    random = np.random.default_rng(5)
    for _ in range(20):
        start, step = random.uniform(-9, 9, 2)
        good.append((start, start + step * random.uniform(0, 90), step))
    for numbers in good:
        np.testing.assert_array_equal(compiled(*numbers), expected(*numbers))
    assert "on references" not in caplog.text
    for numbers in (
        (0, 1, 0),
        (1, 1, 0),
        (0, -1, 2),
        (0, np.inf, 1),
        (0, np.nan, 1),
        (0, 1e30, 1),
        (0, -0.5, 1),
    ):
        for run in (compiled, expected):
            with pytest.raises(Error):
                run(*numbers)
