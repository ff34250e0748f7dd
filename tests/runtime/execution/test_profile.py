"""Kernel times of steps, mapped to the operations of the whole model."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.devices.misbehaving import FailingDevice, SampleDevice
from support.models.control_flow import ADD, MUL, arithmetic, branching
from support.models.graphs import chain
from support.models.plans import CONTROL_FLOW, all_but, compiled, cpu, only
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, KernelTime, PreparedModel
from neurald.hal.errors import OpFailed
from neurald.hal.model.request import Request
from neurald.hal.records import replace
from neurald.runtime.execution.recovery import retry
from neurald.runtime.execution.recovery.retry import RetryPolicy

T = nd.OperationType


class _Told:
    """A prepared model whose profile the test provides."""

    def __init__(self, inner: PreparedModel, tell: Callable[[], Sequence[KernelTime]]) -> None:
        self._inner = inner
        self._tell = tell

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        return self._inner.execute(request, options)

    def profile(self) -> Sequence[KernelTime]:
        return self._tell()


class TellingDevice(SampleDevice):
    """A device whose prepared models have the profile that `tell` returns."""

    def __init__(self, tell: Callable[[], Sequence[KernelTime]]) -> None:
        super().__init__("telling", performance=0.5)
        self._tell = tell

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        return _Told(prepared, self._tell)  # type: ignore[return-value]


def kernel(*operations: int, duration_ns: int = 1, label: str = "") -> KernelTime:
    return KernelTime(name="kernel", duration_ns=duration_ns, operations=operations, label=label)


def run(compilation: nd.Compilation) -> None:
    main = compilation.model.main
    operands = [main.operands[index] for index in main.inputs]
    compilation.run(*(np.ones(operand.dimensions or (), operand.type.dtype) for operand in operands))


def test_one_step() -> None:
    compilation = compiled(add_model(operations=3), SampleDevice())
    run(compilation)
    (step,) = compilation.profile()
    assert (step.step, step.device, step.graph, step.reason) == (0, "sample", 0, "")
    assert step.operations == (0, 1, 2)
    assert [each.operations for each in step.kernels] == [(0,), (1,), (2,)]
    assert [each.name for each in step.kernels] == ["ADD"] * 3
    assert all(each.is_reference and each.duration_ns > 0 for each in step.kernels)
    assert step.on_references == (0, 1, 2)
    assert step.duration_ns == sum(each.duration_ns for each in step.kernels)


def test_positions_are_those_of_the_whole_model() -> None:
    model = chain(T.TANH, T.RELU, T.RELU, T.TANH)
    compilation = compiled(model, cpu(), only("relus", T.RELU), only("tanhs", T.TANH))
    run(compilation)
    profiles = compilation.profile()
    assert [(step.device, step.operations) for step in profiles] == [
        ("tanhs", (0,)),
        ("relus", (1, 2)),
        ("tanhs", (3,)),
    ]
    assert [[each.operations for each in step.kernels] for step in profiles] == [
        [(0,)],
        [(1,), (2,)],
        [(3,)],
    ]


def test_steps_of_branches_name_their_graph() -> None:
    model = branching(arithmetic(ADD, 10), arithmetic(MUL, 10))
    compilation = compiled(model, cpu(), all_but("device", *CONTROL_FLOW))
    compilation.run(np.array([True]), np.ones(2, np.float32))
    profiles = compilation.profile()
    assert [step.graph for step in profiles] == [1, 2]
    assert [step.operations for step in profiles] == [(0,), (0,)]


def test_kernels_of_several_operations_and_of_none() -> None:
    told = (kernel(1, 0, duration_ns=5, label="tile"), kernel(duration_ns=7), kernel(2, label="reference"))
    compilation = compiled(add_model(operations=3), TellingDevice(lambda: told))
    (step,) = compilation.profile()
    assert step.kernels == told
    assert step.duration_ns == 13
    assert step.on_references == (2,)


def test_a_device_that_cannot_tell() -> None:
    (step,) = compiled(add_model(), TellingDevice(lambda: ())).profile()
    assert step.kernels == ()
    assert step.reason == "telling does not report kernel times"


@sweep("position", [-1, 2])
def test_operations_that_are_not_there(position: int) -> None:
    (step,) = compiled(add_model(operations=2), TellingDevice(lambda: (kernel(position),))).profile()
    assert step.kernels == ()
    assert (
        step.reason
        == f"telling: kernel 'kernel' reports operation {position}; the step has only 2 operations"
    )


def failing(error: Exception) -> Callable[[], Sequence[KernelTime]]:
    def tell() -> Sequence[KernelTime]:
        raise error

    return tell


@sweep(
    ("error", "reason"),
    [(OpFailed("no events"), "no events"), (ZeroDivisionError("oh"), "telling: ZeroDivisionError: oh")],
    ids=["failure", "fault"],
)
def test_a_device_that_fails(error: Exception, reason: str) -> None:
    (step,) = compiled(add_model(), TellingDevice(failing(error))).profile()
    assert (step.kernels, step.reason) == ((), reason)


def test_what_stands_in_is_profiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FAILING_RETRY", RetryPolicy(first_pause_s=60.0, max_pause_s=60.0))
    device = FailingDevice()
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), device))
    compilation = nd.CompilationBuilder(add_model()).finish()
    assert compilation.profile()[0].device == "failing"
    device.error = OpFailed("no")
    run(compilation)
    (step,) = compilation.profile()
    assert step.device == "cpu"
    assert [each.operations for each in step.kernels] == [(0,)]


def test_a_profile_is_a_value() -> None:
    (step,) = compiled(add_model(), TellingDevice(lambda: (kernel(0),))).profile()
    assert step == replace(step)
    assert hash(step) == hash(replace(step))
