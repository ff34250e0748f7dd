"""Models compiled for any lengths of their open dimensions compute what references do."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.opencl.models import expect_close, request_of, run

import neurald as nd
from neurald.drivers.compiler.frontend.variants.open_dimensions import with_shapes
from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.opencl import open_compiler
from neurald.drivers.opencl.artifact import read_artifact
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.open_artifact import read_open_artifact, write_open_artifact
from neurald.drivers.opencl.open_compiler import CompiledOpen, compile_open
from neurald.drivers.opencl.open_model import OpenClOpenModel
from neurald.drivers.opencl.platform.device_facts import DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import Precision
from neurald.drivers.opencl.runtime.constants import DeviceConstants
from neurald.drivers.opencl.runtime.open_executable import SizedLaunches
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.runtime.staging import Staging
from neurald.drivers.opencl.tuning.build_helper import build_kernels
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, MissedDeadlinePersistent, OpFailed
from neurald.hal.model.model import Model
from neurald.hal.records import replace

_Op, _FLOAT, _INT32 = nd.OperationType, nd.OperandType.TENSOR_FLOAT32, nd.OperandType.INT32
OPTIONS = PrepareOptions()
Shape = tuple[int, ...]


class Net:
    """Builds a model with one input and one result."""

    def __init__(self, shape: Shape) -> None:
        self.builder = nd.ModelBuilder()
        self.input = self.builder.add_operand(_FLOAT, shape)
        self._random = np.random.default_rng(1)

    def floats(self, *shape: int) -> int:
        index = self.builder.add_operand(_FLOAT, shape)
        values = self._random.standard_normal(shape) / 4
        self.builder.set_operand_value(index, values.astype(np.float32))
        return index

    def number(self, value: float, kind: nd.OperandType = _INT32) -> int:
        index = self.builder.add_operand(kind)
        self.builder.set_operand_value(index, np.asarray(value, kind.dtype))
        return index

    def add(self, kind: nd.OperationType, inputs: list[int], rank: int) -> int:
        result = self.builder.add_operand(_FLOAT, (0,) * rank)
        self.builder.add_operation(kind, inputs, [result])
        return result

    def finish(self, result: int) -> Model:
        self.builder.identify_inputs_and_outputs([self.input], [result])
        return self.builder.finish()


def attention() -> Model:
    """Returns the weights of attention over a sequence of open length."""
    net = Net((0, 0, 16))
    no, yes = (net.number(each, nd.OperandType.BOOL) for each in (False, True))
    scores = net.add(_Op.BATCH_MATMUL, [net.input, net.input, no, yes], 3)
    return net.finish(net.add(_Op.SOFTMAX, [scores, net.number(0.25, nd.OperandType.FLOAT32)], 3))


def images() -> Model:
    """Returns convolutions and pools of images of open number and size."""
    net = Net((0, 0, 0, 4))
    none, one, two, three, same = (net.number(each) for each in (0, 1, 2, 3, 1))
    wide = net.add(_Op.CONV_2D, [net.input, net.floats(8, 3, 3, 4), net.floats(8), same, two, two, one], 4)
    deep = net.add(
        _Op.DEPTHWISE_CONV_2D,
        [wide, net.floats(1, 3, 3, 8), net.floats(8), same, one, one, one, none],
        4,
    )
    pooled = net.add(_Op.MAX_POOL_2D, [wide, same, one, one, three, three, none], 4)
    joined = net.add(_Op.CONCATENATION, [deep, pooled, three], 4)
    return net.finish(net.add(_Op.LOGISTIC, [joined], 4))


MODELS = {"attention": attention, "images": images}
#: Lengths that are multiples of four, too, must not affect for which others the code is valid.
EXAMPLES: dict[str, Shape] = {"attention": (8, 16, 16), "images": (67, 71, 73, 4)}
SHAPES: dict[str, list[Shape]] = {
    "attention": [(2, 5, 16), (3, 130, 16), (9, 2, 16)],
    "images": [(2, 5, 6, 4), (3, 3, 40, 4), (5, 33, 4, 4)],
}


def opened(opencl: DeviceContext, model: Model, example: Shape) -> OpenClOpenModel:
    compiled = compile_open(model, {model.main.inputs[0]: example}, opencl.facts, precision=Precision.F32)
    assert compiled is not None
    assert compiled.opened.program.bounds[0][0] == 2
    return OpenClOpenModel(
        opencl,
        compiled.opened,
        build_kernels(opencl, compiled.kernels),
        DeviceConstants(opencl, compiled.constants, keeps_contents=True),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("attention", marks=pytest.mark.full), "images"])
def test_one_program_computes_all_sizes(name: str, opencl: DeviceContext) -> None:
    if opencl.facts.images is not None:
        pytest.skip("models that read images are compiled for each size")
    model = MODELS[name]()
    artifact = opened(opencl, model, EXAMPLES[name]).artifact()
    with pytest.raises(BadData, match="not from the OpenCL driver"):
        read_artifact(artifact)
    executable, binary, contents = read_open_artifact(artifact)
    restored = OpenClOpenModel(
        opencl,
        executable,
        BuiltProgram.from_binary(opencl, binary),
        DeviceConstants(opencl, contents, keeps_contents=False),
    )
    assert restored.for_shapes([(0,) * len(EXAMPLES[name])]) is None
    for shape in SHAPES[name]:
        known = with_shapes(model, {model.main.inputs[0]: shape})
        values: Any = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        variant = restored.for_shapes([shape])
        assert variant is not None
        found = run(variant.prepared, known, [values])
        assert restored.output_shapes([shape]) == tuple(each.shape for each in found)
        expect_close(found, run(ReferenceDevice().prepare_model(known, OPTIONS), known, [values]), 1e-4)


def test_new_sizes_need_no_compilation(opencl: DeviceContext) -> None:
    if opencl.facts.images is not None:
        pytest.skip("models that read images are compiled for each size")
    net = Net((0, 0))
    model = net.finish(net.add(_Op.SOFTMAX, [net.input, net.number(1, nd.OperandType.FLOAT32)], 2))
    prepared = OpenClDevice(opencl.facts).prepare_model(model, OPTIONS)
    assert isinstance(prepared, SpecializingModel)
    assert prepared.output_shapes([(5, 4)]) is None
    generator = np.random.default_rng(0)
    for rows, length in ((5, 4), (5, 300), (3000, 7), (2047, 5), (2048, 128), (2049, 129)):
        array = generator.standard_normal((rows, length)).astype(np.float32)
        request, (found,) = request_of(model, [array], [(rows, length)])
        assert prepared.execute(request, ExecuteOptions()).is_sufficient
        raised = np.exp(array)
        np.testing.assert_allclose(found, raised / raised.sum(axis=1, keepdims=True), rtol=1e-5)
    assert prepared.output_shapes([(1000, 4)]) == ((1000, 4),)


def test_executions_of_all_sizes_share_memory(opencl: DeviceContext) -> None:
    """Whatever order the sizes have, by requests and on arrays."""
    facts = replace(opencl.facts, images=None)
    model = requirement()
    compiled = compile_open(model, {model.main.inputs[0]: (67,)}, facts, precision=Precision.F32)
    assert compiled is not None
    constants = DeviceConstants(opencl, compiled.constants, keeps_contents=False)
    this = OpenClOpenModel(opencl, compiled.opened, build_kernels(opencl, compiled.kernels), constants)
    for count in (5, 9, 5, 70_000, 9, 70_001, 5):
        places = np.arange(count, dtype=np.int32) % 3
        found = this.run_arrays(((count,),), [places])
        assert found is not None
        np.testing.assert_array_equal(found[0], TABLE[places])
        request, (output,) = request_of(model, [places], [(count, 2)])
        result = this.execute([(count,)], request, ExecuteOptions(measure=True))
        assert result is not None
        assert result.timing.on_device_ns
        np.testing.assert_array_equal(output, TABLE[places])
    # A failed requirement is reported once, and a wrong type not executed at all.
    places[3] = 3
    assert this.run_arrays(((5,),), [places]) is None
    assert this.run_arrays(((5,),), [places.astype(np.int64)]) is None
    assert this.run_arrays(((2,),), [places[::3]]) is None
    with pytest.raises(OpFailed, match="operation 0"):
        this.execute([(5,)], request, ExecuteOptions())
    places[3] = 0
    assert this.execute([(5,)], request, ExecuteOptions()) is not None
    with pytest.raises(MissedDeadlinePersistent):
        this.execute([(5,)], request, ExecuteOptions(deadline_s=time.monotonic() - 1))
    # Outputs that are too small are not written.
    small, _ = request_of(model, [places], [(4, 2)])
    result = this.execute([(5,)], small, ExecuteOptions())
    assert result is not None
    assert not result.is_sufficient
    assert result.output_shapes[0].dimensions == (5, 2)


def test_an_interrupted_execution_leaves_no_address(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one, of the same instance, writes its own outputs only."""
    gpu = DeviceContext(replace(opencl.facts, kind=DeviceKind.GPU, images=None))
    shape, model = (2, 5, 16), attention()
    this = opened(gpu, model, EXAMPLES["attention"])
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = this.run_arrays((shape,), [array])
    assert expected is not None
    lost_request, (lost,) = request_of(model, [array], [(2, 5, 5)])
    set_output = Staging.set_output

    def interrupted(staging: Staging, index: int, address: int) -> None:
        set_output(staging, index, address)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Staging, "set_output", interrupted)
        with pytest.raises(KeyboardInterrupt):
            this.execute([shape], lost_request, ExecuteOptions())
    with monkeypatch.context() as patched:
        # Nor does the next one read it.
        patched.setattr(Staging, "set_output", lambda *_: None)
        with contextlib.suppress(OpFailed):
            this.execute([shape], request_of(model, [array], [(2, 5, 5)])[0], ExecuteOptions())
    assert (lost == 77).all()
    found = this.run_arrays((shape,), [array])
    assert found is not None
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize(
    ("rows", "length", "groups"),
    [(5, 4, 5), (2047, 4, 2047), (2048, 128, 32), (2049, 2, 33), (2048, 129, 2048)],
)
def test_a_work_item_computes_a_row_if_rows_are_many_and_short(
    rows: int, length: int, groups: int, opencl: DeviceContext
) -> None:
    """That is decided for each size, as if the kernel had been compiled for it."""
    net = Net((0, 0))
    model = net.finish(net.add(_Op.SOFTMAX, [net.input, net.number(1, nd.OperandType.FLOAT32)], 2))
    facts = replace(opencl.facts, images=None)
    compiled = compile_open(model, {model.main.inputs[0]: (67, 71)}, facts, precision=Precision.F32)
    assert compiled is not None
    sized = SizedLaunches(compiled.opened, 1 << 40).executable([(rows, length)])
    assert sized is not None
    assert [call.groups for call in sized.calls] == [groups]


