"""Cases between guard pages: good drivers pass, and faults are reported."""

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice, takewhile

import pytest
from support.daemon.processes import running_daemon
from support.devices.faulty_drivers import create_reading_past_constants
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import UnavailableDevice
from neurald.hal.model.operation_type import OperationType
from neurald.hal.registry import create_device
from neurald.service.conformance.cases.case import Case, signatures
from neurald.service.conformance.cases.variation import base_case, neighbours, structural_cases
from neurald.service.conformance.guard import run as guarded_run
from neurald.service.conformance.guard.run import GuardProcessRunner, encode_case, guard_runner_for
from neurald.service.conformance.operation_check import GUARD_PAGES
from neurald.service.conformance.result import CheckResult, Outcome
from neurald.service.conformance.suite import Plan, run

ADD, CONV, FLOOR = OperationType.ADD, OperationType.CONV_2D, OperationType.FLOOR


def cases_of(operation: OperationType, count: int) -> list[Case]:
    (signature, *_) = signatures((operation,))
    return list(islice(structural_cases(signature), count))


def with_constants(operation: OperationType, count: int = 1) -> Case:
    """Returns the first case of an operation with this number of constants."""
    (signature, *_) = signatures((operation,))
    first = base_case(signature)
    assert first is not None
    for case in neighbours(first):
        if sum(operand.location is not None for operand in case.model.main.operands) == count:
            return case
    raise AssertionError(f"no case of {operation.name} has {count} constants")


def results(
    device: nd.Device, driver: str, *operations: OperationType, thorough: bool = False
) -> list[CheckResult]:
    """Returns the results of operations, with guard pages and without."""
    plan = Plan(count=0, operations=operations, driver=driver, is_thorough=thorough)
    with closing(run(device, plan)) as found:
        return list(takewhile(lambda result: result.group != "contract", found))


def guarded_results(driver: str, *operations: OperationType) -> list[CheckResult]:
    found = results(create_device(driver), driver, *operations)
    return [result for result in found if result.group == GUARD_PAGES]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "operations"),
    [
        ("cpu", (FLOOR, OperationType.TRANSPOSE)),
        # It has hundreds of cases.
        pytest.param("cpu", (CONV,), marks=pytest.mark.full),
        ("sample-all", (ADD,)),
    ],
)
def test_good_drivers(driver: str, operations: tuple[OperationType, ...]) -> None:
    found = guarded_results(driver, *operations)
    assert {result.outcome for result in found} == {Outcome.PASSED}
    names = {result.subject for result in found}
    assert len(names) < len(found), "several cases of a signature"
    assert all(result.label.endswith(" (guard pages)") for result in found)


@pytest.mark.full
@pytest.mark.slow
def test_opencl() -> None:
    pytest.importorskip("pyopencl")
    try:
        create_device("opencl")
    except UnavailableDevice as error:
        pytest.skip(str(error))
    with closing(GuardProcessRunner("opencl", create_device("opencl").name)) as runs:
        assert [runs.find_error(case) for case in cases_of(ADD, 4) + cases_of(CONV, 4)] == [""] * 8


def test_every_constant_has_its_own_pool() -> None:
    case = with_constants(CONV, 2)
    model = case.model
    found = encode_case(case, 1.0)
    expected = [
        bytes(model.pools[location.pool].view(location.offset, location.length))
        for operand in model.main.operands
        if (location := operand.location) is not None
    ]
    assert len(model.pools) == 1
    assert len(expected) == 2
    assert list(found.constants) == expected
    assert [each.dimensions for each in found.inputs] == [value.shape for value in case.inputs]
    assert list(found.outputs) == [value.nbytes for value in case.expected]


@pytest.fixture
def reading_constants() -> Iterator[GuardProcessRunner]:
    with closing(
        GuardProcessRunner("support.devices.faulty_drivers:create_reading_past_constants", "faulty")
    ) as runs:
        yield runs


