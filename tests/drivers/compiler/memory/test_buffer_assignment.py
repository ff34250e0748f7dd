"""Locations are aligned and inside their buffers; values with overlapping lifetimes share none."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.opencl.models import FLOAT, Models

import neurald as nd
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment, assign_buffers
from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.compiler.passes.fusion.fusion import fuse

pytestmark = pytest.mark.quick

ALIGNMENT = 64


def placed(builder: GraphBuilder, *outputs: Value) -> tuple[BufferAssignment, list[list[Value]]]:
    graph = fuse(builder.finish(*outputs), enabled=False)
    uses = [[kernel.output, *kernel.inputs] for kernel in graph.kernels]
    return assign_buffers(graph, uses, alignment=ALIGNMENT), uses


def chain(length: int) -> tuple[GraphBuilder, list[Value]]:
    builder = GraphBuilder()
    values = [builder.input(10, 10)]
    for _ in range(length):
        values.append(builder.compute((10, 10), lambda *at: load(values[-1], at) + 1))
    return builder, values


def test_values_with_overlapping_lifetimes_share_no_bytes() -> None:
    builder, values = chain(6)
    total = builder.compute((10, 10), lambda *at: load(values[1], at) + load(values[6], at))
    found, uses = placed(builder, total, values[3])
    last = {value: step for step, arguments in enumerate(uses) for value in arguments}
    last.update(dict.fromkeys(found.graph.outputs, len(uses)))
    first = {value: step for step, arguments in reversed(list(enumerate(uses))) for value in arguments}
    first.update(dict.fromkeys(found.graph.inputs, -1))
    for one in first:
        (location,) = found.of([one])
        assert location.base is Base.ARENA
        assert location.offset % ALIGNMENT == 0
        assert location.offset + one.size_bytes <= found.arena_bytes
        for other in first:
            if one is not other and first[one] <= last[other] and first[other] <= last[one]:
                (occupied,) = found.of([other])
                assert (
                    location.offset + one.size_bytes <= occupied.offset
                    or occupied.offset + other.size_bytes <= location.offset
                )
    assert found.arena_bytes < found.unshared_bytes


def test_an_input_that_is_read_late_is_not_overwritten() -> None:
    builder = GraphBuilder()
    source, late = builder.input(20, 20), builder.input(10, 10)
    large = builder.compute((20, 20), lambda *at: load(source, at) + 1)
    small = builder.compute((10, 10), lambda *at: load(large, at) + 1)
    total = builder.compute((10, 10), lambda *at: load(small, at) + load(late, at))
    found, _ = placed(builder, total)
    (location,) = found.of([late])
    for other in (source, large, small):
        (occupied,) = found.of([other])
        assert (
            location.offset + late.size_bytes <= occupied.offset
            or occupied.offset + other.size_bytes <= location.offset
        )


def test_aliases_are_located_in_their_owners() -> None:
    builder = GraphBuilder()
    source = builder.input(4, 6)
    flat = builder.reshape(source, (24,))
    end = builder.compute((24,), lambda i: load(flat, (i,)) + 1)
    graph = fuse(builder.finish(end), enabled=False)
    uses = [[kernel.output, *kernel.inputs] for kernel in graph.kernels]
    found = assign_buffers(graph, uses, alignment=ALIGNMENT)
    assert found.of([flat]) == found.of([source])


def test_each_constant_is_stored_once() -> None:
    builder = GraphBuilder()
    source, first, second = builder.input(3), builder.weights(3), builder.weights(100)
    end = builder.compute(
        (3,), lambda i: load(source, (i,)) + load(first, (i,)) * load(second, (i * 7,)) + load(first, (i,))
    )
    found, _ = placed(builder, end)
    assert found.constants.nbytes == 64 + 448
    for value in (first, second):
        (location,) = found.of([value])
        assert location.base is Base.CONSTANTS
        assert value.constant is not None
        held = found.constants[location.offset : location.offset + value.size_bytes].view(np.float32)
        np.testing.assert_array_equal(held, value.constant)
    assert found.constants.ctypes.data % ALIGNMENT == 0


def test_equal_constants_are_stored_once() -> None:
    """Kernels that read the same weights pack them alike."""
    builder = GraphBuilder()
    source, *weights = builder.input(3), *(builder.weights(2000) for _ in range(4))
    first = np.zeros(2000, np.float32)
    for each in weights:
        each.constant = first.copy()
    # Elements that few others tell apart.
    assert weights[2].constant is not None
    assert weights[3].constant is not None
    weights[2].constant[1234] = -0.0
    weights[3].constant[4] = np.nan
    end = builder.compute((3,), lambda i: sum((load(each, (i,)) for each in weights), load(source, (i,))))
    found, _ = placed(builder, end)
    one, two, three, four = (found.of([each])[0].offset for each in weights)
    assert one == two
    assert len({one, three, four}) == 3
    assert found.constants.nbytes == 3 * 8000


def test_ports_describe_the_operands_of_the_model() -> None:
    models = Models()
    used, unused = models.input(FLOAT, (2, 3)), models.input(FLOAT, (5,))
    model = models.finish(models.add(nd.OperationType.ABS, [used], shape=(2, 3)))
    graph = fuse(build_graph(model))
    found = assign_buffers(graph, [[k.output, *k.inputs] for k in graph.kernels], alignment=ALIGNMENT)
    (first, second), (output,) = found.ports(model)
    assert (first.dimensions, first.size_bytes, second.offset) == ((2, 3), 24, None)
    assert output.operand.type is FLOAT
    assert output.operand.dimensions == (2, 3)
    assert unused is not None
    for port in (first, second, output):
        port.check(found.arena_bytes)
