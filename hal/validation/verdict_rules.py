"""Checks the verdicts of a driver on the operations of a model."""

from collections.abc import Iterable
from itertools import islice

from neurald.hal.api_arguments import shown
from neurald.hal.device import Verdict
from neurald.hal.errors import OpFailed
from neurald.hal.wording import MAX_DESCRIBED, shortened


def checked_verdicts(answer: object, operations: int, device: str) -> tuple[Verdict, ...]:
    """Returns what a driver's `supported_operations()` returned, after checking all of it.

    Args:
        answer: what it returned, of which no more is taken than there may be.
        operations: the number of operations of the model.
        device: the name of the device.

    Raises:
        OpFailed: it is not one verdict for each operation.
    """
    fault = f"{device}: the driver has a fault: supported_operations() returned"
    remedy = f"a Verdict(ok=…, reason=…) for each of {operations} operations is expected"
    if not isinstance(answer, Iterable):
        raise OpFailed(f"{fault} {shown(answer)}; {remedy}")
    verdicts = tuple(islice(answer, operations + 1))
    for kind in {type(each): each for each in verdicts}.values():
        if not isinstance(kind, Verdict):
            raise OpFailed(f"{fault} {shown(kind)} for an operation; {remedy}")
    if len(verdicts) != operations:
        count = len(verdicts) if len(verdicts) < operations else f"more than {operations}"
        raise OpFailed(f"{fault} {count} verdicts for {operations} operations")
    for ok, reason in {
        (type(each.ok), type(each.reason)): (each.ok, each.reason) for each in verdicts
    }.values():
        if not isinstance(ok, bool) or not isinstance(reason, str):
            raise OpFailed(
                f"{fault} a Verdict with ok={shown(ok)} and reason={shown(reason)}; True or False, and text, are "
                "expected"
            )
    if all(len(each.reason) <= MAX_DESCRIBED for each in verdicts):
        return verdicts
    return tuple(Verdict(ok=each.ok, reason=shortened(each.reason)) for each in verdicts)
