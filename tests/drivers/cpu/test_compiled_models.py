"""Models on the CPU device, compiled as a whole or in parts, compared with their references."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from support.models.interleaved import interleaved_model
from support.models.joined import joined_model
from support.opencl.models import QUANT8, Models, expect_close, random_inputs, run
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.frontend.control_flow import structuring
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu import artifact as artifact_format
from neurald.drivers.cpu import compiler, preparation
from neurald.drivers.cpu.artifact import read_artifact
from neurald.drivers.cpu.device import CpuDevice, process_settings
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.native.objects.object_code import ObjectCompilation
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.kernel_calls import KernelCalls
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target, host_target
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import REFERENCE, Artifact, ExecuteOptions, ExecutionResult, PrepareOptions
from neurald.hal.digests import digest_of
from neurald.hal.errors import BadData, Cancelled, OpFailed
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.operations import DEFINITIONS
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation

Array = np.ndarray[Any, np.dtype[Any]]

FLOAT, INT = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32
OPTIONS = PrepareOptions(threads=2, cache_key=bytes(32))


def executed(
    prepared: Any, inputs: Sequence[Array | None], outputs: Sequence[Array], **options: Any
) -> ExecutionResult:
    """Runs a prepared model; outputs are written to arrays of their sizes."""
    memories = [each for each in (*inputs, *outputs) if each is not None]
    arguments: list[Argument] = []
    pool = 0
    for each in (*inputs, *outputs):
        if each is None:
            arguments.append(Argument())
            continue
        arguments.append(Argument(pool=pool, length=each.nbytes, dimensions=each.shape))
        pool += 1
    request = Request(
        inputs=tuple(arguments[: len(inputs)]),
        outputs=tuple(arguments[len(inputs) :]),
        pools=tuple(HostMemory(each) for each in memories),
    )
    result: ExecutionResult = prepared.execute(request, ExecuteOptions(**options))
    return result


def expect_as_on_references(model: nd.Model, seed: int) -> None:
    inputs = random_inputs(model, seed)
    found, expected = (
        run(device.prepare_model(model, OPTIONS), model, inputs)
        for device in (CpuDevice(), ReferenceDevice())
    )
    expect_close(found, expected, 1e-4)


@pytest.mark.parametrize("kind", [FLOAT, QUANT8], ids=["float", "quant8"])
@pytest.mark.parametrize("seed", range(5))
def test_values_behind_one_another(seed: int, kind: nd.OperandType) -> None:
    expect_as_on_references(joined_model(seed, kind), seed)


@pytest.mark.parametrize("kind", [FLOAT, QUANT8], ids=["float", "quant8"])
@pytest.mark.parametrize("seed", range(8))
def test_values_side_by_side(seed: int, kind: nd.OperandType) -> None:
    expect_as_on_references(interleaved_model(seed, kind), seed)


@sweep("axis", [0, 1])
def test_parts_of_outputs_are_written_to_request_memory(axis: int) -> None:
    models = Models()
    source = models.input(FLOAT, (4, 8))
    parts = []
    for columns in (16, 16):
        weights = models.constant(models.generator.normal(size=(columns, 8)))
        bias = models.constant(np.zeros(columns))
        product = [source, weights, bias, models.number(0)]
        parts.append(models.add(nd.OperationType.FULLY_CONNECTED, product, shape=(4, columns)))
    shape = (8, 16) if axis == 0 else (4, 32)
    model = models.finish(
        models.add(nd.OperationType.CONCATENATION, [*parts, models.number(axis)], shape=shape)
    )
    prepared = CpuDevice().prepare_model(model, OPTIONS)
    assert len(prepared.profile()) == 2
    with ObjectCompilation(host_target(process_settings())) as compilation:
        compiled = compiler.compile_model(model, generate, compilation)
    assert [len(each) for each in compiled.executable.output_arguments] == [2]
    inputs = random_inputs(model)
    expected = run(ReferenceDevice().prepare_model(model, OPTIONS), model, inputs)
    expect_close(run(prepared, model, inputs), expected)


@pytest.mark.parametrize("shape", [(2, 3, 5, 40), (7, 1, 512), (3, 130)])
def test_complex_numbers_between_operations_and_as_outputs(shape: tuple[int, ...]) -> None:
    rows, columns = (8, 64) if len(shape) == 4 else (1, 512)
    complex_type = nd.OperandType.TENSOR_COMPLEX64
    builder = nd.ModelBuilder()
    source = builder.add_operand(FLOAT, shape)
    lengths = builder.add_operand(INT, (2,))
    builder.set_operand_value(lengths, [rows, columns])
    numbers = builder.add_operand(complex_type, (*shape[:-2], rows, columns // 2 + 1))
    builder.add_operation(nd.OperationType.TFLITE_RFFT2D, [source, lengths], [numbers])
    results = [numbers]
    for kind in (nd.OperationType.TFLITE_COMPLEX_ABS, nd.OperationType.TFLITE_IMAG):
        results.append(builder.add_operand(FLOAT, (*shape[:-2], rows, columns // 2 + 1)))
        builder.add_operation(kind, [numbers], [results[-1]])
    builder.identify_inputs_and_outputs([source], results)
    model = builder.finish()
    inputs = random_inputs(model, 0)
    prepared = CpuDevice().prepare_model(model, OPTIONS)
    assert not any(kernel.is_reference for kernel in prepared.profile())
    found = run(prepared, model, inputs)
    expected = run(ReferenceDevice().prepare_model(model, OPTIONS), model, inputs)
    for result, reference in zip(found, expected, strict=True):
        assert result.dtype == reference.dtype
        assert result.shape == reference.shape
        assert np.abs(result - reference).max() <= 2.0**-21 * np.abs(inputs[0]).sum()


@pytest.mark.parametrize("kind", [nd.OperandType.TENSOR_COMPLEX64, nd.OperandType.TENSOR_COMPLEX128])
def test_complex_numbers_are_moved(kind: nd.OperandType) -> None:
    builder = nd.ModelBuilder()
    source, turned, joined = (builder.add_operand(kind, shape) for shape in ((2, 3), (3, 2), (6, 2)))
    order, axis = builder.add_operand(INT, (2,)), builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(order, [1, 0])
    builder.set_operand_value(axis, 0)
    builder.add_operation(nd.OperationType.TFLITE_TRANSPOSE, [source, order], [turned])
    builder.add_operation(nd.OperationType.TFLITE_CONCATENATION, [turned, turned, axis], [joined])
    builder.identify_inputs_and_outputs([source], [joined])
    model = builder.finish()
    value = (np.arange(6) + 1j * np.arange(6, 12)).reshape(2, 3).astype(kind.dtype)
    (found,) = run(CpuDevice().prepare_model(model, OPTIONS), model, [value])
    np.testing.assert_array_equal(found, np.concatenate([value.T, value.T]))


def unary(kinds: Sequence[nd.OperationType], shape: tuple[int, ...] = (3, 5)) -> nd.Model:
    """Returns a chain of operations on a float tensor."""
    builder = nd.ModelBuilder()
    source = value = builder.add_operand(FLOAT, shape)
    for kind in kinds:
        result = builder.add_operand(FLOAT, shape)
        builder.add_operation(kind, [value], [result])
        value = result
    builder.identify_inputs_and_outputs([source], [value])
    return builder.finish()


def gathering() -> nd.Model:
    """Gathers rows of the first input at indices in the second."""
    builder = nd.ModelBuilder()
    rows, indices = builder.add_operand(FLOAT, (4, 3)), builder.add_operand(INT, (2,))
    axis = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(axis, 0)
    output = builder.add_operand(FLOAT, (2, 3))
    builder.add_operation(nd.OperationType.GATHER, [rows, axis, indices], [output])
    builder.identify_inputs_and_outputs([rows, indices], [output])
    return builder.finish()


@pytest.fixture
def without_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """TANH has no lowering, and no kernel of the first tier."""
    from neurald.drivers.compiler.lowering import LOWERINGS
    from neurald.drivers.cpu.parts import late_segment

    others = {kind: lowering for kind, lowering in LOWERINGS.items() if kind is not nd.OperationType.TANH}
    for name in ("operation_lowering", "supported_operations"):
        monkeypatch.setattr(f"neurald.drivers.compiler.frontend.{name}.LOWERINGS", others)
    definitions = {kind: each for kind, each in DEFINITIONS.items() if kind is not nd.OperationType.TANH}
    monkeypatch.setattr(late_segment, "DEFINITIONS", definitions)


def beside_reference(model: nd.Model, *inputs: Array) -> Any:
    prepared = CpuDevice().prepare_model(model, OPTIONS)
    found, expected = np.empty((3, 5), np.float32), np.empty((3, 5), np.float32)
    executed(prepared, inputs, [found])
    executed(ReferenceDevice().prepare_model(model, OPTIONS), inputs, [expected])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    return prepared


VALUES = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
RELU, TANH, FLOOR = nd.OperationType.RELU, nd.OperationType.TANH, nd.OperationType.FLOOR


def test_a_model_that_is_compiled_as_a_whole() -> None:
    prepared = beside_reference(unary([RELU, TANH]), VALUES)
    assert isinstance(prepared, CpuPreparedModel)
    (kernel,) = prepared.profile()
    assert kernel.operations == (0, 1)
    assert kernel.duration_ns > 0


@pytest.mark.usefixtures("without_tanh")
def test_a_model_that_is_compiled_in_parts() -> None:
    prepared = beside_reference(unary([RELU, FLOOR, TANH, RELU]), VALUES)
    assert isinstance(prepared, ReferenceModel)
    assert prepared.compiled_operations == {0, 1, 3}
    times = prepared.profile()
    assert [(time.operations, time.label == REFERENCE) for time in times] == [
        ((0, 1), False),
        ((2,), True),
        ((3,), False),
    ]
    assert prepared.artifact() is None


@pytest.mark.usefixtures("without_tanh")
def test_bodies_of_loops_are_compiled() -> None:
    """An operation of the body has no kernel, so the loop itself runs on its reference."""
    from support.models.control_flow import ADD, Graph, below, loop

    body = Graph()
    counter, value, result = body.value(shape=(1,)), body.value(), body.value()
    counted = body.binary(ADD, counter, body.constant([1]), body.value(shape=(1,)))
    body.builder.add_operation(TANH, [value], [result])
    model = loop(below(5, extra=1), body.finish([counter, value], [counted, result]))
    prepared = CpuDevice().prepare_model(model, OPTIONS)
    assert isinstance(prepared, ReferenceModel)
    assert all(graph.segments for graph in prepared._referenced)


def test_inputs_that_may_be_omitted_are_expected() -> None:
    """An execution that omits the bias runs on references."""
    builder = nd.ModelBuilder()
    shapes = (2, 3), (4, 3), (4, 10), (4,), (2, 40)
    operands = [builder.add_operand(FLOAT, shape) for shape in shapes]
    rank, activation = (builder.add_operand(nd.OperandType.INT32) for _ in range(2))
    for operand, number in ((rank, 1), (activation, 1)):
        builder.set_operand_value(operand, number)
    outputs = [builder.add_operand(FLOAT, shape) for shape in ((2, 40), (2, 4))]
    builder.add_operation(nd.OperationType.SVDF, [*operands, rank, activation], outputs)
    builder.identify_inputs_and_outputs(operands, outputs)
    model = builder.finish()
    compiled, references = (
        nd.CompilationBuilder(model, [device]).finish() for device in (CpuDevice(), ReferenceDevice())
    )
    generator = np.random.default_rng(1)
    arrays: list[Array | None] = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    for _ in range(2):
        expect_close(compiled.run(*arrays), references.run(*arrays), 1e-4)
        arrays[3] = None
    (step,) = compiled.profile()
    assert not any(kernel.is_reference for kernel in step.kernels)


def test_control_flow_that_a_mistake_keeps_from_being_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other operations are compiled."""
    from support.models.control_flow import ADD, MUL, arithmetic, branching

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(structuring, "structure_control_flow", fail)
    prepared = CpuDevice().prepare_model(branching(arithmetic(ADD, 1), arithmetic(MUL, 2)), OPTIONS)
    assert isinstance(prepared, ReferenceModel)
    assert all(graph.segments for graph in prepared._referenced)
    assert "control flow cannot be compiled: ZeroDivisionError: a mistake" in caplog.text


