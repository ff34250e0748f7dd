"""Every fault that a driver is known to have had, or could have, is found by a run with the default settings."""

import pytest
from support.faulty_drivers import FAULTS

from neurald.hal.operation_type import OperationType
from neurald.service.conformance.result import Outcome
from neurald.service.conformance.suite import Plan, run


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_found(name: str) -> None:
    fault = FAULTS[name]
    plan = Plan(operations=tuple(OperationType[each] for each in fault.operations))
    failed = []
    for result in run(fault.create(), plan):
        if result.outcome is Outcome.FAILED:
            if fault.says in f"{result.subject}, {result.label}: {result.detail}":
                return
            failed.append(f"{result.subject}, {result.label}: {result.detail}")
    raise AssertionError(f"{fault.says!r} is in none of {failed[:10]}")
