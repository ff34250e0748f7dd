"""What the rules of the contract share: a device with cases that it ran right, and how a rule says that it is broken."""

from collections.abc import Callable
from dataclasses import dataclass

from neurald.hal.device import Device, PreparedModel
from neurald.hal.errors import Error
from neurald.service.conformance.cases.case import Case
from neurald.service.conformance.cases.runner import Bound, execute_options, prepare_options, wrong


class Broken(Exception):
    """A device breaks a rule; the message says how."""


class Declined(Exception):
    """A device says no where it may; the message says why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """What rules are checked with.

    Attributes:
        device: that is checked.
        case: one that it supports, with outputs of several elements.
        others: more of them, of several operations.
        is_remote: it is behind a socket, where nothing that comes in can be trusted.
    """

    device: Device
    case: Case
    others: tuple[Case, ...] = ()
    is_remote: bool


def require(holds: bool, message: str) -> None:
    """Raises Broken with the message unless something holds."""
    if not holds:
        raise Broken(message)


def prepared_of(subject: Subject) -> PreparedModel:
    """A prepared model of the subject's case."""
    return subject.device.prepare_model(subject.case.model, prepare_options())


def require_right(subject: Subject, bound: Bound, prepared: PreparedModel, what: str) -> None:
    """Raises Broken unless an execution of the subject's case is right; the message begins with `what`."""
    result = prepared.execute(bound.request, execute_options())
    found = wrong(subject.case, bound, result)
    require(not found, f"{what}: {found}")


def require_error(call: Callable[[], object], what: str) -> None:
    """Raises Broken unless a call fails as calls may."""
    try:
        call()
    except Error:
        return
    raise Broken(f"{what}: it was accepted")
