"""The subject of the contract's rules, and exceptions for violations and refusals."""

from collections.abc import Callable
from dataclasses import dataclass

from neurald.hal.device import Device, PreparedModel
from neurald.hal.errors import Error
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.runner import (
    BoundRequest,
    execute_options,
    find_error,
    prepare_options,
)


class RuleViolation(Exception):
    """A device violates a rule. The message says how."""


class Declined(Exception):
    """A rule does not apply to a device, or the device may refuse. The message says why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A device, with cases for checking rules.

    Attributes:
        device: the device to check.
        case: a case that the device passed, with several output elements.
        others: more cases that it passed, of several operations.
        is_remote: whether the device is in another process and must validate its input.
    """

    device: Device
    case: Case
    others: tuple[Case, ...] = ()
    is_remote: bool


def require(holds: bool, message: str) -> None:
    """Raises RuleViolation with a message unless a condition holds."""
    if not holds:
        raise RuleViolation(message)


def prepare_case(subject: Subject) -> PreparedModel:
    """Prepares the model of the subject's case."""
    return subject.device.prepare_model(subject.case.model, prepare_options())


def require_correct(subject: Subject, bound: BoundRequest, prepared: PreparedModel, what: str) -> None:
    """Executes the subject's case, and raises RuleViolation if the outputs are wrong.

    Args:
        subject: the subject.
        bound: the request for its case.
        prepared: the prepared model of its case.
        what: the situation, for the message.
    """
    result = prepared.execute(bound.request, execute_options())
    error = find_error(subject.case, bound, result)
    require(not error, f"{what}: {error}")


def require_error(call: Callable[[], object], what: str) -> None:
    """Calls a function, and raises RuleViolation unless it raises an `Error`."""
    try:
        call()
    except Error:
        return
    raise RuleViolation(f"{what}: it was accepted; expected an error")
