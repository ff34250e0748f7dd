"""Shapes, and values that follow from constants, are known before a graph runs."""

import numpy as np
import pytest
from support.cpu.first_tier import prepared, results
from support.models.control_flow import Graph

import neurald as nd
from neurald.drivers.cpu.first_tier.binding import folding as subject
from neurald.drivers.cpu.first_tier.binding.binder import Binder
from neurald.drivers.cpu.first_tier.layout import tiles_of
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.errors import OpFailed
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.graph import Operand

OPS = nd.OperationType
INTS = nd.OperandType.TENSOR_INT32


def folded(model: nd.Model) -> Binder:
    return Binder(model, model.main, tiles_of(TARGETS["generic"]))


def output_of(found: Binder, position: int) -> Operand:
    """Returns the output of an operation."""
    return found.graph.operands[found.graph.operations[position].outputs[0]]


def by_its_own_shape(length: int = 4) -> tuple[Graph, int, int, int]:
    """Returns a graph of y = reshape(x, 3 * shape(x) / 3), of unknown rank, with its operands."""
    graph = Graph()
    given = graph.value(shape=(length, 3))
    shape = graph.value(INTS, (0,))
    graph.builder.add_operation(OPS.TFLITE_SHAPE, [given], [shape])
    more, same = graph.value(INTS, ()), graph.value(INTS, ())
    graph.binary(OPS.MUL, shape, graph.constant([3], INTS), more)
    graph.builder.add_operation(OPS.TFLITE_FLOOR_DIV, [more, graph.constant([3], INTS)], [same])
    output = graph.value(shape=())
    graph.builder.add_operation(OPS.RESHAPE, [given, same], [output])
    return graph, given, same, output


def test_shapes_that_are_computed_are_known() -> None:
    graph, given, same, output = by_its_own_shape()
    total = graph.binary(OPS.ADD, output, given, graph.value(shape=()))
    model = graph.finish([given], [total])
    found = folded(model)
    assert found.folded == [0, 1, 2]
    np.testing.assert_array_equal(found.known[same], [4, 3])
    assert [found.graph.operands[index].dimensions for index in (same, output, total)] == [
        (2,),
        (4, 3),
        (4, 3),
    ]
    first = prepared(model)
    assert isinstance(first, CpuPreparedModel)
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    builder = nd.CompilationBuilder(model, [nd.devices()[0]])
    builder.set_startup(nd.Startup.INSTANT)
    np.testing.assert_array_equal(builder.finish().run(array)[0], 2 * array)


def test_a_specified_graph_is_not_changed() -> None:
    graph = Graph()
    given = graph.value()
    output = graph.binary(OPS.ADD, given, given, graph.value())
    model = graph.finish([given], [output])
    found = folded(model)
    assert found.graph is model.main
    assert not found.folded
    assert not found.known


def test_what_depends_on_data_stays_open() -> None:
    graph = Graph()
    given, wanted = graph.value(shape=(2, 3)), graph.value(INTS, (2,))
    output = graph.value(shape=())
    graph.builder.add_operation(OPS.RESHAPE, [given, wanted], [output])
    negative = graph.value(shape=())
    graph.builder.add_operation(OPS.NEG, [output], [negative])
    model = graph.finish([given, wanted], [negative])
    found = folded(model)
    assert not found.folded
    assert not any(output_of(found, position).is_fully_specified for position in range(2))
    assert isinstance(prepared(model), ReferenceModel)


def test_shapes_that_contradict_the_model_are_left_to_references() -> None:
    graph = Graph()
    given, output = graph.value(shape=(2, 3)), graph.value(shape=(0, 7))
    shape = graph.value(INTS, (2,))
    graph.builder.add_operation(OPS.TFLITE_SHAPE, [given], [shape])
    graph.builder.add_operation(OPS.RESHAPE, [given, shape], [output])
    found = folded(graph.finish([given], [output]))
    assert found.folded == [0]
    assert output_of(found, 1).dimensions == (0, 7)


def test_kernels_do_not_read_beyond_operands_whose_shapes_contradict_the_model() -> None:
    graph, given, _, same = by_its_own_shape()
    output = graph.value(shape=(400, 3))
    graph.builder.add_operation(OPS.TANH, [same], [output])
    model = graph.finish([given], [output])
    assert folded(model).bound()[-1] is None
    with pytest.raises(OpFailed, match=r"\[4, 3\]; \[400, 3\] is declared"):
        results(prepared(model), model, [np.zeros((4, 3), np.float32)])


def test_kernels_do_not_read_beyond_constants_whose_shapes_contradict_the_model() -> None:
    graph, given, shape, _ = by_its_own_shape()
    filled, other, total = (graph.value(INTS, (400, 3)) for _ in range(3))
    seven = graph.builder.add_operand(nd.OperandType.INT32)
    graph.builder.set_operand_value(seven, 7)
    graph.builder.add_operation(OPS.FILL, [shape, seven], [filled])
    graph.binary(OPS.ADD, other, filled, total)
    model = graph.finish([given, other], [total])
    found = folded(model)
    assert filled not in found.known
    with pytest.raises(OpFailed, match=r"\[4, 3\]; \[400, 3\] is declared"):
        results(prepared(model), model, [np.zeros((4, 3), np.float32), np.zeros((400, 3), np.int32)])