TABLE = np.arange(6, dtype=np.float32).reshape(3, 2)


def requirement() -> Model:
    """Returns a model with rows of a table, whose places must be valid."""
    builder = nd.ModelBuilder()
    table, axis = builder.add_operand(_FLOAT, (3, 2)), builder.add_operand(_INT32)
    places, rows = builder.add_operand(nd.OperandType.TENSOR_INT32, (0,)), builder.add_operand(_FLOAT, (0, 2))
    builder.set_operand_value(table, TABLE)
    builder.set_operand_value(axis, np.int32(0))
    builder.add_operation(_Op.GATHER, [table, axis, places], [rows])
    builder.identify_inputs_and_outputs([places], [rows])
    return builder.finish()


def outer_sum() -> Model:
    """Returns the sums of the rows of an outer product, which is not stored."""
    builder = nd.ModelBuilder()
    column, row = builder.add_operand(_FLOAT, (0, 1)), builder.add_operand(_FLOAT, (1, 0))
    none, axes = builder.add_operand(_INT32), builder.add_operand(nd.OperandType.TENSOR_INT32, (1,))
    keeps = builder.add_operand(nd.OperandType.BOOL)
    builder.set_operand_value(none, np.int32(0))
    builder.set_operand_value(axes, np.array([1], np.int32))
    builder.set_operand_value(keeps, np.bool_(False))
    product, result = builder.add_operand(_FLOAT, (0, 0)), builder.add_operand(_FLOAT, (0,))
    builder.add_operation(_Op.MUL, [column, row, none], [product])
    builder.add_operation(_Op.REDUCE_SUM, [product, axes, keeps], [result])
    builder.identify_inputs_and_outputs([column, row], [result])
    return builder.finish()


