"""Models on the first tier: whole, beside references, and on references alone."""

import gc
import time
import weakref

import numpy as np
import pytest
from support.cpu.first_tier import prepared, results
from support.models.control_flow import Graph, below
from support.opencl.models import request_of
from support.process.resident import resident_bytes
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.first_tier import library
from neurald.drivers.cpu.parts.native_segment import NativeSegment
from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.compiling.separate_compiler import SeparateCompiler
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.execution.graph_operations import GraphOperations
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.model import Model
from neurald.hal.sync.cancellation import Cancellation
from neurald.service.demo.digits import MODEL

FLOAT = nd.OperandType.TENSOR_FLOAT32
WITHOUT_KERNEL = "TFLITE_STABLEHLO_ADD"


def chain(*operations: str) -> nd.Model:
    """Builds a chain of operations, each on the result before and on the input."""
    builder = nd.ModelBuilder()
    given = builder.add_operand(FLOAT, (3, 70))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    value, outputs = given, []
    for name in operations:
        output = builder.add_operand(FLOAT, (3, 70))
        inputs = [value, given] if name == WITHOUT_KERNEL else [value, given, none]
        builder.add_operation(nd.OperationType[name], inputs, [output])
        value = output
        outputs.append(output)
    builder.identify_inputs_and_outputs([given], outputs[-2:])
    return builder.finish()


