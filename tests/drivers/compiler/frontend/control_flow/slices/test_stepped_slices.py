"""Strided slices whose steps are data are compiled once for all steps."""

import logging
from typing import Any

import numpy as np
import pytest
from support.cpu.growing_lists import assert_same, results
from support.models.control_flow import FLOAT, INT, Graph
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice

_COLUMNS = 3
_LARGEST = np.iinfo(np.int32).max


def compiled(file: TfliteModel, device: Any) -> nd.Compilation:
    builder = nd.CompilationBuilder(nd.load_tflite(file.build()), [device])
    builder.set_caching(None)
    return builder.finish()


@sweep("kind", ["INT32", "INT64"])
@sweep("is_open", [False, True])
def test_begins_ends_and_steps(
    kind: str, compiles_here: None, caplog: pytest.LogCaptureFixture, *, is_open: bool
) -> None:
    """The reader of the slice is fused with it; rows may be fewer, or be taken backwards."""
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((12, _COLUMNS), shape_signature=(-1, _COLUMNS) if is_open else None)
    given = [graph.tensor((1,), kind) for _ in range(3)]
    part, double = (graph.tensor((12, _COLUMNS), shape_signature=(-1, _COLUMNS)) for _ in range(2))
    graph.operator("STRIDED_SLICE", [value, *given], [part], "StridedSliceOptions")
    graph.operator("ADD", [part, part], [double], "AddOptions")
    graph.inputs, graph.outputs = [value, *given], [double]
    caplog.set_level(logging.INFO, "neurald")
    caplog.clear()
    compilation = compiled(file, CpuDevice())
    ends = [(0, 12, 2), (1, 9, 3), (-5, -1, 2), (9, 2, -4), (-1, -13, -1), (5, 2, 1), (3, 3, 2)]
    ends += [(-100, 100, 7), (11, -100, -3), (2, 11, _LARGEST), (11, 2, -_LARGEST - 1), (12, 0, -1)]
    for rows in (12, 4, 30) if is_open else (12,):
        array = np.arange(rows * _COLUMNS, dtype=np.float32).reshape(rows, _COLUMNS)
        for begin, end, step in ends:
            numbers = [np.array([each], kind.lower()) for each in (begin, end, step)]
            (found,) = compilation.run(array, *numbers)
            np.testing.assert_array_equal(found, 2 * array[begin:end:step])
    assert "on references" not in caplog.text
    with pytest.raises(nd.Error):
        compilation.run(array, *(np.array([each], kind.lower()) for each in (0, 5, 0)))


@sweep("masks", [(3, 3, 0), (2, 2, 1), (1, 2, 0), (0, 0, 2), (1, 1, 1), (3, 0, 1)])
@sweep("has_steps", [True, False])
def test_masks(
    masks: tuple[int, int, int], compiles_here: None, caplog: pytest.LogCaptureFixture, *, has_steps: bool
) -> None:
    """Axes are taken completely, or one element of them is, which must exist."""
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((6, 9, 2), "INT8")
    step = graph.tensor((2,), "INT32", data=None if has_steps else (1, 1))
    begin, end = (graph.tensor((2,), "INT32") for _ in range(2))
    rank = 3 - masks[2].bit_count()
    part = graph.tensor((1,) * rank, "INT8", shape_signature=(-1,) * (rank - 1) + (2,))
    begins, ends, removes = masks
    graph.operator(
        "STRIDED_SLICE",
        [value, begin, end, step],
        [part],
        "StridedSliceOptions",
        BeginMask=begins,
        EndMask=ends,
        ShrinkAxisMask=removes,
    )
    graph.inputs = [value, begin, end, *([step] if has_steps else [])]
    graph.outputs = [part]
    caplog.set_level(logging.INFO, "neurald")
    caplog.clear()
    compilation, references = compiled(file, CpuDevice()), compiled(file, ReferenceDevice())
    array = np.arange(6 * 9 * 2, dtype=np.int8).reshape(6, 9, 2)
    for numbers in (
        ((0, 0), (6, 9), (1, 1)),
        ((1, -2), (-1, 0), (2, -3)),
        ((5, 3), (0, 8), (-1, 2)),
        ((-99, -99), (6, 9), (1, 1)),
    ):
        arrays = [np.array(each, np.int32) for each in numbers[: 2 + has_steps]]
        (found,), (expected,) = (each.run(array, *arrays) for each in (compilation, references))
        np.testing.assert_array_equal(found, expected)
    assert "on references" not in caplog.text


@sweep("removes", [1, 2, 3])
def test_a_step_of_0_is_refused(removes: int, compiles_here: None) -> None:
    """Also along axes of which one element is taken."""
    file = TfliteModel()
    graph = file.subgraph()
    value, step = graph.tensor((6, 9)), graph.tensor((2,), "INT32")
    ends = [graph.tensor((2,), "INT32", data=each) for each in ((1, 1), (4, 4))]
    rank = 2 - removes.bit_count()
    part = graph.tensor((1,) * rank, shape_signature=(-1,) * rank or None, has_rank=not rank)
    graph.operator(
        "STRIDED_SLICE", [value, *ends, step], [part], "StridedSliceOptions", ShrinkAxisMask=removes
    )
    graph.inputs, graph.outputs = [value, step], [part]
    compilation = compiled(file, CpuDevice())
    array = np.arange(54, dtype=np.float32).reshape(6, 9)
    at = [1 if removes >> axis & 1 else slice(1, 4) for axis in range(2)]
    np.testing.assert_array_equal(compilation.run(array, np.array([1, 1], np.int32))[0], array[tuple(at)])
    for steps in ((0, 1), (1, 0)):
        with pytest.raises(nd.Error):
            compilation.run(array, np.array(steps, np.int32))


def test_a_declared_length_must_be_that_of_the_slice(compiles_here: None) -> None:
    graph = Graph()
    value, step, part = (graph.value(*each) for each in ((FLOAT, (12,)), (INT, (1,)), (FLOAT, (4,))))
    zero = graph.constant([0], INT)
    scalars = []
    for kind, number in ((nd.OperandType.INT32, 1),) * 2 + ((nd.OperandType.INT32, 0),) * 3:
        scalars.append(graph.builder.add_operand(kind))
        graph.builder.set_operand_value(scalars[-1], number)
    scalars.append(graph.builder.add_operand(nd.OperandType.BOOL))
    graph.builder.set_operand_value(scalars[-1], value=False)
    graph.builder.add_operation(
        nd.OperationType.TFLITE_STRIDED_SLICE, [value, zero, zero, step, *scalars], [part]
    )
    model = graph.finish([value, step], [part])
    source = np.arange(12, dtype=np.float32)
    assert_same(model, source, np.array([3], np.int32))
    assert results(model, CpuDevice(), source, np.array([2], np.int32)) is None