def compiled_outer_sum(opencl: DeviceContext) -> CompiledOpen:
    model = outer_sum()
    shapes = dict(zip(model.main.inputs, [(67, 1), (1, 71)], strict=True))
    facts = replace(opencl.facts, images=None)
    compiled = compile_open(model, shapes, facts, precision=Precision.F32)
    assert compiled is not None
    return compiled


def test_values_that_are_not_stored_are_limited(opencl: DeviceContext) -> None:
    sized = SizedLaunches(compiled_outer_sum(opencl).opened, 1 << 40)
    assert sized.executable([(1 << 13, 1), (1, 1 << 14)]) is not None
    assert sized.executable([(1 << 14, 1), (1, 1 << 15)]) is None
    assert sized.executable([(1 << 30, 1), (1, 1 << 30)]) is None


def test_an_example_has_short_lengths(opencl: DeviceContext) -> None:
    found = SizedLaunches(compiled_outer_sum(opencl).opened, 1 << 40).example()
    assert [port.dimensions for port in found.inputs] == [(2, 1), (1, 2)]


def test_lengths_without_elements_are_not_supported(opencl: DeviceContext) -> None:
    net = Net((2, 0, 0, 4))
    one, three, none, valid = net.number(1), net.number(3), net.number(0), net.number(2)
    model = net.finish(net.add(_Op.MAX_POOL_2D, [net.input, valid, one, one, three, three, none], 4))
    facts = replace(opencl.facts, images=None)
    compiled = compile_open(model, {model.main.inputs[0]: (2, 67, 71, 4)}, facts, precision=Precision.F32)
    assert compiled is not None
    sized = SizedLaunches(compiled.opened, 1 << 40)
    assert sized.executable([(2, 5, 3, 4)]) is not None
    assert [sized.executable([(2, 5, length, 4)]) for length in (0, 1, 2)] == [None] * 3


