"""Cases between guard pages: good drivers pass, faults are reported and survived."""

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
from neurald.service.conformance.cases.variation import base, neighbours, structural
from neurald.service.conformance.guard import run as guarded_run
from neurald.service.conformance.guard.run import ProcessRuns, guarded, guarded_runs
from neurald.service.conformance.operation_check import GUARD_PAGES
from neurald.service.conformance.result import Outcome, Result
from neurald.service.conformance.suite import Plan, run

ADD, CONV, FLOOR = OperationType.ADD, OperationType.CONV_2D, OperationType.FLOOR


def cases_of(operation: OperationType, count: int) -> list[Case]:
    (signature, *_) = signatures((operation,))
    return list(islice(structural(signature), count))


def with_constants(operation: OperationType, count: int = 1) -> Case:
    """The first case of an operation that has so many constants in a pool."""
    (signature, *_) = signatures((operation,))
    first = base(signature)
    assert first is not None
    for case in neighbours(first):
        if sum(operand.location is not None for operand in case.model.main.operands) == count:
            return case
    raise AssertionError(f"no case of {operation.name} has {count} constants")


def results(
    device: nd.Device, driver: str, *operations: OperationType, thorough: bool = False
) -> list[Result]:
    """Those of operations only, with guard pages and without."""
    plan = Plan(count=0, operations=operations, driver=driver, is_thorough=thorough)
    with closing(run(device, plan)) as found:
        return list(takewhile(lambda result: result.group != "contract", found))


def guarded_results(driver: str, *operations: OperationType) -> list[Result]:
    found = results(create_device(driver), driver, *operations)
    return [result for result in found if result.group == GUARD_PAGES]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["cpu", "sample-all"])
def test_good_drivers(driver: str) -> None:
    found = guarded_results(driver, FLOOR, CONV) if driver == "cpu" else guarded_results(driver, ADD)
    assert {result.outcome for result in found} == {Outcome.PASSED}
    names = {result.subject for result in found}
    assert len(names) < len(found), "several cases of a signature"
    assert all(result.label.endswith(" (guard pages)") for result in found)


@pytest.mark.slow
def test_opencl() -> None:
    pytest.importorskip("pyopencl")
    try:
        create_device("opencl")
    except UnavailableDevice as error:
        pytest.skip(str(error))
    with closing(ProcessRuns("opencl", create_device("opencl").name)) as runs:
        assert [runs.wrong(case) for case in cases_of(ADD, 4) + cases_of(CONV, 4)] == [""] * 8


def test_every_constant_has_a_pool_of_its_own() -> None:
    case = with_constants(CONV, 2)
    model = case.model
    found = guarded(case, 1.0)
    expected = [
        bytes(model.pools[place.pool].view(place.offset, place.length))
        for operand in model.main.operands
        if (place := operand.location) is not None
    ]
    assert len(model.pools) == 1
    assert len(expected) == 2
    assert list(found.constants) == expected
    assert [each.dimensions for each in found.inputs] == [value.shape for value in case.inputs]
    assert list(found.outputs) == [value.nbytes for value in case.expected]


@pytest.fixture
def reading_constants() -> Iterator[ProcessRuns]:
    with closing(
        ProcessRuns("support.devices.faulty_drivers:create_reading_past_constants", "faulty")
    ) as runs:
        yield runs


def test_the_next_case_runs_after_a_fault(reading_constants: ProcessRuns) -> None:
    wrong, right = with_constants(CONV), cases_of(ADD, 1)[0]
    texts = [reading_constants.wrong(case) for case in (right, wrong, right, wrong, wrong, right)]
    assert [bool(text) for text in texts] == [False, True, False, True, True, False]
    assert all(text == texts[1] for text in texts if text)


@pytest.mark.slow
def test_a_fault_of_one_operation_is_told_of_that_one_only() -> None:
    driver = "support.devices.faulty_drivers:create_reading_past_constants"
    found = results(create_reading_past_constants(), driver, ADD, CONV)
    failed = [result for result in found if result.outcome is Outcome.FAILED]
    assert failed
    assert {result.operation for result in failed} == {"CONV_2D"}
    assert {result.group for result in failed} == {GUARD_PAGES}
    assert all("behind the end of constant" in result.detail for result in failed)


def test_a_fault_is_had_again() -> None:
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


@pytest.mark.slow
def test_a_call_that_does_not_come_back_is_ended() -> None:
    began = time.monotonic()
    with closing(ProcessRuns("support.devices.faulty_drivers:create_waiting", "faulty", limit_s=0.2)) as runs:
        text = runs.wrong(cases_of(ADD, 1)[0])
    assert text == "buffers before guard pages: execute: it did not return within 0.2 s"
    assert time.monotonic() - began < 60


def test_processes_are_not_started_for_ever(
    reading_constants: ProcessRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_run, "_MAX_ENDS", 2)
    wrong = with_constants(CONV)
    texts = [reading_constants.wrong(wrong) for _ in range(3)]
    assert [bool(text) for text in texts] == [True, True, False]
    assert texts[2] is None
    assert reading_constants.refusal == "not used after the driver had ended 2 processes"


@sweep(
    ("driver", "reason"),
    [
        ("", "no driver is named"),
        ("no-such-driver", "there is no device 'no-such-driver'"),
        ("sample-quant", "'sample-quant' opens 'sample-quant' in another process"),
    ],
)
def test_what_keeps_guard_pages_from_being_used_is_told(driver: str, reason: str) -> None:
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
        runs = guarded_runs(device, address)
        assert runs.refusal == "not used: the device is in another process, whose memory is not the suite's"
        assert runs.wrong(cases_of(ADD, 1)[0]) is None
        runs.close()
