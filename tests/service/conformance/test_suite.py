"""The suite passes on good devices and detects faults of others."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing

import pytest
from support.daemon.processes import running_daemon
from support.devices.faulty import (
    Credulous,
    create_adding_one,
    create_credulous,
    create_forgetful,
    create_ignoring_deadlines,
    create_lying_about_shapes,
    create_misprofiling,
)
from support.devices.unrecorded import SampleDevice

import neurald as nd
from neurald.hal.device import Device
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.registry import create_device
from neurald.service.conformance.result import CheckResult, Outcome, count
from neurald.service.conformance.rules.contract import RULES
from neurald.service.conformance.suite import Plan, run

#: A few operations that cover every kind of check.
FEW = tuple(OperationType[name] for name in ("ADD", "SPLIT", "RESHAPE", "TOPK_V2"))


def failed(device: Device, *operations: OperationType) -> Generator[CheckResult]:
    """Yields failures as they are found, after which the rest may be left out."""
    with closing(run(device, Plan(count=0, operations=operations or FEW))) as results:
        yield from (result for result in results if result.outcome is Outcome.FAILED)


@pytest.mark.slow
def test_the_cpu_device_passes() -> None:
    results = list(run(create_device("cpu"), Plan(count=1, operations=FEW)))
    counts = count(results)
    assert not [r for r in results if r.outcome is Outcome.FAILED]
    assert counts["operations"][Outcome.PASSED] > 200
    assert counts["contract"][Outcome.PASSED] >= len(RULES) - 3


@pytest.mark.full
@pytest.mark.slow
def test_a_sample_driver_in_a_daemon_passes() -> None:
    shares: list[float] = []
    with running_daemon(driver="sample-all") as address:
        results = list(run(nd.connect(address), Plan(count=0, operations=FEW[:2]), shares.append))
    counts = count(results)
    assert not [result for result in results if result.outcome is Outcome.FAILED]
    assert counts["contract"][Outcome.PASSED] == len(RULES) - 1, (
        "all rules but one that cannot be observed from outside"
    )
    assert counts["invalid models"][Outcome.PASSED] > 100
    assert shares == sorted(shares)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("create", "subject", "detail"),
    [
        (create_adding_one, "ADD form 0, TENSOR_FLOAT32", "elements of TENSOR_FLOAT32 differ"),
        (create_lying_about_shapes, "ADD form 0, TENSOR_FLOAT32", "shape"),
        (create_ignoring_deadlines, "past deadlines", "execute: it ignored"),
        (create_forgetful, "cache", "no artifact is given"),
        (create_misprofiling, "profile", "kernel 'other' computes operations (99,); the model has 1"),
        (create_credulous, "ADD", "it was accepted"),
    ],
)
def test_faults_are_detected(create: Callable[[], Device], subject: str, detail: str) -> None:
    found: list[CheckResult] = []
    with closing(failed(create(), OperationType.ADD)) as failures:
        for result in failures:
            if result.subject.startswith(subject) and detail in result.detail:
                return
            found.append(result)
    raise AssertionError(found)


def test_a_device_must_not_prepare_an_operation_that_it_refuses() -> None:
    class Refusing(Credulous):
        def supported_operations(self, model: nd.Model) -> list[nd.Verdict]:
            return [nd.Verdict(ok=False, reason="no")] * len(model.main.operations)

    found = list(failed(Refusing("refusing"), OperationType.ADD))
    assert found
    assert all(
        result.detail == "the operation is reported as unsupported (no), but was prepared" for result in found
    )


def test_a_lost_device_ends_the_run() -> None:
    with running_daemon(driver="sample-all") as address:
        device = nd.connect(address)
    results = list(run(device, Plan(count=1)))
    assert len(results) == 3
    assert all(result.detail.startswith("DEAD_OBJECT") for result in results)


def test_operations_of_extensions_that_are_not_listed_are_declined() -> None:
    """A daemon does not ask its device about such operations, so the device is not at fault."""
    with running_daemon(driver="support.devices.vendors:create_without_tflite") as address:
        results = list(run(nd.connect(address), Plan(count=1, operations=(OperationType.TFLITE_FLOOR,))))
    found = [result for result in results if result.group == "operations"]
    assert found
    assert {result.outcome for result in found} == {Outcome.DECLINED}
    assert all("does not list the extension neurald.tflite" in result.detail for result in found)


def test_declared_extensions_must_be_listed() -> None:
    device = create_device("sample-all")
    device.extensions = ("neurald.tflite",)  # type: ignore[misc]
    with closing(run(device, Plan(operations=FEW))) as results:
        identity = next(result for result in results if result.subject == "identity")
    assert identity.outcome is Outcome.FAILED
    assert "org.neurald.sample must be declared once and listed" in identity.detail


LAYOUT = "nchw=True padding_scheme={} stride_width={} stride_height=1"


class ConstantWeights(SampleDevice):
    """Declines weights that are not constants, and all types but one, as many compilers do."""

    def supported_operations(self, model: nd.Model) -> Sequence[nd.Verdict]:
        return [self._verdict(each, model) for each in model.main.operations]

    def _verdict(self, operation: Operation, model: nd.Model) -> nd.Verdict:
        data, *weights = (model.main.operands[index] for index in operation.inputs[:2])
        if data.type is not OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
            return nd.Verdict(ok=False, reason=f"{data.type.name}")
        is_constant = all(model.constant(each) is not None for each in weights)
        return nd.Verdict(ok=is_constant, reason="" if is_constant else "the weights are no constants")


def test_devices_that_need_constant_weights_are_checked_with_them() -> None:
    results = list(run(ConstantWeights("constant weights"), Plan(operations=(OperationType.CONV_2D,))))
    assert not [each for each in results if each.outcome is Outcome.FAILED]
    passed = [each for each in results if each.outcome is Outcome.PASSED]
    signed = "T TENSOR_QUANT8_ASYMM_SIGNED, F TENSOR_QUANT8_ASYMM_SIGNED, B TENSOR_INT32"
    labels = {each.label for each in passed if each.types == signed and each.form == 1}
    whole = f"{LAYOUT.format(2, 2)} dilation_width=1 dilation_height=2, constant weights"
    assert whole in labels, "all cases, since it is the first row that the device accepts"
    assert {"base, constant weights", "activation=RELU6", "seed 0, constant weights"} <= labels
    assert any("other values" in label for label in labels), "models that differ in weights only"
    assert {each.group for each in passed} == {"operations", "contract"}
    declined = [each for each in results if each.detail == "the weights are no constants"]
    assert {each.outcome for each in declined} == {Outcome.DECLINED}


@pytest.mark.parametrize(
    "label",
    [
        "base",
        "base, constant weights",
        f"{LAYOUT.format(1, 1)} dilation_width=1 dilation_height=1, constant weights",
    ],
)
def test_a_case_with_constant_weights_is_had_again(label: str) -> None:
    identifier = f"CONV_2D:1:4:{label}"
    plan = Plan(operations=(OperationType.CONV_2D,), case=identifier)
    found = {each.case: each.outcome for each in run(ConstantWeights("constant weights"), plan)}
    constant = identifier.removesuffix(", constant weights") + ", constant weights"
    assert found[constant] is Outcome.PASSED