def test_no_source_is_used_after_one_that_needs_certain_lengths(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sources(kernel: Kernel, *_: object, **__: object) -> Iterator[Source]:
        # What this decides holds for all sources that follow.
        assert kernel.output.count % 2 == 1
        for workspace in (1, 0):
            yield replace(render(kernel), workspace_bytes=workspace, label="of odd lengths")

    monkeypatch.setattr(open_compiler, "candidates", sources)
    (call,) = compiled_outer_sum(opencl).opened.template.calls
    assert "of odd lengths" not in call.label


@pytest.mark.parametrize("damage", ["a buffer", "a lifespan", "an alignment", "a count", "a symbol"])
def test_damaged_artifacts_are_refused(damage: str, opencl: DeviceContext) -> None:
    compiled = compiled_outer_sum(opencl)
    opened, (value, *values) = compiled.opened, compiled.opened.values
    call, *calls = opened.template.calls
    place = BufferLocation(Base.EXTENTS, 0)
    damaged = {
        "a buffer": replace(
            opened,
            template=replace(
                opened.template, calls=(replace(call, locations=(place, *call.locations[1:])), *calls)
            ),
        ),
        "a lifespan": replace(opened, values=(replace(value, last=value.first - 1), *values)),
        "an alignment": replace(opened, alignment=1 << 40),
        "a count": replace(opened, counts=(1 << 20,)),
        "a symbol": replace(opened, symbols=(*opened.symbols, ())),
    }
    read_open_artifact(write_open_artifact(opened, b"", compiled.constants))
    with pytest.raises(BadData):
        read_open_artifact(write_open_artifact(damaged[damage], b"", compiled.constants))
