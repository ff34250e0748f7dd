"""The process that runs cases between guard pages, and how its end is reported."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from support.process.processes import children

from neurald.hal.errors import UnavailableDevice
from neurald.hal.model.operation_type import OperationType
from neurald.service.conformance.cases.case import Case, signatures
from neurald.service.conformance.cases.variation import base_case, neighbours
from neurald.service.conformance.guard.fault_report import ProcessEnd
from neurald.service.conformance.guard.message import GuardedCase, Ran
from neurald.service.conformance.guard.process import GuardProcess
from neurald.service.conformance.guard.run import encode_case

Starting = Callable[[str], GuardProcess]


def case_of(operation: OperationType) -> Case:
    (signature, *_) = signatures((operation,))
    found = base_case(signature)
    assert found is not None
    return found


def with_constants(operation: OperationType) -> Case:
    return next(case for case in neighbours(case_of(operation)) if case.model.pools)


def addition() -> GuardedCase:
    return encode_case(case_of(OperationType.ADD), 30.0)


def guarded_processes() -> set[int]:
    return children("conformance/guard/worker.py")


@pytest.fixture
def starting() -> Iterator[Starting]:
    """Yields a function that starts processes, and closes them after the test."""
    before, started = guarded_processes(), []

    def start(driver: str) -> GuardProcess:
        started.append(GuardProcess(driver))
        return started[-1]

    yield start
    for process in started:
        process.close()
    assert guarded_processes() <= before


def test_cases_are_answered(starting: Starting) -> None:
    process = starting("sample-all")
    assert process.device == "sample-all"
    case = case_of(OperationType.ADD)
    for _ in range(2):
        found = process.run(encode_case(case, 30.0))
        assert isinstance(found, Ran)
        assert found.error == ""
        contents = [[output.content for output in outputs] for outputs in found.outputs]
        assert len(contents) == 2, "one execution for each placement"
        assert contents[0] == contents[1] == [value.tobytes() for value in case.expected]
        assert found.outputs[0][0].dimensions == case.expected[0].shape


def test_errors_of_a_driver_are_reported(starting: Starting) -> None:
    found = starting("sample-quant").run(addition())
    assert isinstance(found, Ran)
    assert found.error.startswith("BAD_DATA: ")
    assert found.placement == "before guard pages"


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        ("no-such-driver", "there is no device 'no-such-driver'"),
        ("support.no_such_module:create", "No module named 'support.no_such_module'"),
        ("os:abort", "the process ended with status -6"),
    ],
)
def test_a_device_that_cannot_be_opened(driver: str, message: str) -> None:
    before = guarded_processes()
    with pytest.raises(UnavailableDevice, match=message):
        GuardProcess(driver)
    assert guarded_processes() <= before


def test_the_output_of_a_driver_does_not_mix_with_answers(starting: Starting) -> None:
    assert isinstance(starting("support.devices.faulty_drivers:create_printing").run(addition()), Ran)


def test_a_killed_process(starting: Starting) -> None:
    before = guarded_processes()
    process = starting("sample-all")
    (number,) = guarded_processes() - before
    os.kill(number, signal.SIGKILL)
    found = process.run(addition())
    assert isinstance(found, ProcessEnd)
    assert (found.status, found.stage, found.fault, found.was_late) == (-9, None, None, False)


def test_the_stage_in_which_a_process_ended(starting: Starting) -> None:
    found = starting("support.devices.faulty_drivers:create_reading_past_constants").run(
        encode_case(with_constants(OperationType.CONV_2D), 30.0)
    )
    assert isinstance(found, ProcessEnd)
    assert found.stage is not None
    assert (found.stage.call, found.stage.placement) == ("prepare_model", "before guard pages")
    assert {region.name for region in found.stage.regions} >= {"constant 0"}
    assert found.fault is not None
    (missed,) = (each for each in found.stage.regions if each.start + each.size == found.fault.address)
    assert missed.name == "constant 0"


@pytest.mark.timed
@pytest.mark.slow
def test_a_call_that_does_not_return(starting: Starting) -> None:
    process = starting("support.devices.faulty_drivers:create_waiting")
    began = time.monotonic()
    found = process.run(encode_case(case_of(OperationType.ADD), 0.2))
    assert isinstance(found, ProcessEnd)
    assert found.was_late
    assert found.stage is not None
    assert found.stage.call == "execute"
    assert time.monotonic() - began < 60


@pytest.mark.timed
def test_a_descendant_that_keeps_the_pipes_open_is_not_waited_for(starting: Starting) -> None:
    process = starting("support.devices.faulty_drivers:create_forking")
    began = time.monotonic()
    found = process.run(encode_case(case_of(OperationType.ADD), 30.0))
    assert isinstance(found, ProcessEnd)
    assert found.status == -6
    assert time.monotonic() - began < 20