def test_many_integers_are_computed_by_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph()
    output = graph.value(INTS, ())
    graph.builder.add_operation(
        OPS.TFLITE_STABLEHLO_SHIFT_LEFT,
        [graph.constant(range(100), INTS), graph.constant([1], INTS)],
        [output],
    )
    given = graph.value(INTS, (100,))
    total = graph.binary(OPS.ADD, given, output, graph.value(INTS, (100,)))
    model = graph.finish([given], [total])
    assert folded(model).folded == [0]
    array = np.arange(100, dtype=np.int32)
    expected = array + (array << 1)
    np.testing.assert_array_equal(results(prepared(model), model, [array])[0], expected)
    monkeypatch.setattr(subject, "_MAX_ELEMENTS", 99)
    found = folded(model)
    assert not found.folded
    assert output_of(found, 0).dimensions == (100,)
    np.testing.assert_array_equal(results(prepared(model), model, [array])[0], expected)


def test_operations_that_give_other_results_each_time_are_not_computed() -> None:
    graph = Graph()
    logits = graph.builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3))
    graph.builder.set_operand_value(logits, [[0.0, 1.0, 2.0]] * 2)
    samples = graph.builder.add_operand(nd.OperandType.INT32)
    graph.builder.set_operand_value(samples, 4)
    output = graph.value(INTS, ())
    graph.builder.add_operation(
        OPS.TFLITE_MULTINOMIAL, [logits, samples, graph.constant([0, 0], INTS)], [output]
    )
    given = graph.value(INTS, (2, 4))
    total = graph.binary(OPS.ADD, given, output, graph.value(INTS, (2, 4)))
    found = folded(graph.finish([given], [total]))
    assert not found.folded
    assert output_of(found, 0).dimensions == (2, 4)


def with_known_outputs() -> tuple[nd.Model, int, int]:
    """Returns a model of x + 2 * shape(x), shape(x) and 2 * shape(x), with two known outputs."""
    graph = Graph()
    given, shape, double = graph.value(INTS, (5, 2)), graph.value(INTS, (2,)), graph.value(INTS, (2,))
    graph.builder.add_operation(OPS.TFLITE_SHAPE, [given], [shape])
    graph.binary(OPS.MUL, shape, graph.constant([2], INTS), double)
    total = graph.binary(OPS.ADD, given, double, graph.value(INTS, (5, 2)))
    return graph.finish([given], [total, shape, double]), shape, double


def test_outputs_that_are_known_are_written_by_kernels() -> None:
    model, shape, double = with_known_outputs()
    found = folded(model)
    assert found.folded == [0, 1]
    assert not found.known
    assert found.results.keys() == {shape, double}
    first = prepared(model)
    assert isinstance(first, CpuPreparedModel)
    array = np.arange(10, dtype=np.int32).reshape(5, 2)
    total, lengths, twice = results(first, model, [array])
    np.testing.assert_array_equal(total, array + np.array([10, 4]))
    np.testing.assert_array_equal(lengths, [5, 2])
    np.testing.assert_array_equal(twice, [10, 4])


def test_a_model_may_have_known_outputs_only() -> None:
    graph = Graph()
    given, shape = graph.value(shape=(3, 4)), graph.value(INTS, (2,))
    graph.builder.add_operation(OPS.TFLITE_SHAPE, [given], [shape])
    model = graph.finish([given], [shape])
    first = prepared(model)
    assert isinstance(first, CpuPreparedModel)
    np.testing.assert_array_equal(results(first, model, [np.zeros((3, 4), np.float32)])[0], [3, 4])


def test_known_outputs_beside_operations_without_kernels() -> None:
    graph = Graph()
    given, shape = graph.value(INTS, (2, 2)), graph.value(INTS, (2,))
    graph.builder.add_operation(OPS.TFLITE_SHAPE, [given], [shape])
    total = graph.binary(OPS.ADD, given, shape, graph.value(INTS, (2, 2)))
    shifted = graph.value(INTS, (2, 2))
    graph.builder.add_operation(OPS.TFLITE_STABLEHLO_SHIFT_LEFT, [total, given], [shifted])
    model = graph.finish([given], [shape, shifted])
    first = prepared(model)
    assert isinstance(first, ReferenceModel)
    array = np.array([[0, 1], [2, 3]], np.int32)
    lengths, found = results(first, model, [array])
    np.testing.assert_array_equal(lengths, [2, 2])
    np.testing.assert_array_equal(found, (array + 2) << array)


def test_operations_of_one_form_do_not_share_what_is_known_of_an_output() -> None:
    graph = Graph()
    given = graph.value(INTS, (2, 3))
    wanted, order = graph.value(INTS, (2,)), graph.value(INTS, (2,))
    graph.binary(OPS.SUB, graph.constant([2, 1], INTS), graph.constant([1, 1], INTS), order)
    turned = [graph.value(INTS, (3, 2)) for _ in range(2)]
    for axes, output in zip((order, wanted), turned, strict=True):
        graph.builder.add_operation(OPS.TFLITE_TRANSPOSE, [given, axes], [output])
    model = graph.finish([given, wanted], [order, *turned])
    assert [calls is None for calls in folded(model).bound()] == [False, False, True]
    arrays = [np.arange(6, dtype=np.int32).reshape(2, 3), np.array([1, 0], np.int32)]
    axes_found, *found = results(prepared(model), model, arrays)
    np.testing.assert_array_equal(axes_found, [1, 0])
    for each in found:
        np.testing.assert_array_equal(each, arrays[0].T)