@pytest.mark.parametrize(
    ("operations", "native"),
    [
        (("ADD", "MUL"), None),
        (("ADD", WITHOUT_KERNEL), {0}),
        ((WITHOUT_KERNEL, "MUL", "SUB", WITHOUT_KERNEL, "ADD"), {1, 2, 4}),
        ((WITHOUT_KERNEL,), set()),
    ],
)
def test_operations_without_kernels_run_on_references(
    operations: tuple[str, ...], native: set[int] | None
) -> None:
    model = chain(*operations)
    found = prepared(model)
    if native is None:
        assert isinstance(found, CpuPreparedModel)
    else:
        assert isinstance(found, ReferenceModel)
        assert found.compiled_operations == native
    array = np.random.default_rng(0).normal(size=(3, 70)).astype(np.float32)
    expected = results(ReferenceModel(model), model, [array])
    for _ in range(2):
        for one, other in zip(results(found, model, [array]), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_constants_of_which_kernels_have_copies_leave_the_process() -> None:
    rng, length = np.random.default_rng(0), 700
    builder = nd.ModelBuilder()
    value = given = builder.add_operand(FLOAT, (1, length))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    for _ in range(2):
        weights = builder.add_operand(FLOAT, (length, length))
        builder.set_operand_value(weights, rng.normal(size=(length, length)).astype(np.float32))
        bias = builder.add_operand(FLOAT, (length,))
        builder.set_operand_value(bias, np.ones(length, np.float32))
        output = builder.add_operand(FLOAT, (1, length))
        builder.add_operation(nd.OperationType.FULLY_CONNECTED, [value, weights, bias, none], [output])
        value = output
    builder.identify_inputs_and_outputs([given], [value])
    model = builder.finish()
    pool = SharedMemory.constant(model.pools[0].view())
    model = Model(main=model.main, referenced=model.referenced, pools=(pool,))
    assert len(bytes(pool.view())) <= resident_bytes(pool)
    found = prepared(model)
    assert isinstance(found, CpuPreparedModel)
    assert resident_bytes(pool) < pool.size / 10
    array = rng.normal(size=(1, length)).astype(np.float32)
    expected = results(ReferenceModel(model), model, [array])[0]
    np.testing.assert_allclose(results(found, model, [array])[0], expected, rtol=1e-4, atol=1e-3)


def test_kernels_are_profiled() -> None:
    found = prepared(chain("ADD", "MUL"))
    times = found.profile()
    assert [each.operations for each in times] == [(0,), (1,)]
    assert {each.label for each in times} == {"first tier"}


def test_a_network_gives_the_integers_of_its_references() -> None:
    model = nd.load_tflite(MODEL)
    found = prepared(model)
    rng = np.random.default_rng(0)
    for _ in range(20):
        image = rng.integers(0, 256, (1, 8, 8, 1)).astype(np.uint8)
        expected = results(ReferenceModel(model), model, [image])
        np.testing.assert_array_equal(results(found, model, [image])[0], expected[0])


def test_graphs_of_loops_have_kernels() -> None:
    body, condition, main = Graph(), below(5, extra=2), Graph()
    count, value, factor = body.value(shape=(1,)), body.value(), body.value()
    next_count = body.binary(nd.OperationType.ADD, count, body.constant([1]), body.value(shape=(1,)))
    product = body.binary(nd.OperationType.MUL, value, factor, body.value())
    same = body.binary(nd.OperationType.MUL, factor, body.constant([1]), body.value())
    loop = body.finish([count, value, factor], [next_count, product, same])
    shapes = ((1,), (2,), (2,))
    given, made = ([main.value(shape=shape) for shape in shapes] for _ in range(2))
    inputs = [main.model(condition), main.model(loop), *given]
    main.builder.add_operation(nd.OperationType.WHILE, inputs, made)
    # Beside an operation without a kernel, the loop is a step of its own.
    double = main.value()
    main.builder.add_operation(nd.OperationType[WITHOUT_KERNEL], [made[1], made[1]], [double])
    model = main.finish(given, [*made, double])
    found = prepared(model)
    assert isinstance(found, ReferenceModel)
    assert found.compiled_operations == {0}
    _, *steps = found.steps
    assert [len(each) for each in steps] == [1, 1]
    assert all(isinstance(each, NativeSegment) for (each,) in steps)
    arrays = [np.zeros(1, np.float32), np.array([1.5, -2], np.float32), np.array([2, 3], np.float32)]
    last, power, _, doubled = results(found, model, arrays)
    np.testing.assert_array_equal(last, [5])
    np.testing.assert_array_equal(power, arrays[1] * arrays[2] ** 5)
    np.testing.assert_array_equal(doubled, power * 2)


def test_models_with_open_dimensions_are_bound_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = nd.ModelBuilder()
    given, none = builder.add_operand(FLOAT, (0, 5)), builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    output = builder.add_operand(FLOAT, (0, 5))
    builder.add_operation(nd.OperationType.MUL, [given, given, none], [output])
    builder.identify_inputs_and_outputs([given], [output])
    model, device = builder.finish(), CpuDevice()
    # While there is no library, on references.
    monkeypatch.setattr(library, "built_library", lambda target: None)
    first = device.prepare_first_tier(model, PrepareOptions())
    assert isinstance(first, SpecializingModel)
    for is_ready in (False, True):
        assert not is_ready or device.first_tier.library.wait(120)
        for rows in (2, 7) if is_ready else (3,):
            array = np.random.default_rng(0).normal(size=(rows, 5)).astype(np.float32)
            request, (result,) = request_of(model, [array], [(rows, 5)])
            assert first.execute(request, ExecuteOptions()).is_sufficient
            np.testing.assert_allclose(result, array * array, rtol=1e-6)
    assert isinstance(first._variants.get(((7, 5),))[0], CpuPreparedModel)


def test_what_cannot_be_bound_for_its_shapes_runs_on_references() -> None:
    builder = nd.ModelBuilder()
    given, order = builder.add_operand(FLOAT, (2, 3)), builder.add_operand(nd.OperandType.TENSOR_INT32, (0,))
    output = builder.add_operand(FLOAT, (3, 2))
    builder.add_operation(nd.OperationType.TRANSPOSE, [given, order], [output])
    builder.identify_inputs_and_outputs([given, order], [output])
    # An execution may omit the order, which has no elements then.
    compilation_builder = nd.CompilationBuilder(builder.finish(), [nd.devices()[0]])
    compilation_builder.set_startup(nd.Startup.INSTANT)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    execution = nd.Execution(compilation_builder.finish())
    execution.set_input(0, array)
    execution.set_input(1, None)
    result = np.empty((3, 2), np.float32)
    execution.set_output(0, result)
    execution.compute()
    np.testing.assert_array_equal(result, array.T)


def of_any_length() -> tuple[nd.Model, CpuDevice]:
    """Returns a model of rows of 5 floats, and a device whose first tier is ready."""
    builder = nd.ModelBuilder()
    given, output = builder.add_operand(FLOAT, (0, 5)), builder.add_operand(FLOAT, (0, 5))
    builder.add_operation(nd.OperationType.TANH, [given], [output])
    builder.identify_inputs_and_outputs([given], [output])
    model, device = builder.finish(), CpuDevice()
    device.first_tier.library.code(None)
    assert device.first_tier.library.wait(120)
    return model, device


def in_background(
    model: nd.Model, device: CpuDevice, first_tier: SpecializingModel | None = None
) -> SpecializingModel:
    """Prepares a model that is compiled in the background for each length."""
    compiler = SeparateCompiler("cpu", device, model)
    options = PrepareOptions(compiler=compiler, cancellation=Cancellation(), first_tier=first_tier)
    prepared = device.prepare_model(model, options)
    assert isinstance(prepared, SpecializingModel)
    return prepared


def test_what_is_compiled_in_the_background_has_a_first_tier_for_new_sizes() -> None:
    model, device = of_any_length()
    prepared = in_background(model, device)
    array = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    request, (result,) = request_of(model, [array], [(3, 5)])
    prepared.execute(request, ExecuteOptions())
    np.testing.assert_allclose(result, np.tanh(array), rtol=1e-5)
    first, end = prepared._variants.get(((3, 5),))[0], time.monotonic() + 120
    assert first is not None
    assert [each.label for each in first.profile()] == ["first tier"]
    while prepared._variants.get(((3, 5),))[0] is first:
        assert time.monotonic() < end
        time.sleep(0.02)
    prepared.execute(request, ExecuteOptions())
    np.testing.assert_allclose(result, np.tanh(array), rtol=1e-5)


def test_what_is_compiled_in_the_background_takes_over_what_was_bound() -> None:
    model, device = of_any_length()
    first = device.prepare_first_tier(model, PrepareOptions())
    assert isinstance(first, SpecializingModel)
    array = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    request, _ = request_of(model, [array], [(3, 5)])
    first.execute(request, ExecuteOptions())
    bound = first._variants.get(((3, 5),))[0]
    prepared = in_background(model, device, first)
    assert prepared._first_tier is not None
    known = {model.main.inputs[0]: (3, 5)}
    # It holds what it was given until that is compiled.
    assert prepared._first_tier.bind(model, known, ExecuteOptions()) is bound
    assert not first._variants
    assert prepared._first_tier.bind(model, known, ExecuteOptions()) is not bound


def test_what_is_compiled_in_the_background_does_not_keep_the_first_tier() -> None:
    model, device = of_any_length()
    first = device.prepare_first_tier(model, PrepareOptions())
    assert isinstance(first, SpecializingModel)
    for length in (3, 4):
        array = np.zeros((length, 5), np.float32)
        request, _ = request_of(model, [array], [(length, 5)])
        first.execute(request, ExecuteOptions())
    other = weakref.ref(first._variants.get(((4, 5),))[0])
    prepared = in_background(model, device, first)
    assert prepared._first_tier is not None
    prepared._first_tier.bind(model, {model.main.inputs[0]: (3, 5)}, ExecuteOptions())
    del first

    def is_freed() -> bool:
        """Returns whether nothing refers to it, as soon as its thread has returned."""
        gc.collect()
        return other() is None

    wait_until(is_freed)


def test_operations_are_bound_by_executions_that_know_their_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They ran on references until optimised code was compiled."""
    builder = nd.ModelBuilder()
    source = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3, 4))
    order = builder.add_operand(nd.OperandType.TENSOR_INT32, (3,))
    result = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (0, 0, 0))
    builder.add_operation(nd.OperationType.TRANSPOSE, [source, order], [result])
    builder.identify_inputs_and_outputs([source, order], [result])
    model = builder.finish()
    device = CpuDevice()
    prepared = device.prepare_first_tier(model, PrepareOptions())
    assert isinstance(prepared, PartlyCompiledModel)

    def refuse(*_: object) -> None:
        raise AssertionError("it runs on references")

    monkeypatch.setattr(GraphOperations, "_compute", refuse)
    function = prepared.create_array_function([(2, 3, 4), (3,)], ())
    assert function is not None
    given = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axes in ((2, 0, 1), (1, 0, 2), (2, 0, 1)):
        found = function(given, np.array(axes, np.int32))
        assert found is not None
        np.testing.assert_array_equal(found[0], given.transpose(axes))
