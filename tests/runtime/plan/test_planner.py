"""Building plans from groups: modes, failing devices, dead operations, and the report."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.devices.misbehaving import FailingDevice, SampleDevice
from support.errors import error_code
from support.models.control_flow import ADD, MUL, Graph, arithmetic, branching
from support.models.plans import CONTROL_FLOW, all_but, assert_same_as_on_cpu, compiled, cpu, only, program
from support.models.small import FLOAT, add_model

import neurald as nd
from neurald.hal.accounting.events import CountedEvent, event_counts
from neurald.hal.device import PreparedModel, PrepareOptions, Verdict
from neurald.hal.errors import BadData, Error, OpFailed
from neurald.hal.model.model import Model
from neurald.runtime.partitioning.options import POLICY_NAMES, Partitioning, PartitioningMode
from neurald.runtime.plan.prepared_step import CacheOutcome

pytestmark = pytest.mark.quick

Op = nd.OperationType
Code = nd.ResultCode
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def unary_chain(*types: nd.OperationType) -> nd.Model:
    builder = nd.ModelBuilder()
    values = [builder.add_operand(FLOAT, (2, 3)) for _ in range(len(types) + 1)]
    for position, kind in enumerate(types):
        builder.add_operation(kind, [values[position]], [values[position + 1]])
    builder.identify_inputs_and_outputs(values[:1], values[-1:])
    return builder.finish()


class Refusing(SampleDevice):
    """Reports that it supports everything, but fails to prepare."""

    def __init__(self, error: Error, *types: nd.OperationType) -> None:
        super().__init__("broken", performance=0.1, supports=lambda kind: kind in types)
        self._error = error

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        raise self._error


@pytest.fixture
def available(monkeypatch: pytest.MonkeyPatch) -> list[nd.Device]:
    """Returns the list of available devices, to which a test adds its own."""
    found = [cpu()]
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: tuple(found))
    return found


def uncached(
    model: nd.Model, devices: Sequence[nd.Device] | None = None, mode: int | str | Partitioning = 1
) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, devices)
    builder.set_caching(None)
    builder.set_partitioning(mode)
    return builder.finish()


def test_several_devices_share_a_model() -> None:
    model = unary_chain(Op.TANH, Op.RELU, Op.ABS)
    compilation = compiled(model, only("a", Op.TANH, Op.ABS), only("b", Op.RELU))
    steps = compilation.plan.steps
    assert [(s.device.name, s.operations) for s in steps] == [("a", (0,)), ("b", (1,)), ("a", (2,))]
    assert [(s.inputs, s.outputs) for s in steps] == [((0,), (1,)), ((1,), (2,)), ((2,), (3,))]
    assert_same_as_on_cpu(model, compilation, VALUE)


def test_the_report_has_every_step() -> None:
    compilation = compiled(unary_chain(Op.TANH, Op.RELU), only("a", Op.TANH), only("b", Op.RELU))
    assert [report.device for report in compilation.report.steps] == ["a", "b"]
    assert all(report.cache is CacheOutcome.OFF for report in compilation.report.steps)
    assert compilation.report.fallback == ""


def test_a_step_that_cannot_be_prepared(available: list[nd.Device]) -> None:
    model = unary_chain(Op.TANH, Op.RELU, Op.ABS)
    broken = Refusing(OpFailed("out of order"), Op.RELU)
    available += [only("a", Op.TANH, Op.ABS), broken]
    before = event_counts().get((CountedEvent.FALLBACK, "broken"), 0)
    compilation = uncached(model)
    assert event_counts()[CountedEvent.FALLBACK, "broken"] == before + 1
    assert [step.device for step in compilation.plan.steps] == [cpu()]
    assert compilation.plan.steps[0].model is model
    assert compilation.report.fallback == "broken could not prepare the model: out of order"
    assert [report.device for report in compilation.report.steps] == ["cpu"]
    explanation = compilation.explain()
    assert {operation.device for operation in explanation.operations} == {"cpu"}
    assert "out of order" in str(explanation)
    assert_same_as_on_cpu(model, compilation, VALUE)
    assert error_code(uncached, model, available) is Code.OP_FAILED
    assert error_code(uncached, model, None, PartitioningMode.WITHOUT_FALLBACK) is Code.OP_FAILED


def test_what_says_that_the_model_is_wrong_is_returned(available: list[nd.Device]) -> None:
    available.append(Refusing(BadData("no such thing"), Op.RELU))
    builder = nd.CompilationBuilder(unary_chain(Op.TANH, Op.RELU))
    for _ in range(2):
        assert error_code(builder.finish) is Code.BAD_DATA


def test_modes(available: list[nd.Device]) -> None:
    model = unary_chain(Op.TANH, Op.RELU)

    class Asked(SampleDevice):
        questions = 0

        def supported_operations(self, model: Model) -> Sequence[Verdict]:
            self.questions += 1
            return super().supported_operations(model)

    device = Asked("asked", performance=0.5)
    available.append(device)
    compilation = uncached(model, mode=0)
    assert [step.device for step in compilation.plan.steps] == [cpu()]
    assert device.questions == 0
    for mode in (1, 2):
        assert [step.device for step in uncached(model, mode=mode).plan.steps] == [device]


def test_partitioning_settings() -> None:
    builder = nd.CompilationBuilder(add_model(), [cpu()])
    for wrong in (3, -1, "fastest", None):
        assert error_code(builder.set_partitioning, wrong) is Code.BAD_DATA
    for right in (0, PartitioningMode.WITHOUT_FALLBACK, "tengine", "android", Partitioning(min_operations=2)):
        builder.set_partitioning(right)
    builder.finish()
    assert error_code(builder.set_partitioning, 1) is Code.BAD_STATE


def test_a_time_limit_for_any_plan_unless_strict() -> None:
    model = unary_chain(Op.TANH, Op.RELU)
    pair = [only("a", Op.TANH), only("b", Op.RELU)]
    for devices in (None, pair, [cpu()]):
        builder = nd.CompilationBuilder(model, devices)
        builder.set_timeout(60)
        builder.finish()
        strict = nd.CompilationBuilder(model, devices, strict=True)
        if devices is not None and len(devices) == 1:
            strict.set_timeout(60)
        else:
            assert error_code(strict.set_timeout, 60) is Code.BAD_DATA
        compilation = strict.finish()
        if devices is not None and len(devices) == 1:
            compilation.require_one_device("this")
        else:
            assert error_code(compilation.require_one_device, "this") is Code.BAD_DATA


def test_a_compile_that_takes_too_long() -> None:
    builder = nd.CompilationBuilder(unary_chain(Op.TANH, Op.RELU), [only("a", Op.TANH), only("b", Op.RELU)])
    builder.set_caching(None)
    builder.set_timeout(1e-9)
    assert error_code(builder.finish) in (Code.MISSED_DEADLINE_TRANSIENT, Code.MISSED_DEADLINE_PERSISTENT)


def with_dead_operation() -> nd.Model:
    """Builds x -> TANH(x), and an ABS whose result is not read."""
    builder = nd.ModelBuilder()
    source, dead, result = (builder.add_operand(FLOAT, (2, 3)) for _ in range(3))
    builder.add_operation(Op.ABS, [source], [dead])
    builder.add_operation(Op.TANH, [source], [result])
    builder.identify_inputs_and_outputs([source], [result])
    return builder.finish()


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_dead_operation_changes_no_placement(policy: str, available: list[nd.Device]) -> None:
    """On Android the step of ABS has no outputs, so that the CPU runs the whole model."""
    model = with_dead_operation()
    available += [only("a", Op.TANH, performance=1e-9), only("b", Op.ABS, performance=1e-9)]
    for others in (available[1:], available[1:2]):
        chosen = compiled(model, *others)
        assert [step.device.name for step in chosen.plan.steps] == ["a"]
        assert_same_as_on_cpu(model, chosen, VALUE)
    compilation = uncached(model, mode=Partitioning(policy=policy, overrides=(nd.pin("a", 1),)))
    assert [step.device.name for step in compilation.plan.steps] == ["a"]
    assert not compilation.report.fallback
    assert "operation 0 ABS -> not run: nobody needs its results" in str(compilation.explain())
    assert_same_as_on_cpu(model, compilation, VALUE)


def test_dead_operations_around_interpreted_control_flow(available: list[nd.Device]) -> None:
    graph = Graph()
    condition, source = graph.value(nd.OperandType.TENSOR_BOOL8, (1,)), graph.value()
    output = graph.value()
    branches = [graph.model(arithmetic(ADD, 1)), graph.model(arithmetic(MUL, 2))]
    graph.builder.add_operation(Op.IF, [condition, *branches, source], [output])
    graph.builder.add_operation(Op.ABS, [source], [graph.value()])
    model = graph.finish([condition, source], [output])
    arrays = [np.array([True]), np.array([1, 2], np.float32)]
    assert uncached(model).run(*arrays)[0].tolist() == [2, 3]
    assert uncached(model, available).run(*arrays)[0].tolist() == [2, 3]
    available.append(only("device", ADD, MUL))
    assert uncached(model).run(*arrays)[0].tolist() == [2, 3]
    assert uncached(model, available).run(*arrays)[0].tolist() == [2, 3]


@pytest.mark.parametrize("is_step", [False, True])
def test_a_device_gets_branches_without_what_nobody_needs(*, is_step: bool) -> None:
    """Otherwise it would refuse the IF, of the whole model or of a step."""
    graph = Graph()
    condition, source = graph.value(nd.OperandType.TENSOR_BOOL8, (1,)), graph.value()
    chosen, output = graph.value(), graph.value()
    branch = Graph()
    start, end = branch.value(), branch.value()
    branch.builder.add_operation(Op.ABS, [start], [branch.value()])
    branch.binary(ADD, start, start, end)
    branches = [graph.model(branch.finish([start], [end])), graph.model(arithmetic(MUL, 3))]
    graph.builder.add_operation(Op.IF, [condition, *branches, source], [chosen])
    graph.binary(Op.SUB if is_step else ADD, chosen, source, output)
    model = graph.finish([condition, source], [output])
    devices = [only("device", *CONTROL_FLOW, ADD, MUL), *([only("other", Op.SUB)] if is_step else [])]
    compilation = uncached(model, devices)
    assert [step.device.name for step in compilation.plan.steps] == [each.name for each in devices]
    assert_same_as_on_cpu(model, compilation, np.array([True]), np.array([1, -2], np.float32))
    assert_same_as_on_cpu(model, compilation, np.array([False]), np.array([1, -2], np.float32))


def test_a_step_without_inputs_runs() -> None:
    graph = Graph()
    total = graph.binary(ADD, graph.constant([1, 2]), graph.constant([3, 4]), graph.value())
    source = graph.value()
    model = graph.finish([source], [graph.binary(MUL, source, total, graph.value())])
    compilation = compiled(model, only("a", ADD), only("b", MUL))
    assert len(compilation.plan.steps) == 2
    (result,) = assert_same_as_on_cpu(model, compilation, np.array([10, 20], np.float32))
    np.testing.assert_array_equal(result, [40, 120])


def test_a_graph_that_is_used_twice_is_prepared_once() -> None:
    branch = arithmetic(ADD, 1)
    device = all_but("device", *CONTROL_FLOW)
    model = branching(branch, branch)
    compilation = compiled(model, cpu(), device)
    assert program(compilation) == ["If", "device", "Goto", "device"]
    first, second = compilation.plan.steps
    assert first.prepared_model is second.prepared_model
    assert len(device.prepared) == 1
    assert len(compilation.report.steps) == 2


def test_a_step_that_fell_back_is_explained(available: list[nd.Device]) -> None:
    failing = FailingDevice("failing", OpFailed("hot"))
    available.append(failing)
    model = unary_chain(Op.TANH)
    compilation = uncached(model)
    assert compilation.plan.steps[0].device is failing
    assert compilation.explain().moves == ()
    assert_same_as_on_cpu(model, compilation, VALUE)
    (move,) = map(str, compilation.explain().moves)
    assert "failing" in move
    assert "hot" in move
