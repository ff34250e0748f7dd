"""Receipts of executions: what ran where, and as often as the devices say."""

import threading

import numpy as np
import pytest
from support.devices.misbehaving import FailingDevice
from support.devices.simulated import SimulatedDevice
from support.models.small import add_model, branching_model
from support.traces.receipt_counts import counted

import neurald as nd
from neurald.hal.errors import BadState, OpFailed
from neurald.runtime.execution.measurement.receipt import ExecutionReceipt

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def devices() -> list[SimulatedDevice]:
    return [
        SimulatedDevice(kind.name.lower(), supports=(kind,).__contains__)
        for kind in (nd.OperationType.TANH, nd.OperationType.LOGISTIC)
    ]


def execution(compilation: nd.Compilation, *inputs: "np.ndarray", reusable: bool = False) -> nd.Execution:
    found = nd.Execution(compilation, reusable=reusable)
    for position, array in enumerate(inputs):
        found.set_input(position, array)
    found.set_output(0, np.zeros_like(X))
    found.enable_receipt()
    return found


def test_a_receipt_lists_steps_devices_and_versions() -> None:
    both = devices()
    compilation = nd.CompilationBuilder(branching_model(), [nd.devices()[0], *both]).finish()
    found = execution(compilation, X)
    with pytest.raises(BadState, match="enable_receipt"):
        _ = found.receipt
    found.compute()
    receipt = found.receipt
    assert [step.step for step in receipt.steps] == [0, 1, 2]
    assert {step.device for step in receipt.steps} == {"tanh", "logistic", "cpu"}
    assert all(step.ran_on == step.device and not step.fallback for step in receipt.steps)
    assert all(step.tier == "optimized" and step.cache for step in receipt.steps)
    versions = {step.device: step.driver_version for step in receipt.steps}
    assert versions["tanh"] == both[0].version
    assert all(step.durations is not None and step.durations.runs == 1 for step in receipt.steps)
    assert receipt.calls_of_devices == {"tanh": 1, "logistic": 1, "cpu": 1}
    assert receipt.duration_ns >= max(call.duration_ns for step in receipt.steps for call in step.calls)
    assert receipt.to_json()["steps"][0]["calls"][0]["error"] == ""


def test_receipts_count_what_devices_count() -> None:
    both = devices()
    compilation = nd.CompilationBuilder(branching_model(), [nd.devices()[0], *both]).finish()
    counts: dict[str, int] = {}
    lock = threading.Lock()

    def run() -> None:
        found = execution(compilation, X, reusable=True)
        for _ in range(50):
            found.compute()
            for name, count in found.receipt.calls_of_devices.items():
                with lock:
                    counts[name] = counts.get(name, 0) + count

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {"tanh": 200, "logistic": 200, "cpu": 200}
    assert [device.executions for device in both] == [200, 200]


def automatic(monkeypatch: pytest.MonkeyPatch, *others: nd.Device) -> nd.Compilation:
    """Compiles for devices that the runtime finds, so that the CPU device may take over."""
    from neurald.runtime import compilation_builder

    monkeypatch.setattr(compilation_builder, "devices", lambda *_: (nd.devices()[0], *others))
    return nd.CompilationBuilder(add_model()).finish()


def test_a_fallback_is_listed_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = FailingDevice()
    compilation = automatic(monkeypatch, failing)
    failing.error = OpFailed("broken")
    found = execution(compilation, X, X, reusable=True)
    found.compute()
    (step,) = found.receipt.steps
    assert (step.device, step.ran_on, step.fallback) == ("failing", "cpu", "broken")
    assert [(call.device, call.error) for call in step.calls] == [("failing", "broken"), ("cpu", "")]
    assert failing.executions == 1
    found.compute()  # the device has a pause
    assert [call.device for call in found.receipt.steps[0].calls] == ["cpu"]


def test_a_failed_execution_has_a_receipt() -> None:
    failing = FailingDevice()
    compilation = nd.CompilationBuilder(add_model(), [failing]).finish()
    failing.error = OpFailed("broken")
    found = execution(compilation, X, X)
    with pytest.raises(OpFailed, match="broken"):
        found.compute()
    (step,) = found.receipt.steps
    assert step.ran_on == ""
    assert [(call.device, call.error) for call in step.calls] == [("failing", "broken")]


def test_background_computations_keep_receipts_and_fenced_ones_do_not() -> None:
    compilation = nd.CompilationBuilder(add_model(), [nd.devices()[0]]).finish()
    found = execution(compilation, X, X, reusable=True)
    found.start_compute().wait()
    assert found.receipt.calls_of_devices == {"cpu": 1}
    with pytest.raises(BadState, match="keeps no receipt"):
        found.start_compute_with_dependencies([])
    with pytest.raises(BadState):
        found.enable_receipt(False)


def test_without_calls_a_receipt_is_empty() -> None:
    assert ExecutionReceipt(steps=(), duration_ns=0).calls_of_devices == {}


def test_receipts_of_many_executions_count_what_daemons_count() -> None:
    found, daemons, failed = counted(2000, threads=4)
    assert {name: count for name, count in found.items() if name != "cpu"} == daemons
    assert min(daemons.values()) >= 2000 - failed
    assert failed <= 20
