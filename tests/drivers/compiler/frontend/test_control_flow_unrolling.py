import numpy as np
from support.models.control_flow import ADD, BOOL, MUL, Graph, arithmetic, below, branching, counting
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.frontend.control_flow_unrolling import unroll_control_flow
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.operations.machinery.call import Array


def _results(model: nd.Model, *inputs: Array) -> list[Array]:
    """Returns the results of the references."""
    builder = nd.CompilationBuilder(model, [ReferenceDevice()])
    return [np.asarray(each) for each in builder.finish().run(*inputs)]


def _loop(iterations: float, first: float = 0.0) -> nd.Model:
    """Returns a model with a loop that doubles a value, and adds 1 afterwards."""
    graph = Graph()
    value, doubled, result = graph.value(), graph.value(), graph.value()
    graph.builder.add_operation(
        nd.OperationType.WHILE,
        [
            graph.model(below(iterations, extra=1)),
            graph.model(counting(1, 2)),
            graph.constant([first]),
            value,
        ],
        [graph.value(shape=(1,)), doubled],
    )
    graph.binary(ADD, doubled, graph.constant([1]), result)
    return graph.finish([value], [result])


@sweep("iterations", [0, 1, 3])
def test_loops_with_a_constant_trip_count_are_unrolled(iterations: int) -> None:
    model, value = _loop(iterations), np.array([3, -5], np.float32)
    flat = unroll_control_flow(model)
    assert flat is not None
    assert [operation.type for operation in flat.model.main.operations] == [MUL] * iterations + [ADD]
    assert flat.origins == (0,) * iterations + (1,)
    for found, expected in zip(_results(flat.model, value), _results(model, value), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_loops_whose_condition_depends_on_data_are_kept() -> None:
    graph = Graph()
    counter, value = graph.value(shape=(1,)), graph.value()
    outputs = [graph.value(shape=(1,)), graph.value()]
    models = graph.model(below(3, extra=1)), graph.model(counting(1, 2))
    graph.builder.add_operation(nd.OperationType.WHILE, [*models, counter, value], outputs)
    assert unroll_control_flow(graph.finish([counter, value], outputs)) is None


def test_loops_of_many_iterations_are_kept() -> None:
    assert unroll_control_flow(_loop(100_000)) is None
    # The loop would never end.
    assert unroll_control_flow(_loop(np.inf)) is None


def test_loops_whose_outputs_would_need_a_copy_are_kept() -> None:
    graph = Graph()
    value = graph.value()
    outputs = [graph.value(shape=(1,)), graph.value()]
    models = graph.model(below(3, extra=1)), graph.model(counting(1, 2))
    graph.builder.add_operation(nd.OperationType.WHILE, [*models, graph.constant([0]), value], outputs)
    assert unroll_control_flow(graph.finish([value], outputs)) is None


@sweep("condition", [False, True])
def test_branches_on_constants_are_inlined(condition: bool) -> None:
    graph = Graph()
    value, output = graph.value(), graph.value()
    graph.builder.add_operation(
        nd.OperationType.IF,
        [
            graph.constant([condition], BOOL),
            graph.model(arithmetic(ADD, 1)),
            graph.model(arithmetic(MUL, 3)),
            value,
        ],
        [output],
    )
    flat = unroll_control_flow(graph.finish([value], [output]))
    assert flat is not None
    assert [operation.type for operation in flat.model.main.operations] == [ADD if condition else MUL]
    (found,) = _results(flat.model, np.array([2, 7], np.float32))
    assert found.tolist() == ([3, 8] if condition else [6, 21])


def test_branches_on_data_are_kept() -> None:
    assert unroll_control_flow(branching(arithmetic(ADD, 1), arithmetic(MUL, 3))) is None


def test_models_without_control_flow_are_not_changed() -> None:
    assert unroll_control_flow(arithmetic(ADD, 1)) is None


def test_unrolled_models_are_compiled_as_a_whole() -> None:
    compilation = nd.CompilationBuilder(_loop(4), [CpuDevice()]).finish()
    value = np.array([3, -5], np.float32)
    np.testing.assert_array_equal(np.asarray(compilation.run(value)[0]), value * 16 + 1)
    kernels = [kernel for step in compilation.profile() for kernel in step.kernels]
    assert all("reference" not in kernel.label for kernel in kernels)
