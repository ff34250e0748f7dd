"""Strings as objects and as a buffer: what devices of this process read and write."""

from typing import Any

import numpy as np
import pytest
from support.models.control_flow import Graph, T

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.execution.array_model import OutputArrays, input_arrays
from neurald.hal.memory.pool import HostMemory
from neurald.hal.memory.string_memory import StringMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.strings import encode_strings

STRING, LONG, BOOL = T.TENSOR_STRING, T.TENSOR_INT64, T.TENSOR_BOOL8


def strings(*values: bytes) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def model() -> nd.Model:
    """Creates a model that chooses strings by an index, and copies a bool."""
    graph = Graph()
    source, index, flag = graph.value(STRING, (4,)), graph.value(LONG, (3,)), graph.value(BOOL, (2,))
    chosen, same = graph.value(STRING, (3,)), graph.value(BOOL, (2,))
    axis, batch = (graph.builder.add_operand(nd.OperandType.INT32) for _ in range(2))
    graph.builder.set_operand_value(axis, 0)
    graph.builder.set_operand_value(batch, 0)
    graph.builder.add_operation(nd.OperationType.TFLITE_GATHER, [source, axis, index, batch], [chosen])
    graph.builder.add_operation(nd.OperationType.LOGICAL_NOT, [flag], [same])
    return graph.finish([source, index, flag], [chosen, same])


@pytest.mark.parametrize("device", [CpuDevice, ReferenceDevice])
def test_repeated_executions_see_new_values_of_arrays(device: Any) -> None:
    compilation = nd.CompilationBuilder(model(), [device()]).finish()
    texts, index, flag = strings(b"a", b"", b"c\0", b"d"), np.array([0, 1, 2]), np.array([True, False])
    chosen, same = strings(*[b"?"] * 3), np.zeros(2, bool)
    execution = nd.Execution(compilation, reusable=True)
    for position, array in enumerate((texts, index, flag)):
        execution.set_input(position, array)
    for position, array in enumerate((chosen, same)):
        execution.set_output(position, array)
    for turn in range(5):
        index[:] = (turn % 4, 3, 2)
        flag[:] = (turn % 2 == 0, True)
        execution.compute()
        assert chosen.tolist() == [texts[turn % 4], b"d", b"c\0"]
        assert same.tolist() == [turn % 2 != 0, False]
        chosen[:] = None
    # Strings of an input are those at the time of binding.
    texts[0] = b"other"
    index[:] = 0
    execution.compute()
    assert chosen.tolist() == [b"a"] * 3
    index[0] = 4
    with pytest.raises(nd.Error, match="indexes"):
        execution.compute()
    index[0] = 1
    execution.compute()
    assert chosen.tolist() == [b"", b"a", b"a"]


def test_results_of_other_sizes_are_found() -> None:
    graph = Graph()
    text, grams = graph.value(STRING, (1,)), graph.value(STRING, (0,))
    size, skip, every = graph.builder.add_operand(nd.OperandType.INT32), None, None
    skip, every = (graph.builder.add_operand(kind) for kind in (nd.OperandType.INT32, nd.OperandType.BOOL))
    for operand, value in ((size, 2), (skip, 0), (every, True)):
        graph.builder.set_operand_value(operand, value)
    graph.builder.add_operation(nd.OperationType.TFLITE_SKIP_GRAM, [text, size, skip, every], [grams])
    compilation = nd.CompilationBuilder(graph.finish([text], [grams]), [CpuDevice()]).finish()
    execution, found = nd.Execution(compilation, reusable=True), np.empty(9, object)
    execution.set_input(0, strings(b"a b c"))
    execution.set_output(0, found)
    for _ in range(4):
        found[:] = None
        execution.compute()
        assert execution.output_dimensions(0) == (5,)
        assert found[:5].tolist() == [b"a b", b"a", b"b c", b"b", b"c"]


def test_requests() -> None:
    texts = strings(b"a", b"bc", b"", b"d")
    pools = (
        StringMemory(encode_strings(texts), texts),
        HostMemory(np.arange(3)),
        HostMemory(np.array([7, 0], np.uint8)),
        StringMemory(bytearray(100), np.empty((2, 2), object)),
        HostMemory(bytearray(2)),
    )
    sizes = [pool.size for pool in pools]
    arguments = [Argument(pool=number, length=size) for number, size in enumerate(sizes)]
    request = Request(inputs=tuple(arguments[:3]), outputs=tuple(arguments[3:]), pools=pools)
    source, _, flags = input_arrays(model(), request)
    assert source is not None
    assert flags is not None
    assert source[1] is texts[1]
    assert flags.tolist() == [True, False]
    outputs = OutputArrays(model(), request, [(3,), (2,)])
    assert not outputs.write([strings(b"x"), np.ones(2, bool)])
    assert outputs.write([strings(b"x", b"y", b"z"), np.ones(2, bool)])
    assert pools[3].strings.tolist() == [b"x", b"y", b"z", None]
    for shapes in ([(5,), (2,)], [(3,), (3,)], [None, (2,)]):
        with pytest.raises(nd.Error):
            OutputArrays(model(), request, shapes)
