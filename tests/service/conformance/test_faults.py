"""The suite detects every known fault of drivers with its default settings."""

import pytest
from support.devices.faulty_drivers import FAULTS

from neurald.hal.model.operation_type import OperationType
from neurald.service.conformance.result import Outcome
from neurald.service.conformance.suite import Plan, run

#: Faults that only the last rules detect, which take long, or only after many cases.
SLOW = {
    "ignores cancel",
    "ignores the deadline of a run",
    "keeps prepared models",
    "keeps constants",
    "first scale for all channels",
    "ignores keep_dims",
    "ignores align_corners",
    "takes RELU1 for RELU6",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in FAULTS]
)
def test_a_fault_is_detected(name: str) -> None:
    fault = FAULTS[name]
    plan = Plan(operations=tuple(OperationType[each] for each in fault.operations), driver=fault.driver)
    failed = []
    for result in run(fault.create(), plan):
        if result.outcome is Outcome.FAILED:
            if fault.says in f"{result.subject}, {result.label}: {result.detail}":
                return
            failed.append(f"{result.subject}, {result.label}: {result.detail}")
    raise AssertionError(f"{fault.says!r} is in none of {failed[:10]}")