def test_the_next_case_runs_after_a_fault(reading_constants: GuardProcessRunner) -> None:
    wrong, right = with_constants(CONV), cases_of(ADD, 1)[0]
    texts = [reading_constants.find_error(case) for case in (right, wrong, right, wrong, wrong, right)]
    assert [bool(text) for text in texts] == [False, True, False, True, True, False]
    assert all(text == texts[1] for text in texts if text)


@pytest.mark.full
@pytest.mark.slow
def test_a_fault_is_only_reported_for_its_operation() -> None:
    driver = "support.devices.faulty_drivers:create_reading_past_constants"
    found = results(create_reading_past_constants(), driver, ADD, CONV)
    failed = [result for result in found if result.outcome is Outcome.FAILED]
    assert failed
    assert {result.operation for result in failed} == {"CONV_2D"}
    assert {result.group for result in failed} == {GUARD_PAGES}
    assert all("behind the end of constant" in result.detail for result in failed)


def test_a_fault_is_reproduced_by_its_case() -> None:
    driver = "support.devices.faulty_drivers:create_reading_past_an_input"
    (case, *_) = cases_of(ADD, 1)
    found = list(run(create_device(driver), Plan(operations=(ADD,), case=case.identifier, driver=driver)))
    assert [(result.group, result.outcome) for result in found] == [
        ("operations", Outcome.PASSED),
        (GUARD_PAGES, Outcome.FAILED),
    ]
    assert {result.case for result in found} == {case.identifier}


def test_thorough_runs_every_case_between_guard_pages() -> None:
    shares = []
    for thorough in (False, True):
        cases: dict[str, set[str]] = {GUARD_PAGES: set(), "operations": set()}
        for result in results(create_device("sample-all"), "sample-all", FLOOR, thorough=thorough):
            assert result.outcome is Outcome.PASSED
            cases[result.group].add(result.case)
        shares.append(len(cases[GUARD_PAGES]) / len(cases["operations"]))
    assert 0 < shares[0] < 0.5
    assert shares[1] == 1.0


@pytest.mark.timed
@pytest.mark.slow
def test_a_call_that_does_not_return_is_ended() -> None:
    began = time.monotonic()
    with closing(
        GuardProcessRunner("support.devices.faulty_drivers:create_waiting", "faulty", limit_s=0.2)
    ) as runs:
        text = runs.find_error(cases_of(ADD, 1)[0])
    assert text == "buffers before guard pages: execute: the call did not return within 0.2 s"
    assert time.monotonic() - began < 60


def test_the_number_of_processes_is_limited(
    reading_constants: GuardProcessRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_run, "_MAX_ENDED_PROCESSES", 2)
    wrong = with_constants(CONV)
    texts = [reading_constants.find_error(wrong) for _ in range(3)]
    assert [bool(text) for text in texts] == [True, True, False]
    assert texts[2] is None
    assert reading_constants.refusal == "not used any more after 2 processes had ended"


@sweep(
    ("driver", "reason"),
    [
        ("", "no driver is named"),
        ("no-such-driver", "there is no device 'no-such-driver'"),
        ("sample-quant", "'sample-quant' opens 'sample-quant' in another process"),
    ],
)
def test_the_reason_why_guard_pages_are_not_used(driver: str, reason: str) -> None:
    (found,) = (
        result
        for result in results(create_device("sample-all"), driver, FLOOR)
        if result.group == GUARD_PAGES
    )
    assert found.outcome is Outcome.DECLINED
    assert reason in found.detail


def test_daemons_have_no_guard_pages() -> None:
    with running_daemon(driver="sample-all") as address:
        device = nd.connect(address)
        runs = guard_runner_for(device, address)
        assert runs.refusal == "not used: the device is in another process, whose memory is not the suite's"
        assert runs.find_error(cases_of(ADD, 1)[0]) is None
        runs.close()
