"""Common parts of the contract's rules: the subject, and exceptions for violations and refusals."""

from collections.abc import Callable
from dataclasses import dataclass

from neurald.hal.device import Device, PreparedModel
from neurald.hal.errors import Error
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.runner import Bound, execute_options, prepare_options, wrong


class Broken(Exception):
    """A device violates a rule; the message says how."""


class Declined(Exception):
    """A device permissibly refuses; the message says why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """Device and cases for checking rules.

    Attributes:
        device: the device to check.
        case: a case that it passed, with outputs of several elements.
        others: further cases, of several operations.
        is_remote: whether it is behind a socket, where it cannot trust its input.
    """

    device: Device
    case: Case
    others: tuple[Case, ...] = ()
    is_remote: bool


def require(holds: bool, message: str) -> None:
    """Raises Broken with the message unless `holds` is true."""
    if not holds:
        raise Broken(message)


def prepared_of(subject: Subject) -> PreparedModel:
    """Prepares the model of the subject's case."""
    return subject.device.prepare_model(subject.case.model, prepare_options())


def require_right(subject: Subject, bound: Bound, prepared: PreparedModel, what: str) -> None:
    """Raises Broken, prefixed with `what`, unless an execution of the subject's case is correct."""
    result = prepared.execute(bound.request, execute_options())
    found = wrong(subject.case, bound, result)
    require(not found, f"{what}: {found}")


def require_error(call: Callable[[], object], what: str) -> None:
    """Raises Broken unless a call raises an `Error`."""
    try:
        call()
    except Error:
        return
    raise Broken(f"{what}: it was accepted")