@pytest.mark.usefixtures("without_tanh")
def test_loops_beside_operations_on_references_are_compiled() -> None:
    from support.models.control_flow import Graph, below, counting

    graph = Graph()
    value, middle, result = graph.value(), graph.value(), graph.value()
    models = graph.model(below(9, extra=1)), graph.model(counting(1, 2))
    arguments = [*models, graph.constant([0]), middle]
    graph.builder.add_operation(TANH, [value], [middle])
    graph.builder.add_operation(nd.OperationType.WHILE, arguments, [graph.value(shape=(1,)), result])
    prepared = CpuDevice().prepare_model(graph.finish([value], [result]), OPTIONS)
    assert isinstance(prepared, ReferenceModel)
    assert prepared.compiled_operations == {1}
    given, found = np.array([0.5, -0.25], np.float32), np.empty(2, np.float32)
    executed(prepared, [given], [found])
    np.testing.assert_array_equal(found, np.tanh(given) * 512)


def test_kernels_without_code_run_on_references(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(kernel: Kernel, target: Target) -> Routine:
        if len(kernel.output.shape) == 2:
            raise ZeroDivisionError("a mistake in a kernel")
        return generate(kernel, target)

    monkeypatch.setattr(preparation, "generate", fail)
    prepared = beside_reference(unary([RELU, TANH]), VALUES)
    assert isinstance(prepared, ReferenceModel)
    assert not prepared.compiled_operations
    assert "operation 0 RELU, 1 TANH: ZeroDivisionError: a mistake" in caplog.text


def test_the_warning_about_many_operations_is_short(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(kernel: Kernel, target: Target) -> Routine:
        raise ZeroDivisionError("a mistake in a kernel")

    monkeypatch.setattr(preparation, "generate", fail)
    beside_reference(unary([RELU, TANH] * 30), VALUES)
    # Where there is no first tier, each operation is tried alone when it runs, and warned about.
    message = next(record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert message.startswith("operation 0 RELU, 1 TANH, 2 RELU, 3 TANH and 56 more: ZeroDivisionError")
    assert len(message) < 200


def test_other_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(kernel: Kernel, target: Target) -> Routine:
        routine = generate(kernel, target)
        is_last = kernel.operations == (1,)
        return replace(routine, text="define nonsense KERNEL_NAME") if is_last else routine

    monkeypatch.setattr(preparation, "generate", wrong)
    builder = nd.ModelBuilder()
    source, axis = builder.add_operand(FLOAT, (3, 5)), builder.add_operand(INT, (1,))
    builder.set_operand_value(axis, np.array([0], np.int32))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 1)
    total, result = builder.add_operand(FLOAT, (1, 5)), builder.add_operand(FLOAT, (3, 5))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.MEAN, [source, axis, none], [total])
    builder.add_operation(nd.OperationType.ADD, [source, total, activation], [result])
    builder.identify_inputs_and_outputs([source], [result])
    prepared = beside_reference(builder.finish(), VALUES)
    assert isinstance(prepared, ReferenceModel)
    assert prepared.compiled_operations == {0}
    assert "operation 1 ADD: CompilationFailed" in caplog.text


def test_compiler_errors_fall_back_to_references(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a mistake in a transformation")

    monkeypatch.setattr(compiler, "transform", fail)
    prepared = beside_reference(unary([RELU, TANH]), VALUES)
    assert not prepared.compiled_operations
    assert "a mistake in a transformation" in caplog.text


def test_requirements() -> None:
    prepared = CpuDevice().prepare_model(gathering(), OPTIONS)
    assert isinstance(prepared, CpuPreparedModel)
    rows, output = np.arange(12, dtype=np.float32).reshape(4, 3), np.empty((2, 3), np.float32)
    executed(prepared, [rows, np.array([3, 0], np.int32)], [output])
    np.testing.assert_array_equal(output, rows[[3, 0]])
    with pytest.raises(OpFailed, match="operation 0 GATHER"):
        executed(prepared, [rows, np.array([3, 4], np.int32)], [output])


def test_short_outputs_are_reported_and_not_written() -> None:
    prepared = CpuDevice().prepare_model(unary([RELU]), OPTIONS)
    output = np.full((2, 5), 7, np.float32)
    result = executed(prepared, [VALUES], [output])
    assert not result.is_sufficient
    assert result.output_shapes[0].dimensions == (3, 5)
    assert (output == 7).all()


def test_unspecified_dimensions() -> None:
    prepared = CpuDevice().prepare_model(unary([RELU], (0, 5)), OPTIONS)
    for rows in (1, 4, 1):
        source = np.random.default_rng(rows).normal(size=(rows, 5)).astype(np.float32)
        output = np.empty((rows, 5), np.float32)
        result = executed(prepared, [source], [output])
        assert result.output_shapes[0].dimensions == (rows, 5)
        np.testing.assert_array_equal(output, np.maximum(source, 0))
    assert prepared.artifact() is None


def test_an_execution_cancelled_before_it_starts() -> None:
    prepared = CpuDevice().prepare_model(unary([RELU]), OPTIONS)
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        executed(prepared, [VALUES], [VALUES.copy()], cancellation=cancellation)


def test_artifacts() -> None:
    device = CpuDevice()
    model = gathering()
    prepared = device.prepare_model(model, OPTIONS)
    artifact = prepared.artifact()
    assert artifact is not None
    assert (len(artifact.model), len(artifact.data)) == (1, 1)
    assert device.prepare_model(model, PrepareOptions()).artifact() is None
    again = device.prepare_model_from_cache(artifact, OPTIONS)
    rows, output = np.arange(12, dtype=np.float32).reshape(4, 3), np.empty((2, 3), np.float32)
    executed(again, [rows, np.array([1, 2], np.int32)], [output])
    np.testing.assert_array_equal(output, rows[[1, 2]])
    assert again.operand(1, is_output=False).type is INT
    assert again.tolerates_changing_inputs == prepared.tolerates_changing_inputs
    assert again.artifact() is not None
    with pytest.raises(OpFailed, match="input 1 is omitted"):
        executed(again, [rows, None], [output])


def changed(artifact: Artifact, **fields: Any) -> Artifact:
    """Returns the artifact with a changed executable."""
    stored = msgspec.msgpack.decode(bytes(artifact.model[0].view())[40:])
    names = [field.name for field in msgspec.structs.fields(read_artifact(artifact).executable)]
    for name, change in fields.items():
        place = names.index(name)
        stored[0][place] = change(stored[0][place])
    return with_content(msgspec.msgpack.encode(stored), artifact)


def with_content(content: bytes, artifact: Artifact) -> Artifact:
    """Returns the artifact with other content and a valid digest."""
    head = artifact_format._MAGIC + digest_of(content)
    return Artifact(model=(HostMemory(head + content),), data=artifact.data)


def test_damaged_artifacts() -> None:
    device = CpuDevice()
    artifact = device.prepare_model(unary([RELU]), OPTIONS).artifact()
    assert artifact is not None
    content = bytes(artifact.model[0].view())
    for place in (0, 9, 50, len(content) // 2, len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(BadData, match="damaged"):
            device.prepare_model_from_cache(
                Artifact(model=(HostMemory(damaged),), data=artifact.data), OPTIONS
            )
    for length in (0, 5, 39, 41):
        with pytest.raises(BadData, match="damaged"):
            device.prepare_model_from_cache(
                Artifact(model=(HostMemory(content[:length]),), data=artifact.data), OPTIONS
            )


def test_inconsistent_artifacts() -> None:
    device = CpuDevice()
    artifact = device.prepare_model(gathering(), OPTIONS).artifact()
    assert artifact is not None

    columns = KernelCalls.__struct_fields__

    def with_column(name: str, value: object) -> Callable[[list[Any]], list[Any]]:
        def change(calls: list[Any]) -> list[Any]:
            calls[columns.index(name)] = value
            return calls

        return change

    count = len(read_artifact(artifact).executable.calls.bases)

    wrong = [
        changed(artifact, arena_bytes=lambda _: 0),
        changed(artifact, constants_bytes=lambda size: size + 64),
        changed(artifact, scratch_bytes=lambda _: -1),
        changed(artifact, input_arguments=lambda _: [[10**6], []]),
        changed(artifact, output_arguments=lambda _: []),
        changed(artifact, target=lambda _: "another"),
        changed(artifact, calls=with_column("offsets", (10**9).to_bytes(8, "little") * count)),
        changed(artifact, calls=with_column("offsets", b"\xff" * 8 * count)),
        changed(artifact, calls=with_column("offsets", bytes(8 * count - 1))),
        changed(artifact, calls=with_column("bases", b"\x05" * count)),
        changed(artifact, calls=with_column("bases", b"")),
        changed(artifact, calls=with_column("counts", [])),
        changed(artifact, calls=with_column("counts", [0])),
        changed(artifact, calls=with_column("counts", [count + 1])),
        changed(artifact, calls=with_column("work_items", [-1])),
        changed(artifact, calls=with_column("work_items", [1 << 63])),
        changed(artifact, calls=with_column("costs_ns", [math.inf])),
        changed(artifact, calls=with_column("costs_ns", [])),
        changed(artifact, calls=with_column("functions", [])),
        with_content(b"\x93", artifact),
        # Its target is not valid UTF-8.
        with_content(b"\x93\xdc\x00\x10\xa1\xff", artifact),
        Artifact(model=artifact.model, data=()),
    ]
    for each in wrong:
        with pytest.raises(BadData):
            device.prepare_model_from_cache(each, OPTIONS)


def test_code_that_cannot_be_linked_is_refused() -> None:
    device = CpuDevice()
    artifact = device.prepare_model(unary([RELU]), OPTIONS).artifact()
    assert artifact is not None

    def with_function(calls: list[Any]) -> list[Any]:
        calls[0] = ["nothing"]
        return calls

    with pytest.raises(BadData, match="cannot be loaded"):
        device.prepare_model_from_cache(changed(artifact, calls=with_function), OPTIONS)
